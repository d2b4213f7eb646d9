"""Pieces of M: the search for their number, even cuts, and list schedules of pieces that follow trees.

With P pieces on a link of bandwidth b, α is paid P times. With few pieces, a link waits long for its first
piece: about d M / (b P) in d consecutive hops. The sum of both is least near P = √(d M / (α b)). Numbers
around such a guess are tried as long as they help.

Each piece is reduced up one tree and broadcast down another. Rank v sends its sum up to its parent, and
receives the result from its parent in the other tree. A transfer upwards waits for those from the rank's own
children. A transfer downwards waits for the one into the parent or, at the root, for all that come up: the
root's place upwards is the join of these.

The schedules are improved forwards and backwards. A list schedule can also be made from the end, with time
reversed. Each pass first schedules the transfers forwards, by priority, and then from the end, those that
arrived last first. Their starts are the priorities of the next pass. This closes gaps (Li and Willis,
European J. Oper. Res. 1992; called justification in Valls, Ballestin, Quintanilla, European J. Oper. Res.
2005).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tutti.schedules.intervals import IntervalTransfers, interval_schedule
from tutti.schedules.list_scheduling.kernel import Amounts, ListScheduleTransfers, TimedRoutes, send
from tutti.schedules.message_durations import check_reach, link_ticks
from tutti.schedules.method import Problem
from tutti.schedules.schedule import Clock, Schedule
from tutti.topologies.exact import INT64_MAX, Int32Array, Int64Array, entries_of, offsets_of
from tutti.topologies.graphs.heaps import stable_pass

FINE = 2**20
"""Factor of the units if pieces of a part can't be equal. They then differ by less than 1e-6."""


class TimedSchedule(Protocol):
    """A schedule with a duration."""

    @property
    def seconds(self) -> Fraction | float:
        """The duration in seconds."""


Candidate = TypeVar("Candidate")
Found = TypeVar("Found", bound=TimedSchedule)


def improved(
    best: Found,
    candidates: Iterable[Candidate],
    attempt: Callable[[Candidate], Found],
    *,
    patience: int | None = 1,
    floor: Callable[[Candidate], Fraction | float] = lambda _: 0,
) -> Found:
    """Return the shortest of `best` and the schedules of candidates, in turn; of equals the earlier one.

    Parameters
    ----------
    best
        The present schedule.
    candidates
        The candidates, for example numbers of pieces.
    attempt
        Returns the schedule of a candidate.
    patience
        The number of candidates in a row without progress that ends the search; None: nothing ends it.
    floor
        Returns a lower bound in seconds for a candidate; candidates that can't help are left out.

    Examples
    --------
    >>> class Square(NamedTuple):
    ...     seconds: int
    >>> improved(Square(9), [2, 4, 1], lambda root: Square(root * root))
    Square(seconds=4)
    >>> improved(Square(9), [2, 4, 1], lambda root: Square(root * root), patience=2)
    Square(seconds=1)
    """
    since = 0
    for candidate in candidates:
        if floor(candidate) >= best.seconds:
            continue
        found, since = attempt(candidate), since + 1
        if found.seconds < best.seconds:
            best, since = found, 0
        if since == patience:
            break
    return best


class Pieces(NamedTuple):
    """Piece i is units begin[i] to end[i] - 1 of M, and the place[i]-th piece of part[i]. Sorted by both.

    Parameters
    ----------
    units
        The number of units of M.
    part, place, begin, end
        int64, shape (pieces,).
    """

    units: int
    part: Int64Array
    place: Int64Array
    begin: Int64Array
    end: Int64Array


