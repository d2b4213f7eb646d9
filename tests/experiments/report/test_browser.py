"""The page of a run in Chromium: what one chooses is what its charts show."""

import pytest

from tests.experiments.report.test_page import row, write_run
from tutti.experiments.runner.config import KINDS

pytestmark = pytest.mark.browser

AXIS = """() => document.querySelector('[data-chart="algbw"]').textContent"""


@pytest.fixture
def tab(browser, tmp_path):
    """Two methods at two sizes, compared with ring: bfb is 1.25 times as fast."""
    rows = [
        row(method=m, time_us=t, size_bytes=s, busbw_gbps=75.0, seed=seed)
        for m, t, seed in (("ring", 10.0, 0), ("ring", 15.0, 1), ("bfb", 8.0, None))
        for s in (10**6, 10**9)
    ]
    run = write_run(tmp_path / "run", rows, {"settings": {"baseline": "ring"}})
    tab = browser.new_page(viewport={"width": 1280, "height": 800})
    said = []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.goto(KINDS["schedules"].draw(run).as_uri())
    yield tab
    tab.close()
    assert said == []


def test_the_chart_against_size_shows_what_is_chosen(tab):
    chart = tab.locator('[data-chart="algbw"]')
    chart.scroll_into_view_if_needed()
    for choice, title in (("algbw", "algbw (GB/s)"), ("busbw", "busbw (GB/s)"), ("speedup", "speed-up")):
        tab.locator("#pick-measure").select_option(choice)
        chart.get_by_text(title, exact=True).wait_for()
    assert chart.get_attribute("aria-label").startswith("speed-up over ring against size")


def test_the_seeds_of_a_method_are_a_band(tab):
    chart = tab.locator('[data-chart="algbw"]')
    chart.scroll_into_view_if_needed()
    chart.locator("svg").wait_for()
    assert chart.locator(".mark-area path").count() == 1


def test_the_links_of_a_drawn_network_are_told_by_keyboard(tab):
    """ring:3: the bound feels links, which come first."""
    tab.locator("svg.network").first.focus()
    tab.keyboard.press("ArrowRight")
    assert tab.locator("svg.network .felt.chosen").count() == 1
    assert "GB/s" in tab.locator(".told").first.text_content()
