"""The routing stage (TACCL, section 5.1 and Appendix B.1): a path for every chunk, orders left open.

::

    minimize  time + γ Σ is_util[l]  over links l of switch-hyperedges                      (1), (11)
    time ≥ start[c, r]                              (c, r) in the postcondition             (2)
    start[c, r] = 0                                 (c, r) in the precondition              (3)
    send[c, l] ≥ start[c, src]                      chunk c, link l = (src, r)              (4)
    is_sent[c, l] → start[c, r] = send[c, l] + lat(l)                                       (5)
    time ≥ Σ_c lat(l) is_sent[c, l]                 every link l                            (6)
    time ≥ Σ_c Σ_{l through p} lat(l) is_sent[c, l] every switch port p                     (7), (8)
    is_util[l] ≥ is_sent[c, l];  is_util[l] ≤ Σ_c is_sent[c, l]                             (9), (10)
    start, send, is_sent alike under the symmetry                                           (12), (13), (14)
    Σ_{l into node n} is_sent[c, l] ≥ 1             c starts elsewhere and ends in n        (15)

What the appendix leaves unsaid is added: a rank receives a chunk once, and passes on only what it received.

How it is written here:

* In (4) and (5) send[c, l] = start[c, src] may be taken: orders are open, and sending later helps nobody. So
  start[c, r] ≥ start[c, src] + lat(l) − M (1 − is_sent[c, l]); the equality would only forbid waiting. With
  U an upper bound on the time and L[c, r] the least latency from the start of c to r, start[c, src] ≤ U and
  start[c, r] ≥ L[c, r], so M = U + lat(l) − L[c, r] suffices and no smaller M does.
* (6) to (8): a link counts for what it is held per chunk (`LogicalTopology.hold`). That equals lat where a
  route is one link, and makes `time` a lower bound on every schedule that sends chunks one by one.
* (6) to (8) are also asked of those sends alone that can't be on the port before some h (time ≥ h + what they
  hold it), and of those whose chunk can't be at an end sooner than t after it has left the port, for each h
  and t (but no more than the latency of the farthest end, as the sends may not be made at all). They hold for
  every schedule, do not follow from the rest, and make the bound much better.
* Where all sends take and hold the same, the time is a whole number of them, and so declared.
* (12) to (14) by substitution (`Orbits`).
* (15) asks for a link into the node from anywhere: with two nodes this is the paper's, with more it allows
  relays.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyomo.environ as pyo

from models.taccl.costs import Costs
from models.taccl.deadline import Deadline
from models.taccl.demand import Demand
from models.taccl.orbits import Orbits
from models.taccl.sketch import Policy

SECONDS_A_SEND = 2e-4
"""About what the model takes to build and hand over, for each of its sends."""
WEIGHT = 0.01
"""γ Σ is_util stays below this share of the shortest transfer, so it only decides between equal times."""


@dataclass(frozen=True, eq=False)
class RoutingModel:
    """The model with its data.

    Parameters
    ----------
    costs, orbits
        Of the demand.
    horizon
        U, in `Costs.unit`.
    m
        The Pyomo model.
    """

    costs: Costs
    orbits: Orbits
    horizon: float
    m: Any

    @classmethod
    def of(cls, costs: Costs, horizon: float) -> RoutingModel:
        """Return the model of the routing stage.

        Parameters
        ----------
        costs
            Of the demand.
        horizon
            U: a routing that takes no longer is known.
        """
        model = cls(costs, Orbits(costs.demand), horizon, pyo.ConcreteModel(name="taccl routing"))
        for add in model.parts:
            add()
        return model

    @classmethod
    def within(cls, costs: Costs, horizon: float, deadline: Deadline) -> RoutingModel | None:
        """Return the model, or None if it is too large for the time left or not built by then."""
        model = cls(costs, Orbits(costs.demand), horizon, pyo.ConcreteModel(name="taccl routing"))
        if deadline.over or len(model.sends) * SECONDS_A_SEND > deadline.left:
            return None
        for add in model.parts:
            add()
            if deadline.over:
                return None
        return model

    @property
    def parts(self) -> tuple[Callable[[], None], ...]:
        """What adds to the model, in order."""
        first = (self.add_variables, self.add_times, self.add_paths, self.add_ports)
        return (*first, self.add_nodes, self.add_policies)

    @property
    def demand(self) -> Demand:
        """What is routed."""
        return self.costs.demand

    @cached_property
    def sends(self) -> list[tuple[int, int]]:
        """The representatives of the sends."""
        return _representatives(self.orbits.sent, self.demand.allowed)

    def start(self, c: int, r: int) -> Any:
        """Return start[c, r] (12)."""
        return self.m.start[divmod(int(self.orbits.started[c, r]), self.orbits.started.shape[1])]

    def is_sent(self, c: int, k: int) -> Any:
        """Return is_sent[c, k] (14)."""
        return self.m.is_sent[divmod(int(self.orbits.sent[c, k]), self.orbits.sent.shape[1])]

    def arriving(self, c: int, r: int) -> Any:
        """Return over how many links chunk c comes to rank r."""
        into = self.demand.logical.in_links[r]
        return sum(self.is_sent(c, k) for k in into if self.demand.allowed[c, k])

    def add_variables(self) -> None:
        """Add a variable for each orbit; (3) fixes starts of chunks where they are before."""
        m, head = self.m, self.costs.head.tolist()
        m.SENDS = pyo.Set(initialize=self.sends)
        m.STARTS = pyo.Set(initialize=_representatives(self.orbits.started, np.isfinite(self.costs.head)))
        kind = pyo.Integers if self.costs.alike else pyo.Reals
        m.time = pyo.Var(bounds=(self.costs.least, self.horizon), domain=kind)
        m.start = pyo.Var(m.STARTS, bounds=lambda m, c, r: (head[c][r], self.horizon))
        m.is_sent = pyo.Var(m.SENDS, domain=pyo.Binary)
        for c, rank in enumerate(self.demand.start.tolist()):
            if (c, rank) in m.STARTS:
                m.start[c, rank].fix(0.0)

    def add_times(self) -> None:
        """Add (2), (4) and (5)."""
        m, head, latency = self.m, self.costs.head.tolist(), self.costs.latency
        links = self.demand.logical.links

        @m.Constraint(m.STARTS)
        def the_end_is_after_every_arrival(m: Any, c: int, r: int) -> Any:
            return m.time >= m.start[c, r] if r in self.demand.ends[c] else pyo.Constraint.Skip

        @m.Constraint(m.SENDS)
        def a_chunk_arrives_a_latency_after_it_was_held(m: Any, c: int, k: int) -> Any:
            source, r = links[k].source, links[k].target
            big = self.horizon + latency[k] - head[c][r]
            return self.start(c, r) >= self.start(c, source) + latency[k] - big * (1 - m.is_sent[c, k])

    def add_paths(self) -> None:
        """Add that a rank receives a chunk once, and passes on only what it received."""
        m, demand, links = self.m, self.demand, self.demand.logical.links

        @m.Constraint(m.STARTS)
        def a_rank_receives_a_chunk_once(m: Any, c: int, r: int) -> Any:
            if r == demand.start[c]:
                return pyo.Constraint.Skip
            return self.arriving(c, r) == 1 if r in demand.ends[c] else self.arriving(c, r) <= 1

        @m.Constraint(m.SENDS)
        def a_rank_passes_on_what_it_received(m: Any, c: int, k: int) -> Any:
            r = links[k].source
            if r == demand.start[c] or r in demand.ends[c]:
                return pyo.Constraint.Skip
            return m.is_sent[c, k] <= self.arriving(c, r)

    def add_ports(self) -> None:
        """Add (6), (7) and (8)."""
        self.m.ports_have_time = pyo.ConstraintList()
        count = self.orbits.sent.shape[1]
        for row, free in _port_rows(self.costs, self.orbits):
            held = sum(hold * self.m.is_sent[divmod(i, count)] for i, hold in row)
            self.m.ports_have_time.add(self.m.time >= free + held)

    def add_nodes(self) -> None:
        """Add (15)."""
        self.m.nodes_are_reached = pyo.ConstraintList()
        for c, between in _into_nodes(self.demand):
            self.m.nodes_are_reached.add(sum(self.is_sent(c, k) for k in between) >= 1)

    def add_policies(self) -> None:
        """Add (9) and (10) for the links of switch-hyperedges with a policy, and the objective (11)."""
        m, links, allowed = self.m, self.demand.logical.links, self.demand.allowed
        switched = [k for k, link in enumerate(links) if link.policy is not Policy.FREE]
        sizes = Counter(min(_images(self.demand, k)) for k in switched)
        m.SWITCHED = pyo.Set(initialize=sorted(sizes))
        m.is_util = pyo.Var(m.SWITCHED, domain=pyo.Binary)
        m.used_if_sent, m.unused_if_nothing_sent = pyo.ConstraintList(), pyo.ConstraintList()
        for k in m.SWITCHED:
            variables = (self.is_sent(c, k) for c in np.flatnonzero(allowed[:, k]).tolist())
            sends = {id(variable): variable for variable in variables}
            for send in sends.values():
                m.used_if_sent.add(m.is_util[k] >= send)
            m.unused_if_nothing_sent.add(m.is_util[k] <= sum(sends.values()))
        gamma = WEIGHT / max(1, len(switched))
        sign = {Policy.MIN: gamma, Policy.MAX: -gamma}
        used = sum(sign[links[k].policy] * sizes[k] * m.is_util[k] for k in m.SWITCHED)
        m.duration = pyo.Objective(expr=m.time + used)


def _representatives(orbit: Any, wanted: Any) -> list[tuple[int, int]]:
    width = orbit.shape[1]
    least = orbit == np.arange(orbit.size).reshape(orbit.shape)
    return [divmod(int(i), width) for i in np.flatnonzero((least & wanted).ravel())]


def _port_rows(costs: Costs, orbits: Orbits) -> Iterator[tuple[tuple[tuple[int, float], ...], float]]:
    """Yield the representatives on a port with how long each holds it, and when it can't be used.

    Rows that are the same by symmetry occur once, and of rows with one left side only the tightest.
    """
    tightest: dict[tuple[tuple[int, float], ...], float] = {}
    most = costs.least
    links = costs.demand.logical.links
    source = np.array([link.source for link in links])
    for port in costs.uses:
        chunk, used = np.nonzero(costs.demand.allowed[:, list(port)])
        link = np.array(list(port))[used]
        hold, enter, lag = np.array(list(port.values())).T[:, used]
        sent = orbits.sent[chunk, link]
        for free in (costs.head[chunk, source[link]] + enter, costs.beyond[chunk, link] + lag):
            for least in np.unique(free[np.isfinite(free)]).tolist():
                those = free >= least
                kinds, place = np.unique(sent[those], return_inverse=True)
                held = np.bincount(place.ravel(), weights=hold[those])
                row = tuple(zip(kinds.tolist(), np.round(held, 9).tolist(), strict=True))
                tightest[row] = max(min(least, most), tightest.get(row, 0.0))
    yield from tightest.items()


def _into_nodes(demand: Demand) -> Iterator[tuple[int, list[int]]]:
    """Yield chunks with the links into each node that they do not start in and end in."""
    logical = demand.logical
    into: defaultdict[int, list[int]] = defaultdict(list)
    for k, link in enumerate(logical.links):
        if link.between:
            into[logical.node[link.target]].append(k)
    for c, ends in enumerate(demand.ends):
        for node in sorted({logical.node[r] for r in ends} - {logical.node[demand.start[c]]}):
            yield c, [k for k in into[node] if demand.allowed[c, k]]


def _images(demand: Demand, link: int) -> set[int]:
    """Return the orbit of a link."""
    seen, queue = {link}, [link]
    while queue:
        k = queue.pop()
        for _, links, _ in demand.symmetry:
            if int(links[k]) not in seen:
                seen.add(int(links[k]))
                queue.append(int(links[k]))
    return seen
