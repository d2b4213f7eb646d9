r"""Trees' parts of M in pieces, and when each link sends which: an allreduce for one size, in the time clock.

A piece of s bytes on links of bandwidth b needs about α + s/b for each hop up a tree and down again; a link
that only broadcasts waits so long for the first, one that only reduces is idle so long at the end. With P
pieces in all, d hops up and down, and a share q of the pieces on each link, the time is about

.. math::

    \text{bound} + \alpha q P + d \frac{M}{b P},

least at :math:`P = \sqrt{d M / (\alpha q b)}`. Numbers of pieces around that are tried, as long as they help.
The pieces of all trees take turns. A piece has its moment at the root, at even distances; an event at depth h
is due h hops before it upwards, and after it downwards, and that is its priority in `listing`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from models.allreduce_trees.listing import Events, Hung, hung, list_schedule
from models.allreduce_trees.network import TreeNetwork
from models.allreduce_trees.packing import Packing
from models.allreduce_trees.schedule import Legs, flow_of
from schedules.method import Problem
from schedules.schedule import Clock, Schedule
from schedules.simulate import SimulationOptions, simulate
from topologies.exact import INT64_MAX, Int64Array, offsets_of
from topologies.forest import Forest
from topologies.heights import depths, largest_height
from topologies.topology import Topology

MOST_EVENTS = 2**21
"""Pieces times ranks of the largest list schedule that is tried, a few seconds' worth."""

PASSES = 2
MOST_HOPS = 2**17
"""Transfers times slices of the largest flow that is simulated, a fraction of a second's worth."""
PATIENCE = 1
"""One more step (a factor of the square root of 2) that does not help ends the search."""
RESOLUTION = 10**6
"""Ticks in the shortest message: rounding up adds less than 1e-6 of it."""
_FEW = 2**20
"""M has so many units at least where pieces cannot be cut evenly: then they differ by one."""
_MOMENTS = 2**20


class _Pieces(NamedTuple):
    """Piece i is units begin[i] to end[i] - 1 of M, of a tree, at the root at moment[i] / `_MOMENTS`."""

    units: int
    tree: Int64Array
    begin: Int64Array
    end: Int64Array
    moment: Int64Array


class _Parts(NamedTuple):
    """What is cut: the trees' parts of M, one after the other, if M is a multiple of so many units."""

    problem: Problem
    forest: Forest
    trees: Hung
    units: int


class _Made(NamedTuple):
    """A schedule of pieces: starts in ticks, as `list_schedule` returns them, and its time in seconds."""

    pieces: _Pieces
    start: Int64Array
    tick: Fraction
    seconds: Fraction


def can_be_timed(topology: Topology) -> bool:
    """Whether messages can be given places in time: no switches, and at most one link from a rank to another.

    Examples
    --------
    >>> from topologies.families import ring
    >>> can_be_timed(ring(4))
    True
    """
    pair = topology.source.astype(np.int64) * topology.num_nodes + topology.target
    return not topology.num_switches and len(np.unique(pair)) == len(pair)


def timed_schedule(problem: Problem, network: TreeNetwork, packing: Packing) -> Schedule | None:
    """Return the shortest schedule found in the time clock; None if it would be too large to make.

    Parameters
    ----------
    problem
        An allreduce of all ranks, with a size, where `can_be_timed`.
    network, packing
        What the trees are in, and the trees.
    """
    topology, forest = problem.topology, packing.forest
    units = math.lcm(problem.collective.items.share.reduced.denominator, sum(forest.weight.tolist()))
    most = MOST_EVENTS // topology.num_ranks
    if units > INT64_MAX // ((most + 1) * _FEW) or len(forest) > most:
        return None
    pairs = zip(topology.source.tolist(), topology.target.tolist(), strict=True)
    trees = hung(forest.parent, {pair: link for link, pair in enumerate(pairs)})
    parts = _Parts(problem, forest, trees, units)
    return _table(parts, _shortest(parts, _good_number(problem, network, packing), most))


def flow_is_shorter(flow: Schedule, timed: Schedule, size: Fraction) -> bool:
    """Whether the flow, in a power of 2 slices, is done sooner; not tried beyond `MOST_HOPS` hops."""
    least, slices = simulate(timed, size).time, 1
    while slices * len(flow) <= MOST_HOPS:
        if simulate(flow, size, SimulationOptions(slices=slices)).time < least:
            return True
        slices *= 2
    return False


def _good_number(problem: Problem, network: TreeNetwork, packing: Packing) -> float:
    """Return about how many pieces are best, as the module's docstring says, for links of mean α."""
    alpha = float(problem.topology.alpha.floats.mean())
    seconds = float(_size(problem) / network.unit) / float(np.median(network.graph.capacity))
    share = float(packing.ratio) * float(np.median(network.graph.capacity))
    hops = 2 * largest_height(packing.forest)
    return math.sqrt(hops * seconds / (alpha * share)) if alpha > 0 else float(MOST_EVENTS)


