"""The pictures of docs/concepts.md: all are used, well-formed, said in words, and to scale."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/concepts.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pictures():
    import concept_pictures

    return dict(concept_pictures.write())


def test_the_page_shows_all_pictures(pictures):
    assert set(re.findall(r"^:file: generated/(\w+)\.html$", PAGE, flags=re.M)) == set(pictures)


def test_every_picture_has_a_text_alternative_and_a_caption(pictures):
    for name, text in pictures.items():
        for figure in ET.fromstring(text).iter("figure"):
            svg, caption = figure
            assert svg.get("role") == "img", name
            assert svg.get("aria-label"), name
            assert caption.text, name


def test_bars_are_to_scale():
    """By hand: of an axis to 10, a bar from 2.5 to 7.5 is half, and begins at a quarter."""
    from concept_pictures import LEFT, WIDTH, Bar, _lanes

    (bar,) = ET.fromstring(_lanes([("a lane", [Bar(2.5, 7.5, 1)])], 10, "s", "said")).iter("rect")
    whole = WIDTH - LEFT - 24
    assert float(bar.get("width")) == pytest.approx(whole / 2, abs=0.1)
    assert float(bar.get("x")) == pytest.approx(LEFT + whole / 4, abs=0.1)


def test_what_is_narrow_is_written_in_a_tooltip_alone():
    from concept_pictures import Bar, _lanes

    svg = ET.fromstring(_lanes([("a lane", [Bar(0, 0.01, 1, "a long <text>")])], 10, "s", "said"))
    assert [title.text for title in svg.iter("title")] == ["a long <text>"]
    assert "a long <text>" not in [text.text for text in svg.iter("text")]
