"""Linear programs to compare solvers on whose optimum is known exactly without one.

BFB's programs (3.1) of a topology as one, which minimizes T_B itself (dissertation, section 3.6.1):

    minimize    sum over t of U_t                                          T_B, in shards a link (3.2)
    subject to  sum over v of x[v, e] <= b_e U_t   for every step t and link e, of v at t hops from its end
                sum over e of x[v, e] = 1          for every node u and source v, of the links e into u
                x >= 0

b is 1, and a mutable parameter. The subproblems (u, t) share no x, so U_t becomes the largest of their U and
the optimum is known exactly from `models.bfb.counting`. Solved as one, they are a large, sparse and very
degenerate program.

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

from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pyomo.environ as pyo

from tutti.models.all_to_all.model import bandwidths, incidence
from tutti.models.bfb.counting import workloads
from tutti.models.bounds.bottleneck_cut import bottleneck_cut
from tutti.topologies.errors import Unsupported
from tutti.topologies.graphs.shortest_paths import hop_distances
from tutti.topologies.topology import Topology


def whole_model(topology: Topology) -> pyo.ConcreteModel:
    """Return the program, as it stands above, of a switch-free topology with equal links.

    Raises
    ------
    Unsupported
        If links differ.
    """
    _check_equal(topology)
    hops, target = hop_distances(topology), topology.target.tolist()
    nearer = hops[:, topology.target] == hops[:, topology.source] + 1
    pairs = [(v, e) for v, e in np.argwhere(nearer).tolist()]
    brought, whole = defaultdict(list), defaultdict(list)
    for v, e in pairs:
        brought[e, int(hops[v, target[e]])].append(v)
        whole[v, target[e]].append(e)
    m = pyo.ConcreteModel(name="bfb-whole")
    m.steps = pyo.Set(initialize=range(1, int(hops.max()) + 1), doc="t")
    m.links = pyo.Set(initialize=range(topology.num_links), doc="e = (w, u)")
    m.pairs = pyo.Set(initialize=pairs, dimen=2, doc="(v, e) with d(v, u) = d(v, w) + 1")
    m.b = pyo.Param(m.links, initialize=1.0, within=pyo.NonNegativeReals, mutable=True, doc="b_e")
    m.U = pyo.Var(m.steps, doc="U_t")
    m.x = pyo.Var(m.pairs, bounds=(0, None), doc="x_{v,(w,u)}")

    @m.Constraint(list(brought))
    def load_within_u(m: Any, e: int, t: int) -> Any:
        """Link e brings at most b_e U_t shards in step t."""
        return sum(m.x[v, e] for v in brought[e, t]) <= m.b[e] * m.U[t]

    @m.Constraint(list(whole))
    def shard_arrives_whole(m: Any, v: int, u: int) -> Any:
        """Node u receives all of v's shard."""
        return sum(m.x[v, e] for e in whole[v, u]) == 1

    m.objective = pyo.Objective(expr=sum(m.U[t] for t in m.steps), sense=pyo.minimize)
    return m


def whole_optimum(topology: Topology) -> Fraction:
    """Return the optimum of `whole_model`, exactly, by counting.

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


def routing_model(topology: Topology) -> pyo.ConcreteModel:
    """Return the relaxation, as it stands above.

    Bandwidths are in units of the largest one, and T in shards over that.

    Examples
    --------
    >>> from tutti.models.solvers import compile_model
    >>> from tutti.topologies.text import parse_topology
    >>> model = compile_model(routing_model(parse_topology("ring:3")))
    >>> model.num_columns, model.num_rows
    (55, 54)
    """
    m = pyo.ConcreteModel(name="routing")
    m.ranks = pyo.Set(initialize=range(topology.num_ranks), doc="s and d")
    m.links = pyo.Set(initialize=range(topology.num_links), doc="e")
    m.pairs = pyo.Set(initialize=[(s, d) for s in m.ranks for d in m.ranks if s != d], doc="(s, d)")
    m.f = pyo.Var(m.pairs, m.links, bounds=(0, None), doc="f_{s,d,e}")
    m.g = pyo.Var(m.ranks, m.links, bounds=(0, None), doc="g_{s,e}")
    m.T = pyo.Var(bounds=(0, None), doc="T")
    b = bandwidths(topology)
    ends = zip(topology.source.tolist(), topology.target.tolist(), strict=True)
    out_of, into = incidence(topology.num_nodes, ends)

    @m.Constraint(m.pairs, m.links)
    def copies_share_the_link(m: Any, s: int, d: int, e: int) -> Any:
        """Link e carries s's shard once for all destinations."""
        return m.f[s, d, e] <= m.g[s, e]

    @m.Constraint(m.pairs, range(topology.num_nodes))
    def shard_arrives(m: Any, s: int, d: int, u: int) -> Any:
        """What comes into a node goes on, but for the shard at its destination."""
        if u == s:
            return pyo.Constraint.Skip
        passed = sum(m.f[s, d, e] for e in into[u]) - sum(m.f[s, d, e] for e in out_of[u])
        return passed == (1 if u == d else 0)

    @m.Constraint(m.links)
    def load_within_time(m: Any, e: int) -> Any:
        """Link e carries the shards of all ranks within T."""
        return sum(m.g[s, e] for s in m.ranks) <= b[e] * m.T

    m.objective = pyo.Objective(expr=m.T, sense=pyo.minimize)
    return m


def routing_optimum(topology: Topology) -> Fraction:
    """Return the optimum of `routing_model`, exactly: the ratio of the bottleneck cut."""
    return bottleneck_cut(topology).ratio * max(topology.bandwidth)
