r"""The allreduce of one size in the time clock: every message of optimal trees gets a time.

M is cut into pieces, each of one in-tree and one out-tree, and the list scheduler gives every transfer its
start. With K messages on the busiest link a schedule without gaps takes

.. math::

    \text{bound} + \alpha K,

so few pieces are best as long as no link need wait. That is so if every link has leaves. Numbers of pieces
around a guess are tried, as long as they help.

**Leaves.** At the beginning of an allreduce a link can immediately send the data that it carries from leaves
of in-trees. At the end it can wait until the last moment with the data that it carries to leaves of
out-trees. A link without a leaf is idle until pieces have come up to it. Two trees of one weight may exchange
the arcs by which they enter a rank, and then every arc carries what it did. So capacities that are used up
stay so. Such exchanges are drawn at random, and fewer and fewer that make trees worse are accepted (threshold
accepting: Dueck, Scheuer, J. Comput. Phys. 1990). They give each busy link a share of leaves, and keep the
trees low.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple

import numpy as np

from tutti.models.allreduce.cuts import Arcs
from tutti.models.allreduce.trees import HalfTrees
from tutti.schedules.list_scheduling.pieces import FINE, PieceSchedule, TreePairs, TreePipeline, cut, improved
from tutti.schedules.message_durations import FarApartError, check_reach
from tutti.schedules.method import Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.exact import INT64_MAX, FloatArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Topology
from tutti.topologies.trees.forest import depths
from tutti.topologies.trees.tree_local_search import UInt64Array, draw


class PipelinedFlowTuning(NamedTuple):
    """The numbers that steer the search for a schedule.

    Measured at 10 MB on `mesh:3x3` and `gen_kautz:3,10`. Half or twice of `rows` or `leaves` costs up to 19 %
    of the time or gains 3 %. The others change nothing there, except for 2 % that more orders gain.
    """

    transfers: int
    """Most transfers of a schedule that is tried, in a few tenths of a second. A larger value tries more."""
    rows: int
    """Fewest trees of each half, counted by weight. With a larger value leaves are spread more evenly."""
    equal_rows: int
    """Most trees of each half that all have weight 1; with fewer they are heavier, and some lighter."""
    leaves: tuple[int, int]
    """Divisors of the load of a busy link, tried in turn: the quotient is carried from or to leaves, in each
    half. A larger divisor asks for fewer leaves."""
    enough: float
    """Relative distance from the optimum at which other leaves are not tried. With a larger value fewer
    are."""
    busy: float
    """Fraction of the longest use from which on a link is busy. With a larger value fewer links have
    leaves."""
    passes: int
    """Most times that a schedule is made forwards and backwards, which ends when two in a row do not help."""
    orders: int
    """Orders in which segments take turns, tried with the best number of pieces. A larger value tries
    more."""
    patience: int
    """Most numbers of pieces in a row that may not help on a side of the guess. A larger value tries more."""


TUNING = PipelinedFlowTuning(
    transfers=2**17,
    rows=64,
    equal_rows=512,
    leaves=(8, 12),
    enough=0.005,
    busy=0.98,
    passes=12,
    orders=3,
    patience=2,
)


HIGHER = 4
"""Hops by which trees may become higher. With a larger value more links have leaves, but α costs more."""


class LeafExchangeTuning(NamedTuple):
    """Parameters of the exchange."""

    price: int
    """Price in hops of a missing leaf. With a larger value trees become higher."""
    warm: int
    """Hops that an exchange may cost at first. With a larger value more exchanges are accepted."""
    moves: int
    """Exchanges that are tried for each rank of each tree, 5 million a second. A larger value gives more
    leaves."""


EXCHANGE = LeafExchangeTuning(price=24, warm=6, moves=600)


@dataclass(frozen=True, eq=False)
class ArcTrees:
    """Spanning trees of the arcs that lead away from the root (of in-trees: turned round).

    Parameters
    ----------
    root, weight
        int64, shape (rows,): by root.
    via
        int64, shape (rows, ranks): the arc into each rank, -1 at the root.
    """

    root: Int64Array
    weight: Int64Array
    via: Int64Array


class _Net(NamedTuple):
    """The arcs' near ends; the arcs out of each rank in CSR; the far ends; the needed weight of leaves."""

    tail: Int64Array
    begin: Int64Array
    out: Int64Array
    head: Int64Array
    need: Int64Array


