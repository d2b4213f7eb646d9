r"""Switch removal by edge splitting: Algorithm 3 (dissertation 4.5.3 and B.5.2), exact.

Consider an arc (u, w) into a switch and an arc (w, t) out of it. Splitting off γ units replaces γ units of
both by γ units of an arc (u, t): routes from u over w to t. K_r trees at each root r still fit if every rank
can still be sent K = Σ K_r units from a source s that is joined to each r by K_r (Theorem 25). Only two kinds
of cuts A ∋ s with a rank outside lose capacity, each exactly γ: those with u, t inside and w outside, and
those with w inside and u, t outside. Hence (Theorem 28)

.. math::

    γ = \min\{c(u, w),\; c(w, t),\; \min_{u, t ∈ A,\; w ∉ A} c(A) - K,\; \min_{w ∈ A,\; u, t ∉ A} c(A) - K\}.

Each of the two minima is a max-flow to every rank v in turn. Here one flow serves all v: a rank that has been
tried joins the sources, because the remaining cuts have it inside, and the flow is kept (as in
`models.bounds.bottleneck_cut`). If u or t is a rank, the second minimum needs no v. Flows stop at the
smallest γ so far.

No cut ever gains from a split, so a pair whose γ was taken has γ = 0 from then on. In an Eulerian network
every unit has a partner (Theorem 27). It is enough that the switches are balanced. With an arc of K back from
each rank to s, every two nodes of s and the ranks have K units of flow. Splitting off balanced nodes
preserves that, however uneven the ranks are (Bang-Jensen, Frank and Jackson, SIAM J. Discrete Math. 1995). So
it is enough to try each pair once, in any order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import INT64_MAX, Int32Array, Int64Array
from tutti.topologies.graphs.max_flow import MaxFlowMaker, arc_slots, push_flow
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Topology, components
from tutti.topologies.trees.forest import LogicalNetwork, sustains, trees_by_root
from tutti.topologies.units import format_bandwidth

Route = tuple[int, ...]


def remove_switches(
    topology: Topology,
    capacity: npt.ArrayLike,
    k: int,
    weights: Iterable[Fraction | int] | None = None,
    max_flow: MaxFlowMaker | None = None,
) -> LogicalNetwork:
    """Return the network of ranks that Algorithm 3 leaves; it fits as many trees as before.

    Parameters
    ----------
    topology
        The network; its switches send as much bandwidth as they take in.
    capacity
        Trees that each link carries, shape (links,), from `topologies.trees.forest.tree_capacities`.
    k, weights
        Trees by root, see `topologies.trees.forest.trees_by_root`.
    max_flow
        A back-end, to find each γ by (B.1) as it is printed; None for a kernel. Both give the same network.

    Returns
    -------
    LogicalNetwork
        Its arcs are sorted by tail, head and route. Those over a link use no more than its capacity.

    Raises
    ------
    InputError
        If a switch is not balanced, or if the trees don't fit the capacities.
    NoSchedule
        If capacities that are not balanced at every node leave a switch that can't be split.
    """
    units = np.asarray(capacity, dtype=np.int64)
    trees = trees_by_root(topology.num_ranks, k, weights)
    check_balance(topology, units)
    if not sustains(topology.num_nodes, topology.source, topology.target, units, trees):
        raise InputError(
            f"switch removal in {topology.name}: {k} trees a root do not fit the links; "
            "1/x* and k must be those of this network"
        )
    splitting = _Splitting.of(topology, units, trees)
    # switches with few links first: those of hosts before those that join hosts
    links = topology.in_degrees + topology.out_degrees
    for switch in sorted(range(topology.num_ranks, topology.num_nodes), key=lambda w: (int(links[w]), w)):
        splitting.remove(switch, max_flow)
    return splitting.logical_network()


def check_balance(topology: Topology, capacity: Int64Array) -> None:
    """Refuse switches whose bandwidths in and out, or whose capacities in and out, differ.

    Raises
    ------
    InputError
        If there is one; the message names the first such switch and its two totals.
    """
    if not topology.num_switches:
        return
    node = topology.eulerian_defect(range(topology.num_ranks))
    if node is not None:
        into, out = (format_bandwidth(total[node]) for total in (topology.ingress, topology.egress))
        raise InputError(
            f"topology {topology.name}: switch {topology.labels[node]} has {into} in and {out} out; "
            "ForestColl needs them equal"
        )
    out_units, in_units = np.zeros((2, topology.num_nodes), dtype=np.int64)
    np.add.at(out_units, topology.source, capacity)
    np.add.at(in_units, topology.target, capacity)
    uneven = np.flatnonzero(out_units != in_units)
    uneven = uneven[uneven >= topology.num_ranks]
    if len(uneven):
        node = int(uneven[0])
        raise InputError(
            f"topology {topology.name}: switch {topology.labels[node]} has capacity for {in_units[node]} "
            f"trees in and {out_units[node]} out; ForestColl needs them equal"
        )


@dataclass
class _Splitting:
    """The network while switches are removed.

    `parts` is the resolved routing table: for each pair (tail, head) its routes over physical links and the
    units on each.
    """

    topology: Topology
    trees: Int64Array
    parts: dict[tuple[int, int], dict[Route, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, topology: Topology, capacity: Int64Array, trees: Int64Array) -> _Splitting:
        splitting = cls(topology, trees)
        ends = zip(topology.source.tolist(), topology.target.tolist(), capacity.tolist(), strict=True)
        for link, (tail, head, units) in enumerate(ends):
            if units:
                splitting.parts.setdefault((tail, head), {})[(link,)] = units
        return splitting

    def remove(self, switch: int, max_flow: MaxFlowMaker | None) -> None:
        """Split off all that enters and leaves a switch: even shares, one more each, then what γ allows.

        Any order is valid; the arcs of this one keep trees low, see `_shares`.
        """
        network = _SplittingNetwork.of(self, switch, max_flow)
        shares = _shares(network, switch)
        one_more = {pair: int(share >= 0) for pair, share in shares.items()}
        for limits in (shares, one_more, dict.fromkeys(shares, INT64_MAX)):
            for (tail, head), limit in limits.items():
                amount = network.split(tail, switch, head, max(limit, 0))
                if amount:
                    self._join(tail, switch, head, amount)
        for head in dict.fromkeys(head for _, head in shares):
            units = network.units(switch, head)
            if units:
                name, labels = self.topology.name, self.topology.labels
                raise NoSchedule(
                    f"switch removal in {name}: {units} trees from {labels[switch]} to {labels[head]} can't "
                    "be split off: capacities were rounded and are not Eulerian; try another number of trees"
                )

    def _join(self, tail: int, switch: int, head: int, amount: int) -> None:
        """Move units from the routes of (tail, switch) and (switch, head) to those of (tail, head)."""
        before, after = (self._take(pair, amount) for pair in ((tail, switch), (switch, head)))
        if tail == head:  # a cycle, which carries nothing anywhere
            return
        joined = self.parts.setdefault((tail, head), {})
        while before and after:
            units = min(before[-1][1], after[-1][1])
            route = self._without_circles(before[-1][0] + after[-1][0])
            joined[route] = joined.get(route, 0) + units
            for routes in (before, after):
                first, left = routes.pop()
                if left > units:
                    routes.append((first, left - units))

    def _take(self, pair: tuple[int, int], amount: int) -> list[tuple[Route, int]]:
        """Take `amount` units off a pair's routes, short ones first."""
        routes, taken = self.parts[pair], []
        for route in sorted(routes, key=lambda route: (len(route), route)):
            units = min(amount, routes[route])
            taken.append((route, units))
            amount -= units
            routes[route] -= units
            if not routes[route]:
                del routes[route]
            if not amount:
                break
        if not routes:
            del self.parts[pair]
        return taken

    def _without_circles(self, route: Route) -> Route:
        """Remove the links between two visits of one switch."""
        kept: list[int] = []
        seen = [int(self.topology.source[route[0]])]
        for link in route:
            node = int(self.topology.target[link])
            if node in seen:
                place = seen.index(node)
                del kept[place:], seen[place + 1 :]
            else:
                kept.append(link)
                seen.append(node)
        return tuple(kept)

    def logical_network(self) -> LogicalNetwork:
        arcs = sorted(
            (*pair, route, units) for pair, routes in self.parts.items() for route, units in routes.items()
        )
        lengths = np.array([len(arc[2]) for arc in arcs], dtype=np.int64)
        return LogicalNetwork(
            num_ranks=self.topology.num_ranks,
            tails=np.array([arc[0] for arc in arcs], dtype=np.int32),
            heads=np.array([arc[1] for arc in arcs], dtype=np.int32),
            capacity=np.array([arc[3] for arc in arcs], dtype=np.int64),
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            links=np.array([link for arc in arcs for link in arc[2]], dtype=np.int32),
        )


