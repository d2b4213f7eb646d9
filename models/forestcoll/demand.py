"""What the trees must do: which ranks they span, and how much each of them is the root of.

With w_r the share of M that rank r is the root of, trees are packed for any weights w (dissertation 4.5.7):
all equal in an allgather, one at the root of a broadcast, and where only some shards of an allgather hold
data, those ranks are its *several roots*. The bottleneck cut is that of the same weights, so that all of
these are met exactly. Ranks that take no part forward, as switches do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from schedules.collective import Collective, Kind
from topologies.exact import Rationals, frozen
from topologies.graphs.shortest_paths import shortest_routes
from topologies.topology import Topology
from topologies.trees.forest import LogicalNetwork


@dataclass(frozen=True, eq=False)
class PackingDemand:
    """A packing problem in which every rank is spanned.

    Parameters
    ----------
    topology
        The network. Where only some ranks take part they are its ranks, in order, and the others are switches
        that forward; links keep their numbers.
    weights
        The share of M of which each rank is the root, exact and summing to 1; None: equal.
    """

    topology: Topology
    weights: Rationals | None

    @classmethod
    def of(cls, topology: Topology, what: Collective) -> PackingDemand:
        """Return the demand of an allgather, or of a broadcast, in one group."""
        members = what.members[0]
        if what.kind is Kind.BROADCAST:
            one = [Fraction(int(position == what.root)) for position in range(len(members))]
            return cls(_among(topology, members), Rationals.of(one))
        weights = None if what.items.share.uniform else what.items.share
        return cls(_among(topology, members), weights)

    @property
    def num_roots(self) -> int:
        """How many ranks are the root of something."""
        if self.weights is None:
            return self.topology.num_ranks
        return int(np.count_nonzero(self.weights.numerators))

    @property
    def scale(self) -> Fraction:
        """What a unit of weight is of M: 1/x* times this is the time over M."""
        return Fraction(1) if self.weights is not None else Fraction(1, self.topology.num_ranks)

    def connected(self, network: LogicalNetwork) -> LogicalNetwork:
        """Return a network in which every rank reaches every other, if there are empty shards.

        Who is no root of any tree may have lost all arcs to others when the switches were removed. Its shard
        is sent as no load, for which there are arcs of no capacity: a circle through the strongly connected
        components, over shortest routes.
        """
        if self.weights is None or self.weights.numerators.all():
            return network
        ends, ranks = (network.tails, network.heads), network.num_ranks
        graph = csr_array((np.ones(len(network.tails)), ends), shape=(ranks, ranks))
        count, component = connected_components(graph, connection="strong")
        if count == 1:
            return network
        _, first = np.unique(component, return_index=True)
        tails, heads = first, np.roll(first, -1)
        offsets, links = shortest_routes(self.topology, tails, heads)
        return LogicalNetwork(
            num_ranks=ranks,
            tails=np.concatenate([network.tails, tails]),
            heads=np.concatenate([network.heads, heads]),
            capacity=np.concatenate([network.capacity, np.zeros(count, dtype=np.int64)]),
            offsets=np.concatenate([network.offsets, network.offsets[-1] + offsets[1:]]),
            links=np.concatenate([network.links, links]),
        )


def _among(topology: Topology, members: tuple[int, ...]) -> Topology:
    """Return the network with these ranks as its ranks, all other nodes after them, links as they are."""
    if members == tuple(range(topology.num_ranks)):
        return topology
    others = np.setdiff1d(np.arange(topology.num_nodes), members)
    nodes = np.concatenate([np.array(members), others])
    place = np.empty(len(nodes), dtype=np.int32)
    place[nodes] = np.arange(len(nodes))
    return replace(
        topology,
        num_ranks=len(members),
        labels=tuple(topology.labels[node] for node in nodes),
        source=place[topology.source],
        target=place[topology.target],
        multicast=frozenset(place[sorted(topology.multicast)].tolist()),
        aggregate=frozenset(place[sorted(topology.aggregate)].tolist()),
        hosts=None if topology.hosts is None else frozen(topology.hosts[nodes], np.int32),
        expression=None,
    )
