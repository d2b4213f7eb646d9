r"""Trees' parts of M in pieces, and the order in which links send them: a timed allreduce for one size.

A piece of s bytes on links of bandwidth b needs about α + s/b for each hop up a tree and down again. A link
that only broadcasts waits this long for the first piece, and one that only reduces is idle this long at the
end. With P pieces in all, d hops up and down, and a share q of the pieces on each link, the time is about

.. math::

    \text{bound} + \alpha q P + d \frac{M}{b P},

least at :math:`P = \sqrt{d M / (\alpha q b)}`, if nothing else can be sent meanwhile. Numbers of pieces
around it are tried, as long as they help. Trees with leaves towards all sides (`products`) fill the waiting
time. Their time comes near to bound + α q P, and P may be smaller, as long as pieces come back from the roots
in time.

Where every link sends leaves' data long enough (`grids`), no link is idle if messages are so small that a
piece is back before that ends. This takes a number of rounds that depends on the trees' heights alone, about
`PipelinedTreesTuning.rounds_a_hop` for each hop up and down. The time is the bound + α times that number.

The pieces of all trees take turns. Each has its moment at the root, at equal distances. A transfer at depth h
is due h hops before it upwards, and h hops after it downwards. This is its priority in the list schedule,
where each piece is a message.

Where all links are equal, messages of one size stay in step: none waits for the end of one that began a
little later. So several pieces are sent together in *rounds*, each one hop a round. In a round a link sends
the first pieces that are ready, up to a given amount, in one message. So pieces may be small, which gives a
link soon something to send and ends the last ones soon, but messages are few enough for α. The moments at
which messages start then follow from their order alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple

import numpy as np

from tutti.models.allreduce.spanning_trees import Packing, TreeNetwork
from tutti.schedules.list_scheduling.kernel import Sending, TimedRoutes, earliest_starts
from tutti.schedules.list_scheduling.pieces import (
    FINE,
    Pieces,
    PieceSchedule,
    TreePairs,
    TreePipeline,
    cut,
    forward_backward,
    improved,
    tree_transfers,
)
from tutti.schedules.message_durations import Durations, check_reach, link_ticks
from tutti.schedules.method import Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.exact import INT64_MAX, Int32Array, Int64Array
from tutti.topologies.topology import Topology
from tutti.topologies.trees.forest import Forest, depths, largest_height, mean_height


class PipelinedTreesTuning(NamedTuple):
    """Parameters of the search for a schedule."""

    transfers: int
    """Most pieces times ranks of a list schedule that is tried, in a few seconds. A larger value tries
    more."""
    in_several: int
    """Most pieces times ranks for which messages of two pieces and more are tried. A larger value tries
    more."""
    compared: int
    """Most guessed pieces times ranks for which equal links are tried without rounds too."""
    passes: int
    """Times that a schedule is made forwards and backwards. A larger value takes longer."""
    together: int
    """Most pieces in a message. With a larger value more are tried."""
    rounds_a_hop: int
    """Rounds for each hop of a tree, up and down, at which few links are idle (measured: 8 to 11)."""
    each_tree: int
    """Most pieces of a tree's part, where several hundred trees are equal. A larger value tries more."""
    gain: int
    """Rounds are tried if the bound is more than this many times the α of all rounds. With a larger value
    they are tried less often."""


TUNING = PipelinedTreesTuning(
    transfers=2**21,
    in_several=2**19,
    compared=2**15,
    passes=2,
    together=4,
    rounds_a_hop=10,
    each_tree=6,
    gain=4,
)


@dataclass(frozen=True, eq=False)
class _TreeParts(TreePipeline):
    """The parts that are cut: the trees' parts of M, one after the other."""

    by_direction: ClassVar[bool] = True

    forest: Forest
    ratio: Fraction

    @property
    def num_trees(self) -> int:
        """The number of trees of equal weight, with those of one row counted by their weight."""
        return sum(self.forest.weight.tolist())