def _size(problem: Problem) -> Fraction:
    return Fraction(0) if problem.size is None else Fraction(problem.size)


def _shortest(parts: _Parts, guess: float, most: int) -> _Made:
    """Try more pieces than guessed as long as that helps, then fewer."""
    best, least = _try(parts, guess, most), 0
    for way in (1, -1):
        power = way
        while abs(power - least) <= PATIENCE:
            made = _try(parts, guess * 2 ** (power / 2), most)
            if made.seconds < best.seconds:
                best, least = made, power
            power += way
    return best


def _try(parts: _Parts, count: float, most: int) -> _Made:
    return _scheduled(parts, _cut(parts, round(min(max(count, len(parts.forest)), most))))


def _cut(parts: _Parts, count: int) -> _Pieces:
    """Cut each tree's part into pieces as even as can be, about `count` in all; the trees take turns."""
    weight = parts.forest.weight
    total = int(weight.sum())
    pieces = np.maximum((2 * count * weight + total) // (2 * total), 1)
    even = math.lcm(*np.unique(pieces).tolist())
    units = parts.units * (even if even <= count * _FEW else _FEW)
    part = weight * (units // total)
    tree = np.repeat(np.arange(len(weight)), pieces)
    place = np.arange(len(tree)) - np.repeat(offsets_of(pieces)[:-1], pieces)
    before = np.repeat(offsets_of(part)[:-1], pieces)
    begin = before + place * part[tree] // pieces[tree]
    end = before + (place + 1) * part[tree] // pieces[tree]
    moment = (2 * place + 1) * _MOMENTS // (2 * pieces[tree])
    order = np.argsort(moment, kind="stable")
    return _Pieces(units, tree[order], begin[order], end[order], moment[order])


def _scheduled(parts: _Parts, pieces: _Pieces) -> _Made:
    """Return the list schedule of these pieces."""
    topology, trees = parts.problem.topology, parts.trees
    ticks, tick = _ticks(parts, pieces)
    links = np.stack([trees.up[pieces.tree], trees.down[pieces.tree]])
    moves = links >= 0
    busy = np.bincount(links[moves], weights=ticks[moves], minlength=topology.num_links)
    moment = pieces.moment * (int(busy.max()) // _MOMENTS + 1)
    depth = np.stack([depths(parent) for parent in parts.forest.parent])[pieces.tree]
    early = depth * int(ticks[moves].mean())
    priority = np.stack([moment[:, None] - early, moment[:, None] + early])
    start = list_schedule(trees, Events(pieces.tree, ticks, priority), topology.num_links, PASSES)
    return _Made(pieces, start, tick, tick * int((start + ticks)[moves].max()))


def _ticks(parts: _Parts, pieces: _Pieces) -> tuple[Int64Array, Fraction]:
    """Return for how many ticks events hold links, rounded up as in `schedules.durations`, and the tick."""
    topology, trees = parts.problem.topology, parts.trees
    costs = np.stack([topology.alpha.numerators, topology.bandwidth.numerators])
    _, example, kind = np.unique(costs, axis=1, return_index=True, return_inverse=True)
    loads, load = np.unique(pieces.end - pieces.begin, return_inverse=True)
    unit = _size(parts.problem) / pieces.units
    seconds = [[topology.alpha[e] + int(n) * unit / topology.bandwidth[e] for n in loads] for e in example]
    tick = min(map(min, seconds)) / RESOLUTION
    table = np.array([[math.ceil(value / tick) for value in row] for row in seconds], dtype=np.int64)
    links = np.stack([trees.up[pieces.tree], trees.down[pieces.tree]])
    return table[kind.ravel()[links], load[None, :, None]], tick


def _table(parts: _Parts, made: _Made) -> Schedule:
    """Return the rows of the events, by start."""
    trees, pieces = parts.trees, made.pieces
    links = np.stack([trees.up[pieces.tree], trees.down[pieces.tree]])
    down, piece, node = np.nonzero(links >= 0)
    start = made.start[down, piece, node]
    order = np.argsort(start, kind="stable")
    down, piece, node = down[order], piece[order], node[order]
    legs = Legs(
        pieces.begin[piece], pieces.end[piece], links[down, piece, node].astype(np.int64), 2 * down - 1
    )
    rows, leg = flow_of(parts.problem.topology, parts.problem.collective, legs, pieces.units)
    return rows.replace(clock=Clock.TIME, order=start[order][leg], tick=made.tick, size=_size(parts.problem))
