"""The player in Chromium: plays, pauses and steps, and shows the simulator's messages."""

import numpy as np
import pytest

import tutti
from tutti.experiments.show.page import page_of
from tutti.topologies.text import parse_topology

pytestmark = pytest.mark.browser

STATE = """() => ({
  time: +document.body.dataset.time,
  told: [...document.querySelectorAll("#now li")].map((li) => [+li.dataset.message, +li.dataset.link]),
  busy: [...document.querySelectorAll(".player .link.busy")].map((path) => +path.dataset.link),
  parcels: document.querySelectorAll(".parcel").length,
  slider: +document.getElementById("time").value,
  clock: document.getElementById("clock").textContent,
  play: document.getElementById("play").textContent,
})"""

LANES = """() => [...document.querySelectorAll(".lane")].map((lane) => [
  lane.firstChild.textContent,
  [...lane.querySelectorAll(".bar")].map(({ style }) => [parseFloat(style.left), parseFloat(style.width)]),
])"""


def state(tab):
    return tab.evaluate(STATE)


def later(tab, time):
    """Wait until the player is past a time."""
    while state(tab)["time"] <= time:
        tab.wait_for_timeout(20)


@pytest.fixture(scope="module")
def result():
    return tutti.synthesize("torus:3x3", size="1MB", method="ring")


@pytest.fixture(scope="module")
def opened(visit, result):
    return visit(result.show())


@pytest.fixture
def tab(opened):
    """The player of `result`, at its start."""
    opened.locator("h1").click()
    opened.keyboard.press("Home")
    return opened


@pytest.mark.parametrize(
    ("network", "method"), [("torus:3x3", "ring"), ("mesh:3x3", "tacos"), ("dgx_a100:2", "forestcoll")]
)
def test_at_each_moment_it_shows_the_simulators_messages(visit, network, method):
    made = tutti.synthesize(network, size="1MB", method=method)
    frame = made.messages()
    tab = visit(made.show())
    moments = sorted({0.0, made.time, *frame["start"], *frame["end"]})
    for moment in moments[:12]:
        seen = state(tab)
        assert seen["time"] == moment
        now = frame[(frame["start"] <= moment) & (moment < frame["end"])]
        assert sorted(seen["told"]) == sorted(map(list, zip(now["message"], now["link"], strict=True)))
        assert sorted(seen["busy"]) == sorted(now["link"])
        assert seen["parcels"] == len(now)
        tab.keyboard.press("ArrowRight")


def test_the_gantt_chart_has_a_bar_for_each_message_where_it_is(tab, result):
    frame = result.messages()
    lanes = tab.evaluate(LANES)
    topology = result.schedule.topology
    assert len(lanes) == frame["link"].nunique()
    for (name, bars), (link, own) in zip(lanes, frame.groupby("link"), strict=True):
        assert name == topology.link_name(link)
        shares = 100 * np.stack([own["start"], own["end"] - own["start"]], axis=1) / result.time
        assert np.array(bars) == pytest.approx(shares, abs=1e-3)


def test_it_plays_and_pauses_by_mouse_and_by_keyboard(tab, result):
    tab.get_by_role("button", name="Play").click()
    later(tab, 0)
    tab.get_by_role("button", name="Pause").click()
    paused = state(tab)
    assert paused["play"] == "Play"
    assert 0 < paused["time"] < result.time
    tab.wait_for_timeout(60)
    assert state(tab)["time"] == paused["time"]
    tab.locator("h1").click()  # which takes the focus from the button
    tab.keyboard.press("Space")
    later(tab, paused["time"])
    tab.keyboard.press("Space")
    assert state(tab)["play"] == "Play"


def test_it_steps_by_mouse_and_by_keyboard(tab, result):
    moments = sorted({0.0, *result.messages()["start"], *result.messages()["end"]})
    for act, time in [
        (lambda: tab.get_by_role("button", name="Step forward").click(), moments[1]),
        (lambda: tab.keyboard.press("ArrowRight"), moments[2]),
        (lambda: tab.get_by_role("button", name="Step back").click(), moments[1]),
        (lambda: tab.keyboard.press("ArrowLeft"), 0.0),
        (lambda: tab.keyboard.press("ArrowLeft"), 0.0),
        (lambda: tab.keyboard.press("End"), result.time),
        (lambda: tab.keyboard.press("Home"), 0.0),
        (lambda: tab.get_by_role("button", name="To the end").click(), result.time),
        (lambda: tab.get_by_role("button", name="To the start").click(), 0.0),
    ]:
        act()
        assert state(tab)["time"] == time


def test_the_slider_sets_the_time(tab, result):
    box = tab.get_by_role("slider").bounding_box()
    tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    seen = state(tab)
    assert seen["time"] == pytest.approx(result.time / 2, rel=0.05)
    assert seen["slider"] == pytest.approx(1000 * seen["time"] / result.time)
    tab.keyboard.press("Home")  # of the slider, which has the focus
    assert state(tab)["time"] == 0


def test_the_data_of_one_rank_can_be_followed(tab, result):
    tab.get_by_label("Data of").select_option("rank 4")
    busy = state(tab)["busy"]
    assert set(result.schedule.topology.source[busy]) == {4}  # at first only rank 4 has it
    tab.get_by_label("Data of").select_option("every rank")


@pytest.mark.parametrize("network", ["torus:3x3", "dgx_a100:2"])
def test_a_phone_scrolls_down_only(visit, network):
    played = tutti.synthesize(network, size="1MB", method="ring").show()
    for page in (played, page_of(parse_topology(network))):
        tab = visit(page, 390, 844)
        assert tab.evaluate("document.documentElement.scrollWidth") == 390
        assert tab.locator("svg.net").first.bounding_box()["width"] <= 390


def test_the_first_screen_has_the_network_the_controls_and_the_chart(tab):
    assert tab.locator(".gantt").bounding_box()["y"] < 700


def test_arrow_keys_go_through_links_and_nodes(visit):
    """One link, from 0 to 1, and two ranks: what pointing at each says."""
    tab = visit(page_of(parse_topology("mesh:2x1?bandwidth=25GB/s&alpha=2us")))
    told = tab.get_by_role("status")
    tab.keyboard.press("Tab")
    for key, text in [
        ("ArrowRight", "0->1: 25GB/s, α 2 µs"),
        ("ArrowDown", "1->0: 25GB/s, α 2 µs"),
        ("ArrowRight", "rank 0"),
        ("End", "rank 1"),
        ("ArrowRight", "rank 1"),
        ("Home", "0->1: 25GB/s, α 2 µs"),
        ("Tab", ""),
    ]:
        tab.keyboard.press(key)
        assert told.text_content() == text


def test_in_the_player_arrow_keys_on_the_network_do_not_step(tab, result):
    tab.locator(".player .net").focus()
    tab.keyboard.press("ArrowRight")
    assert state(tab)["time"] == 0
    assert tab.locator(".player .told").text_content().startswith(result.schedule.topology.link_name(0))


def test_of_a_loaded_network_the_busiest_link_comes_first(visit):
    tab = visit(tutti.synthesize("mesh:3x1", "broadcast", size="1MB", method="forestcoll").show())
    tab.locator(".net.loaded").focus()
    tab.keyboard.press("ArrowRight")
    assert "carries 1 MB" in tab.locator("section:not(.player) .told").text_content()
