"""Exact costs, against sums made by hand and in plain Python."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from tests.sweep import for_each
from tutti.models.bfb import METHOD
from tutti.schedules import Chunks, Clock, Problem, Routes, Schedule, collective
from tutti.schedules.compose import compose_allreduce
from tutti.schedules.cost import (
    congestion,
    is_bandwidth_optimal,
    is_moore_optimal,
    link_loads,
    moore_bound,
    moore_optimal_steps,
    step_cost,
    total_cost,
)
from tutti.schedules.reversal import reverse
from tutti.topologies import InputError, Link, Topology, Unsupported, parse_topology
from tutti.topologies.transforms import transpose

# The links 0 -> 1 -> 2 -> 0 have 1, 2 and 3 B/s.
TRIANGLE = Topology.from_links("triangle", 3, [Link(i, (i + 1) % 3, Fraction(i + 1)) for i in range(3)])
ALLGATHER = collective("allgather", 3)


def steps(order, chunk, route, collective=ALLGATHER, **columns):
    table = {"chunk": chunk, "route": route, "order": np.array(order, dtype=np.uint16)} | columns
    return Schedule(TRIANGLE, collective, Clock.STEP, Chunks.even(collective, 2), **table)


def even_ring(n, degree):
    links = [Link(i, (i + 1) % n, Fraction(5)) for i in range(n) for _ in range(degree)]
    return Topology.from_links("ring", n, links)


def test_a_step_lasts_as_long_as_its_slowest_link():
    # Chunks are sixths. Step 1: 2/6 on link 0 at 1 B/s, 1/6 on link 1 at 2. Step 3: 1/6 on link 2 at 3.
    cost = step_cost(steps([1, 1, 1, 3], [0, 1, 2, 4], [0, 0, 1, 2]))
    assert cost.bandwidth_time == Fraction(2, 6) + Fraction(1, 18)


def test_a_step_without_rows_costs_nothing():
    assert step_cost(steps([1, 1, 1, 3], [0, 1, 2, 4], [0, 0, 1, 2])).tl_steps == 2


def test_a_step_pays_alpha_for_each_link_of_its_longest_route():
    routes = Routes.of([[0], [0, 1], [2]])
    assert step_cost(steps([1, 1, 2], [0, 1, 4], [0, 1, 2], routes=routes)).tl_steps == 3


def test_a_row_loads_every_link_of_its_route():
    schedule = steps([1, 1, 2], [0, 1, 4], [0, 1, 2], routes=Routes.of([[0], [0, 1], [2]]))
    assert link_loads(schedule).tolist() == [2, 1, 1]


def test_a_run_loads_the_sum_of_its_chunks():
    assert link_loads(steps([1], [0], [0], count=[2])).tolist() == [2, 0, 0]


def test_congestion_is_the_largest_total_load_over_bandwidth():
    # Link 0: 1/6 at 1 B/s; link 1: 2/6 at 2; link 2: 4/6 at 3, which is the most.
    schedule = steps([1, 1, 2, 2, 2], [0, 0, 4, 4, 0], [0, 1, 2, 2, 1], count=[1, 1, 2, 2, 1])
    assert congestion(schedule) == Fraction(4, 18)
    assert congestion(schedule.replace(clock=Clock.FLOW, order=None)) == Fraction(4, 18)


def test_tb_is_in_units_of_m_over_b():
    """A ring has two parallel links of 5 B/s, so B = 10: a shard of M/3 over one of them lasts 2/3 M/B."""
    schedule = steps([1], [0], [0], count=[2]).replace(topology=even_ring(3, 2))
    assert step_cost(schedule).tb == Fraction(2, 3)


def test_tb_is_none_where_links_differ():
    assert step_cost(steps([1], [0], [0])).tb is None


def test_nothing_costs_nothing():
    empty = steps([], [], [])
    assert (step_cost(empty).tl_steps, step_cost(empty).bandwidth_time, congestion(empty)) == (0, 0, 0)


def test_only_step_schedules_have_steps():
    with pytest.raises(InputError, match="T_L and T_B are of step schedules; this one has the flow clock"):
        step_cost(steps([1], [0], [0]).replace(clock=Clock.FLOW, order=None))


def test_a_load_beyond_64_bits_is_an_error():
    huge = Chunks([0, 1, 2], [2**61] * 3, 3 * 2**61)
    schedule = steps([1] * 4, [0] * 4, [0] * 4).replace(chunks=huge)
    with pytest.raises(InputError, match="the load of link 0->1 does not fit 64 bits"):
        congestion(schedule)


@for_each("seed", range(20))
def test_costs_equal_plain_sums_of_fractions(seed):
    rng = np.random.default_rng(seed)
    size, topology = 40, TRIANGLE if seed % 2 else even_ring(3, 1)
    routes = [[0], [1], [2], [0, 1], [1, 2, 0]]
    order, which = np.sort(rng.integers(1, 6, size)), rng.integers(0, 5, size)
    chunk, count = 2 * rng.integers(0, 3, size), rng.integers(1, 3, size)
    schedule = steps(order, chunk, which, count=count, routes=Routes.of(routes)).replace(topology=topology)
    loads: dict[tuple[int, int], Fraction] = {}
    for row in range(size):
        for link in routes[which[row]]:
            key = (int(order[row]), link)
            loads[key] = loads.get(key, Fraction(0)) + Fraction(int(count[row]), 6)
    used = sorted(set(order.tolist()))
    slowest = sum(max(v / topology.bandwidth[k[1]] for k, v in loads.items() if k[0] == t) for t in used)
    hops = sum(max(len(routes[w]) for w, t in zip(which, order, strict=True) if t == s) for s in used)
    totals = [sum(v for k, v in loads.items() if k[1] == link) for link in range(3)]
    assert (step_cost(schedule).tl_steps, step_cost(schedule).bandwidth_time) == (hops, slowest)
    assert congestion(schedule) == max(t / topology.bandwidth[i] for i, t in enumerate(totals))


def uniring(n):
    return Topology.from_links("uniring", n, [Link(i, (i + 1) % n) for i in range(n)])


def ring_allgather(n):
    what = collective("allgather", n)
    rows = [((u - step + 1) % n, u, step) for step in range(1, n) for u in range(n)]
    chunk, route, order = (np.array(column) for column in zip(*rows, strict=True))
    return Schedule(uniring(n), what, Clock.STEP, Chunks.even(what), chunk, route, order)


def complete_allgather(n):
    links = [Link(u, w) for u in range(n) for w in range(n) if u != w]
    what = collective("allgather", n)
    chunk = [link.source for link in links]
    order = np.ones(len(links), dtype=np.int64)
    topology = Topology.from_links("complete", n, links)
    return Schedule(topology, what, Clock.STEP, Chunks.even(what), chunk, np.arange(len(links)), order)


def test_the_moore_bound_is_the_size_of_the_full_tree():
    """Definition 9: (d^(k+1) - 1) / (d - 1)."""
    for degree in range(2, 6):
        for steps in range(5):
            tree = nx.balanced_tree(degree, steps)
            assert moore_bound(degree, steps) == len(tree) == (degree ** (steps + 1) - 1) // (degree - 1)


def test_moore_optimal_steps_are_the_least_that_the_bound_allows():
    """Definition 10: T_L = k is optimal if N > M(d, k-1)."""
    for degree in range(1, 5):
        for ranks in range(2, 60):
            steps = moore_optimal_steps(ranks, degree)
            assert moore_bound(degree, steps - 1) < ranks <= moore_bound(degree, steps)


@pytest.mark.parametrize(("degree", "steps"), [(0, 1), (2, -1)])
def test_a_moore_bound_needs_a_degree_and_steps(degree, steps):
    with pytest.raises(InputError, match="allowed: degree >= 1, steps >= 0"):
        moore_bound(degree, steps)


@pytest.mark.parametrize("schedule", [ring_allgather(6), complete_allgather(5)])
def test_the_ring_of_degree_1_and_the_complete_graph_are_both_optimal(schedule):
    for each in (schedule, reverse(schedule)):
        assert is_moore_optimal(each)
        assert is_bandwidth_optimal(each)


def test_an_allreduce_of_two_optimal_halves_is_optimal():
    """A.3.3: twice T_L* and twice T_B*."""
    half = ring_allgather(5)
    topology = half.topology
    turned = [(4 - u) % 5 for u in range(5)]  # on the transposed ring, link i runs from i + 1 to i
    backwards = half.replace(
        topology=transpose(topology),
        chunk=np.array([turned[c] for c in half.chunk]),
        route=np.array([(turned[u] - 1) % 5 for u in half.route]),
    )
    both = compose_allreduce(reverse(backwards), half)
    assert is_moore_optimal(both)
    assert is_bandwidth_optimal(both)


def test_a_detour_is_neither_moore_optimal_nor_bandwidth_optimal():
    """Neighbours of a ring have two links in each direction, one of which is idle."""
    ring = ring_allgather(4)
    links = [Link(i, (i + 1) % 4) for i in range(4)] * 2
    wider = ring.replace(topology=Topology.from_links("wide", 4, links))
    assert not is_moore_optimal(wider)
    assert not is_bandwidth_optimal(wider)


def test_what_is_received_twice_is_not_bandwidth_optimal():
    """The ring has one more round, in which every rank gets its own shard back."""
    ring = ring_allgather(4)
    again = ring.replace(
        chunk=np.concatenate([ring.chunk, [1, 2, 3, 0]]),
        route=np.concatenate([ring.route, [0, 1, 2, 3]]),
        order=np.concatenate([ring.order, [4] * 4]),
    )
    assert not is_bandwidth_optimal(again)


def test_a_self_loop_is_a_link_that_carries_nothing():
    """Each node had a second link out, which was dropped but counts in the degree."""
    ring = ring_allgather(4)
    links = [ring.topology.link(i) for i in range(4)]
    looped = ring.replace(topology=Topology.from_links("looped", 4, links, nominal_degree=2))
    assert not is_bandwidth_optimal(looped)


def test_optimality_needs_a_collective_of_all_ranks_with_equal_shards():
    what = collective("allgather", 4, shards=[1, 1, 1, 2])
    with pytest.raises(Unsupported, match="defined for allgather, reduce-scatter and allreduce"):
        is_bandwidth_optimal(ring_allgather(4).replace(collective=what, chunks=Chunks.even(what)))


def test_moore_optimality_needs_a_degree():
    links = [Link(0, 1), Link(1, 2), Link(2, 0), Link(0, 2)]
    uneven = ring_allgather(3).replace(topology=Topology.from_links("uneven", 3, links))
    with pytest.raises(Unsupported, match="topology uneven: defined where all nodes are ranks of one degree"):
        is_moore_optimal(uneven)


def test_bandwidth_optimality_needs_one_bandwidth():
    links = [Link(i, (i + 1) % 3, i + 1) for i in range(3)]
    uneven = ring_allgather(3).replace(topology=Topology.from_links("uneven", 3, links))
    with pytest.raises(Unsupported, match="defined where all links have one bandwidth"):
        is_bandwidth_optimal(uneven)


TWO_HOSTS = [  # hosts 0-1 and 2-3, links 1 <-> 2 between them, and a switch linked to 0 and 3
    *(Link(a, b, Fraction(4)) for a, b in ((0, 1), (1, 0), (2, 3), (3, 2))),
    *(Link(a, b, Fraction(1)) for a, b in ((1, 2), (2, 1), (0, 4), (4, 0), (3, 4), (4, 3))),
]


def two_hosts(hosts):
    return Topology.from_links("two", 4, TWO_HOSTS, num_switches=1, hosts=hosts)


def crossing(topology, routes):
    """Return the data that leave hosts, in shards, if an allgather's first shards take these routes."""
    link = {(a, b): i for i, (a, b) in enumerate(zip(topology.source, topology.target, strict=True))}
    paths = [[link[pair] for pair in pairwise(nodes)] for nodes in routes]
    table = Routes(np.cumsum([0, *map(len, paths)]), np.concatenate(paths))
    what = collective("allgather", 4)
    chunk = np.array([nodes[0] for nodes in routes], dtype=np.int32)
    order = np.ones(len(routes), dtype=np.uint16)
    route = np.arange(len(routes), dtype=np.int32)
    made = Schedule(
        topology, what, Clock.STEP, Chunks.even(what), chunk=chunk, route=route, order=order, routes=table
    )
    across = total_cost(made).between_hosts
    return None if across is None else across * 4


