"""The page: one file that loads nothing, in the browser or below a notebook's cell."""

import json
import re
import sys
from html import unescape
from types import SimpleNamespace

import pytest

import tutti
from tutti.experiments.show import drawing, page
from tutti.schedules.verify import VerificationError
from tutti.topologies.topology import Link, Topology
from tutti.topologies.units import format_size


@pytest.fixture(scope="module")
def result():
    return tutti.synthesize("ring:4", size="1MB", method="ring")


@pytest.fixture
def opened(monkeypatch):
    """What the browser was asked to open."""
    found = []
    monkeypatch.setattr(page.webbrowser, "open", found.append)
    return found


def data(made):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', made.html)[1])


def test_it_loads_nothing_and_says_so(result):
    html = unescape(result.show().html)
    assert "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\"" in html
    assert not re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?\w""", html)
    assert "eval(" not in html


def test_the_players_data_are_the_results_messages(result):
    held = data(result.show())
    assert held["time"] == result.time
    bars = {(message, link, begin, end) for message, link, begin, end, *_ in held["bars"]}
    frame = result.messages()
    assert bars == set(zip(frame["message"], frame["link"], frame["start"], frame["end"], strict=True))


def test_labels_cannot_end_the_script():
    topology = Topology.from_links("</script>", 2, [Link(0, 1), Link(1, 0)], labels=["</script><b>", "<!--"])
    made = page.schedule_page(tutti.synthesize(topology, method="direct").schedule)
    assert data(made)["ranks"] == ["</script><b>", "<!--"]
    assert made.html.count("</script>") == 3


def test_a_network_has_no_player():
    html = tutti.show("dgx_a100:2").html
    assert "16 ranks, 3 switches, 64 links" in html
    assert 'id="data"' not in html
    assert html.count("<tr>") == 64 + 1


def test_too_many_messages_are_one_sentence_and_the_loads(result, monkeypatch):
    monkeypatch.setattr(page, "MOST_BARS", 3)
    html = result.show().html
    assert page.TOO_MUCH in html
    assert 'id="data"' not in html
    assert 'class="net loaded"' in html


def test_too_many_links_are_one_sentence(result, monkeypatch):
    monkeypatch.setattr(page, "MOST_LINKS", drawing.LEVELS)
    html = result.show().html
    assert "Networks of up to 5 links are drawn; here are 8." in html
    assert "<svg" not in html


def test_a_notebook_gets_a_frame_without_a_file(result, monkeypatch, opened):
    shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=None))
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setenv("DISPLAY", ":0")
    frame = result.show()._repr_html_()
    assert frame.startswith("<iframe ")
    assert "&lt;!DOCTYPE html&gt;" in frame
    assert opened == []


def test_a_browser_is_opened_where_there_is_a_display(result, tmp_path, monkeypatch, opened):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    path = tmp_path / "x.html"
    assert result.show(path).html == path.read_text(encoding="utf-8")
    assert opened == []
    monkeypatch.setenv("DISPLAY", ":0")
    result.show(path)
    assert opened == [path.as_uri()]


def test_show_verifies(result):
    wrong = result.schedule.replace(chunk=result.schedule.chunk[::-1].copy())
    with pytest.raises(VerificationError):
        tutti.show(wrong)


def test_the_path_of_a_schedule_is_enough(result, tmp_path):
    result.save(tmp_path / "x.json")
    assert tutti.show(tmp_path / "x.json").html == result.show().html


def test_the_size_is_that_which_was_asked_for(result):
    assert "M = 1MB," in tutti.show(result).html
    assert "M = 64MB," in tutti.show(result, "64MB").html
    timed = tutti.synthesize("ring:4", size="3MB", method="tacos").schedule
    assert f"M = {format_size(timed.size)}," in tutti.show(timed).html
