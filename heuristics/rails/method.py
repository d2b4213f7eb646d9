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
between the ranks of one place. There only the rails count: `heuristics.rails.plane_schedule`.

Machines are the hosts that the network names or, where it names none, those that its links make plain.

Where machines' switches multicast and add, all ranks do the jobs of a `Course`, as fast as the adapters
allow. There are B machines of G ranks, N in all, and each rank owns a shard. In an allreduce, for each hop h
from 0 to B - 1,

* *gather*: the ranks of a machine b send what they have of the shard of rank (b + h, g) *up* to their switch,
  which adds it. The sum comes *down* to rank (b, g), which for h > 0 sends it *across* to (b + h, g). So all
  sums of a shard meet at its owner.
* *spread*: for h > 0 the owner (b, g) sends the whole sum across to (b + h, g). That rank, or for h = 0 the
  owner itself, sends it up to its switch, which multicasts it down to the other ranks of the machine.

So a rank sends 2 (B - 1)/N M by its adapter, at n bytes/s, and M by its port. If n is slow and the adapter
never waits, the time is 2 (B - 1)/N M/n, which is the partition bound for machines, and an α a message. The
messages across grow from small ones when sums are gathered, and shrink to small ones when they are spread. So
the adapter begins soon and ports are soon done. Each shard has two halves. The first is summed first and
spread while the second is summed. Ports first do jobs that adapters wait for or brought, and jobs of hop 0
when there is nothing else. Small shards are not cut.

An allgather only spreads. All data that comes down to a rank from the others of its machine is one message,
as the switch holds what they sent up. Without a switch that multicasts it would be a message, and an α, from
each.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tutti.heuristics.classic.steps import check_allgathers
from tutti.heuristics.hosts import HostOptions, with_note_on_hosts
from tutti.heuristics.rails.machines import (
    MachineCosts,
    Machines,
    MachineTimeline,
    SendRule,
    ShardMoves,
    machines,
    play,
    schedule_of,
    shard_schedule,
)
from tutti.heuristics.rails.plane_schedule import fastest_plan, planes_in_reach, schedule_of_planes
from tutti.schedules.capabilities import Capabilities, Groups, Shape
from tutti.schedules.collective import Kind
from tutti.schedules.compose import BY_ALLGATHER, from_allgather
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Routes, Schedule
from tutti.schedules.simulation.simulate import simulate
from tutti.topologies.exact import Int64Array, joined_rows, offsets_of
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


SHARES, LEAST, PARTS = (0.15, 0.2, 0.25, 0.3, 0.4, 1.0), (4.0, 6.0, 8.0, 12.0), (1, 2, 4, 8)
"""The values that are tried for courses. A message across has this fraction of the data sent before it, or
still to be sent, but at least this multiple of the bytes of α. Jobs of hop 0 have this number of parts; if it
is one, shards of sums have no halves."""
MOST_MACHINES = 16
"""Largest number of machines for a course. A larger value allows more jobs, which are played for each set of
values."""


class SwitchDirection(IntEnum):
    """The direction of a message: up to the switch, down from it, or across to another machine."""

    UP = 0
    DOWN = 1
    ACROSS = 2


UP, DOWN, ACROSS = SwitchDirection


class RankMessage(NamedTuple):
    """A message of every rank, with units `low` to `high` of the shards of a hop; gathered ones are added."""

    direction: SwitchDirection
    adds: bool
    hop: int
    low: int
    high: int


@dataclass(frozen=True)
class Course:
    """Jobs in the order in which they start, their starts, and the end of all."""

    jobs: list[RankMessage]
    start: list[float]
    end: float


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


def can_aggregate(topology: Topology, found: Machines) -> bool:
    """Whether the machines' switches add and multicast, and there are at most `MOST_MACHINES`."""
    return can_multicast(topology, found) and _switches(topology, found) <= topology.aggregate


