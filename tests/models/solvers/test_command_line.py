"""CBC and GLPK as programs: their answers, limits and statuses, where the programs are installed."""

import tempfile
import time

import numpy as np
import pyomo.environ as pyo
import pytest

from tests.models.solvers.programs import diet, hard_knapsack, knapsack, mixed
from tutti.models.solvers import (
    CbcOptions,
    GlpkOptions,
    HighsOptions,
    Progress,
    SolutionStatus,
    Termination,
    command_line,
    solve,
)
from tutti.models.solvers.command_line import CBC, GLPK, cbc_trace
from tutti.topologies.errors import InputError, Unsupported

OPTIONS = {"cbc": CbcOptions, "glpk": GlpkOptions}
needs_glpk = pytest.mark.skipif(not GLPK.installed, reason="glpsol is not installed")
every = pytest.mark.parametrize(
    "solver",
    [
        pytest.param("cbc", marks=pytest.mark.skipif(not CBC.installed, reason="CBC is not installed")),
        pytest.param("glpk", marks=needs_glpk),
    ],
)


@every
@pytest.mark.parametrize("seed", range(6))
def test_a_knapsack_with_a_powder_has_the_optimum_of_all_choices(solver, seed):
    model, best = mixed(seed)
    result = solve(model, solver)
    assert (result.termination, result.status) == (Termination.OPTIMAL, SolutionStatus.OPTIMAL)
    assert result.objective == pytest.approx(best)
    assert result.bound == pytest.approx(best)


@every
def test_memory_and_processor_time_are_those_of_the_program(solver):
    options = OPTIONS[solver](own_process=True, time_limit=20)
    points = []
    result = solve(hard_knapsack(60), solver, options, trace=points.append)
    assert result.objective == pytest.approx(solve(hard_knapsack(60), "highs").objective)
    assert result.cpu_s > 0
    assert result.peak_rss_mb > 5
    if solver == "cbc":
        assert points[-1].incumbent == pytest.approx(result.objective)


@every
def test_infeasible_and_unbounded_models_are_called_so(solver):
    m = knapsack()
    m.both = pyo.Constraint(expr=m.take[0] + m.take[1] >= 3)
    assert solve(m, solver).termination is Termination.INFEASIBLE
    m = knapsack()
    m.much = pyo.Var()
    m.more = pyo.Constraint(expr=m.much >= m.take[0])
    m.value.deactivate()
    m.most = pyo.Objective(expr=m.much + m.take[1], sense=pyo.maximize)
    assert solve(m, solver).termination is Termination.UNBOUNDED


@every
def test_a_log_is_kept_and_a_program_with_too_much_memory_is_stopped(solver, tmp_path):
    log = tmp_path / "log"
    solve(knapsack(), solver, OPTIONS[solver](log=log))
    assert log.stat().st_size > 100
    stopped = solve(hard_knapsack(60), solver, OPTIONS[solver](memory_limit=1e6))
    assert stopped.termination is Termination.MEMORY_LIMIT


@every
def test_a_program_that_runs_on_past_its_time_is_killed_and_leaves_no_file(solver, monkeypatch, tmp_path):
    """A program that sleeps and never looks at its limit, in the place of the solver's."""
    sleeper = tmp_path / "sleeper"
    sleeper.write_text("#!/bin/sh\nexec sleep 60\n")
    sleeper.chmod(0o755)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(command_line, "find_cbc", lambda: str(sleeper))
    monkeypatch.setattr(command_line, "find_glpk", lambda: str(sleeper))
    begin = time.monotonic()
    result = solve(knapsack(), solver, OPTIONS[solver](time_limit=1))
    assert (result.termination, result.stopped) == (Termination.TIME_LIMIT, "killed")
    assert time.monotonic() - begin < 10
    assert not list(folder.iterdir())


@needs_glpk
@pytest.mark.parametrize("method", ["simplex", "ipm"])
def test_glpk_solves_linear_programs_with_duals(method):
    m = diet()
    result = solve(m, "glpk", GlpkOptions(method=method))
    assert result.objective == pytest.approx(12, abs=1e-6)
    assert result.dual(m.need) == pytest.approx(0.5, abs=1e-6)


@needs_glpk
def test_glpk_calls_linear_programs_infeasible_and_unbounded():
    m = diet()
    m.little = pyo.Constraint(expr=m.x[1] + m.x[2] <= 1)
    assert solve(m, "glpk").termination is Termination.INFEASIBLE
    assert solve(diet(pyo.maximize), "glpk").termination is Termination.UNBOUNDED


def test_glpk_refuses_what_its_program_has_no_option_for():
    with pytest.raises(InputError, match=r"^glpk has no option tolerance: its program glpsol can't set it$"):
        GlpkOptions(tolerance=1e-6)


def test_the_lines_of_cbc_are_read():
    """Printed by CBC 2.10.3."""
    log = (
        "Cbc0012I Integer solution of -758 found by feasibility pump after 0 iterations and 0 nodes"
        " (0.25 seconds)\n"
        "Cbc0010I After 100 nodes, 4 on tree, -758 best solution, best possible -759.5 (1.50 seconds)\n"
        "Cbc0010I After 0 nodes, 1 on tree, 1e+50 best solution, best possible -1.7976931e+308"
        " (2.00 seconds)\n"
        "Cbc0001I Search completed - best objective -758, took 7 iterations and 0 nodes (3.00 seconds)\n"
    )
    assert list(cbc_trace(log, -1.0, 2.0)) == [
        Progress(0.25, 760.0, None),
        Progress(1.5, 760.0, 761.5),
        Progress(2.0, 760.0, 761.5),
    ]


def test_gurobi_solves_small_programs_with_its_restricted_licence_and_says_that_others_are_too_large():
    pytest.importorskip("gurobipy")
    model, best = mixed(3)
    assert solve(model, "gurobi").objective == pytest.approx(best)
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(3000), bounds=(0, 1))
    m.rows = pyo.Constraint(range(2999), rule=lambda m, i: m.x[i] + m.x[i + 1] <= 1)
    m.most = pyo.Objective(expr=sum(m.x.values()), sense=pyo.maximize)
    with pytest.raises(Unsupported, match="restricted licence"):
        solve(m, "gurobi")


def test_whole_numbers_have_the_tolerance_that_is_asked_for():
    """A mixed-integer program by HiGHS with each tolerance has values as near to whole numbers as that."""
    for tolerance in (1e-6, 1e-9):
        result = solve(hard_knapsack(30), "highs", HighsOptions(tolerance=tolerance))
        assert np.abs(result.values - np.rint(result.values)).max() <= tolerance
