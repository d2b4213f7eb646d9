"""Circulants of least diameter against Theorem 22 and exhaustive search."""

import itertools
import math

import networkx as nx
import numpy as np
import pytest

from tests.sweep import for_each
from tutti.topologies import InputError, circulant, diameter, ring
from tutti.topologies.families.circulants import (
    _sampled,
    circulant_diameter,
    least_circulant,
    least_diameter,
    least_offsets,
)


def diameter_by_networkx(ranks, offsets):
    network = nx.circulant_graph(ranks, offsets)
    return nx.eccentricity(network, 0) if nx.is_connected(network) else math.inf


@for_each("ranks", range(5, 41))
def test_two_offsets_have_the_least_diameter_of_all_pairs(ranks):
    pairs = itertools.combinations(range(1, (ranks + 1) // 2), 2)
    least = min(diameter_by_networkx(ranks, pair) for pair in pairs)
    assert diameter_by_networkx(ranks, least_offsets(ranks, 2)) == least


@pytest.mark.parametrize("ranks", [7, 8, 13, 14, 25, 26, 1000, 1024, 12_345])
def test_two_offsets_are_those_of_theorem_22_and_have_its_diameter(ranks):
    m = math.ceil((-1 + math.sqrt(2 * ranks - 1)) / 2)
    assert least_offsets(ranks, 2) == (m, m + 1)
    assert circulant_diameter(ranks, (m, m + 1)) == m


@pytest.mark.parametrize("ranks", [7, 9, 12, 16, 20, 21])
def test_three_offsets_have_the_least_diameter_of_all_triples(ranks):
    triples = itertools.combinations(range(1, (ranks + 1) // 2), 3)
    least = min(diameter_by_networkx(ranks, triple) for triple in triples)
    assert circulant_diameter(ranks, least_offsets(ranks, 3)) == least


@pytest.mark.parametrize(("ranks", "count", "reach"), [(55, 3, 3), (84, 3, 4), (64, 4, 3)])
def test_a_search_ends_at_the_bound_that_counts_words(ranks, count, reach):
    offsets = least_offsets(ranks, count)
    assert len(set(offsets)) == count
    assert diameter_by_networkx(ranks, offsets) == reach == least_diameter(ranks, count)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_bound_counts_the_points_near_the_origin(count):
    for reach in range(4):
        near = [
            p for p in itertools.product(range(-reach, reach + 1), repeat=count) if sum(map(abs, p)) <= reach
        ]
        assert least_diameter(len(near), count) == reach
        assert least_diameter(len(near) + 1, count) == reach + 1


@pytest.mark.parametrize(("ranks", "offsets"), [(16, (3, 4)), (17, (1, 5)), (30, (6, 10, 15)), (9, (1,))])
def test_the_diameter_is_that_of_the_network(ranks, offsets):
    assert circulant_diameter(ranks, offsets) == diameter(circulant(ranks, *offsets))


def test_a_large_search_is_the_same_each_time_and_no_worse_than_two_offsets():
    offsets = least_offsets(600, 3)
    least_offsets.cache_clear()
    assert least_offsets(600, 3) == offsets
    assert circulant_diameter(600, offsets) < circulant_diameter(600, least_offsets(600, 2))


def test_the_network_has_the_degree_asked_for():
    assert least_circulant(4, 1024) == circulant(1024, 23, 24)
    assert least_circulant(2, 9) == ring(9)
    assert least_circulant(6, 50).degree == 6


@pytest.mark.parametrize(
    ("degree", "ranks", "message"),
    [
        (3, 8, "least_circulant:3,8: degree 3; a circulant of distinct offsets has an even one"),
        (0, 8, "degree 0"),
        (4, 4, "4 ranks; degree 4 needs at least 5"),
        (4, 2**21, "too many nodes"),
    ],
)
def test_wrong_arguments_are_refused(degree, ranks, message):
    with pytest.raises(InputError, match=message):
        least_circulant(degree, ranks)


@for_each("case", [(90, 43, 6), (250, 123, 3), (17, 7, 6), (12, 3, 2), (20_011, 10_004, 2)])
def test_a_sample_is_what_numpy_draws_row_by_row(case):
    seed, among, size = case
    rng, tries = np.random.default_rng(seed), 3000
    drawn = [sorted((2 + rng.choice(among, size, replace=False)).tolist()) for _ in range(tries)]
    blocks = list(_sampled(np.random.default_rng(seed), among, size, tries))
    assert np.sort(np.concatenate(blocks), axis=1).tolist() == drawn


@pytest.mark.parametrize("ranks", [9, 63, 64, 65, 127, 128, 129, 200])
@pytest.mark.parametrize("offsets", [(1,), (1, 4), (2, 3), (1, 2, 4)])
def test_the_diameter_is_that_of_networkx(ranks, offsets):
    assert circulant_diameter(ranks, offsets) == diameter_by_networkx(ranks, offsets)
