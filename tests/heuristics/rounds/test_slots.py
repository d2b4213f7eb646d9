"""Routes of single messages; messages by which all ranks have all data, replayed with sets, in few α."""

import itertools
from collections import defaultdict

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.heuristics.rounds.slots import (
    MessageRoutes,
    Slots,
    longer,
    messages_in,
    moments,
    search,
    single_messages,
    translations,
)
from tutti.topologies.text import parse_topology


def found(text, until, symmetric=True):
    """Messages on a network by which all have all data by a time, over the denominator of α, or None."""
    topology = parse_topology(text)
    network = MessageRoutes.of(topology, translations(topology) if symmetric else [])
    slots = Slots.of(topology, network, moments(topology, until))
    everything = np.ones((topology.num_ranks, topology.num_ranks), dtype=np.bool_)
    use = search(topology, slots, everything, until, np.random.default_rng(0))
    return topology, network, slots, use


def known(topology, network, messages):
    """The data of each node in the end, by replaying the messages with sets; no link may be held twice."""
    links, offsets, alpha = network.routes.links, network.routes.offsets, topology.alpha.numerators
    sent, held = [], defaultdict(list)
    for number, (route, start) in enumerate(zip(messages.route, messages.start, strict=True)):
        time = start
        for link in links[offsets[route] : offsets[route + 1]]:
            held[link] += [(time, time + alpha[link])]
            time += alpha[link]
        assert time == messages.end[number]
        sent += [(start, messages.step[number], 0, number), (time, messages.step[number], 1, number)]
    for stretches in held.values():
        ordered = sorted(stretches)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ordered))
    knows = defaultdict(set) | {rank: {rank} for rank in range(topology.num_ranks)}
    content = {}
    for _, _, arrives, number in sorted(sent):
        route = messages.route[number]
        if arrives:
            knows[network.target[route]] = knows[network.target[route]] | content[number]
        else:
            content[number] = knows[network.source[route]]
    return [knows[rank] for rank in range(topology.num_ranks)]


@for_each(
    ("text", "until"),
    [
        ("dgx_a100:1", 5),  # 1, 1, 2, 3, 5, 8 know of one rank after 0, ..., 5 α
        ("dgx_a100:2", 5),  # with two ports 1, 1, 3, 5, 11, 21
        ("mi250:2", 4),  # a greedy search needs 5
        ("ndv2:2", 34),  # of 50 ns each: one message between the adapters
        ("ring:6", 3),
        ("mesh:2x3?alpha=0us", 3),  # hops count where there is no α
    ],
)
def test_all_know_all_in_as_few_alpha_as_there_can_be(text, until):
    topology, network, slots, use = found(text, until)
    assert use is not None
    if topology.alpha.numerators.any():
        everyone = set(range(topology.num_ranks))
        assert known(topology, network, messages_in(slots, use)) == [everyone] * topology.num_ranks


@for_each(("text", "until"), [("dgx_a100:1", 4), ("dgx_a100:2", 4), ("mi250:2", 3), ("ring:6", 2)])
def test_nothing_is_found_in_less(text, until):
    """Data reaches 5 of 8 ranks on a switch in 4 α; over the adapters of 16 ranks at most 10 in 3 α."""
    assert found(text, until)[-1] is None


def test_only_what_is_wanted_counts():
    """Pairs of ranks on a switch of 8 tell each other in one message."""
    topology = parse_topology("dgx_a100:1")
    slots = Slots.of(topology, MessageRoutes.of(topology, []), moments(topology, 2))
    pairs = np.kron(np.eye(4), np.ones((2, 2))) > 0
    assert search(topology, slots, pairs, 2, np.random.default_rng(0)) is not None


def test_idle_links_are_used_in_turn():
    """A switch of 4 ranks for 7 α: six messages of 2 α each leave a port, two to each other rank."""
    topology, network, slots, use = found("dgx_a100:1?ranks=4", 4)
    messages = messages_in(*longer(slots, use, 7))
    everyone = set(range(4))
    assert known(topology, network, messages) == [everyone] * 4
    ends = list(
        zip(network.source[messages.route].tolist(), network.target[messages.route].tolist(), strict=True)
    )
    assert len(ends) == 4 * 6
    assert {ends.count(pair) for pair in set(ends)} == {2}


def test_moments_are_sums_of_alpha():
    assert moments(parse_topology("mesh:2x3?alpha=0.3us,0.5us"), 10).tolist() == [0, 3, 5, 6, 8, 9, 10]
    assert moments(parse_topology("mesh:2x3?alpha=1s,0.001us"), 2 * 10**9).tolist() == [0, 10**9, 2 * 10**9]
    many = moments(parse_topology("mesh:2x3?alpha=0.1us,0.101us"), 5000)
    assert len(many) == 64
    assert many[[0, -1]].tolist() == [0, 5000]


@pytest.mark.parametrize("symmetric", [True, False])
def test_the_search_is_the_same_each_time(symmetric):
    first, again = (messages_in(*found("switch2d:2x3", 5, symmetric)[2:]) for _ in range(2))
    assert np.array_equal(first.route, again.route)
    assert np.array_equal(first.start, again.start)


def test_routes_are_single_links_and_ways_through_switches():
    """Two boxes of 8: each rank to 7 over its NVSwitch and to 15 over InfiniBand, two links each."""
    machine = parse_topology("dgx_a100:2")
    ways = list(single_messages(machine))
    assert len(ways) == 16 * (7 + 15)
    assert {len(way) for way in ways} == {2}
    ring = parse_topology("ring:5")
    assert sorted(single_messages(ring)) == [(link,) for link in range(10)]


def test_translations_move_all_ranks_and_classes_are_disjoint():
    machine = parse_topology("dgx_a100:2")
    steps = translations(machine)
    assert len(steps) == 2
    network = MessageRoutes.of(machine, steps)
    assert np.diff(network.classes).tolist() == [16] * (7 + 15)
    for first, last in zip(network.classes[:-1], network.classes[1:], strict=True):
        offsets = network.routes.offsets
        links = network.routes.links[offsets[first] : offsets[last]]
        assert len(set(links.tolist())) == len(links)
        assert set(network.source[first:last].tolist()) == set(range(16))
