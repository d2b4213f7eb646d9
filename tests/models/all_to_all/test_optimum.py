"""The solved model: the optimum against pairwise LPs, closed forms and Table A.1."""

import csv
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.models.far_apart import NETWORKS as FAR_APART
from tests.models.far_apart import far_apart
from tests.models.flows import pairwise_time, random_demand, random_network, slow_bound
from tests.sweep import for_each
from tutti.models.all_to_all import Demand, Interval, lower_bound, upper_bound
from tutti.models.all_to_all.method import METHOD as MCF
from tutti.models.all_to_all.optimum import (
    best_lengths,
    bound_of,
    capped,
    mcf_bound,
    saturated_links,
    solve_by_model,
)
from tutti.models.all_to_all.orbits import solve_by_orbits
from tutti.models.solvers import Feature, known_solvers
from tutti.schedules import Problem, collective
from tutti.schedules.cost import congestion
from tutti.schedules.verify import verify
from tutti.topologies import Link, Topology, parse_topology

REFERENCE = Path(__file__).parents[2] / "data" / "reference"


NEAR = 1e-7
"""Relative: the oracles are floating-point LPs."""


B = Fraction(50 * 10**9)
"""Default bandwidth of a link."""


@for_each("seed", range(25))
def test_the_interval_holds_the_optimum_of_a_pairwise_lp(seed):
    demand = random_demand(random_network(seed), seed)
    interval = solve_by_model(demand).interval
    time = pairwise_time(demand)
    assert float(interval.lower) <= time * (1 + NEAR)
    assert float(interval.upper) >= time * (1 - NEAR)
    assert interval.gap <= Fraction(1, 10**6)


CLOSED = [
    # distances sum to n²/4 a rank, two links a rank of bandwidth b: T = n/8 M/b
    ("ring:8", Fraction(8, 8)),
    # odd: (n² - 1)/4 a rank
    ("ring:7", Fraction(7**2 - 1, 8 * 7)),
    # one way: 1 + ... + (n - 1) over n links, M/n each
    ("uniring:5", Fraction(4, 2)),
    # each pair has its own link
    ("complete:6", Fraction(1, 6)),
    # d 2^(d-1) hops a rank over d links: 2^(d-1) / 2^d
    ("hypercube:4", Fraction(1, 2)),
    # n x n, n even: 2 n n²/4 hops a rank over 4 links, M/n² each
    ("torus:4x4", Fraction(4, 8)),
    # the middle cut of a path of n: (n/2)² pairs over one link
    ("mesh:4", Fraction(4, 4)),
]


@pytest.mark.parametrize(("text", "factor"), CLOSED)
def test_closed_forms_are_met_exactly(text, factor):
    topology = parse_topology(text)
    interval = solve_by_model(Demand.uniform(topology)).interval
    assert interval.exact
    assert interval.lower == factor / B


def test_a_star_takes_what_a_rank_sends_over_its_link():
    star = Topology.from_links(
        "star",
        5,
        [link for r in range(5) for link in (Link(r, 5, B), Link(5, r, B))],
        num_switches=1,
    )
    assert solve_by_model(Demand.uniform(star)).interval == Interval(Fraction(4, 5) / B, Fraction(4, 5) / B)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("L(K_{4;4})", "L(K_{4,4})"),
        ("DistReg(4;32)", "DistReg(4,32)"),
        ("Pi_{4;64}", "gen_kautz:4,64"),
    ],
)
def test_the_optimum_is_the_mcf_of_table_a1(row, text):
    """The table's column is f of (A.1): unit demands on unit links, so f = M / (N b T)."""
    with (REFERENCE / "table_A1_pareto_d4.csv").open() as file:
        printed = {line["topology"]: line["mcf"] for line in csv.DictReader(file)}[row]
    topology = parse_topology(text)
    interval = solve_by_model(Demand.uniform(topology)).interval
    for time in (interval.lower, interval.upper):
        assert f"{float(1 / (topology.num_ranks * B * time)):.2e}" == f"{float(printed):.2e}"
    assert interval.gap <= Fraction(1, 10**6)


