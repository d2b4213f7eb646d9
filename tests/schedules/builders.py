"""Small legal schedules, made by hand: plans are lists of rows that any of the three clocks can run."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache

import numpy as np

from tutti.schedules import Chunks, Clock, Collective, Routes, Schedule, collective
from tutti.topologies import Link, Topology

SIZE = Fraction(1000)
TICK = Fraction(1, 10)


@dataclass
class Plan:
    """Rows (chunk, count, route, reduce) in an order in which they could run one after the other."""

    topology: Topology
    collective: Collective
    chunks: Chunks
    rows: list[tuple[int, int, int, bool]] = field(default_factory=list)
    routes: list[list[int]] | None = None

    def add(self, chunk: int, route: int, *, count: int = 1, reduce: bool = False) -> None:
        self.rows.append((chunk, count, route, reduce))

    def chain(self, chunk: int) -> list[int]:
        """Return a chunk, its original if it is a copy, the original of that, and so on."""
        of = -1 if self.chunks.copy_of is None else int(self.chunks.copy_of[chunk])
        return [chunk, *(self.chain(of) if of >= 0 else [])]

    def reads(self, chunk: int, route: int) -> list[tuple[int, int]]:
        """Return the (node, chunk) pairs whose values a row of one chunk may need."""
        source, target = _ends(self, route)
        return [(source, c) for c in self.chain(chunk)] + [(target, c) for c in self.chain(chunk)[1:]]

    def links(self, route: int) -> list[int]:
        return [route] if self.routes is None else self.routes[route]


def link(source: int, target: int, bandwidth: int = 100, alpha: Fraction = Fraction(1)) -> Link:
    """Return a link with numbers for mental arithmetic: 100 B/s and 1 s."""
    return Link(source, target, Fraction(bandwidth), alpha)


def ring_network(n: int, *, both: bool = False) -> Topology:
    links = [link(i, (i + 1) % n) for i in range(n)]
    links += [link((i + 1) % n, i, 50) for i in range(n)] if both else []
    return Topology.from_links(f"ring{n}", n, links)


def complete_network(n: int) -> Topology:
    return Topology.from_links(f"complete{n}", n, [link(i, j) for i in range(n) for j in range(n) if i != j])


def star_network(n: int, **able: Sequence[int]) -> Topology:
    """Return n ranks round switch n: link 2i from rank i, link 2i + 1 to it."""
    links = [one for i in range(n) for one in (link(i, n, 200), link(n, i, alpha=Fraction(1, 3)))]
    return Topology.from_links(f"star{n}", n, links, num_switches=1, **able)


def random_network(n: int, rng: np.random.Generator) -> Topology:
    """Return a ring with chords, some of them parallel, of various bandwidths and α."""
    ends = [(i, (i + 1) % n) for i in range(n)]
    ends += [tuple(rng.choice(n, 2, replace=False).tolist()) for _ in range(n)]
    links = [link(a, b, int(rng.integers(50, 200)), Fraction(int(rng.integers(0, 4)), 3)) for a, b in ends]
    return Topology.from_links("random", n, links)


def link_between(topology: Topology, source: int, target: int) -> int:
    return int(np.flatnonzero((topology.source == source) & (topology.target == target))[0])


def ring_allgather(topology: Topology, what: Collective, per_item: int = 1) -> Plan:
    """Send every shard round its group, in runs of all its chunks."""
    plan = Plan(topology, what, Chunks.even(what, per_item))
    _go_round(plan, start=0, reduce=False)
    return plan


def ring_reduce_scatter(topology: Topology, what: Collective, per_item: int = 1) -> Plan:
    """Send the partial sum for a rank from the next rank round to it."""
    plan = Plan(topology, what, Chunks.even(what, per_item))
    _go_round(plan, start=1, reduce=True)
    return plan


def ring_allreduce(topology: Topology, what: Collective, per_item: int = 1) -> Plan:
    plan = ring_reduce_scatter(topology, what, per_item)
    _go_round(plan, start=0, reduce=False)
    return plan


def _go_round(plan: Plan, start: int, reduce: bool) -> None:
    """Send each item over all but one hop of its group's ring, from its owner's position + start."""
    base = 0
    per_item = len(plan.chunks) // len(plan.collective.items)
    for members in plan.collective.members:
        n = len(members)
        for hop in range(n - 1):
            for place in range(n):
                source, target = (members[(place + start + hop + k) % n] for k in (0, 1))
                route = link_between(plan.topology, source, target)
                plan.add((base + place) * per_item, route, count=per_item, reduce=reduce)
        base += n


def flooding(topology: Topology, what: Collective, rng: np.random.Generator, per_item: int = 1) -> Plan:
    """Send random chunks that a neighbour lacks until all ranks hold all."""
    plan = Plan(topology, what, Chunks.even(what, per_item))
    holders = {(chunk, int(what.items.start[item])) for chunk, item in enumerate(plan.chunks.item.tolist())}
    while len(holders) < len(plan.chunks) * topology.num_nodes:
        useful = [
            (chunk, one)
            for one, (source, target) in enumerate(zip(topology.source, topology.target, strict=True))
            for chunk in range(len(plan.chunks))
            if (chunk, source) in holders and (chunk, target) not in holders
        ]
        chunk, one = useful[rng.integers(len(useful))]
        plan.add(chunk, one)
        holders.add((chunk, int(topology.target[one])))
    return plan


def ring_all_to_all(topology: Topology, what: Collective) -> Plan:
    """Store and forward: the data of i for j go hop by hop."""
    plan = Plan(topology, what, Chunks.even(what))
    n = what.num_ranks
    for hop in range(n - 1):
        for owner in range(n):
            for distance in range(hop + 1, n):
                plan.add(owner * n + (owner + distance) % n, (owner + hop) % n)
    return plan


def ring_gather(topology: Topology, what: Collective) -> Plan:
    """Send each shard in one message along the ring to the root, over a route of several links."""
    plan = Plan(topology, what, Chunks.even(what, 2), routes=[])
    n, root = what.num_ranks, what.root
    for distance in range(1, n):
        plan.routes.append([(root - distance + hop) % n for hop in range(distance)])
        plan.add(2 * ((root - distance) % n), distance - 1, count=2)
    return plan


def star_scatter(topology: Topology, what: Collective) -> Plan:
    """Send each shard from the root through the switch, which only forwards."""
    others = [rank for rank in range(what.num_ranks) if rank != what.root]
    plan = Plan(topology, what, Chunks.even(what), routes=[[2 * what.root, 2 * rank + 1] for rank in others])
    for route, rank in enumerate(others):
        plan.add(rank, route)
    return plan


def multicast_allgather(topology: Topology, what: Collective) -> Plan:
    """Send each rank's shard once to the switch, which copies it to the others."""
    plan = Plan(topology, what, Chunks.even(what))
    for rank in range(what.num_ranks):
        plan.add(rank, 2 * rank)
        for other in range(what.num_ranks):
            if other != rank:
                plan.add(rank, 2 * other + 1)
    return plan


