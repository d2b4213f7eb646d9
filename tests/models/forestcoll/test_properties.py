"""Properties of ForestColl and of 1/x* on random Eulerian networks: what may change a network without it."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topologies.eulerian import random_eulerian, relabelled, rescaled, with_a_link_in_two, worst_ratio
from tutti.models.bounds.bottleneck_cut import bottleneck_cut
from tutti.models.forestcoll import METHOD, ForestcollOptions
from tutti.models.forestcoll.fixed_k import fixed_k_ratio
from tutti.schedules import Problem, collective
from tutti.schedules.cost import congestion
from tutti.schedules.verify import verify

networks = st.builds(random_eulerian, st.integers(0, 2**32 - 1))
factors = st.fractions(min_value=Fraction(1, 7), max_value=7, max_denominator=7)


def gather(topology, **options):
    """1/x* by the schedule: an allgather's congestion is 1/x* over N."""
    problem = Problem(topology, collective("allgather", topology.num_ranks))
    chosen = ForestcollOptions(**options)
    METHOD.supports(problem, chosen)
    schedule = METHOD.synthesize(problem, chosen, np.random.default_rng(0))
    verify(schedule)
    return congestion(schedule) * topology.num_ranks


@settings(max_examples=40)
@given(networks, st.integers(0, 10**6))
def test_permuting_labels_changes_neither_the_cut_nor_the_congestion(topology, seed):
    changed = relabelled(topology, seed)
    assert bottleneck_cut(changed).ratio == gather(changed) == worst_ratio(topology)


@settings(max_examples=40)
@given(networks, st.integers(0, 10**6))
def test_splitting_a_link_in_two_changes_neither_the_cut_nor_the_congestion(topology, seed):
    changed = with_a_link_in_two(topology, seed % topology.num_links)
    assert bottleneck_cut(changed).ratio == gather(changed) == worst_ratio(topology)


@settings(max_examples=40)
@given(networks, factors)
def test_scaling_all_bandwidths_by_c_divides_the_cut_and_the_congestion_by_c(topology, c):
    changed = rescaled(topology, c)
    assert bottleneck_cut(changed).ratio == gather(changed) == worst_ratio(topology) / c


@settings(max_examples=30)
@given(networks)
def test_the_guesses_never_cost_throughput(topology):
    assert gather(topology, fast=True) == gather(topology, fast=False) == worst_ratio(topology)


@settings(max_examples=40)
@given(networks, st.integers(1, 8))
def test_a_fixed_k_lies_between_the_optimum_and_the_bound_of_theorem_35(topology, k):
    ratio = worst_ratio(topology)
    assert ratio <= fixed_k_ratio(topology, k) <= ratio + 1 / (k * min(topology.bandwidth))


@pytest.mark.parametrize("fast", [True, False])
def test_the_schedule_meets_the_worst_of_all_cuts(fast):
    """The whole method, not only its parts: 2-6 ranks, 0-3 switches."""
    for seed in range(200):
        topology = random_eulerian(seed)
        assert gather(topology, fast=fast) == worst_ratio(topology), seed
