"""Capacities in trees: U and k against a search over all k, platforms, weights and limits."""

from fractions import Fraction

import numpy as np
import pytest

from tests.topologies.eulerian import flows_by_networkx, platform, random_eulerian, rescaled, worst_ratio
from tutti.topologies import InputError, Link, NoSchedule, Topology
from tutti.topologies.trees.forest import MOST_TREES, sustains, tree_capacities, trees_by_root


def smallest_k(topology, ratio):
    """Try k = 1, 2, ... until U = k / x* makes every U·b whole."""
    k = 1
    while any((k * ratio * b).denominator > 1 for b in topology.bandwidth):
        k += 1
    return k


def test_k_is_the_smallest_that_makes_all_capacities_whole():
    for seed in range(60):
        topology = random_eulerian(seed)
        ratio = worst_ratio(topology)
        k, capacity = tree_capacities(topology, ratio)
        assert k == smallest_k(topology, ratio)
        assert capacity.tolist() == [k * ratio * b for b in topology.bandwidth]


def test_k_of_weights_is_the_smallest_that_makes_all_capacities_whole():
    for seed in range(60):
        topology = random_eulerian(seed)
        rng = np.random.default_rng(seed)
        weights = [1, *rng.integers(0, 4, topology.num_ranks - 1).tolist()]
        ratio = worst_ratio(topology, weights)
        k, capacity = tree_capacities(topology, ratio, weights)
        assert k == smallest_k(topology, ratio)
        assert capacity.tolist() == [k * ratio * b for b in topology.bandwidth]


TREES = {
    "dgx_a100:1": (1, {7}),
    "dgx_a100:2": (13, {15, 180}),
    "mi250:1": (3, {7}),
    "mi250:2": (83, {120, 375}),
}


@pytest.mark.parametrize(("text", "expected"), TREES.items())
def test_trees_of_the_papers_platforms(text, expected):
    """Table 4.1: k = 83 for 2-box MI250; the others by the proposition of B.5.1, by hand."""
    topology, ratio = platform(text)
    k, capacity = tree_capacities(topology, ratio)
    assert (k, set(capacity.tolist())) == expected


def test_figure_b_1_has_one_tree_a_root():
    """B.5.1: with 1/x* = 1/b, U = 1/b and k = 1."""
    links = [Link(a, b, Fraction(9)) for a, b in ((0, 1), (1, 0))]
    k, capacity = tree_capacities(Topology.from_links("two", 2, links), Fraction(1, 9))
    assert (k, capacity.tolist()) == (1, [1, 1])


def test_scaling_all_bandwidths_changes_neither_k_nor_capacities():
    for seed in range(20):
        topology = random_eulerian(seed)
        ratio, factor = worst_ratio(topology), Fraction(25 * 10**9, 7)
        k, capacity = tree_capacities(topology, ratio)
        other_k, other = tree_capacities(rescaled(topology, factor), ratio / factor)
        assert (k, capacity.tolist()) == (other_k, other.tolist())


def test_weights_count_up_to_a_common_factor():
    topology = random_eulerian(3)
    weights = [Fraction(rank + 1, 6) for rank in range(topology.num_ranks)]
    whole = [rank + 1 for rank in range(topology.num_ranks)]
    ratio = worst_ratio(topology, whole)
    k, capacity = tree_capacities(topology, ratio, whole)
    other_k, other = tree_capacities(topology, ratio / 6, weights)
    assert (k, capacity.tolist()) == (other_k, other.tolist())
    assert trees_by_root(topology.num_ranks, k, weights).tolist() == [k * w for w in whole]


def test_the_condition_of_theorem_25_is_that_of_networkx():
    seen = set()
    for seed in range(60):
        topology = random_eulerian(seed)
        rng = np.random.default_rng(seed)
        units = rng.integers(0, 9, topology.num_links)
        trees = rng.integers(0, 3, topology.num_ranks)
        arcs = list(zip(topology.source.tolist(), topology.target.tolist(), units.tolist(), strict=True))
        flows = flows_by_networkx(topology.num_nodes, topology.num_ranks, arcs, trees)
        holds = min(flows) >= trees.sum()
        assert sustains(topology.num_nodes, topology.source, topology.target, units, trees) == holds
        seen.add(bool(holds))
    assert seen == {True, False}


def uneven(bandwidth):
    links = [Link(a, b, w) for x, y, w in ((0, 1, 1), (1, 2, bandwidth)) for a, b in ((x, y), (y, x))]
    links = [Link(link.source, link.target, Fraction(link.bandwidth)) for link in links]
    return Topology.from_links("uneven", 3, links)


def test_too_many_trees_are_refused_with_what_to_do():
    prime = Fraction(MOST_TREES + 3, MOST_TREES)
    with pytest.raises(
        NoSchedule,
        match=r"^trees of uneven: the optimum needs \d+ trees at a root, at most 1000000 "
        r"are allowed; fix the number of trees \(--option trees=4\) or give bandwidths a larger common "
        r"divisor$",
    ):
        tree_capacities(uneven(prime), worst_ratio(uneven(Fraction(2))) * Fraction(999_983, 999_979))


def test_capacities_beyond_64_bits_are_refused_with_what_to_do():
    with pytest.raises(
        NoSchedule,
        match=r"^trees of uneven: .* does not fit 64 bits \(at most \d+\); fix the number of trees "
        r"\(--option trees=4\)$",
    ):
        tree_capacities(uneven(Fraction(2**61)), Fraction(2))


def test_weights_that_need_too_many_trees_by_themselves_get_another_remedy():
    weights = [1, 1, 1_000_003]
    with pytest.raises(NoSchedule, match=r"^trees of uneven: .*; give shards a larger common divisor$"):
        tree_capacities(uneven(Fraction(1)), worst_ratio(uneven(Fraction(1)), weights), weights)


def test_a_ratio_that_is_not_positive_is_refused():
    with pytest.raises(InputError, match=r"^trees of uneven: the ratio 1/x\* is 0; it must be positive$"):
        tree_capacities(uneven(Fraction(1)), Fraction(0))


@pytest.mark.parametrize("k", [0, -3])
def test_less_than_one_tree_is_refused(k):
    with pytest.raises(InputError, match=f"^trees: {k} trees a root; at least 1$"):
        trees_by_root(4, k)


@pytest.mark.parametrize("weights", [[1, 2], [1, 1, -1], [0, 0, 0]])
def test_wrong_weights_are_refused(weights):
    with pytest.raises(InputError, match="give 3 weights, one a rank, none negative and not all zero"):
        trees_by_root(3, 1, weights)