@pytest.mark.parametrize(
    ("routes", "expected"),
    [
        ([(0, 1), (1, 0)], 0),
        ([(1, 2), (2, 1)], 2),  # a link from host to host counts once
        ([(0, 4, 3)], 1),  # so does a route through a switch outside
        ([(0, 1, 2, 3), (1, 2)], 2),
        ([(1, 2, 1)], 2),  # to the other host and back
    ],
)
def test_what_leaves_a_host_counts_once(routes, expected):
    told = two_hosts([0, 0, 1, 1, -1])
    assert crossing(told, routes) == expected
    assert crossing(two_hosts(None), routes) == expected  # the links make these hosts plain
    assert total_cost(made := ring_schedule()).between_hosts is None
    assert total_cost(made).congestion == congestion(made)


def test_t_c_is_the_most_that_a_rank_reduces_step_by_step():
    # In sixths. Step 1: rank 1 reduces 2, rank 2 gets a copy. Step 2: rank 2 reduces 1, rank 0 reduces 1.
    what = collective("allreduce", 3)
    reduce = np.array([True, True, False, True, True])
    table = steps([1, 1, 1, 2, 2], [0, 1, 2, 0, 3], [0, 0, 1, 1, 2], reduce=reduce, collective=what)
    assert step_cost(table).tc == Fraction(2, 6) + Fraction(1, 6)
    assert step_cost(ring_schedule()).tc == 0