def can_be_timed(topology: Topology) -> bool:
    """Whether messages can get times: there are no switches, and at most one link from a rank to another.

    Examples
    --------
    >>> from tutti.topologies.families.grids import ring
    >>> can_be_timed(ring(4))
    True
    """
    pair = topology.source.astype(np.int64) * topology.num_nodes + topology.target
    return not topology.num_switches and len(np.unique(pair)) == len(pair)


def rounds_are_worth_it(problem: Problem, packing: Packing) -> bool:
    """Whether messages for which α hardly counts are still enough to keep all links busy."""
    topology, rounds = problem.topology, 2 * TUNING.rounds_a_hop * mean_height(packing.forest)
    if not topology.homogeneous:
        return False
    pieces = TUNING.in_several // topology.num_ranks
    seconds = Fraction(problem.size or 0) / topology.bandwidth[0]
    return (
        pieces * packing.ratio > 2 * rounds
        and seconds * packing.ratio > TUNING.gain * rounds * topology.alpha[0]
    )


def timed_schedule(
    problem: Problem, network: TreeNetwork, packings: list[Packing], even: Packing | None = None
) -> tuple[Schedule, Packing] | None:
    """Return the shortest schedule found in the time clock, and its trees; None if all would be too large.

    Parameters
    ----------
    problem
        An allreduce of all ranks, with a size, where `can_be_timed`.
    network
        The graph that the trees are in.
    packings
        Packings to be tried. Later ones have more trees, and are better if these have enough pieces; the
        search ends with the first one that has.
    even
        Trees with leaves towards all sides, for messages of many pieces, where links are equal.

    Raises
    ------
    FarApartError
        If one clock can't count both the shortest message and the whole.
    """
    found: list[tuple[_TreeParts, PieceSchedule, Packing]] = []
    if even is not None and (parts := _parts(problem, even)) is not None:
        found.append((parts, _in_large_messages(parts), even))
    for packing in reversed(packings):
        parts = _parts(problem, packing)
        if parts is None:
            continue
        # There cannot be as many pieces as trees of equal weight.
        scarce = parts.num_trees > TUNING.transfers // problem.topology.num_ranks
        if scarce and packing is not packings[0]:
            continue
        alpha = float(parts.problem.topology.alpha.floats.mean())
        capacity = float(np.median(network.graph.capacity))
        seconds, share = float(parts.size / network.unit) / capacity, float(parts.ratio) * capacity
        hops = 2 * largest_height(parts.forest)
        guess = math.sqrt(hops * seconds / (alpha * share)) if alpha > 0 else float(TUNING.transfers)
        found.append((parts, _shortest(parts, guess), packing))
        if guess >= parts.num_trees:
            break
    if not found:
        return None
    parts, made, packing = min(found, key=lambda each: each[1].seconds)
    return parts.table(made), packing


def _parts(problem: Problem, packing: Packing) -> _TreeParts | None:
    """Return the parts to be cut; None if one piece a tree is too much."""
    topology, forest = problem.topology, packing.forest
    total = sum(forest.weight.tolist())
    units = math.lcm(problem.collective.items.share.reduced.denominator, total)
    most = TUNING.transfers // topology.num_ranks
    if units > INT64_MAX // ((most + 1) * FINE) or len(forest) > most:
        return None
    return _TreeParts(problem, _pairs(topology, forest), units, forest, packing.ratio)


def _pairs(topology: Topology, forest: Forest) -> TreePairs:
    """Return each tree in both directions, with the links of its edges."""
    ranks, parent = topology.num_ranks, forest.parent.astype(np.int64)
    link_of = np.full((ranks, ranks), -1, dtype=np.int32)
    link_of[topology.source, topology.target] = np.arange(topology.num_links)
    rank, moves = np.arange(ranks), parent >= 0
    up, down = np.where(moves, link_of[rank, parent], -1), np.where(moves, link_of[parent, rank], -1)
    both = parent.astype(np.int32)
    return TreePairs(both, both, up, down, forest.root.astype(np.int32))


