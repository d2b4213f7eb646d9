"""The routing stage (TACCL, section 5.1 and Appendix B.1): a path for every chunk, orders left open.

Sets::

    TRANSFERS    (c, l)   Chunk c may cross logical link l = (src, r).
    ARRIVALS     (c, r)   Chunk c may come to rank r.
    ENDS         (c, r)   Of these, rank r must have chunk c: the postcondition.
    RECEIPTS     (c, r)   One for each set of variables by which a chunk may come to a rank.
    PASSES       (c, l)   One for each transfer with such a set at its source.
    PORTS        p        A link of the network that several logical links may pass (`models.taccl.logical`).
    SWITCHED     l        A link of a switch-hyperedge with a policy.
    INTO_HOSTS   (c, h)   Chunk c starts outside host h and ends in it.

Variables: ``time``; ``start[c, r]``, when chunk c is at rank r; ``is_sent[c, l]``, 1 where chunk c crosses
link l; ``is_util[l]``, 1 where any chunk does. The paper's program, by the names in the code::

    duration       minimize time + γ Σ is_util[l]                                           (1), (11)
    the_end_is_after_every_arrival[c, r]              time ≥ start[c, r]                    (2)
    start[c, r] = 0, fixed, where (c, r) is in the precondition                             (3)

    a_chunk_arrives_a_latency_after_it_was_held[c, l]                                       (4), (5)
                   is_sent[c, l] → start[c, r] = send[c, l] + lat(l),  send[c, l] ≥ start[c, src]

    a_port_has_time_for_its_transfers[p]              time ≥ Σ_c Σ_{l through p} hold(l, p) is_sent[c, l]
                                                                                            (6), (7), (8)

    a_link_with_a_transfer_is_used[l, c]              is_util[l] ≥ is_sent[c, l]            (9)
    a_used_link_has_a_transfer[l]                     is_util[l] ≤ Σ_c is_sent[c, l]        (10)

    start, send, is_sent are equal under the symmetry, by substitution (`Orbits`)           (12), (13), (14)
    a_host_is_reached[c, h]                           Σ_{l into host h} is_sent[c, l] ≥ 1   (15)

How it is written here:

* In (4) and (5) send[c, l] = start[c, src] may be taken, as orders are open and sending later never helps. So
  start[c, r] ≥ start[c, src] + lat(l) − M (1 − is_sent[c, l]); the equality would only forbid waiting. Let U
  be an upper bound on the time, and L[c, r] the least latency from the start of c to r. Then start[c, src] ≤
  U and start[c, r] ≥ L[c, r], so M = U + lat(l) − L[c, r] suffices and no smaller M does.
* (6) to (8) are one family. A link that one logical link passes is a port, and a switched source or
  destination is a port that all its switched links pass. A link counts for the time that a chunk holds it
  (`LogicalTopology.hold`). That equals lat where a route is one link, and makes `time` a lower bound on every
  schedule that sends chunks one by one.
* Where all transfers take and hold the same time, `time` is a whole number of them, and so declared.
* (15) asks for a link into the host from anywhere. With two hosts this is the paper's, with more it allows
  relays.

What the appendix leaves unsaid (`RoutingModel.add_paths`)::

    a_rank_receives_a_chunk_once[c, r]                Σ_{l into r} is_sent[c, l] = 1 at an end, ≤ 1 elsewhere
    a_rank_passes_on_what_it_received[c, l]           is_sent[c, l] ≤ Σ_{l' into src} is_sent[c, l']

What is added (`RoutingModel.add_valid_inequalities`) is (6) to (8) for late and for early transfers alone.
Transfers that can't be on port p before h have only the time from h on. Those whose chunk can't be at an end
sooner than t after it has left the port have only the time until then. But h and t count no more than the
latency of the farthest end, as the transfers may not be made at all::

    late_transfers_have_time[p, h]    time ≥ h + Σ hold(l, p) is_sent[c, l] over those late by h
    early_transfers_have_time[p, t]   time ≥ t + Σ hold(l, p) is_sent[c, l] over those early by t

They hold for every schedule, do not follow from the rest, and make the bound much better.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyomo.environ as pyo

from tutti.models.taccl.costs import Costs
from tutti.models.taccl.demand import ChunkDemand
from tutti.models.taccl.sketch import Policy
from tutti.models.taccl.solving import NEVER, Deadline
from tutti.topologies.exact import BoolArray, FloatArray, Int64Array
from tutti.topologies.graphs.symmetry import orbits_of

WEIGHT = 0.01
"""γ Σ is_util stays below this share of the shortest transfer, so it only decides between equal times."""


@dataclass(frozen=True, eq=False)
class Orbits:
    """Variables that the symmetry makes equal are one variable (12 to 14).

    For permutations of chunks, links and ranks, is_sent[c, l] and is_sent[ĉ, l̂] are in one orbit if the link
    is within a subset of the permutation's partition; start[c, r] and start[ĉ, r̂] are in another. The
    representative of an orbit is its least pair.

    Parameters
    ----------
    demand
        The demand, with the permutations.
    """

    demand: ChunkDemand

    @cached_property
    def sent(self) -> Int64Array:
        """int64 (chunks, links): c · links + l of the representative of each pair."""
        count, symmetry = len(self.demand.logical.links), self.demand.symmetry
        return self._orbits([(p.chunks, p.links, p.tied) for p in symmetry], count)

    @cached_property
    def started(self) -> Int64Array:
        """int64 (chunks, ranks): c · ranks + r of the representative of each pair."""
        count, symmetry = self.demand.logical.topology.num_ranks, self.demand.symmetry
        return self._orbits([(p.chunks, p.ranks, np.ones(count, np.bool_)) for p in symmetry], count)

    def _orbits(self, images: list[tuple[Int64Array, Int64Array, BoolArray]], count: int) -> Int64Array:
        pairs = np.arange(len(self.demand) * count).reshape(-1, count)
        if not images:
            return pairs
        maps = [
            np.where(tied, chunks[:, None] * count + image[None, :], pairs).ravel()
            for chunks, image, tied in images
        ]
        return orbits_of(np.array(maps), pairs.size).astype(np.int64).reshape(pairs.shape)

    def of_link(self, link: int) -> set[int]:
        """Return the orbit of a link."""
        seen, queue = {link}, [link]
        for k in queue:
            images = {int(permuted.links[k]) for permuted in self.demand.symmetry if permuted.tied[k]}
            queue += sorted(images - seen)
            seen |= images
        return seen


@dataclass(frozen=True, eq=False)
class RoutingModel:
    """The model with its data.

    Parameters
    ----------
    costs
        The costs of the demand's transfers.
    horizon
        U, in `Costs.unit`: a routing that takes no longer is known.
    """

    costs: Costs
    horizon: float

    @cached_property
    def m(self) -> Any:
        """The Pyomo model."""
        return pyo.ConcreteModel(name="taccl routing")

    @cached_property
    def orbits(self) -> Orbits:
        """The variables that are the same by symmetry."""
        return Orbits(self.demand)

    def build(self, deadline: Deadline = NEVER) -> Any:
        """Return the whole model, or None if it is too large for the time left or not built by then."""
        # A transfer takes 0.2 ms to be built and handed over (measured on two DGX-2 with dgx2-sk-2).
        if deadline.over or len(self.transfers) * 2e-4 > deadline.left:
            return None
        for add in (
            self.add_variables,
            self.add_times,
            self.add_paths,
            self.add_ports,
            self.add_valid_inequalities,
            self.add_hosts,
            self.add_policies,
        ):
            add()
            if deadline.over:
                return None
        return self.m

    @property
    def demand(self) -> ChunkDemand:
        """The chunks that are routed."""
        return self.costs.demand

    @cached_property
    def transfers(self) -> list[tuple[int, int]]:
        """The representatives of the transfers, (chunk, link)."""
        return _representatives(self.orbits.sent, self.demand.allowed)

    def start(self, c: int, r: int) -> Any:
        """Return start[c, r] (12)."""
        return self.m.start[divmod(int(self.orbits.started[c, r]), self.orbits.started.shape[1])]

    def is_sent(self, c: int, k: int) -> Any:
        """Return is_sent[c, k] (14)."""
        return self.m.is_sent[divmod(int(self.orbits.sent[c, k]), self.orbits.sent.shape[1])]

    def arriving(self, c: int, r: int) -> Any:
        """Return the number of links over which chunk c comes to rank r."""
        into = self.demand.logical.in_links[r]
        return sum(self.is_sent(c, k) for k in into if self.demand.allowed[c, k])

    # The paper's model, and what its appendix leaves unsaid.

    def add_variables(self) -> None:
        """Add a variable for each orbit. By (3), chunks start at 0 where they already are."""
        m, head, ends = self.m, self.costs.head.tolist(), self.demand.ends
        arrivals = _representatives(self.orbits.started, np.isfinite(self.costs.head))
        m.TRANSFERS = pyo.Set(dimen=2, initialize=self.transfers)
        m.ARRIVALS = pyo.Set(dimen=2, initialize=arrivals)
        m.ENDS = pyo.Set(dimen=2, within=m.ARRIVALS, initialize=[(c, r) for c, r in arrivals if r in ends[c]])
        kind = pyo.Integers if self.costs.alike else pyo.Reals
        m.time = pyo.Var(bounds=(self.costs.least, self.horizon), domain=kind)
        m.start = pyo.Var(m.ARRIVALS, bounds=lambda m, c, r: (head[c][r], self.horizon))
        m.is_sent = pyo.Var(m.TRANSFERS, domain=pyo.Binary)
        for c, rank in enumerate(self.demand.start.tolist()):
            if (c, rank) in m.ARRIVALS:
                m.start[c, rank].fix(0.0)

    def add_times(self) -> None:
        """Add (2), (4) and (5)."""
        m, head, latency = self.m, self.costs.head.tolist(), self.costs.latency
        links = self.demand.logical.links

        @m.Constraint(m.ENDS, doc="(2): time >= start[c,r]")
        def the_end_is_after_every_arrival(m: Any, c: int, r: int) -> Any:
            return m.time >= m.start[c, r]

        @m.Constraint(m.TRANSFERS, doc="(4), (5): is_sent[c,l] -> start[c,r] >= start[c,src] + lat(l)")
        def a_chunk_arrives_a_latency_after_it_was_held(m: Any, c: int, k: int) -> Any:
            source, r = links[k].source, links[k].target
            big = self.horizon + latency[k] - head[c][r]
            return self.start(c, r) >= self.start(c, source) + latency[k] - big * (1 - m.is_sent[c, k])

    def add_paths(self) -> None:
        """Add what is unsaid: a rank receives a chunk once, and passes on only what it received."""
        m, demand, links = self.m, self.demand, self.demand.logical.links

        m.RECEIPTS, m.PASSES = (pyo.Set(dimen=2, initialize=pairs) for pairs in self._distinct())

        @m.Constraint(m.RECEIPTS, doc="unsaid: sum of is_sent[c,l] over l into r = 1 at an end, else <= 1")
        def a_rank_receives_a_chunk_once(m: Any, c: int, r: int) -> Any:
            if r == demand.start[c]:
                return pyo.Constraint.Skip
            return self.arriving(c, r) == 1 if r in demand.ends[c] else self.arriving(c, r) <= 1

        @m.Constraint(m.PASSES, doc="unsaid: is_sent[c,l] <= sum of is_sent[c,l'] over l' into src")
        def a_rank_passes_on_what_it_received(m: Any, c: int, k: int) -> Any:
            r = links[k].source
            if r == demand.start[c] or r in demand.ends[c]:
                return pyo.Constraint.Skip
            return self.is_sent(c, k) <= self.arriving(c, r)

    def _distinct(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Return RECEIPTS and PASSES: links between subsets are not tied, so images may differ in them."""
        sent, allowed, into = self.orbits.sent, self.demand.allowed, self.demand.logical.in_links
        coming = {
            (c, r): frozenset(sent[c, [k for k in into[r] if allowed[c, k]]].tolist())
            for c, r in np.argwhere(np.isfinite(self.costs.head)).tolist()
        }
        receipts = {variables: pair for pair, variables in reversed(coming.items())}
        source = self.demand.logical.sources.tolist()
        pairs = [(c, k) for c, k in np.argwhere(allowed).tolist()]
        passes = {(int(sent[c, k]), coming[c, source[k]]): (c, k) for c, k in reversed(pairs)}
        return sorted(receipts.values()), sorted(passes.values())

    @cached_property
    def port_rows(self) -> PortRows:
        """The rows of ports, those that are the same by symmetry once."""
        return PortRows.of(self.costs, self.orbits)

    def held(self, row: PortRow) -> Any:
        """Return for how long a port is held."""
        count = self.orbits.sent.shape[1]
        return sum(hold * self.m.is_sent[divmod(place, count)] for place, hold in row)

    def add_ports(self) -> None:
        """Add (6), (7) and (8)."""
        m, rows = self.m, self.port_rows.whole
        m.PORTS = pyo.Set(initialize=list(rows))

        @m.Constraint(m.PORTS, doc="(6), (7), (8): time >= sum of hold(l,p) is_sent[c,l]")
        def a_port_has_time_for_its_transfers(m: Any, p: int) -> Any:
            return m.time >= self.held(rows[p])

    def add_hosts(self) -> None:
        """Add (15)."""
        m, into = self.m, _into_hosts(self.demand)
        m.INTO_HOSTS = pyo.Set(dimen=2, initialize=list(into))

        @m.Constraint(m.INTO_HOSTS, doc="(15): sum of is_sent[c,l] over l into host h >= 1")
        def a_host_is_reached(m: Any, c: int, host: int) -> Any:
            return sum(self.is_sent(c, k) for k in into[c, host]) >= 1

    def add_policies(self) -> None:
        """Add (9) and (10) for the links of switch-hyperedges with a policy, and the objective (1), (11)."""
        m, links, allowed = self.m, self.demand.logical.links, self.demand.allowed
        switched = [k for k, link in enumerate(links) if link.policy is not Policy.FREE]
        sizes = Counter(min(self.orbits.of_link(k)) for k in switched)
        sends = {
            k: {id(x): (c, x) for c in np.flatnonzero(allowed[:, k]).tolist() for x in [self.is_sent(c, k)]}
            for k in sizes
        }
        m.SWITCHED = pyo.Set(initialize=sorted(sizes))
        m.SWITCHED_TRANSFERS = pyo.Set(
            dimen=2, initialize=[(k, c) for k in m.SWITCHED for c, _ in sends[k].values()]
        )
        m.is_util = pyo.Var(m.SWITCHED, domain=pyo.Binary)

        @m.Constraint(m.SWITCHED_TRANSFERS, doc="(9): is_util[l] >= is_sent[c,l]")
        def a_link_with_a_transfer_is_used(m: Any, k: int, c: int) -> Any:
            return m.is_util[k] >= self.is_sent(c, k)

        @m.Constraint(m.SWITCHED, doc="(10): is_util[l] <= sum of is_sent[c,l] over c")
        def a_used_link_has_a_transfer(m: Any, k: int) -> Any:
            return m.is_util[k] <= sum(x for _, x in sends[k].values())

        gamma = WEIGHT / max(1, len(switched))
        sign = {Policy.MIN: gamma, Policy.MAX: -gamma}
        used = sum(sign[links[k].policy] * sizes[k] * m.is_util[k] for k in m.SWITCHED)
        m.duration = pyo.Objective(expr=m.time + used)

    # What is added to the paper's model.

    def add_valid_inequalities(self) -> None:
        """Add (6), (7) and (8) of the transfers alone that are late on a port, and that leave it early."""
        m, rows = self.m, self.port_rows
        m.LATE = pyo.Set(dimen=2, initialize=list(rows.late))
        m.EARLY = pyo.Set(dimen=2, initialize=list(rows.early))

        @m.Constraint(m.LATE, doc="added: time >= h + sum of hold(l,p) is_sent[c,l] over those late by h")
        def late_transfers_have_time(m: Any, p: int, h: float) -> Any:
            return m.time >= min(h, self.costs.least) + self.held(rows.late[p, h])

        @m.Constraint(m.EARLY, doc="added: time >= t + sum of hold(l,p) is_sent[c,l] over those early by t")
        def early_transfers_have_time(m: Any, p: int, t: float) -> Any:
            return m.time >= min(t, self.costs.least) + self.held(rows.early[p, t])


