"""The allreduce LP (dissertation B.7, eq. B.5): its optimum by other programs, its proofs, its trees."""

from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from models.allreduce import ALLREDUCE_LP as METHOD
from models.allreduce import AllreduceLpOptions, allreduce_optimum, optimum
from models.allreduce.certificate import halves
from models.allreduce.cuts import Half, throughput
from models.allreduce.model import allreduce_model
from models.allreduce.trees import rounded_plan
from models.allreduce.vertex import solve_exactly
from models.bounds import lower_bounds
from models.cut import bottleneck_cut
from models.solvers import GlopOptions, HighsOptions, registry, solve
from models.solvers.backend import Backend
from models.solvers.features import Feature
from schedules import Problem, Schedule, collective
from schedules.cost import congestion
from schedules.verify import verify
from tests.models.allreduce_oracles import random_network, rate_by_all_cuts, rate_by_all_trees
from tests.topologies.eulerian import random_eulerian
from topologies import InputError, Link, NoSchedule, Topology, Unsupported
from topologies.text import parse_topology

GB = 10**9
ALIKE = 1e-9
"""Relative: between a solver's doubles and exact numbers."""


def make(topology: Topology, what=None, **options) -> Schedule:
    problem = Problem(topology, what or collective("allreduce", topology.num_ranks))
    return METHOD.synthesize(problem, AllreduceLpOptions(**options), np.random.default_rng(0))


def partition_of(topology: Topology) -> Fraction:
    bounds = lower_bounds(topology, collective("allreduce", topology.num_ranks))
    return next(bound.value for bound in bounds if bound.kind == "partition")


# The program itself


@pytest.mark.parametrize("text", ["ring:5", "mesh:3x3", "dgx_a100:1", "gen_kautz:2,9"])
def test_the_program_of_flows_has_the_optimum_that_its_cuts_have(text):
    topology = parse_topology(text)
    found = solve(allreduce_model(topology)).objective
    rate = found * float(max(topology.bandwidth))
    assert rate * float(allreduce_optimum(topology).upper) == pytest.approx(1, rel=ALIKE)


@pytest.mark.parametrize("seed", range(12))
def test_the_optimum_is_that_of_a_dense_program_over_all_trees(seed):
    topology = random_network(seed)
    found = allreduce_optimum(topology)
    assert found.exact
    assert float(1 / found.upper) == pytest.approx(rate_by_all_trees(topology), rel=ALIKE)


@pytest.mark.parametrize("seed", range(25))
def test_the_optimum_is_that_of_a_dense_program_over_all_cuts_and_routes(seed):
    topology = random_eulerian(seed)  # up to 6 ranks, 3 switches
    found = allreduce_optimum(topology)
    assert found.exact
    assert float(1 / found.upper) == pytest.approx(rate_by_all_cuts(topology), rel=ALIKE)


@pytest.mark.parametrize("text", ["ring:8", "mesh:4x2", "hypercube:3", "dgx_a100:1"])
def test_eight_ranks_too(text):
    topology = parse_topology(text)
    found = allreduce_optimum(topology)
    assert float(1 / found.upper) == pytest.approx(rate_by_all_cuts(topology), rel=ALIKE)


# Numbers


@pytest.mark.parametrize(
    ("text", "ratio"),  # 1/x* of the allgather
    [
        ("dgx_a100:2", Fraction(3, 65)),  # 15 shards enter a GPU at 325 GB/s
        ("dgx_a100:4", Fraction(3, 25)),  # 24 shards enter a box at 200 GB/s
        ("mi250:2", Fraction(15, 166)),  # dissertation, Table 4.1
    ],
)
def test_the_platforms_cannot_beat_twice_the_allgather(text, ratio):
    topology = parse_topology(text)
    found = allreduce_optimum(topology)
    assert found.lower == found.upper == 2 * ratio / topology.num_ranks / GB


@pytest.mark.parametrize(
    ("side", "factor"), [(3, Fraction(2, 3)), (5, Fraction(3, 5)), (10, Fraction(11, 20))]
)
def test_meshes_gain_what_their_partition_allows(side, factor):
    topology = parse_topology(f"mesh:{side}x{side}?bandwidth=1GB/s")
    found = allreduce_optimum(topology)
    assert found.lower == found.upper == factor / GB


@pytest.mark.parametrize("seeds", [range(start, start + 25) for start in range(0, 200, 25)], ids=str)
def test_random_networks_are_never_slower_than_two_allgathers_and_never_beat_the_partition(seeds):
    for seed in seeds:
        topology = random_eulerian(seed)
        found = allreduce_optimum(topology)
        assert found.lower == found.upper <= 2 * bottleneck_cut(topology).ratio / topology.num_ranks
        assert found.lower >= partition_of(topology)


# Trees and schedules