@dataclass
class _SplittingNetwork:
    """Capacities by pair as arrays, with the arcs of the auxiliary networks at the front.

    The nodes are those of the topology, s, and a sink. The arcs are node -> sink for every
    node (the kernel opens and closes them), s -> root, then the pairs in the order in which they were made.
    """

    num_ranks: int
    num_nodes: int
    total: int
    index: dict[tuple[int, int], int]
    tails: Int32Array
    heads: Int32Array
    capacity: Int64Array
    used: int
    max_flow: MaxFlowMaker | None

    @classmethod
    def of(
        cls, splitting: _Splitting, switch: int, max_flow: MaxFlowMaker | None = None
    ) -> _SplittingNetwork:
        topology, trees = splitting.topology, splitting.trees
        nodes, roots = topology.num_nodes, np.flatnonzero(trees)
        pairs = sorted(splitting.parts)
        into, out = (sum(pair[end] == switch for pair in pairs) for end in (1, 0))
        fixed = nodes + len(roots)
        room = fixed + len(pairs) + into * out
        tails, heads = np.zeros(room, dtype=np.int32), np.zeros(room, dtype=np.int32)
        capacity = np.zeros(room, dtype=np.int64)
        tails[:nodes], heads[:nodes] = np.arange(nodes), nodes + 1
        tails[nodes:fixed], heads[nodes:fixed], capacity[nodes:fixed] = nodes, roots, trees[roots]
        sizes, arcs = (topology.num_ranks, nodes, int(trees.sum())), (tails, heads, capacity)
        network = cls(*sizes, {}, *arcs, fixed, max_flow)
        for pair in pairs:
            network.add(pair, sum(splitting.parts[pair].values()))
        return network

    def add(self, pair: tuple[int, int], amount: int) -> None:
        if pair not in self.index:
            self.index[pair] = self.used
            self.tails[self.used], self.heads[self.used] = pair
            self.used += 1
        self.capacity[self.index[pair]] += amount

    def units(self, tail: int, head: int) -> int:
        place = self.index.get((tail, head))
        return 0 if place is None else int(self.capacity[place])

    def gamma(self, tail: int, switch: int, head: int, most: int) -> int:
        """Return γ of a pair, at most `most`."""
        most = min(most, self.units(tail, switch), self.units(switch, head))
        if not most:
            return 0
        # The other two terms of Theorem 28, which compare cuts with K.
        if self.max_flow is not None:
            # γ by (B.1): F(u, w) - K and F(w, t) - K for each rank v. K + `most` is enough where the paper
            # has an arc of capacity ∞.
            wide, ranks, used = self.total + most, np.arange(self.num_ranks), slice(self.used)
            for source, sink in ((tail, switch), (switch, head)):
                network = self.max_flow(
                    self.num_nodes + 2,
                    [*self.tails[used], source, tail, *ranks],
                    [*self.heads[used], self.num_nodes, head, *[sink] * len(ranks)],
                    [*self.capacity[used], wide, wide, *[0] * len(ranks)],
                )
                for rank in ranks:
                    network.set_capacities(self.used + 2 + ranks, wide * (ranks == rank))
                    most = min(most, network.solve(source, sink) - self.total)
            return most
        arcs = (self.tails[: self.used], self.heads[: self.used], self.capacity[: self.used])
        return int(_gamma(*arcs, self.num_ranks, self.num_nodes, self.total, tail, switch, head, most))

    def split(self, tail: int, switch: int, head: int, most: int) -> int:
        """Split off γ units, at most `most`; return their number."""
        amount = self.gamma(tail, switch, head, most)
        if amount:
            self.capacity[self.index[tail, switch]] -= amount
            self.capacity[self.index[switch, head]] -= amount
            if tail != head:  # an arc (u, u) would add nothing to any cut
                self.add((tail, head), amount)
        return amount


