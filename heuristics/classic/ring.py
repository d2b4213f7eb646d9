"""The ring: every shard goes round in rank order, half of it each way (TACOS, Fig. 5 and section V-A).

There are N - 1 steps. In step t rank i sends the first half of shard i - t + 1 clockwise (to i + 1), and the
second half of shard i + t - 1 counterclockwise, all modulo N. Hosts that the network names are passed one
after the other, as libraries do. Where consecutive ranks are not neighbours, a transfer takes a shortest
route. If one direction alone is faster, whole shards go that way. An example is a ring of one-way links, on
which the other direction takes N - 1 hops a step. With `one_way` whole shards go clockwise.

Shifted rings use a circulant network as several rings of all ranks, each of which moves an equal part of the
data. Offset a of a circulant network of N ranks makes one ring 0, a, 2a, ... of all ranks if gcd(a, N) = 1;
offsets 1 and s make TopoOpt's two *shifted* rings (dissertation, section 3.8.2, baseline ShiftedRing). Every
ring moves its part of each shard round in both directions, so that all links carry the same in each of N - 1
steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from tutti.heuristics.classic.steps import (
    StepMessages,
    StepTransfers,
    check_allgathers,
    exchange_seconds,
    routes_between,
    schedule_of_steps,
)
from tutti.schedules.capabilities import Capabilities, Groups, Shape
from tutti.schedules.compose import BY_ALLGATHER, from_allgather, seconds_by_allgathers
from tutti.schedules.method import Method, NoOptions, Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.exact import Int64Array
from tutti.topologies.graphs.grid_structure import hosts_of, members_of
from tutti.topologies.options import Options
from tutti.topologies.topology import Topology


@dataclass(frozen=True)
class RingOptions(Options):
    """Options of the ring.

    Parameters
    ----------
    one_way
        Whether whole shards go round clockwise only.

    Raises
    ------
    InputError
        If it is neither true nor false.
    """

    OWNER: ClassVar[str] = "ring"

    one_way: bool = False


def synthesize(problem: Problem, options: RingOptions, rng: np.random.Generator) -> Schedule:
    """Return the ring, in the step clock; two ranks send whole shards, as both directions are one.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    RING.supports(problem, options)
    return from_allgather(problem, lambda half: rings_allgather(half, _rings(half.topology, options.one_way)))


def _rings(topology: Topology, one_way: bool) -> Int64Array:
    """Return the ranks in ring order, in both directions or in the faster one; shape (directions, N)."""
    hosts = members_of(hosts_of(topology), topology)
    forward = np.arange(topology.num_ranks) if hosts is None else np.concatenate(hosts)
    ways = np.stack([forward, forward[::-1]])
    if one_way or topology.num_ranks == 2:
        return ways[:1]
    return min((ways, ways[:1], ways[1:]), key=lambda one: _step_time(topology, one))


def _step_time(topology: Topology, rings: Int64Array) -> Fraction:
    """Return the largest load of a link over its bandwidth when each rank sends one datum, in equal parts."""
    routes = routes_between(topology, rings.ravel(), np.roll(rings, -1, axis=1).ravel())
    passing = np.bincount(routes.links, minlength=topology.num_links)
    loads = np.unique(np.stack([passing, topology.bandwidth.numerators]), axis=1)
    return max(Fraction(load, bandwidth) for load, bandwidth in loads.T.tolist()) / len(rings)


def rings_allgather(problem: Problem, rings: Int64Array) -> Schedule:
    """Return the allgather in which an equal part of every shard goes round each ring, one way.

    Parameters
    ----------
    problem
        The problem, of all ranks.
    rings
        Shape (rings, N): the ranks in the order in which each ring passes them.
    """
    count, n = rings.shape
    step, ring, place = np.meshgrid(np.arange(1, n), np.arange(count), np.arange(n), indexing="ij")
    sender, receiver, shard = (rings[ring, (place + by) % n] for by in (0, 1, 1 - step))
    rows = StepTransfers.of(step, sender, receiver, shard * count + ring)
    return schedule_of_steps(problem, rows, count)