def can_multicast(topology: Topology, found: Machines) -> bool:
    """Whether the machines' switches multicast, and there are at most `MOST_MACHINES`."""
    return len(found.rank) <= MOST_MACHINES and _switches(topology, found) <= topology.multicast


def _switches(topology: Topology, found: Machines) -> set[int]:
    return set(topology.target[found.port[0]].tolist())


def fastest_course(load: MachineCosts, *, adds: bool) -> Course:
    """Return the course that ends first, of those tried; if it `adds`, it gathers before it spreads."""
    alphas = load.adapter_alpha / load.adapter
    tried = itertools.product(SHARES, LEAST, PARTS)
    courses = (course_of(load, share, int(least * alphas), parts, adds=adds) for share, least, parts in tried)
    return min(courses, key=lambda course: course.end)


def course_of(load: MachineCosts, share: float, least: int, parts: int, *, adds: bool) -> Course:
    """Return the course whose messages across have at least `least` units.

    Whenever a port or an adapter is free it does the first of its jobs that is ready; an adapter's jobs keep
    a fixed order.
    """
    jobs = _jobs(load, share, least, parts, adds=adds)
    waiting = _waiting(jobs)
    line = [number for number, job in enumerate(jobs) if job.direction is ACROSS][::-1]
    ready = {number for number, before in enumerate(waiting) if not before}
    free, start, ended = dict.fromkeys(SwitchDirection, 0.0), [0.0] * len(jobs), [0.0] * len(jobs)
    earliest = [0.0] * len(jobs)
    followers: list[list[int]] = [[] for _ in jobs]
    for number, before in enumerate(waiting):
        for other in before:
            followers[other].append(number)
    order = []
    # Invariant: jobs are taken in the order of their starts, because each waits until others have ended.
    while ready:
        able = [number for number in ready if jobs[number].direction is not ACROSS or number == line[-1]]
        # Of those that can go now, messages across machines go first, and of these those that spread.
        now, *_, chosen = min(
            (max(free[jobs[n].direction], earliest[n]), jobs[n].hop == 0, jobs[n].adds, n) for n in able
        )
        job = jobs[chosen]
        held, late = _lasts(load, job)
        start[chosen], free[job.direction], ended[chosen] = now, now + held, now + held + late
        ready.discard(chosen)
        order.append(chosen)
        if job.direction is ACROSS:
            line.pop()
        for other in followers[chosen]:
            waiting[other].discard(chosen)
            earliest[other] = max(earliest[other], ended[chosen])
            if not waiting[other]:
                ready.add(other)
    return Course([jobs[n] for n in order], [start[n] for n in order], max(ended))


def _jobs(load: MachineCosts, share: float, least: int, parts: int, *, adds: bool) -> list[RankMessage]:
    """Return all jobs; those of adapters are in the order in which these do them."""
    middle = load.shard // 2 if adds and parts > 1 else 0
    halves = [(0, middle), (middle, load.shard)]
    # Gathering is spreading backwards, so that the half that is spread last is gathered first.
    gathered = list(_across(load, share, least, halves[::-1]))[::-1]
    spread = list(_across(load, share, least, halves))
    cuts = np.unique(np.linspace(0, load.shard, parts + 1).astype(np.int64)).tolist()
    own = [(0, low, high) for low, high in itertools.pairwise(cuts)]
    jobs = [
        *(RankMessage(direction, True, *part) for part in gathered for direction in SwitchDirection),
        *(RankMessage(direction, False, *part) for part in spread for direction in SwitchDirection),
        *(
            RankMessage(direction, sums, *part)
            for part in own
            for sums in (True, False)
            for direction in (UP, DOWN)
        ),
    ]
    return [job for job in jobs if adds or not job.adds]


def _across(
    load: MachineCosts, share: float, least: int, halves: list[tuple[int, int]]
) -> Iterator[tuple[int, int, int]]:
    """Yield hop, low and high of the messages across when sums are spread, ever smaller ones."""
    left = (load.machines - 1) * load.shard
    for cut, high in halves:
        for hop in range(1, load.machines):
            low = cut
            while low < high:
                end = min(high, low + max(least, int(share * left), 1))
                yield hop, low, end
                left, low = left - (end - low), end


