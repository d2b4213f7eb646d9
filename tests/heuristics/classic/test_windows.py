"""Messages over several steps: what they and detours save, against times by hand; and legal."""

from fractions import Fraction

import pytest

from tutti.heuristics.classic.stepwise import METHOD, StepwiseOptions
from tutti.schedules import Problem
from tutti.schedules.collective import collective
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import Link, Topology
from tutti.topologies.text import parse_topology

US = Fraction(1, 10**6)


def seconds(topology, kind, size, shards=None, **options):
    problem = Problem(topology, collective(kind, topology.num_ranks, shards=shards), Fraction(size))
    schedule = METHOD.synthesize(problem, StepwiseOptions(**options), None)
    verify(schedule)
    return simulate(schedule, size).time


def test_longer_messages_save_alphas():
    """Half the data crosses each link, which takes M / 2 b, and α in each of 5 steps if none is longer."""
    topology = parse_topology("hypercube:5")
    every_step = 5 * topology.alpha[0] + Fraction(10**6, 2) / topology.bandwidth[0]
    assert seconds(topology, "all-to-all", 10**6, search_effort=0) >= every_step * Fraction(999, 1000)
    assert seconds(topology, "all-to-all", 10**6, search_effort=10) < every_step * Fraction(99, 100)


def test_data_go_round_a_slow_link():
    """12 us over the slow link and α; half of it over two that are ten times as fast: 6 us, and α."""
    slow, fast = 10**9, 10**10
    rates = {(0, 1): slow, (1, 0): slow, (0, 2): fast, (2, 0): fast, (1, 2): fast, (2, 1): fast}
    links = [Link(a, b, bandwidth=rate, alpha=US) for (a, b), rate in rates.items()]
    topology = Topology.from_links("slow link", 3, links)
    size = 36_000
    assert seconds(topology, "all-to-all", size, search_effort=0) == pytest.approx(13e-6)
    assert seconds(topology, "all-to-all", size, search_effort=1) < 10e-6


@pytest.mark.parametrize(
    "network", ["gen_kautz:2,6", "mesh:3x3", "torus:3x4", "hypercube:3", "dragonfly:2x3"]
)
@pytest.mark.parametrize("size", [32_000, 10**6])
def test_what_is_made_is_legal_and_no_slower(network, size):
    topology = parse_topology(network)
    assert seconds(topology, "all-to-all", size, search_effort=1) <= seconds(
        topology, "all-to-all", size, search_effort=0
    ) * (1 + 1e-9)


def test_uneven_and_empty_shards():
    seconds(parse_topology("mesh:2x3"), "all-to-all", 100_000, shards=[1, 0, 5, 1, 1, 2], search_effort=1)


def test_bandwidths_that_are_fractions_count_as_what_they_are():
    """A third of a byte a second: a byte from each to each other of three takes α and 3 seconds."""
    ring = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (0, 2)]
    links = [Link(a, b, bandwidth=Fraction(1, 3), alpha=Fraction(1)) for a, b in ring]
    assert seconds(Topology.from_links("thirds", 3, links), "all-to-all", 3) == 4