@pytest.mark.parametrize("low", [False, True])
@pytest.mark.parametrize("text", ["mesh:3x3", "torus:4x4", "dgx_a100:2", "mi250:1", "gen_kautz:3,11"])
def test_the_schedule_attains_the_optimum(text, low):
    topology = parse_topology(text)
    schedule = make(topology, low=low)
    verify(schedule)
    assert congestion(schedule) == allreduce_optimum(topology).lower
    assert schedule.stats["solver_gap"] == 0


@pytest.mark.parametrize("seed", range(0, 100, 4))
def test_schedules_of_random_networks_attain_it_too(seed):
    topology = random_eulerian(seed)
    schedule = make(topology, low=seed % 8 == 0)
    verify(schedule)
    assert congestion(schedule) == allreduce_optimum(topology).lower


@pytest.mark.parametrize(
    ("text", "hops"),
    [
        ("mesh:6x6", 20),  # a spine and the columns on it are 10 high from any root, up and down
        ("hypercube:4", 8),  # no root is nearer to all than 4 hops, and as high trees do
        ("dgx_a100:2", 4),  # into the other box and there to all, at best: 2 hops up, 2 down
    ],
)
def test_low_trees_are_taken_where_they_are_as_good(text, hops):
    topology = parse_topology(text)
    own, low = make(topology, low=False), make(topology)
    verify(low)
    assert low.stats["height"] <= hops < own.stats["height"]
    assert congestion(low) == congestion(own) == low.claims["congestion"]


def test_trees_that_are_lower_but_slower_are_not_taken():
    """ForestColl's are 2 hops each way, but a third slower (docs/allreduce.md, "The smallest example")."""
    triangle = parse_topology(str(Path(__file__).parents[2] / "configs/networks/triangle.json"))
    assert congestion(make(triangle)) * GB == Fraction(1, 100)


@pytest.mark.parametrize(("trees", "worst"), [(1, 4), (5, Fraction(3, 2)), (100, Fraction(11, 10))])
def test_few_trees_are_close_to_the_optimum_and_never_better(trees, worst):
    topology = parse_topology("dgx_a100:1")
    schedule = make(topology, trees=trees)
    verify(schedule)
    best = allreduce_optimum(topology).lower
    assert best <= congestion(schedule) <= worst * best
    assert schedule.stats["trees"] == trees


@pytest.mark.parametrize(
    "shards", [["1/2", "0", "1/4", "1/4"], ["0", "1", "0", "0"], ["0", "0", "1/3", "2/3"]]
)
def test_shards_may_be_uneven_and_empty(shards):
    topology = parse_topology("ring:4")
    what = collective("allreduce", 4, shards=[Fraction(share) for share in shards])
    schedule = make(topology, what)
    verify(schedule)
    assert schedule.collective == what
    assert congestion(schedule) == allreduce_optimum(topology).lower


def test_roots_add_up_and_capacities_are_the_least_rounded_ones_that_carry_them():
    """Every U below, at which fewer trees fit on some arc, leaves a set without enough: by all sets."""
    for seed in range(6):
        topology = random_network(seed)
        shares = allreduce_optimum(topology).shares
        plan = rounded_plan(shares, 7)
        assert plan.roots.sum() == 7
        for half, capacity in zip(halves(shares), plan.capacity, strict=True):
            levels = {Fraction(j, int(c)) for c in half.capacity if c for j in range(1, 40)}
            fits = [u for u in sorted(levels) if _carries(half, u, plan.roots)]
            assert [int(fits[0] * int(c)) for c in half.capacity] == capacity.tolist()


def _carries(half, density, roots):
    units = np.array([int(density * int(c)) for c in half.capacity])
    return all(
        units[inside[half.tails] & ~inside[half.heads]].sum() >= roots[inside].sum()
        for inside in map(np.array, product([False, True], repeat=len(roots)))
        if not inside.all()
    )


# Exact parts


@pytest.mark.parametrize("seed", range(8))
def test_rational_systems_are_solved_exactly(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 30))
    dense = rng.integers(-1, 2, (size, size)) * (rng.random((size, size)) < 0.3) + 3 * np.eye(size, dtype=int)
    right = rng.integers(-100, 100, size).tolist()
    found = solve_exactly(csr_array(dense.astype(float)), right)
    assert found is not None
    values = [Fraction(value, found[1]) for value in found[0]]
    for row, goal in zip(dense.tolist(), right, strict=True):
        assert sum(a * value for a, value in zip(row, values, strict=True)) == goal


def test_a_singular_system_is_refused():
    assert solve_exactly(csr_array(np.ones((2, 2))), [1, 2]) is None


@pytest.mark.parametrize("seed", range(20))
def test_throughput_is_the_worst_ratio_of_all_sets(seed):
    rng = np.random.default_rng(seed)
    ranks, arcs = int(rng.integers(2, 7)), int(rng.integers(4, 16))
    ends = rng.integers(0, ranks, (2, arcs)).astype(np.int32)
    half = Half(*ends, rng.integers(0, 9, arcs), rng.integers(0, 4, ranks) + (np.arange(ranks) == 0))
    ratios = [
        Fraction(half.exit(inside), int(half.roots[inside].sum()))
        for inside in map(np.array, product([False, True], repeat=ranks))
        if half.roots[inside].sum() and not inside.all()
    ]
    assert throughput(half)[0] == min(ratios)