def aggregated_reduce(topology: Topology, what: Collective) -> Plan:
    """Add up the data of all other ranks in the switch, whose sum is added to the root's own."""
    plan = Plan(topology, what, Chunks.even(what, 2))
    for rank in range(what.num_ranks):
        if rank != what.root:
            plan.add(0, 2 * rank, count=2, reduce=True)
    plan.add(0, 2 * what.root + 1, count=2, reduce=True)
    return plan


def one_shot(n: int) -> Plan:
    """Send each rank's data to all others, which add them up: copy r of a chunk is for rank r."""
    topology, what = complete_network(n), collective("allreduce", n)
    item, place = np.divmod(np.arange(n * (n + 1)), n + 1)
    copy_of = np.where(place > 0, item * (n + 1), -1)
    plan = Plan(topology, what, Chunks(item, np.ones(len(item)), n, copy_of))
    for i, a, b in itertools.product(range(n), range(n), range(n)):
        if a != b:
            plan.add(i * (n + 1) + 1 + b, link_between(topology, a, b), reduce=True)
    return plan


def two_shots() -> Plan:
    """Each rank adds twice: rank 2x + y in copy 1 + x from 2x' + y, then in its copy 3 + 2x + y from 2x + y'.

    Here x' is 1 - x. Item 0 has two chunks, which rank 0 adds up and then sends to all as one run.
    """
    topology, what = complete_network(4), collective("allreduce", 4)
    copies = [-1, 0, 0, 1, 1, 2, 2]
    base = [2 + 7 * i for i in range(3)]
    copy_of = [-1, -1, *(one if one < 0 else first + one for first in base for one in copies)]
    item = [0, 0, *(i for i in (1, 2, 3) for _ in copies)]
    plan = Plan(topology, what, Chunks(np.array(item), [1, 1, *[2] * 21], 8, np.array(copy_of)))
    for rank in (1, 2, 3):
        plan.add(0, link_between(topology, rank, 0), count=2, reduce=True)
    for rank in (1, 2, 3):
        plan.add(0, link_between(topology, 0, rank), count=2)
    for first, x, y in itertools.product(base, range(2), range(2)):
        plan.add(first + 1 + x, link_between(topology, 2 * (1 - x) + y, 2 * x + y), reduce=True)
    for first, x, y in itertools.product(base, range(2), range(2)):
        plan.add(first + 3 + 2 * x + y, link_between(topology, 2 * x + 1 - y, 2 * x + y), reduce=True)
    return plan


