"""Small programs that the tests of the solver layer share."""

import itertools
import subprocess
import sys

import numpy as np
import pyomo.environ as pyo
from scipy.sparse import csr_array

from tutti.models.solvers import CompiledModel, compile_model


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


def hard_knapsack(n=18):
    """Values and weights that no simple rule solves."""
    rng = np.random.default_rng(3)
    m = pyo.ConcreteModel(name="knapsack")
    m.take = pyo.Var(range(n), domain=pyo.Binary)
    weights, values = rng.integers(20, 60, n).tolist(), rng.integers(20, 60, n).tolist()
    m.room = pyo.Constraint(expr=sum(w * m.take[i] for i, w in enumerate(weights)) <= sum(weights) // 3)
    m.value = pyo.Objective(expr=sum(v * m.take[i] for i, v in enumerate(values)), sense=pyo.maximize)
    return compile_model(m)


def in_a_new_process(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
