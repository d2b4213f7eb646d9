"""The linear program over trees in epochs.

    minimize    sum over k of τ[k]
    subject to  B[o] τ[k] - sum over trees t of n[t, o, k] w[t]  >=  B[o] α[o]   for each orbit o of lines and
                                                                                 epoch k (dual: price)
                sum of w[t] over the trees of root r  =  1                       for each orbit r of ranks
                τ, w >= 0

τ[k] is how long epoch k lasts, w[t] the part of a shard that goes down tree t and its images, and n[t, o, k]
how many of its edges are on lines of orbit o in epoch k: so much of w[t] each line of the orbit carries, all
images together. Whatever a line carries in an epoch is one message, of α and bytes over bandwidth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array, csr_array

from models.solvers import Start, solve
from models.solvers.compiled import CompiledModel
from models.solvers.highs import HighsOptions
from models.solvers.outcome import Basis, Place
from topologies.errors import NoSchedule
from topologies.exact import FloatArray, Int64Array

FIRST = HighsOptions(method="ipm")
LATER = HighsOptions(method="simplex", strategy="primal", presolve=False)


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees: index of the root's orbit (trees,), parents and epochs as in `pricing`, (trees, N)."""

    root: Int64Array
    parent: Int64Array
    epoch: Int64Array

    def __len__(self) -> int:
        return len(self.root)

    def take(self, chosen: Int64Array) -> Trees:
        """Return some of them."""
        return Trees(self.root[chosen], self.parent[chosen], self.epoch[chosen])

    def plus(self, others: Trees) -> Trees:
        """Return these and others."""
        return Trees(
            np.append(self.root, others.root),
            np.vstack([self.parent, others.parent]),
            np.vstack([self.epoch, others.epoch]),
        )

    def keys(self) -> list[bytes]:
        """Return what tells one from another."""
        both = np.ascontiguousarray(np.hstack([self.root[:, None], self.parent, self.epoch]))
        return [row.tobytes() for row in both]


class Solved(NamedTuple):
    """An optimum over some trees: Σ τ, τ, w, prices of rows and of roots, reduced costs, and its basis."""

    time: float
    lasting: FloatArray
    weight: FloatArray
    price: FloatArray
    worth: FloatArray
    reduced: FloatArray
    basis: Basis | None


class Program:
    """The program over the trees known so far; `rows` as `Lines.rows`, times and sizes in units near 1."""

    def __init__(self, rows: Int64Array, bandwidth: FloatArray, alpha: FloatArray, trees: Trees) -> None:
        self.rows, self.bandwidth = rows, bandwidth
        self.epochs = rows.shape[2]
        self.roots = int(trees.root.max()) + 1
        self.lower = np.concatenate([np.repeat(bandwidth * alpha, self.epochs), np.ones(self.roots)])
        self.upper = np.concatenate([np.full(len(bandwidth) * self.epochs, np.inf), np.ones(self.roots)])
        self.trees, self.known = trees, set(trees.keys())
        self.solved: Solved | None = None

    def used(self, trees: Trees) -> Int64Array:
        """Return the row of each edge: int64 (trees, N), -1 at the root."""
        ranks = np.arange(trees.parent.shape[1])
        rows = self.rows[np.maximum(trees.parent, 0), ranks, np.maximum(trees.epoch, 0)]
        return np.where(trees.parent >= 0, rows, -1)

    def reduced(self, trees: Trees, price: FloatArray, worth: FloatArray) -> FloatArray:
        """Return the reduced cost of trees."""
        return np.append(price, 0.0)[self.used(trees)].sum(axis=1) - worth[trees.root]

    def add(self, trees: Trees) -> int:
        """Add the trees that are not known; return how many."""
        new = []
        for number, key in enumerate(trees.keys()):
            if key not in self.known:
                self.known.add(key)
                new.append(number)
        self.trees = self.trees.plus(trees.take(np.array(new, dtype=np.int64)))
        return len(new)

    def solve(self) -> Solved:
        """Return the optimum over the trees known.

        Raises
        ------
        NoSchedule
            If the solver found none.
        """
        matrix = self._matrix()
        model = CompiledModel.of_matrix(
            "epochs", matrix, np.arange(matrix.shape[1]) < self.epochs, (self.lower, self.upper)
        )
        start = self._start(model)
        outcome = solve(model, "highs", LATER if start else FIRST, start=start).outcome
        if outcome.values is None or outcome.duals is None:
            raise NoSchedule(f"trees in epochs: highs stopped with '{outcome.termination}'")
        price, worth = np.maximum(outcome.duals[: -self.roots], 0.0), outcome.duals[-self.roots :]
        lasting, weight = outcome.values[: self.epochs], outcome.values[self.epochs :]
        reduced = self.reduced(self.trees, price, worth)
        self.solved = Solved(float(lasting.sum()), lasting, weight, price, worth, reduced, outcome.basis)
        return self.solved

    def forget(self, most: int) -> None:
        """Keep the trees of least reduced cost, and all of the basis."""
        solved = self.solved
        if solved is None or solved.basis is None or len(self.trees) <= most:
            return
        places = solved.basis.columns[self.epochs :]
        order = np.argsort(np.where(places == Place.BASIC, -np.inf, solved.reduced), kind="stable")
        basic = int((places == Place.BASIC).sum())
        kept = np.sort(order[: max(most, basic)])
        self.trees, self.known = self.trees.take(kept), set(self.trees.take(kept).keys())
        columns = np.append(solved.basis.columns[: self.epochs], places[kept])
        self.solved = solved._replace(
            weight=solved.weight[kept], reduced=solved.reduced[kept], basis=Basis(columns, solved.basis.rows)
        )

    def _start(self, model: CompiledModel) -> Start | None:
        """Return the last basis, new trees outside."""
        if self.solved is None or self.solved.basis is None:
            return None
        columns = np.full(model.num_columns, Place.LOWER, np.int8)
        columns[: len(self.solved.basis.columns)] = self.solved.basis.columns
        return Start(basis=Basis(columns, self.solved.basis.rows))

    def _matrix(self) -> csr_array:
        used = self.used(self.trees)
        tree, rank = np.nonzero(used >= 0)
        count, epochs = len(self.bandwidth) * self.epochs, np.arange(self.epochs)
        rows = [np.arange(count), used[tree, rank], count + self.trees.root]
        columns = [np.tile(epochs, len(self.bandwidth)), self.epochs + tree]
        columns.append(self.epochs + np.arange(len(self.trees)))
        values = [np.repeat(self.bandwidth, self.epochs), np.full(len(tree), -1.0), np.ones(len(self.trees))]
        shape = (count + self.roots, self.epochs + len(self.trees))
        entries = (np.concatenate(rows), np.concatenate(columns))
        return coo_array((np.concatenate(values), entries), shape=shape).tocsr()
