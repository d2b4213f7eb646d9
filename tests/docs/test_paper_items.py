"""The page on the papers' items: it has every numbered item, and names files that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/paper_items.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S))
CHAPTER_3, CHAPTER_4, CHAPTER_5 = (
    f"Dissertation, {chapters}"
    for chapters in ("chapters 2 and 3 and appendix A", "chapter 4 and appendix B", "chapter 5")
)


def rows(section):
    """The cells of every row below the heads."""
    lines = [line for line in SECTIONS[section].splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in lines[2:]]


def numbered(kind, names):
    return {f"{kind} {name}" for name in names}


def up_to(last, before=""):
    return [f"{before}{number}" for number in range(1, last + 1)]


ROMAN = ("I", "II", "III", "IV", "V", "VI")
# What the texts number, by their lists of figures and tables and by what they state.
ITEMS = {
    "TACOS, MICRO 2024": numbered("Fig.", up_to(21))
    | numbered("Table", ROMAN[:5])
    | numbered("Algorithm", "12"),
    "TACOS, 2023": numbered("Fig.", up_to(24)) | numbered("Table", ROMAN),
    "TACCL": numbered("Fig.", up_to(11)) | numbered("Table", "123") | {"Listing 1"},
    CHAPTER_3: numbered("Fig.", up_to(11, "3.") + up_to(9, "A."))
    | numbered("Table", ["2.1", *up_to(6, "3."), *up_to(3, "A.")])
    | numbered("Theorem", up_to(22))
    | {"Conjecture 1"},
    CHAPTER_4: numbered("Fig.", up_to(14, "4.") + up_to(3, "B."))
    | numbered("Table", ["4.1", "B.1", "B.2"])
    | numbered("Theorem", range(23, 36))
    | numbered("Algorithm", up_to(5)),
    CHAPTER_5: numbered("Fig.", up_to(2, "5.")),
}


@pytest.mark.parametrize("section", ITEMS)
def test_every_numbered_item_has_a_row(section):
    named = {re.match(r"(\w+\.? [\w.]*\w|)", cells[0])[0] for cells in rows(section)}
    assert ITEMS[section] - named == set()


@pytest.mark.parametrize("section", SECTIONS)
def test_an_item_is_in_the_tree_or_the_row_says_why_not(section):
    assert rows(section)
    for item, where, checked, left_out in rows(section):
        assert item
        assert where or left_out, item
        assert checked or left_out, item


def test_files_that_the_page_names_exist():
    named = set(re.findall(r"`([\w.-]+(?:/[\w.-]+)+)`", TEXT))
    assert len(named) > len(SECTIONS)
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []
