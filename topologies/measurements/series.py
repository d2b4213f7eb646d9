"""Measured times of one pair or of all ranks, and the rows that they are made from."""

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
    """Times between one pair of devices, or of a collective among all.

    Parameters
    ----------
    pair
        Labels of source and destination; None if the table has none.
    what
        A description of what was timed.
    size, seconds, messages
        float64, shape (samples,): bytes, their time, and the number of messages in which they were sent, one
        after the other.
    link
        Whether one message over one route is timed, not a collective.
    notes
        Remarks on rows that were left out and on what the table lacks.
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
    """The samples of a table that is being read."""

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

    def extend(self, other: Samples) -> None:
        """Add the samples of another table, and its rows that are left out."""
        self.size += other.size
        self.seconds += other.seconds
        self.messages += other.messages
        self.bad += other.bad

    def series(
        self, pair: tuple[str, str] | None, what: str, *, link: bool, notes: tuple[str, ...] = ()
    ) -> MeasuredTimes:
        """Return the samples as arrays, with a note on the rows that are left out, if there are any."""
        if self.bad:
            more = f"; and {len(self.bad) - 3} more" if len(self.bad) > 3 else ""
            notes = (*notes, f"rows left out: {'; '.join(map(str, self.bad[:3]))}{more}")
        size, seconds, messages = map(np.array, (self.size, self.seconds, self.messages))
        return MeasuredTimes(pair, what, size, seconds, messages, link, notes)


def number(word: str, place: str) -> float:
    """Return a finite number of a table.

    Raises
    ------
    InputError
        If the word is no finite number.
    """
    if not _NUMBER.fullmatch(word):
        raise InputError(f"{place}: {shortened(word)!r} is not a finite number")
    return float(word)


def is_number(word: str) -> bool:
    """Whether a word of a table is a number, or N/A for none."""
    return word == "N/A" or _NUMBER.fullmatch(word) is not None
