r"""SCCL's program: S steps, C chunks a shard, as few rounds as possible.

Sets::

    CROSSINGS   (e, c, s)   chunk c may cross link e = (a, b) in step s.
    HOLDINGS    (n, c, s)   rank n may have chunk c after step s.
    WANTED      (n, c)      rank n must have chunk c in the end and does not in the beginning.
    LOADS       (e, s)      some chunk may cross link e in step s.

Variables: ``x[e, c, s]``, 1 where chunk c crosses link e in step s; ``has[n, c, s]``, 1 where rank n has
chunk c after step s; ``rounds[s]``, the rounds of step s. Constraints, by their names in the code::

    a_chunk_is_where_it_has_come[n, c, s]      C1, C3:
                                               has[n, c, s] = has[n, c, s-1] + Σ_{e into n} x[e, c, s].
    every_postcondition_is_met[n, c]           C2: has[n, c, S] = 1.
    a_chunk_crosses_after_it_has_come[e, c, s] C4: x[e, c, s] ≤ has[a, c, s-1] for e = (a, b).
    a_link_carries_its_rounds[e, s]            C5: Σ_c x[e, c, s] ≤ b_e rounds[s].
    total_rounds                               C6: Σ_s rounds[s] ≤ R, or ≥ what is proven.

(`models.sccl.search` adds the last, with its objective), with rounds[s] ≥ 1. As has[n, c, s] is at most 1, a
rank receives a chunk once; where n has c from the beginning, has is 1 and no variable, and nothing is sent
there.

Not in the paper: a variable exists only where chunk c can have come to a within s - 1 steps and can still be
of use at b within S - s. That loses no schedule, except for superfluous transfers.

Source: SCCL (Cai et al., Synthesizing Optimal Collective Algorithms, PPoPP 2021), section 3.2, C1 to C6,
which asks an SMT solver.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.environ as pyo

from tutti.models.time_expanded import ChunkInstance
from tutti.topologies.errors import NoSchedule

MOST_PLACES = 10**7
"""Largest number of steps times chunks times links: a program of more would take gigabytes."""


def crossings(instance: ChunkInstance, steps: int) -> int:
    """Return the number of variables x in the program of S steps, without making it."""
    a, b = instance.topology.source, instance.topology.target
    first, last = instance.hops[:, a].astype(np.int64), steps - instance.hops_left[:, b].astype(np.int64)
    each = np.where(instance.holders[:, b], 0, np.maximum(last - first, 0)).sum(axis=1)
    return int(each[instance.item].sum())


def places(instance: ChunkInstance, steps: int) -> int:
    """Return steps times chunks times links; beyond `MOST_PLACES` the program is refused."""
    return instance.topology.num_links * len(instance.item) * steps


def build(instance: ChunkInstance, steps: int) -> pyo.ConcreteModel:
    """Return the program of S steps, without C6 and without an objective.

    Raises
    ------
    NoSchedule
        If it would be too large.
    """
    count = places(instance, steps)
    if count > MOST_PLACES:
        what = f"{steps} steps of {len(instance.item)} chunks on {instance.topology.num_links} links"
        raise NoSchedule(f"sccl: {what} are {count} to decide, over {MOST_PLACES}; ask for fewer")
    m = pyo.ConcreteModel(name="sccl")
    program = _ScclProgram(m, instance, steps)
    program.add_variables()
    program.add_holding()
    program.add_postcondition()
    program.add_causality()
    program.add_capacity()
    return m


class _ScclProgram:
    """The families of constraints of one model, each a function."""

    def __init__(self, m: pyo.ConcreteModel, instance: ChunkInstance, steps: int) -> None:
        self.m, self.instance, self.steps = m, instance, steps
        self.items, self.ends = instance.item.tolist(), instance.ends

    def add_variables(self) -> None:
        """Add x, has and rounds; a step has at most the rounds that send everything over one link."""
        m, instance, steps = self.m, self.instance, self.steps
        hops, left = instance.hops.tolist(), instance.hops_left.tolist()
        moves = [
            (e, c, s)
            for c, item in enumerate(self.items)
            for e, (a, b) in enumerate(self.ends)
            if not instance.holders[item, b]
            for s in range(hops[item][a] + 1, steps - left[item][b] + 1)
        ]
        self.first: dict[tuple[int, int], int] = {}
        for e, c, s in moves:
            place = self.ends[e][1], c
            self.first[place] = min(s, self.first.get(place, s))
        held = [(n, c, s) for (n, c), first in self.first.items() for s in range(first, steps + 1)]
        m.STEPS = pyo.RangeSet(steps)
        m.CROSSINGS = pyo.Set(dimen=3, initialize=moves)
        m.HOLDINGS = pyo.Set(dimen=3, initialize=held)
        m.x = pyo.Var(m.CROSSINGS, domain=pyo.Binary)
        m.rounds = pyo.Var(m.STEPS, domain=pyo.Integers, bounds=(1, len(self.items)))
        m.has = pyo.Var(m.HOLDINGS, domain=pyo.Binary)

    def add_holding(self) -> None:
        """Add C1 and C3: a rank has what it had and what arrives, and each chunk arrives once."""
        m, first = self.m, self.first
        arriving: dict[tuple[int, int, int], list[Any]] = {}
        for (e, c, s), x in m.x.items():
            arriving.setdefault((self.ends[e][1], c, s), []).append(x)

        @m.Constraint(m.HOLDINGS, doc="C1, C3: has[n,c,s] = has[n,c,s-1] + sum of x[e,c,s] over e into n")
        def a_chunk_is_where_it_has_come(m: Any, n: int, c: int, s: int) -> Any:
            before = m.has[n, c, s - 1] if s > first[n, c] else 0
            return m.has[n, c, s] == before + pyo.quicksum(arriving.get((n, c, s), []))

    def add_postcondition(self) -> None:
        """Add C2: after step S every rank has what it must."""
        m = self.m
        m.WANTED = pyo.Set(dimen=2, initialize=[(n, c) for c, n in self.instance.wanted])

        @m.Constraint(m.WANTED, doc="C2: has[n,c,S] = 1")
        def every_postcondition_is_met(m: Any, n: int, c: int) -> Any:
            return m.has[n, c, self.steps] == 1

    def add_causality(self) -> None:
        """Add C4: a chunk crosses a link after the step in which it came to the link's source."""
        m, holders = self.m, self.instance.holders

        @m.Constraint(m.CROSSINGS, doc="C4: x[e,c,s] <= has[a,c,s-1] for e = (a, b)")
        def a_chunk_crosses_after_it_has_come(m: Any, e: int, c: int, s: int) -> Any:
            a = self.ends[e][0]
            return pyo.Constraint.Skip if holders[self.items[c], a] else m.x[e, c, s] <= m.has[a, c, s - 1]

    def add_capacity(self) -> None:
        """Add C5: in a round link e carries b_e chunks."""
        m, capacity = self.m, self.instance.capacity.tolist()
        carried: dict[tuple[int, int], list[Any]] = {}
        for (e, _, s), x in m.x.items():
            carried.setdefault((e, s), []).append(x)
        m.LOADS = pyo.Set(dimen=2, initialize=list(carried))

        @m.Constraint(m.LOADS, doc="C5: sum of x[e,c,s] over c <= b_e rounds[s]")
        def a_link_carries_its_rounds(m: Any, e: int, s: int) -> Any:
            return pyo.quicksum(carried[e, s]) <= capacity[e] * m.rounds[s]
