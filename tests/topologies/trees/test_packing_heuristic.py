"""The heuristic: each result is as good as the exact algorithms' answer, and low."""

from fractions import Fraction

import numpy as np
import pytest

from tests.topologies.eulerian import congestion, out_trees, random_eulerian, routes_are_paths, worst_ratio
from tests.topologies.trees.forests import check_forest
from tutti.models.bounds.bottleneck_cut import bottleneck_cut
from tutti.topologies import parse_topology
from tutti.topologies.trees.forest import (
    LogicalNetwork,
    heights,
    largest_height,
    mean_height,
    tree_capacities,
)
from tutti.topologies.trees.packing import pack_trees
from tutti.topologies.trees.packing_heuristic import grow_trees
from tutti.topologies.trees.switch_removal_heuristic import spread_switches

GUESSED = 60
"""Least number of a hundred random networks that the heuristic must solve for these tests to mean much."""


def guessed(topology, ratio):
    """Return k, the spread network and the grown forest, each None if it was not found."""
    k, capacity = tree_capacities(topology, ratio)
    network = spread_switches(topology, capacity, k)
    return k, network, None if network is None else grow_trees(network, k)


def test_switches_spread_by_guess_leave_room_for_trees_at_the_worst_of_all_cuts():
    found = 0
    for seed in range(100):
        topology = random_eulerian(seed)
        ratio = worst_ratio(topology)
        k, network, _ = guessed(topology, ratio)
        if network is not None:
            found += 1
            assert congestion(topology, network, pack_trees(network, k), k) == ratio
    assert found >= GUESSED


def test_trees_grown_by_guess_meet_the_worst_of_all_cuts_exactly():
    found = 0
    for seed in range(100):
        topology = random_eulerian(seed)
        ratio = worst_ratio(topology)
        k, network, forest = guessed(topology, ratio)
        if forest is not None:
            found += 1
            assert out_trees(forest, [k] * topology.num_ranks)
            assert congestion(topology, network, forest, k) == ratio
    assert found >= GUESSED


def walked_height(root, parent):
    """Return the largest number of hops from a rank up to the root."""
    most = 0
    for rank in range(len(parent)):
        hops = 0
        while rank != root:
            rank, hops = parent[rank], hops + 1
        most = max(most, hops)
    return most


@pytest.mark.parametrize("text", ["dgx_a100:2", "mi250:1", "dgx_a100:4"])
def test_heights_are_the_hops_to_the_farthest_rank(text):
    topology = parse_topology(text)
    _, _, forest = guessed(topology, bottleneck_cut(topology).ratio)
    rows = zip(forest.root.tolist(), forest.parent.tolist(), strict=True)
    expected = [walked_height(root, parent) for root, parent in rows]
    assert heights(forest).tolist() == expected
    assert largest_height(forest) == max(expected)
    weights = forest.weight.tolist()
    total = sum(h * w for h, w in zip(expected, weights, strict=True))
    assert mean_height(forest) == Fraction(total, sum(weights))


@pytest.mark.parametrize("boxes", [3, 4, 8, 16])
def test_a100_boxes_need_no_more_than_one_hop_between_boxes_and_one_inside(boxes):
    topology = parse_topology(f"dgx_a100:{boxes}")
    _, _, forest = guessed(topology, bottleneck_cut(topology).ratio)
    assert largest_height(forest) == 2


FABRICS = ["fat_tree:4,4,2,2", "fat_tree:8,8,4,2", "fat_tree:8,8,4,4", "rail_only:4,4", "rail_spine:4,4,2"]


@pytest.mark.parametrize("text", ["dgx_h100:2", "dgx_h100:3", "dgx_h100:4", *FABRICS])
def test_two_hops_are_enough_where_single_ranks_are_the_bottleneck(text):
    topology = parse_topology(text)
    ratio = bottleneck_cut(topology).ratio
    k, network, forest = guessed(topology, ratio)
    assert largest_height(forest) == 2
    assert out_trees(forest, [k] * topology.num_ranks)
    assert congestion(topology, network, forest, k) == ratio


def test_a_thousand_ranks_on_an_oversubscribed_fat_tree_need_two_hops():
    topology = parse_topology("fat_tree:64,16,4,2")
    k, network, forest = guessed(topology, bottleneck_cut(topology).ratio)
    assert largest_height(forest) == 2
    check_forest(network, forest, k)


@pytest.mark.parametrize("boxes", [3, 4])
def test_boxes_of_one_size_are_joined_rail_by_rail(boxes):
    topology = parse_topology(f"dgx_h100:{boxes}")
    _, network, _ = guessed(topology, bottleneck_cut(topology).ratio)
    outside = network.tails // 8 != network.heads // 8
    assert (network.tails[outside] % 8 == network.heads[outside] % 8).all()
    assert outside.sum() >= 8 * boxes * (boxes - 1)


def test_routes_left_by_spread_switches_are_paths_that_visit_no_node_twice():
    found = 0
    for seed in range(100):
        topology = random_eulerian(seed)
        network = guessed(topology, worst_ratio(topology))[1]
        if network is not None:
            found += 1
            assert routes_are_paths(topology, network)
    assert found >= GUESSED


def test_a_large_complete_network_is_searched_too():
    """300 ranks are joined pairwise: each root has a star, as between the boxes of a large cluster."""
    N = 300
    tails, heads = np.nonzero(~np.eye(N, dtype=bool))
    arcs = np.arange(len(tails))
    network = LogicalNetwork(N, tails, heads, np.ones(len(tails)), np.arange(len(tails) + 1), arcs)
    forest = grow_trees(network, 1)
    check_forest(network, forest, 1)
    assert (heights(forest) == 1).all()
