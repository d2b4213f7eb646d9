"""All-to-all with the cheapest proofs: all sums of distances from below, the even split from above.

With lengths of 1 the time is at least the sum of all distances over the number of links, and splitting each
demand evenly, node by node, over the shortest paths attains its largest load.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from topologies.exact import FloatArray, Int32Array
from topologies.graphs.shortest_paths import breadth_first
from topologies.topology import Incidence, Topology


def cheap_interval(topology: Topology) -> tuple[float, float]:
    """Return what an all-to-all takes at least and at most, in M/B, on equal links between ranks.

    Examples
    --------
    >>> from topologies.families import complete
    >>> low, high = cheap_interval(complete(5))
    >>> round(low, 9), round(high, 9)
    (0.8, 0.8)
    """
    loads = np.zeros(topology.num_links)
    total = _spread(topology.out_links, topology.in_links, topology.source, topology.target, loads)
    degree = topology.degree or topology.num_links / topology.num_ranks
    scale = degree / topology.num_ranks
    return scale * total / topology.num_links, scale * float(loads.max())


@njit(cache=True)
def _spread(
    outgoing: Incidence,
    incoming: Incidence,
    tail: Int32Array,
    target: Int32Array,
    loads: FloatArray,
) -> int:
    """Add to loads (links,) what one unit from every node to every other loads; return the sum of distances.

    From the farthest node inwards, what a node needs comes in equal parts over its links on shortest paths.
    """
    num_nodes = len(outgoing.offsets) - 1
    heads = target[outgoing.links]
    hops, queue = np.empty(num_nodes, np.int32), np.empty(num_nodes, np.int32)
    total = 0
    for source in range(num_nodes):
        breadth_first(outgoing.offsets, heads, source, hops, queue)
        total += hops.sum()
        need = np.ones(num_nodes)
        for place in range(num_nodes - 1, 0, -1):
            node, ways = queue[place], 0
            for position in range(incoming.offsets[node], incoming.offsets[node + 1]):
                ways += hops[tail[incoming.links[position]]] + 1 == hops[node]
            for position in range(incoming.offsets[node], incoming.offsets[node + 1]):
                link = incoming.links[position]
                if hops[tail[link]] + 1 == hops[node]:
                    loads[link] += need[node] / ways
                    need[tail[link]] += need[node] / ways
    return total