def in_clock(plan: Plan, clock: Clock) -> Schedule:
    """Run a plan as early as the data allow and, in the time clock, the links."""
    orders = {Clock.STEP: _steps, Clock.TIME: _starts, Clock.FLOW: lambda _: None}[clock](plan)
    turn = range(len(plan.rows)) if orders is None else np.argsort(orders, kind="stable")
    rows = [plan.rows[i] for i in turn]
    chunk, count, route, reduce = (list(column) for column in zip(*rows, strict=True))
    return Schedule(
        plan.topology,
        plan.collective,
        clock,
        plan.chunks,
        np.array(chunk),
        np.array(route),
        order=None if orders is None else np.array([orders[i] for i in turn]),
        count=np.array(count) if any(run > 1 for run in count) else None,
        reduce=np.array(reduce) if any(reduce) else None,
        routes=None if plan.routes is None else Routes.of(plan.routes),
        tick=TICK if clock is Clock.TIME else None,
        size=SIZE if clock is Clock.TIME else None,
    )


def _steps(plan: Plan) -> list[int]:
    last: dict[tuple[int, int], int] = {}
    steps = []
    for chunk, count, route, _ in plan.rows:
        target = _ends(plan, route)[1]
        run = range(chunk, chunk + count)
        step = 1 + max(last.get(cell, 0) for c in run for cell in plan.reads(c, route))
        last |= {(target, c): max(step, last.get((target, c), 0)) for c in run}
        steps.append(step)
    return steps


def _starts(plan: Plan) -> list[int]:
    ready: dict[tuple[int, int], int] = {}
    free: dict[int, int] = {}
    starts = []
    for chunk, count, route, _ in plan.rows:
        target = _ends(plan, route)[1]
        run = range(chunk, chunk + count)
        load = sum(int(plan.chunks.size[c]) for c in run) * SIZE / plan.chunks.denominator
        heads, alpha, arrival = [], Fraction(0), Fraction(0)
        for one in plan.links(route):
            seconds = plan.topology.alpha[one] + load / plan.topology.bandwidth[one]
            heads.append((one, math.ceil(alpha / TICK), math.ceil(seconds / TICK)))
            arrival = max(arrival, load / plan.topology.bandwidth[one])
            alpha += plan.topology.alpha[one]
        start = max(ready.get(cell, 0) for c in run for cell in plan.reads(c, route))
        start = max([start, *(free.get(one, 0) - head for one, head, _ in heads)])
        free |= {one: start + head + hold for one, head, hold in heads}
        end = start + math.ceil((alpha + arrival) / TICK)
        ready |= {(target, c): max(end, ready.get((target, c), 0)) for c in run}
        starts.append(start)
    return starts


