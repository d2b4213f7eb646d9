"""GLOP, SCIP and CP-SAT: their statuses, and incumbents and bounds over time, read from their logs."""

import itertools
from types import SimpleNamespace

import numpy as np
import pyomo.environ as pyo
import pytest

from tests.sweep import for_each
from tutti.models.solvers import (
    CpsatOptions,
    GlopOptions,
    HighsOptions,
    Progress,
    ScipOptions,
    Termination,
    ortools,
    solve,
)
from tutti.models.solvers.ortools import Stopped, cpsat_trace, scip_trace

THINGS, WEIGHTS = 16, 4


RNG = np.random.default_rng(5)


SIZES = RNG.integers(20, 60, (WEIGHTS, THINGS))


VALUES = SIZES.sum(axis=0) + RNG.integers(-9, 10, THINGS)


ROOM = SIZES.sum(axis=1) // 2


OFFSET = 3


OPTIONS = {"highs": HighsOptions, "scip": ScipOptions, "cp-sat": CpsatOptions}


def most():
    """The optimum by trying every subset."""
    subsets = np.arange(2**THINGS)[:, None] >> np.arange(THINGS) & 1
    return int((subsets @ VALUES)[(subsets @ SIZES.T <= ROOM).all(axis=1)].max())


@for_each("sense", [pyo.maximize, pyo.minimize])
@pytest.mark.parametrize("solver", OPTIONS)
@for_each("own_process", [False, True])
def test_a_trace_of_a_knapsack_closes_in_on_the_optimum_from_both_sides(solver, sense, own_process):
    points = []
    options = OPTIONS[solver](own_process=own_process, time_limit=20)
    result = solve(weighted_knapsack(sense), solver, options, trace=points.append)
    sign = 1 if sense == pyo.maximize else -1
    optimum = sign * most() + OFFSET
    assert result.objective == pytest.approx(optimum)
    incumbents = [point.incumbent for point in points if point.incumbent is not None]
    bounds = [point.bound for point in points if point.bound is not None]
    assert incumbents[-1] == pytest.approx(optimum)
    assert all(sign * value <= sign * optimum + 1e-6 for value in incumbents)
    assert all(sign * value >= sign * optimum - 1e-6 for value in bounds)
    assert all(0 <= a.seconds <= b.seconds + 0.1 for a, b in itertools.pairwise(points))


def test_a_trace_leaves_the_log_that_was_asked_for(tmp_path):
    log, points = tmp_path / "scip.log", []
    log.write_text("  0.1s|     1 | dualbound | primalbound |\n  0.2s|     1 | 99 | 98 |\n")
    solve(weighted_knapsack(pyo.maximize), "scip", ScipOptions(log=log), trace=points.append)
    assert "SCIP Status" in log.read_text()
    assert all(point.bound != 99 for point in points)


def test_a_solve_that_is_not_traced_has_processor_seconds_too():
    assert solve(weighted_knapsack(pyo.maximize), "scip").cpu_s >= 0
    assert solve(weighted_knapsack(pyo.maximize), "scip", ScipOptions(own_process=True)).cpu_s >= 0


@pytest.mark.parametrize(
    ("native", "limits", "why"),
    [
        ("NOT_SOLVED", {"time_limit": 10.0}, Termination.TIME_LIMIT),  # CP-SAT gives up a second early
        ("FEASIBLE", {"time_limit": 10.0}, Termination.TIME_LIMIT),
        ("NOT_SOLVED", {"time_limit": 10.0, "iteration_limit": 5}, Termination.ITERATION_LIMIT),
        ("NOT_SOLVED", {}, Termination.UNKNOWN),
        ("OPTIMAL", {"time_limit": 10.0}, Termination.OPTIMAL),
    ],
)
def test_who_stops_a_little_before_the_only_limit_has_reached_it(native, limits, why):
    solver = SimpleNamespace(status=lambda: SimpleNamespace(name=native))
    assert Stopped(solver, 8.8).termination(CpsatOptions(**limits)) is why


