"""Allreduce over trees for one size: places in time, and what the simulator says of them."""

from fractions import Fraction

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.models.allreduce import ALLREDUCE_TREES as METHOD
from tutti.models.allreduce import AllreduceTreesOptions
from tutti.models.allreduce import trees_timed as timed_module
from tutti.models.allreduce.trees_timed import can_be_timed
from tutti.schedules import collective
from tutti.schedules.cost import congestion
from tutti.schedules.method import Problem
from tutti.schedules.schedule import Clock
from tutti.schedules.simulation.simulate import best_slices, simulate
from tutti.schedules.verify import verify
from tutti.topologies import Link, Topology
from tutti.topologies.text import parse_topology

GBPS = 50 * 10**9


def allreduce(topology, size=None, what=None, **options):
    problem = Problem(topology, what or collective("allreduce", topology.num_ranks), size and Fraction(size))
    schedule = METHOD.synthesize(problem, AllreduceTreesOptions(**options), np.random.default_rng(0))
    verify(schedule)
    return schedule


@pytest.mark.parametrize(
    ("text", "percent"),
    [("mesh:3x3", 2), ("mesh:5x5", 4), ("torus:4x4", 1), ("ring:8", 1), ("mesh:3x3x3", 5)],
)
def test_a_gigabyte_is_near_the_bound(text, percent):
    topology = parse_topology(text)
    schedule = allreduce(topology, 10**9)
    assert schedule.clock is Clock.TIME
    assert congestion(schedule) * GBPS == Fraction(2 * (topology.num_ranks - 1), topology.num_links)
    bound = float(congestion(schedule) * 10**9)
    assert bound < simulate(schedule, 10**9).time < bound * (1 + percent / 100)


@for_each("text", ["mesh:3x4", "torus:4x4", "hypercube:3", "mesh:4x4?bandwidth=50GB/s,25GB/s"])
@for_each("size", [1000, 10**6, 10**8])
def test_it_is_not_slower_than_the_flow(text, size):
    topology = parse_topology(text)
    found = best_slices(allreduce(topology, size), Fraction(size))[1]
    assert found <= best_slices(allreduce(topology), Fraction(size))[1] * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_random_networks_with_all_sorts_of_links(seed):
    rng = np.random.default_rng(seed)
    ranks = int(rng.integers(2, 8))
    pairs = {(int(rng.integers(v)), v) for v in range(1, ranks)}
    pairs |= {tuple(sorted(rng.choice(ranks, 2, replace=False).tolist())) for _ in range(ranks)}
    links = []
    for a, b in sorted(pairs):
        width, alpha = Fraction(int(rng.integers(1, 21)) * 10**9), Fraction(int(rng.integers(0, 4)), 10**6)
        links += [Link(a, b, width, alpha), Link(b, a, width, alpha)]
    topology = Topology.from_links(f"random {seed}", ranks, links)
    flow = allreduce(topology)
    for size in (10**3, 10**6, 10**8):
        schedule = allreduce(topology, size)
        assert congestion(schedule) == congestion(flow)
        time = best_slices(schedule, Fraction(size))[1]
        assert float(congestion(flow) * size) * (1 - 1e-9) <= time
        assert time <= best_slices(flow, Fraction(size))[1] * (1 + 1e-9)


def test_shards_that_differ_are_pieces_of_several_items():
    what = collective("allreduce", 9, shards=[1, 0, 2, 3, 0, 0, 7, 1, 1])
    schedule = allreduce(parse_topology("mesh:3x3"), 10**7, what)
    assert schedule.clock is Clock.TIME
    assert congestion(schedule) * GBPS == Fraction(2, 3)


def test_the_same_problem_has_the_same_schedule():
    one, other = (allreduce(parse_topology("mesh:3x4"), 10**7) for _ in range(2))
    assert np.array_equal(one.order, other.order)
    assert np.array_equal(one.chunk, other.chunk)


def test_where_messages_have_no_place_in_time_it_is_a_flow(monkeypatch):
    mesh = parse_topology("mesh:3x3")
    assert can_be_timed(mesh)
    assert not can_be_timed(parse_topology("ring:5?links=3"))
    assert not can_be_timed(parse_topology("dgx_a100:2"))
    assert allreduce(mesh, 10**6, timed=False).clock is Clock.FLOW
    assert allreduce(parse_topology("ring:5?links=3"), 10**6).clock is Clock.FLOW
    assert allreduce(parse_topology("mi250:2"), 10**6).clock is Clock.FLOW
    monkeypatch.setattr(timed_module, "TUNING", timed_module.TUNING._replace(transfers=30))
    assert allreduce(mesh, 10**6).clock is Clock.FLOW