def _ends(plan: Plan, route: int) -> tuple[int, int]:
    links = plan.links(route)
    return int(plan.topology.source[links[0]]), int(plan.topology.target[links[-1]])


@cache
def plans() -> dict[str, Plan]:
    """Return legal plans of all kinds, with groups, uneven shards, runs, routes and switches."""
    rng = np.random.default_rng(7)
    both = [[0, 2, 4], [5, 1, 3]]
    uneven = [1, 2, 0, 3, 1]
    return {
        "allgather on a ring": ring_allgather(ring_network(5), collective("allgather", 5)),
        "allgather of uneven shards": ring_allgather(
            ring_network(5), collective("allgather", 5, shards=uneven), 2
        ),
        "allgather in groups": ring_allgather(
            complete_network(6), collective("allgather", 6, groups=both), 2
        ),
        "reduce-scatter on a ring": ring_reduce_scatter(ring_network(5), collective("reduce-scatter", 5)),
        "reduce-scatter in groups": ring_reduce_scatter(
            complete_network(6), collective("reduce-scatter", 6, groups=both, shards=[1, 2, 3]), 2
        ),
        "allreduce on a ring": ring_allreduce(ring_network(4, both=True), collective("allreduce", 4), 2),
        "flooded allgather": flooding(random_network(5, rng), collective("allgather", 5), rng),
        "flooded broadcast": flooding(random_network(6, rng), collective("broadcast", 6, root=2), rng, 4),
        "all-to-all": ring_all_to_all(ring_network(4), collective("all-to-all", 4, shards=[1, 2, 3, 1])),
        "gather over routes": ring_gather(ring_network(6), collective("gather", 6, root=4)),
        "scatter through a switch": star_scatter(star_network(5), collective("scatter", 5, root=1)),
        "multicast": multicast_allgather(star_network(4, multicast=[4]), collective("allgather", 4)),
        "allreduce in one shot": one_shot(3),
        "allreduce in two shots": two_shots(),
        "aggregation": aggregated_reduce(star_network(4, aggregate=[4]), collective("reduce", 4, root=1)),
    }


def large_allgather(num_ranks: int) -> Schedule:
    """Return N(N-1) transfers round a one-way ring, as arrays: 10,000 ranks make a hundred million."""
    steps = np.arange(num_ranks - 1, dtype=np.int32)[:, None]
    ranks = np.arange(num_ranks, dtype=np.int32)
    order = np.uint16 if num_ranks <= np.iinfo(np.uint16).max else np.uint32
    columns = {
        "chunk": ((ranks - steps) % num_ranks).ravel(),
        "route": np.tile(ranks, num_ranks - 1),
        "order": np.repeat(np.arange(1, num_ranks, dtype=order), num_ranks),
    }
    for column in columns.values():
        column.flags.writeable = False  # a schedule then takes it without a copy
    what = collective("allgather", num_ranks)
    return Schedule(ring_network(num_ranks), what, Clock.STEP, Chunks.even(what), **columns)


def step_loads(schedule):
    """Return the largest load of a link in each step, as a part of M."""
    total = defaultdict(Fraction)
    for chunk, route, step in zip(schedule.chunk, schedule.route, schedule.order, strict=True):
        size = Fraction(int(schedule.chunks.size[chunk]), schedule.chunks.denominator)
        total[int(step), int(route)] += size
    steps = sorted({step for step, _ in total})
    return [max(load for (at, _), load in total.items() if at == step) for step in steps]