def _shortest(parts: _TreeParts, guess: float) -> PieceSchedule:
    """Search numbers of pieces around the guess: one by one, and in rounds where links are equal."""
    if not parts.problem.topology.homogeneous:
        return _walk(parts, guess, _attempt(parts, guess, 0))
    made = _walk(parts, guess, _attempt(parts, guess, 1))
    for together in range(2, TUNING.together + 1):
        count, before = made.tried
        if count // before * together * parts.problem.topology.num_ranks > TUNING.in_several:
            break
        made = _walk(parts, count / before * together, made, together)
    if guess * parts.problem.topology.num_ranks > TUNING.compared and guess >= parts.num_trees:
        return made
    return min(made, _walk(parts, guess, _attempt(parts, guess, 0)), key=lambda either: either.seconds)


def _in_large_messages(parts: _TreeParts) -> PieceSchedule:
    """Search how many pieces are sent together, from a good number on: first more of them and then fewer."""
    choices = _full_rounds(parts)
    rounds = sorted(choices)
    good = 2 * TUNING.rounds_a_hop * mean_height(parts.forest)
    first = min(range(len(rounds)), key=lambda place: abs(rounds[place] - good))
    best = _attempt(parts, *choices[rounds[first]])
    for others in (rounds[:first][::-1], rounds[first + 1 :]):
        before, best = best, improved(best, others, lambda number: _attempt(parts, *choices[number]))
        if best is not before:
            break
    return best