class _State(NamedTuple):
    """Arcs into ranks, and numbers of children, (rows, ranks); weights of rows; weight of leaves of arcs."""

    via: Int64Array
    kids: Int64Array
    weight: Int64Array
    leaves: Int64Array


def arc_trees(trees: HalfTrees, tails: Int32Array, heads: Int32Array, scale: int, quantum: int) -> ArcTrees:
    """Return trees arc by arc, cut into rows of weight `quantum` and smaller ones that are left over.

    Parameters
    ----------
    trees
        One half; arcs are numbered as in its network.
    tails, heads
        The ends of each arc, seen from the root.
    scale
        Weights and capacities are multiplied by this.
    quantum
        The largest weight of a row.
    """
    arcs: dict[tuple[int, int], list[int]] = {}
    for arc, pair in enumerate(zip(tails.tolist(), heads.tolist(), strict=True)):
        arcs.setdefault(pair, []).append(arc)
    left = [scale * capacity for capacity in trees.arcs.capacity.tolist()]
    todo: list[tuple[list[int], int]] = []
    rows: list[tuple[int, int, list[int]]] = []
    for parent, weight in zip(trees.forest.parent.tolist(), trees.forest.weight.tolist(), strict=True):
        full, rest = divmod(scale * weight, quantum)
        todo += [(parent, quantum)] * full + ([(parent, rest)] if rest else [])
    while todo:
        parent, weight = todo.pop()
        via = [
            max(arcs[above, rank], key=left.__getitem__) if above >= 0 else -1
            for rank, above in enumerate(parent)
        ]
        part = min([weight, *(left[arc] for arc in via if arc >= 0)])
        for arc in via:
            if arc >= 0:
                left[arc] -= part
        if part < weight:
            todo.append((parent, weight - part))
        rows.append((parent.index(-1), part, via))
    rows.sort(key=lambda row: row[0])
    root, weights, vias = zip(*rows, strict=True)
    return ArcTrees(np.array(root), np.array(weights), np.array(vias))


def with_leaves(trees: ArcTrees, tails: Int32Array, heads: Int32Array, need: Int64Array) -> ArcTrees:
    """Return trees that load every arc as these do, with more leaves on it where arcs need them.

    Parameters
    ----------
    trees
        The trees.
    tails, heads
        The ends of each arc, seen from the root.
    need
        int64, shape (arcs,): the weight of leaves that is enough.
    """
    rows, ranks = trees.via.shape
    tail, head = tails.astype(np.int64), heads.astype(np.int64)
    out = np.argsort(tail, kind="stable")
    net = _Net(tail, offsets_of(np.bincount(tail, minlength=ranks)), out, head, need)
    kids = np.stack([np.bincount(tail[via[via >= 0]], minlength=ranks) for via in trees.via])
    at_leaf = (kids == 0) & (trees.via >= 0)
    leaves = np.zeros(len(tail), dtype=np.int64)
    np.add.at(leaves, trees.via[at_leaf], np.broadcast_to(trees.weight[:, None], (rows, ranks))[at_leaf])
    state = _State(trees.via.copy(), kids, trees.weight, leaves)
    moves, dice = (
        min(EXCHANGE.moves * rows * ranks, 6_000_000),
        np.array([0x9E3779B97F4A7C15], dtype=np.uint64),
    )
    _exchange(net, state, dice, int(levels(trees, tails).max()) + HIGHER, moves)
    return ArcTrees(trees.root, trees.weight, state.via)


def levels(trees: ArcTrees, tails: Int32Array) -> Int64Array:
    """Return each rank's hops from the root: int64 (rows, ranks); arcs begin at `tails`, seen from there."""
    return np.stack([depths(np.where(via >= 0, tails[via], np.int32(-1))) for via in trees.via])


