"""The bound `message_count`: optima by hand and of small networks, schedules, forged certificates."""

from dataclasses import replace
from fractions import Fraction

import pytest

import tutti.models.bounds.message_count as messages_module
from tests.models.networks import times_of
from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.models.bounds import BoundError, lower_bounds
from tutti.schedules import Problem, collective
from tutti.schedules.simulation.simulate import simulate
from tutti.topologies import InputError, Link, Topology
from tutti.topologies.text import parse_topology

MICRO = Fraction(1, 10**6)
ROUNDED = 0.996
"""A message may find what comes up to a tick later, some hundredth of α."""


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """It is given only where it is larger than the others, and `first_hop` has the same small optima."""
    monkeypatch.setattr("tutti.models.bounds.report.first_hop_bound", lambda *given: None)


def messages(topology, kind="allgather", size=1, **details):
    """The bound, or None."""
    network = parse_topology(topology) if isinstance(topology, str) else topology
    what = collective(kind, network.num_ranks, **details)
    return next((b for b in lower_bounds(network, what, size) if b.kind == "message_count"), None)


@pytest.mark.parametrize(
    ("network", "size", "optimum"),
    [("ring:4", 200_000, "2.5"), ("ring:5", 200_000, "2.6"), ("torus:3x3", 200_000, "17/9")],
)
def test_it_meets_optima_that_take_two_messages_a_link(network, size, optimum):
    """T = 2 α + bytes / b: 1.5, 2 and 2 of 4, 5 and 9 shards over a link of 50 GB/s with 0.5 us."""
    exact = Fraction(optimum) * MICRO
    assert ROUNDED * exact < messages(network, size=size).value <= exact


def test_a_chain_pays_for_every_message():
    """One way round, each of three messages waits for the one before: 3 (α + a shard)."""
    exact = 3 * (Fraction(1, 2) + Fraction(25_000, 50_000)) * MICRO
    assert ROUNDED * exact < messages("uniring:4", size=100_000).value <= exact


def test_what_came_from_a_rank_is_of_no_use_to_it():
    """A shard of 1/32 MB takes 0.625 us on `hypercube:5`, α 0.5 us. Say that T = 5.2 us.

    Some link into v brings 6.2 shards or more, in 3.875 us; so it has one or two messages and idles for
    0.325 us at most. Before 1.125 us no rank has more than its own shard. One message begins by 0.825 us. Of
    two the first begins by 0.325 us, with one shard, and the second by 1.45 us. The neighbour has then its
    own shard and one over each of four links, and ranks beyond it have but their own: 6 in all.
    """
    assert messages("hypercube:5", size=10**6).value > Fraction(52, 10) * MICRO


def test_a_message_that_cuts_through_ranks_waits_for_nothing():
    """One way round, 1 kB from 0 to each: three times α and 0.02 us, with the farthest datum sent first."""
    topology, what = parse_topology("uniring:4"), collective("scatter", 4)
    size = Fraction(4000)
    flow = METHODS["mcf"].synthesize(Problem(topology, what, size), METHODS["mcf"].options(), None)
    assert simulate(flow, size).time < 3.01 * 0.52e-6
    for bound in lower_bounds(topology, what, size):
        bound.check(topology, what)
        assert simulate(flow, size).time >= float(bound.time(size)) * (1 - 1e-9)


def star(ranks, **able):
    links = [
        Link(*ends, Fraction(10**9), Fraction(1, 2) * MICRO)
        for r in range(ranks)
        for ends in ((r, ranks), (ranks, r))
    ]
    return Topology.from_links("star", ranks, links, num_switches=1, **able)


def test_behind_a_switch_a_port_gets_one_message_at_a_time():
    """Three ranks, 1.5 kB: two messages of 0.5 kB into each port, or the second holds both from 1.5 us on.

    Two messages of one shard: 0.5 of the first α, then twice 0.5 + 0.5 us.
    """
    exact = Fraction(5, 2) * MICRO
    for kind in ("allgather", "reduce-scatter"):
        assert ROUNDED * exact < messages(star(3), kind, 1500).value <= exact


