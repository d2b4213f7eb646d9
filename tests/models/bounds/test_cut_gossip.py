"""The bound `cut_gossip`: by hand, below schedules on random networks, checked, and forged."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tests.models.bounds.test_broadcast_growth import random_network
from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.models.bounds import BoundError, lower_bounds
from tutti.models.bounds.bound import sentence
from tutti.models.bounds.cut_gossip import cut_gossip_bound
from tutti.models.bounds.spreading import AlphaDistances
from tutti.models.bounds.traffic import Traffic
from tutti.schedules import Problem, collective
from tutti.schedules.simulation.simulate import best_slices
from tutti.topologies import InputError, Link, Topology
from tutti.topologies.text import parse_topology

KINDS = ("allgather", "reduce-scatter", "allreduce", "all-to-all")
SECOND = Fraction(1)
TICK = Fraction(1, 200)
"""A tick in units of α: each message loses one, and the search loses one."""
PORTS = [(0, 4), (1, 4), (2, 5), (3, 5)]


def two_pairs(bandwidth=Fraction(10), links=1):
    """Ranks 0 and 1 on switch 4, 2 and 3 on switch 5, and links between the switches; α is 1 s."""
    near = [Link(*way, Fraction(10**6), SECOND) for a, b in PORTS for way in ((a, b), (b, a))]
    across = [Link(*way, bandwidth, SECOND) for way in ((4, 5), (5, 4))] * links
    return Topology.from_links("two pairs", 4, near + across, num_switches=2)


def right_side(topology):
    """Ranks 2 and 3 and their switch."""
    return [np.isin(np.arange(topology.num_nodes), [2, 3, 5])]


def cut_gossip(topology, kind, size, cuts, least=Fraction(1, 100), **details):
    what = collective(kind, topology.num_ranks, **details)
    distances = AlphaDistances(topology)
    bound = cut_gossip_bound(topology, least, Traffic.of(what), distances, Fraction(size), cuts)
    if bound is not None:
        bound.check(topology, what)
    return bound


@pytest.mark.parametrize(
    ("kind", "size", "links", "exact"),
    [
        # What enters the link in between left a rank α before, and what has left it is at one α later; a rank
        # has data of the other two α after the start, and its own data is at both two α later. So a message
        # from 1 s on has data of one rank, from 3 s on of two. One that ends by T - 3 s serves two, one that
        # ends by T - 1 s one.
        # Two messages, the first of one for two, the second of two for one: the second from 3 s to T - 1 s.
        # A pair's item is 1 of 4 bytes, 0.1 s: the second has two, for one rank.
        ("all-to-all", 4, 1, Fraction("5.2")),
        ("allgather", 4, 1, Fraction("5.2")),  # two shards for one
        ("reduce-scatter", 4, 1, Fraction("5.2")),  # two items of both, the first from 1 s to 2.2 s, T - 3 s
        ("allreduce", 2, 1, Fraction("5.2")),  # the sum of both, for one
        # Two links: on each two items, of one rank for one each: 1 + 2 * 1.1 + 1 s.
        ("all-to-all", 4, 2, Fraction("4.2")),
        # Items of 2 s: two messages with two each, 1 + 2 * (1 + 4) + 1 s; one with all would begin at 3 s.
        ("all-to-all", 80, 1, Fraction(12)),
    ],
)
def test_by_hand(kind, size, links, exact):
    network = two_pairs(links=links)
    bound = cut_gossip(network, kind, size, right_side(network), least=exact / 2)
    assert exact - 4 * TICK <= bound.value <= exact


@pytest.mark.parametrize(
    ("kind", "size", "exact"),
    [
        # One message of all, as two take 2 α. A byte takes 0.1 s over a rank's links, which have no α.
        # Two bytes of the other rank before it and two for the other after, or one, as each has its own.
        ("all-to-all", 4, Fraction("1.4")),
        ("allgather", 4, Fraction("1.3")),
        ("reduce-scatter", 4, Fraction("1.3")),
        ("allreduce", 2, Fraction("1.4")),
    ],
)
def test_a_message_waits_until_bytes_of_others_are_there_and_for_those_it_passes_on(kind, size, exact):
    near = [Link(a, b, Fraction(10), Fraction(0)) for x, y in PORTS for a, b in ((x, y), (y, x))]
    across = [Link(*way, Fraction(10**9), SECOND) for way in ((4, 5), (5, 4))]
    network = Topology.from_links("slow ports", 4, near + across, num_switches=2)
    bound = cut_gossip(network, kind, size, right_side(network), least=exact / 2)
    assert exact - 4 * TICK <= bound.value <= exact


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter"])
def test_what_a_far_rank_starts_with_is_not_there_at_once(kind):
    """The search and the check agree on it: `cut_gossip` checks what it finds."""
    alpha = [SECOND, 2 * SECOND, SECOND, SECOND]
    near = [Link(*way, Fraction(1000), alpha[a]) for a, b in PORTS for way in ((a, b), (b, a))]
    across = [Link(*way, Fraction(1000), SECOND) for way in ((4, 5), (5, 4))]
    network = Topology.from_links("far", 4, near + across, num_switches=2)
    cut = right_side(network)[0] ^ (kind == "reduce-scatter")
    assert cut_gossip(network, kind, 1000, [cut], least=2 * SECOND, shards=[1, 20, 1, 1]) is not None


def test_bytes_that_take_no_time_leave_the_alphas():
    """5 s by messages of no length, as above; four messages of one for one each would take 6 s."""
    network = two_pairs(bandwidth=Fraction(10**9))
    assert Fraction(5) - 4 * TICK <= cut_gossip(network, "all-to-all", 1, right_side(network)).value <= 5


def test_who_hears_of_all_at_once_leaves_the_cut():
    """A switch copies, so both receive it α later: 1 + 1 + 0.2 + 1 s; two that wait for both are later."""
    network = replace(two_pairs(), multicast=frozenset([5]))
    bound = cut_gossip(network, "allgather", 4, right_side(network))
    assert Fraction("4.2") - 4 * TICK <= bound.value <= Fraction("4.2")


@pytest.mark.parametrize(
    ("kind", "details"),
    [
        ("allgather", {"groups": [[0, 2], [1, 3]]}),
        ("all-to-all", {"groups": [[0, 1], [2, 3]]}),
        ("broadcast", {}),  # nothing comes into the side of the root
    ],
)
def test_it_is_left_out(kind, details):
    network = two_pairs()
    assert cut_gossip(network, kind, 4, [~right_side(network)[0]], **details) is None


def test_it_is_left_out_without_switches_alpha_or_pairs():
    assert cut_gossip(parse_topology("torus:3x3"), "allgather", 1000, [np.arange(9) < 3]) is None
    assert cut_gossip(parse_topology("dgx_a100:2?alpha=0us"), "allgather", 1000, [np.arange(19) < 8]) is None
    network = two_pairs()
    assert cut_gossip(network, "allgather", 4, [np.ones(6, dtype=bool), np.zeros(6, dtype=bool)]) is None


def port(ranks, alpha):
    """Ranks on one switch, α 1 s each way but for the link to rank 0."""
    links = [
        Link(*ends, Fraction(10**6), alpha if ends == (ranks, 0) else SECOND)
        for rank in range(ranks)
        for ends in ((rank, ranks), (ranks, rank))
    ]
    return Topology.from_links("port", ranks, links, num_switches=1)


def test_messages_that_follow_each_other_in_no_time_are_not_counted():
    """All arrive after α of their own link, however many they are."""
    inside = np.arange(61) == 0
    assert cut_gossip(port(60, Fraction(0)), "gather", 1, [inside], root=0) is None
    network = port(60, Fraction(1, 1000))
    bound = cut_gossip(network, "gather", 1, [inside], root=0)
    assert bound.value <= Fraction("1.06")
    forged = replace(bound, certificate={**bound.certificate, "tick": 1, "parts": 200, "ticks": 258})
    with pytest.raises(InputError, match="less than a part of a tick"):
        forged.check(network, collective("gather", 60, root=0))


@for_each("seed", range(16))
def test_no_schedule_is_faster(seed):
    rng = np.random.default_rng(seed)
    network = random_network(seed, ranks=3 + seed % 5)
    for kind in KINDS:
        size = Fraction(int(rng.choice([1, 1000, 20_000])))
        what = collective(kind, network.num_ranks)
        cuts = [rng.random(network.num_nodes) < part for part in (0.3, 0.5, 0.7)]
        bound = cut_gossip(network, kind, size, cuts)
        if bound is None:
            continue
        problem = Problem(network, what, size)
        for name in ("direct", "min_latency", "tacos", "pairwise", "recursive_doubling"):
            method = METHODS[name]
            if method.capabilities.refusal(network, what) is None:
                schedule = method.synthesize(problem, method.options(), np.random.default_rng(0))
                assert best_slices(schedule, size)[1] >= float(bound.value) * (1 - 1e-12)


def test_it_is_the_largest_on_machines():
    """All may have data of all in 5 α, but no adapter brings in time what all others have for its host."""
    machine, what = parse_topology("dgx_a100:2"), collective("all-to-all", 16)
    bounds = {bound.kind: bound.time(32_000) for bound in lower_bounds(machine, what, 32_000)}
    assert bounds["cut_gossip"] == max(bounds.values()) > bounds["broadcast_growth"]
    rounds = METHODS["min_latency"]
    schedule = rounds.synthesize(
        Problem(machine, what, Fraction(32_000)), rounds.options(variants=1), np.random.default_rng(0)
    )
    assert best_slices(schedule, 32_000)[1] >= float(bounds["cut_gossip"])


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"ticks": 1041}, "may be served after 1041 ticks"),
        ({"ticks": 0}, "1 to 10000 whole ones"),
        ({"ticks": True}, "1 to 10000 whole ones"),
        ({"parts": 0}, "1 to 10000 whole ones"),
        ({"parts": 100, "ticks": 600}, "may be served"),
        ({"tick": 0}, "ticks of 0 s"),
        ({"size_bytes": -1}, "-1 bytes"),
        ({"size_bytes": 3}, "may be served"),
        ({"ranks": [0, 1, 2, 3]}, "no item goes into the set"),
        ({"ranks": [2], "switches": []}, "may be served"),
    ],
)
def test_forged_certificates(changes, error):
    network = two_pairs()
    bound, what = cut_gossip(network, "all-to-all", 4, right_side(network)), collective("all-to-all", 4)
    with pytest.raises(InputError, match=error):
        replace(bound, certificate={**bound.certificate, **changes}).check(network, what)


def test_a_certificate_is_for_one_collective():
    network = two_pairs()
    bound = cut_gossip(network, "allreduce", 2, right_side(network))
    with pytest.raises((InputError, BoundError)):
        bound.check(network, collective("allgather", 4))


def test_its_sentence_names_the_nodes_and_the_time():
    network = two_pairs()
    certificate = cut_gossip(network, "all-to-all", 4, right_side(network)).certificate
    said = sentence("cut_gossip", certificate, network)
    assert "[2-3]" in said
    assert "s, as a message holds only what its sender had" in said
