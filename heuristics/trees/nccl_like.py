"""What NCCL would choose: for an allreduce rings or double binary trees, by the size; else rings.

On g ranks in each of several machines there are g *channels*, each with an equal part of the data. A ring of
channel c goes through the ranks c, c + 1, ..., c - 1 (modulo g) of each machine and on to rank c of the next,
so that every rank's adapter sends for one channel and receives for one. The trees of channel c are double
binary trees of the machines, joining their ranks c, and a chain from there through each machine (Jeaugey:
Massively Scale Your Deep Learning Training with NCCL 2.4, 2019). Where they are slower, and on other
networks, it is the ring and the trees of the methods `ring` and `dbt`. NCCL estimates times from tables of
latency and bandwidth; here the schedules are made and simulated. Its rings follow the wiring inside a
machine; here they go in rank order.
"""

from __future__ import annotations

import numpy as np

from heuristics.classic.ring import RING, rings_allgather
from heuristics.classic.steps import check_allgathers
from heuristics.trees.double_binary_tree import double_binary_trees
from heuristics.trees.pipelined_trees import fastest_trees
from schedules.capabilities import Capabilities, Groups
from schedules.collective import Kind
from schedules.compose import BY_ALLGATHER, from_allgather
from schedules.cost import congestion
from schedules.method import Method, NoOptions, Problem
from schedules.schedule import Schedule
from schedules.simulation.simulate import simulate
from topologies.exact import Int32Array, Int64Array
from topologies.graphs.grid_structure import machines_of
from topologies.topology import Topology

AUTOMATIC = 0


def synthesize(problem: Problem, options: NoOptions, rng: np.random.Generator) -> Schedule:
    """Return the faster one; ``stats["algorithm"]`` says which.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    size = problem.size
    every = [_named(ring, "ring") for ring in _rings(problem, rng)]
    if size is None:
        return min(every, key=congestion)
    if problem.collective.kind is Kind.ALLREDUCE:
        every.append(_named(fastest_trees(problem, _trees(problem.topology), AUTOMATIC), "dbt"))
    return min(every, key=lambda one: simulate(one, size).time)


def _named(schedule: Schedule, algorithm: str) -> Schedule:
    return schedule.replace(stats={**schedule.stats, "algorithm": algorithm})


def _rings(problem: Problem, rng: np.random.Generator) -> list[Schedule]:
    """Return the schedules over one ring of all ranks, and over those of the channels."""
    every = [RING.synthesize(problem, RING.options(), rng)]
    machines = machines_of(problem.topology)
    if machines is not None:
        rings = channel_rings(*machines)
        every.insert(0, from_allgather(problem, lambda one: rings_allgather(one, rings)))
    return every


def _trees(topology: Topology) -> list[Int32Array]:
    """Return the parents of the trees of all ranks, and of those of the channels."""
    machines = machines_of(topology)
    every = double_binary_trees(topology.num_ranks)
    return every if machines is None else [channel_trees(*machines), *every]


def channel_rings(machines: int, ranks: int) -> Int64Array:
    """Return the ranks in the order of each channel's ring, shape (ranks, machines x ranks).

    Examples
    --------
    >>> channel_rings(2, 3).tolist()
    [[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3], [2, 0, 1, 5, 3, 4]]
    """
    place = np.arange(ranks)
    inside = (place[:, None] + place) % ranks
    return (inside[:, None, :] + ranks * np.arange(machines)[:, None]).reshape(ranks, machines * ranks)


def channel_trees(machines: int, ranks: int) -> Int32Array:
    """Return the parents in both trees of each channel, -1 at roots, shape (2 x ranks, machines x ranks).

    Examples
    --------
    >>> channel_trees(2, 2).tolist()
    [[2, 0, -1, 2], [1, 3, 3, -1], [-1, 0, 0, 2], [1, -1, 3, 1]]
    """
    channel, place = np.arange(ranks)[:, None, None], np.arange(ranks)
    chain = np.arange(machines)[:, None] * ranks + (place - 1) % ranks
    trees = []
    for parent in double_binary_trees(machines)[0][:, :, None]:
        head = np.where(parent < 0, -1, parent * ranks + channel)
        trees.append(np.where(place == channel, head, chain).reshape(ranks, -1))
    return np.concatenate(trees).astype(np.int32)


def check(problem: Problem, options: NoOptions) -> None:
    """Raise `Unsupported` for too many transfers."""
    machines = machines_of(problem.topology)
    check_allgathers(METHOD, problem, 2 if machines is None else max(2, machines[1]))


METHOD = Method(
    name="nccl_like",
    kind="heuristic",
    synthesize=synthesize,
    capabilities=Capabilities(BY_ALLGATHER, Groups.NONE),
    check=check,
    size_dependent=lambda problem, options: (
        problem.collective.kind is Kind.ALLREDUCE or machines_of(problem.topology) is not None
    ),
    summary="rings or double binary trees, a channel a rank of a machine, whichever is faster at the size",
)