PortRow = tuple[tuple[int, float], ...]
"""Representatives of transfers, and how long each holds a port."""


class PortRows(NamedTuple):
    """The transfers that hold ports: all of each port, those late by h, and those early by t.

    Late and early rows with one left side occur once, the tightest of them.
    """

    whole: dict[int, PortRow]
    late: dict[tuple[int, float], PortRow]
    early: dict[tuple[int, float], PortRow]

    @classmethod
    def of(cls, costs: Costs, orbits: Orbits) -> PortRows:
        """Return the rows of a demand."""
        source, most = costs.demand.logical.sources, costs.least
        found = cls({}, {}, {})
        seen: set[PortRow] = {()}
        tightest: dict[PortRow, float] = {}
        place: dict[PortRow, tuple[dict[tuple[int, float], PortRow], tuple[int, float]]] = {}
        for p, port in enumerate(costs.uses):
            chunk, used = np.nonzero(costs.demand.allowed[:, list(port)])
            link = np.array(list(port))[used]
            hold, enter, lag = np.array(list(port.values())).T[:, used]
            sent = orbits.sent[chunk, link]
            whole = _row(sent, hold)
            if whole not in seen:
                seen.add(whole)
                found.whole[p] = whole
            late, early = costs.head[chunk, source[link]] + enter, costs.beyond[chunk, link] + lag
            for apart, table in ((late, found.late), (early, found.early)):
                for least in np.unique(apart[np.isfinite(apart)]).tolist():
                    row = _row(sent[apart >= least], hold[apart >= least])
                    if min(least, most) > tightest.get(row, 0.0):
                        tightest[row], place[row] = min(least, most), (table, (p, least))
        for row, (table, key) in place.items():
            table[key] = row
        return found


