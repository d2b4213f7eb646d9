"""The moves of the dimensions of a network, what is sent in them, and the order in which they are made.

The links that a line uses when it moves do not depend on the progress of the other dimensions; only the
number of lines that move does. So the parts of a vector are spread over orders such that in every step as
many different moves as possible are made. The state of a part is the progress of each dimension. Each part
takes the cheapest path through the lattice of states, where a link that is busy for L costs s (2 L + t) as in
`method`, and all parts choose again a few times. On a mesh of k dimensions the first step then takes 1 / k of
the vector over a link, the second 1 / 2 k, and so on to the middle and back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tutti.heuristics.one_shot.roots import TUNING, DimensionalNetwork, Roots, RootSet, RootSpacing
from tutti.schedules.schedule import NO_COPY
from tutti.topologies.exact import BoolArray, FloatArray, Int64Array, IntArray, offsets_of
from tutti.topologies.kernels import kernel


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
        self.network, self.keys = network, MessageKeys(ranks)
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
                self.sums.append(np.stack([self.held[rank], self.keys.inward(near, rank), step]))
            else:
                self.copies.append(np.stack([self.keys.outward(near, rank), rank, step]))

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
            rows = np.stack([chunk, self.keys.inward(near, rank), self.steps + roots.deepest - far + 1])
            self.sums.append(rows[:, far > 0])
            for coordinate in near.coordinates:
                others = (far == 0) & (place != coordinate)
                key = self.keys.between(rank[others], self.network.at(rank[others], dimension, coordinate))
                step = np.full(len(key), self.steps + roots.deepest + 1)
                self.sums.append(np.stack([chunk[others], key, step]))
            self.held[rank[far == 0]] = chunk[far == 0]
            if roots.copies:
                self.copy_of.append(labels)
                chunk = chunk + len(labels)
        self.steps += roots.steps


Lines = Sequence[Sequence[Move]]
"""The moves of a dimension for an item in each of its places."""


class Orders:
    """Orders in each of which the moves of a dimension keep their order.

    Where some dimension makes copies of sums, the sum is spread after all have added up.

    Parameters
    ----------
    network
        The network.
    lines
        The lines of each dimension, for the orders whose numbers are 0, 1, ... modulo its length; an item in
        one place suffices where moves don't alternate.
    count
        Largest number of orders, a multiple of that length.
    """

    def __init__(self, network: DimensionalNetwork, lines: Sequence[Sequence[Lines]], count: int) -> None:
        self.network, self.lines, self.count = network, lines, count
        self.moves = [[own[0] for own in alike] for alike in lines]
        self.late = not all(move.roots.gathers for own in self.moves[0] for move in own)

    @property
    def alternate(self) -> bool:
        """Whether moves of dimensions can alternate, and are not too many."""
        states = math.prod(len(own) + 1 for own in self.moves[0])
        several = len(self.lines) > 1 and any(len(own) > 1 for own in self.moves[0])
        return (
            several
            and states <= TUNING.largest
            and max(line.size for line in self.network.line) <= TUNING.longest
        )

    def phases(self) -> list[Int64Array]:
        """Return orders in which dimensions move in phases, or one after the other.

        Returns
        -------
        list[Int64Array]
            Shape (orders, moves): the dimension that moves.
        """
        both = len(self.lines) > 1 and not self.late
        return [self.nested(), self.one_by_one()] if both else [self.nested()]

    def nested(self) -> Int64Array:
        """Return orders in which all dimensions gather, then all add up, then all spread."""
        return self._turned(lambda move: -np.sign(move.hops))

    def one_by_one(self) -> Int64Array:
        """Return orders in which each dimension ends before the next begins."""
        return self._turned(lambda move: 0)

    def _turned(self, phase: Callable[[Move], int]) -> Int64Array:
        """Return orders by phases; dimensions follow each other in each, and turn back in the last."""
        k, orders = len(self.lines), []
        for first, moves in enumerate(self.moves):
            turn = [(first + i) % k for i in range(k)]
            order = sorted(
                (phase(move), place if phase(move) < 1 else -place, d)
                for place, d in enumerate(turn)
                for move in moves[d]
            )
            orders.append([d for *_, d in order])
        return np.array(orders, dtype=np.int64)

    def alternating(self, pieces: int) -> Int64Array:
        """Return orders, for pieces that follow each other by a step, that use links evenly in every step."""
        orders = np.zeros((self.count, self._lattice.number[0].sum()), dtype=np.int64)
        steps = int(self._lattice.steps.sum(axis=(1, 2)).max()) + pieces
        _choose(self._lattice, pieces, steps, orders, TUNING.order_rounds)
        return orders

    @cached_property
    def _lattice(self) -> _Lattice:
        """The moves of the dimensions, as the search for paths needs them."""
        k, network = len(self.lines), self.network
        number = np.array([[len(own) for own in alike] for alike in self.moves])
        added = np.array([[sum(move.hops >= 0 for move in own) for own in alike] for alike in self.moves])
        steps = np.zeros((k, k, number.max()), dtype=np.int64)
        for i, alike in enumerate(self.moves):
            for d, own in enumerate(alike):
                steps[i, d, : len(own)] = [move.steps for move in own]
        linked = [np.argwhere(line.hops == 1).T for line in network.line]
        used = np.zeros((*steps.shape, steps.max(), max(own.shape[1] for own in linked)))
        busy = np.ones((k, k, number.max() + 1))
        for i, same in enumerate(self.lines):
            for d, lines in enumerate(same):
                parts = []
                for moves in lines:
                    parts.append([np.ones(len(moves[0].roots.all.before), dtype=bool)])
                    for move in moves:
                        parts[-1].append(move.taking(parts[-1][-1]))
                busy[i, d, : number[i, d] + 1] = np.mean(parts, axis=0).max(axis=1)
                for p in range(number[i, d]):
                    each = _used(linked[d], [own[p] for own in lines])
                    used[i, d, p, : len(each), : each.shape[1]] = each * network.slowness[d]
        where = np.nonzero(used)
        begin = offsets_of(np.count_nonzero(used, axis=-1).ravel())
        rows = np.arange(len(begin) - 1).reshape(used.shape[:-1])
        return _Lattice(
            steps, number, added, self.late, busy, rows, begin, where[-1], used[where], used.shape[-1]
        )


class _Lattice(NamedTuple):
    """The dimensions' moves, for each class of orders.

    Parameters
    ----------
    steps
        int64, shape (classes, dimensions, moves): the number of steps of a move.
    number, added
        int64, shape (classes, dimensions): the number of moves, and of moves until all have added up.
    late
        Whether the sum is spread after all have added up.
    busy
        float64, shape (classes, dimensions, moves + 1): the fraction of items in which the busiest coordinate
        takes part, before each move and after.
    row, begin, link, seconds
        The links that a move uses in a step, and for how many seconds a byte, in CSR form; the shape of row
        is (classes, dimensions, moves, steps).
    links
        Largest number of links in a dimension.
    """

    steps: Int64Array
    number: Int64Array
    added: Int64Array
    late: bool
    busy: FloatArray
    row: Int64Array
    begin: Int64Array
    link: Int64Array
    seconds: FloatArray
    links: int


def _used(linked: Int64Array, moves: Sequence[Move]) -> FloatArray:
    """Return the fraction of all items for which each link of a line is used in each step of a move."""
    source, target = linked
    used = np.zeros((max(move.steps for move in moves), len(source)))
    for move in moves:
        near, deepest = move.roots.all, move.roots.deepest
        if move.hops > 0:
            used[0] += _nearer(source, target, near.before, move.hops)
        elif move.hops < 0:
            used[0] += _nearer(target, source, near.after, -move.hops)
        for clique in () if move.hops else move.roots.cliques:
            for hops in range(deepest, 0, -1):
                used[deepest - hops] += _nearer(source, target, clique.before, hops)
            if len(clique.coordinates) > 1:
                used[deepest] += np.isin(source, clique.coordinates) & np.isin(target, clique.coordinates)
    return used / len(moves)


def _nearer(source: Int64Array, target: Int64Array, far: Int64Array, hops: int) -> FloatArray:
    """Return the fraction that each rank `hops` hops away sends over each link that leads nearer."""
    closer = (far[source] == hops) & (far[target] == hops - 1)
    parts: FloatArray = closer / np.maximum(np.bincount(source, closer, minlength=len(far)), 1)[source]
    return parts


@kernel
def _choose(lattice: _Lattice, pieces: int, steps: int, orders: Int64Array, rounds: int) -> None:
    """Let each order take its cheapest path through the lattice, of at most `steps`, `rounds` times."""
    k = len(lattice.steps)
    load = np.zeros((steps, k, lattice.links))
    until = np.zeros_like(load)  # the load of all steps before each
    best = np.zeros(np.prod(lattice.number[0] + 1), dtype=np.int64)
    stride, at = np.ones(k, dtype=np.int64), np.zeros(k, dtype=np.int64)
    for turn in range(rounds):
        for row in range(len(orders)):
            for d in range(k - 1, 0, -1):
                stride[d - 1] = stride[d] * (lattice.number[row % k, d] + 1)
            if turn > 0:
                _add(lattice, row % k, orders[row], -1.0, pieces, load, at)
            for step in range(1, len(load)):
                until[step] = until[step - 1] + load[step - 1]
            _search(lattice, row, stride, pieces, until, at, best)
            state = 0
            for move in range(len(orders[row])):
                orders[row, move] = best[state]
                state += stride[best[state]]
            _add(lattice, row % k, orders[row], 1.0, pieces, load, at)


@kernel
def _search(
    lattice: _Lattice,
    row: int,
    stride: Int64Array,
    pieces: int,
    until: FloatArray,
    at: Int64Array,
    best: Int64Array,
) -> None:
    """Find which dimension moves best in each state; of equal ones a different one for each row."""
    k = len(at)
    i, cost = row % k, np.zeros(len(best))
    for state in range(len(best) - 2, -1, -1):
        time = 0
        for d in range(k):
            at[d] = state // stride[d] % (lattice.number[i, d] + 1)
            time += lattice.steps[i, d, : at[d]].sum()
        cost[state] = np.inf
        for turned in range(k):
            d = (row + turned) % k
            if _may_move(lattice, i, d, at):
                value = cost[state + stride[d]] + _cost(lattice, i, d, at, time, pieces, until)
                if value < cost[state]:
                    cost[state], best[state] = value, d


@kernel
def _may_move(lattice: _Lattice, i: int, d: int, at: Int64Array) -> bool:
    """Return whether a dimension has a move left that it may make."""
    added = lattice.added[i]
    if at[d] < added[d] or not lattice.late:
        return bool(at[d] < lattice.number[i, d])
    return bool(at[d] < lattice.number[i, d] and np.all(at >= added))


@kernel
def _cost(
    lattice: _Lattice, i: int, d: int, at: Int64Array, time: int, pieces: int, until: FloatArray
) -> float:
    """Return the cost of the next move of a dimension."""
    cost, part = 0.0, _part(lattice.busy[i], at, d)
    for step in range(lattice.steps[i, d, at[d]]):
        row = lattice.row[i, d, at[d], step]
        for use in range(lattice.begin[row], lattice.begin[row + 1]):
            taken, link = part * lattice.seconds[use], lattice.link[use]
            loaded = until[time + step + pieces, d, link] - until[time + step, d, link]
            cost += taken * (2 * loaded + pieces * taken)
    return cost


@kernel
def _part(busy: FloatArray, at: Int64Array, dimension: int) -> float:
    """Return the fraction of all items for which a line of a dimension moves."""
    part = 1.0
    for other in range(len(at)):
        if other != dimension:
            part *= busy[other, at[other]]
    return part


@kernel
def _add(
    lattice: _Lattice, i: int, order: Int64Array, sign: float, pieces: int, load: FloatArray, at: Int64Array
) -> None:
    """Add, or subtract, the times for which an order keeps the links busy in each step."""
    at[:] = 0
    time = 0
    for d in order:
        part = sign * _part(lattice.busy[i], at, d)
        for step in range(lattice.steps[i, d, at[d]]):
            row = lattice.row[i, d, at[d], step]
            for use in range(lattice.begin[row], lattice.begin[row + 1]):
                for piece in range(pieces):
                    load[time + step + piece, d, lattice.link[use]] += part * lattice.seconds[use]
        time += lattice.steps[i, d, at[d]]
        at[d] += 1
