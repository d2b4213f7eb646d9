"""Data on fixed paths, moved in steps with a quota; numbers are counted by hand."""

import math
from collections import Counter
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import tutti.schedules.pacing as pacing_module
from tests.sweep import for_each
from tutti.heuristics.classic.stepwise import METHOD as STEPWISE
from tutti.heuristics.classic.stepwise import StepwiseOptions
from tutti.models.all_to_all import METHOD as MCF
from tutti.models.all_to_all import McfOptions
from tutti.schedules import Problem, collective
from tutti.schedules.cost import congestion
from tutti.schedules.pacing import Hops, hop_by_hop, last_end, paced, quotas, steps
from tutti.schedules.schedule import Chunks, Clock, Routes, Schedule, step_numbers
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import Link, Topology
from tutti.topologies.exact import offsets_of
from tutti.topologies.text import parse_topology


def path(ranks):
    """Return a path of links to the next rank, with a fast link back to the first."""
    links = [Link(r, r + 1, Fraction(1), Fraction(1)) for r in range(ranks - 1)]
    return Topology.from_links("path", ranks, [*links, Link(ranks - 1, 0, Fraction(10**6), Fraction(0))])


def gathered(ranks):
    """Send all data to the last rank of a path, hop by hop, as soon as possible."""
    topology = path(ranks)
    what = collective("gather", ranks, root=ranks - 1)
    rows = [(hop - start, start, hop) for start in range(ranks - 1) for hop in range(start, ranks - 1)]
    order, chunk, route = (np.array(column) for column in zip(*sorted(rows), strict=True))
    return Schedule(topology, what, Clock.STEP, Chunks.even(what), chunk, route, order.astype(np.uint16) + 1)


def loads(schedule):
    """Return the number of data on each route in each step."""
    return Counter(zip(schedule.order.tolist(), schedule.route.tolist(), strict=True))


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        # 0 -> 1 -> 2 -> 3; route 2 takes rank 2's datum, then 1's, then 0's.
        (1, {(1, 0): 1, (1, 1): 1, (1, 2): 1, (2, 1): 1, (2, 2): 1, (3, 2): 1}),
    ],
)
def test_on_a_path_each_link_takes_a_datum_a_step(monkeypatch, quota, expected):
    schedule = gathered(4)
    monkeypatch.setattr(pacing_module, "SPREADS", (1.0,))  # the last link has three data, hence three quotas
    monkeypatch.setattr(pacing_module, "simulate", but_for(schedule))
    made = paced(schedule, 4)
    verify(made)
    assert loads(made) == expected


def but_for(schedule):
    """Return a simulator that gives this schedule an infinite time, so that another is chosen."""
    return lambda made, size: SimpleNamespace(time=math.inf) if made is schedule else simulate(made, size)


def test_the_farthest_to_go_first(monkeypatch):
    """Ranks 0 and 1 have data for 2 and 3; over 1 -> 2, with a quota of one, the data for 3 go first."""
    topology = path(4)
    what = collective("all-to-all", 4)
    pairs = list(zip(what.items.start.tolist(), what.items.end.tolist(), strict=True))
    rows = [(i, (a + hop) % 4) for i, (a, b) in enumerate(pairs) for hop in range((b - a) % 4)]
    chunk, route = (np.array(column) for column in zip(*rows, strict=True))
    schedule = Schedule(topology, what, Clock.FLOW, Chunks.even(what), chunk, route)
    verify(schedule)
    monkeypatch.setattr(pacing_module, "SPREADS", (10.0,))
    monkeypatch.setattr(pacing_module, "simulate", but_for(schedule))
    made = paced(schedule, 1)
    verify(made)
    first = [
        (what.items.start[c], what.items.end[c])
        for c, r, s in zip(made.chunk, made.route, made.order, strict=True)
        if (r, s) == (1, 1)
    ]
    assert first == [(1, 0)], "it has three hops to go"
    assert max(count for (_, route), count in loads(made).items() if route < 3) == 1, "back is quick"


@for_each("network", ["mesh:3x3", "rfs:2x2x2", "dgx_a100:2", "gen_kautz:2,7"])
def test_paths_are_cut_into_hops_with_the_same_loads(network):
    topology = parse_topology(network)
    what = collective("all-to-all", topology.num_ranks)
    flow = MCF.synthesize(Problem(topology, what), McfOptions(), np.random.default_rng(1))
    hops = hop_by_hop(flow, 10**5)
    verify(hops)
    assert congestion(hops) == congestion(flow)
    ends = topology.target[hops.routes.links[hops.routes.offsets[1:] - 1]] if hops.routes else topology.target
    assert (ends < topology.num_ranks).all()
    ways = hops.route_table
    lists = [tuple(ways.links[a:b]) for a, b in zip(ways.offsets[:-1], ways.offsets[1:], strict=True)]
    assert len(set(lists)) == len(lists), "messages over the same links are one"
    for size in (10**4, 10**8):
        made = paced(hops, size)
        verify(made)
        assert simulate(made, size).time <= simulate(hops, size).time
        both = MCF.synthesize(
            Problem(topology, what, Fraction(size)), McfOptions(step_schedule=True), np.random.default_rng(1)
        )
        assert simulate(both, size).time <= simulate(flow, size).time


