"""The logical topology: links between ranks, each a route of the network (TACCL, sections 3.1 and 3.2).

Switches and adapters are abstracted away, but not the bandwidth that links have in common. A *port* is a link
of the network that several logical links pass, such as a GPU's link into NVSwitch or an adapter's into
InfiniBand. One transfer at a time is on a port, which is what equations 7, 8, 20 and 21 say of switches.

Equal parallel links of the network (the NVLinks of a pair of GPUs) are the *lanes* of one logical link. A
chunk is sent over all of them simultaneously, in equal parts.

A transfer of s bytes over a logical link takes α + β·s. Here α is the sum over its route, and β the inverse
of the narrowest bandwidth (times n where the sketch gives a sender 1/n of it). It holds link j of the route
for α_j + s / bandwidth_j, as the simulator counts it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import permutations, product
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from tutti.models.taccl.sketch import Connection, Policy, Sketch
from tutti.topologies.errors import InputError
from tutti.topologies.exact import BoolArray, Int64Array
from tutti.topologies.graphs.shortest_paths import UNREACHABLE, hops_from_each
from tutti.topologies.topology import Neighbours, Topology

NO_HYPEREDGE = Policy.FREE


@dataclass(frozen=True)
class LogicalLink:
    """A link from one rank to another, over a route of the network.

    Parameters
    ----------
    source, target
        Ranks.
    lanes
        Routes of the network (link numbers), all of the same speed; each carries an equal part of a chunk.
    split
        n: the routing stage counts n times its β.
    between
        Whether it joins two hosts.
    policy
        How many links of its switch-hyperedge are to be used.
    """

    source: int
    target: int
    lanes: tuple[tuple[int, ...], ...]
    split: int = 1
    between: bool = False
    policy: Policy = NO_HYPEREDGE


Time = TypeVar("Time", int, Fraction)


class PortUse(NamedTuple, Generic[Time]):
    """A port of a message's route, how long after the start it is entered, and for how long held."""

    port: int
    enter: Time
    hold: Time


@dataclass(frozen=True)
class LinkMessage(Generic[Time]):
    """The time that a message takes on a link: exact seconds, or whole ticks.

    Parameters
    ----------
    arrival
        The time from the start until it is at the destination.
    uses
        The ports of the route that it uses, in order.
    """

    arrival: Time
    uses: tuple[PortUse[Time], ...]

    @property
    def received_from(self) -> Time:
        """The time at which the first byte is at the destination's link."""
        return self.uses[-1].enter