def _full_rounds(parts: _TreeParts) -> dict[int, tuple[int, int]]:
    """Return for numbers of rounds, all messages full, the number of pieces needed, and that in a message."""
    trees, ranks = parts.num_trees, parts.problem.topology.num_ranks
    most = max(1, min(TUNING.each_tree, TUNING.in_several // (ranks * trees)))
    found = {}
    for times in range((most + 1) // 2, most + 1):
        share = math.ceil(trees * times * parts.ratio)
        for together in range(1, share + 1):
            if share % together == 0:
                found[share // together] = (trees * times, together)
    return found


def _walk(parts: _TreeParts, guess: float, best: PieceSchedule, together: int | None = None) -> PieceSchedule:
    """Try more pieces than guessed as long as that helps, then fewer.

    A message has `together` pieces; 0: one, and no rounds; None: as in the best schedule so far.
    """
    each = best.tried[1] if together is None else together
    step = 2 ** (1 / 4 if each > 1 else 1 / 2)
    for powers in (range(24), range(-1, -24, -1)):
        numbers = dict.fromkeys(_number(parts, guess * step**power, each) for power in powers)
        best = improved(
            best,
            [number for number in numbers if (number, each) != best.tried],
            lambda number: _attempt(parts, number, each),
            floor=lambda number: _least(parts, number, each),
        )
    return best


def _attempt(parts: _TreeParts, guess: float, together: int) -> PieceSchedule:
    """Make a schedule of about `guess` pieces: `together` of them at a time in rounds, or (0) one by one."""
    number = _number(parts, guess, together)
    weight = parts.forest.weight
    total = int(weight.sum())
    counts = np.maximum((2 * number * weight + total) // (2 * total), 1)
    pieces = cut(weight, counts, parts.units, number * FINE)
    turn = np.argsort(_moments(pieces), kind="stable")
    pieces = Pieces(pieces.units, *(column[turn] for column in pieces[1:]))
    if together:
        return _in_rounds(parts, pieces, together, (number, together))

    def due(length: int, hop: float) -> Int64Array:
        return _priority(parts, pieces, length, int(hop))

    return parts.one_by_one(pieces, due, TUNING.passes, (number, together))


def _least(parts: _TreeParts, count: int, together: int) -> Fraction:
    """Return for how long the busiest link holds `count` pieces' messages, if links are equal; else 0."""
    if not parts.problem.topology.homogeneous:
        return Fraction(0)
    topology, messages = parts.problem.topology, Fraction(count, max(together, 1))
    return parts.ratio * (messages * topology.alpha[0] + parts.size / topology.bandwidth[0])


def _number(parts: _TreeParts, guess: float, together: int) -> int:
    """Return a possible number of pieces; for rounds, a multiple of the trees if possible, to cut equally."""
    trees, most = parts.num_trees, TUNING.transfers // parts.problem.topology.num_ranks
    if together and round(guess / trees) and trees <= most:
        return trees * min(round(guess / trees), most // trees)
    return round(min(max(guess, len(parts.forest)), most))


def _moments(pieces: Pieces) -> Int64Array:
    """Return the moment at which each piece is at its root, in `FINE` of the whole, at equal distances."""
    return (2 * pieces.place + 1) * FINE // (2 * np.bincount(pieces.part)[pieces.part])


def _in_rounds(parts: _TreeParts, pieces: Pieces, together: int, tried: tuple[int, int]) -> PieceSchedule:
    """Return the schedule in rounds of these pieces, with `together` of them in a message."""
    topology, links = parts.problem.topology, parts.links(pieces)
    amount = pieces.end - pieces.begin
    busy = np.bincount(links[links >= 0])
    priority = _priority(parts, pieces, int(busy.max()), together)
    amounts = np.broadcast_to(parts.each(amount), links.shape)
    transfers = tree_transfers(parts.trees, pieces.part, amounts, by_direction=True)
    routes = TimedRoutes.single_links(topology.num_links, alpha=1, seconds=0)
    room = together * int(amount.max())
    rounds = forward_backward(transfers, routes, priority.reshape(-1), TUNING.passes, room=room)
    sending = messages_of_rounds(transfers.route, rounds, topology.num_links)
    load = np.add.reduceat(transfers.amount[sending.transfer], sending.first[:-1])
    loads, which = np.unique(load, return_inverse=True)
    lasting = link_ticks(topology, loads, parts.size / pieces.units)
    held = lasting.table[lasting.kind[transfers.route[sending.transfer[sending.first[:-1]]]], which]
    check_reach(float(held.sum(dtype=np.float64)))
    durations = Durations.over_one_link(held)
    begins = earliest_starts(transfers, sending, routes.offsets, routes.links, durations)
    start = np.zeros(links.size, np.int64)
    start[sending.transfer] = begins[sending.message]
    seconds = lasting.tick * int((begins + held).max())
    return PieceSchedule(pieces, start.reshape(links.shape), lasting.tick, seconds, tried)


def messages_of_rounds(link: Int32Array, rounds: Int64Array, num_links: int) -> Sending:
    """Return the messages by rounds: a message is all that one link sends in one round.

    Parameters
    ----------
    link, rounds
        Of each transfer; -1: none.
    num_links
        The links are 0 to `num_links` - 1.

    Examples
    --------
    >>> messages_of_rounds(np.array([0, 1, 1, -1], np.int32), np.array([1, 1, 1, 0]), 2)
    Sending(first=array([0, 1, 3]), transfer=array([0, 1, 2], dtype=int32))
    """
    transfer = np.flatnonzero(link >= 0)
    key = rounds[transfer] * num_links + link[transfer]
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    return Sending(np.append(first, len(key)), transfer[order].astype(np.int32))


def _priority(parts: _TreeParts, pieces: Pieces, length: int, hop: int) -> Int64Array:
    """Return when transfers are due, in `FINE`, if the whole takes `length` and a hop takes `hop`."""
    check_reach(float(length) * FINE, float(hop) * FINE * parts.problem.topology.num_ranks)
    moment = _moments(pieces) * length
    depth = np.stack([depths(parent) for parent in parts.forest.parent])[pieces.part]
    early = depth * hop * FINE
    return np.stack([moment[:, None] - early, moment[:, None] + early])
