"""The lines of tools' output, without what terminals and launchers add to them.

A terminal's marks (``ESC[4m``) stay in what is copied from it, often without the ESC. Launchers put a tag
before each line: ``[1,0]<stdout>:`` (mpirun), ``[0]`` (Hydra), ``0:`` (srun -l), a host, a pod, the time. The
tag is what stands before the head of a table. Lines of one tag are one stream.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_MARKS = re.compile(
    r"(?:(?:\x1b|\^\[|\\(?:033|x1b|e|u001b)|\u241b|\ufffd)\[[0-?]*[ -/]*[@-~])|\[[0-9;]{0,8}m"
)
"""Marks of a terminal: with an ESC in any of the ways to write it, or without it."""
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
    r"|(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} {1,2}[0-9]{1,2} [0-9]{2}:[0-9]{2}:[0-9]{2}(?: [0-9]{4})?"
    r"|[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?|[0-9]+\.[0-9]{3,}"
)
_ANY_TIME = f"(?:{_TIME.pattern})"
_LONGEST_TAG = 200


class Line(NamedTuple):
    """A line of a file, from 1, without marks and tag."""

    number: int
    text: str


def plain_lines(text: str) -> list[Line]:
    """Return the lines of a text without a terminal's marks.

    Examples
    --------
    >>> [line.text for line in plain_lines("[4mGPU0[0m GPU1")]
    ['GPU0 GPU1']
    """
    lines = _MARKS.sub("", text.removeprefix("\ufeff")).splitlines()  # spreadsheets begin files so
    return [Line(number, line) for number, line in enumerate(lines, start=1)]


def streams(lines: list[Line], head: Callable[[str], int | None]) -> list[list[Line]]:
    r"""Return the lines of each tag, without it; in the order in which their heads come.

    Parameters
    ----------
    lines
        Of the file.
    head
        Returns where in a line the head of a table begins, or None. What stands before it is the tag.

    Examples
    --------
    >>> def head(line):
    ...     return line.index("#") if "#" in line else None
    >>> lines = plain_lines("0: # size\n1: # size\n0: 8\n1: 9")
    >>> [[line.text for line in stream] for stream in streams(lines, head)]
    [[' # size', ' 8'], [' # size', ' 9']]
    """
    found: dict[str, re.Pattern[str]] = {}
    for line in lines:
        at = head(line.text)
        if at is not None and at <= _LONGEST_TAG:
            words = _TIME.sub("\0", line.text[:at]).split()
            parts = [_ANY_TIME.join(map(re.escape, word.split("\0"))) for word in words]
            found.setdefault(" ".join(words), re.compile(r"\s*" + r"\s+".join(parts)))
    if list(found) == [""]:
        return [lines]
    result: dict[str, list[Line]] = {tag: [] for tag in found}
    for line in lines:
        matches = {tag: match for tag, pattern in found.items() if (match := pattern.match(line.text))}
        if matches:
            tag = max(matches, key=len)
            result[tag].append(Line(line.number, line.text[matches[tag].end() :]))
        elif len(found) == 1:  # perhaps a row that lost its tag
            result[next(iter(found))].append(line)
    return list(result.values())
