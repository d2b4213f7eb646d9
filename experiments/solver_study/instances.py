"""The linear programs of a study, by name: a topology turned into matrices, and what certifies its value.

Of some models the exact optimum is known without a linear program (BFB by counting, routing by the bottleneck
cut), or another algorithm proves it (allreduce, by cuts and trees). Of all-to-all every solver's answer
proves an interval of its own, in integers and whatever the solver's tolerance was; all of them hold, so their
intersection does.

Two programs are written here. BFB's programs (3.1) of a topology as one minimize T_B itself (dissertation,
section 3.6.1):

    minimize    sum over t of U_t                                          T_B, in shards a link (3.2)
    subject to  sum over v of x[v, e] <= b_e U_t   for every step t and link e, of v at t hops from its end
                sum over e of x[v, e] = 1          for every node u and source v, of the links e into u
                x >= 0

b is 1, and a mutable parameter. The subproblems (u, t) share no x, so U_t becomes the largest of their U and
the optimum is known exactly from `models.bfb.counting`. Solved as one, they are a large, sparse and very
degenerate program.

In the routing relaxation of allgather every rank's shard flows to every other rank by itself:

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
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np
import pyomo.environ as pyo

from tutti.experiments.runner.tasks import Stopwatch
from tutti.models.all_to_all.certificate import upper_bound
from tutti.models.all_to_all.demand import Demand
from tutti.models.all_to_all.model import bandwidths, incidence
from tutti.models.all_to_all.optimum import FlowProgram, best_lengths
from tutti.models.all_to_all.rounding import exact_flow
from tutti.models.allreduce import allreduce_optimum
from tutti.models.allreduce.model import allreduce_model
from tutti.models.bfb.counting import workloads
from tutti.models.bfb.method import METHOD
from tutti.models.bounds.bottleneck_cut import bottleneck_cut
from tutti.models.solvers import CompiledModel, SolverResult, compile_model
from tutti.schedules.collective import Kind, collective
from tutti.schedules.method import Problem
from tutti.topologies.errors import Unsupported
from tutti.topologies.exact import FloatArray
from tutti.topologies.graphs.shortest_paths import hop_distances
from tutti.topologies.options import Options
from tutti.topologies.topology import Topology

PROOF_SECONDS = 60.0
"""Time for the proof of an allreduce optimum, once an instance, in seconds; what is proven by then counts."""

BYTES_AN_ENTRY = 1500
"""Memory for a nonzero while a model is built, compiled and written; measured: 600 to 1,800."""

Bounds = tuple[Fraction | None, Fraction | None]
"""Proven bounds on an optimum: from below and from above."""
UNKNOWN: Bounds = (None, None)


@dataclass(frozen=True, eq=False)
class SolverInstance:
    """A linear or mixed-integer program, ready to be solved.

    Parameters
    ----------
    compiled
        Its matrices.
    build_s
        Seconds from the topology to the matrices.
    known
        The optimum, where it is known exactly.
    certified_by
        What proves the value, in words.
    certify
        From a solver's values and duals to bounds on the optimum; either may be None.
    """

    compiled: CompiledModel
    build_s: float
    known: Fraction | None
    certified_by: str
    certify: Callable[[FloatArray | None, FloatArray | None], Bounds] = lambda values, duals: UNKNOWN

    def bounds(self, result: SolverResult) -> Bounds:
        """Return what is proven of the optimum, with a solver's answer at hand."""
        if self.known is not None:
            return self.known, self.known
        return self.certify(result.values, result.duals)


@dataclass(frozen=True)
class StudyModel:
    """A kind of linear program, or of mixed-integer program.

    Parameters
    ----------
    name, summary
        As users write it; what it is.
    kind
        The collective that it speaks of.
    build
        From a topology to the instance; raises `Unsupported` where the model does not suit the network.
    entries
        About how many nonzeros its matrix has; of BFB's and mixed-integer programs at most.
    options
        Checks itself; where it has fields, `build` and `entries` also take it.
    """

    name: str
    summary: str
    kind: Kind
    build: Callable[..., SolverInstance]
    entries: Callable[..., int]
    options: type[Options] = Options

    def given(self, text: str, options: Options) -> StudyModel:
        """Return the model with its options, under a name that says them."""
        build, entries = partial(self.build, options=options), partial(self.entries, options=options)
        return replace(self, name=text, options=Options, build=build, entries=entries)

    def memory(self, topology: Topology) -> int:
        """Return about how many bytes building and writing it takes."""
        return self.entries(topology) * BYTES_AN_ENTRY


