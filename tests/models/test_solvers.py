"""The solver layer: every back-end on the same models, against answers found by hand or by enumeration."""

import itertools
import subprocess
import sys
from fractions import Fraction
from importlib.util import find_spec

import numpy as np
import pyomo.environ as pyo
import pytest

from models.solvers import (
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
    highs,
    installed_solvers,
    known_solvers,
    ortools_models,
    registry,
    solve,
    solving,
)
from models.solvers.backend import Backend
from topologies.errors import InputError, Unsupported

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


def diet(sense=pyo.minimize):
    """min or max x1 + x2 + 10 with x1 + 2 x2 >= 4, x >= 0: 12 at (0, 2), unbounded above; dual 1/2."""
    m = pyo.ConcreteModel(name="diet")
    m.x = pyo.Var([1, 2], bounds=(0, None))
    m.need = pyo.Constraint(expr=m.x[1] + 2 * m.x[2] >= 4)
    m.cost = pyo.Objective(expr=m.x[1] + m.x[2] + 10, sense=sense)
    return m


def knapsack():
    """The best of 8 + 11 + 6 + 4 with weights 5, 7, 4, 3 in 14 is 21: items 2, 3 and 4."""
    m = pyo.ConcreteModel(name="knapsack")
    m.take = pyo.Var(range(4), domain=pyo.Binary)
    m.room = pyo.Constraint(expr=sum(w * m.take[i] for i, w in enumerate([5, 7, 4, 3])) <= 14)
    m.value = pyo.Objective(expr=sum(v * m.take[i] for i, v in enumerate([8, 11, 6, 4])), sense=pyo.maximize)
    return m


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


@every_backend
@pytest.mark.parametrize("seed", range(8))
def test_random_plane_programs_end_at_their_best_vertex(solver, options, seed):
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
    result = solve(m, solver, options)
    if best is None:
        assert result.termination is Termination.INFEASIBLE
    else:
        assert result.objective == pytest.approx(float(best), abs=1e-6)


def assignment(n=60):
    """A dense transport model that needs many simplex iterations."""
    rng = np.random.default_rng(0)
    weight = rng.random((n, n))
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(n), range(n), bounds=(0, 1))
    m.out = pyo.Constraint(range(n), rule=lambda m, i: sum(m.x[i, j] for j in range(n)) == 1)
    m.into = pyo.Constraint(range(n), rule=lambda m, j: sum(m.x[i, j] for i in range(n)) == 1)
    m.cost = pyo.Objective(expr=sum(weight[i, j] * m.x[i, j] for i in range(n) for j in range(n)))
    return compile_model(m)


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


def test_the_matrices_are_those_of_the_model():
    m = pyo.ConcreteModel()
    m.x, m.y = pyo.Var(bounds=(0, 5)), pyo.Var(domain=pyo.Integers)
    m.first = pyo.Constraint(expr=2 * m.x - m.y + 1 <= 4)
    m.second = pyo.Constraint(expr=m.x + 3 * m.y == 7)
    m.gain = pyo.Objective(expr=m.x + 4 * m.y + 2, sense=pyo.maximize)
    model = compile_model(m)
    dense = np.zeros((2, 2))
    for row in range(2):
        part = slice(model.starts[row], model.starts[row + 1])
        dense[row, model.index[part]] = model.value[part]
    order = [model.column_of(m.x), model.column_of(m.y)]
    assert dense[:, order].tolist() == [[2, -1], [1, 3]]
    assert model.cost[order].tolist() == [1, 4]
    assert (model.offset, model.maximize) == (2, True)
    assert model.row_lower.tolist() == [-np.inf, 7]
    assert model.row_upper.tolist() == [3, 7]
    assert model.lower[order].tolist() == [0, -np.inf]
    assert model.upper[order].tolist() == [5, np.inf]
    assert model.integer[order].tolist() == [False, True]
    assert [model.row_of(m.first), model.row_of(m.second)] == [0, 1]


def test_highs_solves_whole_numbers_with_a_bound_and_no_duals():
    m = knapsack()
    result = solve(m)
    assert result.objective == pytest.approx(21)
    assert result.bound == pytest.approx(21)
    assert result.gap == pytest.approx(0, abs=1e-9)
    assert [round(result.value(m.take[i])) for i in range(4)] == [0, 1, 1, 1]
    with pytest.raises(InputError, match=r"^no dual of room: highs returned none$"):
        result.dual(m.room)


