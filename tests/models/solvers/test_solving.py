"""Every back-end on the same programs, against answers found by hand or by enumeration; limits that hold."""

import itertools
import multiprocessing
import os
import signal
import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import psutil
import pyomo.environ as pyo
import pytest

from tests.models.solvers.programs import assignment, diet, in_a_new_process, knapsack, mixed, transport
from tutti.models.solvers import (
    CpsatOptions,
    Feature,
    GlopOptions,
    HighsOptions,
    PdlpOptions,
    ScipOptions,
    SolutionStatus,
    Start,
    Termination,
    compile_model,
    find_backend,
    registry,
    solve,
    solving,
)
from tutti.models.solvers.outcome import Outcome
from tutti.topologies.errors import InputError, TuttiError, Unsupported
from tutti.topologies.kernels import COMPILATION
from tutti.topologies.processes import Caller, Worker

BACKENDS = [
    pytest.param("highs", HighsOptions(), id="highs"),
    pytest.param("highs", HighsOptions(method="simplex", presolve=False), id="highs-simplex"),
    pytest.param("highs", HighsOptions(method="ipm"), id="highs-ipm"),
    pytest.param("highs", HighsOptions(method="simplex", strategy="primal"), id="highs-primal"),
    pytest.param("highs", HighsOptions(method="pdlp", tolerance=1e-9), id="highs-pdlp"),
    pytest.param("pdlp", PdlpOptions(tolerance=1e-9), id="pdlp"),
    pytest.param("glop", GlopOptions(), id="glop"),
    pytest.param("glop", GlopOptions(method="dual", presolve=False), id="glop-dual"),
]
every_backend = pytest.mark.parametrize(("solver", "options"), BACKENDS)


@every_backend
def test_an_optimum_has_objective_bound_values_and_duals(solver, options):
    m = diet()
    result = solve(m, solver, options)
    assert (result.termination, result.status) == (Termination.OPTIMAL, SolutionStatus.OPTIMAL)
    assert result.objective == pytest.approx(12, abs=1e-6)
    assert result.bound == pytest.approx(12, abs=1e-6)
    assert [result.value(m.x[1]), result.value(m.x[2])] == pytest.approx([0, 2], abs=1e-6)
    assert result.dual(m.need) == pytest.approx(0.5, abs=1e-6)


@every_backend
def test_a_result_has_sizes_and_timings(solver, options):
    result = solve(diet(), solver, options)
    assert (result.rows, result.columns, result.nonzeros) == (1, 2, 2)
    assert result.compile_s > 0
    assert result.solve_s > 0
    assert result.solver == solver
    assert result.version == find_backend(solver).version


@every_backend
def test_an_infeasible_model_is_called_infeasible(solver, options):
    m = diet()
    m.little = pyo.Constraint(expr=m.x[1] + m.x[2] <= 1)
    result = solve(m, solver, options)
    assert (result.termination, result.status) == (Termination.INFEASIBLE, SolutionStatus.NONE)
    assert result.values is None
    assert result.objective is None


@every_backend
def test_an_unbounded_model_is_called_unbounded(solver, options):
    assert solve(diet(pyo.maximize), solver, options).termination is Termination.UNBOUNDED


@every_backend
def test_a_range_is_one_row_and_both_its_sides_hold(solver, options):
    for sense, answer in ((pyo.minimize, 1), (pyo.maximize, 3)):
        m = pyo.ConcreteModel()
        m.x, m.y = pyo.Var(), pyo.Var(bounds=(0, 1))
        m.between = pyo.Constraint(expr=(1, m.x + m.y, 3))
        m.level = pyo.Constraint(expr=m.y == 1)
        m.cost = pyo.Objective(expr=m.x + m.y, sense=sense)
        result = solve(m, solver, options)
        assert result.rows == 2
        assert result.objective == pytest.approx(answer, abs=1e-6)
        assert result.dual(m.between) == pytest.approx(1, abs=1e-6)


@every_backend
def test_a_fixed_variable_is_a_constant(solver, options):
    m = diet()
    m.x[2].fix(1)
    result = solve(m, solver, options)
    assert result.columns == 1
    assert result.objective == pytest.approx(13, abs=1e-6)


@every_backend
def test_a_false_constraint_of_constants_makes_the_model_infeasible(solver, options):
    m = diet()
    m.x.fix(0)
    result = solve(m, solver, options)
    assert (result.termination, result.status) == (Termination.INFEASIBLE, SolutionStatus.NONE)
    assert (result.rows, result.columns, result.nonzeros) == (0, 0, 0)


