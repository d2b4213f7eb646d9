r"""TE-CCL's program: flows of chunks over routes and epochs, with copies.

Sets::

    TRANSFERS   (e, c, k)   chunk c may start over route e = (a, b) in epoch k.
    HOLDINGS    (n, c, k)   node n may have got chunk c by epoch k.
    MESSAGES    (e, k)      a message over route e may begin in epoch k and carry several chunks.
    SLOTS       (l, k)      some message may enter link l in epoch k.
    MISSING     (c, n)      rank n needs chunk c and it is not under way.

Variables: ``F[e, c, k]``, 1 where chunk c starts over route e in epoch k; it takes d_e epochs, and a message
carries at most n_e chunks (`models.teccl.epochs`). ``B[n, c, k]``, 1 where node n has got chunk c by epoch k.
``U[e, k]``, 1 where a message begins over route e in epoch k; it is written out only where n_e > 1 and a link
is held for several epochs or is shared by routes. Constraints (SIGCOMM 2024, sections 3.1 and 4), by their
names in the code::

    a_node_has_what_has_come[n, c, k]            B[n, c, k] = B[n, c, k-1] + Σ_{e into n} F[e, c, k - d_e].
    a_chunk_is_sent_after_it_has_come[e, c, k]   F[e, c, k] ≤ B[a, c, k].                       (copies)
    a_chunk_is_passed_on_as_it_arrives[e, c, k]  F[e, c, k] ≤ Σ_{e' into a} F[e', c, k - d_e']. (no buffers)
    a_message_carries_its_chunks[e, k]           Σ_c F[e, c, k] ≤ n_e U[e, k].                  (capacity)
    a_link_holds_one_message[l, k]               Σ U[e, q] ≤ 1 of messages that hold l in k.    (capacity)
    every_demand_is_met[c, n]                    B[n, c, K] = 1.                                (demands)

B ≤ 1 says that a node gets a chunk once. Without buffers a rank passes on what it did not have from the
beginning as it arrives, or never; so does a switch that copies. Where U is not written out, Σ_c F[e, c, k]
stands for it, and n_e is replaced by 1. A variable exists only where its chunk can have come and, if all must
have arrived by epoch K, can still be of use.

The objective is the paper's reward (`TecclProgram.add_reward`), or the finish (`TecclProgram.add_finish`),
or none.

Not in the paper (`TecclProgram.add_valid_inequalities`): the relaxation is weaker than the lower bounds, as
half a chunk may be copied around a ring in it until it is whole. A chunk that some rank outside a set S of
nodes must have and none there has leaves S at least once::

    a_chunk_leaves_what_holds_it[c, S]          Σ_{a in S, b not in S, k} F[(a, b), c, k] ≥ 1

for S the holders of c, and for S the bottleneck cut. And (`TecclProgram.add_finish`) late epochs come first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import pyomo.environ as pyo

from tutti.models.teccl.epochs import FAR, Epochs, Transfer
from tutti.topologies.exact import BoolArray, FloatArray, Int64Array


@dataclass(frozen=True, eq=False)
class EpochState:
    """The state of chunks and links; times are epochs from now, `FAR` for never.

    Parameters
    ----------
    at
        int64, shape (chunks, nodes): the epoch from which each node has each chunk; negative where it has
        come.
    original
        bool, same shape: whether it had it from the beginning.
    free
        int64, shape (links,): the epoch from which nothing that was sent before holds each link.
    """

    at: Int64Array
    original: BoolArray
    free: Int64Array

    @classmethod
    def start(cls, epochs: Epochs) -> EpochState:
        """Return the state at the beginning."""
        holders = epochs.instance.held
        free = np.full(epochs.instance.topology.num_links, -FAR, dtype=np.int64)
        return cls(np.where(holders, 0, FAR), holders, free)

    def after(self, epochs: Epochs, transfers: Iterable[Transfer], passed: int) -> EpochState:
        """Return the state after these transfers, `passed` epochs later."""
        at, free = self.at.copy(), self.free.copy()
        for route, chunk, epoch in transfers:
            at[chunk, epochs.ends[route][1]] = epoch + epochs.lasts[route]
            for held in epochs.holds[route]:
                free[held.link] = max(free[held.link], epoch + held.until)
        at = np.where(at < FAR, at - passed, FAR)
        return EpochState(at, self.original, free - passed)


@dataclass(frozen=True, eq=False)
class TecclProgram:
    """The model of K epochs from a state on.

    Parameters
    ----------
    epochs, state
        The instance and its state.
    horizon
        K.
    whole
        Whether all demands must be met by epoch K; else transfers start before K and may arrive later.
    buffers
        Whether ranks store and forward.
    cuts
        Whether the valid inequalities are added, if all demands must be met.
    """

    epochs: Epochs
    state: EpochState
    horizon: int
    whole: bool = True
    buffers: bool = True
    cuts: bool = True

    # What may happen, before anything is written.

    @cached_property
    def earliest(self) -> Int64Array:
        """int64, shape (chunks, nodes): the first epoch in which a chunk can be there."""
        at, ranks = self.state.at.copy(), self.epochs.instance.topology.num_ranks
        at[:, ranks:][at[:, ranks:] < 0] = FAR  # a switch has kept nothing
        return (np.maximum(at, 0)[:, :, None] + self.epochs.between).min(axis=1)

    @cached_property
    def missing(self) -> list[tuple[int, int]]:
        """(chunk, rank) of all demands that are not met and not under way."""
        return [(c, n) for c, n in self.epochs.instance.wanted if self.state.at[c, n] >= FAR]

    @cached_property
    def left(self) -> Int64Array:
        """int64, shape (chunks, nodes): epochs to the nearest rank that still waits for the chunk."""
        waits = np.zeros(self.state.at.shape, dtype=np.bool_)
        for c, n in self.missing:
            waits[c, n] = True
        return np.where(waits[:, None, :], self.epochs.between, FAR).min(axis=2)

    @cached_property
    def size(self) -> int:
        """The number of transfers, without listing them; ten terms of capacity rows count as one."""
        holds = [sum(held.until - held.enters for held in links) for links in self.epochs.holds]
        return sum(len(starts) * (10 + min(holds[e], len(starts))) // 10 for e, _, starts in self._starts())

    @cached_property
    def transfers(self) -> list[tuple[int, int, int]]:
        """(route, chunk, epoch) of all that may be sent."""
        return [(e, c, k) for e, c, starts in self._starts() for k in starts]

    def _starts(self) -> Iterator[tuple[int, int, range]]:
        """Yield the epochs in which each chunk may start over each route."""
        for e, ((a, b), lasts) in enumerate(zip(self.epochs.ends, self.epochs.lasts, strict=True)):
            free = max(int(self.state.free[held.link]) - held.enters for held in self.epochs.holds[e])
            for c in np.flatnonzero((self.state.at[:, b] >= FAR) & (self.left[:, b] < FAR)).tolist():
                last = self.horizon - lasts - int(self.left[c, b]) if self.whole else self.horizon - 1
                yield e, c, range(max(int(self.earliest[c, a]), free), last + 1)

    @cached_property
    def arrivals(self) -> dict[tuple[int, int, int], list[Any]]:
        """F of the transfers of chunk c that arrive at node n in epoch k, by (n, c, k)."""
        table: defaultdict[tuple[int, int, int], list[Any]] = defaultdict(list)
        for (e, c, k), sent in self.m.F.items():
            table[self.epochs.ends[e][1], c, k + self.epochs.lasts[e]].append(sent)
        return dict(table)

    @cached_property
    def last(self) -> int:
        """The last epoch in which anything arrives."""
        return max((k + self.epochs.lasts[e] for e, _, k in self.transfers), default=0)

    @cached_property
    def _routes_over(self) -> list[list[int]]:
        """The routes over each link."""
        table: list[list[int]] = [[] for _ in range(self.epochs.instance.topology.num_links)]
        for e, links in enumerate(self.epochs.routes.links):
            for link in links:
                table[link].append(e)
        return table

    @cached_property
    def _bundles(self) -> list[bool]:
        """For each route, whether a message of several chunks differs from several messages."""
        return [
            carries > 1 and any(h.until - h.enters > 1 or len(self._routes_over[h.link]) > 1 for h in held)
            for carries, held in zip(self.epochs.carries, self.epochs.holds, strict=True)
        ]

    # The paper's model.

    @cached_property
    def m(self) -> pyo.ConcreteModel:
        """The Pyomo model, with its variables F."""
        m = pyo.ConcreteModel(name="teccl")
        m.TRANSFERS = pyo.Set(dimen=3, initialize=self.transfers)
        m.F = pyo.Var(m.TRANSFERS, domain=pyo.Binary)
        return m

    def build(self) -> pyo.ConcreteModel:
        """Return the model with all constraints, without objective."""
        self.add_buffers()
        self.add_copies()
        self.add_capacity()
        if self.whole:
            self.add_demands()
            if self.cuts:
                self.add_valid_inequalities()
        return self.m

    def add_buffers(self) -> None:
        """Add B, from the first arrival that can be to the last: a node has what it had and what arrives."""
        m, arrivals = self.m, self.arrivals
        first: dict[tuple[int, int], int] = {}
        for n, c, k in arrivals:
            first[n, c] = min(k, first.get((n, c), k))
        last = self.horizon if self.whole else self.last
        held = [(n, c, k) for (n, c), begin in first.items() for k in range(begin, last + 1)]
        m.HOLDINGS = pyo.Set(dimen=3, initialize=held)
        m.B = pyo.Var(m.HOLDINGS, domain=pyo.Binary)

        @m.Constraint(m.HOLDINGS, doc="buffers: B[n,c,k] = B[n,c,k-1] + sum of F[e,c,k-d_e] over e into n")
        def a_node_has_what_has_come(m: Any, n: int, c: int, k: int) -> Any:
            return m.B[n, c, k] == self.has(c, n, k - 1) + pyo.quicksum(arrivals.get((n, c, k), []))

    def has(self, chunk: int, node: int, epoch: int) -> Any:
        """Return B where it is a variable, else its value."""
        if (node, chunk, epoch) in self.m.B:
            return self.m.B[node, chunk, epoch]
        return int(self.state.at[chunk, node] <= epoch)

    def add_copies(self) -> None:
        """Add that a chunk is sent after it has come; without buffers, and by switches, as it arrives."""
        m, ends, arrivals = self.m, self.epochs.ends, self.arrivals
        at, original = self.state.at.tolist(), self.state.original.tolist()
        stores = self.epochs.instance.topology.num_ranks if self.buffers else 0

        @m.Constraint(m.TRANSFERS, doc="copies: F[e,c,k] <= B[a,c,k] for e = (a, b), a a rank that stores")
        def a_chunk_is_sent_after_it_has_come(m: Any, e: int, c: int, k: int) -> Any:
            a = ends[e][0]
            if a >= stores or original[c][a] or at[c][a] <= k:
                return pyo.Constraint.Skip
            return m.F[e, c, k] <= self.has(c, a, k)

        @m.Constraint(m.TRANSFERS, doc="copies: F[e,c,k] <= sum of F[e',c,k-d_e'] over e' into a")
        def a_chunk_is_passed_on_as_it_arrives(m: Any, e: int, c: int, k: int) -> Any:
            a = ends[e][0]
            if a < stores or original[c][a] or at[c][a] == k:
                return pyo.Constraint.Skip
            arriving = [] if at[c][a] < FAR else arrivals.get((a, c, k), [])
            return m.F[e, c, k] <= pyo.quicksum(arriving)

    def add_capacity(self) -> None:
        """Add that a message carries its chunks, and that a link holds one message at a time."""
        m, carries = self.m, self.epochs.carries
        started: defaultdict[tuple[int, int], list[Any]] = defaultdict(list)
        for (e, _, k), sent in m.F.items():
            started[e, k].append(sent)
        m.MESSAGES = pyo.Set(dimen=2, initialize=[(e, k) for e, k in started if self._bundles[e]])
        m.U = pyo.Var(m.MESSAGES, domain=pyo.Binary)

        @m.Constraint(m.MESSAGES, doc="capacity: sum of F[e,c,k] over c <= n_e U[e,k]")
        def a_message_carries_its_chunks(m: Any, e: int, k: int) -> Any:
            return pyo.quicksum(started[e, k]) <= carries[e] * m.U[e, k]

        slots = self._slots(
            {
                (e, k): m.U[e, k] if self._bundles[e] else pyo.quicksum(sent)
                for (e, k), sent in started.items()
            }
        )
        m.SLOTS = pyo.Set(dimen=2, initialize=list(slots))

        @m.Constraint(m.SLOTS, doc="capacity: sum of U[e,q] over messages that hold link l in epoch k <= 1")
        def a_link_holds_one_message(m: Any, link: int, k: int) -> Any:
            only = self._routes_over[link][0]
            alone = len(self._routes_over[link]) == 1 and not self._bundles[only]
            return pyo.quicksum(slots[link, k]) <= (carries[only] if alone else 1)

    def _slots(self, begun: dict[tuple[int, int], Any]) -> dict[tuple[int, int], list[Any]]:
        """Return what may hold each link in each epoch in which a message enters it, by (link, epoch).

        Parameters
        ----------
        begun
            Whether a message begins, by (route, epoch).
        """
        uses: defaultdict[int, list[tuple[int, int, int, Any]]] = defaultdict(list)
        for (e, k), begins in begun.items():
            for held in self.epochs.holds[e]:
                uses[held.link].append((k + held.enters, e, k + held.until, begins))
        slots = {}
        for link, entries in uses.items():
            holding: list[tuple[int, Any]] = []
            entries.sort(key=lambda use: use[:2])
            for now, entering in groupby(entries, key=lambda use: use[0]):
                holding = [(until, begins) for until, begins in holding if until > now]
                holding += [(until, begins) for _, _, until, begins in entering]
                slots[link, now] = [begins for _, begins in holding]
        return slots

    def add_demands(self) -> None:
        """Add that every demand is met by epoch K."""
        m = self.m
        m.MISSING = pyo.Set(dimen=2, initialize=self.missing)

        @m.Constraint(m.MISSING, doc="demands: B[n,c,K] = 1")
        def every_demand_is_met(m: Any, c: int, n: int) -> Any:
            place = (n, c, self.horizon)
            return m.B[place] == 1 if place in m.B else pyo.Constraint.Infeasible

    def add_reward(self, closer: float = 0.0) -> None:
        """Maximize the sum of B[n, c, k] / (k + 1) over demands: what is read early counts longest.

        Parameters
        ----------
        closer
            Reward for a chunk that has come as near as possible, as a fraction of a whole demand's reward in
            the last epoch: the A* technique's term (section 5). 0: none.
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
        """Return for each demand the fraction of its route that its chunk has covered.

        Chunks that all ranks must have are left out: to come nearer, such a chunk is read on its route.
        """
        m, instance = self.m, self.epochs.instance
        ranks = instance.topology.num_ranks
        everyone = np.all(instance.wanters[instance.item, :ranks], axis=1).tolist()
        farthest: dict[tuple[int, int, int], int] = {}
        for c, n in self.missing:
            if not everyone[c]:
                far = self.epochs.between[:ranks, n]
                begin = int(far[self.state.at[c, :ranks] < FAR].min())
                farthest |= {(c, n, reached): begin for reached in sorted({int(w) for w in far if w < begin})}
        m.NEARER = pyo.Set(dimen=3, initialize=list(farthest))
        m.near = pyo.Var(m.NEARER, domain=pyo.Binary)

        @m.Constraint(m.NEARER, doc="A*: near[c,n,w] <= sum of B[n',c,last] over n' within w epochs of n")
        def a_chunk_is_near_where_a_node_has_it(m: Any, c: int, n: int, within: int) -> Any:
            nodes = np.flatnonzero(self.epochs.between[:ranks, n] <= within).tolist()
            return m.near[c, n, within] <= pyo.quicksum(self.has(c, node, self.last) for node in nodes)

        return pyo.quicksum(m.near[place] / begin for place, begin in farthest.items())

    # What is added to the paper's model.

    def add_valid_inequalities(self) -> None:
        """Add that every chunk leaves its holders, and every cut if it is only on its inner side."""
        m, ends = self.m, self.epochs.ends
        wanted: defaultdict[int, list[int]] = defaultdict(list)
        for c, n in self.missing:
            wanted[c].append(n)
        sets = {
            (c, name): inside
            for c, ranks in wanted.items()
            for name, inside in self._around(c).items()
            if not inside[ranks].all()
        }
        sent: defaultdict[int, list[tuple[int, Any]]] = defaultdict(list)
        for (e, c, _), starts in m.F.items():
            sent[c].append((e, starts))
        m.LEFT_SETS = pyo.Set(dimen=2, initialize=list(sets))

        @m.Constraint(m.LEFT_SETS, doc="cuts: sum of F[e,c,k] over e out of a set that holds chunk c >= 1")
        def a_chunk_leaves_what_holds_it(m: Any, c: int, name: str) -> Any:
            inside = sets[c, name]
            leaving = [starts for e, starts in sent[c] if inside[ends[e][0]] > inside[ends[e][1]]]
            return pyo.quicksum(leaving) >= 1 if leaving else pyo.Constraint.Infeasible

    def _around(self, chunk: int) -> dict[str, BoolArray]:
        """Return the sets of nodes, bool each, that hold a chunk whole and that it must leave."""
        holding = self.state.at[chunk] < FAR
        sets = {"holders": holding}
        for bound in self.epochs.bounds:
            if bound.kind == "cut":
                inside = np.zeros(len(holding), dtype=np.bool_)
                inside[[*bound.certificate["ranks"], *bound.certificate["switches"]]] = True
                sets[f"cut {len(sets)}"] = inside
        return {name: inside for name, inside in sets.items() if inside[holding].all()}

    def add_finish(self, least: int) -> None:
        """Minimize the finish: `least`, and one more for each epoch in which some demand is not met.

        The paper has the reward only. That late epochs come first follows from B, which does not fall; it
        cuts off solutions that differ only in the order of epochs.

        Parameters
        ----------
        least
            Epochs that no schedule beats.
        """
        m = self.m
        m.EPOCHS = pyo.RangeSet(least, self.horizon - 1)
        m.late = pyo.Var(m.EPOCHS, domain=pyo.Binary)

        @m.Constraint(m.EPOCHS, m.MISSING, doc="finish: late[k] >= 1 - B[n,c,k]")
        def an_epoch_is_late_while_a_demand_is_not_met(m: Any, k: int, c: int, n: int) -> Any:
            return m.late[k] >= 1 - self.has(c, n, k)

        @m.Constraint(m.EPOCHS, doc="finish: late[k] <= late[k-1]")
        def late_epochs_come_first(m: Any, k: int) -> Any:
            return pyo.Constraint.Skip if k == least else m.late[k] <= m.late[k - 1]

        m.finish = pyo.Objective(expr=least + pyo.quicksum(m.late.values()))

    # A schedule that is known, as values of the variables.

    def point(self, transfers: Sequence[Transfer], variables: Sequence[Any]) -> FloatArray:
        """Return the value of each variable where these are the transfers; `near` is left at 0.

        Parameters
        ----------
        transfers
            Legal, and with the last arrival in the last epoch at most.
        variables
            The built model's, in the order of the values.
        """
        lasts, ends = self.epochs.lasts, self.epochs.ends
        has = {(ends[e][1], c): k + lasts[e] for e, c, k in transfers}
        values = {id(self.m.F[e, c, k]): 1.0 for e, c, k in transfers}
        values |= {id(self.m.U[e, k]): 1.0 for e, _, k in transfers if (e, k) in self.m.U}
        values |= {id(x): 1.0 for (n, c, k), x in self.m.B.items() if has.get((n, c), FAR) <= k}
        if self.m.component("late") is not None:
            finish = max(has.values(), default=0)
            values |= {id(x): 1.0 for k, x in self.m.late.items() if k < finish}
        return np.array([values.get(id(x), 0.0) for x in variables])
