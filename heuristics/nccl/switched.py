"""NVLS: collectives through the switches of hosts that add and multicast, and trees of hosts between them.

Place c of each host heads channel c, which has an equal part of the data; of an allgather or a
reduce-scatter, on one host, that is the shard of the head. All other ranks of the host send it to the switch,
which adds it up and hands the sum to the head. The heads of a channel add up along a double binary tree, of
height H, and the sums come back along it. Each head sends what it gets to the switch, which multicasts it to
the others. Slices of what a tree moves follow each other, a step apart; each takes 4 + 2 H steps.
"""

from __future__ import annotations

import numpy as np

from heuristics.classic.steps import StepTransfers, step_schedule
from heuristics.trees.double_binary_tree import double_binary_trees
from heuristics.trees.pipelined_trees import cut_in_pieces
from schedules.collective import Kind
from schedules.method import Problem
from schedules.schedule import Chunks, Schedule
from schedules.simulation.simulate import simulate
from topologies.exact import Int32Array, Int64Array
from topologies.graphs.grid_structure import Hosts
from topologies.trees.forest import depths

MOST_SLICES = 256


def through_switches(problem: Problem, hosts: Hosts, switches: Int64Array) -> Schedule:
    """Return the schedule with the number of slices, a power of two, after which twice as many do not help.

    Parameters
    ----------
    problem
        An allreduce, or on one host an allgather or a reduce-scatter; without a size nothing is sliced.
    hosts
        Of all ranks.
    switches
        Of each host one that adds and multicasts, and that all its ranks are linked to.
    """
    best, slices = sliced(problem, hosts, switches, 1), 2
    while problem.size is not None and slices <= MOST_SLICES:
        made = sliced(problem, hosts, switches, slices)
        if simulate(made, problem.size).time >= simulate(best, problem.size).time:
            break
        best, slices = made, slices * 2
    return best


def sliced(problem: Problem, hosts: Hosts, switches: Int64Array, slices: int) -> Schedule:
    """Return the schedule with so many slices, in the step clock."""
    what, kind = problem.collective, problem.collective.kind
    count, gpus = hosts.ranks.shape
    trees = double_binary_trees(count)[0][: 1 if count == 1 else 2]
    if kind is Kind.ALLREDUCE:
        chunks, piece = cut_in_pieces(problem, gpus * len(trees) * slices)
    else:
        chunks = Chunks.even(what, slices)
        piece = np.arange(len(chunks))
    part, place = np.divmod(piece, slices)
    ups, downs = [], []
    for number in range(gpus * len(trees)):
        chunk = np.flatnonzero(part == number)[:, None]
        head, tree = divmod(number, len(trees))
        up, down = _ways(hosts.ranks, switches, head, trees[tree], chunk, place[chunk] + 1)
        ups += up * (kind is not Kind.ALLGATHER)
        downs += down * (kind is not Kind.REDUCE_SCATTER)
    rows = StepTransfers.joined(ups + downs)
    reduce = np.arange(len(rows.step)) < sum(len(one.step) for one in ups)
    return step_schedule(problem.topology, what, chunks, rows, reduce=reduce)


def _ways(
    ranks: Int64Array, switches: Int64Array, place: int, tree: Int32Array, chunk: Int64Array, step: Int64Array
) -> tuple[list[StepTransfers], list[StepTransfers]]:
    """Return how the chunks of a channel's tree are added up, from these steps on, and how they come back."""
    head, others = ranks[:, place], np.delete(ranks, place, axis=1).ravel()
    around = np.repeat(switches, ranks.shape[1] - 1)
    child, depth = np.flatnonzero(tree >= 0), depths(tree)
    low, high, turn, height = head[child], head[tree[child]], depth[child], int(depth.max())
    ups = [
        StepTransfers.of(step, others, around, chunk),
        StepTransfers.of(step + 1, switches, head, chunk),
        StepTransfers.of(step + 2 + height - turn, low, high, chunk),
    ]
    back = step + 2 + 2 * height
    downs = [
        StepTransfers.of(step + 1 + height + turn, high, low, chunk),
        StepTransfers.of(back, head, switches, chunk),
        StepTransfers.of(back + 1, around, others, chunk),
    ]
    return ups, downs
