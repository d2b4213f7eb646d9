"""Switch removal by guessing: a switch's capacity is spread evenly over what it joins, then checked.

Any way to pass a switch's in-capacity on to its out-links is as good as Algorithm 3 (dissertation B.5.2)
if every rank can still be sent a unit from every tree (Theorem 30's condition), and that takes one
max-flow a rank to check, where the algorithm takes many for each pair of links. A guess is made so that trees
in it are low: a switch between boxes gives each pair of boxes the same share, rank by rank, so that a rank
reaches each other box directly; a switch in a box gives each pair of ranks the same share.

The switches farthest from ranks go first, then those of no host, then those with most neighbours. What a
switch joins, its blocks, are the hosts (the components that remain without it and its like where there
are none). Nothing is sent from a block back into it. Capacity between
switches that no forest needs is taken away first (`trimming`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from topologies.exact import Int32Array, Int64Array
from topologies.forest import LogicalNetwork
from topologies.joining import JoinedArcs
from topologies.scaling import sustains, trees_by_root
from topologies.sharing import Side, shares
from topologies.topology import Topology
from topologies.trimming import trimmed_capacities

_MOST_BLOCKS = 1024
"""A switch that joins more is not spread: the shares of all pairs of blocks are kept at once."""


def spread_switches(
    topology: Topology, capacity: Int64Array, k: int, weights: Iterable[Fraction | int] | None = None
) -> LogicalNetwork | None:
    """Return the network without its switches, by the first guess that keeps the forest possible.

    Parameters
    ----------
    topology
        The network.
    capacity
        Trees that each link can carry, shape (links,), as `scaling.tree_capacities` gives them.
    k, weights
        How many trees each rank roots, see `scaling.trees_by_root`.

    Returns
    -------
    LogicalNetwork or None
        Arcs within the capacity of every link that let every rank be sent a unit from every tree,
        checked exactly; None where no guess does.

    Raises
    ------
    InputError
        If k or the weights are wrong.

    Examples
    --------
    >>> from topologies.platforms import dgx_a100
    >>> topology = dgx_a100(3)
    >>> capacity = np.where(topology.bandwidth.floats > 25e9, 24, 2)
    >>> spread = spread_switches(topology, capacity, 1)
    >>> [int(head) for head in spread.heads[(spread.tails == 0) & (spread.heads > 7)]]
    [8, 16]
    """
    trees = trees_by_root(topology.num_ranks, k, weights)
    seen: set[bytes] = set()
    for network in _guesses(topology, capacity, trees):
        print_of = network.tails.tobytes() + network.heads.tobytes() + network.capacity.tobytes()
        if print_of in seen:
            continue
        seen.add(print_of)
        if sustains(topology.num_ranks, network.tails, network.heads, network.capacity, trees):
            return network
    return None


def _guesses(topology: Topology, capacity: Int64Array, trees: Int64Array) -> Iterator[LogicalNetwork]:
    """Yield the guesses, those that leave the lowest trees first."""
    whole = np.asarray(capacity, dtype=np.int64)
    narrow = trimmed_capacities(topology, whole, trees, np.array(_distances_to_ranks(topology)))
    for units in (narrow, whole) if (narrow < whole).any() else (whole,):
        for transit, by_block, evenly in product((False, True), (True, False), (False, True)):
            yield _spread(_Plan(topology, transit, by_block, evenly), units)


@dataclass(frozen=True, eq=False)
class _Plan:
    """A guess.

    Parameters
    ----------
    topology
        The network.
    transit
        Whether a switch that has ranks passes on from switch to switch.
    by_block
        Whether a switch is spread over blocks, or over single nodes.
    evenly
        Whether all nodes of two blocks are paired, or each with few in order.
    """

    topology: Topology
    transit: bool
    by_block: bool
    evenly: bool

    def order(self) -> list[tuple[tuple[int, int, int], int]]:
        """Return the switches with their class, in the order in which they go."""
        topology = self.topology
        away = _distances_to_ranks(topology)
        degree = np.zeros(topology.num_ranks + topology.num_switches, dtype=np.int64)
        pairs = np.unique(np.stack([topology.source, topology.target]), axis=1)
        np.add.at(degree, pairs[0], 1)
        hosts = self._hosts()
        switches = range(topology.num_ranks, len(degree))
        return sorted(((-away[w], int(hosts[w] >= 0), -int(degree[w])), w) for w in switches)

    def blocks(self, switch: int, gone: set[int], nodes: Int32Array, near: set[int]) -> Int64Array:
        """Return the block of each of these neighbours; those not `near`, or switches, are one block.

        Parameters
        ----------
        switch
            The switch to remove.
        gone
            It, its like and those removed before.
        nodes
            Its neighbours now, ranks first.
        near
            Its neighbours by links.
        """
        ranks = self.topology.num_ranks
        far = np.array([node not in near for node in nodes.tolist()])
        if not self.transit and (nodes < ranks).any():
            far |= nodes >= ranks
        block = nodes.astype(np.int64)
        if self.by_block:
            hosts, home = self._hosts(), self._hosts()[switch]
            hosted = (hosts[nodes] >= 0) & (hosts[nodes] != home)
            parts = _components(self.topology, gone) if (hosts[nodes] < 0).all() else nodes.max() + 1 + hosts
            block = np.where(hosted | (hosts[nodes] < 0).all(), parts[nodes], block)
        return np.where(far, -1, block)

    def _hosts(self) -> Int32Array:
        topology = self.topology
        none = np.full(topology.num_ranks + topology.num_switches, -1, dtype=np.int32)
        return none if topology.hosts is None else topology.hosts


def _spread(plan: _Plan, capacity: Int64Array) -> LogicalNetwork:
    """Remove the switches one by one."""
    topology = plan.topology
    arcs = JoinedArcs(topology, capacity)
    near = _neighbours(topology)
    order = plan.order()
    for kind, switch in order:
        gone = {other for other_kind, other in order if other_kind <= kind}
        ins, outs = arcs.take(switch)
        if not (len(ins) and len(outs)):
            continue
        tails, row = np.unique(arcs.tail[ins], return_inverse=True)
        heads, column = np.unique(arcs.head[outs], return_inverse=True)
        nodes = np.union1d(tails, heads)
        _, block = np.unique(plan.blocks(switch, gone, nodes, near[switch]), return_inverse=True)
        if block.max() >= _MOST_BLOCKS:
            continue
        given = np.bincount(row, weights=arcs.capacity[ins]).astype(np.int64)
        taken = np.bincount(column, weights=arcs.capacity[outs]).astype(np.int64)
        before, after = block[np.searchsorted(nodes, tails)], block[np.searchsorted(nodes, heads)]
        dealt = shares(Side(given, before), Side(taken, after), int(block.max()) + 1, plan.evenly)
        arcs.join(ins, row, outs, column, dealt)
    return arcs.network()


def _neighbours(topology: Topology) -> dict[int, set[int]]:
    """Return what links join to each switch."""
    near: dict[int, set[int]] = {}
    for one, other in zip(topology.source.tolist(), topology.target.tolist(), strict=True):
        for switch, node in ((one, other), (other, one)):
            if switch >= topology.num_ranks:
                near.setdefault(switch, set()).add(node)
    return {
        w: near.get(w, set()) for w in range(topology.num_ranks, topology.num_ranks + topology.num_switches)
    }


def _distances_to_ranks(topology: Topology) -> list[int]:
    """Return each node's hops from the nearest rank, the nodes unreached counting as farthest."""
    total = topology.num_ranks + topology.num_switches
    away = [0] * topology.num_ranks + [total] * topology.num_switches
    leads: list[list[int]] = [[] for _ in range(total)]
    for one, other in zip(topology.source.tolist(), topology.target.tolist(), strict=True):
        if other >= topology.num_ranks:
            leads[one].append(other)
    queue = deque(range(topology.num_ranks))
    while queue:
        node = queue.popleft()
        for switch in leads[node]:
            if away[switch] == total:
                away[switch] = away[node] + 1
                queue.append(switch)
    return away


def _components(topology: Topology, gone: set[int]) -> Int64Array:
    """Return for each node the least node that it is joined to when some switches are gone."""
    total = topology.num_ranks + topology.num_switches
    least = np.arange(total)
    kept = ~np.isin(topology.source, list(gone)) & ~np.isin(topology.target, list(gone))
    one, other = topology.source[kept], topology.target[kept]
    while True:
        before = least.copy()
        np.minimum.at(least, one, least[other])
        np.minimum.at(least, other, least[one])
        least = least[least]
        if np.array_equal(before, least):
            return least
