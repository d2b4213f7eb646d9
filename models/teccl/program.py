r"""TE-CCL's program: flows of chunks over links and epochs, with copies (SIGCOMM 2024, sections 3.1 and 4).

With F[e, c, k] = 1 where chunk c starts over link e = (a, b) in epoch k, which takes d_e epochs and moves at
most n_e chunks (`models.teccl.epochs`), and B[n, c, k] = 1 where rank n has c at the beginning of epoch k:

.. math::

    B_{n, c, k} = B_{n, c, k-1} + \sum_{e \to n} F_{e, c, k - d_e}          \quad &\text{(buffers; once)} \\
    F_{(a, b), c, k} \le B_{a, c, k}                                        \quad &\text{(copies)} \\
    F_{(a, b), c, k} \le \sum_{e \to a} F_{e, c, k - d_e}                   \quad &\text{(without buffers)} \\
    \sum_c F_{e, c, k} \le n_e U_{e, k}, \; \sum_{k - d_e < q \le k} U_{e, q} \le 1 \quad &\text{(capacity)}

U[e, k], whether a send starts, is written out only where d_e > 1 and n_e > 1. Without buffers a rank passes
on what it did not have from the beginning as it arrives, or never. A variable exists only where its chunk can
have come, and, where all must be over by epoch K, can still be of use.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyomo.environ as pyo

from models.teccl.epochs import FAR, Epochs
from topologies.exact import Int64Array

Send = tuple[int, int, int]
"""Link, chunk, epoch."""


@dataclass(frozen=True, eq=False)
class State:
    """Where chunks are and links are free; times are epochs from now, `FAR` for never.

    Parameters
    ----------
    at
        int64, shape (chunks, ranks): from when on each rank has each chunk.
    original
        Whether it had it from the beginning, same shape.
    free
        int64, shape (links,).
    """

    at: Int64Array
    original: Any
    free: Int64Array

    @classmethod
    def start(cls, epochs: Epochs) -> State:
        """Return the beginning."""
        holders = epochs.instance.holders[epochs.instance.item]
        return cls(np.where(holders, 0, FAR), holders, np.zeros(len(epochs.ends), dtype=np.int64))

    def after(self, epochs: Epochs, sends: list[Send], passed: int) -> State:
        """Return what these sends lead to, seen so many epochs later."""
        at, free = self.at.copy(), self.free.copy()
        for link, chunk, epoch in sends:
            end = epoch + epochs.lasts[link]
            at[chunk, epochs.ends[link][1]] = end
            free[link] = max(free[link], end)
        at = np.where(at < FAR, np.maximum(at - passed, 0), FAR)
        return State(at, self.original, np.maximum(free - passed, 0))


@dataclass(frozen=True, eq=False)
class Program:
    """The model of K epochs from a state on.

    Parameters
    ----------
    epochs, state
        The instance, and where it is.
    horizon
        K.
    whole
        Whether all demands must be met by epoch K; else sends start before K and may arrive later.
    buffers
        Whether ranks store and forward.
    """

    epochs: Epochs
    state: State
    horizon: int
    whole: bool = True
    buffers: bool = True

    @cached_property
    def earliest(self) -> Int64Array:
        """int64, shape (chunks, ranks): before which a chunk can not be there."""
        return (self.state.at[:, :, None] + self.epochs.between).min(axis=1)

    @cached_property
    def missing(self) -> list[tuple[int, int]]:
        """(chunk, rank) of all demands that are not met and not under way."""
        return [(c, n) for c, n in self.epochs.wanted if self.state.at[c, n] >= FAR]

    @cached_property
    def left(self) -> Int64Array:
        """int64, shape (chunks, ranks): epochs to the nearest rank that still waits for the chunk."""
        waits = np.zeros(self.state.at.shape, dtype=np.bool_)
        for c, n in self.missing:
            waits[c, n] = True
        return np.where(waits[:, None, :], self.epochs.between, FAR).min(axis=2)

    @cached_property
    def sends(self) -> list[Send]:
        """All that may be sent."""
        found: list[Send] = []
        for e, ((a, b), lasts) in enumerate(zip(self.epochs.ends, self.epochs.lasts, strict=True)):
            for c in np.flatnonzero((self.state.at[:, b] >= FAR) & (self.left[:, b] < FAR)).tolist():
                last = self.horizon - lasts - int(self.left[c, b]) if self.whole else self.horizon - 1
                begin = max(int(self.earliest[c, a]), int(self.state.free[e]))
                found += [(e, c, k) for k in range(begin, last + 1)]
        return found

    @cached_property
    def arrivals(self) -> dict[tuple[int, int, int], list[Any]]:
        """The sends of a chunk that arrive at a rank in an epoch."""
        table: defaultdict[tuple[int, int, int], list[Any]] = defaultdict(list)
        for e, c, k in self.sends:
            table[c, self.epochs.ends[e][1], k + self.epochs.lasts[e]].append(self.m.F[e, c, k])
        return dict(table)

    @cached_property
    def m(self) -> pyo.ConcreteModel:
        """The Pyomo model, with its variables F."""
        m = pyo.ConcreteModel(name="teccl")
        m.F = pyo.Var(self.sends, domain=pyo.Binary)
        return m

    @cached_property
    def last(self) -> int:
        """The last epoch in which anything arrives."""
        return max((k + self.epochs.lasts[e] for e, _, k in self.sends), default=0)

    def build(self) -> pyo.ConcreteModel:
        """Return the model with all constraints, without objective."""
        self._add_buffers()
        self._add_copies()
        self._add_capacity()
        if self.whole:
            self._add_demands()
        return self.m

    def _add_buffers(self) -> None:
        """B[n, c, k] from the first arrival that can be to the last."""
        first: dict[tuple[int, int], int] = {}
        for c, n, k in self.arrivals:
            first[c, n] = min(k, first.get((c, n), k))
        last = self.horizon if self.whole else self.last
        places = [(n, c, k) for (c, n), begin in first.items() for k in range(begin, last + 1)]
        self.m.B = pyo.Var(places, domain=pyo.Binary)
        self.m.buffers = pyo.ConstraintList()
        for n, c, k in places:
            arriving = pyo.quicksum(self.arrivals.get((c, n, k), []))
            self.m.buffers.add(self.m.B[n, c, k] == self.has(c, n, k - 1) + arriving)

    def has(self, chunk: int, rank: int, epoch: int) -> Any:
        """Return B, where it is a variable, else what it is."""
        if (rank, chunk, epoch) in self.m.B:
            return self.m.B[rank, chunk, epoch]
        return int(self.state.at[chunk, rank] <= epoch)

    def _add_copies(self) -> None:
        self.m.copies = pyo.ConstraintList()
        for e, c, k in self.sends:
            a = self.epochs.ends[e][0]
            if self.state.original[c, a]:
                continue
            known = int(self.state.at[c, a])
            if self.buffers:
                available = 1 if known <= k else self.has(c, a, k)
            else:
                available = int(known == k) if known < FAR else pyo.quicksum(self.arrivals.get((c, a, k), []))
            if not isinstance(available, int) or available == 0:
                self.m.copies.add(self.m.F[e, c, k] <= available)

    def _add_capacity(self) -> None:
        started: defaultdict[tuple[int, int], list[Any]] = defaultdict(list)
        for e, c, k in self.sends:
            started[e, k].append(self.m.F[e, c, k])
        bundles = [(e, k) for e, k in started if self.epochs.lasts[e] > 1 and self.epochs.carries[e] > 1]
        self.m.U = pyo.Var(bundles, domain=pyo.Binary)
        self.m.capacity = pyo.ConstraintList()
        for (e, k), sent in started.items():
            lasts, carries = self.epochs.lasts[e], self.epochs.carries[e]
            if (e, k) in self.m.U:
                self.m.capacity.add(pyo.quicksum(sent) <= carries * self.m.U[e, k])
                window = [self.m.U[e, q] for q in range(k - lasts + 1, k + 1) if (e, q) in self.m.U]
                self.m.capacity.add(pyo.quicksum(window) <= 1)
            else:
                window = [x for q in range(k - lasts + 1, k + 1) for x in started.get((e, q), [])]
                self.m.capacity.add(pyo.quicksum(window) <= carries)

    def _add_demands(self) -> None:
        self.m.demands = pyo.ConstraintList()
        for c, n in self.missing:
            place = (n, c, self.horizon)
            self.m.demands.add(self.m.B[place] == 1 if place in self.m.B else pyo.Constraint.Infeasible)

    def add_reward(self, closer: float = 0.0) -> None:
        """Maximize the sum of B[n, c, k] / (k + 1) over demands: what is read early counts longest.

        Parameters
        ----------
        closer
            What it counts besides, of a whole demand's reward in the last epoch, that a chunk has come as
            near as can be: the A* technique's term (section 5). 0: nothing.
        """
        reads = [
            self.m.B[n, c, k] / (k + 1)
            for c, n in self.missing
            for k in range(int(self.earliest[c, n]), self.last + 1)
            if (n, c, k) in self.m.B
        ]
        self.m.reward = pyo.Objective(
            expr=pyo.quicksum(reads) + closer / (self.last + 1) * self._nearness(), sense=pyo.maximize
        )

    def _nearness(self) -> Any:
        """Return for each demand the share of its way that its chunk has come, of those that are not near.

        A chunk that all ranks must have is left out: to come nearer it is read on its way.
        """
        instance = self.epochs.instance
        everyone = np.all(instance.wanters[instance.item], axis=1).tolist()
        self.m.near = pyo.VarList(domain=pyo.Binary)
        self.m.nearness = pyo.ConstraintList()
        terms = []
        for c, n in ((c, n) for c, n in self.missing if not everyone[c]):
            way = self.epochs.between[:, n]
            begin = int(way[self.state.at[c] < FAR].min())
            for reached in sorted({int(w) for w in way if w < begin}):
                ranks = np.flatnonzero(way <= reached).tolist()
                near = self.m.near.add()
                self.m.nearness.add(near <= pyo.quicksum(self.has(c, rank, self.last) for rank in ranks))
                terms.append(near / begin)
        return pyo.quicksum(terms)
