"""The lines of tools' output, without what terminals and launchers add to them.

A terminal's marks (``ESC[4m``) stay in what is copied from it, often without the ESC. Launchers put a tag
before each line: ``[1,0]<stdout>:`` (mpirun), ``[0]`` (Hydra), ``0:`` (srun -l), a host, a pod, the time. The
text before the head of a table is the tag. All lines with the same tag form one stream.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_MARKS = re.compile(
    r"(?:(?:\x1b|\^\[|\\(?:033|x1b|e|u001b)|\u241b|\ufffd)\[[0-?]*[ -/]*[@-~])"
    r"|\[(?:[0-9;]{1,8}m|m(?![A-Za-z0-9_]))"
)
"""Colour and style codes of a terminal, with ESC in any of its spellings or without it."""
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
    r"|(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} {1,2}[0-9]{1,2} [0-9]{2}:[0-9]{2}:[0-9]{2}(?: [0-9]{4})?"
    r"|[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?|(?<![0-9.])[0-9]+\.[0-9]{3,}(?![0-9.])"
)
_ANY_TIME = f"(?:{_TIME.pattern})"


class LogLine(NamedTuple):
    """A line of a file, from 1, without marks and tag."""

    number: int
    text: str


def plain_lines(text: str) -> list[LogLine]:
    """Return the lines of a text without a terminal's marks.

    Examples
    --------
    >>> [line.text for line in plain_lines("[4mGPU0[0m GPU1")]
    ['GPU0 GPU1']
    """
    lines = _MARKS.sub("", text.removeprefix("\ufeff")).splitlines()  # spreadsheets write it first
    return [LogLine(number, line) for number, line in enumerate(lines, start=1)]


def streams(lines: list[LogLine], head: Callable[[str], int | None]) -> list[list[LogLine]]:
    r"""Return the lines of each tag, without the tag. The tags are in the order of their heads.

    Parameters
    ----------
    lines
        The lines of the file.
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
    tags = _Tags()
    for line in lines:
        at = head(line.text)
        if at is not None and at <= 200:  # the most characters of a tag
            tags.add(line.text[:at].strip())
    if list(tags.number) == [""]:
        return [lines]
    result: list[list[LogLine]] = [[] for _ in tags.number]
    for line in lines:
        which, end = tags.match(line.text)
        if which is not None:
            result[which].append(LogLine(line.number, line.text[end:]))
        elif len(result) == 1:  # perhaps a row that lost its tag
            result[0].append(line)
    return result


class _Tags:
    """The tags before heads, each with its number; a time in one stands for any time."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}
        self.lengths: list[int] = []
        self.timed: list[tuple[re.Pattern[str], int]] = []

    def add(self, tag: str) -> None:
        """Add the tag before a head."""
        name = _TIME.sub("\0", tag)
        if name not in self.number:
            number = self.number.setdefault(name, len(self.number))
            if name == tag:
                self.lengths = sorted({*self.lengths, len(tag)}, reverse=True)
            else:
                parts = map(re.escape, name.split("\0"))
                self.timed.append((re.compile(r"\s*" + _ANY_TIME.join(parts)), number))

    def match(self, text: str) -> tuple[int | None, int]:
        """Return the number of the longest tag that begins a line (or None), and where the tag ends."""
        start = len(text) - len(text.lstrip())
        for length in self.lengths:
            number = self.number.get(text[start : start + length])
            if number is not None:
                return number, start + length
        found = ((number, match.end()) for pattern, number in self.timed if (match := pattern.match(text)))
        return next(found, (None, 0))
