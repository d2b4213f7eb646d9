"""Allreduces in one shot that are the same seen from every rank."""

from fractions import Fraction
from math import inf

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.heuristics.rounds import METHOD
from tutti.heuristics.rounds.vertex_transitive import VertexTransitiveNetwork, allreduce
from tutti.models.bounds import best_bound
from tutti.schedules import Problem, collective
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies.text import parse_topology

HAND = "dgx_a100:1?ranks={}&bandwidth=1B/s&alpha=1s"


def found(text, size, until=inf):
    network = parse_topology(text)
    problem = Problem(network, collective("allreduce", network.num_ranks), Fraction(size))
    return allreduce(VertexTransitiveNetwork.of(network), problem, until, np.random.default_rng(0))


@pytest.mark.parametrize("size", [1, 100_000])
@for_each("text", ["switch2d:2x2", "dgx_a100:1", "rfs:2x2x2", "switch2d:4x2?alpha=0us,0.5us", "dgx_a100:9"])
def test_what_one_rank_does_is_an_allreduce_of_all(text, size):
    """Each message is a whole vector, so all end when what is sent last does: after its α and bytes."""
    schedule = found(text, size)
    verify(schedule)
    alpha, vector = schedule.topology.alpha.floats, size / schedule.topology.bandwidth.floats
    routes = schedule.routes.lists
    last = max(
        start * float(schedule.tick) + sum(alpha[[*routes[route]]]) + max(vector[[*routes[route]]])
        for start, route in {*zip(schedule.order.tolist(), schedule.route.tolist(), strict=True)}
    )
    assert simulate(schedule, Fraction(size)).time == pytest.approx(last, rel=1e-6)


def test_one_switch_takes_what_is_least_by_hand():
    """Four ranks, a port each, α = 1 s there and back, a second a vector.

    A message takes 3 s, and holds its port for 2. Two are the fewest, if the second has the sum of two ranks,
    and so leaves after 3 s: 6 s. Three of one rank each leave after 0, 2 and 4 s.
    """
    assert simulate(found(HAND.format(4), 1), Fraction(1)).time == pytest.approx(6)


def test_links_that_lead_to_no_rank_are_no_ports():
    """Two GPUs a box, seven unused adapters: over PCIe, with no α, a box adds up first, then both do."""
    schedule = found("dgx2:2?ranks=2+2", 1000)
    assert {int(start) * schedule.tick for start in schedule.order} == {0, Fraction(1000, 13 * 10**9)}


def test_of_many_cosets_there_is_none():
    """Seventeen ranks have no subgroup between one and all."""
    assert found("switch2d:1x17", 1) is None


def test_out_of_time_there_is_none():
    assert found(HAND.format(4), 1, -inf) is None


@for_each(("text", "gap"), [("dgx_a100:2", 1.08), ("dgx_a100:1", 1.08)])
def test_an_allreduce_behind_switches_is_near_the_fewest_alpha(text, gap):
    """Two halves take ten α on `dgx_a100:2`, five are proven; other methods find 9.6 % more."""
    schedule = found(text, 1024)
    verify(schedule)
    size = schedule.size
    bound = best_bound(schedule.topology, schedule.collective, size).time(size)
    assert simulate(schedule, size).time < gap * float(bound)


def test_many_ranks_add_up_sooner_than_two_halves_could():
    network, size = parse_topology("dgx_a100:9"), Fraction(1024)
    problem = Problem(network, collective("allreduce", 72), size)
    schedule = METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))
    verify(schedule)
    half = best_bound(network, collective("allgather", 72), size).time(size)
    assert simulate(schedule, size).time < 2 * float(half)
