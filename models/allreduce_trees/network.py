r"""The undirected graph in which trees are packed, and the arcs over which their edges go.

A tree edge {u, v} carries the tree's data once from u to v and once from v to u, so of the capacity between
two ranks the trees can use the less of both directions, alike both ways. On a network without switches whose
pairs have equal capacity both ways nothing is lost. Elsewhere this is a heuristic: of unequal pairs the
excess is left unused; switches are first removed as ForestColl does (dissertation B.5.2), at the capacities
of an optimal allgather.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from models.bounds.bottleneck_cut import bottleneck_cut
from topologies.exact import Int32Array, Int64Array, frozen
from topologies.forest import LogicalNetwork
from topologies.packing import pair_capacities
from topologies.scaling import tree_capacities
from topologies.splitting import remove_switches
from topologies.spreading import spread_switches
from topologies.strength import Graph, connected, undirected
from topologies.topology import Topology


@dataclass(frozen=True, eq=False)
class TreeNetwork:
    """What trees are packed in.

    Parameters
    ----------
    graph
        The ranks; of each pair the capacity that it has both ways.
    arcs
        The same capacities, one way or more.
    unit
        Bytes per second of a capacity of 1.
    symmetric
        Whether the graph has all that the network has: no switches, and equal capacities both ways.
    """

    graph: Graph
    arcs: LogicalNetwork
    unit: Fraction
    symmetric: bool


def tree_network(topology: Topology) -> TreeNetwork | None:
    """Return the graph of the capacities that all pairs of ranks have both ways; None if it is not connected.

    Raises
    ------
    InputError
        If there are switches and their removal needs more trees than `topologies.scaling` allows.

    Examples
    --------
    >>> from topologies.families import ring
    >>> tree_network(ring(4)).graph.capacity
    array([1, 1, 1, 1])
    """
    arcs, unit = _direct(topology) if not topology.num_switches else _without_switches(topology)
    tails, heads, capacity = pair_capacities(arcs)
    back = _reverse_capacities(arcs.num_ranks, tails, heads, capacity)
    graph = undirected(arcs.num_ranks, tails, heads, np.minimum(capacity, back))
    graph = graph._replace(capacity=graph.capacity // 2)
    if not connected(graph):
        return None
    even = bool((capacity == back).all()) and not topology.num_switches
    return TreeNetwork(graph, arcs, unit, even)


def _reverse_capacities(ranks: int, tails: Int32Array, heads: Int32Array, capacity: Int64Array) -> Int64Array:
    """Return for each pair (u, v) the capacity of (v, u); pairs stand sorted."""
    keys = tails.astype(np.int64) * ranks + heads
    turned = heads.astype(np.int64) * ranks + tails
    place = np.minimum(np.searchsorted(keys, turned), len(keys) - 1)
    return np.where(keys[place] == turned, capacity[place], 0)


def _direct(topology: Topology) -> tuple[LogicalNetwork, Fraction]:
    """Return every link as an arc of its own."""
    common = int(np.gcd.reduce(topology.bandwidth.numerators))
    links = np.arange(topology.num_links + 1)
    capacity = topology.bandwidth.numerators // common
    ends = (topology.source, topology.target)
    arcs = LogicalNetwork(topology.num_ranks, *ends, capacity, links, frozen(links[:-1], np.int32))
    return arcs, Fraction(common, topology.bandwidth.denominator)


def _without_switches(topology: Topology) -> tuple[LogicalNetwork, Fraction]:
    """Return arcs between ranks over routes through the switches, as an optimal allgather has them."""
    ratio = bottleneck_cut(topology, [1] * topology.num_ranks).ratio
    k, capacity = tree_capacities(topology, ratio)
    arcs = spread_switches(topology, capacity, k)
    if arcs is None:
        arcs = remove_switches(topology, capacity, k, [1] * topology.num_ranks)
    return arcs, topology.bandwidth[0] / int(capacity[0])
