"""All-to-all flow: the optimum against pairwise LPs, closed forms and Table A.1; schedules; bad input."""

import csv
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from models.all_to_all import METHOD, Demand, Interval, lower_bound, upper_bound
from models.all_to_all.lp import flow_model
from models.all_to_all.matrices import flow_matrices
from models.all_to_all.method import McfOptions
from models.all_to_all.optimum import Solving, solve_demand
from models.bounds import lower_bounds
from models.solvers import Feature, compile_model, installed_solvers, solve
from schedules import Problem, collective
from schedules.cost import congestion
from schedules.simulate import SimulationOptions, simulate
from schedules.verify import verify
from tests.models.flows import pairwise_time, random_demand, random_network
from topologies import InputError, Link, NoSchedule, Topology, Unsupported
from topologies.text import parse_topology

REFERENCE = Path(__file__).parents[1] / "data" / "reference"
NEAR = 1e-7
"""Relative: the oracles are floating-point LPs."""
B = Fraction(50 * 10**9)
"""Default bandwidth of a link."""


def problem(text, kind="all-to-all", **given):
    topology = parse_topology(text) if isinstance(text, str) else text
    return Problem(topology, collective(kind, topology.num_ranks, **given))


def synthesize(asked, **options):
    chosen = METHOD.options(**options)
    METHOD.supports(asked, chosen)
    return METHOD.synthesize(asked, chosen, np.random.default_rng(0))


@pytest.mark.parametrize("seed", range(25))
def test_the_interval_holds_the_optimum_of_a_pairwise_lp(seed):
    demand = random_demand(random_network(seed), seed)
    interval = solve_demand(demand).interval
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
    interval = solve_demand(Demand.uniform(topology)).interval
    assert interval.exact
    assert interval.lower == factor / B


def test_a_star_takes_what_a_rank_sends_over_its_link():
    star = Topology.from_links(
        "star",
        5,
        [link for r in range(5) for link in (Link(r, 5, B), Link(5, r, B))],
        num_switches=1,
    )
    assert solve_demand(Demand.uniform(star)).interval == Interval(Fraction(4, 5) / B, Fraction(4, 5) / B)


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
    interval = solve_demand(Demand.uniform(topology)).interval
    for time in (interval.lower, interval.upper):
        assert f"{float(1 / (topology.num_ranks * B * time)):.2e}" == f"{float(printed):.2e}"
    assert interval.gap <= Fraction(1, 10**6)


@pytest.mark.parametrize("text", ["gen_kautz:4,24", "dgx_a100:1", "mesh:3x3?bandwidth=50GB/s,25GB/s"])
def test_the_papers_model_and_the_matrices_have_one_optimum(text):
    demand = Demand.uniform(parse_topology(text))
    paper, direct = solve(flow_model(demand)), solve(flow_matrices(demand).model)
    assert paper.objective == pytest.approx(direct.objective, rel=NEAR, abs=0)
    into_own_source = sum(int((demand.topology.target == s).sum()) for s in demand.sources)
    assert compile_model(flow_model(demand)).num_columns == direct.columns + into_own_source
    assert paper.rows == direct.rows


@pytest.mark.parametrize("solver", [i.name for i in installed_solvers() if Feature.DUALS in i.features])
def test_every_solver_proves_the_same_optimum(solver):
    demand = random_demand(random_network(7), 7)
    exact = solve_demand(demand).interval
    interval = solve_demand(demand, Solving(solver)).interval
    assert interval.lower <= exact.upper
    assert exact.lower <= interval.upper
    assert interval.gap <= Fraction(1, 10**4)


@pytest.mark.parametrize("algorithm", ["simplex", "ipm", "pdlp"])
def test_every_algorithm_of_highs_proves_the_same_optimum(algorithm):
    demand = Demand.uniform(parse_topology("gen_kautz:3,18"))
    exact = solve_demand(demand).interval
    interval = solve_demand(demand, Solving(algorithm=algorithm)).interval
    assert interval.lower <= exact.lower == exact.upper <= interval.upper
    assert interval.gap <= Fraction(1, 10**4)


def test_fewer_destinations_than_sources_are_solved_backwards():
    topology = random_network(3)
    demand = Demand.of(topology, collective("gather", topology.num_ranks, root=1))
    optimum = solve_demand(demand)
    assert optimum.backwards
    assert float(optimum.interval.upper) == pytest.approx(pairwise_time(demand), rel=NEAR, abs=0)
    assert upper_bound(optimum.paths) == optimum.interval.upper
    assert lower_bound(topology, demand, optimum.lengths) == optimum.interval.lower


def test_losing_a_link_never_makes_it_faster():
    whole = parse_topology("torus:3x3")
    times = [
        solve_demand(Demand.uniform(parse_topology(f"torus:3x3?drop_links={drop}")))
        for drop in ("0-1", "4-5")
    ]
    best = solve_demand(Demand.uniform(whole)).interval.upper
    assert all(optimum.interval.lower > best for optimum in times)
    assert times[0].interval == times[1].interval, "all links of a torus are alike"


ASKED = [
    problem("torus:3x3"),
    problem("dgx_a100:2"),
    problem("ndv2:1"),
    problem("dgx_a100:2?drop_nodes=3"),
    problem("mesh:2x3?bandwidth=50GB/s,25GB/s", shards=[3, 1, 0, 2, 1, 1]),
    problem("hypercube:3", groups=[[0, 1, 2], [4, 7]]),
    problem("dgx_a100:1", "scatter", root=2),
    problem("mesh:2x3", "gather", root=5),
    problem("mesh:2x3", "gather", shards=[1, 2, 3, 0, 5, 6]),
]