WHOLE = [
    pytest.param("highs", HighsOptions(), id="highs"),
    pytest.param("scip", ScipOptions(), id="scip"),
    pytest.param("cp-sat", CpsatOptions(), id="cp-sat"),
]
every_whole_backend = pytest.mark.parametrize(("solver", "options"), WHOLE)


def mixed(seed):
    """A knapsack of four things and some of a powder, and its best value over all 16 choices of things."""
    rng = np.random.default_rng(seed)
    weight, value = rng.integers(2, 9, 4).tolist(), rng.integers(1, 15, 4).tolist()
    room, powder = int(rng.integers(8, 22)), int(rng.integers(1, 6))
    m = pyo.ConcreteModel(name="mixed")
    m.take = pyo.Var(range(4), domain=pyo.Binary)
    m.powder = pyo.Var(bounds=(0, powder))
    m.room = pyo.Constraint(expr=sum(weight[i] * m.take[i] for i in range(4)) + m.powder <= room)
    m.value = pyo.Objective(expr=sum(value[i] * m.take[i] for i in range(4)) + m.powder, sense=pyo.maximize)
    best = 0
    for taken in itertools.product((0, 1), repeat=4):
        left = room - sum(t * w for t, w in zip(taken, weight, strict=True))
        if left >= 0:
            best = max(best, sum(t * v for t, v in zip(taken, value, strict=True)) + min(powder, left))
    return m, best


@every_whole_backend
@pytest.mark.parametrize("seed", range(12))
def test_whole_and_other_columns_together_end_at_the_best_of_all_choices(solver, options, seed):
    """HiGHS 1.14 with presolve ends at less for a third of these."""
    m, best = mixed(seed)
    result = solve(m, solver, options)
    assert result.termination is Termination.OPTIMAL
    assert result.objective == pytest.approx(best, abs=1e-6)
    if solver == "cp-sat":  # it proves its answers on a grid only
        assert (result.status, result.bound, result.gap) == (SolutionStatus.FEASIBLE, None, None)
    else:
        assert result.status is SolutionStatus.OPTIMAL
        assert result.bound == pytest.approx(best, abs=1e-6)


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


def test_a_solver_that_lacks_a_feature_is_refused_before_compiling(monkeypatch):
    monkeypatch.setattr(solving, "compile_model", lambda model: pytest.fail("compiled"))
    with pytest.raises(Unsupported, match=r"^solver glop does not do MILP; use cp-sat or highs or scip$"):
        solve(knapsack(), "glop")


def test_a_feature_that_nobody_has_is_refused():
    with pytest.raises(Unsupported, match=r"^solver highs does not do QP; no known solver does$"):
        solve(diet(), needs={Feature.QP})


def test_an_unknown_solver_gets_a_suggestion():
    with pytest.raises(InputError, match=r"^unknown solver 'higs'; did you mean 'highs'\?$"):
        solve(diet(), "higs")


@pytest.mark.parametrize("solver", [None, 5, ["highs"], {}])
def test_a_solver_that_is_no_text_is_refused(solver):
    with pytest.raises(InputError, match=r"^solver is .*; it must be one of cp-sat, glop, gurobi, highs,"):
        solve(diet(), solver)


@pytest.fixture
def ghost(monkeypatch):
    """A known solver that is not installed."""
    features = frozenset({Feature.LP})
    record = Backend(
        "ghost", "no_such_package", "no-such", features, HighsOptions, highs.run, "pip install ghost"
    )
    monkeypatch.setitem(registry.BACKENDS, "ghost", record)


@pytest.mark.usefixtures("ghost")
def test_a_solver_that_is_not_installed_says_how_to_get_it():
    with pytest.raises(InputError, match=r"^solver ghost is not installed; get it with: pip install ghost$"):
        solve(diet(), "ghost")


@pytest.mark.usefixtures("ghost")
def test_the_list_of_solvers_tells_who_is_installed():
    assert [(info.name, info.installed) for info in known_solvers()] == [
        ("cp-sat", True),
        ("ghost", False),
        ("glop", True),
        ("gurobi", find_spec("gurobipy") is not None),
        ("highs", True),
        ("pdlp", True),
        ("scip", True),
    ]
    assert {"glop", "highs", "pdlp"} <= {info.name for info in installed_solvers()}
    assert all(info.version for info in installed_solvers())


