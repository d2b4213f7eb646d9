"""The method `allreduce_lp`: its schedules attain the optimum; its options and what it refuses."""

from fractions import Fraction

import numpy as np
import pytest

from tests.models.far_apart import far_apart
from tests.sweep import for_each
from tests.topologies.eulerian import random_eulerian
from tutti.experiments.registry import METHODS
from tutti.models.allreduce import ALLREDUCE_LP as METHOD
from tutti.models.allreduce import AllreduceLpOptions, allreduce_optimum, certificate, optimum
from tutti.models.bounds import best_bound
from tutti.models.solvers import HighsOptions, registry
from tutti.models.solvers.backend import Backend
from tutti.models.solvers.options import Feature
from tutti.schedules import Problem, Schedule, collective
from tutti.schedules.cost import congestion
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import InputError, Unsupported
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Link, Topology

GB = 10**9


def make(topology: Topology, what=None, size=None, **options) -> Schedule:
    problem = Problem(topology, what or collective("allreduce", topology.num_ranks), size and Fraction(size))
    return METHOD.synthesize(problem, AllreduceLpOptions(**options), np.random.default_rng(0))


@for_each("low", [False, True])
@for_each("text", ["mesh:3x3", "torus:4x4", "dgx_a100:2", "mi250:1", "gen_kautz:3,11"])
def test_the_schedule_attains_the_optimum(text, low):
    topology = parse_topology(text)
    schedule = make(topology, shallow_trees=low)
    verify(schedule)
    assert congestion(schedule) == allreduce_optimum(topology).lower
    assert schedule.stats["solver_gap"] == 0


def test_schedules_of_random_networks_attain_it_too():
    for seed in range(0, 100, 4):
        topology = random_eulerian(seed)
        schedule = make(topology, shallow_trees=seed % 8 == 0, by=("auto", "model", "cuts")[seed // 4 % 3])
        verify(schedule)
        assert congestion(schedule) == allreduce_optimum(topology).lower, seed


@pytest.mark.parametrize("size", [None, 10**3, 10**6])
@pytest.mark.parametrize("text", ["mesh:3x5", "dgx1", "switch2d:2x2"])
def test_by_default_no_schedule_is_slower_than_by_the_cuts(text, size):
    topology = parse_topology(text)
    seconds = {}
    for by in ("auto", "cuts"):
        schedule = make(topology, size=size, by=by)
        seconds[by] = congestion(schedule) if size is None else simulate(schedule, size).time
    assert seconds["auto"] <= seconds["cuts"]


@pytest.mark.parametrize(("by", "program"), [("model", "(B.5)"), ("cuts", "(B.5), by its cuts")])
def test_the_schedule_says_what_was_solved(by, program):
    stats = make(parse_topology("ring:4"), by=by).stats
    assert stats["program"] == f"linear program {program}"
    assert stats["solver"].startswith("highs ")
    assert stats["variables"] > 0 < stats["constraints"]
    assert stats["build_s"] > 0 < stats["solve_s"]


def test_a_model_too_large_for_its_time_limit_is_refused():
    words = r"^allreduce_lp on torus:8x8: linear program \(B.5\) has 41,\d+ variables, .* time limit is 1 s$"
    with pytest.raises(Unsupported, match=words):
        make(parse_topology("torus:8x8"), by="model", time_limit=1)


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


def test_a_schedule_without_an_exact_optimum_says_how_far_it_is(monkeypatch):
    monkeypatch.setattr(optimum, "basic_solution", lambda *_: None)
    monkeypatch.setattr(certificate, "common_parts", lambda _: None)
    schedule = make(parse_topology("mesh:3x3"), by="cuts")
    verify(schedule)
    assert schedule.stats["trees"] == 1000
    assert 0 < schedule.stats["solver_gap"] < 1e-5
    best = Fraction(2, 3) / (50 * GB)
    assert best < congestion(schedule) <= best * Fraction(101, 100)


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
        ({"by": "lp"}, r"option by is 'lp'; it must be one of auto, model, cuts$"),
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


def test_schedules_over_links_far_apart_are_legal_and_as_fast_as_is_proven():
    topology = far_apart("mesh:2x3", 12)
    problem = Problem(topology, collective("allreduce", 6))
    schedule = METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))
    verify(schedule)
    assert congestion(schedule) == allreduce_optimum(topology).lower


def two_speeds(*speeds):
    """Return a ring of four, links in both directions, of these bandwidths in turn."""
    ends = [(0, 1), (1, 2), (2, 3), (3, 0)]
    rates = [Fraction(speeds[i % len(speeds)]) for i in range(4)]
    links = [Link(a, b, rate, Fraction(0)) for (a, b), rate in zip(ends, rates, strict=True)]
    links += [Link(b, a, rate, Fraction(0)) for (a, b), rate in zip(ends, rates, strict=True)]
    return Topology.from_links("ring of two speeds", 4, links)


CASES = [
    (parse_topology("mesh:2x3?alpha=0us,1000s"), 1),
    (parse_topology("mesh:2x3?alpha=0us,1000000s"), 1000),
    (parse_topology("mesh:2x3?alpha=0.001us,1000s"), 1),
    (two_speeds(1, 10**12), 1),
    (two_speeds(1, 10**12), 10**9),
    (two_speeds(10**3, 10**15), 10**6),
]


@pytest.mark.parametrize("name", ["allreduce_trees", "allreduce_lp"])
@for_each(("topology", "size"), CASES)
def test_what_one_clock_can_not_count_is_a_flow_or_right(name, topology, size):
    method, what = METHODS[name], collective("allreduce", topology.num_ranks)
    made = method.synthesize(
        Problem(topology, what, Fraction(size)), method.options(), np.random.default_rng(0)
    )
    verify(made)
    bound = best_bound(topology, what, Fraction(size))
    assert simulate(made, Fraction(size)).time >= float(bound.time(Fraction(size))) * (1 - 1e-9)
