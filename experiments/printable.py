"""Texts for a terminal: a name may hold characters that steer it, and these are written out."""

from __future__ import annotations

import sys
from typing import TextIO

MOST_CHARACTERS = 300
"""The most characters of an error message. A larger value leaves more of a long name in it."""
CUT = "..."
"""Stands for what is left out of a long error message."""


def printable(text: str) -> str:
    r"""Return a text on one line, each character in it that does not print as its escape.

    Examples
    --------
    >>> printable("\x1b[31mred\n")
    '\\x1b[31mred\\n'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def complaint(text: str) -> str:
    """Return an error message as it is printed: on one line, and without its middle if it is too long.

    The start names the command and the file, and the end says what is wrong or allowed.

    Examples
    --------
    >>> message = complaint("tutti: " + 10_000 * "x" + ".json: no such file")
    >>> len(message), message[:10], message[-20:]
    (300, 'tutti: xxx', 'x.json: no such file')
    """
    shown = printable(text)
    if len(shown) <= MOST_CHARACTERS:
        return shown
    head = (MOST_CHARACTERS - len(CUT)) // 2
    return f"{shown[:head]}{CUT}{shown[head + len(CUT) - MOST_CHARACTERS :]}"


def say(text: str, file: TextIO | None = None) -> None:
    """Print a line, by default on standard output, without delay."""
    print(printable(text), file=file, flush=True)


def remark(text: str) -> None:
    """Print a line about what the command does, such as a note, on standard error."""
    say(f"tutti: {text}", sys.stderr)
