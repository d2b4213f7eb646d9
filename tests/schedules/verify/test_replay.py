"""The times at which links are held, against the simulation's totals and sums of intervals."""

from fractions import Fraction

import numpy as np
import pytest

from tutti.heuristics.classic.direct import METHOD as DIRECT
from tutti.heuristics.tacos import METHOD as TACOS
from tutti.schedules import Clock, Problem, SimulationOptions, collective
from tutti.schedules.simulation.simulate import Holding, simulate, watch
from tutti.topologies.text import parse_topology

GIGABYTE = Fraction(10**9)


def schedule(method, text, kind="allreduce"):
    topology = parse_topology(text)
    problem = Problem(topology, collective(kind, topology.num_ranks), GIGABYTE)
    return method.synthesize(problem, method.options(), np.random.default_rng(0))


CASES = [
    (TACOS, "mesh:3x3?bandwidth=50GB/s,20GB/s&alpha=1us"),
    (TACOS, "dgx_a100:1"),
    (DIRECT, "mesh:3x4"),  # routes of several links
    (DIRECT, "dgx_a100:2"),
]


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(("method", "text"), CASES)
def test_a_link_is_held_for_as_long_as_it_is_busy_and_by_one_at_a_time(method, text, overlap):
    made, options = schedule(method, text), SimulationOptions(overlap_alpha=overlap)
    simulation, holding = watch(made, GIGABYTE, options)
    assert simulation.time == simulate(made, GIGABYTE, options).time
    held = np.bincount(holding.link, weights=holding.end - holding.begin, minlength=holding.num_links)
    assert held == pytest.approx(simulation.busy, rel=1e-9)
    order = np.lexsort((holding.begin, holding.link))
    link, begin, end = holding.link[order], holding.begin[order], holding.end[order]
    same = link[1:] == link[:-1]
    assert (begin[1:][same] >= end[:-1][same] - 1e-12).all()


def test_over_one_link_a_message_holds_it_from_start_to_finish():
    made = schedule(TACOS, "torus:3x3")
    simulation, holding = watch(made, GIGABYTE)
    assert np.array_equal(holding.begin, simulation.start)
    assert holding.end == pytest.approx(simulation.finish, rel=1e-12)


def test_slices_are_messages_of_their_own():
    made = schedule(DIRECT, "ring:4", "allgather").replace(clock=Clock.FLOW, order=None)
    _, holding = watch(made, GIGABYTE, SimulationOptions(slices=5))
    whole = watch(made, GIGABYTE)[1]
    assert len(holding.begin) == 5 * len(whole.begin)


def test_the_share_busy_is_what_intervals_add_up_to():
    rng = np.random.default_rng(3)
    begin = rng.uniform(0, 9, 40)
    link, end = rng.integers(0, 7, 40).astype(np.int32), begin + rng.uniform(0, 3, 40)
    holding = Holding(link, begin, end, 7, np.arange(40), np.ones(40))
    edges = np.sort(rng.uniform(0, 12, 9))
    found = holding.share_busy(edges)
    for low, high, share in zip(edges[:-1], edges[1:], found, strict=True):
        overlap = sum(
            max(0.0, min(b, high) - max(a, low)) for a, b in zip(holding.begin, holding.end, strict=True)
        )
        assert share == pytest.approx(overlap / (high - low) / 7)