def whole_model(topology: Topology) -> Any:
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


def routing_model(topology: Topology) -> Any:
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
        """All that comes into a node leaves it, but for the shard at its destination."""
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


def timed(build: Callable[[], Any]) -> tuple[CompiledModel, float]:
    """Return the matrices of the model that a function builds, and the seconds that making them took."""
    with Stopwatch() as watch:
        made = compile_model(build())
    return made, watch.seconds


def _bfb(topology: Topology) -> SolverInstance:
    """BFB's linear programs (3.1) of all nodes and steps as one."""
    METHOD.supports(Problem(topology, collective(Kind.ALLGATHER, topology.num_ranks)), METHOD.options())
    whole_optimum(topology)  # its kernels compile here, if they must, and not in the measured time
    compiled, seconds = timed(lambda: whole_model(topology))
    return SolverInstance(compiled, seconds, whole_optimum(topology), "counting, exact")


def _routing(topology: Topology) -> SolverInstance:
    """The routing relaxation of allgather."""
    compiled, seconds = timed(lambda: routing_model(topology))
    return SolverInstance(compiled, seconds, routing_optimum(topology), "bottleneck cut, exact")


def _all_to_all(topology: Topology) -> SolverInstance:
    """All-to-all as a multi-commodity flow, aggregated by source (A.1)."""
    demand = Demand.of(topology, collective(Kind.ALL_TO_ALL, topology.num_ranks))
    program = FlowProgram(demand)
    unit = Fraction(int(demand.amounts.max()), demand.denominator) / max(topology.bandwidth)

    def certify(values: FloatArray | None, duals: FloatArray | None) -> Bounds:
        """Return bounds on f: the time is proven, and f is the inverse of it in the model's units."""
        fastest, _ = best_lengths(demand, None if duals is None else program.lengths(duals))
        if values is None or not values[-1] > 0:
            return None, unit / fastest
        return unit / upper_bound(exact_flow(demand, program.flows(values))), unit / fastest

    return SolverInstance(program.compiled, program.build_s, None, "lengths and a flow, in integers", certify)


def _allreduce(topology: Topology) -> SolverInstance:
    """Allreduce by in-trees and out-trees, its max-flows written out (B.5)."""
    compiled, seconds = timed(lambda: allreduce_model(topology))

    @cache
    def proven() -> Bounds:
        """Prove it once, when it is first asked for: a program that is only written needs no proof."""
        optimum = allreduce_optimum(topology, time_limit=PROOF_SECONDS, by="cuts")
        fastest = max(topology.bandwidth)
        return 1 / (optimum.upper * fastest), 1 / (optimum.lower * fastest)

    said = "cuts and trees, in integers"
    return SolverInstance(compiled, seconds, None, said, lambda values, duals: proven())


def _flow_entries(topology: Topology) -> int:
    """Return 3 N links: a flow leaves a node, enters a node, and loads a link; of BFB's likewise."""
    return 3 * topology.num_ranks * topology.num_links


def _allreduce_entries(topology: Topology) -> int:
    """Return the entries of two flows for each rank, and of the flow that carries b' over switches."""
    ranks, links = topology.num_ranks, topology.num_links
    arcs = ranks * (ranks - 1) if topology.num_switches else links
    return 8 * ranks * (arcs + ranks) + (3 * ranks * links if topology.num_switches else 0)


def said_of(build: Callable[..., Any]) -> str:
    """Return the first line of a function's text, without the point."""
    return (build.__doc__ or "").partition("\n")[0].rstrip(".")


MODELS: dict[str, StudyModel] = {
    name: StudyModel(name, said_of(build), kind, build, entries)
    for name, kind, build, entries in (
        ("bfb", Kind.ALLGATHER, _bfb, _flow_entries),
        ("mcf", Kind.ALL_TO_ALL, _all_to_all, _flow_entries),
        ("allreduce", Kind.ALLREDUCE, _allreduce, _allreduce_entries),
        ("routing", Kind.ALLGATHER, _routing, lambda network: 4 * network.num_ranks**2 * network.num_links),
    )
}
"""The models of a study; a new one is an entry here."""
OLD = {"bfb-pyomo": "bfb", "all-to-all-pyomo": "mcf"}
"""Further names of models."""
MODELS |= {old: replace(MODELS[own], name=old, summary=f"another name of {own}") for old, own in OLD.items()}
