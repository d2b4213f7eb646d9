"""The components of a graph: which nodes reach each other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tutti.topologies.exact import Int32Array


def components(
    num_nodes: int, source: npt.ArrayLike, target: npt.ArrayLike, *, strong: bool = False
) -> tuple[int, Int32Array]:
    """Return how many components there are, and which one each node is in, int32, shape (nodes,).

    Parameters
    ----------
    num_nodes
        Of the graph.
    source, target
        The ends of its edges, which count both ways unless `strong`.
    strong
        Whether nodes are together only if each reaches the other along the edges.
    """
    from scipy.sparse import coo_array  # slow to import, and few commands need it
    from scipy.sparse.csgraph import connected_components

    tails, heads = np.asarray(source), np.asarray(target)
    graph = coo_array((np.ones(len(tails)), (tails, heads)), shape=(num_nodes, num_nodes))
    count, label = connected_components(graph, directed=strong, connection="strong" if strong else "weak")
    return int(count), label
