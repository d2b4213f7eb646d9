"""The most that spanning trees of one root can carry, and such trees laid over links."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from schedules.intervals import IntervalTransfers, tree_transfers
from topologies.errors import NoSchedule
from topologies.exact import offsets_of
from topologies.forest import LogicalNetwork
from topologies.heights import largest_height, mean_height
from topologies.maxflow import DinicNetwork
from topologies.packing import pack_trees
from topologies.scaling import tree_capacities
from topologies.splitting import remove_switches
from topologies.topology import Topology


def broadcast_rate(topology: Topology, root: int) -> Fraction:
    """Return λ(root) = min over the other ranks v of maxflow(root, v), bytes/s (Edmonds' theorem).

    One flow serves all ranks: a rank that has been tried joins the source, since the cuts left to try have
    it inside.

    Examples
    --------
    >>> from topologies.families import ring
    >>> int(broadcast_rate(ring(4), 0)) // 10**9  # both links of 50 GB/s
    100
    """
    network = DinicNetwork(
        topology.num_nodes, topology.source, topology.target, topology.bandwidth.numerators
    )
    network.absorb(root)
    rate = int(topology.egress.numerators[root])
    for rank in range(topology.num_ranks):
        if rank != root:
            rate = min(rate, network.grow(rank, rate))
            network.absorb(rank)
    return Fraction(rate, topology.bandwidth.denominator)


class Broadcast(NamedTuple):
    """Transfers that carry all of M from one rank to all, or turned round from all to one.

    Parameters
    ----------
    width
        The units that all of M has.
    transfers
        In replay order.
    network
        Whose arcs they go over.
    height, mean_height
        Of the trees, in hops between ranks; the mean weighted by what a tree carries.
    """

    width: int
    transfers: IntervalTransfers
    network: LogicalNetwork
    height: int
    mean_height: float

    def backwards(self) -> Broadcast:
        """Return the transfers turned round, last first: those of the transposed network are this one's."""
        network, last = self.network, len(self.network.tails) - 1
        begin, end, arc, turn = (column[::-1] for column in self.transfers)
        turned = LogicalNetwork(
            network.num_ranks,
            network.heads[::-1],
            network.tails[::-1],
            network.capacity[::-1],
            offsets_of(np.diff(network.offsets)[::-1]),
            network.links[::-1],
        )
        return self._replace(transfers=IntervalTransfers(begin, end, last - arc, -turn), network=turned)

    def scaled(self, width: int) -> IntervalTransfers:
        """Return the transfers where M has so many units, a multiple of its own."""
        return self.transfers.scaled(width // self.width)


def best_broadcast(topology: Topology, root: int) -> Broadcast:
    """Return transfers that carry all of M from the root to every rank at the best rate, nearest first.

    Raises
    ------
    NoSchedule
        If the trees are more than `topologies.scaling` allows.
    """
    weights = [int(rank == root) for rank in range(topology.num_ranks)]
    try:
        k, capacity = tree_capacities(topology, 1 / broadcast_rate(topology, root), weights)
    except NoSchedule as error:
        needs = str(error).partition(";")[0]  # what follows is advice on an option that is not here
        raise NoSchedule(f"blink: {needs}; give bandwidths a larger common divisor") from error
    network = remove_switches(topology, capacity, k, weights)
    forest = pack_trees(network, k, weights)
    return Broadcast(
        width=int(forest.weight.sum()),
        transfers=tree_transfers(network, forest, up=False, down=True).in_turn(),
        network=network,
        height=largest_height(forest),
        mean_height=float(mean_height(forest)),
    )
