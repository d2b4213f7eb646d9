"""Switch removal by guessing: a switch's capacity is spread evenly over its neighbours, then checked.

Any choice of how a switch passes its in-capacity on to its out-links is as good as Algorithm 3 (dissertation
B.5.2) if every rank can still be sent a unit from every tree (Theorem 30's condition). This check takes one
max-flow per rank, where the algorithm takes many for each pair of links. A guess is made so that its trees
are low. A switch between boxes gives each pair of boxes the same share, rank by rank, so that a rank reaches
each other box directly. A switch in a box gives each pair of ranks the same share. An arc into a switch and
an arc out of it are joined into one arc, with both routes.

The switches farthest from ranks are removed first, then those of no host, then those with most neighbours.
The neighbours of a switch form blocks: the hosts or, if there are none, the components that remain without
the switch and others of its class. Nothing is sent from a block back into it.

Before that, capacity between switches that no forest needs is removed, so that groups are joined no more than
necessary. A tree enters each group of ranks (a leaf of a fat-tree, say) at least once. It is lowest if it
enters once, directly from its root, and spreads inside. Ports are scarce: a rank can't send inside its own
group what it sends to others. So where more capacity than is needed joins switches, spreading them over ranks
would waste ports. The links between switches are narrowed class by class, the classes farthest from ranks
first, to the least capacity with which every rank can still be sent a unit from every tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from tutti.topologies.components import components
from tutti.topologies.exact import Int32Array, Int64Array
from tutti.topologies.graphs.shortest_paths import UNREACHABLE, Neighbours, breadth_first
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Topology
from tutti.topologies.trees.forest import LogicalNetwork
from tutti.topologies.trees.switch_shares import Bundles, Side, SwitchShares, pair_up, shares
from tutti.topologies.trees.tree_counts import sustains, trees_by_root

_MOST_CLASSES = 4
"""Most kinds of links between switches. Networks with more are left unchanged."""


def trimmed_capacities(
    topology: Topology, capacity: Int64Array, trees: Int64Array, distance: Int64Array
) -> Int64Array:
    """Return the capacities, with those between switches as small as the trees allow.

    Parameters
    ----------
    topology
        The network.
    capacity
        Trees that each link can carry, shape (links,).
    trees
        The number of trees of each root, shape (ranks,).
    distance
        Each node's hops from the nearest rank, shape (nodes,).

    Examples
    --------
    >>> from tutti.topologies.families.clusters import fat_tree
    >>> capacity = np.full(20, 7)
    >>> topology = fat_tree(2, 4, 1)
    >>> distance = np.array([0] * 8 + [1, 1, 2])
    >>> trimmed_capacities(topology, capacity, np.ones(8, np.int64), distance).tolist()[-2:]
    [4, 4]
    """
    result = np.array(capacity, dtype=np.int64)
    between = (topology.source >= topology.num_ranks) & (topology.target >= topology.num_ranks)
    nearer = np.minimum(distance[topology.source], distance[topology.target])
    classes = np.unique(np.stack([-nearer[between], result[between]]), axis=1).T
    if len(classes) > _MOST_CLASSES:
        return result
    for away, units in classes.tolist():
        _narrow(topology, result, trees, between & (nearer == -away) & (capacity == units))
    return result


def _narrow(topology: Topology, capacity: Int64Array, trees: Int64Array, links: Int64Array) -> None:
    """Give these links, which are equivalent, the least sufficient capacity, by bisection."""
    ends = (topology.num_nodes, topology.source, topology.target)
    low, high = 0, int(capacity[links].max())
    while low < high:
        middle = (low + high) // 2
        capacity[links] = middle
        if sustains(*ends, capacity, trees):
            high = middle
        else:
            low = middle + 1
    capacity[links] = high


class JoinedArcs:
    """Arcs that touch a switch and, separately, arcs that no longer do; a joined arc is two older ones."""

    def __init__(self, topology: Topology, capacity: Int64Array) -> None:
        self.target = topology.target
        self.num_ranks, self.links = topology.num_ranks, len(topology.source)
        self.parts: list[Int64Array] = []
        self.count = self.links
        self._done: list[tuple[Int64Array, Int32Array, Int32Array, Int64Array]] = []
        empty = np.empty(0, dtype=np.int64)
        self.name, self.tail, self.head = empty, empty.astype(np.int32), empty.astype(np.int32)
        self.capacity = empty
        self._add(np.arange(self.links), topology.source, topology.target, capacity)

    def take(self, switch: int) -> tuple[Int64Array, Int64Array]:
        """Return the positions of the arcs into and out of a switch."""
        return np.flatnonzero(self.head == switch), np.flatnonzero(self.tail == switch)

    def join(
        self,
        ins: Int64Array,
        row: Int64Array,
        outs: Int64Array,
        column: Int64Array,
        shares: SwitchShares,
    ) -> None:
        """Replace arcs by joined ones: `shares` are units from tail (by row) to head (by column)."""
        by_row, by_column = np.argsort(row, kind="stable"), np.argsort(column, kind="stable")
        first = np.searchsorted(row[by_row], np.arange(row.max() + 2))
        last = np.searchsorted(column[by_column], np.arange(column.max() + 2))
        left, right = self.capacity[ins][by_row], self.capacity[outs][by_column]
        one, two, units = pair_up(shares, Bundles(first, left), Bundles(last, right))
        one, two = ins[by_row][one], outs[by_column][two]
        name = self.count + np.arange(len(one))
        self.count += len(one)
        self.parts.append(np.stack([self.name[one], self.name[two]]))
        tail, head = self.tail[one], self.head[two]
        used = np.union1d(ins, outs)
        self.name, self.capacity = np.delete(self.name, used), np.delete(self.capacity, used)
        self.tail, self.head = np.delete(self.tail, used), np.delete(self.head, used)
        self._add(name, tail, head, units)

    def _add(self, name: Int64Array, tail: Int32Array, head: Int32Array, capacity: Int64Array) -> None:
        live = capacity > 0
        open_ = live & ((tail >= self.num_ranks) | (head >= self.num_ranks))
        done = live & ~open_
        self._done.append((name[done], tail[done], head[done], capacity[done]))
        self.name, self.capacity = (
            np.append(self.name, name[open_]),
            np.append(self.capacity, capacity[open_]),
        )
        self.tail, self.head = np.append(self.tail, tail[open_]), np.append(self.head, head[open_])

    def network(self) -> LogicalNetwork:
        """Return the arcs between ranks with their routes, by tail and head."""
        name, tail, head, capacity = (np.concatenate(column) for column in zip(*self._done, strict=True))
        order = np.lexsort((name, head, tail))
        parts = np.concatenate([np.empty((2, 0), dtype=np.int64), *self.parts], axis=1)
        offsets, links = _routes(name[order], np.ascontiguousarray(parts), self.target)
        return LogicalNetwork(
            self.num_ranks, tail[order], head[order], capacity[order], offsets, links.astype(np.int32)
        )


@kernel
def _routes(names: Int64Array, parts: Int64Array, target: Int32Array) -> tuple[Int64Array, Int64Array]:
    """Return each arc's links in CSR form, unfolding joined arcs (links + i is parts[:, i]).

    A route that returns to a switch is cut short there, so that no route visits a node twice.
    """
    links = len(target)
    offsets = np.zeros(len(names) + 1, dtype=np.int64)
    flat = [np.int64(0) for _ in range(0)]
    stack = [np.int64(0) for _ in range(0)]
    for i in range(len(names)):
        stack.append(names[i])
        while len(stack):
            name = stack.pop()
            if name < links:
                keep = offsets[i]
                while keep < len(flat) and target[flat[keep]] != target[name]:
                    keep += 1
                if keep == len(flat):
                    flat.append(name)
                # The link leads to a node that the route has visited: what lies between is cut out.
                while len(flat) > keep + 1:
                    flat.pop()
            else:
                stack.append(parts[1, name - links])
                stack.append(parts[0, name - links])
        offsets[i + 1] = len(flat)
    return offsets, np.array(flat)


_MOST_BLOCKS = 1024
"""Most blocks of a switch. A switch with more is not spread: memory holds a share for each pair of blocks."""


def spread_switches(
    topology: Topology, capacity: Int64Array, k: int, weights: Iterable[Fraction | int] | None = None
) -> LogicalNetwork | None:
    """Return the network without its switches, by the first guess for which the forest is still possible.

    Parameters
    ----------
    topology
        The network.
    capacity
        Trees that each link can carry, shape (links,), from `tree_counts.tree_capacities`.
    k, weights
        They give the trees of each root, see `tree_counts.trees_by_root`.

    Returns
    -------
    LogicalNetwork or None
        Arcs within the capacity of every link that let every rank be sent a unit from every tree,
        checked exactly; None if no guess does.

    Raises
    ------
    InputError
        If k or the weights are wrong.

    Examples
    --------
    >>> from tutti.topologies.families.machines import dgx_a100
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
    """Yield the guesses; those with the lowest trees come first."""
    whole = np.asarray(capacity, dtype=np.int64)
    narrow = trimmed_capacities(topology, whole, trees, _hops_from_ranks(topology).astype(np.int64))
    for units in (narrow, whole) if (narrow < whole).any() else (whole,):
        for transit, by_block, evenly in product((False, True), (True, False), (False, True)):
            yield _spread(_Guess(topology, transit, by_block, evenly), units)


