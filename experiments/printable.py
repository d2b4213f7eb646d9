"""What is printed: a name may hold characters that steer a terminal, and these are written out."""

from __future__ import annotations

from typing import TextIO


def printable(text: str) -> str:
    r"""Return a text on one line, each character in it that does not print as its escape.

    Examples
    --------
    >>> printable("\x1b[31mred\n")
    '\\x1b[31mred\\n'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def say(text: str, file: TextIO | None = None) -> None:
    """Print a line at once, by default on standard output."""
    print(printable(text), file=file, flush=True)