def vertices(lower, matrix, upper):
    """Return all vertices of {lower <= x, matrix x <= upper} as exact vectors, in two dimensions."""
    planes = [(row, b) for row, b in zip(matrix, upper, strict=True)]
    planes += [([-int(i == j) for j in range(2)], -b) for i, b in enumerate(lower)]
    for ((a, b), p), ((c, d), q) in itertools.combinations(planes, 2):
        det = a * d - b * c
        if det:
            x = (Fraction(p * d - b * q, det), Fraction(a * q - p * c, det))
            if all(r[0] * x[0] + r[1] * x[1] <= s for r, s in planes):
                yield x


def plane_program(seed):
    """A program in two dimensions, and its best value over all vertices; None where there is none."""
    rng = np.random.default_rng(seed)
    lower = rng.integers(-5, 1, 2).tolist()
    matrix = [*rng.integers(-4, 5, (4, 2)).tolist(), [1, 0], [0, 1]]
    upper = [*rng.integers(0, 20, 4).tolist(), 9, 9]
    cost = rng.integers(-9, 10, 2).tolist()
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(2), bounds=lambda m, i: (lower[i], None))
    m.rows = pyo.Constraint(
        range(6), rule=lambda m, i: sum(matrix[i][j] * m.x[j] for j in range(2)) <= upper[i]
    )
    m.cost = pyo.Objective(expr=sum(cost[j] * m.x[j] for j in range(2)))
    best = min((cost[0] * x + cost[1] * y for x, y in vertices(lower, matrix, upper)), default=None)
    return m, best


@every_backend
def test_random_plane_programs_end_at_their_best_vertex(solver, options):
    for seed in range(8):
        m, best = plane_program(seed)
        result = solve(m, solver, options)
        if best is None:
            assert result.termination is Termination.INFEASIBLE, f"seed {seed}"
        else:
            assert result.objective == pytest.approx(float(best), abs=1e-6), f"seed {seed}"


@pytest.mark.parametrize(("solver", "make"), [("highs", HighsOptions), ("glop", GlopOptions)])
def test_a_limit_reached_is_said_to_be_the_reason(solver, make):
    model = assignment()
    timed = solve(model, solver, make(time_limit=1e-9, presolve=False))
    assert timed.termination is Termination.TIME_LIMIT
    counted = solve(model, solver, make(iteration_limit=1, presolve=False))
    assert counted.termination is Termination.ITERATION_LIMIT
    assert timed.status is not SolutionStatus.OPTIMAL
    assert counted.status is not SolutionStatus.OPTIMAL


def test_a_compiled_model_can_be_solved_again_by_another_solver():
    model = assignment(8)
    assert solve(model, "highs").objective == pytest.approx(solve(model, "glop").objective, abs=1e-9)


WHOLE_BACKENDS = [
    pytest.param("highs", HighsOptions(), id="highs"),
    pytest.param("scip", ScipOptions(), id="scip"),
    pytest.param("cp-sat", CpsatOptions(), id="cp-sat"),
]
every_whole_backend = pytest.mark.parametrize(("solver", "options"), WHOLE_BACKENDS)


@every_whole_backend
def test_whole_and_other_columns_together_end_at_the_best_of_all_choices(solver, options):
    """HiGHS 1.14 with presolve ends at less for a third of these."""
    for seed in range(12):
        m, best = mixed(seed)
        result = solve(m, solver, options)
        assert result.termination is Termination.OPTIMAL, f"seed {seed}"
        assert result.objective == pytest.approx(best, abs=1e-6), f"seed {seed}"
        if solver == "cp-sat":  # it proves its answers on a grid only
            assert (result.status, result.bound, result.gap) == (SolutionStatus.FEASIBLE, None, None)
        else:
            assert result.status is SolutionStatus.OPTIMAL, f"seed {seed}"
            assert result.bound == pytest.approx(best, abs=1e-6), f"seed {seed}"


@every_whole_backend
def test_whole_columns_alone_end_with_objective_and_bound(solver, options):
    result = solve(knapsack(), solver, options)
    assert (result.termination, result.status) == (Termination.OPTIMAL, SolutionStatus.OPTIMAL)
    assert (result.objective, result.bound) == (pytest.approx(21), pytest.approx(21))


@every_whole_backend
def test_a_mixed_integer_program_can_be_infeasible(solver, options):
    m = knapsack()
    m.much = pyo.Constraint(expr=sum(m.take[i] for i in range(4)) >= 4)
    assert solve(m, solver, options).termination is Termination.INFEASIBLE


@every_whole_backend
def test_a_mixed_integer_program_takes_a_start(solver, options):
    m, best = mixed(3)
    model = compile_model(m)
    assert solve(model, solver, options, start=Start(np.zeros(5))).objective == pytest.approx(best, abs=1e-6)