@pytest.mark.parametrize("text", ["mesh:3x3", "dgx_a100:2"])
@pytest.mark.parametrize(
    ("solver", "options"),
    [("glop", GlopOptions()), ("highs", HighsOptions(method="ipm", crossover=False))],
    ids=["glop", "ipm"],
)
def test_without_a_basis_an_interval_holds_the_optimum(text, solver, options):
    topology = parse_topology(text)
    found = allreduce_optimum(topology, solver=solver, options=options)
    best = allreduce_optimum(topology).lower
    assert found.lower <= best <= found.upper
    assert found.gap < 1e-5


def test_a_schedule_without_an_exact_optimum_says_how_far_it_is(monkeypatch):
    monkeypatch.setattr(optimum, "basic_solution", lambda *_: None)
    monkeypatch.setattr(optimum, "common_parts", lambda _: None)
    schedule = make(parse_topology("mesh:3x3"))
    verify(schedule)
    assert schedule.stats["trees"] == 1000
    assert 0 < schedule.stats["solver_gap"] < 1e-5
    best = Fraction(2, 3) / (50 * GB)
    assert best < congestion(schedule) <= best * Fraction(101, 100)


def test_simple_fractions_are_recognised_without_a_basis(monkeypatch):
    monkeypatch.setattr(optimum, "basic_solution", lambda *_: None)
    assert allreduce_optimum(parse_topology("mesh:3x3")).exact


def test_what_was_proven_before_a_limit_counts(monkeypatch):
    """The second program is stopped at once, and the first one's answer is an interval."""
    calls = []

    def limited(model, solver, options, start):
        calls.append(model)
        stopped = HighsOptions(iteration_limit=0, presolve=False)
        return solve(model, solver, options if len(calls) == 1 else stopped, start=start)

    monkeypatch.setattr(optimum, "solve", limited)
    found = allreduce_optimum(parse_topology("dgx_a100:4"))
    assert len(calls) == 2
    assert found.lower <= Fraction(3, 400) / GB < found.upper


# Bad input


def test_other_collectives_and_groups_are_unsupported():
    topology = parse_topology("ring:4")
    for what, words in (
        (collective("allgather", 4), "allreduce_lp does allreduce; not allgather"),
        (
            collective("allreduce", 4, groups=[[0, 1], [2, 3]]),
            "allreduce_lp needs one group of all ranks; this allreduce has 2",
        ),
    ):
        with pytest.raises(Unsupported, match=f"^{words}$"):
            METHOD.supports(Problem(topology, what), AllreduceLpOptions())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"trees": 0}, r"option trees is 0; it must be a whole number, 1 to 1000000000$"),
        ({"trees": 1.5}, r"option trees is 1.5; it must be a whole number"),
        ({"trees": True}, r"option trees is True"),
        ({"time_limit": 0}, r"option time_limit is 0; it must be a positive number of seconds$"),
        ({"time_limit": float("nan")}, r"option time_limit is nan"),
    ],
)
def test_options_out_of_range_are_refused(options, words):
    with pytest.raises(InputError, match=f"^allreduce_lp {words}"):
        AllreduceLpOptions(**options)


def test_an_unknown_solver_is_refused_before_anything_is_built():
    with pytest.raises(InputError, match=r"^unknown solver 'higs'; did you mean 'highs'\?$"):
        make(parse_topology("ring:4"), solver="higs")


def test_a_solver_that_is_not_installed_says_how_to_get_it(monkeypatch):
    features = frozenset({Feature.LP, Feature.DUALS})
    ghost = Backend("ghost", "no_such_package", "no-such", features, HighsOptions, None, "pip install ghost")
    monkeypatch.setitem(registry.BACKENDS, "ghost", ghost)
    with pytest.raises(InputError, match=r"^solver ghost is not installed; get it with: pip install ghost$"):
        make(parse_topology("ring:4"), solver="ghost")


def test_limits_too_small_for_anything_are_said_so():
    words = (
        r"^allreduce_lp on mesh:3x3: highs stopped with 'iteration limit' before anything was proven; raise"
    )
    with pytest.raises(NoSchedule, match=words):
        allreduce_optimum(parse_topology("mesh:3x3"), options=HighsOptions(iteration_limit=0, presolve=False))


def test_ranks_that_cannot_be_reached_are_named():
    with pytest.raises(
        InputError, match=r"^topology path is not strongly connected: rank 0 can't be reached from 2$"
    ):
        Topology.from_links("path", 3, [Link(0, 1), Link(1, 2), Link(1, 0)])