def _waiting(jobs: list[RankMessage]) -> list[set[int]]:
    """Return for each job the jobs that must end before it begins."""
    number = {job: place for place, job in enumerate(jobs)}
    last = {False: ACROSS, True: DOWN}
    # The last jobs of gathering: what spreads first waits for those that have some of its units.
    sums = [
        (job.low, job.high, place)
        for place, job in enumerate(jobs)
        if job.adds and job.direction is last[job.hop == 0]
    ]
    waiting: list[set[int]] = []
    for job in jobs:
        if not job.adds and job.direction is (ACROSS if job.hop else UP):
            waiting.append({place for low, high, place in sums if low < job.high and job.low < high})
        elif job.direction is (UP if job.adds else ACROSS):
            waiting.append(set())
        else:  # a message goes up, down and across, and what spreads goes across first
            waiting.append({number[job._replace(direction=SwitchDirection((job.direction - 1) % 3))]})
    return waiting


def _lasts(load: MachineCosts, job: RankMessage) -> tuple[float, float]:
    """Return for how long a job holds its first link, and how much later it ends."""
    units = job.high - job.low
    if job.direction is ACROSS:
        return load.adapter_alpha + units * load.adapter, load.adapter_alpha
    others = load.ranks - 1 if (job.direction is UP) == job.adds else 1
    return load.port_alpha + others * units * load.port, 0.0


def schedule_of_course(problem: Problem, found: Machines, shard: int, course: Course) -> Schedule:
    """Return the schedule in which all ranks do the jobs of the course, in the step clock."""
    steps = np.unique(course.start, return_inverse=True)[1].ravel() + 1
    moves, adds = [], []
    for step, job in zip(steps, course.jobs, strict=True):
        item, route = _rows(found, job)
        moves.append(ShardMoves.of(step, route, item, job.low, job.high))
        adds.append(np.full(len(item), job.adds))
    reduce = np.concatenate(adds) if any(job.adds for job in course.jobs) else None
    return shard_schedule(problem, shard, joined_rows(moves), _routes(found), reduce)


def _rows(found: Machines, job: RankMessage) -> tuple[Int64Array, Int64Array]:
    """Return item and route (`_routes`) of all that ranks send or receive in a job."""
    boxes, ranks = found.rank.shape
    box, at, other = np.indices((boxes, ranks, ranks)).reshape(3, -1)
    # Up from `at` (or down to it) goes the shard of `other`, or the shard of `at`, which owns it.
    shared = (job.direction is UP) == job.adds and job.direction is not ACROSS
    kept = at != other if shared else at == other
    box, at, other = box[kept], at[kept], other[kept]
    whose = box + job.hop if job.adds else box - job.hop
    if job.direction is ACROSS:
        whose = box + job.hop if job.adds else box
    item = found.rank[whose % boxes, other]
    here = found.rank[box, at]
    direction = 1 + job.hop if job.direction is ACROSS else job.direction
    return item, direction * found.rank.size + here


def _routes(found: Machines) -> Routes:
    """Return the routes, each by rank: up, down, and across from it by 1, 2, ... machines."""
    boxes, ranks = found.rank.shape
    machine, place = np.divmod(np.argsort(found.rank, axis=None), ranks)
    target = found.rank[(machine + np.arange(1, boxes)[:, None]) % boxes, place]
    across = np.stack(np.broadcast_arrays(found.adapter[0], found.adapter[1, target]), axis=-1)
    lengths = [1] * (2 * found.rank.size) + [2] * ((boxes - 1) * found.rank.size)
    flat = np.concatenate([found.port.ravel(), across.ravel()])
    return Routes(offsets_of(lengths), flat.astype(np.int32))


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
