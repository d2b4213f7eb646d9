"""The orders of channels: they follow NVLinks inside hosts, and rails between them."""

import itertools
import time

import numpy as np
import pytest

from tests.heuristics.trees.spanning import reaches_all
from tutti.heuristics.nccl.method import chains, exits_of, rings, rounds, rounds_of
from tutti.heuristics.trees.nccl_like import chained_trees
from tutti.topologies.graphs.grid_structure import hosts_of
from tutti.topologies.text import parse_topology


def found(text, number=8):
    topology = parse_topology(text)
    hosts = hosts_of(topology, trivial=True)
    every = rounds_of(topology, hosts)
    exits = exits_of(topology, hosts) if len(hosts.ranks) > 1 else np.arange(hosts.ranks.shape[1])
    return topology, hosts, every, chains(every, len(hosts.ranks), number, exits)


@pytest.mark.parametrize("text", ["dgx1", "ndv2:2"])
def test_rounds_of_a_dgx1_take_each_of_its_nvlinks_once(text):
    """Six links a GPU, each way: six rounds, which NCCL finds, too."""
    topology, hosts, every, _ = found(text)
    assert len(every) == 6
    inside = hosts.ranks[0]
    wired = [
        (a, b)
        for a, b in zip(topology.source.tolist(), topology.target.tolist(), strict=True)
        if a in inside and b in inside
    ]
    steps = [pair for one in every.tolist() for pair in itertools.pairwise([*one, one[0]])]
    assert sorted(steps) == sorted(wired)


def test_rounds_of_many_that_fit_are_found_in_bounded_time():
    """Eight places all linked: thousands of rounds, of which some three share no link."""
    links = np.ones((8, 8), dtype=np.int64) - np.eye(8, dtype=np.int64)
    begun = time.process_time()
    steps = [pair for one in rounds(links) for pair in itertools.pairwise([*one, one[0]])]
    assert time.process_time() - begun < 1
    assert len(steps) == len(set(steps)) >= 2 * 8


def test_without_a_round_places_are_in_order():
    """A star of four places has none."""
    links = np.zeros((4, 4), dtype=np.int64)
    links[0, 1:] = links[1:, 0] = 1
    assert rounds(links) == [[0, 1, 2, 3]]


@pytest.mark.parametrize(
    ("text", "number"), [("dgx_a100:2", 8), ("dgx_a100:4", 8), ("dgx2:2", 8), ("ndv2:2", 1), ("mi250:2", 16)]
)
def test_rings_stay_on_a_rail_and_channels_have_adapters_of_their_own(text, number):
    _, hosts, _, orders = found(text, number)
    count, gpus = hosts.ranks.shape
    leaves = []
    for ring in rings(hosts, orders).tolist():
        assert sorted(ring) == list(range(count * gpus))
        crossing = [(a, b) for a, b in itertools.pairwise([*ring, ring[0]]) if a // gpus != b // gpus]
        assert len(crossing) == count
        assert all(a % gpus == b % gpus for a, b in crossing)
        leaves += [a for a, _ in crossing]
    assert len(orders) == number
    assert len(set(leaves)) == len(leaves)


def test_an_odd_number_of_hosts_changes_rails_once():
    _, hosts, _, orders = found("dgx_a100:3")
    for ring in rings(hosts, orders).tolist():
        hops = itertools.pairwise([*ring, ring[0]])
        assert sum(a // 8 != b // 8 and a % 8 != b % 8 for a, b in hops) == 1


@pytest.mark.parametrize("text", ["dgx_a100:3", "ndv2:4", "dgx1"])
def test_trees_are_chains_along_the_channels(text):
    _, hosts, _, orders = found(text)
    count, gpus = hosts.ranks.shape
    trees = chained_trees(count, orders)
    assert all(map(reaches_all, trees))
    for tree, order in zip(trees.tolist(), [*orders.tolist()] * 2, strict=True):
        for before, place in itertools.pairwise(order):
            assert all(tree[host * gpus + place] == host * gpus + before for host in range(count))
