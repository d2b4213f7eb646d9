"""Capacity between switches is removed as far as all cuts allow, and no further."""

import numpy as np
import pytest

from tests.topologies.eulerian import node_sets, random_eulerian, worst_ratio
from tutti.topologies import parse_topology
from tutti.topologies.trees.forest import tree_capacities
from tutti.topologies.trees.switch_removal_heuristic import trimmed_capacities


def hops_from_ranks(topology):
    """Return each node's hops from the nearest rank, by relaxing every link as often as there are nodes."""
    hops = [0] * topology.num_ranks + [topology.num_nodes] * topology.num_switches
    for _ in range(topology.num_nodes):
        for one, other in zip(topology.source.tolist(), topology.target.tolist(), strict=True):
            hops[other] = min(hops[other], hops[one] + 1)
    return np.array(hops)


def every_cut_suffices(topology, capacity, k):
    """Return whether every set of nodes without some rank has capacity out for the trees of its ranks."""
    sets = node_sets(topology.num_nodes)
    inside = sets[:, : topology.num_ranks]
    exits = (sets[:, topology.source] & ~sets[:, topology.target]) @ capacity
    return bool((exits >= k * inside.sum(axis=1))[~inside.all(axis=1)].all())


def trimmed(topology, k, capacity):
    return trimmed_capacities(topology, capacity, np.full(topology.num_ranks, k), hops_from_ranks(topology))


def test_all_cuts_still_suffice_and_fail_when_the_class_nearest_to_ranks_loses_one_more():
    narrowed = 0
    for seed in range(100):
        topology = random_eulerian(seed)
        k, capacity = tree_capacities(topology, worst_ratio(topology))
        result = trimmed(topology, k, capacity)
        between = (topology.source >= topology.num_ranks) & (topology.target >= topology.num_ranks)
        assert (result <= capacity).all()
        assert (result == capacity)[~between].all()
        assert every_cut_suffices(topology, result, k)
        if (result < capacity).any():
            narrowed += 1
            hops = hops_from_ranks(topology)
            near = np.minimum(hops[topology.source], hops[topology.target])
            classes = np.stack([-near, capacity], axis=1)
            last = max(classes[between].tolist())
            alike = between & (classes == last).all(axis=1) & (result > 0)
            if alike.any():
                assert not every_cut_suffices(topology, result - alike, k)
    assert narrowed >= 10


@pytest.mark.parametrize(
    ("leaves", "ports", "spines", "factor"), [(4, 4, 2, 2), (8, 8, 4, 2), (16, 16, 4, 1)]
)
def test_a_leaf_of_a_fat_tree_takes_in_each_tree_rooted_elsewhere_once(leaves, ports, spines, factor):
    topology = parse_topology(f"fat_tree:{leaves},{ports},{spines},{factor}")
    capacity = np.full(topology.num_links, leaves * ports - 1)  # one tree per root; a rank's link is full
    result = trimmed(topology, 1, capacity)
    uplinks = topology.source >= topology.num_ranks + leaves
    assert set(result[uplinks].tolist()) == {-(-(leaves - 1) * ports // spines)}


def test_a_spine_above_rails_that_meet_in_boxes_is_not_needed():
    topology = parse_topology("rail_spine:4,4,2")
    capacity = np.array([{450: 27, 50: 3, 100: 6}[int(b / 10**9)] for b in topology.bandwidth])
    result = trimmed(topology, 1, capacity)
    assert result[topology.source == topology.num_nodes - 1].tolist() == [0] * 4