@kernel
def _exchange(net: _Net, state: _State, dice: UInt64Array, limit: int, moves: int) -> None:
    """Let pairs of rows exchange their arcs into a rank; invariant: every arc carries the same as before."""
    rows, ranks = state.via.shape
    stack = np.empty((2, ranks), np.int64)
    for move in range(moves):
        v, t, s = int(draw(dice, ranks)), int(draw(dice, rows)), int(draw(dice, rows))
        a, b = state.via[t, v], state.via[s, v]
        if a == b or a < 0 or b < 0 or state.weight[t] != state.weight[s]:
            continue
        there, here = _entered(net, state, t, v, b), _entered(net, state, s, v, a)
        if there < 0 or here < 0:
            continue
        count, high = _under(net, state, t, v, stack)
        number, deep = _under(net, state, s, v, stack)
        if there + high > limit or here + deep > limit:
            continue
        longer = count * (there - _entered(net, state, t, v, a))
        longer += number * (here - _entered(net, state, s, v, b))
        short = _turn(net, state, t, v, b) + _turn(net, state, s, v, a)
        heat = EXCHANGE.warm - EXCHANGE.warm * move // moves
        # Threshold accepting with a random threshold: a worse exchange is undone by exchanging again.
        if EXCHANGE.price * short + state.weight[t] * (longer - int(draw(dice, heat + 1))) > 0:
            _turn(net, state, t, v, a)
            _turn(net, state, s, v, b)


@kernel
def _entered(net: _Net, state: _State, t: int, v: int, arc: int) -> int:
    """Return the depth of `v` if it is entered by an arc, -1 if that closes a circle."""
    u, depth = net.tail[arc], 1
    while u != v and state.via[t, u] >= 0:
        u = net.tail[state.via[t, u]]
        depth += 1
    return -1 if u == v else depth


@kernel
def _under(net: _Net, state: _State, t: int, v: int, stack: Int64Array) -> tuple[int, int]:
    """Return the number of ranks in the subtree of `v`, with `v`, and their greatest depth below it."""
    stack[0, 0], stack[1, 0] = v, 0
    count, done = 1, 0
    while done < count:
        u, depth = stack[0, done], stack[1, done]
        done += 1
        if state.kids[t, u] == 0:
            continue
        for arc in net.out[net.begin[u] : net.begin[u + 1]]:
            if state.via[t, net.head[arc]] == arc:
                stack[0, count], stack[1, count] = net.head[arc], depth + 1
                count += 1
    return count, stack[1, count - 1]


@kernel
def _turn(net: _Net, state: _State, t: int, v: int, arc: int) -> int:
    """Let `v` be entered by another arc; return the change of the leaf weight that arcs lack."""
    old, weight = state.via[t, v], state.weight[t]
    p, q = net.tail[old], net.tail[arc]
    change = 0
    if state.kids[t, v] == 0:
        change += _count(net, state, old, -weight) + _count(net, state, arc, weight)
    state.kids[t, p] -= 1
    if state.kids[t, p] == 0 and state.via[t, p] >= 0:
        change += _count(net, state, state.via[t, p], weight)
    if state.kids[t, q] == 0 and state.via[t, q] >= 0:
        change += _count(net, state, state.via[t, q], -weight)
    state.kids[t, q] += 1
    state.via[t, v] = arc
    return change


@kernel
def _count(net: _Net, state: _State, arc: int, more: int) -> int:
    """Change an arc's weight of leaves; return the change of the weight that it lacks."""
    before = max(net.need[arc] - state.leaves[arc], 0)
    state.leaves[arc] += more
    return max(net.need[arc] - state.leaves[arc], 0) - before


def can_be_timed(topology: Topology) -> bool:
    """Whether messages get times: there are no switches, and not too many ranks and links.

    Examples
    --------
    >>> from tutti.topologies.families.grids import ring
    >>> can_be_timed(ring(4))
    True
    """
    return not topology.num_switches and 1 < topology.num_ranks <= 128 and topology.num_links <= 2048


class Halves(NamedTuple):
    """The in-trees, turned round, and the out-trees; their arcs are links."""

    up: ArcTrees
    down: ArcTrees


