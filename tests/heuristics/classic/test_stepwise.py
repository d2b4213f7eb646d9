"""The all-to-all in steps: its steps and loads, counted by hand."""

from fractions import Fraction

import pytest

from tests.schedules.builders import step_loads
from tutti.experiments.registry import METHODS
from tutti.heuristics.classic.stepwise import METHOD, StepwiseOptions
from tutti.schedules import Problem
from tutti.schedules.collective import collective
from tutti.schedules.cost import congestion
from tutti.schedules.verify import verify
from tutti.topologies import Link, Topology
from tutti.topologies.errors import Unsupported
from tutti.topologies.text import parse_topology


def made(network, kind="all-to-all", **options):
    topology = parse_topology(network) if isinstance(network, str) else network
    problem = Problem(topology, collective(kind, topology.num_ranks))
    schedule = METHOD.synthesize(problem, StepwiseOptions(**options), None)
    verify(schedule)
    return schedule


def test_on_an_odd_ring_every_path_is_the_only_one():
    # Ring of 5, by hand: over a link go the data for 1 and 2 hops in step 1, the second hop of one in step 2.
    assert step_loads(made("ring:5")) == [Fraction(2, 5), Fraction(1, 5)]


@pytest.mark.parametrize(
    ("network", "pairs", "links"),
    [
        ("hypercube:3", (56, 32, 8), 24),  # 8 (8 - 1), 8 (3 + 1) and 8 pairs at least 1, 2 and 3 hops apart
        ("torus:4x4", (240, 176, 80, 16), 64),  # of a rank 4, 6, 4 and 1 others are 1, 2, 3 and 4 hops away
    ],
)
def test_links_are_used_alike_where_there_is_a_choice(network, pairs, links):
    found = step_loads(made(network, chunks=12))
    even = [Fraction(count, links * parse_topology(network).num_ranks) for count in pairs]
    assert len(found) == len(even)
    assert sum(found) <= Fraction(21, 20) * sum(even)
    assert all(load >= least for load, least in zip(found, even, strict=True))


def test_the_faster_of_two_ways_carries_more():
    # From 0 to 3 over 1 is three times as fast as over 2: of eight chunks most go there.
    ways = [(0, 1, 3), (1, 3, 3), (0, 2, 1), (2, 3, 1)]
    pairs = [(a, b, rate) for one, other, rate in ways for a, b in ((one, other), (other, one))]
    links = [Link(a, b, bandwidth=rate * 10**9, alpha=Fraction(1, 10**6)) for a, b, rate in pairs]
    schedule = made(Topology.from_links("two ways", 4, links), "scatter", chunks=8)
    far = schedule.collective.items.end[schedule.chunks.item[schedule.chunk]] == 3
    first = schedule.route[far & (schedule.order == 1)].tolist()
    assert len(first) == 8
    assert first.count(0) > first.count(4)


@pytest.mark.parametrize("kind", ["gather", "scatter"])
def test_rooted_ones_too(kind):
    schedule = made("mesh:3x3", kind)
    assert int(schedule.order.max()) == 4  # from corner to corner


def test_switches_are_refused():
    with pytest.raises(Unsupported, match="shortest_path_all_to_all needs a switch-free topology"):
        made("dgx_a100:2")


def test_it_is_registered():
    assert METHODS["shortest_path_all_to_all"] is METHOD


def test_empty_shards_are_sent_too():
    """`verify` wants every chunk at its end, those without bytes too."""
    topology = parse_topology("ring:5")
    problem = Problem(topology, collective("all-to-all", 5, shards=[1, 0, 2, 1, 1]))
    verify(METHOD.synthesize(problem, StepwiseOptions(), None))


def test_where_all_ranks_are_alike_links_are_used_alike_exactly():
    """4x4x4: each rank sends 64 data over 3 hops on average, and has six links: 32 data a link."""
    topology = parse_topology("torus:4x4x4")
    schedule = METHOD.synthesize(
        Problem(topology, collective("all-to-all", 64), Fraction(10**9)), StepwiseOptions(), None
    )
    verify(schedule)
    assert congestion(schedule) == Fraction(32, 64) / topology.bandwidth[0]