def test_values_are_refused_where_there_are_none():
    m = diet()
    m.little = pyo.Constraint(expr=m.x[1] + m.x[2] <= 1)
    with pytest.raises(InputError, match=r"^no value of x\[1\]: highs stopped with 'infeasible'$"):
        solve(m).value(m.x[1])


def test_a_variable_of_no_constraint_has_no_value():
    m = diet()
    m.idle = pyo.Var()
    with pytest.raises(InputError, match=r"^model diet: idle is not among the compiled rows and columns$"):
        solve(m).value(m.idle)


@every_backend
def test_solvers_are_quiet(solver, options, capfd):
    solve(diet(), solver, options)
    solve(knapsack(), "highs")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("order", [("highs", "glop"), ("glop", "highs")])
def test_both_solvers_work_in_one_process_whichever_comes_first(order):
    code = (
        "import pyomo.environ as pyo; from tutti.models.solvers import solve\n"
        "m = pyo.ConcreteModel(); m.x = pyo.Var(bounds=(0, 4)); m.o = pyo.Objective(expr=-m.x)\n"
        f"print(*(solve(m, s).objective for s in {order!r}))"
    )
    assert in_a_new_process(code).split() == ["-4.0", "-4.0"]


EVERY = [
    pytest.param("highs", HighsOptions(method="simplex"), id="highs-simplex"),
    pytest.param("highs", HighsOptions(method="ipm"), id="highs-ipm"),
    pytest.param("highs", HighsOptions(method="pdlp"), id="highs-pdlp"),
    pytest.param("glop", GlopOptions(), id="glop"),
    pytest.param("pdlp", PdlpOptions(), id="pdlp"),
]


LARGE = 900
"""A transport model of 810,000 columns: no solver here is done with it in a second."""


@pytest.mark.parametrize(("solver", "options"), [EVERY[0], EVERY[3]])
def test_a_time_limit_of_a_second_holds_on_a_large_model(solver, options):
    result = solve(transport(LARGE), solver, replace(options, time_limit=1.0, own_process=True))
    assert result.termination is Termination.TIME_LIMIT
    assert result.status is not SolutionStatus.OPTIMAL
    assert result.solve_s < 2.0


def never_ends(model, options, extras):
    """A solver that forgets its time limit."""
    time.sleep(60)
    return Outcome(Termination.OPTIMAL, SolutionStatus.NONE)


def takes_memory(model, options, extras):
    """A solver that takes 2 GB and keeps them."""
    kept = np.ones(250_000_000)
    time.sleep(60)
    return Outcome(Termination.OPTIMAL, SolutionStatus.NONE, float(kept[0]))


def dies(model, options, extras):
    """A solver with a fault."""
    os.kill(os.getpid(), signal.SIGKILL)


def dies_at_once():
    """A first solve that ends the process."""
    dies(None, None, None)


def forked_helper():
    """Return the helper as a fork of this process, so that it knows the solvers of this file."""
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    process = context.Process(target=lambda: solving.help_solving(Caller(theirs)), daemon=True)
    process.start()
    theirs.close()
    return Worker(process, mine, watched=True)


@pytest.fixture
def odd_solver(monkeypatch):
    """Return a function that registers a faulty solver which both sides know."""

    def register(run):
        record = replace(find_backend("highs"), name="odd", run=run, modules=(), extras=())
        monkeypatch.setitem(registry.BACKENDS, "odd", record)
        monkeypatch.setattr(Worker, "fresh", lambda entry: forked_helper())
        solving.end_idle()

    yield register
    solving.end_idle()


def test_a_solver_that_forgets_its_time_limit_is_killed(odd_solver):
    odd_solver(never_ends)
    result = solve(transport(3), "odd", HighsOptions(time_limit=0.2, own_process=True))
    assert (result.termination, result.status) == (Termination.TIME_LIMIT, SolutionStatus.NONE)
    assert result.stopped == "killed"
    assert 0.2 <= result.solve_s < 2


def test_a_solver_that_exceeds_its_memory_limit_is_killed(odd_solver):
    odd_solver(takes_memory)
    own = psutil.Process().memory_info().rss
    result = solve(transport(3), "odd", HighsOptions(memory_limit=own + 5e8, time_limit=30))
    assert result.termination is Termination.MEMORY_LIMIT
    assert result.solve_s < 20


def test_a_crash_of_a_solver_is_an_outcome_and_the_next_solve_works(odd_solver):
    odd_solver(dies)
    result = solve(transport(3), "odd", HighsOptions(own_process=True))
    assert result.termination is Termination.ERROR
    assert result.stopped == "crashed: SIGKILL"
    assert solve(transport(3), "highs", HighsOptions(own_process=True)).termination is Termination.OPTIMAL