def _row(sent: Int64Array, hold: FloatArray) -> PortRow:
    """Return the representatives among some transfers, and for how long each holds the port, to 9 digits."""
    kinds, place = np.unique(sent, return_inverse=True)
    held = np.bincount(place.ravel(), weights=hold)
    return tuple(zip(kinds.tolist(), np.round(held, 9).tolist(), strict=True))


def _representatives(orbit: Int64Array, wanted: BoolArray) -> list[tuple[int, int]]:
    """Return the least pair of each orbit, of those that are wanted."""
    width = orbit.shape[1]
    least = orbit == np.arange(orbit.size).reshape(orbit.shape)
    return [divmod(int(i), width) for i in np.flatnonzero((least & wanted).ravel())]


def _into_hosts(demand: ChunkDemand) -> dict[tuple[int, int], list[int]]:
    """Return the links into each host by (chunk, host), where the chunk starts elsewhere and ends there."""
    logical = demand.logical
    into: defaultdict[int, list[int]] = defaultdict(list)
    for k, link in enumerate(logical.links):
        if link.between:
            into[logical.host[link.target]].append(k)
    return {
        (c, host): [k for k in into[host] if demand.allowed[c, k]]
        for c, ends in enumerate(demand.ends)
        for host in sorted({logical.host[r] for r in ends} - {logical.host[demand.start[c]]})
    }
