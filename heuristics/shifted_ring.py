"""Shifted rings: a circulant network as rings of all ranks, each moving an equal part of the data.

Offset a of a circulant network of N ranks makes one ring 0, a, 2a, ... of all ranks if gcd(a, N) = 1; offsets
1 and s make TopoOpt's two *shifted* rings (dissertation, section 3.8.2, baseline ShiftedRing). Every ring
moves its part of each shard round both ways, so that all links carry the same in each of N - 1 steps.
"""

from __future__ import annotations

import math

import numpy as np

from heuristics.steps import Rows, check_allgathers, step_schedule
from schedules.capabilities import Capabilities, Groups, Shape
from schedules.compose import BY_ALLGATHER, from_allgather
from schedules.method import Method, NoOptions, Problem
from schedules.schedule import Chunks, Schedule
from topologies.topology import Topology


def synthesize(problem: Problem, options: NoOptions, rng: np.random.Generator) -> Schedule:
    """Return the schedule over all rings, in the step clock.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    return from_allgather(problem, _allgather)


def _allgather(problem: Problem) -> Schedule:
    n, what = problem.topology.num_ranks, problem.collective
    offset = np.array(_offsets(problem.topology))[:, None, None]
    ring = np.arange(len(offset))[:, None, None]
    step, sender = np.arange(1, n)[:, None], np.arange(n)
    shard = (sender - offset * (step - 1)) % n
    rows = Rows.of(step, sender, (sender + offset) % n, shard * len(offset) + ring)
    return step_schedule(problem.topology, what, Chunks.even(what, len(offset)), rows)


def _offsets(topology: Topology) -> list[int]:
    """Return the offsets, each way, by which every rank has a link on; none if links are not alike."""
    n = topology.num_ranks
    if topology.num_switches:
        return []
    step = (topology.target.astype(np.int64) - topology.source) % n
    offsets, times = np.unique(step, return_counts=True)
    pairs = np.unique(topology.source.astype(np.int64) * n + step)
    alike = (times == n).all() and len(pairs) == topology.num_links
    both = set(offsets.tolist()) == {n - a for a in offsets.tolist()}
    return offsets.tolist() if alike and both else []


def check(problem: Problem, options: NoOptions) -> None:
    """Raise `Unsupported` unless the network is circulant, each offset making one ring of all ranks."""
    topology = problem.topology
    offsets = _offsets(topology)
    if not offsets:
        raise METHOD.unsupported(f"needs {Shape.CIRCULANT}; {topology.name} is none")
    broken = next((a for a in offsets if math.gcd(a, topology.num_ranks) > 1), None)
    if broken is not None:
        raise METHOD.unsupported(
            f"needs offsets that each make one ring; in {topology.name} offset {broken} makes "
            f"{math.gcd(broken, topology.num_ranks)} of {topology.num_ranks} ranks"
        )
    check_allgathers(METHOD, problem, len(offsets))


METHOD = Method(
    name="shifted_ring",
    kind="heuristic",
    synthesize=synthesize,
    capabilities=Capabilities(BY_ALLGATHER, Groups.NONE, shape=Shape.CIRCULANT),
    check=check,
    summary="circulant networks: a ring of all ranks for each offset, with equal parts of the data",
)