def leafy(arcs: Arcs, up: HalfTrees, down: HalfTrees, part: int) -> Halves:
    """Return trees that load links as these do, cut finely, with leaves for every busy link.

    Parameters
    ----------
    arcs
        All single links.
    up, down
        As `schedule.allreduce_schedule` takes them.
    part
        The divisor of a busy link's load: the quotient should be carried from or to leaves, in each half.
    """
    total = sum(down.forest.weight.tolist())
    scale = -(-TUNING.rows // total)
    quantum = 1 if scale * total <= TUNING.equal_rows else total // TUNING.rows
    topology = arcs.topology
    forward = _of_links(arc_trees(down, down.arcs.tails, down.arcs.heads, scale, quantum), down)
    turned = _of_links(arc_trees(up, up.arcs.heads, up.arcs.tails, scale, quantum), up)
    load = _load(forward, topology) + _load(turned, topology)
    use = load / topology.bandwidth.floats
    need = np.where(use >= TUNING.busy * use.max(), -(-load // part), 0)
    return Halves(
        with_leaves(turned, topology.target, topology.source, need),
        with_leaves(forward, topology.source, topology.target, need),
    )


def _of_links(trees: ArcTrees, half: HalfTrees) -> ArcTrees:
    """Return the same trees over links instead of a half's own arcs, each of which is one link."""
    via = np.where(trees.via >= 0, half.arcs.links[trees.via].astype(np.int64), -1)
    return ArcTrees(trees.root, trees.weight, via)


def _load(trees: ArcTrees, topology: Topology) -> Int64Array:
    """Return the weight on each link."""
    load = np.zeros(topology.num_links, dtype=np.int64)
    used = trees.via >= 0
    np.add.at(load, trees.via[used], np.broadcast_to(trees.weight[:, None], used.shape)[used])
    return load


def timed_schedule(problem: Problem, arcs: Arcs, up: HalfTrees, down: HalfTrees) -> Schedule | None:
    """Return the shortest schedule found in the time clock; None if it would be too large, or too long.

    Parameters
    ----------
    problem
        An allreduce of all ranks, with a size, where `can_be_timed`.
    arcs
        All single links.
    up, down
        As `schedule.allreduce_schedule` takes them.
    """
    best: tuple[Fraction, Schedule] | None = None
    for part in TUNING.leaves:
        halves = leafy(arcs, up, down, part)
        segments = _Segments.of(problem, halves)
        if segments is None:
            return None
        try:
            made = _shortest(segments)
        except FarApartError:
            break
        if best is None or made.seconds < best[0]:
            best = made.seconds, segments.table(made).replace(stats=_heights(problem.topology, halves))
        if best[0] <= segments.bound * Fraction(1 + TUNING.enough):
            break
    return None if best is None else best[1]


def _heights(topology: Topology, halves: Halves) -> dict[str, float]:
    """Return hops up and down the highest trees, and on average."""
    up, down = halves
    high = [levels(up, topology.target).max(axis=1), levels(down, topology.source).max(axis=1)]
    mean = sum(
        float(np.average(hops, weights=trees.weight)) for hops, trees in zip(high, halves, strict=True)
    )
    return {"height": sum(int(hops.max()) for hops in high), "mean_height": mean}


def _shortest(segments: _Segments) -> PieceSchedule:
    """Search numbers of pieces around the guess."""
    best = segments.tried(segments.guess, 0)
    best = best._replace(tried=(len(best.pieces.part), 0))
    for step in (2 ** (1 / 4), 1 / 2 ** (1 / 4)):
        best = improved(
            best,
            segments.numbers(best.tried[0], step),
            lambda number: segments.tried(number, 0),
            patience=TUNING.patience,
            floor=segments.least,
        )
    seeds = range(1, TUNING.orders)
    return improved(best, seeds, lambda seed: segments.tried(best.tried[0], seed), patience=None)


@dataclass(frozen=True, eq=False)
class _Segments(TreePipeline):
    """Segments of M, each of one in-tree and one out-tree: the parts that all their schedules have in common.

    Parameters
    ----------
    weight
        int64, shape (segments,).
    early
        Shape (segments, 2, ranks), up and down: hops before (negative) or after the moment at the root.
    share
        The share of M on each link.
    hops
        Hops up and down the highest trees.
    """

    by_direction: ClassVar[bool] = False

    weight: Int64Array
    early: Int64Array
    share: FloatArray
    hops: int

    @classmethod
    def of(cls, problem: Problem, halves: Halves) -> _Segments | None:
        """Return them; None if even the least number of pieces is too large."""
        topology = problem.topology
        up, down = halves
        bounds = np.union1d(offsets_of(up.weight), offsets_of(down.weight))
        rows = tuple(
            np.searchsorted(offsets_of(trees.weight), bounds[:-1], side="right") - 1 for trees in halves
        )
        if (len(bounds) - 1) * 2 * topology.num_ranks > TUNING.transfers:
            return None
        whole = math.lcm(problem.collective.items.share.reduced.denominator, int(bounds[-1]))
        if whole > INT64_MAX // (TUNING.transfers * FINE):
            return None
        sends, receives = up.via[rows[0]].astype(np.int32), down.via[rows[1]].astype(np.int32)
        trees = TreePairs(
            np.where(sends >= 0, topology.target[sends], -1).astype(np.int32),
            np.where(receives >= 0, topology.source[receives], -1).astype(np.int32),
            sends,
            receives,
            up.root[rows[0]].astype(np.int32),
        )
        before, after = levels(up, topology.target), levels(down, topology.source)
        early = np.stack([-before[rows[0]], after[rows[1]]], axis=1)
        share = (_load(up, topology) + _load(down, topology)) / float(bounds[-1])
        hops = int(before.max()) + int(after.max())
        return cls(problem, trees, whole, np.diff(bounds), early, share, hops)

    @property
    def bound(self) -> Fraction:
        """Return about how many seconds the busiest link is held by the bytes alone."""
        return Fraction(float((self.share / self.problem.topology.bandwidth.floats).max())) * self.size

    @property
    def guess(self) -> int:
        """The approximate best number of pieces."""
        topology = self.problem.topology
        seconds = float(self.bound)
        alpha = float(topology.alpha.floats.mean())
        messages = math.sqrt(self.hops * seconds / alpha) / 2 if alpha > 0 else float(TUNING.transfers)
        return self._possible(messages / float(self.share.max()))

    def numbers(self, count: int, step: float) -> Iterator[int]:
        """Yield numbers of pieces, step by step from a count; each of them is exactly possible."""
        numbers = (self._possible(count * step**power) for power in range(1, 24))
        whole = (int(self._counts(number).sum()) for number in numbers)
        yield from (number for number in dict.fromkeys(whole) if number != count)

    def _counts(self, count: int) -> Int64Array:
        """Return the number of pieces of each segment, about `count` in all."""
        return np.maximum(np.rint(count / float(self.weight.sum()) * self.weight).astype(np.int64), 1)

    def _possible(self, count: float) -> int:
        most = TUNING.transfers // (2 * self.problem.topology.num_ranks)
        return round(min(max(count, len(self.weight)), most))

    def least(self, count: int) -> Fraction:
        """Return about the least time of a schedule with this number of pieces, by the busiest link."""
        topology = self.problem.topology
        seconds = self.share * (float(self.size) / topology.bandwidth.floats + count * topology.alpha.floats)
        return Fraction(float(seconds.max()) * (1 - 1e-3))

    def tried(self, count: int, seed: int) -> PieceSchedule:
        """Return a schedule of about `count` pieces. The seed decides which segment's pieces come first."""
        pieces, segments = cut(self.weight, self._counts(count), self.units, FINE), len(self.weight)
        # Segments take turns. A piece is due at its root at this fraction of the whole time.
        turn = (np.random.default_rng(seed).permutation(segments) + 0.5) / segments
        moment = (pieces.place + turn[pieces.part]) / np.bincount(pieces.part)[pieces.part]

        def due(length: int, hop: float) -> Int64Array:
            found = self.each(moment) * length + self.early[pieces.part] * hop
            check_reach(float(np.abs(found).max()))
            return np.rint(found).astype(np.int64)

        return self.one_by_one(pieces, due, TUNING.passes, (count, seed))
