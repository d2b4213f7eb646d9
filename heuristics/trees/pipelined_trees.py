"""An allreduce over rooted trees: slices of each tree's part of M follow each other up and down the tree.

M is a line that is cut into one interval a tree, each cut into slices. In a tree of height H slice j goes
from a rank at depth d to its parent in step j + H - d + 1, so that the deepest begin. It comes back from the
parent in step j + H + d. In each step a slice goes over a tree edge as one message. A broadcast is the second
half of this, and a reduce the first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from tutti.heuristics.classic.steps import StepTransfers, check_rows, schedule_of_steps
from tutti.schedules.collective import Collective, Kind
from tutti.schedules.cost import congestion
from tutti.schedules.intervals import CutLine, line_width
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Chunks, Schedule
from tutti.schedules.simulation.simulate import SLICING, simulate
from tutti.topologies.exact import Int32Array, Int64Array
from tutti.topologies.trees.forest import depths

MOST_SLICES = 1024
"""Largest number of slices of a tree that is tried."""
MOST_TRIED = 2**24
"""Largest number of messages of a schedule that is simulated to choose a number of slices."""


def best_slices(problem: Problem, parents: Int32Array) -> int:
    """Return the fastest power of two of slices; the search ends where 2 and 4 times as many do not help.

    It is 1 without a size, and the schedules that are simulated have at most `MOST_TRIED` messages. Two
    slices may be slower than one although four are faster, because slices of trees that share links then
    alternate in another order.

    Parameters
    ----------
    problem, parents
        As in `pipelined_trees`.
    """
    best, slices, least = 1, 1, math.inf
    halves = 2 if problem.collective.kind is Kind.ALLREDUCE else 1  # up and down the tree
    most = min(MOST_SLICES, max(1, MOST_TRIED // (halves * parents.size)))
    while problem.size is not None and slices <= min(most, best << SLICING.patience):
        time = simulate(_alone(problem, parents, slices), problem.size).time
        if time < least:
            best, least = slices, time
        slices *= 2
    return best


def check_pipeline(method: Method, problem: Problem, pieces: int) -> None:
    """Raise `Unsupported` if trees that cut M into `pieces` pieces would have too many transfers."""
    ranks = problem.topology.num_ranks
    shares, halves = (ranks, 2) if problem.collective.kind is Kind.ALLREDUCE else (1, 1)
    # M is cut at the borders of shares and of pieces, and each chunk goes over all edges of a tree.
    check_rows(method, problem, halves * (ranks - 1) * (shares + pieces))


def _alone(problem: Problem, parents: Int32Array, slices: int) -> Schedule:
    """Return the schedule as if M were one item: the same messages in fewer rows, not cut by shares."""
    whole = Collective(Kind.BROADCAST, problem.topology.num_ranks, root=0)
    return _schedule(Problem(problem.topology, whole), parents, slices, problem.collective.kind)


def pipelined_trees(problem: Problem, parents: Int32Array, slices: int) -> Schedule:
    """Return the schedule, in the step clock, every tree edge over a shortest route.

    Parameters
    ----------
    problem
        An allreduce, broadcast or reduce of all ranks.
    parents
        Shape (trees, N): each rank's parent, -1 at the root; or (trees, nodes), of switches that add and
        multicast too. All trees move equal parts of M.
    slices
        Number of slices of each tree; 0: `best_slices`.
    """
    slices = slices or best_slices(problem, parents)
    return _schedule(problem, parents, slices, problem.collective.kind)


def fastest_trees(problem: Problem, every: Sequence[Int32Array], slices: int) -> Schedule:
    """Return `pipelined_trees` over the fastest ones at the size; without a size, those of least congestion.

    Parameters
    ----------
    problem, slices
        As in `pipelined_trees`.
    every
        The parents to choose from; the first of equal ones is taken.
    """

    def cost(parents: Int32Array) -> float | Fraction:
        if problem.size is None:
            return congestion(_alone(problem, parents, 1))
        count = slices or best_slices(problem, parents)
        return simulate(_alone(problem, parents, count), problem.size).time

    return pipelined_trees(problem, every[0] if len(every) == 1 else min(every, key=cost), slices)


def _schedule(problem: Problem, parents: Int32Array, slices: int, kind: Kind) -> Schedule:
    """Return the rows of an allreduce, broadcast or reduce on the data of the problem's collective."""
    chunks, piece = cut_in_pieces(problem, len(parents) * slices)
    tree, place = np.divmod(piece, slices)
    ups, downs = [], []
    for number, parent in enumerate(parents):
        chunk = np.flatnonzero(tree == number)[:, None]
        child, depth = np.flatnonzero(parent >= 0), depths(parent)
        above, far, height = parent[child], depth[child], int(depth.max())
        # Slice j leaves depth d upwards in step j + H - d + 1 and arrives there downwards in step j + H + d.
        ups.append(StepTransfers.of(place[chunk] + height - far + 1, child, above, chunk))
        downs.append(StepTransfers.of(place[chunk] + height + far, above, child, chunk))
    halves = [*([] if kind is Kind.BROADCAST else ups), *([] if kind is Kind.REDUCE else downs)]
    rows = StepTransfers.joined(halves)
    rising = 0 if kind is Kind.BROADCAST else sum(len(up.step) for up in ups)
    reduce = np.arange(len(rows.step)) < rising if rising else None
    return schedule_of_steps(problem, rows, chunks, reduce)


def cut_in_pieces(problem: Problem, pieces: int) -> tuple[Chunks, Int64Array]:
    """Return chunks that each lie in one item and in one of `pieces` equal pieces of M, and that piece."""
    width = line_width(problem.collective, pieces)
    line = CutLine.of(problem.collective, width, np.arange(pieces + 1) * (width // pieces))
    return line.chunks, line.start // (width // pieces)
