"""The linear programs of the study written down as arrays: twins of their Pyomo models."""

import numpy as np
from scipy.sparse import coo_array

from tutti.models.bfb.frontiers import frontiers
from tutti.models.solvers.compiled import CompiledModel


def whole_matrices(topology):
    """BFB's program: columns are x by (u, v) and in-link, then U; rows are the loads, then the shards."""
    work = frontiers(topology)
    eligible = np.unpackbits(work.eligible, axis=1, bitorder="little").astype(np.bool_)
    jobs = np.repeat(np.arange(len(work.jobs) - 1), np.diff(work.jobs))
    shard_class = np.repeat(np.arange(len(eligible)), np.diff(work.offsets))
    shard, link = np.nonzero(eligible[shard_class])
    job = jobs[shard_class[shard]]
    loads, load = np.unique(job * eligible.shape[1] + link, return_inverse=True)
    flows, shards = len(shard), len(shard_class)
    step = (loads // eligible.shape[1]) % work.steps
    rows, columns = len(loads) + shards, flows + work.steps
    matrix = coo_array(
        (
            np.concatenate([np.ones(flows), -np.ones(len(loads)), np.ones(flows)]),
            (
                np.concatenate([load, np.arange(len(loads)), len(loads) + shard]),
                np.concatenate([np.arange(flows), flows + step, np.arange(flows)]),
            ),
        ),
        shape=(rows, columns),
    ).tocsr()
    right = np.repeat([0.0, 1.0], [len(loads), shards])
    return CompiledModel.of_matrix(
        "bfb-whole",
        matrix,
        np.arange(columns) >= flows,
        np.where(right > 0, 1.0, -np.inf),
        right,
    )


def routing_matrices(topology):
    """The relaxation: columns are f by (s, d) and link, then g by s and link, then T."""
    bandwidth = topology.bandwidth.floats
    links, ranks = topology.num_links, topology.num_ranks
    source, sink = np.nonzero(~np.eye(ranks, dtype=np.bool_))
    flows, shares = len(source) * links, ranks * links
    columns = flows + shares + 1
    f = np.arange(flows).reshape(-1, links)
    g = flows + np.arange(shares).reshape(ranks, links)
    conserved, arriving = _conservation(topology, source, sink, f)
    rows = flows + conserved.shape[0] + links
    entries = [
        (f.ravel(), f.ravel(), np.ones(flows)),
        (f.ravel(), g[source].ravel(), -np.ones(flows)),
        (flows + conserved.row, conserved.col, conserved.data),
        (rows - links + np.tile(np.arange(links), ranks), g.ravel(), np.ones(shares)),
        (rows - links + np.arange(links), np.full(links, columns - 1), -bandwidth / bandwidth.max()),
    ]
    row, column, value = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    matrix = coo_array((value, (row, column)), shape=(rows, columns)).tocsr()
    upper = np.concatenate([np.zeros(flows), arriving, np.zeros(links)])
    lower = np.concatenate([np.full(flows, -np.inf), arriving, np.full(links, -np.inf)])
    return CompiledModel.of_matrix("routing", matrix, np.arange(columns) == columns - 1, lower, upper)


def _conservation(topology, source, sink, f):
    """Return the rows of the second family over f, and their right-hand sides."""
    pairs, links, nodes = len(source), topology.num_links, topology.num_nodes
    # one row for each pair and node but the pair's source
    kept = np.arange(nodes)[None, :] != source[:, None]
    number = np.cumsum(kept.ravel()).reshape(pairs, nodes) - 1
    ends = np.concatenate([topology.target, topology.source])
    sign = np.repeat([1.0, -1.0], links)
    columns = np.concatenate([f, f], axis=1)
    used = kept[:, ends]
    values = np.broadcast_to(sign, used.shape)[used]
    rows = np.take_along_axis(number, np.broadcast_to(ends, used.shape), axis=1)[used]
    arriving = (np.arange(nodes)[None, :] == sink[:, None]).astype(np.float64)[kept]
    matrix = coo_array((values, (rows, columns[used])), shape=(len(arriving), f.size))
    return matrix, arriving