@for_each("network", ["ring:6", "uniring:4", "dgx_h100:2", "ndv2:2"])
def test_no_schedule_is_faster(network):
    topology = parse_topology(network)
    for kind in ("allgather", "allreduce", "scatter"):
        what = collective(kind, topology.num_ranks)
        for size in (10_000, 10**6):
            bound = messages(topology, kind, size)
            if bound is None:
                continue
            if size == 10_000:
                bound.check(topology, what)
            names = ("bfb", "min_latency", "shortest_path_all_to_all", "multitree", "mcf", "direct")
            for name, time in times_of(names, Problem(topology, what, Fraction(size)), size, 1):
                assert time >= float(bound.value) * (1 - 1e-9), name


def test_shares_that_are_no_whole_units_prove_no_more():
    """Twelfths of 1 kB reach all in 3 steps of `kautz:2,2`. One unit less than there is takes a fourth α."""
    topology, what = parse_topology("kautz:2,2"), collective("allgather", 12)
    bound = messages(topology, size=1000)
    ((_, time),) = times_of(("bfb",), Problem(topology, what, Fraction(1000)), 1000, 1)
    assert ROUNDED * time < bound.value <= time < 2e-6
    false = replace(
        bound, value=2 * MICRO, certificate={**bound.certificate, "tick": "1/400000000", "ticks": 800}
    )
    with pytest.raises(InputError, match="all may have come after 800 ticks"):
        false.check(topology, what)


@pytest.mark.parametrize(
    ("network", "kind", "least"),
    [("mi250:2", "allreduce", 4), ("mi250:2", "all-to-all", 4), ("rfs:2x4x8", "allreduce", 5)],
)
def test_all_must_have_heard_of_all(network, least, kind):
    """Messages of no bytes bring data to at most 10 of 16 ranks of the other `mi250:2` box in 3 α.

    On `rfs:2x4x8` 42 of the 56 that are behind switches get it in 4 α. α is 0.5 us.
    """
    bound = messages(network, kind, 1000)
    topology = parse_topology(network)
    bound.check(topology, collective(kind, topology.num_ranks))
    assert ROUNDED * least * MICRO / 2 < bound.value <= least * MICRO / 2


def test_it_is_given_only_where_it_is_the_largest():
    assert messages("complete:4", size=200_000) is None, "one message a link is all there is"
    assert messages("ring:8", size=10**12) is None, "no message costs what matters"
    assert messages("ring:8", "all-to-all", 10**6) is None
    assert messages("ring:8", "allgather", 10**6, groups=[[0, 1, 2, 3], [4, 5, 6, 7]]) is None
    instant = [Link(a, (a + way) % 5, Fraction(10**9), Fraction(0)) for a in range(5) for way in (1, 4)]
    assert messages(Topology.from_links("instant", 5, instant), size=10**6) is None


def test_large_networks_are_left_out(monkeypatch):
    monkeypatch.setattr(messages_module, "MOST_NODES", 7)
    assert messages("ring:7", size=10**6) is not None
    assert messages("ring:8", size=10**6) is None


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"ticks": 10**9}, "1 to 10000 positive ones"),
        ({"ticks": 2000}, "all may have come after 2000 ticks"),
        ({"tick": 0}, "1 to 10000 positive ones"),
        ({"distances": ["1/1000000"]}, "distances must rise, 0 first"),
        ({"direction": "out"}, "the same ranks must need all data"),
        ({"heard": True, "ticks": 2000}, "all may have come after 2000 ticks"),
    ],
)
def test_forged_certificates_are_refused(changes, error):
    topology, what = parse_topology("ring:5"), collective("allgather", 5)
    bound = messages("ring:5", size=200_000)
    forged = replace(bound, certificate={**bound.certificate, **changes})
    with pytest.raises((BoundError, InputError), match=error):
        forged.check(topology, what)


@for_each("kind", ["all-to-all", "allgather"])
def test_several_groups_or_ends_are_no_case_for_it(kind):
    topology, bound = parse_topology("ring:4"), messages("ring:4", size=200_000)
    groups = [[0, 1], [2, 3]] if kind == "allgather" else None
    with pytest.raises((BoundError, InputError), match="the same ranks must need"):
        bound.check(topology, collective(kind, 4, groups=groups))
