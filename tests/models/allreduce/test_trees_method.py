"""Allreduce over spanning trees: the partition bound met on symmetric networks, and what it does
elsewhere."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from tests.models.allreduce.oracles import random_symmetric
from tests.sweep import for_each
from tutti.models.allreduce import ALLREDUCE_TREES as METHOD
from tutti.models.allreduce import AllreduceTreesOptions
from tutti.models.bounds import lower_bounds
from tutti.schedules import collective
from tutti.schedules.cost import congestion
from tutti.schedules.method import Problem
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import InputError, Link, Topology
from tutti.topologies.errors import NoSchedule, Unsupported
from tutti.topologies.options import build_options
from tutti.topologies.text import parse_topology

GBPS = 50 * 10**9


@cache
def partitions(nodes):
    rows = [[0]]
    for _ in range(nodes - 1):
        rows = [[*row, part] for row in rows for part in range(max(row) + 2)]
    return np.array(rows)[1:]


def worst_of_all(topology):
    """max over partitions of 2 (parts - 1) / (bandwidth between parts)."""
    parts = partitions(topology.num_ranks)
    width = topology.bandwidth.numerators
    between = (parts[:, topology.source] != parts[:, topology.target]) @ width
    unit = topology.bandwidth.denominator
    return max(Fraction(2 * int(p) * unit, int(c)) for p, c in zip(parts.max(axis=1), between, strict=True))


def allreduce(topology, what=None, **options):
    problem = Problem(topology, what or collective("allreduce", topology.num_ranks))
    chosen = AllreduceTreesOptions(**options)
    METHOD.supports(problem, chosen)
    return METHOD.synthesize(problem, chosen, np.random.default_rng(0))


def partition_bound(topology):
    bounds = lower_bounds(topology, collective("allreduce", topology.num_ranks))
    return next(bound.value for bound in bounds if bound.kind == "partition")


def test_the_congestion_is_the_largest_partition_bound_of_all():
    """300 random networks of up to 8 ranks, every partition enumerated."""
    for seed in range(300):
        topology = random_symmetric(seed)
        schedule = allreduce(topology)
        verify(schedule)
        assert congestion(schedule) == worst_of_all(topology), seed


@for_each("products", [True, False])
@for_each("n", range(2, 9))
def test_a_mesh_takes_n_plus_1_over_2n(n, products):
    schedule = allreduce(parse_topology(f"mesh:{n}x{n}"), products=products)
    verify(schedule)
    assert congestion(schedule) * GBPS == Fraction(n + 1, 2 * n)


@for_each("text", ["mesh:2x2x2", "mesh:3x3x3", "mesh:4x4x4", "mesh:2x3x4", "torus:4x5"])
@for_each("products", [True, False])
def test_grids_meet_their_bound(text, products):
    topology = parse_topology(text)
    schedule = allreduce(topology, products=products)
    verify(schedule)
    assert congestion(schedule) == partition_bound(topology)
    edges = topology.num_links // 2
    assert congestion(schedule) * GBPS == Fraction(topology.num_ranks - 1, edges)


def test_a_product_whose_factors_do_worse_is_packed_as_a_whole():
    """A fast path times a slow one: the weakest partition is into copies of the fast path."""
    topology = parse_topology("mesh:3x3?bandwidth=500GB/s,10GB/s")
    schedule = allreduce(topology)
    assert congestion(schedule) == partition_bound(topology)


def test_uneven_and_empty_shards_are_reduced_and_broadcast_too():
    mesh = parse_topology("mesh:3x3")
    what = collective("allreduce", 9, shards=[1, 0, 2, 3, 0, 0, 7, 1, 1])
    schedule = allreduce(mesh, what)
    verify(schedule)
    assert congestion(schedule) * GBPS == Fraction(2, 3)


def test_parallel_links_share_the_load():
    schedule = allreduce(parse_topology("ring:5?links=3"))
    verify(schedule)
    assert congestion(schedule) * GBPS == Fraction(4, 15)
    greedy = allreduce(parse_topology("ring:5?links=3"), epsilon=Fraction(1, 10))
    verify(greedy)
    assert congestion(greedy) * GBPS <= Fraction(4, 15) * Fraction(11, 10)


def test_of_unequal_directions_the_less_is_used():
    ends = [(0, 1, 3), (1, 0, 2), (1, 2, 2), (2, 1, 2), (2, 0, 5)]
    topology = Topology.from_links("uneven", 3, [Link(a, b, Fraction(c)) for a, b, c in ends])
    schedule = allreduce(topology)
    verify(schedule)
    assert congestion(schedule) == Fraction(1, 2)
    assert "congestion" not in schedule.claims


@pytest.mark.parametrize("text", ["dgx_a100:2", "mi250:2", "switch2d:4x2"])
def test_switches_are_removed_and_the_schedule_is_no_better_than_any_bound(text):
    topology = parse_topology(text)
    schedule = allreduce(topology)
    verify(schedule)
    bounds = lower_bounds(topology, collective("allreduce", topology.num_ranks))
    assert all(congestion(schedule) >= bound.value for bound in bounds)


def test_what_it_does_not_do_is_said_in_a_line():
    mesh, one_way = parse_topology("mesh:2x2"), parse_topology("ring:4?drop_links=0>1")
    with pytest.raises(Unsupported, match="allreduce_trees does allreduce; not allgather"):
        allreduce(mesh, collective("allgather", 4))
    with pytest.raises(
        Unsupported, match="allreduce_trees needs one group of all ranks; this allreduce has 2"
    ):
        allreduce(mesh, collective("allreduce", 4, groups=[[0, 1], [2, 3]]))
    verify(allreduce(one_way))  # a path is left
    cycle = Topology.from_links("cycle", 3, [Link(0, 1), Link(1, 2), Link(2, 0)])
    with pytest.raises(
        Unsupported, match="allreduce_trees needs bidirectional links that join all ranks; those of cycle"
    ):
        allreduce(cycle)


@pytest.mark.parametrize("epsilon", [-1, 1, "3/2"])
def test_an_epsilon_out_of_range_is_refused(epsilon):
    message = f"allreduce_trees option epsilon is {epsilon}; it must be at least 0 and below 1"
    with pytest.raises(InputError, match=message):
        build_options(METHOD, {"epsilon": epsilon})


def test_an_epsilon_that_greedy_trees_never_reach_is_refused():
    message = r"option epsilon is 1e-30; it must be 0 \(exact\) or at least 1e-06"
    with pytest.raises(InputError, match=message):
        build_options(METHOD, {"epsilon": Fraction(1, 10**30)})


def test_an_epsilon_too_small_for_greedy_trees_is_said_in_a_line(monkeypatch):
    monkeypatch.setattr("tutti.models.allreduce.spanning_trees.MOST_ENTRIES", 500)
    with pytest.raises(
        NoSchedule, match="allreduce_trees: 20 trees on 25 ranks do not come within 1/1000000"
    ):
        allreduce(parse_topology("mesh:5x5"), epsilon=Fraction(1, 10**6), products=False)


def test_three_ranks_with_one_wide_link_gain_a_third():
    """docs/allreduce.md: half of M by 0-1-2 and half by 0-2-1; rank 0 sends and receives M over two links."""
    ends = [(0, 1, 1), (0, 2, 1), (1, 2, 2)]
    links = [Link(a, b, Fraction(width)) for x, y, width in ends for a, b in ((x, y), (y, x))]
    topology = Topology.from_links("triangle", 3, links)
    schedule = allreduce(topology)
    verify(schedule)
    assert congestion(schedule) == Fraction(1, 2)
    gather = max(bound.value for bound in lower_bounds(topology, collective("allgather", 3)))
    assert 2 * gather == Fraction(2, 3)


@pytest.mark.parametrize("ranks", [3, 4, 7])
def test_on_a_path_one_half_after_the_other_takes_2_times_n_minus_1_over_n_as_long(ranks):
    topology = parse_topology(f"mesh:{ranks}")
    assert congestion(allreduce(topology)) * GBPS == 1
    gather = max(bound.value for bound in lower_bounds(topology, collective("allgather", ranks)))
    assert 2 * gather * GBPS == Fraction(2 * (ranks - 1), ranks)


def test_a_table_that_would_be_too_large_is_refused_in_a_line(monkeypatch):
    monkeypatch.setattr("tutti.schedules.intervals.MOST_TRANSFERS", 100)
    with pytest.raises(NoSchedule, match="allreduce on mesh:3x3: 144 transfers; a table has at most 100"):
        allreduce(parse_topology("mesh:3x3"), products=False)


@pytest.mark.parametrize(("text", "percent"), [("mesh:3x3", 0.5), ("mesh:5x5", 0.6), ("mesh:4x6", 1)])
def test_a_gigabyte_on_a_mesh_is_within_a_percent_of_the_bound(text, percent):
    """The bound: each of the ranks must send and receive in all 2 (n - 1) M over all links together."""
    topology = parse_topology(text)
    problem = Problem(topology, collective("allreduce", topology.num_ranks), Fraction(10**9))
    schedule = METHOD.synthesize(problem, AllreduceTreesOptions(), np.random.default_rng(0))
    verify(schedule)
    bound = Fraction(2 * (topology.num_ranks - 1) * 10**9, topology.num_links * GBPS)
    assert congestion(schedule) * 10**9 == bound
    assert float(bound) < simulate(schedule, 10**9).time < float(bound) * (1 + percent / 100)


def test_ten_by_ten_is_within_two_percent():
    topology = parse_topology("mesh:10x10?bandwidth=50GB/s&alpha=0.5us")
    problem = Problem(topology, collective("allreduce", 100), Fraction(10**9))
    schedule = METHOD.synthesize(problem, AllreduceTreesOptions(), np.random.default_rng(0))
    verify(schedule)
    bound = Fraction(11, 20) * 10**9 / GBPS
    assert congestion(schedule) * 10**9 == bound
    assert float(bound) < simulate(schedule, 10**9).time < float(bound) * 1.02
