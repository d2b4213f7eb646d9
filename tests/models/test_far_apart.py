"""Bandwidths that differ by up to 10^15: the linear programs of allreduce and all-to-all stay accurate."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from models.all_to_all.bound import mcf_bound
from models.all_to_all.demand import Demand
from models.all_to_all.method import METHOD as MCF
from models.all_to_all.optimum import capped, solve_by_model
from models.all_to_all.orbits import solve_by_orbits
from models.allreduce import ALLREDUCE_LP, allreduce_optimum
from models.allreduce.cuts import least_cut, whole_bandwidths
from schedules import Problem, collective
from schedules.cost import congestion
from schedules.verify import verify
from tests.models.allreduce.oracles import random_network
from tests.sweep import for_each
from topologies import Topology, parse_topology
from topologies.exact import Rationals


def far_apart(text: str, digits: int, seed: int = 0) -> Topology:
    """The network with bandwidths from 1 B/s to 10^digits, each a power of ten."""
    topology = parse_topology(text)
    powers = np.random.default_rng(seed).integers(0, digits + 1, topology.num_links)
    powers[:2] = 0, digits
    return replace(topology, bandwidth=Rationals.of([Fraction(10 ** int(power)) for power in powers]))


NETWORKS = ["mesh:3x3", "gen_kautz:2,8", "ring:5", "dgx_a100:1?ranks=4"]


@for_each("digits", [9, 12, 15])
@for_each("text", NETWORKS)
def test_an_allreduce_is_optimal_however_far_apart_bandwidths_are(text, digits):
    """Its optimum is proven by cuts and lengths on the network as it is, in integers."""
    topology = far_apart(text, digits)
    assert allreduce_optimum(topology).exact


@for_each("digits", [9, 12, 15])
@for_each("text", NETWORKS)
def test_an_all_to_all_is_within_its_interval_however_far_apart_bandwidths_are(text, digits):
    topology = far_apart(text, digits)
    problem = Problem(topology, collective("all-to-all", topology.num_ranks))
    schedule = MCF.synthesize(problem, MCF.options(), np.random.default_rng(0))
    verify(schedule)
    assert congestion(schedule) == schedule.stats["upper"] <= schedule.stats["lower"] * Fraction(10001, 10000)
    bound = mcf_bound(topology, problem.collective)
    assert schedule.stats["upper"] <= bound.value * Fraction(10001, 10000)


def test_schedules_over_links_far_apart_are_legal_and_as_fast_as_is_proven():
    topology = far_apart("mesh:2x3", 12)
    problem = Problem(topology, collective("allreduce", 6))
    schedule = ALLREDUCE_LP.synthesize(problem, ALLREDUCE_LP.options(), np.random.default_rng(0))
    verify(schedule)
    assert congestion(schedule) == allreduce_optimum(topology).lower


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


@pytest.mark.parametrize("seed", range(4))
def test_capped_demands_have_the_same_optimum(seed):
    """As they are, they are solved by column generation, whose interval is 0 wide here."""
    demand = Demand.uniform(far_apart("mesh:2x3", 5, seed))
    near = capped(demand)
    assert near.topology.bandwidth.numerators.max() < demand.topology.bandwidth.numerators.max()
    as_is, cut_off = solve_by_orbits(demand).interval, solve_by_model(near).interval
    assert as_is.upper == cut_off.lower == cut_off.upper == as_is.lower


def test_bandwidths_that_are_alike_are_left_as_they_are():
    topology = parse_topology("mesh:3x3?bandwidth=1GB/s,250GB/s")
    demand = Demand.uniform(topology)
    assert capped(demand) is demand
    assert whole_bandwidths(topology).tolist() == [int(b) // 10**9 for b in topology.bandwidth]


def test_the_least_cut_is_that_by_hand():
    """A corner of a mesh with links of 3 along the first and 5 along the second dimension has 3 + 5 out."""
    topology = parse_topology("mesh:3x3?bandwidth=3B/s,5B/s")
    assert least_cut(topology, topology.bandwidth.numerators) == 8
