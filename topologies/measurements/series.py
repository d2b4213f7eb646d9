"""Measured times of one pair or of all ranks, and how rows become them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from tutti.topologies.errors import InputError, shortened
from tutti.topologies.exact import FloatArray

MOST_BYTES, MOST_SECONDS = 2.0**60, 1e9
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")


@dataclass(frozen=True, eq=False)
class MeasuredTimes:
    """Times of one pair of devices, or of all together.

    Parameters
    ----------
    pair
        Source and destination, by label; None where the table does not tell.
    what
        What was timed, in words.
    size, seconds, messages
        float64, shape (samples,): bytes, the time they took, and in how many messages they were sent, one
        after the other.
    link
        Whether one message over one route is timed, not a collective.
    notes
        What was left out of the table, and what it does not say.
    """

    pair: tuple[str, str] | None
    what: str
    size: FloatArray
    seconds: FloatArray
    messages: FloatArray
    link: bool
    notes: tuple[str, ...] = ()


@dataclass
class Samples:
    """Samples that are being read."""

    size: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    messages: list[float] = field(default_factory=list)
    bad: list[InputError] = field(default_factory=list)
    """An error for each row that is left out."""

    def add(self, size: float, seconds: float, place: str, messages: float = 1.0) -> None:
        """Add a sample.

        Raises
        ------
        InputError
            If it is out of range.
        """
        if not 0 <= size <= MOST_BYTES:
            raise InputError(f"{place}: {size:g} bytes; from 0 to 2^60 are expected")
        if not 0 < seconds <= MOST_SECONDS:
            raise InputError(
                f"{place}: {seconds:g} seconds; above 0 and at most {MOST_SECONDS:g} are expected"
            )
        if not (1 <= messages <= MOST_BYTES and messages.is_integer()):
            raise InputError(f"{place}: {messages:g} messages; a whole number from 1 to 2^60 is expected")
        self.size.append(size)
        self.seconds.append(seconds)
        self.messages.append(messages)

    def left_out(self) -> list[str]:
        """Return a note of the rows that are left out, if any are."""
        if not self.bad:
            return []
        more = f"; and {len(self.bad) - 3} more" if len(self.bad) > 3 else ""
        return [f"rows left out: {'; '.join(map(str, self.bad[:3]))}{more}"]

    def series(
        self, pair: tuple[str, str] | None, what: str, *, link: bool, notes: tuple[str, ...] = ()
    ) -> MeasuredTimes:
        """Return the samples as arrays."""
        all_notes = (*notes, *self.left_out())
        size, seconds, messages = map(np.array, (self.size, self.seconds, self.messages))
        return MeasuredTimes(pair, what, size, seconds, messages, link, all_notes)


def number(word: str, place: str) -> float:
    """Return a finite number of a table.

    Raises
    ------
    InputError
        If it is none.
    """
    if not _NUMBER.fullmatch(word):
        raise InputError(f"{place}: {shortened(word)!r} is not a finite number")
    return float(word)


def is_number(word: str) -> bool:
    """Whether a word of a table is a number, or says that there is none."""
    return word == "N/A" or _NUMBER.fullmatch(word) is not None
