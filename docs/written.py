"""The hand-written part of a method's page, docs/methods/NAME.md, which `generate` completes."""

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "methods"
SECTIONS = ("Algorithm", "Guarantees", "Cost", "When to use it")
"""Sections of every page, in this order."""
KEYS = ("network", "collective", "size")
"""Keys of a page's example, in lines ``key: value`` between two lines ``---`` on top."""


@dataclass(frozen=True)
class Written:
    """The content of a file.

    Parameters
    ----------
    example
        The keys on top.
    lead
        A description of the method in three sentences.
    sections
        The texts of the sections by their titles, in order.
    """

    example: dict[str, str]
    lead: str
    sections: dict[str, str]


def read(name: str) -> Written:
    """Return the hand-written part of a method's page.

    Raises
    ------
    ValueError
        If the file does not have the template's sections, in their order, each with text.
    FileNotFoundError
        If there is none.
    """
    path = FOLDER / f"{name}.md"
    top, text = re.fullmatch(r"(?:---\n(.*?)---\n)?(.*)", path.read_text(encoding="utf-8"), re.S).groups()
    example = dict(line.split(": ", 1) for line in (top or "").splitlines())
    lead, *parts = re.split(r"^## (.*)\n", text, flags=re.M)
    sections = {title: part.strip() for title, part in zip(parts[::2], parts[1::2], strict=True)}
    if tuple(sections) != SECTIONS or not all([lead.strip(), *sections.values()]):
        found, wanted = ", ".join(sections), ", ".join(SECTIONS)
        raise ValueError(f"{path}: its sections are {found}; they must be {wanted}, each with text")
    if not set(example) <= set(KEYS):
        raise ValueError(f"{path}: the lines on top may be {', '.join(KEYS)}")
    return Written(example, lead.strip(), sections)
