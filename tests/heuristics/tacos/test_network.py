"""Networks of TACOS: durations in ticks, the unwinding of Fig. 13, times on the ports, the best degree."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from tests.heuristics.tacos.synthesis import GB, tacos
from tests.sweep import for_each
from tutti.heuristics.tacos import METHOD, TacosOptions
from tutti.heuristics.tacos.network import degrees, time_expanded, unwind
from tutti.schedules import KINDS, Problem, collective
from tutti.schedules.message_durations import FINE_RESOLUTION, messages, transfer_ticks
from tutti.schedules.verify import verify
from tutti.topologies import InputError, Link, Topology, Unsupported
from tutti.topologies.text import parse_topology

MICRO = Fraction(1, 10**6)


def star(ranks, bandwidth=100 * GB, alpha=MICRO):
    links = [Link(i, ranks, Fraction(bandwidth), alpha) for i in range(ranks)]
    links += [Link(ranks, i, Fraction(bandwidth), alpha) for i in range(ranks)]
    return Topology.from_links(f"star of {ranks}", ranks, links, num_switches=1)


def finish(schedule):
    grouped = messages(schedule)
    arrival = grouped.order + transfer_ticks(schedule, grouped).until_arrival
    return int(arrival.max()) * schedule.tick


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_a_switch_of_four_is_unwound_as_in_figure_13(degree):
    unwound = unwind(star(4), degree).topology
    found = sorted(zip(unwound.source.tolist(), unwound.target.tolist(), strict=True))
    assert found == sorted((i, (i + step) % 4) for i in range(4) for step in range(1, degree + 1))
    assert {unwound.bandwidth[link] for link in range(unwound.num_links)} == {Fraction(100 * GB, degree)}
    assert {unwound.alpha[link] for link in range(unwound.num_links)} == {2 * MICRO}


@pytest.mark.parametrize(("ranks", "speed"), [(2, 120), (3, 60), (4, 60), (5, 60)])
def test_degree_1_may_be_a_ring_both_ways(ranks, speed):
    """2023, IV-G: at d = 1 a switch of 120 GB/s is a ring of 120 GB/s, or one both ways of half that."""
    switch = star(ranks, bandwidth=120 * GB)
    ring, both = (unwind(switch, 1, bidirectional=both).topology for both in (False, True))
    assert {ring.bandwidth[link] for link in range(ring.num_links)} == {120 * GB}
    found = sorted(zip(both.source.tolist(), both.target.tolist(), strict=True))
    assert found == sorted({(i, (i + step) % ranks) for i in range(ranks) for step in (1, -1)})
    assert {both.bandwidth[link] for link in range(both.num_links)} == {speed * GB}
    assert {both.alpha[link] for link in range(both.num_links)} == {2 * MICRO}
    assert unwind(switch, 2, bidirectional=True).topology == unwind(switch, 2).topology


@pytest.mark.parametrize("kind", KINDS)
@for_each("text", ["dgx_a100:2?drop_nodes=0", "mi250:2", "switch2d:4x3", "rfs:2x3x2", "fat_tree:2,3,2"])
def test_schedules_of_rings_both_ways_are_legal_on_the_real_network(text, kind):
    schedule = tacos(text, kind, chunks=2, degree=1, bidirectional=True)
    assert schedule.topology == parse_topology(text)
    verify(schedule)


@for_each("size", [9, 9 * 10**6])
def test_both_ways_nine_ranks_take_half_the_rounds(size):
    """Each receives 8 shards over 2 links in 4 rounds of 2 alpha and a shard at half of 100 GB/s."""
    ring = unwind(star(9), 1, bidirectional=True).topology
    assert finish(tacos(ring, size=size)) == 4 * (2 * MICRO + Fraction(size, 9) / (50 * GB))
    one_way, both = (tacos(star(9), size=size, degree=1, bidirectional=both) for both in (False, True))
    assert finish(one_way) == 8 * (2 * MICRO + Fraction(size, 9) / (100 * GB))
    if size == 9:
        assert finish(both) < finish(one_way)


def test_a_ring_both_ways_is_of_degree_1_and_of_switches():
    with pytest.raises(InputError) as error:
        TacosOptions(degree=2, bidirectional=True)
    assert str(error.value) == "tacos: bidirectional is of degree 1 only; degree is 2"
    with pytest.raises(Unsupported, match="tacos with bidirectional unwinds switches; ring:4 has none"):
        tacos("ring:4", bidirectional=True)


@pytest.mark.parametrize("bidirectional", [False, True])
@for_each("degree", [1, 2, 7])
@for_each("text", ["dgx_a100:2", "mi250:2", "switch2d:4x3", "rfs:2x3x4", "fat_tree:2,4,2"])
def test_unwound_links_share_the_ports_that_their_routes_take(text, degree, bidirectional):
    topology = parse_topology(text)
    unwound, routes = unwind(topology, degree, bidirectional=bidirectional)
    taken = [Fraction(0)] * topology.num_links
    for link in range(unwound.num_links):
        route = routes.links[routes.offsets[link] : routes.offsets[link + 1]].tolist()
        assert topology.source[route[0]] == unwound.source[link]
        assert topology.target[route[-1]] == unwound.target[link]
        assert all(topology.target[a] == topology.source[b] for a, b in pairwise(route))
        for used in route:
            taken[used] += unwound.bandwidth[link]
    assert all(taken[link] <= topology.bandwidth[link] for link in range(topology.num_links))


def test_neighbours_on_a_switch_are_on_other_machines_where_they_can_be():
    topology = parse_topology("dgx_a100:2")
    unwound, routes = unwind(topology, 1)
    infiniband = topology.labels.index("ib")
    for link in range(unwound.num_links):
        if topology.target[routes.links[routes.offsets[link]]] == infiniband:
            ends = int(unwound.source[link]), int(unwound.target[link])
            assert topology.hosts[ends[0]] != topology.hosts[ends[1]]


@pytest.mark.parametrize("kind", KINDS)
@for_each(
    "text",
    ["dgx_a100:2?drop_nodes=0", "mi250:2", "switch2d:4x3", "rfs:2x3x2", "fat_tree:2,3,2", "dgx_h100:1"],
)
def test_it_is_legal_on_the_real_network(text, kind):
    schedule = tacos(text, kind, chunks=2)
    assert schedule.topology == parse_topology(text)
    verify(schedule)


def test_large_data_on_one_switch_takes_no_longer_than_a_ring():
    """7 steps, each of two α and an eighth of 1 GB over a port of 100 GB/s."""
    schedule = tacos(star(8))
    verify(schedule)
    assert finish(schedule) <= 7 * (2 * MICRO + Fraction(GB, 8) / (100 * GB))


def test_small_data_wants_a_higher_degree():
    """Footnote 6: degree 1 suits bandwidth, N - 1 latency."""
    ring, best = tacos(star(8), size=8, degree=1), tacos(star(8), size=8)
    direct = tacos(star(8), size=8, degree=7)
    assert finish(direct) < finish(ring)
    assert finish(best) <= finish(direct)


def test_the_degrees_tried_reach_the_largest():
    assert degrees(star(4)) == [1, 2, 3]
    assert degrees(star(20)) == [1, 2, 3, 4, 8, 16, 19]
    assert degrees(star(513)) == [1, 2, 3, 4, 8, 16, 32, 64, 128]  # 256 would make over 2^17 links
    assert degrees(one_way("as sb ab bc ca")) == [1]  # no rank has links to and from its switch


def one_way(ends, switches=1):
    """The network of three ranks a, b, c and switches s, t with these links."""
    nodes = "abcst"
    links = [Link(nodes.index(tail), nodes.index(head)) for tail, head in ends.split()]
    return Topology.from_links("one-way", 3, links, labels=list(nodes[: 3 + switches]), num_switches=switches)


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce", "all-to-all"])
@pytest.mark.parametrize(
    ("topology", "reason"),
    [
        (
            one_way("as sb bc ca"),
            "topology one-way without its switches is not strongly connected: rank a can't reach b, c",
        ),
        (
            one_way("as sa st tb bt bc ca", switches=2),
            "topology switches of one-way is not strongly connected: rank a can't be reached from b",
        ),
    ],
)
def test_switches_that_no_rank_can_go_round_are_said_of_the_network_as_given(topology, reason, kind):
    with pytest.raises(Unsupported) as refusal:
        tacos(topology, kind)
    assert str(refusal.value) == (
        "tacos can't unwind the switches of one-way, each into links between the ranks that both send to it "
        f"and receive from it: {reason}"
    )


def test_random_networks_of_one_way_links_are_done_or_refused_before_anything_is_made():
    refused = 0
    for seed in range(40):
        topology = random_circles(seed)
        problem = Problem(topology, collective("allgather", topology.num_ranks), Fraction(10**6))
        try:
            METHOD.supports(problem, TacosOptions())
        except Unsupported:
            refused += 1
            continue
        for kind in ("allgather", "reduce-scatter"):
            schedule = tacos(topology, kind, size=10**6)
            assert schedule.topology is topology
            verify(schedule)
    assert 5 <= refused <= 35


def random_circles(seed):
    """A circle through all ranks and switches, and others through some, perhaps in both directions."""
    rng = np.random.default_rng(seed)
    ranks, switches = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    ends = []
    for number in range(int(rng.integers(1, 4))):
        circle = rng.permutation(ranks + switches)
        circle = circle if number == 0 else circle[: rng.integers(2, len(circle) + 1)]
        ends += zip(circle.tolist(), np.roll(circle, 1).tolist(), strict=True)
    if rng.random() < 0.5:
        ends += [(head, tail) for tail, head in ends]
    links = [Link(tail, head) for tail, head in dict.fromkeys(ends)]
    return Topology.from_links(f"circles {seed}", ranks, links, num_switches=switches)


@pytest.mark.parametrize(
    ("degree", "message"),
    [
        (4, "tacos: degree is 4; on star of 4 no switch joins more than 4 ranks, allowed: 1 to 3"),
    ],
)
def test_a_degree_must_be_one_of_a_switch(degree, message):
    with pytest.raises(InputError) as error:
        tacos(star(4), degree=degree)
    assert str(error.value) == message


def test_a_size_is_needed():
    problem = Problem(star(4), collective("allgather", 4))
    assert METHOD.size_dependent(problem, TacosOptions())
    with pytest.raises(InputError, match="tacos needs a size on star of 4: it has switches, so the schedule"):
        METHOD.synthesize(problem, TacosOptions(), np.random.default_rng(0))


def test_samples_do_not_go_through_switches():
    with pytest.raises(Unsupported, match="with chunk_rule 'sampled' needs links of one cost"):
        tacos(star(4), chunk_rule="sampled")


def awkward_ring():
    """Bandwidths of which the durations have no common tick that would fit 64 bits."""
    primes = [1_000_000_007, 998_244_353, 2_147_483_647, 999_999_937, 1_000_000_009, 1_000_000_021]
    forward = [Link(i, (i + 1) % 3, Fraction(primes[i])) for i in range(3)]
    back = [Link((i + 1) % 3, i, Fraction(primes[3 + i])) for i in range(3)]
    return Topology.from_links("awkward", 3, forward + back)


def test_durations_without_a_common_tick_are_rounded_up_by_less_than_a_billionth():
    topology = awkward_ring()
    network, tick = time_expanded(topology, GB / 3, 6)
    for link in range(topology.num_links):
        exact = topology.alpha[link] + GB / 3 / topology.bandwidth[link]
        ticks = int(network.duration[network.cost[link]])
        assert 0 <= ticks * tick - exact < exact / FINE_RESOLUTION * 2
    verify(tacos(topology, "allreduce"))
