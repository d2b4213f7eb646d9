"""One Chromium for the tests marked ``browser``: the system's own, which is never downloaded."""

import os
import shutil
from importlib.util import find_spec

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def browser():
    """Skip where there is no Chromium, but with TUTTI_BROWSER=1 fail."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None or find_spec("playwright") is None:
        why = f"no browser: {'playwright' if path else ' or '.join(NAMES)} is not installed"
        (pytest.fail if os.environ.get("TUTTI_BROWSER") == "1" else pytest.skip)(why)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path)
        yield chromium
        chromium.close()


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