@dataclass(frozen=True, eq=False)
class _Guess:
    """A rule by which a guess spreads the capacity of switches over their neighbours.

    Parameters
    ----------
    topology
        The network.
    transit
        Whether a switch with ranks also forwards from switch to switch.
    by_block
        Whether a switch is spread over blocks or over single nodes.
    evenly
        Whether all nodes of two blocks are paired, or each with few, in order.
    """

    topology: Topology
    transit: bool
    by_block: bool
    evenly: bool

    def order(self) -> list[tuple[tuple[int, int, int], int]]:
        """Return the switches with their class, in the order of their removal."""
        topology = self.topology
        away = _hops_from_ranks(topology).tolist()
        degree = np.zeros(topology.num_ranks + topology.num_switches, dtype=np.int64)
        pairs = np.unique(np.stack([topology.source, topology.target]), axis=1)
        np.add.at(degree, pairs[0], 1)
        hosts = self._hosts()
        switches = range(topology.num_ranks, len(degree))
        return sorted(((-away[w], int(hosts[w] >= 0), -int(degree[w])), w) for w in switches)

    def blocks(self, switch: int, gone: set[int], nodes: Int32Array, near: set[int]) -> Int64Array:
        """Return the block of each of these neighbours. Those not `near`, or switches, are one block.

        Parameters
        ----------
        switch
            The switch to remove.
        gone
            The switch, others of its class, and those removed before.
        nodes
            Its present neighbours, ranks first.
        near
            Its neighbours over links.
        """
        ranks = self.topology.num_ranks
        far = np.array([node not in near for node in nodes.tolist()])
        if not self.transit and (nodes < ranks).any():
            far |= nodes >= ranks
        block = nodes.astype(np.int64)
        if self.by_block:
            hosts, home = self._hosts(), self._hosts()[switch]
            hosted = (hosts[nodes] >= 0) & (hosts[nodes] != home)
            parts = nodes.max() + 1 + hosts
            if (hosts[nodes] < 0).all():  # parts of the network without the removed switches
                ends = np.stack([self.topology.source, self.topology.target])
                _, parts = components(len(hosts), *ends[:, ~np.isin(ends, list(gone)).any(axis=0)])
            block = np.where(hosted | (hosts[nodes] < 0).all(), parts[nodes], block)
        return np.where(far, -1, block)

    def _hosts(self) -> Int32Array:
        topology = self.topology
        none = np.full(topology.num_ranks + topology.num_switches, -1, dtype=np.int32)
        return none if topology.hosts is None else topology.hosts


