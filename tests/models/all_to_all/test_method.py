"""The method mcf: legal schedules as fast as is proven, by the model and by orbits; bad input."""

import csv
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.models.flows import pairwise_time
from tutti.models.all_to_all import METHOD, Demand
from tutti.models.all_to_all.method import McfOptions
from tutti.models.bounds import lower_bounds
from tutti.schedules import Problem, collective
from tutti.schedules.cost import congestion
from tutti.schedules.simulation.simulate import SimulationOptions, simulate
from tutti.schedules.verify import verify
from tutti.topologies import InputError, NoSchedule, Unsupported, parse_topology

NEAR = 1e-7
"""Relative: the oracles are floating-point LPs."""


def problem(text, kind="all-to-all", **given):
    topology = parse_topology(text) if isinstance(text, str) else text
    return Problem(topology, collective(kind, topology.num_ranks, **given))


def synthesize(asked, **options):
    chosen = METHOD.options(**options)
    METHOD.supports(asked, chosen)
    return METHOD.synthesize(asked, chosen, np.random.default_rng(0))


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


REFERENCE = Path(__file__).parents[2] / "data" / "reference" / "instances.csv"


def small_networks(most_variables=5_200):
    """The reference networks, without those that the model takes long for."""
    with REFERENCE.open() as file:
        for text in sorted(
            {row["topology"] for row in csv.DictReader(file) if row["set"] in ("tiny", "all")}
        ):
            topology = parse_topology(text)
            if topology.num_ranks * topology.num_links < most_variables:
                yield topology


def test_the_model_and_the_orbits_agree():
    """Equal fractions where both are exact, else intervals that overlap; schedules that take their ends."""
    exact = 0
    for topology in small_networks():
        made = [synthesize(problem(topology), by=by) for by in ("model", "orbits")]
        (low, high), (other_low, other_high) = [(s.stats["lower"], s.stats["upper"]) for s in made]
        assert low <= other_high, topology.name
        assert other_low <= high, topology.name
        for schedule in made:
            verify(schedule)
            assert congestion(schedule) == schedule.stats["upper"], topology.name
            assert schedule.stats["solver_gap"] <= 1e-4, topology.name
        if low == high and other_low == other_high:
            exact += 1
            assert low == other_low, topology.name
    assert exact >= 30


@pytest.mark.parametrize("by", ["auto", "model", "orbits"])
@pytest.mark.parametrize(
    ("text", "kind", "given"),
    [
        ("complete:2", "scatter", {"shards": [1, 0]}),
        ("mesh:2x2", "gather", {"root": 2, "shards": [0, 0, 1, 0]}),
        ("dgx_a100:1", "scatter", {"shards": [3, 0], "groups": [[1, 5], [2, 7]]}),
    ],
)
def test_where_all_is_at_its_end_already_nothing_is_sent(text, kind, given, by):
    schedule = synthesize(problem(text, kind, **given), by=by)
    verify(schedule)
    assert not schedule.load.any()
    assert congestion(schedule) == schedule.claims["congestion"] == 0


def test_small_networks_are_solved_by_the_model_and_say_so():
    small = synthesize(problem("torus:3x3")).stats
    assert small["program"] == "linear program (A.1)"
    assert small["solver"].startswith("highs ")
    assert small["variables"] == 9 * 36 + 1
    assert small["constraints"] == 36 + 9 * 8
    assert small["build_s"] > 0
    assert small["solve_s"] > 0
    assert "program" not in synthesize(problem("hypercube:6")).stats, "64 sources, 384 links: above 20,000"
    assert "program" not in synthesize(problem("torus:3x3"), by="orbits").stats


def test_lp_says_the_same_as_model():
    first, second = (synthesize(problem("gen_kautz:3,12"), by=by) for by in ("lp", "model"))
    assert first.stats["variables"] == second.stats["variables"]
    assert np.array_equal(first.route_table.links, second.route_table.links)


def test_a_model_too_large_for_its_time_limit_is_refused_before_it_is_built():
    asked = problem("torus:16x16")  # 256 sources and 1,024 links
    with pytest.raises(Unsupported, match=r"mcf by=model on torus:16x16 has 262,144 variables, about 13 s"):
        METHOD.supports(asked, McfOptions(by="model", time_limit=10))
    METHOD.supports(asked, McfOptions(by="model", time_limit=60))
    METHOD.supports(asked, McfOptions(by="model"))
    METHOD.supports(asked, McfOptions(by="orbits", time_limit=10))


def test_a_switch_does_not_multiply_the_paths_by_orbits():
    """All GPUs of a box are equivalent, by many permutations: one image of a path is enough."""
    schedule = synthesize(problem("dgx_a100:2"), by="orbits")
    assert len(schedule) == 16 * 15


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
        ({"by": "orbit"}, "mcf option by is 'orbit'; did you mean 'orbits'"),
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


@pytest.mark.parametrize("text", ["torus:4x4", "torus:6x6", "hypercube:4", "circulant:16,3,4"])
def test_a_symmetric_network_needs_one_path_a_pair(text):
    """Hops are integers and all links equivalent, so that whole paths may suffice; here they do."""
    problem = Problem(parse_topology(text), collective("all-to-all", parse_topology(text).num_ranks))
    schedule = METHOD.synthesize(problem, McfOptions(by="orbits"), np.random.default_rng(0))
    verify(schedule)
    assert schedule.stats["lower"] == schedule.stats["upper"] == congestion(schedule)
    ranks = problem.topology.num_ranks
    assert len(schedule) == ranks * (ranks - 1)