def test_few_rows_cut_less():
    topology = parse_topology("ring:5")
    what = collective("all-to-all", 5)
    flow = MCF.synthesize(Problem(topology, what), McfOptions(), np.random.default_rng(1))
    assert len(hop_by_hop(flow, 1)) == 30  # 5 ranks have 2 data of one hop and 2 of two hops each
    assert len(hop_by_hop(flow, 120)) == 120


def test_nothing_to_move():
    topology = parse_topology("ring:3")
    what = collective("scatter", 3, shards=[1, 0, 0])
    empty = Schedule(
        topology,
        what,
        Clock.FLOW,
        Chunks.even(what),
        np.zeros(0, int),
        np.zeros(0, int),
        routes=Routes.of([[0]]),
    )
    assert paced(empty, 10) is empty


@for_each("network", ["mesh:3x4", "gen_kautz:3,11", "dragonfly:3x3", "ring:5"])
def test_the_last_end_is_that_of_the_simulation(network):
    """Links differ in α and bandwidth; data take shortest paths, in steps and in a flow."""
    rng, plain = np.random.default_rng(0), parse_topology(network)
    links = [
        Link(int(a), int(b), bandwidth=int(rng.integers(1, 9)), alpha=Fraction(int(rng.integers(9)), 10))
        for a, b in zip(plain.source, plain.target, strict=True)
    ]
    topology = Topology.from_links(network, plain.num_ranks, links)
    problem = Problem(topology, collective("all-to-all", topology.num_ranks))
    schedule = STEPWISE.synthesize(problem, StepwiseOptions(chunks=2), None)
    order = np.argsort(schedule.chunk, kind="stable")
    hops = np.bincount(schedule.chunk)
    sizes, slowness = np.ones(np.count_nonzero(hops)), 1 / topology.bandwidth.floats
    hop = Hops.over_links(offsets_of(hops[hops > 0]), schedule.route[order], sizes, slowness)
    for size in (1, 100):
        unit = float(size * schedule.chunks.size[0] / schedule.chunks.denominator)
        paces = [steps(hop, quota) for quota, _ in quotas(hop, topology.alpha.floats, unit)]
        for step in (schedule.order[order].astype(np.int64), *paces):
            own = np.empty(len(step), np.int64)
            own[order] = step
            rows = np.argsort(own, kind="stable")
            made = schedule.replace(
                chunk=schedule.chunk[rows], route=schedule.route[rows], order=step_numbers(own[rows])
            )
            found = last_end(hop, step, topology.alpha.floats, unit)
            assert found == pytest.approx(simulate(made, size).time, rel=1e-9)


@for_each("size", [1, 30, 1000])
@for_each("network", ["mesh:4x5", "gen_kautz:2,17", "ring:12"])
def test_no_schedule_with_a_quota_is_faster_than_it_says(network, size):
    """Links differ in α and bandwidth; some links have data of several sizes."""
    rng, plain = np.random.default_rng(1), parse_topology(network)
    links = [
        Link(int(a), int(b), bandwidth=int(rng.integers(1, 9)), alpha=int(rng.integers(1, 9)))
        for a, b in zip(plain.source, plain.target, strict=True)
    ]
    topology = Topology.from_links(network, plain.num_ranks, links)
    problem = Problem(topology, collective("all-to-all", topology.num_ranks))
    schedule = STEPWISE.synthesize(problem, StepwiseOptions(chunks=1), None)
    order, hops = np.argsort(schedule.chunk, kind="stable"), np.bincount(schedule.chunk)
    sizes, alpha = rng.integers(1, 5, np.count_nonzero(hops)).astype(float), topology.alpha.floats
    begin = offsets_of(hops[hops > 0])
    hop = Hops.over_links(begin, schedule.route[order], sizes, 1 / topology.bandwidth.floats)
    shorter = 0
    for quota, shortest in quotas(hop, alpha, size):
        end = last_end(hop, steps(hop, quota), alpha, size)
        assert shortest <= end
        shorter += shortest > 0.9 * end
    assert shorter > 0, "it is no empty statement"