def cut(weight: Int64Array, counts: Int64Array, units: int, finest: int) -> Pieces:
    """Return parts of M, which follow each other, cut into pieces as evenly as possible.

    Parameters
    ----------
    weight
        int64, shape (parts,).
    counts
        int64, shape (parts,): the number of pieces of each.
    units
        The number of units of M before cutting, a multiple of the total weight.
    finest
        All pieces of a part are equal if this needs at most `finest` times the units. Otherwise M has 2^20
        times the units, and pieces differ by one unit.

    Examples
    --------
    >>> pieces = cut(np.array([1, 2]), np.array([1, 3]), 3, 100)
    >>> pieces.units, pieces.begin.tolist(), pieces.end.tolist()
    (9, [0, 3, 5, 7], [3, 5, 7, 9])
    """
    even = math.lcm(*np.unique(counts).tolist())
    units *= even if even <= finest else FINE
    size = weight * (units // int(weight.sum()))
    part, place = entries_of(counts)
    before = offsets_of(size)[part]
    begin = before + place * size[part] // counts[part]
    end = before + (place + 1) * size[part] // counts[part]
    return Pieces(units, part, place, begin, end)


class TreePairs(NamedTuple):
    """Pairs of trees with the same root; int32, shape (pairs, ranks), -1 at roots.

    Parameters
    ----------
    up, down
        The parent to which each rank sends, and from which it receives; all -1 if nothing goes in that
        direction.
    up_route, down_route
        The routes from each rank to its parent in `up`, and to it from its parent in `down`.
    root
        int32, shape (pairs,).
    """

    up: Int32Array
    down: Int32Array
    up_route: Int32Array
    down_route: Int32Array
    root: Int32Array


def tree_transfers(
    trees: TreePairs, pair: Int64Array, amount: Amounts, *, by_direction: bool
) -> ListScheduleTransfers:
    """Return the transfers of pieces.

    Parameters
    ----------
    trees
        The trees.
    pair
        int64, shape (pieces,): the pair that each piece follows.
    amount
        The amount of each transfer; shape (2, pieces, ranks), up and down, if numbered by direction,
        otherwise (pieces, 2, ranks). Numbers decide between equal priorities.
    by_direction
        Whether all transfers up come before all down; otherwise all of one piece come before the next piece.
    """
    pieces, ranks = len(pair), trees.up.shape[1]
    number = np.arange(2 * pieces * ranks, dtype=np.int32)
    if by_direction:
        number = number.reshape(2, pieces, ranks)
    else:
        number = number.reshape(pieces, 2, ranks).swapaxes(0, 1)
    (up, down), above = number, np.stack([trees.up[pair], trees.down[pair]])
    route = np.full(number.size, -1, dtype=np.int32)
    route[number] = np.where(above >= 0, np.stack([trees.up_route[pair], trees.down_route[pair]]), -1)
    piece, root = np.arange(pieces)[:, None], trees.root[pair][:, None]
    rises = above[0] >= 0
    # At the root the broadcast waits for the join; if nothing is reduced, it waits for nothing.
    falls = (above[1] >= 0) & ((above[1] != root) | rises.any(axis=1, keepdims=True))
    source = np.where(above[1] == root, up[piece, root], down[piece, above[1]])
    before = np.concatenate([up[rises], source[falls]])
    after = np.concatenate([up[piece, above[0]][rises], down[falls]])
    need = np.bincount(after, minlength=number.size).astype(np.int32)
    first = offsets_of(np.bincount(before, minlength=number.size))
    follower = after[stable_pass(np.arange(len(after)), before, number.size)]
    return ListScheduleTransfers(route, need, first, follower, amount.reshape(-1))


def forward_backward(
    transfers: ListScheduleTransfers,
    routes: TimedRoutes,
    priority: Int64Array,
    passes: int,
    *,
    room: int = 0,
    least: int = 0,
    patience: int = INT64_MAX,
) -> Int64Array:
    """Return each transfer's start in ticks in the shortest schedule found: int64 (transfers,).

    Parameters
    ----------
    transfers, routes
        The transfers, over routes of one link each.
    priority
        int64, shape (transfers,): the least goes first in the first schedule.
    passes
        The largest number of passes; each makes a schedule forwards and one from its end.
    room
        The largest amount of a message, as in `kernel.send`.
    least
        A lower bound in ticks. When a schedule meets it, no more passes are made.
    patience
        The number of passes without progress after which there are no more.

    Examples
    --------
    Two pieces go over link 0 and then over link 1, three ticks each.

    >>> route, need = np.array([0, 0, 1, 1], np.int32), np.array([0, 0, 1, 1], np.int32)
    >>> first, follower = np.array([0, 1, 2, 2, 2]), np.array([2, 3], np.int32)
    >>> transfers = ListScheduleTransfers(route, need, first, follower, np.full(4, 3))
    >>> forward_backward(transfers, TimedRoutes.single_links(2), np.zeros(4, np.int64), 1)
    array([0, 3, 3, 6])
    """
    backwards, late = transfers.reversed, np.arange(len(priority)) < len(priority) // 2
    best: Int64Array = np.zeros(len(priority), np.int64)
    shortest, since = INT64_MAX, 0
    for _ in range(passes):
        there = send(transfers, routes, priority, room)
        # The parts of one message arrive at the same moment. From the end, transfers down trees go first.
        back = send(backwards, routes, late - 2 * there.arrival, room)
        turned, since = back.end - back.arrival, since + 1
        for start, end in ((there.start, there.end), (turned, back.end)):
            if end < shortest:
                best, shortest, since = start, end, 0
        if shortest <= least or since >= patience:
            break
        priority = turned
    return best


class PieceSchedule(NamedTuple):
    """A list schedule of pieces.

    Parameters
    ----------
    pieces
        The pieces that are sent.
    start
        int64, shaped as `TreePipeline.links`: the starts in ticks.
    tick, seconds
        The seconds of a tick, and of the whole schedule.
    tried
        The requested number of pieces, which is met approximately, and a second number that the search
        varies.
    """

    pieces: Pieces
    start: Int64Array
    tick: Fraction
    seconds: Fraction
    tried: tuple[int, int]


@dataclass(frozen=True, eq=False)
class TreePipeline:
    """Pieces of M over pairs of trees, for one size.

    Parameters
    ----------
    problem
        An allreduce, with its size.
    trees
        The pairs of trees that the pieces' parts follow, over single links.
    units
        The number of units of M before cutting.
    """

    by_direction: ClassVar[bool]
    """The argument of `tree_transfers` with this name."""

    problem: Problem
    trees: TreePairs
    units: int

    @property
    def size(self) -> Fraction:
        """M in bytes."""
        return Fraction(self.problem.size or 0)

    def links(self, pieces: Pieces) -> Int32Array:
        """Return the link of each transfer, -1 at roots: int32, shaped as amounts for `tree_transfers`."""
        both = self.trees.up_route[pieces.part], self.trees.down_route[pieces.part]
        return np.stack(both, axis=0 if self.by_direction else 1)

    def each(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the values of each piece in a shape that broadcasts to that of `links`."""
        return values[:, None] if self.by_direction else values[:, None, None]

    def one_by_one(
        self,
        pieces: Pieces,
        due: Callable[[int, float], Int64Array],
        passes: int,
        tried: tuple[int, int],
    ) -> PieceSchedule:
        """Return the list schedule in which each piece is a message.

        Parameters
        ----------
        pieces
            The pieces; their parts are numbers of pairs.
        due
            Returns priorities, shaped as `links`: the times at which transfers are due. Its arguments are the
            number of ticks for which the busiest link is held, and the mean number of ticks of a message.
        passes
            As in `forward_backward`.
        tried
            The value of `PieceSchedule.tried` in the result.

        Raises
        ------
        FarApartError
            If one clock can't count both the shortest message and the whole.
        """
        topology, links = self.problem.topology, self.links(pieces)
        amounts, amount = np.unique(pieces.end - pieces.begin, return_inverse=True)
        lasting = link_ticks(topology, amounts, self.size / pieces.units)
        ticks, moves = lasting.table[lasting.kind[links], self.each(amount)], links >= 0
        check_reach(float(ticks[moves].sum(dtype=np.float64)))  # no transfer starts later
        least = int(np.bincount(links[moves], weights=ticks[moves]).max())
        priority = due(least, float(ticks[moves].mean())).reshape(-1)
        transfers = tree_transfers(self.trees, pieces.part, ticks, by_direction=self.by_direction)
        routes = TimedRoutes.single_links(topology.num_links)
        start = forward_backward(transfers, routes, priority, passes, least=least, patience=2)
        start = start.reshape(links.shape)
        end = int((start + ticks)[moves].max())
        return PieceSchedule(pieces, start, lasting.tick, lasting.tick * end, tried)

    def table(self, made: PieceSchedule) -> Schedule:
        """Return the rows of the transfers, by start."""
        links, problem = self.links(made.pieces), self.problem
        places = np.nonzero(links >= 0)
        order = np.argsort(made.start[places], kind="stable")
        places = tuple(place[order] for place in places)
        down, piece = places[:2] if self.by_direction else places[1::-1]
        begin, end = made.pieces.begin[piece], made.pieces.end[piece]
        transfers = IntervalTransfers(begin, end, links[places].astype(np.int64), 2 * down - 1)
        rows, transfer = interval_schedule(problem.topology, problem.collective, transfers, made.pieces.units)
        start = made.start[places][transfer]
        return rows.replace(clock=Clock.TIME, order=start, tick=made.tick, size=self.size)
