"""Rails: an allgather on machines or planes that keeps ports and adapters busy with few messages.

On machines of ranks on a switch a rank receives (N - 1)/N M in all, by its port to the machine's switch, at v
bytes/s, and by its adapter, at n. So no allgather is faster than (N - 1)/N M/(v + n). Let ports send K
messages and adapters L. If they never wait and end together, they take α (v (K + 1) + n (L + 1))/(v + n)
longer. Adapters carry each shard to the ranks of its place in the other machines; ports spread it there. All
ranks do the same, so one rank's *timeline* (`heuristics.rails.machines`) is the whole schedule. Many are
tried and the best is kept. With distances 1, 2, 4, ... the data that a rank passes on doubles (Bruck et al.,
TPDS 1997); with distances 1, ..., G - 1 no rank waits for another. The least size of an adapter's messages is
tried out. Ports spread data up to the end at which ports and adapters are done together.

Planes (`heuristics.rails.planes`) have links or other networks between their ranks, and a switch or links
between the ranks of one place. There only the rails count: `heuristics.rails.plane_schedule`. Where machines'
switches multicast, all data that comes down to a rank is one message. Where they add, too, an allreduce is
made as a whole: `heuristics.rails.aggregated`.

Machines are the hosts that the network names or, where it names none, those that its links make plain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tutti.heuristics.classic.steps import check_allgathers
from tutti.heuristics.hosts import HostOptions, with_note_on_hosts
from tutti.heuristics.rails.aggregated import can_aggregate, can_multicast, fastest_course, schedule_of_course
from tutti.heuristics.rails.machines import (
    MachineCosts,
    Machines,
    MachineTimeline,
    SendRule,
    machines,
    play,
    schedule_of,
)
from tutti.heuristics.rails.plane_schedule import fastest_plan, planes_in_reach, schedule_of_planes
from tutti.schedules.capabilities import Capabilities, Groups, Shape
from tutti.schedules.collective import Kind
from tutti.schedules.compose import BY_ALLGATHER, from_allgather
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.simulate import simulate
from tutti.topologies.graphs.grid_structure import placed
from tutti.topologies.topology import Topology

DEFAULT_SIZE = Fraction(10**9)
"""M in bytes if no size is given."""


class RailsTuning(NamedTuple):
    """Limits and rules that are tried; more of them take longer."""

    units: int
    """Largest number of units of a shard. There are fewer where a unit would be less than a byte."""
    least: tuple[float, ...]
    """Least lengths of an adapter's messages that are tried, as multiples of the bytes that it sends in α."""
    shares: tuple[float, ...]
    """Fractions of the remaining data that an adapter sends in one message."""


TUNING = RailsTuning(
    units=2**16, least=(0.0, 4.0, 8.0, 16.0, 32.0), shares=(0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 1.0)
)


def synthesize(problem: Problem, options: HostOptions, rng: np.random.Generator) -> Schedule:
    """Return the fastest schedule found, in the step clock.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    on_hosts = replace(problem, topology=placed(problem.topology, infer=options.infer_hosts))
    return with_note_on_hosts(_fastest(on_hosts).replace(topology=problem.topology), options)


def _fastest(problem: Problem) -> Schedule:
    composed = from_allgather(problem, _allgather)
    found, size = machines(problem.topology), problem.size or DEFAULT_SIZE
    if problem.collective.kind is not Kind.ALLREDUCE or isinstance(found, str):
        return composed
    if not can_aggregate(problem.topology, found):
        return composed
    load = load_of(problem.topology, found, size)
    aggregated = schedule_of_course(problem, found, load.shard, fastest_course(load, adds=True))
    return min(aggregated, composed, key=lambda schedule: simulate(schedule, size).time)


def _allgather(problem: Problem) -> Schedule:
    found, size = machines(problem.topology), problem.size or DEFAULT_SIZE
    if isinstance(found, Machines):
        line, load = fastest(problem.topology, found, size)
        if can_multicast(problem.topology, found):
            course = fastest_course(load, adds=False)
            if course.end < max(line.seconds):
                return schedule_of_course(problem, found, load.shard, course)
        return schedule_of(problem, found, load, line)
    shard = size / problem.topology.num_ranks
    ways = planes_in_reach(problem.topology)
    return schedule_of_planes(problem, *fastest_plan(problem.topology, ways, shard, _units(shard)))


def fastest(topology: Topology, found: Machines, size: Fraction) -> tuple[MachineTimeline, MachineCosts]:
    """Return the timeline that ends first, of those tried, and its load."""
    load = load_of(topology, found, size)
    every = (_balanced(load, rule) for rule in _rules(load))
    return min(every, key=lambda line: max(line.seconds)), load


def load_of(topology: Topology, found: Machines, size: Fraction) -> MachineCosts:
    """Return the load of an allgather of `size` bytes."""
    boxes, ranks = found.rank.shape
    shard = size / topology.num_ranks
    units = _units(shard)
    port, adapter = int(found.port[0, 0]), int(found.adapter[0, 0])
    return MachineCosts(
        boxes,
        ranks,
        units,
        float(shard / units / topology.bandwidth[port]),
        float(topology.alpha[port]),
        float(shard / units / topology.bandwidth[adapter]),
        float(topology.alpha[adapter]),
    )


def _units(shard: Fraction) -> int:
    """Return a shard's number of units: the most, or one above half of it that makes them whole bytes."""
    most = max(1, min(TUNING.units, int(shard)))
    return next((units for units in range(most, most // 2, -1) if (shard / units).denominator == 1), most)


def _rules(load: MachineCosts) -> Iterator[SendRule]:
    """Yield the rules that are tried."""
    whole = load.machines * load.shard
    powers = 2 ** np.arange((load.ranks - 1).bit_length(), dtype=np.int64)
    for distances in (powers, np.arange(1, load.ranks, dtype=np.int64)):
        for least in TUNING.least:
            units = min(whole, int(least * load.adapter_alpha / load.adapter))
            for share in TUNING.shares:
                for doubling in (False, True)[: load.machines - 1]:
                    yield SendRule(distances, units, share, doubling)


def _balanced(load: MachineCosts, rule: SendRule) -> MachineTimeline:
    """Return the timeline with the best end: with an early one ports end first, with a late one adapters."""
    least, most = load.shard, load.machines * load.shard
    best = play(load, rule, most)
    if best.seconds[0] <= best.seconds[1]:
        return best
    while most - least > 1:
        middle = (least + most) // 2
        line = play(load, rule, middle)
        if max(line.seconds) < max(best.seconds):
            best = line
        if line.seconds[0] > line.seconds[1]:
            most = middle
        else:
            least = middle
    return best


def check(problem: Problem, options: HostOptions) -> None:
    """Raise `Unsupported` for networks that are neither machines nor planes, and for too many transfers."""
    check_allgathers(METHOD, problem)
    topology = placed(problem.topology, infer=options.infer_hosts)
    found = machines(topology)
    if isinstance(found, str) and not planes_in_reach(topology):
        raise METHOD.unsupported(f"needs {Shape.PLANES}; {topology.name} has no such planes and {found}")


METHOD = Method(
    name="rails",
    kind="heuristic",
    synthesize=synthesize,
    options=HostOptions,
    capabilities=Capabilities(BY_ALLGATHER, Groups.NONE, uneven_shards=False, shape=Shape.PLANES),
    check=check,
    size_dependent=lambda problem, options: True,
    summary="machines or planes joined place by place: portions over rails, spread inside meanwhile",
)
