"""A Pyomo model as matrices, and what can't be made one."""

import numpy as np
import pyomo.environ as pyo
import pytest

from tests.models.solvers.programs import diet, transport
from tutti.models.solvers import compile_model, solve
from tutti.topologies.errors import InputError, Unsupported


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
    order = [model.place_of(m.x), model.place_of(m.y)]
    assert dense[:, order].tolist() == [[2, -1], [1, 3]]
    assert model.cost[order].tolist() == [1, 4]
    assert (model.offset, model.maximize) == (2, True)
    assert model.row_lower.tolist() == [-np.inf, 7]
    assert model.row_upper.tolist() == [3, 7]
    assert model.lower[order].tolist() == [0, -np.inf]
    assert model.upper[order].tolist() == [5, np.inf]
    assert model.integer[order].tolist() == [False, True]
    assert [model.place_of(m.first), model.place_of(m.second)] == [0, 1]


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


def test_a_permuted_model_is_the_same_program():
    model = transport(7)
    other = model.permuted(5)
    assert not np.array_equal(other.cost, model.cost)
    assert solve(other, "highs").objective == pytest.approx(solve(model, "highs").objective, abs=1e-12)
    assert sorted(other.cost) == sorted(model.cost)
    assert model.permuted(0) is model