def _shares(network: _SplittingNetwork, switch: int) -> dict[tuple[int, int], int]:
    """Return the pairs (tail, head) at a switch in the order to split them off, each with an even share.

    Parts are the components that only the switch joins (hosts, if it is InfiniBand); it serves for arcs
    between parts. So its capacity is spread over the pairs of different parts and rounded down; -1 marks
    pairs that are left to the end. For each head, the tails are tried in turn, one of each part, beginning
    with those at the head's own place: a tree then enters each part once.
    """
    pairs = [pair for pair in network.index if network.units(*pair)]
    tails = sorted(tail for tail, head in pairs if head == switch)
    heads = sorted(head for tail, head in pairs if tail == switch)
    part, place = _parts(network.num_nodes, [pair for pair in pairs if switch not in pair])
    shares = {}
    for head in heads:
        others = [tail for tail in tails if part[tail] != part[head]]
        spread = set(others or [tail for tail in tails if tail != head])
        total = sum(network.units(tail, switch) for tail in spread)
        order = [((place[t] - place[head]) % len(part), (part[t] - part[head]) % len(part), t) for t in tails]
        for *_, tail in sorted(order, key=lambda entry: (entry[-1] not in spread, entry[-1] == head, entry)):
            even = network.units(tail, switch) * network.units(switch, head)
            shares[tail, head] = even // total if tail in spread else -1
    return shares


