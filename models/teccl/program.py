r"""TE-CCL's program: flows of chunks over ways and epochs, with copies (SIGCOMM 2024, sections 3.1 and 4).

With F[e, c, k] = 1 where chunk c starts over way e = (a, b) in epoch k, which takes d_e epochs and moves at
most n_e chunks (`models.teccl.epochs`), and B[n, c, k] = 1 where node n has got c by epoch k:

.. math::

    B_{n, c, k} = B_{n, c, k-1} + \sum_{e \to n} F_{e, c, k - d_e}          \quad &\text{(buffers; once)} \\
    F_{(a, b), c, k} \le B_{a, c, k}                                        \quad &\text{(copies)} \\
    F_{(a, b), c, k} \le \sum_{e \to a} F_{e, c, k - d_e}                   \quad &\text{(without buffers)} \\
    \sum_c F_{e, c, k} \le n_e U_{e, k}, \quad
    \sum_{e, q : e \text{ begun in } q \text{ holds } l \text{ in } k} U_{e, q} \le 1 \quad &\text{(capacity)}

U[e, k], whether a send starts, is written out only where n_e > 1 and a link is held for several epochs or is
shared by ways. Without buffers a rank passes on what it did not have from the beginning as it arrives, or
never; so does a switch that copies. A variable exists only where its chunk can have come, and, where all must
be over by epoch K, can still be of use.

The *cuts* are what the bounds know and the relaxation does not, as there half a chunk may be copied around a
ring until it is whole: of a chunk that some rank outside a set S of nodes must have and none there has,

.. math:: \sum_{a \in S, b \notin S, k} F_{(a, b), c, k} \ge 1,

for S the chunk's holders, and for S the bottleneck cut.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import pyomo.environ as pyo

from models.teccl.epochs import FAR, Epochs
from topologies.exact import FloatArray, Int64Array

Send = tuple[int, int, int]
"""Way, chunk, epoch."""
TERMS = 10
"""Of capacities, that take as long to write as a send."""


@dataclass(frozen=True, eq=False)
class State:
    """Where chunks are and links are free; times are epochs from now, `FAR` for never.

    Parameters
    ----------
    at
        int64, shape (chunks, nodes): from when on each node has each chunk; negative where it has come.
    original
        Whether it had it from the beginning, same shape.
    free
        int64, shape (links,): from when on nothing that was sent before holds each link.
    """

    at: Int64Array
    original: Any
    free: Int64Array

    @classmethod
    def start(cls, epochs: Epochs) -> State:
        """Return the beginning."""
        holders = epochs.instance.holders[epochs.instance.item]
        free = np.full(epochs.instance.topology.num_links, -FAR, dtype=np.int64)
        return cls(np.where(holders, 0, FAR), holders, free)

    def after(self, epochs: Epochs, sends: list[Send], passed: int) -> State:
        """Return what these sends lead to, seen so many epochs later."""
        at, free = self.at.copy(), self.free.copy()
        for way, chunk, epoch in sends:
            at[chunk, epochs.ends[way][1]] = epoch + epochs.lasts[way]
            for link, _, until in epochs.holds[way]:
                free[link] = max(free[link], epoch + until)
        at = np.where(at < FAR, at - passed, FAR)
        return State(at, self.original, free - passed)


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
    cuts
        Whether the inequalities of the bounds are there, where all demands must be met.
    """

    epochs: Epochs
    state: State
    horizon: int
    whole: bool = True
    buffers: bool = True
    cuts: bool = True

    @cached_property
    def earliest(self) -> Int64Array:
        """int64, shape (chunks, nodes): before which a chunk can not be there."""
        at, ranks = self.state.at.copy(), self.epochs.instance.topology.num_ranks
        at[:, ranks:][at[:, ranks:] < 0] = FAR  # a switch has kept nothing
        return (np.maximum(at, 0)[:, :, None] + self.epochs.between).min(axis=1)

    @cached_property
    def missing(self) -> list[tuple[int, int]]:
        """(chunk, rank) of all demands that are not met and not under way."""
        return [(c, n) for c, n in self.epochs.wanted if self.state.at[c, n] >= FAR]

    @cached_property
    def left(self) -> Int64Array:
        """int64, shape (chunks, nodes): epochs to the nearest rank that still waits for the chunk."""
        waits = np.zeros(self.state.at.shape, dtype=np.bool_)
        for c, n in self.missing:
            waits[c, n] = True
        return np.where(waits[:, None, :], self.epochs.between, FAR).min(axis=2)

    @cached_property
    def size(self) -> int:
        """How many sends there are, without listing them; what holds links for long counts for more."""
        holds = [sum(until - first for _, first, until in held) for held in self.epochs.holds]
        return sum(
            len(starts) * (TERMS + min(holds[e], len(starts))) // TERMS for e, _, starts in self._starts()
        )

    @cached_property
    def sends(self) -> list[Send]:
        """All that may be sent."""
        return [(e, c, k) for e, c, starts in self._starts() for k in starts]

    def _starts(self) -> Iterator[tuple[int, int, range]]:
        """Yield the epochs in which each chunk may start over each way."""
        for e, ((a, b), lasts) in enumerate(zip(self.epochs.ends, self.epochs.lasts, strict=True)):
            free = max(int(self.state.free[link]) - first for link, first, _ in self.epochs.holds[e])
            for c in np.flatnonzero((self.state.at[:, b] >= FAR) & (self.left[:, b] < FAR)).tolist():
                last = self.horizon - lasts - int(self.left[c, b]) if self.whole else self.horizon - 1
                yield e, c, range(max(int(self.earliest[c, a]), free), last + 1)

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
            if self.cuts:
                self._add_cuts()
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

    def has(self, chunk: int, node: int, epoch: int) -> Any:
        """Return B, where it is a variable, else what it is."""
        if (node, chunk, epoch) in self.m.B:
            return self.m.B[node, chunk, epoch]
        return int(self.state.at[chunk, node] <= epoch)

    def _add_copies(self) -> None:
        self.m.copies = pyo.ConstraintList()
        for e, c, k in self.sends:
            a = self.epochs.ends[e][0]
            if self.state.original[c, a]:
                continue
            known = int(self.state.at[c, a])
            if self.buffers and a < self.epochs.instance.topology.num_ranks:
                available = 1 if known <= k else self.has(c, a, k)
            else:
                available = int(known == k) if known < FAR else pyo.quicksum(self.arrivals.get((c, a, k), []))
            if not isinstance(available, int) or available == 0:
                self.m.copies.add(self.m.F[e, c, k] <= available)

    def _add_capacity(self) -> None:
        started: defaultdict[tuple[int, int], list[Any]] = defaultdict(list)
        for e, c, k in self.sends:
            started[e, k].append(self.m.F[e, c, k])
        self.m.U = pyo.Var([(e, k) for e, k in started if self._bundles[e]], domain=pyo.Binary)
        self.m.capacity = pyo.ConstraintList()
        over: defaultdict[int, dict[tuple[int, int], tuple[int, Any]]] = defaultdict(dict)
        for (e, k), sent in started.items():
            begun = pyo.quicksum(sent)
            if self._bundles[e]:
                self.m.capacity.add(begun <= self.epochs.carries[e] * self.m.U[e, k])
                begun = self.m.U[e, k]
            for link, first, until in self.epochs.holds[e]:
                over[link][k + first, e] = k + until, begun
        for link, uses in over.items():
            self._add_link(link, uses)

    def _add_link(self, link: int, uses: dict[tuple[int, int], tuple[int, Any]]) -> None:
        """One message at a time: where one enters, no other is there; `uses`: by (enters, way) until when."""
        alone = self._users[link]
        room = 1 if len(alone) > 1 or self._bundles[alone[0]] else self.epochs.carries[alone[0]]
        held: list[tuple[int, Any]] = []
        for now, entering in groupby(sorted(uses), key=lambda use: use[0]):
            held = [(until, begun) for until, begun in held if until > now]
            held += [uses[use] for use in entering]
            self.m.capacity.add(pyo.quicksum(begun for _, begun in held) <= room)

    @cached_property
    def _users(self) -> list[list[int]]:
        """The ways over each link."""
        users: list[list[int]] = [[] for _ in range(self.epochs.instance.topology.num_links)]
        for e, links in enumerate(self.epochs.ways.links):
            for link in links:
                users[link].append(e)
        return users

    @cached_property
    def _bundles(self) -> list[bool]:
        """Of each way, whether a send of several chunks must be told from several sends."""
        return [
            carries > 1
            and any(until - first > 1 or len(self._users[link]) > 1 for link, first, until in held)
            for carries, held in zip(self.epochs.carries, self.epochs.holds, strict=True)
        ]

    def _add_demands(self) -> None:
        self.m.demands = pyo.ConstraintList()
        for c, n in self.missing:
            place = (n, c, self.horizon)
            self.m.demands.add(self.m.B[place] == 1 if place in self.m.B else pyo.Constraint.Infeasible)

    def _add_cuts(self) -> None:
        """Every chunk leaves its holders, and every set of nodes outside of which it must be."""
        self.m.cuts = pyo.ConstraintList()
        sent: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for e, c, k in self.sends:
            sent[c].append((e, k))
        wanted: defaultdict[int, list[int]] = defaultdict(list)
        for c, n in self.missing:
            wanted[c].append(n)
        for c, ranks in wanted.items():
            for inside in self._around(c):
                if inside[ranks].all():
                    continue
                ends = self.epochs.ends
                leaving = [self.m.F[e, c, k] for e, k in sent[c] if inside[ends[e][0]] > inside[ends[e][1]]]
                self.m.cuts.add(pyo.quicksum(leaving) >= 1 if leaving else pyo.Constraint.Infeasible)

    def _around(self, chunk: int) -> list[Any]:
        """Return the sets of nodes, bool each, that hold a chunk whole and are asked to let it out."""
        holding = self.state.at[chunk] < FAR
        sets = [holding]
        for bound in self.epochs.bounds:
            if bound.kind == "cut":
                inside = np.zeros(len(holding), dtype=np.bool_)
                inside[[*bound.certificate["ranks"], *bound.certificate["switches"]]] = True
                sets.append(inside)
        return [inside for inside in sets if inside[holding].all()]

    def add_finish(self, least: int) -> None:
        """Minimize the finish: `least`, and one more for each epoch in which some demand is not met.

        Parameters
        ----------
        least
            No schedule is earlier.
        """
        self.m.late = pyo.Var(range(least, self.horizon), domain=pyo.Binary)
        self.m.lateness = pyo.ConstraintList()
        for k in range(least, self.horizon):
            for c, n in self.missing:
                self.m.lateness.add(self.m.late[k] >= 1 - self.has(c, n, k))
            if k > least:
                self.m.lateness.add(self.m.late[k] <= self.m.late[k - 1])
        self.m.finish = pyo.Objective(expr=least + pyo.quicksum(self.m.late.values()))

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

    def point(self, sends: list[Send], variables: Sequence[Any]) -> FloatArray:
        """Return the value of each variable where these are the sends; `near` is left at 0.

        Parameters
        ----------
        sends
            Legal, and over by the last epoch.
        variables
            Of the built model, in the order of the values.
        """
        lasts, ends = self.epochs.lasts, self.epochs.ends
        has = {(ends[e][1], c): k + lasts[e] for e, c, k in sends}
        values = {id(self.m.F[send]): 1.0 for send in sends}
        values |= {id(self.m.U[e, k]): 1.0 for e, _, k in sends if (e, k) in self.m.U}
        values |= {id(x): 1.0 for (n, c, k), x in self.m.B.items() if has.get((n, c), FAR) <= k}
        if self.m.component("late") is not None:
            finish = max(has.values(), default=0)
            values |= {id(x): 1.0 for k, x in self.m.late.items() if k < finish}
        return np.array([values.get(id(x), 0.0) for x in variables])

    def _nearness(self) -> Any:
        """Return for each demand the share of its way that its chunk has come, of those that are not near.

        A chunk that all ranks must have is left out: to come nearer it is read on its way.
        """
        instance = self.epochs.instance
        ranks = instance.topology.num_ranks
        everyone = np.all(instance.wanters[instance.item, :ranks], axis=1).tolist()
        self.m.near = pyo.VarList(domain=pyo.Binary)
        self.m.nearness = pyo.ConstraintList()
        terms = []
        for c, n in ((c, n) for c, n in self.missing if not everyone[c]):
            way = self.epochs.between[:ranks, n]
            begin = int(way[self.state.at[c, :ranks] < FAR].min())
            for reached in sorted({int(w) for w in way if w < begin}):
                nodes = np.flatnonzero(way <= reached).tolist()
                near = self.m.near.add()
                self.m.nearness.add(near <= pyo.quicksum(self.has(c, node, self.last) for node in nodes))
                terms.append(near / begin)
        return pyo.quicksum(terms)
