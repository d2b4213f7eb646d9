"""What rails bring to a rank, piece by piece: the same to all ranks at the same time, and waiting for nobody.

A rank needs the shards of the P - 1 others of its rail. A *piece* is a part of one of them. Its sender is so
many planes before the receiver. Pieces get smaller towards the end, so that the plane is soon through with
the last.

* Through a switch a rank has one link for all. Messages follow each other without a gap. A rank that has
  begun to get the first c shards, its own and those of the planes before it, gets the next ones from the rank
  c planes before, as far as that has them by then. So there are few messages, about as many as a postal tree
  has levels (Bar-Noy, Kipnis, SPAA 1992), as it takes twice α to get what the next can be sent α later.
* With a link from every other rank of the rail, all owners send at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from topologies.exact import FloatArray, Int64Array

ROUNDING = 1e-12
"""Of the time: what is that late is in time."""


class Rail(NamedTuple):
    """P planes, shards of so many units; seconds a unit and α of a link; whether there is a switch."""

    planes: int
    shard: int
    seconds: float
    alpha: float
    switched: bool


class Sizes(NamedTuple):
    """A message has this `share` of what is left, but at least `least` units, if there are so many."""

    share: float
    least: int


@dataclass(frozen=True, eq=False)
class Feed:
    """The pieces by arrival; the first is a rank's own shard, which it has.

    Parameters
    ----------
    start, arrive
        Seconds, shape (pieces,). Pieces of one message start together.
    hop
        int64: from how many planes before; 0 for the own shard.
    owner
        int64: whose it is, of how many planes before.
    low, high
        int64: the units of that shard.
    """

    start: FloatArray
    arrive: FloatArray
    hop: Int64Array
    owner: Int64Array
    low: Int64Array
    high: Int64Array

    @property
    def size(self) -> Int64Array:
        """Units of each piece."""
        return self.high - self.low


_Piece = tuple[float, float, int, int, int, int]


def feed(rail: Rail, sizes: Sizes) -> Feed:
    """Return what a rank is brought."""
    own: _Piece = (0.0, 0.0, 0, 0, 0, rail.shard)
    pieces = [own, *(_in_turn(rail, sizes) if rail.switched else _at_once(rail, sizes))]
    times, whose = zip(*((piece[:2], piece[2:]) for piece in pieces), strict=True)
    return Feed(*np.array(times).T.copy(), *np.array(whose, dtype=np.int64).T.copy())


def _in_turn(rail: Rail, sizes: Sizes) -> list[_Piece]:
    """Return the pieces through a switch: their shards follow each other, the nearest owner's first."""
    pieces: list[_Piece] = []
    arrived = [(0.0, rail.shard)]  # when, and up to which unit of all shards in that order
    free, cut, whole, known = 0.0, rail.shard, rail.planes * rail.shard, 0
    while cut < whole:
        while known + 1 < len(arrived) and arrived[known + 1][0] <= free * (1 + ROUNDING):
            known += 1
        hop = cut // rail.shard
        until = min(whole, hop * rail.shard + arrived[known][1])
        end = min(until, cut + max(sizes.least, int(sizes.share * (whole - cut)), 1))
        start, free = free, free + rail.alpha + (end - cut) * rail.seconds
        arrive = free + rail.alpha
        for owner in range(hop, -(-end // rail.shard)):
            low, high = max(cut - owner * rail.shard, 0), min(end - owner * rail.shard, rail.shard)
            pieces.append((start, arrive, hop, owner, low, high))
        arrived.append((arrive, end))
        cut = end
    return pieces


def _at_once(rail: Rail, sizes: Sizes) -> list[_Piece]:
    """Return the pieces over links from all owners."""
    pieces: list[_Piece] = []
    free, cut = 0.0, 0
    while cut < rail.shard:
        end = min(rail.shard, cut + max(sizes.least, int(sizes.share * (rail.shard - cut)), 1))
        start, free = free, free + rail.alpha + (end - cut) * rail.seconds
        pieces += [(start, free, hop, hop, cut, end) for hop in range(1, rail.planes)]
        cut = end
    return pieces
