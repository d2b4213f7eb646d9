"""What the trees must do: which ranks they span, and how much each of them is the root of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from schedules.collective import Collective, Kind
from topologies.exact import Rationals, frozen
from topologies.topology import Topology


@dataclass(frozen=True, eq=False)
class Demand:
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
    def of(cls, topology: Topology, what: Collective) -> Demand:
        """Return the demand of an allgather, or of a broadcast, in one group."""
        members = what.members[0]
        if what.kind is Kind.BROADCAST:
            one = [Fraction(int(position == what.root)) for position in range(len(members))]
            return cls(_among(topology, members), Rationals.of(one))
        weights = None if what.items.share.uniform else what.items.share
        return cls(_among(topology, members), weights)

    @property
    def scale(self) -> Fraction:
        """What a unit of weight is of M: 1/x* times this is the time over M."""
        return Fraction(1) if self.weights is not None else Fraction(1, self.topology.num_ranks)


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