def _parts(num_nodes: int, pairs: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Return the component of each node, numbered by lowest node, and the node's place within it."""
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    _, part = components(num_nodes, ends[:, 0], ends[:, 1])
    members: Counter[int] = Counter()
    place = []
    for number in part.tolist():
        place.append(members[number])
        members[number] += 1
    return part.tolist(), place


@kernel
def _slack(first, other, twin, forward, residual, sources, ends, ranks, total, limit):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Return the least of `limit` and c(A) - total, for A with sources inside, ends and a rank outside."""
    sink = len(first) - 2
    level = np.empty(len(first) - 1, dtype=np.int32)
    wide = INT64_MAX >> 2
    held, within = 0, False
    for end in ends:
        residual[forward[end]] = wide
        within |= end < ranks
    if within:  # a rank is outside already
        pushed = push_flow(first, other, twin, residual, sources, level, sink, total + limit)
        return min(limit, pushed - total)
    for rank in range(ranks):
        if sources[rank]:
            continue
        slot = forward[rank]
        residual[slot] = wide
        pushed = push_flow(first, other, twin, residual, sources, level, sink, total + limit - held)
        limit = min(limit, held + pushed - total)
        if limit <= 0:
            return limit
        # Invariant: the cuts with a tried rank outside are done, so the rank joins the sources. Its flow
        # stays, because flow need not balance at a source.
        residual[slot], residual[twin[slot]] = 0, 0
        sources[rank] = True
        held = 0
        for end in ends:
            held += residual[twin[forward[end]]]
    return limit


@kernel
def _gamma(tails, heads, capacity, ranks, nodes, total, tail, switch, head, most):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Return γ of Theorem 28; node `nodes` is s, node ``nodes + 1`` the sink."""
    first, other, twin, forward = arc_slots(tails, heads, nodes + 2)
    amount = most
    for inside in (False, True):  # Theorem 28: the cuts with u, t inside and w outside, then the others
        residual = np.zeros(len(other), dtype=np.int64)
        for arc in range(len(tails)):
            residual[forward[arc]] = capacity[arc]
        sources = np.zeros(nodes + 2, dtype=np.bool_)
        sources[nodes] = True
        if inside:
            sources[switch] = True
            ends = np.array([min(tail, head), max(tail, head)])[: 1 if tail == head else 2]
        else:
            sources[tail] = True
            sources[head] = True
            ends = np.array([switch])
        amount = _slack(first, other, twin, forward, residual, sources, ends, ranks, total, amount)
        if amount <= 0:
            return 0
    return amount