def test_a_memory_limit_too_small_for_any_solution_is_said():
    result = solve(transport(40), "highs", HighsOptions(memory_limit=1e6))
    assert (result.termination, result.status) == (Termination.MEMORY_LIMIT, SolutionStatus.NONE)
    assert result.values is None


@pytest.mark.parametrize(("solver", "options"), EVERY)
def test_a_process_of_its_own_gives_the_same_answer(solver, options):
    model = transport(12)
    here, apart = solve(model, solver, options), solve(model, solver, replace(options, own_process=True))
    assert apart.objective == here.objective
    assert np.array_equal(apart.values, here.values)
    assert here.peak_rss_mb is None
    assert apart.peak_rss_mb > 10


def test_a_refusal_crosses_from_the_process_of_its_own():
    for _ in range(2):
        with pytest.raises(InputError, match=r"^highs does not accept option primal_.* = 1e-30 "):
            solve(transport(3), "highs", HighsOptions(tolerance=1e-30, own_process=True))


@pytest.mark.parametrize(("solver", "options"), EVERY)
def test_a_log_is_kept_and_nothing_else_is_printed(solver, options, tmp_path, capfd):
    log = tmp_path / "solver.log"
    solve(transport(12), solver, replace(options, log=log))
    assert len(log.read_text().splitlines()) > 3
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("solver", "options"), [EVERY[0], EVERY[4]])
def test_values_to_start_from_save_work(solver, options):
    model = replace(transport(30), maximize=True, cost=-transport(30).cost)
    options = replace(options, presolve=False)
    cold = solve(model, solver, options)
    warm = solve(model, solver, options, start=Start(cold.values, cold.duals))
    assert warm.iterations < cold.iterations
    assert warm.objective == pytest.approx(cold.objective, abs=1e-4)


def test_a_start_is_refused_where_it_does_not_fit():
    model = transport(3)
    with pytest.raises(InputError, match=r"^model transport: start has 4 values; the model has 9$"):
        solve(model, "highs", start=Start(np.zeros(4)))
    with pytest.raises(InputError, match=r"^model transport: start has values that are not finite$"):
        solve(model, "highs", start=Start(np.full(9, np.nan)))
    with pytest.raises(Unsupported, match=r"^solver glop does not do start; use .*highs or pdlp$"):
        solve(model, "glop", start=Start(np.zeros(9)))


def test_a_helper_that_can_not_import_its_solver_says_so(odd_solver, monkeypatch):
    odd_solver(never_ends)
    monkeypatch.setitem(
        registry.BACKENDS, "odd", replace(registry.BACKENDS["odd"], modules=("no_such_module",))
    )
    with pytest.raises(TuttiError, match=r"^solver odd: .*no_such_module"):
        solve(transport(3), "odd", HighsOptions(own_process=True))


@pytest.mark.parametrize("solver", ["highs", "glop", "pdlp", "scip", "cp-sat"])
def test_a_solver_that_is_loaded_imports_nothing_when_it_solves(solver):
    code = (
        "import sys; from tutti.models.solvers import find_backend\n"
        "from tutti.models.solvers.backend import tiny\n"
        "from tutti.models.solvers.outcome import NOTHING; from tutti.models.solvers.options import Feature\n"
        f"backend = find_backend({solver!r}); backend.load(); before = set(sys.modules)\n"
        "model = tiny(whole=Feature.LP not in backend.features)\n"
        "outcome = backend.run(model, backend.options(), NOTHING)\n"
        "print(outcome.termination, round(outcome.objective, 4), *sorted(set(sys.modules) - before))"
    )
    best = 1.5 if Feature.LP in find_backend(solver).features else 1  # of x with 2 x <= 3
    assert in_a_new_process(code).split() == ["optimal", f"{best:.1f}"]


def test_only_the_first_solve_of_a_process_pays_for_its_start_and_this_is_told_apart():
    solving.end_idle()
    options, seconds = HighsOptions(own_process=True), [COMPILATION.seconds]
    for _ in range(3):
        solve(transport(3), "highs", options)
        seconds.append(COMPILATION.seconds)
    assert seconds[0] < seconds[1] == seconds[2] == seconds[3]


def test_a_helper_that_dies_when_it_loads_its_solver_has_crashed(odd_solver, monkeypatch):
    odd_solver(never_ends)
    record = replace(registry.BACKENDS["odd"], rehearse=dies_at_once)
    monkeypatch.setitem(registry.BACKENDS, "odd", record)
    result = solve(transport(3), "odd", HighsOptions(own_process=True))
    assert result.stopped == "crashed: SIGKILL"
