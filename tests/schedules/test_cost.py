"""Exact costs, against sums made by hand and in plain Python."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from schedules import Chunks, Clock, Routes, Schedule, collective
from schedules.cost import (
    congestion,
    link_loads,
    step_cost,
)
from tests.sweep import for_each
from topologies import InputError, Link, Topology

# 0 -> 1 -> 2 -> 0, of 1, 2 and 3 B/s.
TRIANGLE = Topology.from_links("triangle", 3, [Link(i, (i + 1) % 3, Fraction(i + 1)) for i in range(3)])
ALLGATHER = collective("allgather", 3)


def steps(order, chunk, route, **columns):
    table = {"chunk": chunk, "route": route, "order": np.array(order, dtype=np.uint16)} | columns
    return Schedule(TRIANGLE, ALLGATHER, Clock.STEP, Chunks.even(ALLGATHER, 2), **table)


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
    """A ring of two parallel links of 5 B/s, B = 10: a shard of M/3 over one of them lasts 2/3 M/B."""
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
