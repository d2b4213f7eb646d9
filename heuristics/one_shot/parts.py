"""What is sent when, to add up a part of the vector at its roots and to spread the sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from heuristics.one_shot.roots import Network, Roots
from schedules.schedule import NO_COPY
from topologies.exact import Int64Array, IntArray


class Ways:
    """Keys of messages, which say over which links they may go.

    From u to w: u N + w. From u to the nearest root, and from it to u: (N + 2 number + 0 or 1) N + u.
    """

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks

    def between(self, source: Int64Array, root: Int64Array) -> Int64Array:
        """Return the keys of messages from ranks to ranks."""
        return source * self.ranks + root

    def inward(self, roots: Roots, rank: IntArray) -> Int64Array:
        """Return the keys of messages to the nearest roots."""
        return (self.ranks + 2 * roots.number) * self.ranks + rank.astype(np.int64)

    def outward(self, roots: Roots, rank: IntArray) -> Int64Array:
        """Return the keys of messages from the nearest roots."""
        return self.inward(roots, rank) + self.ranks


class Part(NamedTuple):
    """How a part of an item is added up and spread, as arrays.

    Parameters
    ----------
    copy_of
        int64, shape (chunks,): the chunk, numbered 0, and its copies.
    chunk, toward, step
        int64: the messages that are added: what, with which key (`Ways`), in which step.
    along, target, later
        int64: those with which the sum is spread: with which key, to whom, in which step.
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


def part_of(network: Network, phases: Sequence[tuple[int, Roots]], nested: bool) -> Part:
    """Return how a part goes through some dimensions, with these roots in each.

    Parameters
    ----------
    network
        Which.
    phases
        The dimensions in their order.
    nested
        All gather before any exchanges; else each spreads before the next begins, and all have to gather.
    """
    made = _Making(network)
    for group in [phases] if nested else [[phase] for phase in phases]:
        fewer = []
        for dimension, roots in group:
            if roots.gathers:
                fewer.append((dimension, roots, made.taking))
                made.gather(dimension, roots)
        for dimension, roots in group:
            if not roots.gathers:
                fewer.append((dimension, roots, made.taking))
            made.exchange(dimension, roots)
        for dimension, roots, before in reversed(fewer):
            made.spread(dimension, roots, before)
    return made.part()


class _Making:
    """A part as it is made: who takes part by now, what each of them holds, and the steps so far."""

    def __init__(self, network: Network) -> None:
        ranks = len(network.hops)
        self.network, self.ways = network, Ways(ranks)
        self.taking, self.held, self.steps = np.arange(ranks), np.zeros(ranks, dtype=np.int64), 0
        self.copy_of = [np.array([NO_COPY])]
        self.sums, self.copies = ([np.zeros((3, 0), dtype=np.int64)] for _ in range(2))

    def gather(self, dimension: int, roots: Roots) -> None:
        """Add up at the nearest roots what all in a line have; they alone take part then."""
        far = roots.before[self.network.place[dimension, self.taking]]
        self._sum(self.held[self.taking], self.ways.inward(roots, self.taking), far)
        self.taking = self.taking[far == 0]

    def exchange(self, dimension: int, roots: Roots) -> None:
        """Add up at each root of a line what all who take part in it have."""
        count = len(roots.coordinates)
        labels, which = np.unique(self.held[self.taking], return_inverse=True)
        source, root = (side.ravel() for side in np.meshgrid(self.taking, roots.coordinates, indexing="ij"))
        root = self.network.at(source, dimension, root)
        far = self.network.hops[source, root].astype(np.int64)
        chunk = np.repeat(self.held[self.taking], count)
        # What was added up before goes on in a copy for each root; in one, where all exchange it in one step.
        if count > 1 and far.max() > 1:
            chunk = sum(map(len, self.copy_of)) + (np.arange(count) + (which * count)[:, None]).ravel()
            self.copy_of.append(np.repeat(labels, count))
        self._sum(chunk, self.ways.between(source, root), far)
        self.taking = source[far == 0]
        self.held[self.taking] = chunk[far == 0]

    def spread(self, dimension: int, roots: Roots, before: Int64Array) -> None:
        """Send from the nearest roots what they have to those who took part before them."""
        far = roots.after[self.network.place[dimension, before]]
        rows = np.stack([self.ways.outward(roots, before), before, self.steps + far])
        self.copies.append(rows[:, far > 0])
        self.steps += int(far.max())
        self.taking = before

    def part(self) -> Part:
        """Return all of it."""
        chunk, toward, step = np.concatenate(self.sums, axis=1)
        along, target, later = np.concatenate(self.copies, axis=1)
        return Part(np.concatenate(self.copy_of), chunk, toward, step, along, target, later, self.held)

    def _sum(self, chunk: Int64Array, key: Int64Array, far: Int64Array) -> None:
        """Send messages that have so far to go; those on the way send when the ones behind them have."""
        step = self.steps + far.max() - far + 1
        self.sums.append(np.stack([chunk, key, step])[:, far > 0])
        self.steps += int(far.max())