def _spread(guess: _Guess, capacity: Int64Array) -> LogicalNetwork:
    """Remove the switches one by one."""
    topology = guess.topology
    arcs = JoinedArcs(topology, capacity)
    near = _neighbours(topology)
    order = guess.order()
    for kind, switch in order:
        gone = {other for other_kind, other in order if other_kind <= kind}
        ins, outs = arcs.take(switch)
        if not (len(ins) and len(outs)):
            continue
        tails, row = np.unique(arcs.tail[ins], return_inverse=True)
        heads, column = np.unique(arcs.head[outs], return_inverse=True)
        nodes = np.union1d(tails, heads)
        _, block = np.unique(guess.blocks(switch, gone, nodes, near[switch]), return_inverse=True)
        if block.max() >= _MOST_BLOCKS:
            continue
        given = np.bincount(row, weights=arcs.capacity[ins]).astype(np.int64)
        taken = np.bincount(column, weights=arcs.capacity[outs]).astype(np.int64)
        before, after = block[np.searchsorted(nodes, tails)], block[np.searchsorted(nodes, heads)]
        dealt = shares(Side(given, before), Side(taken, after), int(block.max()) + 1, guess.evenly)
        arcs.join(ins, row, outs, column, dealt)
    return arcs.network()


def _neighbours(topology: Topology) -> dict[int, set[int]]:
    """Return the neighbours of each switch over links."""
    near: dict[int, set[int]] = {}
    for one, other in zip(topology.source.tolist(), topology.target.tolist(), strict=True):
        for switch, node in ((one, other), (other, one)):
            if switch >= topology.num_ranks:
                near.setdefault(switch, set()).add(node)
    return {
        w: near.get(w, set()) for w in range(topology.num_ranks, topology.num_ranks + topology.num_switches)
    }


def _hops_from_ranks(topology: Topology) -> Int32Array:
    """Return each node's hops from the nearest rank; unreachable nodes count as farthest."""
    num_nodes = topology.num_nodes
    graph = Neighbours.of(topology.source, topology.target, num_nodes)
    hops, queue = np.empty((2, num_nodes), np.int32)
    breadth_first(graph, np.arange(topology.num_ranks), hops, queue)
    return np.where(hops == UNREACHABLE, np.int32(num_nodes), hops)
