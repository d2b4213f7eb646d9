"""The study of the linear programs has each beside its fast way, up to where it is refused."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tutti.experiments.registry import METHODS
from tutti.experiments.runner.config import RunTable, read_config
from tutti.experiments.runner.plan import make_plan, time_limit
from tutti.schedules import Problem
from tutti.topologies import Unsupported, parse_topology
from tutti.topologies.options import build_options

CONFIG = Path(__file__).parents[2] / "configs" / "models.toml"
PROGRAMS = {("bfb", "allgather"), ("mcf", "all-to-all"), ("allreduce_lp", "allreduce")}


@pytest.fixture(scope="module")
def tasks():
    return make_plan(read_config(CONFIG), METHODS)


def test_each_program_stands_beside_its_fast_way(tasks):
    ways = {}
    for task in tasks:
        case = task.method, str(task.collective), task.topology
        ways.setdefault(case, []).append(task.options["by"])
    assert {case[:2] for case in ways} == PROGRAMS
    assert all(both[0] == "model" and len(both) == 2 for both in ways.values())


def test_both_series_begin_at_four_ranks(tasks):
    networks = list(dict.fromkeys(task.topology for task in tasks))
    first = {spec.split(":")[0]: spec for spec in reversed(networks)}
    assert [parse_topology(first[family]).num_ranks for family in ("torus", "gen_kautz")] == [4, 4]


def synthesize(method, problem, options):
    """Do as the runner does: ask whether the method handles the problem, and have a schedule made."""
    method.supports(problem, options)
    method.synthesize(problem, options, np.random.default_rng(0))


@pytest.mark.parametrize("method", sorted(name for name, _ in PROGRAMS))
def test_the_largest_network_of_a_series_is_refused(tasks, method):
    mine = [task for task in tasks if task.method == method and task.options["by"] == "model"]
    last = {task.topology.split(":")[0]: task for task in mine}
    assert set(last) == {"torus", "gen_kautz"}
    for task in last.values():
        problem = Problem(parse_topology(task.topology), task.collective, Fraction(task.sizes[0]))
        options = build_options(METHODS[method], task.options)
        with pytest.raises(Unsupported, match=r" variables, about .* its time limit is 60 s$"):
            synthesize(METHODS[method], problem, options)


def test_a_solve_and_a_synthesis_have_a_minute():
    config = read_config(CONFIG)
    assert time_limit(config) == 60.0
    assert config.table(RunTable, "run").keep_schedules == "none"