def test_the_lines_of_cp_sat_are_read_as_its_manual_has_them():
    log = (
        "#Bound   1.43s best:inf   next:[4,87]     initial_domain\n"
        "#1       1.74s best:33    next:[4,32]     main\n"
        "#Model   1.80s var:33/33 constraints:3/3\n"
        "#2       2.50s best:-1.5e1 next:[]         main\n"
        "#Done    2.51s main\n"
    )
    assert list(cpsat_trace(log, maximize=False)) == [
        Progress(1.43, None, 4.0),
        Progress(1.74, 33.0, 4.0),
        Progress(2.5, -15.0, -15.0),
        Progress(2.51, -15.0, -15.0),
    ]
    assert next(iter(cpsat_trace(log, maximize=True))).bound == 87.0


def test_the_table_of_scip_is_read_by_its_head():
    log = (
        "presolving (1 rounds):\n"
        " time | node  | left  |  dualbound   | primalbound  |  gap   | compl. \n"
        "p 3.3s|     1 |     0 | 4.000000e+00 |      --      |    Inf | unknown\n"
        "  5.0s|     1 |     0 | 4.000000e+00 | 1.600000e+01 | 300.00%| unknown\n"
        "SCIP Status        : solving was interrupted [time limit reached]\n"
    )
    assert list(scip_trace(log)) == [Progress(3.3, None, 4.0), Progress(5.0, 16.0, 4.0)]


def weighted_knapsack(sense):
    """The most valuable things that keep all weights, or their negative value made as small as can be."""
    sign = 1 if sense == pyo.maximize else -1
    m = pyo.ConcreteModel()
    m.take = pyo.Var(range(THINGS), domain=pyo.Binary)
    m.room = pyo.ConstraintList()
    for sizes, room in zip(SIZES.tolist(), ROOM.tolist(), strict=True):
        m.room.add(sum(s * m.take[i] for i, s in enumerate(sizes)) <= room)
    value = sum(v * m.take[i] for i, v in enumerate(VALUES.tolist()))
    m.value = pyo.Objective(expr=sign * value + OFFSET, sense=sense)
    return m


def test_the_table_of_native_statuses_is_that_of_glop():
    from ortools.linear_solver.python.model_builder_helper import SolveStatus

    told_by_limit = {"FEASIBLE", "NOT_SOLVED", "MODEL_IS_VALID", "UNKNOWN_STATUS"}
    assert set(SolveStatus.__members__) == set(ortools.TERMINATIONS) | told_by_limit


def test_columns_of_cp_sat_that_are_not_whole_are_on_a_grid():
    """The best is x = 2 / 3.1 = 0.645161..., of which 0.6 and 0.645 are the multiples below."""
    m = pyo.ConcreteModel(name="mixture")
    m.x, m.y, m.whole = pyo.Var(bounds=(0, 1)), pyo.Var(bounds=(0, 1)), pyo.Var(domain=pyo.Binary)
    m.room = pyo.Constraint(expr=3.1 * m.x + 1.7 * m.y + m.whole <= 2)
    m.gain = pyo.Objective(expr=m.x + 0.01 * m.whole, sense=pyo.maximize)
    coarse, fine = (solve(m, "cp-sat", CpsatOptions(grid=grid, presolve=False)) for grid in (10, 1000))
    assert coarse.objective == pytest.approx(0.6)
    assert fine.objective == pytest.approx(0.645)
    assert coarse.bound is None


@pytest.mark.parametrize(
    ("native", "seconds", "expected"),
    [
        ("ABNORMAL", 0.1, Termination.ERROR),
        ("ABNORMAL", 9.98, Termination.TIME_LIMIT),  # GLOP that runs into its limit says so
        ("NOT_SOLVED", 9.98, Termination.TIME_LIMIT),
        ("NOT_SOLVED", 8.2, Termination.TIME_LIMIT),  # CP-SAT gives up before a step that may take too long
        ("NOT_SOLVED", 0.1, Termination.UNKNOWN),
        ("OPTIMAL", 10.2, Termination.OPTIMAL),
    ],
)
def test_a_solver_of_or_tools_that_stops_at_its_limit_has_reached_it(native, seconds, expected):
    stopped = SimpleNamespace(status=lambda: SimpleNamespace(name=native))
    assert Stopped(stopped, seconds).termination(GlopOptions(time_limit=10.0)) is expected