def test_a_switch_that_adds_takes_no_rank_any_time():
    links = [Link(0, 2), Link(1, 2), Link(2, 0), Link(2, 1)]
    star = Topology.from_links("star", 2, links, num_switches=1, aggregate=[2])
    what = collective("reduce", 2, root=0)
    rows = {"chunk": [0, 0, 0], "route": [0, 1, 2], "order": np.array([1, 1, 2], dtype=np.uint16)}
    reduce = np.array([True, True, True])
    table = Schedule(star, what, Clock.STEP, Chunks.even(what), **rows, reduce=reduce)
    assert step_cost(table).tc == 1  # rank 0 adds the switch's data to its own


def bfb(network, kind):
    topology = parse_topology(network)
    problem = Problem(topology, collective(kind, topology.num_ranks))
    return METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))


BW_OPTIMAL = ["torus:3x3", "hypercube:3", "complete:5", "hamming:2,3", "ring:6"]
OTHERS = ["gen_kautz:2,5", "gen_kautz:3,10", "torus:2x5", "circulant:11,2,3", "mesh:3x4"]


@for_each("network", BW_OPTIMAL + OTHERS)
def test_t_c_is_at_most_y_of_t_b(network):
    """Theorem 6: if a reduce-scatter has T_B = M/B y, its T_C is at most M γ y."""
    made = bfb(network, "reduce-scatter")
    n, cost = made.topology.num_ranks, step_cost(made)
    most = max(made.topology.in_degrees) * made.topology.bandwidth[0]  # B of the rank with the most links
    assert Fraction(n - 1, n) <= cost.tc <= cost.bandwidth_time * most


@for_each("network", BW_OPTIMAL)
def test_of_a_bw_optimal_allreduce_t_c_is_least(network):
    """Corollary 6.1: T_C = M γ (N - 1)/N, so T_B + T_C = 2 M (1/B + γ/2) (N - 1)/N."""
    made = bfb(network, "allreduce")
    assert is_bandwidth_optimal(made)
    n, cost, gamma = made.topology.num_ranks, step_cost(made), Fraction(1, 3 * 10**9)
    assert cost.tc == Fraction(n - 1, n)
    a_byte = 2 * (1 / made.topology.node_bandwidth + gamma / 2) * Fraction(n - 1, n)
    assert cost.bandwidth_time + gamma * cost.tc == a_byte


def ring_schedule():
    return steps([1, 1, 1], [0, 2, 4], [0, 1, 2])
