"""The cuts of (B.5): the throughput of a half by its worst set."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tests.models.allreduce.oracles import random_network
from tests.models.far_apart import NETWORKS as FAR_APART
from tests.models.far_apart import far_apart
from tests.sweep import for_each
from tutti.models.allreduce import allreduce_optimum
from tutti.models.allreduce.cuts import Half, least_cut, throughput, whole_bandwidths
from tutti.topologies import parse_topology
from tutti.topologies.exact import Rationals


def test_throughput_is_the_worst_ratio_of_all_sets():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        ranks, arcs = int(rng.integers(2, 7)), int(rng.integers(4, 16))
        ends = rng.integers(0, ranks, (2, arcs)).astype(np.int32)
        half = Half(*ends, rng.integers(0, 9, arcs), rng.integers(0, 4, ranks) + (np.arange(ranks) == 0))
        ratios = [
            Fraction(half.exit(inside), int(half.roots[inside].sum()))
            for inside in map(np.array, product([False, True], repeat=ranks))
            if half.roots[inside].sum() and not inside.all()
        ]
        assert throughput(half)[0] == min(ratios), seed


@for_each("digits", [9, 12, 15])
@for_each("text", FAR_APART)
def test_an_allreduce_is_optimal_however_far_apart_bandwidths_are(text, digits):
    """Its optimum is proven by cuts and lengths on the network as it is, in integers."""
    topology = far_apart(text, digits)
    assert allreduce_optimum(topology).exact


@pytest.mark.parametrize("seed", range(6))
def test_bandwidth_beyond_use_does_not_change_an_allreduce(seed):
    """One link is made 10^6 times wider, then 10^9 times: what is more than of use changes nothing."""
    topology = random_network(seed)
    wider = []
    for factor in (10**6, 10**9):
        numerators = topology.bandwidth.numerators.copy()
        numerators[seed % topology.num_links] *= factor
        wider.append(replace(topology, bandwidth=Rationals(numerators, topology.bandwidth.denominator)))
    assert whole_bandwidths(wider[1]).max() < wider[1].bandwidth.numerators.max()
    assert allreduce_optimum(wider[0]).upper == allreduce_optimum(wider[1]).lower


def test_the_least_cut_is_that_by_hand():
    """A corner of a mesh with links of 3 along the first and 5 along the second dimension has 3 + 5 out."""
    topology = parse_topology("mesh:3x3?bandwidth=3B/s,5B/s")
    assert least_cut(topology, topology.bandwidth.numerators) == 8


def test_bandwidths_that_are_alike_are_left_as_they_are():
    topology = parse_topology("mesh:3x3?bandwidth=1GB/s,250GB/s")
    assert whole_bandwidths(topology).tolist() == [int(b) // 10**9 for b in topology.bandwidth]