@dataclass(frozen=True, eq=False)
class LogicalTopology:
    """Logical links over a network.

    Parameters
    ----------
    topology
        The network.
    name
        The sketch's, or the network's where there is none.
    links
        The logical links.
    host
        The host of each rank.
    """

    topology: Topology
    name: str
    links: tuple[LogicalLink, ...]
    host: tuple[int, ...]

    @cached_property
    def out_links(self) -> tuple[tuple[int, ...], ...]:
        """The logical links out of each rank."""
        return self._by_rank([link.source for link in self.links])

    @cached_property
    def in_links(self) -> tuple[tuple[int, ...], ...]:
        """The logical links into each rank."""
        return self._by_rank([link.target for link in self.links])

    def _by_rank(self, ends: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        table: list[list[int]] = [[] for _ in range(self.topology.num_ranks)]
        for number, end in enumerate(ends):
            table[end].append(number)
        return tuple(map(tuple, table))

    @cached_property
    def hops(self) -> Int64Array:
        """int64 (ranks, ranks): links from one rank to another; the number of ranks where out of reach."""
        everywhere = np.ones(len(self.links), np.bool_)
        return self._hops(np.arange(self.topology.num_ranks), everywhere, backwards=False)

    def hops_from(self, origin: int, within: BoolArray, *, backwards: bool = False) -> Int64Array:
        """Return each rank's distance from the origin (to it if backwards), in links among those `within`."""
        return self._hops(np.array([origin]), within, backwards=backwards)[0]

    def _hops(self, origins: Int64Array, within: BoolArray, *, backwards: bool) -> Int64Array:
        tails, heads = (self.targets, self.sources) if backwards else (self.sources, self.targets)
        ranks = self.topology.num_ranks
        hops = hops_from_each(Neighbours.of(tails[within], heads[within], ranks), origins)
        return np.where(hops == UNREACHABLE, ranks, hops.astype(np.int64))

    @cached_property
    def sources(self) -> Int64Array:
        """int64 (links,): the source of each link."""
        return np.array([link.source for link in self.links], np.int64)

    @cached_property
    def targets(self) -> Int64Array:
        """int64 (links,): the target of each link."""
        return np.array([link.target for link in self.links], np.int64)

    def image_of_links(self, ranks: Int64Array) -> Int64Array:
        """Return where a permutation of the ranks takes each link, int64 (links,); -1: to no link."""
        number = {(link.source, link.target): k for k, link in enumerate(self.links)}
        ends = zip(ranks[self.sources].tolist(), ranks[self.targets].tolist(), strict=True)
        return np.array([number.get(pair, -1) for pair in ends], np.int64)

    @cached_property
    def ports(self) -> dict[int, tuple[int, ...]]:
        """For each link of the network, the logical links that pass it."""
        users: defaultdict[int, list[int]] = defaultdict(list)
        for number, link in enumerate(self.links):
            for port in link.lanes[0]:
                users[port].append(number)
        return {port: tuple(links) for port, links in users.items()}

    def latency(self, number: int, size: Fraction) -> Fraction:
        """Return lat: the seconds that `size` bytes take, with the sketch's share of the bandwidth."""
        link, where = self.links[number], self.topology
        beta = max(1 / where.bandwidth[port] for port in link.lanes[0])
        alpha = sum((where.alpha[port] for port in link.lanes[0]), Fraction(0))
        return alpha + link.split * beta * size / len(link.lanes)

    def message(self, number: int, size: Fraction) -> LinkMessage[Fraction]:
        """Return the seconds that `size` bytes take on a logical link and on its ports."""
        where, route = self.topology, self.links[number].lanes[0]
        each, uses, head = size / len(self.links[number].lanes), [], Fraction(0)
        for port in route:
            uses.append(PortUse(port, head, where.alpha[port] + each / where.bandwidth[port]))
            head += where.alpha[port]
        return LinkMessage(head + each / min(where.bandwidth[port] for port in route), tuple(uses))

    def link_name(self, number: int) -> str:
        """Return ``"a->b"`` by the ranks' labels."""
        link, labels = self.links[number], self.topology.labels
        return f"{labels[link.source]}->{labels[link.target]}"


def logical_links(topology: Topology, sketch: Sketch | None = None) -> LogicalTopology:
    """Return the links that a sketch keeps; without one, all links between ranks.

    Raises
    ------
    InputError
        If the sketch names ranks that a host lacks, or joins ranks that the network does not.
    """
    host = (0,) * topology.num_ranks  # all are in one where the network says nothing of hosts
    if topology.hosts is not None:
        host = tuple(topology.hosts[: topology.num_ranks].tolist())
    if sketch is None:
        return LogicalTopology(topology, topology.name, tuple(_own_links(topology, host)), host)
    by_host: defaultdict[int, list[int]] = defaultdict(list)
    for rank, where in enumerate(host):
        by_host[where].append(rank)
    members = list(by_host.values())
    if len({len(ranks) for ranks in members}) > 1:
        sizes = ", ".join(str(len(ranks)) for ranks in members)
        raise InputError(f"{sketch.name}: a sketch is for equal hosts; these have {sizes} ranks")
    _check_ranks(sketch, len(members[0]))
    links = [] if sketch.hyperedges else [*_own_links(topology, host, within=True)]
    links += _sketched(topology, sketch, members)
    ends = [(link.source, link.target) for link in links]
    if len(set(ends)) < len(ends):
        twice = next(pair for i, pair in enumerate(ends) if pair in ends[:i])
        raise InputError(f"{sketch.name}: ranks {twice[0]} and {twice[1]} are on two of its switches")
    return LogicalTopology(topology, sketch.name, tuple(links), host)


def _check_ranks(sketch: Sketch, size: int) -> None:
    """Raise `InputError` if the sketch names a rank that a host of `size` ranks lacks."""
    named = [("intranode_sketch.switches", edge.ranks) for edge in sketch.hyperedges]
    if isinstance(sketch.connections, dict):
        pairs = sketch.connections.items()
        named += [("internode_sketch.internode_conn", (sender, *to)) for sender, to in pairs]
    named.append(("internode_sketch.beta_split", tuple(sketch.beta_split or ())))
    for key, ranks in named:
        for rank in ranks:
            if rank >= size:
                raise InputError(f"{sketch.name}: {key} names rank {rank}; a host has ranks 0 to {size - 1}")


def _own_links(topology: Topology, host: Sequence[int], *, within: bool = False) -> Iterator[LogicalLink]:
    """Yield the network's links between ranks, equal parallel ones as lanes of one."""
    lanes: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    ends = zip(topology.source.tolist(), topology.target.tolist(), strict=True)
    for number, (source, target) in enumerate(ends):
        if max(source, target) < topology.num_ranks and not (within and host[source] != host[target]):
            lanes[source, target].append(number)
    for (source, target), numbers in lanes.items():
        alike = {(topology.bandwidth[n], topology.alpha[n]) for n in numbers}
        kept = numbers if len(alike) == 1 else [max(numbers, key=lambda n: topology.bandwidth[n])]
        yield LogicalLink(source, target, tuple((n,) for n in kept), between=host[source] != host[target])


def _sketched(topology: Topology, sketch: Sketch, members: list[list[int]]) -> Iterator[LogicalLink]:
    """Yield the links of a sketch's switches, then those between hosts."""

    def link(source: int, target: int, **further: Any) -> LogicalLink:
        return LogicalLink(source, target, (_route(topology, sketch, source, target),), **further)

    for ranks in members:
        for edge in sketch.hyperedges:
            for source, target in product(edge.ranks, repeat=2):
                if source != target:
                    yield link(ranks[source], ranks[target], policy=edge.policy)
    split = sketch.beta_split or {}
    for ranks, others in permutations(members, 2):
        for sender, receivers in _connections(sketch, len(ranks)).items():
            for receiver in receivers:
                yield link(ranks[sender], others[receiver], split=split.get(sender, 1), between=True)


def _connections(sketch: Sketch, size: int) -> dict[int, tuple[int, ...]]:
    if sketch.connections is Connection.DIRECT:
        return {rank: (rank,) for rank in range(size)}
    if sketch.connections is Connection.FULL:
        return {rank: tuple(range(size)) for rank in range(size)}
    return dict(sketch.connections)


def _route(topology: Topology, sketch: Sketch, source: int, target: int) -> tuple[int, ...]:
    """Return the route through switches with the fewest links, the widest of those.

    Raises
    ------
    InputError
        If switches alone do not join the two ranks.
    """
    offsets, links = topology.out_links
    frontier: dict[int, tuple[Fraction | float, tuple[int, ...]]] = {source: (float("inf"), ())}
    seen = {source}
    while frontier and target not in frontier:
        following: dict[int, tuple[Fraction | float, tuple[int, ...]]] = {}
        for node, (width, route) in frontier.items():
            for link in links[offsets[node] : offsets[node + 1]].tolist():
                head = int(topology.target[link])
                if head in seen or (head < topology.num_ranks and head != target):
                    continue
                wide = min(width, topology.bandwidth[link])
                if head not in following or wide > following[head][0]:
                    following[head] = (wide, (*route, link))
        seen |= following.keys()
        frontier = following
    if target not in frontier:
        ends = f"{topology.labels[source]} and {topology.labels[target]}"
        raise InputError(f"{sketch.name}: no switches of {topology.name} join ranks {ends}")
    return frontier[target][1]
