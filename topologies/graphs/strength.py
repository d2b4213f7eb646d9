r"""The strength of a network: the largest number of spanning trees that its undirected capacities can pack.

For capacities c of the edges of an undirected graph on n nodes, the strength is

.. math::

    \sigma = \min_P \frac{c(P)}{|P| - 1}

over the partitions P of the nodes into two parts or more, where c(P) is the capacity between parts. By
Nash-Williams and Tutte (1961), the largest total weight of spanning trees that fit the capacities is σ.

For a rate k the partition that minimizes c(P) - k |P| is found by a game of pebbles (Lee and Streinu's (k,
k)-sparsity with capacities). Each node has k pebbles, and for each unit of an edge one of its ends pays a
pebble. Nodes enter in turn. The newcomer v keeps its pebbles. Of its edge to an earlier node u, as much is
accepted as pebbles can be brought to u, which is a max-flow: where the other end of an edge takes over a
payment, a pebble becomes free. Accepted amounts c' so always satisfy

.. math::

    c'(E[S]) \le k (|S| - 1) \quad\text{for all sets S of nodes}, \qquad (1)

where E[S] are the edges within S. Suppose that less than c of an edge is accepted. Then the nodes from which
u could have received a pebble have none left and pay only for edges among themselves and to v: with v they
satisfy (1) with equality, they are *tight*. Tight sets with a node in common have a tight union. So at the
end the largest tight sets are a partition P, and all refusals are inside its parts. Hence Σ c' = c(P) + k (n
- |P|), which by (1) is at most its value for any other partition: P is a minimizer. If Σ c' = k (n - 1), σ ≥
k. The strength is found by Dinkelbach's (Newton's) iteration from the partition into single nodes: the next
rate is the ratio of the partition found. As rates fall these partitions only become coarser (the principal
sequence), so each search starts from the last one's parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tutti.topologies.errors import InputError
from tutti.topologies.exact import INT64_MAX, BoolArray, Int32Array, Int64Array, frozen, summed_pairs
from tutti.topologies.graphs.max_flow import ResidualArcs, push_flow, slots_of
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Neighbours, breadth_first

_MOST_CAPACITY = INT64_MAX >> 2
"""Largest sum of all scaled capacities and pebbles. It leaves room for sums in 64 bits."""


class Graph(NamedTuple):
    """An undirected graph with capacities: each pair of nodes at most once, ends[0] < ends[1].

    Parameters
    ----------
    num_nodes
        The number of nodes, n.
    ends
        int32, shape (2, edges).
    capacity
        int64, shape (edges,), positive.
    """

    num_nodes: int
    ends: Int32Array
    capacity: Int64Array


@dataclass(frozen=True, eq=False)
class Strength:
    """The strength of a graph and a partition that attains it.

    Parameters
    ----------
    value
        c(P) / (|P| - 1), exact.
    part
        int32, shape (nodes,): the part of each node; parts are numbered by their first node.
    """

    value: Fraction
    part: Int32Array


class Orientation(NamedTuple):
    """Accepted amounts of edges, and the ends that pay for them.

    Parameters
    ----------
    forward, backward
        int64, shape (edges,): the amounts that ends[1] and ends[0] pay.
    free
        int64, shape (nodes,): the pebbles that are left.
    tight
        int32, shape (nodes,): the least node of each node's largest tight set.
    """

    forward: Int64Array
    backward: Int64Array
    free: Int64Array
    tight: Int32Array


def undirected(num_nodes: int, tails: npt.ArrayLike, heads: npt.ArrayLike, capacity: npt.ArrayLike) -> Graph:
    """Return the graph in which the arcs of each pair, in both directions, add up to one edge.

    Examples
    --------
    >>> undirected(3, [0, 1, 2, 0], [1, 0, 0, 2], [1, 2, 3, 4])
    Graph(num_nodes=3, ends=array([[0, 0], [1, 2]], dtype=int32), capacity=array([3, 7]))
    """
    one, other = np.asarray(tails, dtype=np.int64), np.asarray(heads, dtype=np.int64)
    apart = one != other
    ends = np.sort(np.stack([one, other])[:, apart], axis=0)
    low, high, total = summed_pairs(num_nodes, ends[0], ends[1], np.asarray(capacity, dtype=np.int64)[apart])
    return Graph(num_nodes, np.stack([low, high])[:, total > 0].copy(), total[total > 0])


def strength(graph: Graph) -> Strength:
    """Return the strength of a connected graph of two nodes or more.

    Raises
    ------
    InputError
        If it has one node or is not connected, or if the capacities times the number of nodes do not fit 64
        bits.

    Examples
    --------
    >>> square = undirected(4, [0, 1, 2, 3, 0], [1, 2, 3, 0, 2], [1, 1, 1, 1, 9])
    >>> strength(square)  # 0 and 2 share a part; three parts, capacity 4 between them
    Strength(value=Fraction(2, 1), part=array([0, 1, 0, 2], dtype=int32))
    """
    if graph.num_nodes < 2 or not connected(graph):
        raise InputError("strength: the graph must have two nodes or more and be connected")
    part = np.arange(graph.num_nodes, dtype=np.int32)
    while True:
        coarse = contracted(graph, part)
        value = Fraction(int(coarse.capacity.sum()), coarse.num_nodes - 1)
        finer = orient(coarse, value).tight
        numbers = np.unique(finer, return_inverse=True)[1].astype(np.int32)
        parts = int(numbers.max()) + 1
        between: BoolArray = numbers[coarse.ends[0]] != numbers[coarse.ends[1]]
        crossing = int(coarse.capacity[between].sum())
        if parts in (1, coarse.num_nodes) or Fraction(crossing, parts - 1) == value:
            return Strength(value, frozen(part, np.int32))
        part = numbers[part]


def contracted(graph: Graph, part: Int32Array) -> Graph:
    """Return the graph whose nodes are the parts (numbered from 0 without gaps)."""
    return undirected(int(part.max()) + 1, part[graph.ends[0]], part[graph.ends[1]], graph.capacity)


def orient(graph: Graph, rate: Fraction, root: int | None = None) -> Orientation:
    """Play the game at this rate.

    Parameters
    ----------
    graph
        A connected graph.
    rate
        The rate k. Amounts and pebbles are in units of 1/q, where q is its denominator.
    root
        The node to which all free pebbles are brought at the end, if they are at most k in all.

    Returns
    -------
    Orientation
        If it has accepted k (n - 1) in all, trees of total weight k fit. Take the network where each arc into
        v carries what v pays for its edge. Then v takes in k minus its free pebbles, and any set of nodes
        takes in at least k minus the free pebbles inside.

    Raises
    ------
    InputError
        If the scaled capacities do not fit 64 bits.
    """
    scale, pebbles, n = rate.denominator, rate.numerator, graph.num_nodes
    if int(graph.capacity.sum()) * scale + pebbles * n > _MOST_CAPACITY:
        raise InputError(
            f"strength: {n} nodes with capacities that add up to {int(graph.capacity.sum())} need more than "
            "64 bits; give bandwidths a larger common divisor"
        )
    order = _nearest_first(graph)
    rank = np.empty(n, dtype=np.int64)
    rank[order] = np.arange(n)
    new = rank[graph.ends].argmax(axis=0)
    edges = np.arange(len(new))
    later, earlier = graph.ends[new, edges], graph.ends[1 - new, edges]
    turn = np.lexsort((rank[earlier], rank[later]))
    hubs, nodes = np.full(n, n, dtype=np.int32), np.arange(n, dtype=np.int32)
    network = slots_of(n + 1, np.concatenate([later, hubs]), np.concatenate([earlier, nodes]))
    residual, tight = np.zeros(len(network.other), dtype=np.int64), nodes.copy()
    _play(
        network,
        residual,
        np.arange(n + 1) == n,
        np.empty(n + 1, dtype=np.int32),
        (later, earlier, graph.capacity * scale, turn),
        tight,
        pebbles,
        -1 if root is None else root,
    )
    slot = network.forward
    paid = residual[np.stack([network.twin[slot[edges]], slot[edges]])]
    forward, backward = np.where(new == 1, paid, paid[::-1])
    return Orientation(forward, backward, residual[slot[len(new) :]], tight)


def _nearest_first(graph: Graph) -> Int32Array:
    """Return the nodes that the first one reaches, by hops, so that each is next to an earlier one."""
    tails, heads = np.concatenate([graph.ends, graph.ends[::-1]], axis=1)
    hops, order = np.empty((2, graph.num_nodes), np.int32)
    breadth_first(Neighbours.of(tails, heads, graph.num_nodes), np.zeros(1, np.int64), hops, order)
    return order[: np.count_nonzero(hops >= 0)]


def connected(graph: Graph) -> bool:
    """Return whether the graph is connected."""
    return len(_nearest_first(graph)) == graph.num_nodes


@kernel(light=4)
def _play(
    network: ResidualArcs,
    residual: Int64Array,
    sources: BoolArray,
    level: Int32Array,
    entries: tuple[Int32Array, Int32Array, Int64Array, Int64Array],
    tight: Int32Array,
    pebbles: int,
    root: int,
) -> None:
    """Let edges enter: fill in their flows and the tight sets; invariant: (1), and each node has k pebbles.

    Node n supplies free pebbles: its arc to a node carries the free pebbles there. An arc w -> u of an edge
    carries what u pays, because a pebble of w can take that over.
    """
    first, other, twin, slot = network
    later, earlier, capacity, turn = entries
    edges = len(turn)
    before = -1
    residual[slot[edges + earlier[turn[0]]]] = pebbles
    for edge in turn:
        new, old = later[edge], earlier[edge]
        if new != before:
            if before >= 0:
                residual[slot[edges + before]] = pebbles
            before = new
        # An edge inside a tight set finds no free pebble.
        if tight[new] == tight[old]:
            continue
        amount = push_flow(first, other, twin, residual, sources, level, np.int64(old), capacity[edge])
        residual[slot[edge]] += amount
        if amount < capacity[edge]:
            _unite(tight, level, new)
    residual[slot[edges + before]] = pebbles
    if root >= 0:
        found = push_flow(first, other, twin, residual, sources, level, root, pebbles)
        residual[slot[edges + root]] += found


@kernel
def _unite(tight: Int32Array, level: Int32Array, new: int) -> None:
    """Unite the tight sets of all nodes that have a level, and that of `new`."""
    n = len(tight)
    met = np.zeros(n, dtype=np.bool_)
    met[tight[new]] = True
    for node in range(n):
        if level[node] >= 0:
            met[tight[node]] = True
    least = -1
    for node in range(n):
        if met[tight[node]]:
            if least < 0:
                least = node
            tight[node] = least
