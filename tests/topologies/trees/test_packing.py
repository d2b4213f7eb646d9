"""Tree packing: every forest is exact, on random Eulerian networks whose 1/x* comes from all cuts."""

from fractions import Fraction

import numpy as np
import pytest

from tests.topologies.eulerian import (
    PLATFORMS,
    congestion,
    node_sets,
    out_trees,
    platform,
    random_eulerian,
    relabelled,
    rescaled,
    with_a_link_in_two,
    worst_ratio,
)
from tests.topologies.trees.forests import check_forest
from tutti.models.bounds.bottleneck_cut import bottleneck_cut
from tutti.topologies import InputError
from tutti.topologies.trees.forest import LogicalNetwork, tree_capacities, trees_by_root
from tutti.topologies.trees.packing import pack_counts, pack_trees
from tutti.topologies.trees.switch_removal import remove_switches


def packed(topology, ratio, weights=None):
    k, capacity = tree_capacities(topology, ratio, weights)
    network = remove_switches(topology, capacity, k, weights)
    return k, network, pack_trees(network, k, weights)


@pytest.mark.parametrize("hundred", range(6))
def test_the_forest_meets_the_worst_of_all_cuts_exactly(hundred):
    """This tests 600 random networks of 2-6 ranks and 0-3 switches."""
    for seed in range(100 * hundred, 100 * hundred + 100):
        topology = random_eulerian(seed)
        ratio = worst_ratio(topology)
        k, network, forest = packed(topology, ratio)
        assert out_trees(forest, [k] * topology.num_ranks)
        assert congestion(topology, network, forest, k) == ratio


def test_uneven_shards_meet_the_worst_of_all_cuts_exactly():
    """Weights are 0 to 3, not all zero; rank r roots k times its weight over their common divisor."""
    for seed in range(1000, 1120):
        topology = random_eulerian(seed)
        weights = np.random.default_rng(seed).integers(0, 4, topology.num_ranks)
        weights[0] += not weights.any()
        ratio = worst_ratio(topology, weights)
        k, network, forest = packed(topology, ratio, weights.tolist())
        unit = int(np.gcd.reduce(weights))
        assert out_trees(forest, (k * weights // unit).tolist())
        assert congestion(topology, network, forest, k) * unit == ratio


@pytest.mark.parametrize("text", PLATFORMS)
def test_platforms_meet_the_optimum_exactly(text):
    topology, ratio = platform(text)
    k, network, forest = packed(topology, ratio)
    assert out_trees(forest, [k] * topology.num_ranks)
    assert congestion(topology, network, forest, k) == ratio == bottleneck_cut(topology).ratio


CHANGES = {
    "permuted labels": (relabelled, 1),
    "a link in two": (lambda topology, seed: with_a_link_in_two(topology, seed % topology.num_links), 1),
    "scaled bandwidths": (lambda topology, seed: rescaled(topology, Fraction(1, 3)), 3),
}


@pytest.mark.parametrize(("change", "factor"), CHANGES.values(), ids=CHANGES.keys())
def test_the_congestion_depends_on_the_network_alone(change, factor):
    for seed in range(2000, 2050):
        topology = random_eulerian(seed)
        changed = change(topology, seed)
        ratio = worst_ratio(topology) * factor
        k, network, forest = packed(changed, bottleneck_cut(changed).ratio)
        assert congestion(changed, network, forest, k) == ratio


def test_trees_pack_in_any_directed_network_that_lets_enough_out():
    """Edmonds: trees exist exactly if each set of ranks has as much capacity out as trees start in it."""
    seen = set()
    for seed in range(200):
        rng = np.random.default_rng(seed)
        ranks = int(rng.integers(2, 6))
        ends = [(a, b) for a in range(ranks) for b in range(ranks) if a != b and rng.random() < 0.7]
        tails, heads = np.array(ends, dtype=np.int64).reshape(-1, 2).T
        units = rng.integers(1, 6, len(ends))
        trees = rng.integers(0, 3, ranks)
        sets = node_sets(ranks)[:-1]
        exists = ((sets[:, tails] & ~sets[:, heads]) @ units >= sets @ trees).all()
        network = LogicalNetwork(ranks, tails, heads, units, np.arange(len(ends) + 1), np.arange(len(ends)))
        seen.add(bool(exists))
        if exists:
            forest = pack_counts(network, trees)
            assert out_trees(forest, trees.tolist())
            check_forest(network, forest, trees)
        else:
            with pytest.raises(InputError, match="spanning trees do not fit the capacities"):
                pack_counts(network, trees)
    assert seen == {True, False}


def test_capacities_of_parallel_arcs_add_up():
    network = LogicalNetwork(2, [0, 0, 1, 1, 1], [1, 1, 0, 0, 0], [2, 1, 1, 1, 1], range(6), range(5))
    forest = pack_trees(network, 3)
    assert (forest.root.tolist(), forest.weight.tolist()) == ([0, 1], [3, 3])


def test_trees_are_low_where_there_is_room():
    """Every rank of a complete network sends to every other directly."""
    ends = [(a, b) for a in range(6) for b in range(6) if a != b]
    network = LogicalNetwork(6, *zip(*ends, strict=True), [1] * 30, range(31), range(30))
    forest = pack_trees(network, 1)
    assert all(
        (parent[parent >= 0] == root).all() for root, parent in zip(forest.root, forest.parent, strict=True)
    )


def test_packed_trees_span_as_many_as_asked_within_the_capacities():
    for seed in range(3000, 3030):
        topology = random_eulerian(seed)
        k, network, forest = packed(topology, worst_ratio(topology))
        check_forest(network, forest, trees_by_root(topology.num_ranks, k))
