"""The messages that add up a part of the vector at its roots and spread the sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tutti.heuristics.one_shot.roots import DimensionalNetwork, Roots, RootSet, RootSpacing
from tutti.schedules.schedule import NO_COPY
from tutti.topologies.exact import BoolArray, Int64Array, IntArray


class MessageKeys:
    """Keys of messages, which say over which links they may go.

    From u to its neighbour w: u N + w. From u to the nearest of some ranks, and from that one to u:
    (N + 2 number + 0 or 1) N + u.
    """

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks

    def between(self, source: IntArray, target: IntArray) -> Int64Array:
        """Return the keys of messages from ranks to neighbouring ranks."""
        return source.astype(np.int64) * self.ranks + target

    def inward(self, near: RootSet, rank: IntArray) -> Int64Array:
        """Return the keys of messages to the nearest of these."""
        return (self.ranks + 2 * near.number) * self.ranks + rank.astype(np.int64)

    def outward(self, near: RootSet, rank: IntArray) -> Int64Array:
        """Return the keys of messages from the nearest of these."""
        return self.inward(near, rank) + self.ranks


class OneShotPart(NamedTuple):
    """A part of an item, as arrays: how it is added up and spread.

    Parameters
    ----------
    copy_of
        int64, shape (chunks,): the chunk, numbered 0, and its copies.
    chunk, toward, step
        int64: the messages that are added: their chunk, key (`MessageKeys`) and step.
    along, target, later
        int64: the messages that spread the sum: their key, target and step.
    held
        int64, shape (ranks,): the copy that each last root ends with.
    """

    copy_of: Int64Array
    chunk: Int64Array
    toward: Int64Array
    step: Int64Array
    along: Int64Array
    target: Int64Array
    later: Int64Array
    held: Int64Array


class Move(NamedTuple):
    """A move of all lines of a dimension together.

    Parameters
    ----------
    dimension, roots
        The dimension of the lines, and the roots there.
    hops
        Ranks this far from the nearest root send what they have added up towards it; 0: the roots add up;
        below 0: ranks this far behind the nearest root receive the sum.
    """

    dimension: int
    roots: Roots
    hops: int

    @property
    def steps(self) -> int:
        """The number of steps of this move."""
        return 1 if self.hops else self.roots.steps

    def taking(self, before: BoolArray) -> BoolArray:
        """Return which coordinates take part after it, given those that do before."""
        near = self.roots.all
        if not self.hops:
            return near.after == 0
        return before ^ (near.before == self.hops if self.hops > 0 else near.after == -self.hops)


def moves_of(dimension: int, roots: Roots, shape: RootSpacing) -> list[Move]:
    """Return the moves of a dimension, in their order."""
    gathered = range(shape.radius if shape.gathers else 0, 0, -1)
    exchanged = [0] if shape.apart != 0 else []
    return [
        Move(dimension, roots, hops) for hops in (*gathered, *exchanged, *range(-1, -shape.radius - 1, -1))
    ]


def part_of(network: DimensionalNetwork, moves: Sequence[Move]) -> OneShotPart:
    """Return a part that goes through the dimensions by these moves.

    The moves of the dimensions may alternate: those that take part are the products of the coordinates that
    do in each, and what a line does is the same whatever the other dimensions have added up. Only copies must
    all have been made before the sum is spread.
    """
    made = _Making(network)
    for move in moves:
        made.make(move)
    return made.part()


class _Making:
    """A part while it is made: the ranks that take part by now, what each holds, and the steps so far."""

    def __init__(self, network: DimensionalNetwork) -> None:
        ranks = len(network.hops)
        self.network, self.ways = network, MessageKeys(ranks)
        self.active = [np.ones(line.size, dtype=bool) for line in network.line]
        self.held, self.steps = np.zeros(ranks, dtype=np.int64), 0
        self.copy_of = [np.array([NO_COPY])]
        self.sums, self.copies = ([np.zeros((3, 0), dtype=np.int64)] for _ in range(2))

    def make(self, move: Move) -> None:
        """Do what all lines of a dimension do."""
        dimension, near = move.dimension, move.roots.all
        before, self.active[dimension] = self.active[dimension], move.taking(self.active[dimension])
        if not move.hops:
            self._exchange(self._taking(dimension, before), dimension, move.roots)
            return
        rank = self._taking(dimension, before ^ self.active[dimension])
        if len(rank):
            self.steps += 1
            step = np.full(len(rank), self.steps)
            if move.hops > 0:
                self.sums.append(np.stack([self.held[rank], self.ways.inward(near, rank), step]))
            else:
                self.copies.append(np.stack([self.ways.outward(near, rank), rank, step]))

    def part(self) -> OneShotPart:
        """Return the part with all sums and copies so far."""
        chunk, toward, step = np.concatenate(self.sums, axis=1)
        along, target, later = np.concatenate(self.copies, axis=1)
        return OneShotPart(np.concatenate(self.copy_of), chunk, toward, step, along, target, later, self.held)

    def _taking(self, dimension: int, coordinates: BoolArray) -> Int64Array:
        """Return the ranks that take part and have these coordinates there."""
        taking = np.ones(len(self.held), dtype=bool)
        for other, active in enumerate(self.active):
            taking &= (coordinates if other == dimension else active)[self.network.place[other]]
        return np.flatnonzero(taking)

    def _exchange(self, rank: Int64Array, dimension: int, roots: Roots) -> None:
        """Add up in each clique of a line what all ranks that take part in it have.

        A rank on the path sends when the ones behind it have. What was added up before continues in a copy
        for each clique.
        """
        place, chunk = self.network.place[dimension, rank], self.held[rank]
        if roots.copies:
            labels, which = np.unique(chunk, return_inverse=True)
            chunk = sum(map(len, self.copy_of)) + which
        for near in roots.cliques:
            far = near.before[place]
            rows = np.stack([chunk, self.ways.inward(near, rank), self.steps + roots.deepest - far + 1])
            self.sums.append(rows[:, far > 0])
            for coordinate in near.coordinates:
                others = (far == 0) & (place != coordinate)
                key = self.ways.between(rank[others], self.network.at(rank[others], dimension, coordinate))
                step = np.full(len(key), self.steps + roots.deepest + 1)
                self.sums.append(np.stack([chunk[others], key, step]))
            self.held[rank[far == 0]] = chunk[far == 0]
            if roots.copies:
                self.copy_of.append(labels)
                chunk = chunk + len(labels)
        self.steps += roots.steps