@pytest.mark.parametrize(
    "solver", [s.name for s in known_solvers() if s.installed and Feature.DUALS in s.features]
)
def test_every_solver_proves_the_same_optimum(solver):
    demand = random_demand(random_network(7), 7)
    exact = solve_by_model(demand).interval
    interval = solve_by_model(demand, solver).interval
    assert interval.lower <= exact.upper
    assert exact.lower <= interval.upper
    assert interval.gap <= Fraction(1, 10**4)


@pytest.mark.parametrize("algorithm", ["simplex", "ipm", "pdlp"])
def test_every_algorithm_of_highs_proves_the_same_optimum(algorithm):
    demand = Demand.uniform(parse_topology("gen_kautz:3,18"))
    exact = solve_by_model(demand).interval
    interval = solve_by_model(demand, algorithm=algorithm).interval
    assert interval.lower <= exact.lower == exact.upper <= interval.upper
    assert interval.gap <= Fraction(1, 10**4)


def test_fewer_destinations_than_sources_are_solved_backwards():
    topology = random_network(3)
    demand = Demand.of(topology, collective("gather", topology.num_ranks, root=1))
    optimum = solve_by_model(demand)
    assert optimum.backwards
    assert float(optimum.interval.upper) == pytest.approx(pairwise_time(demand), rel=NEAR, abs=0)
    assert upper_bound(optimum.paths) == optimum.interval.upper
    assert lower_bound(topology, demand, optimum.lengths) == optimum.interval.lower


def test_losing_a_link_never_makes_it_faster():
    whole = parse_topology("torus:3x3")
    times = [
        solve_by_model(Demand.uniform(parse_topology(f"torus:3x3?drop_links={drop}")))
        for drop in ("0-1", "4-5")
    ]
    best = solve_by_model(Demand.uniform(whole)).interval.upper
    assert all(optimum.interval.lower > best for optimum in times)
    assert times[0].interval == times[1].interval, "all links of a torus are alike"


def test_equal_lengths_are_a_bound_of_their_own_and_inverse_bandwidths_too():
    demand = Demand.uniform(parse_topology("mesh:3x3?bandwidth=50GB/s,25GB/s"))
    value, lengths = best_lengths(demand)
    assert value == bound_of(demand, lengths).value
    assert value >= slow_bound(demand, [1] * demand.topology.num_links)


def test_saturated_links_are_full_and_have_a_length():
    topology = parse_topology("mesh:3x4")
    optimum = solve_by_model(Demand.uniform(topology))
    links = saturated_links(topology, optimum)
    across = {(r, r + 1) for r in (1, 5, 9)} | {(r + 1, r) for r in (1, 5, 9)}
    assert {(int(topology.source[e]), int(topology.target[e])) for e in links} <= across
    times = optimum.flow.loads / topology.bandwidth.floats
    assert times[links].min() == pytest.approx(times.max(), rel=1e-4)
    assert (optimum.lengths[links] > 0).all()


@for_each("digits", [9, 12, 15])
@for_each("text", FAR_APART)
def test_an_all_to_all_is_within_its_interval_however_far_apart_bandwidths_are(text, digits):
    topology = far_apart(text, digits)
    problem = Problem(topology, collective("all-to-all", topology.num_ranks))
    schedule = MCF.synthesize(problem, MCF.options(), np.random.default_rng(0))
    verify(schedule)
    assert congestion(schedule) == schedule.stats["upper"] <= schedule.stats["lower"] * Fraction(10001, 10000)
    bound = mcf_bound(topology, problem.collective)
    assert schedule.stats["upper"] <= bound.value * Fraction(10001, 10000)


@pytest.mark.parametrize("seed", range(4))
def test_capped_demands_have_the_same_optimum(seed):
    """Uncapped, they are solved by column generation, whose interval is 0 wide here."""
    demand = Demand.uniform(far_apart("mesh:2x3", 5, seed))
    near = capped(demand)
    assert near.topology.bandwidth.numerators.max() < demand.topology.bandwidth.numerators.max()
    as_is, cut_off = solve_by_orbits(demand).interval, solve_by_model(near).interval
    assert as_is.upper == cut_off.lower == cut_off.upper == as_is.lower


def test_bandwidths_that_are_alike_are_left_as_they_are():
    demand = Demand.uniform(parse_topology("mesh:3x3?bandwidth=1GB/s,250GB/s"))
    assert capped(demand) is demand
