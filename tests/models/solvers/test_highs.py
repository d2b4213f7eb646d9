"""Features of HiGHS alone: its statuses, starts from a basis, files."""

import gc

import pyomo.environ as pyo
import pytest

from tests.models.solvers.programs import hard_knapsack, knapsack, transport
from tests.models.taccl.cases import demand
from tutti.models.all_to_all import Demand
from tutti.models.all_to_all.model import flow_model
from tutti.models.allreduce.model import allreduce_model
from tutti.models.bfb.model import bfb_model
from tutti.models.solvers import HighsOptions, Progress, Start, compile_model, highs, solve, write_model
from tutti.models.taccl.printed_model import printed_routing
from tutti.topologies import parse_topology
from tutti.topologies.errors import InputError


def test_highs_solves_whole_numbers_with_a_bound_and_no_duals():
    m = knapsack()
    result = solve(m)
    assert result.objective == pytest.approx(21)
    assert result.bound == pytest.approx(21)
    assert result.gap == pytest.approx(0, abs=1e-9)
    assert [round(result.value(m.take[i])) for i in range(4)] == [0, 1, 1, 1]
    with pytest.raises(InputError, match=r"^no dual of room: highs returned none$"):
        result.dual(m.room)


def test_the_table_of_native_statuses_is_that_of_highs():
    import highspy

    native = set(highspy.HighsModelStatus.__members__)
    no_reason = {"kNotset", "kUnknown", "kObjectiveBound", "kObjectiveTarget", "kSolutionLimit"}
    assert native == set(highs.TERMINATIONS) | no_reason


def test_a_basis_saves_all_iterations():
    model = transport(30)
    cold = solve(model, "highs", HighsOptions(method="simplex", presolve=False))
    warm = solve(
        model,
        "highs",
        HighsOptions(method="simplex", presolve=False),
        start=Start(basis=cold.basis),
    )
    assert cold.iterations > 30
    assert warm.iterations == 0
    assert warm.objective == pytest.approx(cold.objective, abs=1e-12)


@pytest.mark.parametrize("own_process", [False, True])
def test_incumbents_and_bounds_are_told_in_the_models_sense(own_process):
    told: list[Progress] = []
    result = solve(hard_knapsack(), "highs", HighsOptions(own_process=own_process), trace=told.append)
    assert told
    assert told[-1].incumbent == pytest.approx(result.objective)
    best = [step.incumbent for step in told]
    assert best == sorted(best), "a maximum only grows"
    assert all(step.bound is None or step.bound >= result.objective - 1e-6 for step in told)


@pytest.mark.parametrize("suffix", [".mps", ".lp"])
def test_a_written_model_is_read_back_with_the_same_optimum(suffix, tmp_path):
    import highspy

    for model in (transport(6), hard_knapsack(6)):
        path = tmp_path / f"{model.name}{suffix}"
        write_model(model, path)
        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        highs.readModel(str(path))
        highs.run()
        found = highs.getInfo().objective_function_value
        assert found == pytest.approx(solve(model, "highs").objective, rel=1e-9)
        assert (highs.getNumCol(), highs.getNumRow()) == (model.num_columns, model.num_rows)


def test_a_model_is_written_in_known_formats_into_a_folder_that_exists(tmp_path):
    with pytest.raises(InputError, match=r"model\.txt: a model is written as \.mps or \.lp$"):
        write_model(transport(2), tmp_path / "model.txt")
    with pytest.raises(InputError, match=r"^/no/such/model\.mps: there is no folder /no/such$"):
        write_model(transport(2), "/no/such/model.mps")


@pytest.mark.parametrize("suffix", [".mps", ".lp"])
def test_a_written_model_has_the_names_of_variables_and_constraints(suffix, tmp_path):
    import highspy

    m = pyo.ConcreteModel(name="named")
    m.send = pyo.Var([0, 1], ["a b", "c"], domain=pyo.Binary)
    m.rate = pyo.Var(bounds=(0, 3))
    m.share = pyo.Constraint([0, 1], rule=lambda m, i: m.send[i, "a b"] + 2 * m.send[i, "c"] >= m.rate / 2)
    m.least = pyo.Objective(expr=sum(m.send.values()) - 3 * m.rate)
    path, compiled = tmp_path / f"named{suffix}", compile_model(m)
    del m
    gc.collect()  # components without their model would have no names
    write_model(compiled, path)
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.readModel(str(path))
    read = highs.getLp()
    assert set(read.row_names_) == {"share(0)", "share(1)"}
    assert set(read.col_names_) == {"send(0,a_b)", "send(0,c)", "send(1,a_b)", "send(1,c)", "rate"}
    highs.run()
    # At a rate of 3 each row needs 3/2, which "c" alone gives: 1 + 1 - 9.
    assert highs.getInfo().objective_function_value == pytest.approx(-7)


@pytest.mark.parametrize("suffix", [".mps", ".lp"])
@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda: bfb_model({2: [0, 1], 5: [1]}), id="(3.1)"),
        pytest.param(lambda: flow_model(Demand.uniform(parse_topology("ring:3"))), id="(A.1)"),
        pytest.param(lambda: allreduce_model(parse_topology("switch2d:2x2")), id="(B.5)"),
        pytest.param(lambda: printed_routing(demand("ring:3")), id="TACCL"),
    ],
)
def test_the_papers_models_are_written_with_the_names_that_they_have_in_pyomo(build, suffix, tmp_path):
    import highspy

    model = build()
    path, compiled = tmp_path / f"model{suffix}", compile_model(model)
    write_model(compiled, path)
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.readModel(str(path))
    read = highs.getLp()
    for names, kind in ((read.row_names_, pyo.Constraint), (read.col_names_, pyo.Var)):
        there = {part.name for part in model.component_data_objects(kind)}
        written = [name.replace("(", "[").replace(")", "]").replace("~", "-") for name in names]
        assert set(written) <= there
        assert len(set(written)) == len(written)
    highs.run()
    assert highs.getInfo().objective_function_value == pytest.approx(solve(model).objective, rel=1e-7)
