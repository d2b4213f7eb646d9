"""Linear programs to compare solvers on whose optimum is known exactly without one.

BFB's programs (3.1) of a topology as one, which minimizes T_B itself (dissertation, section 3.6.1):

    minimize    sum over t of U_t                                         T_B, in shards a link (3.2)
    subject to  sum over v of x[v, u, w] <= U_t   for every node u, step t and in-link w of u
                sum over w of x[v, u, w]  = 1     for every u and every source v at distance t from u
                x >= 0

The subproblems (u, t) share no x, so U_t becomes the largest of their U and the optimum is known exactly
from `models.bfb.counting`. Solved as one, they are a large, sparse and very degenerate program.

The routing relaxation of allgather, in which every rank's shard flows to every other rank by itself:

    minimize    T
    subject to  f[s, d, e] <= g[s, e]                       for ranks s != d and every link e
                sum of f[s, d] into u - out of u = [u = d]  for ranks s != d and every node u but s
                sum over s of g[s, e] <= T b_e              for every link e
                f, g >= 0

f[s, d] is a flow of one shard from s to d and g[s, e] what link e carries of s's shard: flows to different
ranks share it, as copies of one datum may. No schedule beats T, and trees attain it (Edmonds; with switches
where the network is Eulerian: dissertation, Theorems 23 and 24), so T is exactly the ratio of the bottleneck
cut, 1/x*. It is the size of the routing part of mixed-integer models.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyomo.environ as pyo
from scipy.sparse import coo_array

from tutti.models.bfb.counting import workloads
from tutti.models.bfb.frontiers import frontiers
from tutti.models.bfb.model import eligible_links
from tutti.models.bounds.bottleneck_cut import bottleneck_cut
from tutti.models.solvers.compiled import CompiledModel
from tutti.topologies.errors import Unsupported
from tutti.topologies.kernels import now
from tutti.topologies.topology import Topology


def whole_model(topology: Topology) -> pyo.ConcreteModel:
    """Return the program, as it stands above, of a switch-free topology with equal links.

    Raises
    ------
    Unsupported
        If links differ.
    """
    _check_equal(topology)
    work = frontiers(topology)
    jobs = enumerate(eligible_links(work))
    eligible = {divmod(job, work.steps): table for job, table in jobs if table}
    m = pyo.ConcreteModel(name="bfb-whole")
    m.steps = pyo.Set(initialize=range(work.steps), doc="t - 1")
    triples = [(v, u, w) for (u, _), table in eligible.items() for v, links in table.items() for w in links]
    m.triples = pyo.Set(initialize=triples, dimen=3, doc="(v, u, w) with d(v, u) = d(v, w) + 1")
    m.U = pyo.Var(m.steps, doc="U_t")
    m.x = pyo.Var(m.triples, bounds=(0, None), doc="x_{v,(w,u)}")
    brought = {
        (u, t, w): [v for v, links in table.items() if w in links]
        for (u, t), table in eligible.items()
        for w in sorted({w for links in table.values() for w in links})
    }

    @m.Constraint(list(brought))
    def load_within_u(m: Any, u: int, t: int, w: int) -> Any:
        """No in-link of u brings more than U_t shards in step t."""
        return sum(m.x[v, u, w] for v in brought[u, t, w]) <= m.U[t]

    whole = {(v, u): links for (u, _), table in eligible.items() for v, links in table.items()}

    @m.Constraint(list(whole))
    def shard_arrives_whole(m: Any, v: int, u: int) -> Any:
        """Node u receives all of v's shard."""
        return sum(m.x[v, u, w] for w in whole[v, u]) == 1

    m.objective = pyo.Objective(expr=sum(m.U[t] for t in m.steps), sense=pyo.minimize)
    return m


def whole_matrices(topology: Topology) -> CompiledModel:
    """Return the same program as matrices, written down directly.

    Columns are x by (u, v) and in-link, then U by step; rows are the loads, then the shards.

    Raises
    ------
    Unsupported
        If links differ.
    """
    _check_equal(topology)
    begin = now()
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
        begin=begin,
    )


def whole_optimum(topology: Topology) -> Fraction:
    """Return the optimum of both, exactly, by counting.

    Raises
    ------
    Unsupported
        If links differ.
    """
    _check_equal(topology)
    return sum(workloads(topology).peaks, Fraction(0))


def _check_equal(topology: Topology) -> None:
    if not topology.homogeneous:
        name = "bandwidth" if not topology.bandwidth.uniform else "alpha"
        unequal = f"{topology.name} has links of unequal {name}"
        raise Unsupported(f"bfb's program (3.1) needs links of one bandwidth and alpha; {unequal}")


def routing_matrices(topology: Topology) -> CompiledModel:
    """Return the relaxation; bandwidths in units of the largest, T in shards over that.

    Columns are f by (s, d) and link, then g by s and link, then T. Rows are the three families in order.

    Examples
    --------
    >>> from tutti.topologies.text import parse_topology
    >>> model = routing_matrices(parse_topology("ring:3"))
    >>> model.num_columns, model.num_rows
    (55, 54)
    """
    begin, bandwidth = now(), topology.bandwidth.floats
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
    return CompiledModel.of_matrix(
        "routing", matrix, np.arange(columns) == columns - 1, lower, upper, begin=begin
    )


def routing_optimum(topology: Topology) -> Fraction:
    """Return the optimum of `routing_matrices`, exactly: the ratio of the bottleneck cut."""
    return bottleneck_cut(topology).ratio * max(topology.bandwidth)


def _conservation(
    topology: Topology, source: np.ndarray, sink: np.ndarray, f: np.ndarray
) -> tuple[coo_array, np.ndarray]:
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