def test_options_of_another_solver_are_refused():
    with pytest.raises(InputError, match=r"^solver glop takes GlopOptions, not HighsOptions$"):
        solve(diet(), "glop", HighsOptions())


POSITIVE = "it must be a positive number"
SECONDS = f"{POSITIVE} of seconds"
WHOLE = "it must be a whole number, at least"


@pytest.mark.parametrize(
    ("make", "values", "message"),
    [
        (HighsOptions, {"method": "simplx"}, "highs option method is 'simplx'; did you mean 'simplex'?"),
        (HighsOptions, {"time_limit": -1}, f"highs option time_limit is -1; {SECONDS}"),
        (HighsOptions, {"time_limit": "1s"}, f"highs option time_limit is '1s'; {SECONDS}"),
        (HighsOptions, {"threads": 0}, f"highs option threads is 0; {WHOLE} 1"),
        (HighsOptions, {"tolerance": 0}, f"highs option tolerance is 0; {POSITIVE}"),
        (HighsOptions, {"relative_gap": float("nan")}, f"highs option relative_gap is nan; {POSITIVE}"),
        (HighsOptions, {"seed": True}, f"highs option seed is True; {WHOLE} 0"),
        (GlopOptions, {"method": "ipm"}, "glop option method is 'ipm'; allowed: dual, primal"),
        (GlopOptions, {"iteration_limit": -3}, f"glop option iteration_limit is -3; {WHOLE} 0"),
    ],
)
def test_an_option_out_of_range_is_named(make, values, message):
    with pytest.raises(InputError) as error:
        make(**values)
    assert str(error.value) == message


def test_a_value_that_the_solver_itself_refuses_is_an_error():
    with pytest.raises(InputError, match=r"^highs does not accept option primal_.* = 1e-30 "):
        solve(diet(), "highs", HighsOptions(tolerance=1e-30))


def test_a_model_that_is_not_linear_is_unsupported():
    m = diet()
    m.curve = pyo.Constraint(expr=m.x[1] * m.x[2] >= 1)
    with pytest.raises(
        Unsupported, match=r"^model diet: Model constraint \(curve\) contains nonlinear terms"
    ):
        solve(m)


def test_a_model_needs_exactly_one_objective():
    m = diet()
    m.cost.deactivate()
    with pytest.raises(InputError, match=r"^model diet: 0 active objectives; exactly one is needed$"):
        solve(m)


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


def test_the_table_of_native_statuses_is_that_of_highs():
    import highspy

    native = set(highspy.HighsModelStatus.__members__)
    no_reason = {"kNotset", "kUnknown", "kObjectiveBound", "kObjectiveTarget", "kSolutionLimit"}
    assert native == set(highs.TERMINATIONS) | no_reason


def test_the_table_of_native_statuses_is_that_of_glop():
    from ortools.linear_solver.python.model_builder_helper import SolveStatus

    told_by_limit = {"FEASIBLE", "NOT_SOLVED", "MODEL_IS_VALID", "UNKNOWN_STATUS"}
    assert set(SolveStatus.__members__) == set(ortools_models.TERMINATIONS) | told_by_limit


@every_backend
def test_solvers_are_quiet(solver, options, capfd):
    solve(diet(), solver, options)
    solve(knapsack(), "highs")
    assert capfd.readouterr() == ("", "")


def in_a_new_process(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_listing_solvers_imports_none():
    code = (
        "import sys, models.solvers as s; s.known_solvers()\n"
        "print([m for m in sys.modules if m.startswith(('highspy', 'ortools.linear_solver'))])"
    )
    assert in_a_new_process(code).strip() == "[]"


@pytest.mark.parametrize("order", [("highs", "glop"), ("glop", "highs")])
def test_both_solvers_work_in_one_process_whichever_comes_first(order):
    code = (
        "import pyomo.environ as pyo; from models.solvers import solve\n"
        "m = pyo.ConcreteModel(); m.x = pyo.Var(bounds=(0, 4)); m.o = pyo.Objective(expr=-m.x)\n"
        f"print(*(solve(m, s).objective for s in {order!r}))"
    )
    assert in_a_new_process(code).split() == ["-4.0", "-4.0"]
