"""The most that spanning trees of one root can carry, and such trees laid over links."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from heuristics.blink.line import Leg
from topologies.errors import NoSchedule
from topologies.exact import Int64Array
from topologies.forest import Forest, LogicalNetwork
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


def broadcast_leg(topology: Topology, root: int) -> Leg:
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
    return lay_trees(network, pack_trees(network, k, weights))


def lay_trees(network: LogicalNetwork, forest: Forest) -> Leg:
    """Return the transfers of trees of one root, each tree moving as much of the line as it weighs.

    A tree edge takes its pair's arcs in turn, as far as their capacities go.

    Examples
    --------
    >>> path = LogicalNetwork(3, [0, 0, 1], [1, 1, 2], [1, 2, 3], [0, 1, 2, 3], [7, 8, 9])
    >>> leg = lay_trees(path, Forest([0], [2], [[-1, 0, 1]]))
    >>> leg.arc.tolist(), leg.begin.tolist(), leg.end.tolist()  # half over each of two arcs, then all
    ([0, 1, 2], [0, 1, 0], [1, 2, 2])
    """
    arcs: dict[tuple[int, int], list[int]] = {}
    for arc, pair in enumerate(zip(network.tails.tolist(), network.heads.tolist(), strict=True)):
        arcs.setdefault(pair, []).append(arc)
    room = network.capacity.tolist()
    ends = np.cumsum(forest.weight).tolist()
    rows, heights = [], []
    for end, weight, parent in zip(ends, forest.weight.tolist(), forest.parent, strict=True):
        order = _by_depth(parent)
        heights.append(order[-1][0])
        for depth, head in order:
            begin = end - weight
            waiting = arcs[int(parent[head]), head]
            while begin < end:
                taken = min(end - begin, room[waiting[0]])
                rows.append((depth, begin, begin + taken, waiting[0]))
                room[waiting[0]] -= taken
                begin += taken
                if not room[waiting[0]]:
                    waiting.pop(0)
    rows.sort(key=lambda row: row[0])
    table: Int64Array = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return Leg(
        width=ends[-1],
        begin=table[:, 1],
        end=table[:, 2],
        arc=table[:, 3],
        tails=network.tails,
        heads=network.heads,
        offsets=network.offsets,
        links=network.links,
        height=max(heights),
        mean_height=float(np.average(heights, weights=forest.weight)),
    )


def _by_depth(parent: np.ndarray) -> list[tuple[int, int]]:
    """Return (depth, rank) of all ranks but the root, nearest first."""
    children: dict[int, list[int]] = {}
    for rank, above in enumerate(parent.tolist()):
        children.setdefault(above, []).append(rank)
    order = [(0, root) for root in children[-1]]
    for depth, rank in order:
        order += [(depth + 1, child) for child in children.get(rank, [])]
    return order[len(children[-1]) :]
