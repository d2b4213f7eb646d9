"""Reads XML files of other programs, within limits.

Most files here are only a tree of elements with attributes and line numbers, so text in elements is skipped
unless the caller asks for it. A document type could define entities that expand or that fetch other files, so
a file with one is refused unread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from tutti.topologies.errors import InputError, shortened
from tutti.topologies.files import read_text

MOST_XML = 2**27
"""Largest number of bytes that are read."""

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True, eq=False)
class Element:
    """One element of an XML file.

    Parameters
    ----------
    tag
        Its name.
    attributes
        As text, in the order of the file.
    path, line
        Where it begins, for errors.
    children
        The elements in it, in the order of the file.
    content
        The text in it, if it is read.
    """

    tag: str
    attributes: dict[str, str]
    path: str
    line: int
    children: list[Element] = field(default_factory=list, repr=False)
    content: list[str] = field(default_factory=list, repr=False)

    def each(self, *tags: str) -> Iterator[Element]:
        """Yield the children with one of these tags."""
        return (child for child in self.children if child.tag in tags)

    def error(self, text: str) -> InputError:
        """Return an error about this element, with its place."""
        return InputError(f"{self.path}, line {self.line}: <{shortened(self.tag)}> {text}")

    def text(self, name: str) -> str:
        """Return an attribute.

        Raises
        ------
        InputError
            If it is missing.
        """
        if name not in self.attributes:
            raise self.error(f"has no attribute '{name}'")
        return self.attributes[name]

    def integer(self, name: str, least: int, most: int, default: int | None = None) -> int:
        """Return an attribute that is a whole number within a range; `default` if it is missing.

        Raises
        ------
        InputError
            If it is no such number, or is missing and there is no default.
        """
        if default is not None and name not in self.attributes:
            return default
        text = self.text(name)
        if not _WHOLE_NUMBER.fullmatch(text) or not least <= int(text) <= most:
            raise self.error(
                f"has {name}={shortened(text)!r}; a whole number from {least} to {most} is expected"
            )
        return int(text)


def read_xml(path: Path | str, *, most_elements: int = 2**16, most_bytes: int = MOST_XML) -> Element:
    """Return the root element of an XML file.

    Parameters
    ----------
    path
        The file, in UTF-8 whatever it declares.
    most_elements, most_bytes
        The largest number of elements and of bytes that are read.

    Raises
    ------
    InputError
        If it can't be read, is no well-formed XML (naming the line), has a document type, or is too large.
    """
    return parse_xml(read_text(path, most_bytes), str(path), most_elements=most_elements)


def parse_xml(
    text: str,
    where: str,
    *,
    most_elements: int = 2**16,
    most_depth: int = 64,
    contents: bool = False,
) -> Element:
    """Return the root element of XML text; `where` names it in errors.

    With `contents` the text in elements is kept.

    Raises
    ------
    InputError
        As `read_xml`.

    Examples
    --------
    >>> system = parse_xml('<system version="1"><cpu numaid="0"/></system>', "text")
    >>> system.integer("version", 1, 2), [child.tag for child in system.children]
    (1, ['cpu'])
    """
    parser = expat.ParserCreate("utf-8")
    document = Element("", {}, where, 0)
    open_elements = [document]
    count = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        line = parser.CurrentLineNumber
        if count > most_elements:
            raise InputError(f"{where}, line {line}: too many elements; at most {most_elements} are read")
        if len(open_elements) > most_depth:
            raise InputError(f"{where}, line {line}: nested too deeply; at most {most_depth} levels are read")
        element = Element(tag, attributes, where, line)
        open_elements[-1].children.append(element)
        open_elements.append(element)

    def end(_tag: str) -> None:
        open_elements.pop()

    def within(part: str) -> None:
        open_elements[-1].content.append(part)

    def refuse(*_declaration: object) -> None:
        line = parser.CurrentLineNumber
        raise InputError(f"{where}, line {line}: a document type (<!DOCTYPE ...>) is not read; remove it")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = refuse
    if contents:
        parser.CharacterDataHandler = within
    try:
        parser.Parse(text.encode(), True)  # in one piece: in several, a long token is read again each time
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        unclosed = f" (is the file cut off? <{shortened(open_elements[-1].tag)}> is not closed)"
        cut = unclosed * (len(open_elements) > 1 and error.code == _ENDED)
        raise InputError(f"{where}, line {error.lineno}: not XML: {reason}{cut}") from None
    return document.children[0]


_ENDED = expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS]
