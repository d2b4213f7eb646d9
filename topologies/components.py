"""The components of a graph: sets of nodes that reach each other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tutti.topologies.exact import Int32Array


def components(
    num_nodes: int, source: npt.ArrayLike, target: npt.ArrayLike, *, strong: bool = False
) -> tuple[int, Int32Array]:
    """Return the number of components and the component of each node, int32, shape (nodes,).

    Parameters
    ----------
    num_nodes
        The number of nodes.
    source, target
        The ends of the edges, which count in both directions unless `strong`.
    strong
        Whether two nodes share a component only if each reaches the other along the edges.
    """
    from scipy.sparse import coo_array  # slow to import, and few commands need it
    from scipy.sparse.csgraph import connected_components

    tails, heads = np.asarray(source), np.asarray(target)
    graph = coo_array((np.ones(len(tails)), (tails, heads)), shape=(num_nodes, num_nodes))
    count, label = connected_components(graph, directed=strong, connection="strong" if strong else "weak")
    return int(count), label
