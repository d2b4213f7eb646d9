"""Rules decide a list schedule: how long messages may last and which goes first; several are tried in turn.

A message may last as long as a share of the time that has passed, or of the time that is left, whichever is
shorter: so at the beginning data is soon where other links wait for it, in the middle there are few messages
and little α, and at the end the last ones are soon through (guided self-scheduling: Polychronopoulos, Kuck,
IEEE Trans. Computers 1987). What must be sent on many times is cut smaller than what has arrived.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum


class First(IntEnum):
    """Which of the pieces that wait for a link goes first."""

    FARTHEST = 0
    """Those that must still be sent on most often; of these the first of their chunks."""

    MIXED = 1
    """Those whose place in the chunk, counted in hops, and hops to come say that they are late."""

    IN_TURN = 2
    """The first of all chunks, then the second; of these those that must be sent on most often."""


@dataclass(frozen=True)
class Rules:
    """How a list schedule is made.

    Parameters
    ----------
    pieces
        About so many in all of M.
    share
        Of the time passed, or left, that a message may last.
    least
        A message may last so long in any case, in units of the square root of the time times α.
    weight
        By 1 + weight times the hops to come the message's share is divided.
    first
        Which goes first.
    filling
        Whether the time passed counts; False: only the time left.
    """

    pieces: int
    share: float = 0.2
    least: float = 0.2
    weight: float = 1.0
    first: First = First.FARTHEST
    filling: bool = True

    def neighbours(self) -> Iterator[Rules]:
        """Yield the rules that differ a little from these, in one thing each."""
        yield replace(self, share=self.share * 2)
        yield replace(self, share=self.share / 2)
        yield from (replace(self, weight=weight) for weight in (0.0, 1.0, 3.0) if weight != self.weight)
        yield replace(self, least=self.least * 2)
        yield replace(self, least=self.least / 2)
        yield from (replace(self, first=first) for first in First if first != self.first)
        yield replace(self, pieces=self.pieces * 2)
        yield replace(self, pieces=self.pieces // 2)
        yield replace(self, filling=not self.filling)