def estimate(problem: Problem, options: RingOptions) -> float:
    """Return the seconds of N - 1 steps, in each of which every rank sends a shard on."""

    def gathering(problem: Problem) -> float:
        rings = _rings(problem.topology, options.one_way)
        count, n = rings.shape
        step = StepMessages(rings, np.roll(rings, -1, axis=1), 1 / (n * count), n - 1)
        return exchange_seconds(problem, [step])

    return seconds_by_allgathers(problem, gathering)


RING: Method = Method(
    name="ring",
    kind="heuristic",
    synthesize=synthesize,
    options=RingOptions,
    capabilities=Capabilities(BY_ALLGATHER, Groups.NONE),
    check=lambda problem, options: check_allgathers(RING, problem, 1 if options.one_way else 2),
    estimate=estimate,
    summary="ring in rank order, host by host, both ways or the faster one, over shortest routes",
)


def synthesize_shifted(problem: Problem, options: NoOptions, rng: np.random.Generator) -> Schedule:
    """Return the schedule over all rings, in the step clock.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    SHIFTED_RING.supports(problem, options)
    return from_allgather(problem, _shifted_allgather)


def _shifted_allgather(problem: Problem) -> Schedule:
    n = problem.topology.num_ranks
    offset = np.array(_offsets(problem.topology))[:, None, None]
    ring = np.arange(len(offset))[:, None, None]
    step, sender = np.arange(1, n)[:, None], np.arange(n)
    shard = (sender - offset * (step - 1)) % n
    rows = StepTransfers.of(step, sender, (sender + offset) % n, shard * len(offset) + ring)
    return schedule_of_steps(problem, rows, len(offset))


def _offsets(topology: Topology) -> list[int]:
    """Return the offsets, both signs, by which every rank has one link; none if ranks or signs differ."""
    n = topology.num_ranks
    if topology.num_switches:
        return []
    step = (topology.target.astype(np.int64) - topology.source) % n
    offsets, times = np.unique(step, return_counts=True)
    pairs = np.unique(topology.source.astype(np.int64) * n + step)
    alike = (times == n).all() and len(pairs) == topology.num_links
    both = set(offsets.tolist()) == {n - a for a in offsets.tolist()}
    return offsets.tolist() if alike and both else []


def check_shifted(problem: Problem, options: NoOptions) -> None:
    """Raise `Unsupported` unless the network is circulant, each offset making one ring of all ranks."""
    topology = problem.topology
    offsets = _offsets(topology)
    if not offsets:
        raise SHIFTED_RING.unsupported(f"needs {Shape.CIRCULANT}; {topology.name} is none")
    broken = next((a for a in offsets if math.gcd(a, topology.num_ranks) > 1), None)
    if broken is not None:
        raise SHIFTED_RING.unsupported(
            f"needs offsets that each make one ring; in {topology.name} offset {broken} makes "
            f"{math.gcd(broken, topology.num_ranks)} of {topology.num_ranks} ranks"
        )
    check_allgathers(SHIFTED_RING, problem, len(offsets))


def estimate_shifted(problem: Problem, options: NoOptions) -> float:
    """Return the seconds of N - 1 steps, in each of which every link carries an equal part of a shard."""
    n, offset = problem.topology.num_ranks, np.array(_offsets(problem.topology))[:, None]
    sender = np.tile(np.arange(n), (len(offset), 1))
    step = StepMessages(sender, (sender + offset) % n, 1 / (n * len(offset)), n - 1)
    return seconds_by_allgathers(problem, lambda half: exchange_seconds(half, [step]))


SHIFTED_RING = Method(
    name="shifted_ring",
    kind="heuristic",
    synthesize=synthesize_shifted,
    capabilities=Capabilities(BY_ALLGATHER, Groups.NONE, shape=Shape.CIRCULANT),
    check=check_shifted,
    estimate=estimate_shifted,
    summary="circulant networks: a ring of all ranks for each offset, with equal parts of the data",
)
