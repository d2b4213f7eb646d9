"""The routes of single messages: links, and links through switches that only forward."""

import numpy as np

from tutti.heuristics.rounds.routes import MessageRoutes, single_messages, translations
from tutti.topologies.text import parse_topology


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
