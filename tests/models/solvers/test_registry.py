"""The known solvers, the checks of each, and the messages where one is missing."""

from importlib.util import find_spec
from shutil import which

import pytest

import tutti
from tests.models.solvers.programs import diet, in_a_new_process, knapsack, transport
from tutti.models.solvers import (
    Feature,
    GurobiOptions,
    HighsOptions,
    find_backend,
    highs,
    known_solvers,
    registry,
    solve,
    solving,
)
from tutti.models.solvers.backend import Backend
from tutti.topologies.errors import InputError, Unsupported


def test_a_solver_that_lacks_a_feature_is_refused_before_compiling(monkeypatch):
    monkeypatch.setattr(solving, "compile_model", lambda model: pytest.fail("compiled"))
    with pytest.raises(Unsupported, match=r"^solver glop does not do MILP; use .*highs or scip$"):
        solve(knapsack(), "glop")


def test_a_feature_that_nobody_has_is_refused():
    with pytest.raises(Unsupported, match=r"^solver highs does not do QP; no known solver does$"):
        solve(diet(), needs={Feature.QP})


@pytest.mark.parametrize(("method", "of"), [("bfb", "bfb"), ("allreduce_lp", "allreduce_lp"), ("mcf", "mcf")])
def test_a_model_that_outgrows_memory_is_refused_before_it_is_built(method, of, monkeypatch):
    """All three have more than 50 variables on 9 ranks."""
    monkeypatch.setattr(registry, "MOST_VARIABLES", 50)
    kind = "allreduce" if method == "allreduce_lp" else "all-to-all" if method == "mcf" else "allgather"
    with pytest.raises(Unsupported, match=rf"^{of}.* variables, .*; without a time_limit it may have 50$"):
        tutti.synthesize("mesh:3x3", kind, method=method, by="model")


def test_an_unknown_solver_gets_a_suggestion():
    with pytest.raises(InputError, match=r"^unknown solver 'higs'; did you mean 'highs'\?$"):
        solve(diet(), "higs")


@pytest.mark.parametrize("solver", [None, 5, ["highs"], {}])
def test_a_solver_that_is_no_text_is_refused(solver):
    with pytest.raises(
        InputError, match=r"^solver is .*; it must be one of cbc, cp-sat, glop, glpk, gurobi, highs,"
    ):
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
        ("cbc", bool(which("cbc")) or find_spec("pulp") is not None),
        ("cp-sat", True),
        ("ghost", False),
        ("glop", True),
        ("glpk", bool(which("glpsol"))),
        ("gurobi", find_spec("gurobipy") is not None),
        ("highs", True),
        ("pdlp", True),
        ("scip", True),
    ]
    assert all(info.version for info in known_solvers() if info.installed)


def test_listing_solvers_imports_none():
    code = (
        "import sys, tutti.models.solvers as s; s.known_solvers()\n"
        "print([m for m in sys.modules if m.startswith(('highspy', 'ortools.linear_solver'))])"
    )
    assert in_a_new_process(code).strip() == "[]"


def test_an_algorithm_that_is_not_installed_says_how_to_get_it():
    info = next(info for info in known_solvers() if info.name == "highs")
    if Feature.HIPO in info.features_here:
        pytest.skip("HiPO is installed here")
    with pytest.raises(
        InputError, match=r"^solver highs has no HiPO here; get it with: pip install .*extras"
    ):
        solve(transport(3), "highs", HighsOptions(method="hipo"))
    assert [extra.feature for extra in info.missing] == [Feature.HIPO]


@pytest.mark.skipif(
    find_backend.__module__ and registry.BACKENDS["gurobi"].installed, reason="it is installed"
)
def test_gurobi_is_not_installed_and_says_how_to_get_it():
    with pytest.raises(
        InputError, match=r"^solver gurobi is not installed; get it with: pip install gurobipy"
    ):
        solve(transport(3), "gurobi", GurobiOptions(method="ipm"))
