"""What the solver layer does besides solving: limits that hold, starts, logs, files, and refusals."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import psutil
import pyomo.environ as pyo
import pytest
from scipy.sparse import csr_array

from models.solvers import (
    CompiledModel,
    Feature,
    GlopOptions,
    GurobiOptions,
    HighsOptions,
    PdlpOptions,
    Progress,
    SolutionStatus,
    Start,
    Termination,
    compile_model,
    find_backend,
    known_solvers,
    pdlp,
    process,
    registry,
    solve,
)
from models.solvers.ortools_models import Run
from models.solvers.outcome import Outcome
from topologies.errors import InputError, TuttiError, Unsupported

EVERY = [
    pytest.param("highs", HighsOptions(method="simplex"), id="highs-simplex"),
    pytest.param("highs", HighsOptions(method="ipm"), id="highs-ipm"),
    pytest.param("highs", HighsOptions(method="pdlp"), id="highs-pdlp"),
    pytest.param("glop", GlopOptions(), id="glop"),
    pytest.param("pdlp", PdlpOptions(), id="pdlp"),
]


def transport(n, seed=0):
    """Assignment of n by n with random costs, made of arrays: n^2 columns, 2 n rows."""
    rng = np.random.default_rng(seed)
    columns = np.arange(n * n)
    rows = np.concatenate([columns // n, n + columns % n])
    matrix = csr_array((np.ones(2 * n * n), (rows, np.tile(columns, 2))), shape=(2 * n, n * n))
    return CompiledModel(
        name="transport",
        maximize=False,
        cost=rng.random(n * n),
        offset=0.0,
        starts=matrix.indptr.astype(np.int32),
        index=matrix.indices.astype(np.int32),
        value=matrix.data,
        row_lower=np.ones(2 * n),
        row_upper=np.ones(2 * n),
        lower=np.zeros(n * n),
        upper=np.full(n * n, np.inf),
        integer=np.zeros(n * n, dtype=bool),
        variables=(),
        constraints=(),
        compile_s=0.0,
    )


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


class Direct(process._Helper):
    """The helper as a fork of this process, so that it knows the solvers of this file."""

    @classmethod
    def start(cls):
        mine, theirs = process.Pipe()
        pid = os.fork()
        if not pid:
            mine.close()
            process._serve(theirs)
            os._exit(0)
        theirs.close()
        return cls(Child(pid), mine)


class Child:
    """A forked process with what `subprocess.Popen` offers of one."""

    def __init__(self, pid):
        self.pid, self.code = pid, None

    def poll(self):
        return self.code

    def wait(self):
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code

    def kill(self):
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)


@pytest.fixture
def odd_solver(monkeypatch):
    """Return a function that registers a faulty solver which both sides know."""

    def register(run):
        record = replace(find_backend("highs"), name="odd", run=run, modules=(), extras=())
        monkeypatch.setitem(registry.BACKENDS, "odd", record)
        monkeypatch.setattr(process, "_Helper", Direct)
        process._close_helpers()

    yield register
    process._close_helpers()


def test_a_solver_that_forgets_its_time_limit_is_killed(odd_solver):
    odd_solver(never_ends)
    result = solve(transport(3), "odd", HighsOptions(time_limit=0.2, own_process=True))
    assert (result.termination, result.status) == (Termination.TIME_LIMIT, SolutionStatus.NONE)
    assert result.outcome.stopped == "killed"
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
    assert result.outcome.stopped == "crashed: SIGKILL"
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


def test_the_helper_ends_with_its_parent():
    code = (
        "import sys, time; sys.modules['models'] = type(sys)('models'); "
        "sys.modules['models'].__path__ = ['models']; from models.solvers import process\n"
        "helper = process._Helper.start(); print(helper.process.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        helper = psutil.Process(int(parent.stdout.readline()))
        time.sleep(0.1)
        parent.kill()
        helper.wait(timeout=5)
        assert not helper.is_running()


@pytest.mark.parametrize(("solver", "options"), EVERY)
def test_a_log_is_kept_and_nothing_else_is_printed(solver, options, tmp_path, capfd):
    log = tmp_path / "solver.log"
    solve(transport(12), solver, replace(options, log=log))
    assert len(log.read_text().splitlines()) > 3
    assert capfd.readouterr() == ("", "")


def test_a_log_goes_into_a_folder_that_exists():
    with pytest.raises(
        InputError, match=r"^glop option log is '/no/such/x.log'; there is no folder /no/such$"
    ):
        GlopOptions(log="/no/such/x.log")


def test_a_basis_saves_all_iterations():
    model = transport(30)
    cold = solve(model, "highs", HighsOptions(method="simplex", presolve=False))
    warm = solve(
        model,
        "highs",
        HighsOptions(method="simplex", presolve=False),
        start=Start(basis=cold.outcome.basis),
    )
    assert cold.outcome.iterations > 30
    assert warm.outcome.iterations == 0
    assert warm.objective == pytest.approx(cold.objective, abs=1e-12)


@pytest.mark.parametrize(("solver", "options"), [EVERY[0], EVERY[4]])
def test_values_to_start_from_save_work(solver, options):
    model = replace(transport(30), maximize=True, cost=-transport(30).cost)
    options = replace(options, presolve=False)
    cold = solve(model, solver, options)
    warm = solve(model, solver, options, start=Start(cold.values, cold.duals))
    assert warm.outcome.iterations < cold.outcome.iterations
    assert warm.objective == pytest.approx(cold.objective, abs=1e-4)


def test_a_start_is_refused_where_it_does_not_fit():
    model = transport(3)
    with pytest.raises(InputError, match=r"^model transport: start has 4 values; the model has 9$"):
        solve(model, "highs", start=Start(np.zeros(4)))
    with pytest.raises(InputError, match=r"^model transport: start has values that are not finite$"):
        solve(model, "highs", start=Start(np.full(9, np.nan)))
    with pytest.raises(Unsupported, match=r"^solver glop does not do start; use highs or pdlp$"):
        solve(model, "glop", start=Start(np.zeros(9)))


def knapsack(n=18):
    """Values and weights that no simple rule solves."""
    rng = np.random.default_rng(3)
    m = pyo.ConcreteModel(name="knapsack")
    m.take = pyo.Var(range(n), domain=pyo.Binary)
    weights, values = rng.integers(20, 60, n).tolist(), rng.integers(20, 60, n).tolist()
    m.room = pyo.Constraint(expr=sum(w * m.take[i] for i, w in enumerate(weights)) <= sum(weights) // 3)
    m.value = pyo.Objective(expr=sum(v * m.take[i] for i, v in enumerate(values)), sense=pyo.maximize)
    return compile_model(m)


@pytest.mark.parametrize("own_process", [False, True])
def test_incumbents_and_bounds_are_told_in_the_models_sense(own_process):
    told: list[Progress] = []
    result = solve(knapsack(), "highs", HighsOptions(own_process=own_process), trace=told.append)
    assert told
    assert told[-1].incumbent == pytest.approx(result.objective)
    best = [step.incumbent for step in told]
    assert best == sorted(best), "a maximum only grows"
    assert all(step.bound is None or step.bound >= result.objective - 1e-6 for step in told)


@pytest.mark.parametrize("suffix", [".mps", ".lp"])
def test_a_written_model_is_read_back_with_the_same_optimum(suffix, tmp_path):
    import highspy

    for model in (transport(6), knapsack(6)):
        path = tmp_path / f"{model.name}{suffix}"
        model.write(path)
        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        highs.readModel(str(path))
        highs.run()
        found = highs.getInfo().objective_function_value
        assert found == pytest.approx(solve(model, "highs").objective, rel=1e-9)
        assert (highs.getNumCol(), highs.getNumRow()) == (model.num_columns, model.num_rows)


def test_a_model_is_written_in_known_formats_into_a_folder_that_exists(tmp_path):
    with pytest.raises(InputError, match=r"model\.txt: a model is written as \.mps or \.lp$"):
        transport(2).write(tmp_path / "model.txt")
    with pytest.raises(InputError, match=r"^/no/such/model\.mps: there is no folder /no/such$"):
        transport(2).write("/no/such/model.mps")


def test_a_permuted_model_is_the_same_program():
    model = transport(7)
    other = model.permuted(5)
    assert not np.array_equal(other.cost, model.cost)
    assert solve(other, "highs").objective == pytest.approx(solve(model, "highs").objective, abs=1e-12)
    assert sorted(other.cost) == sorted(model.cost)
    assert model.permuted(0) is model


def test_an_algorithm_that_is_not_installed_says_how_to_get_it():
    info = next(info for info in known_solvers() if info.name == "highs")
    if Feature.HIPO in info.features:
        pytest.skip("HiPO is installed here")
    with pytest.raises(
        InputError, match=r"^solver highs has no HiPO here; get it with: pip install .*extras"
    ):
        solve(transport(3), "highs", HighsOptions(method="hipo"))
    assert [feature for feature, _ in info.missing] == [Feature.HIPO]


@pytest.mark.skipif(
    find_backend.__module__ and registry.BACKENDS["gurobi"].installed, reason="it is installed"
)
def test_gurobi_is_not_installed_and_says_how_to_get_it():
    with pytest.raises(
        InputError, match=r"^solver gurobi is not installed; get it with: pip install gurobipy"
    ):
        solve(transport(3), "gurobi", GurobiOptions(method="ipm"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PdlpOptions(threads=0), "pdlp option threads is 0; it must be a whole number, at least 1"),
        (lambda: PdlpOptions(memory_limit=-1),
         "pdlp option memory_limit is -1; it must be a positive number of bytes"),
        (lambda: GurobiOptions(method="dal"), "gurobi option method is 'dal'; did you mean 'dual'?"),
        (lambda: HighsOptions(strategy="x"), "highs option strategy is 'x'; allowed: choose, dual, primal"),
        (lambda: GlopOptions(seed=-1), "glop option seed is -1; it must be a whole number, at least 0"),
    ],
)  # fmt: skip
def test_an_option_out_of_range_is_named(make, message):
    with pytest.raises(InputError) as error:
        make()
    assert str(error.value) == message


def test_the_table_of_native_statuses_is_that_of_pdlp():
    from ortools.pdlp import solve_log_pb2

    native = {name.removeprefix(pdlp.PREFIX) for name in dict(solve_log_pb2.TerminationReason.items())}
    assert native == set(pdlp.TERMINATIONS) | {"UNSPECIFIED", "OTHER"}


def test_pdlp_refuses_what_it_can_not_read():
    broken = replace(transport(3), row_lower=np.full(6, 2.0))
    with pytest.raises(InputError, match=r"^pdlp does not accept model transport or its options: "):
        solve(broken, "pdlp")


def test_a_helper_that_can_not_import_its_solver_says_so(odd_solver, monkeypatch):
    odd_solver(never_ends)
    monkeypatch.setitem(
        registry.BACKENDS, "odd", replace(registry.BACKENDS["odd"], modules=("no_such_module",))
    )
    with pytest.raises(TuttiError, match=r"^solver odd: .*no_such_module"):
        solve(transport(3), "odd", HighsOptions(own_process=True))


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
    assert Run(stopped, seconds).termination(GlopOptions(time_limit=10.0)) is expected