@pytest.mark.parametrize("asked", ASKED, ids=lambda p: f"{p.topology.name}-{p.collective}")
def test_schedules_are_legal_and_as_fast_as_is_proven(asked):
    schedule = synthesize(asked)
    verify(schedule)
    assert congestion(schedule) == schedule.claims["congestion"] == schedule.stats["upper"]
    assert schedule.stats["lower"] <= schedule.stats["upper"]
    assert schedule.stats["solver_gap"] <= 1e-6
    for bound in lower_bounds(asked.topology, asked.collective):
        assert congestion(schedule) >= bound.value
    if asked.topology.num_ranks <= 9:
        least = pairwise_time(Demand.of(asked.topology, asked.collective))
        assert float(congestion(schedule)) == pytest.approx(least, rel=NEAR, abs=0)


def test_simulated_time_is_the_congestion_once_pipelined():
    for text in ("torus:4x4", "dgx_a100:2"):
        schedule = synthesize(problem(text))
        time = simulate(schedule, Fraction(10**9), SimulationOptions(slices=16)).time
        assert 1 <= time / float(congestion(schedule) * 10**9) < 1.02


def test_same_problem_same_schedule():
    first, second = (synthesize(problem("gen_kautz:3,12")) for _ in range(2))
    assert np.array_equal(first.chunk, second.chunk)
    assert np.array_equal(first.route_table.links, second.route_table.links)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"solver": "higs"}, "mcf option solver is 'higs'.*highs"),
        ({"algorithm": "simplx"}, "mcf option algorithm is 'simplx'.*simplex"),
        ({"algorithm": "ipm", "solver": "glop"}, "algorithm is of solver highs, not of glop"),
        ({"tolerance": 0}, "tolerance is 0; it must be a number from 1e-10 to 0.1"),
        ({"tolerance": 1e-20}, "tolerance is 1e-20; it must be a number from 1e-10 to 0.1"),
        ({"tolerance": 5.0}, "tolerance is 5.0; it must be a number from 1e-10 to 0.1"),
        ({"by": "orbits", "solver": "glop"}, "'orbits', which .*; leave out solver and algorithm"),
        ({"time_limit": -1}, "time_limit is -1; it must be a positive number"),
        ({"time_limit": float("nan")}, "time_limit is nan"),
        ({"time_limit": "1"}, "time_limit is '1'"),
    ],
)
def test_bad_options_are_named(given, message):
    with pytest.raises(InputError, match=message):
        McfOptions(**given)


def test_what_it_does_not_do_is_said_before():
    with pytest.raises(Unsupported, match="does all-to-all, scatter, gather; not allgather"):
        METHOD.supports(problem("ring:4", "allgather"), McfOptions())
    with pytest.raises(Unsupported, match=r"up to 5000000 variables.*has 16777216"):
        METHOD.supports(problem("torus:64x32"), McfOptions())
    METHOD.supports(problem("torus:64x32", "scatter"), McfOptions())


def test_a_limit_too_small_for_a_solution_is_one_line():
    with pytest.raises(
        NoSchedule, match=r"highs stopped with 'time limit' before it had a solution; give it"
    ):
        synthesize(problem("gen_kautz:4,64"), time_limit=1e-3)


def test_demands_of_a_matrix_are_exact_and_the_diagonal_is_ignored():
    demand = Demand.from_matrix(parse_topology("ring:3"), [[9, 0.1, "1/3"], [0, float("nan"), 2], [1, 0, 0]])
    assert demand[0, 1] == Fraction(1, 10)
    assert demand[0, 2] == Fraction(1, 3)
    assert demand[1, 1] == 0
    assert demand.total == 3 + Fraction(13, 30)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0, 1], [1, 0]], "must be 3 x 3"),
        (
            [[0, -1, 0], [0, 0, 0], [0, 0, 0]],
            "demand of 0->1 on ring:3 is -1; it must be a number, at least 0",
        ),
        ([[0, 1, 0], [0, 0, float("nan")], [0, 0, 0]], "demand of 1->2 on ring:3 is nan"),
        ([[0, 1, 0], [0, 0, 0], [float("inf"), 0, 0]], "demand of 2->0 on ring:3 is inf"),
        ([[0, 1, 0], [0, 0, "many"], [0, 0, 0]], "demand of 1->2 on ring:3 is 'many'"),
        ([[0, 0, 0], [0, 0, 0], [0, 0, 0]], "nothing is to be sent"),
        ([[0, 2**62, 0], [2**62, 0, 0], [0, 0, 0]], "does not fit 64 bits"),
    ],
)
def test_bad_demands_are_named(matrix, message):
    with pytest.raises(InputError, match=message):
        Demand.from_matrix(parse_topology("ring:3"), matrix)


def test_bad_arrays_of_demands_are_named():
    topology = parse_topology("ring:3")
    with pytest.raises(InputError, match=r"not of shape \(2, 2\)"):
        Demand(topology, np.ones((2, 2), dtype=np.int64), 1)
    with pytest.raises(InputError, match="rank 0 has a demand on itself"):
        Demand(topology, np.ones((3, 3), dtype=np.int64), 1)
    with pytest.raises(InputError, match="denominator 0"):
        Demand(topology, 1 - np.eye(3, dtype=np.int64), 0)
    with pytest.raises(InputError, match="allgather is no flow between pairs"):
        Demand.of(topology, collective("allgather", 3))
    with pytest.raises(InputError, match="over 4 ranks on ring:3"):
        Demand.of(topology, collective("all-to-all", 4))
