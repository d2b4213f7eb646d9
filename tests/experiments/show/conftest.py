"""Pages opened in Chromium."""

import pytest


@pytest.fixture(scope="module")
def visit(browser, tmp_path_factory):
    """A function that opens a page at a width; what pages say on the console fails the last test."""
    said = []
    context = browser.new_context(reduced_motion="no-preference")
    folder = tmp_path_factory.mktemp("pages")

    def go(page, width=1280, height=800):
        path = folder / f"{len(list(folder.iterdir()))}.html"
        page.save(path)
        tab = context.new_page()
        tab.set_viewport_size({"width": width, "height": height})
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.goto(path.as_uri())
        return tab

    yield go
    context.close()
    assert said == []
