"""NCCL's run of a collective: its model's choice of algorithm and protocol at the size, and a schedule.

Rings and trees have the channels of `heuristics.nccl.channels`, each with an equal part of the data; a
broadcast or a reduce goes along the rings in slices. Trees are double binary trees of hosts and chains
inside (`heuristics.trees.nccl_like`), NVLS is `heuristics.trees.sharp`, PAT `heuristics.classic.pat`. The
schedule is timed like any other; the protocol has no effect on that, only on the model's own time.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np

from tutti.heuristics.classic.pat import METHOD as PAT
from tutti.heuristics.classic.ring import rings_allgather
from tutti.heuristics.classic.steps import check_allgathers
from tutti.heuristics.hosts import hosts_for, with_note_on_hosts
from tutti.heuristics.nccl.channels import chains, exits_of, over_parallel_links, rings, rounds_of
from tutti.heuristics.nccl.constants import VERSION, Algorithm
from tutti.heuristics.nccl.machine import NcclOptions, cluster_of, switches_of_hosts
from tutti.heuristics.nccl.model import KINDS, Estimate, NcclCluster, estimates
from tutti.heuristics.trees.nccl_like import AUTOMATIC, chained_trees
from tutti.heuristics.trees.pipelined_trees import pipelined_trees
from tutti.heuristics.trees.sharp import over_switches
from tutti.schedules.capabilities import Capabilities, Groups, Shape
from tutti.schedules.collective import Kind
from tutti.schedules.compose import from_allgather
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.exact import Int32Array, Int64Array
from tutti.topologies.graphs.grid_structure import Hosts
from tutti.topologies.topology import Topology
from tutti.topologies.units import duration

MUCH = Fraction(2**30)
"""Bytes of M if no size is given."""


def synthesize(problem: Problem, options: NcclOptions, rng: np.random.Generator) -> Schedule:
    """Return the schedule; ``stats`` has the algorithm, the protocol and the microseconds of NCCL's model.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    hosts, every, cluster = found(problem.topology, options)
    left = reckoned(cluster, problem.collective.kind, problem.size, options)
    chosen = min(left, key=lambda one: one.micros)
    orders = _chains(problem.topology, hosts, every, cluster)
    made = over_parallel_links(_schedule(problem, hosts, orders, chosen.algorithm, rng))
    said = {
        "algorithm": str(chosen.algorithm),
        "protocol": str(chosen.protocol),
        "nccl_us": chosen.micros,
        "note": _note(cluster, chosen, told=bool(options.algorithm or options.protocol)),
    }
    return with_note_on_hosts(made.replace(stats={**made.stats, **said}), options)


def reckoned(cluster: NcclCluster, kind: Kind, size: Fraction | None, options: NcclOptions) -> list[Estimate]:
    """Return the model's estimates for the algorithms and protocols that the options leave.

    Raises
    ------
    Unsupported
        If they leave nothing.
    """
    wanted = (options.algorithm, options.protocol)
    every = [
        one
        for one in estimates(cluster, kind, float(size or MUCH))
        if all(given in (None, own) for given, own in zip(wanted, one, strict=False))
    ]
    if not every:
        asked = " with ".join(filter(None, wanted))
        raise METHOD.unsupported(f"has no {asked} for {kind} on {cluster}")
    return every


def _note(cluster: NcclCluster, chosen: Estimate, *, told: bool) -> str:
    """Return a note: NCCL's choice or the user's, what the times mean, and what is assumed of the machine."""
    takes = "is set to take" if told else "takes"
    lacks = cluster.known.nvls > 0 and cluster.gpus > 1 and cluster.nvls is None
    parts = [
        f"NCCL {VERSION} {takes} {chosen.algorithm} with {chosen.protocol}, {duration(chosen.micros)} by its "
        "model, which counts kernels and protocols; the simulated time counts the network alone, as that of "
        "all methods does",
        "NVLS is left out, as no switch adds and multicasts" if lacks else "",
        f"assumed: {cluster}",
    ]
    return "; ".join(filter(None, parts))


def _schedule(
    problem: Problem, hosts: Hosts, orders: Int64Array, algorithm: Algorithm, rng: np.random.Generator
) -> Schedule:
    """Return the schedule of an algorithm."""
    if algorithm in (Algorithm.NVLS, Algorithm.NVLS_TREE):
        switches = switches_of_hosts(problem.topology, hosts)
        return over_switches(problem, set(switches or ()), AUTOMATIC)
    if algorithm is Algorithm.PAT:
        return PAT.synthesize(problem, PAT.options(), rng)
    if algorithm is Algorithm.TREE:
        return pipelined_trees(problem, _trees(hosts, orders), AUTOMATIC)
    round_trips = rings(hosts, orders)
    if problem.collective.root is not None:
        # rings are chains that begin at the root
        parents = np.empty(round_trips.shape, dtype=np.int32)
        np.put_along_axis(parents, round_trips, np.roll(round_trips, 1, axis=1), axis=1)
        parents[:, problem.collective.root] = -1
        return pipelined_trees(problem, parents, AUTOMATIC)
    return from_allgather(problem, partial(rings_allgather, rings=round_trips))


def _chains(topology: Topology, hosts: Hosts, every: Int64Array, cluster: NcclCluster) -> Int64Array:
    """Return the order of a host's places in each channel."""
    exits = exits_of(topology, hosts) if cluster.hosts > 1 else np.arange(cluster.gpus)
    return chains(every, cluster.hosts, cluster.channels.number, exits)


def _trees(hosts: Hosts, orders: Int64Array) -> Int32Array:
    """Return the parents in the trees of all channels; of one host the two trees of a channel are one."""
    rank, trees = hosts.ranks.ravel(), chained_trees(len(hosts.ranks), orders)
    parents = np.empty_like(trees)
    parents[:, rank] = np.where(trees < 0, trees, rank[trees])
    return parents[: len(orders)] if len(hosts.ranks) == 1 else parents


def found(topology: Topology, options: NcclOptions) -> tuple[Hosts, Int64Array, NcclCluster]:
    """Return the hosts, the rounds of their places, and the machine for the model.

    Raises
    ------
    Unsupported
        If there are no hosts.
    """
    hosts = hosts_for(METHOD, topology, infer=options.infer_hosts, trivial=True)
    every = rounds_of(topology, hosts)
    return hosts, every, cluster_of(topology, hosts, every, options)


def check(problem: Problem, options: NcclOptions) -> None:
    """Raise `Unsupported` for a network without hosts, and for too many transfers."""
    hosts, every, cluster = found(problem.topology, options)
    check_allgathers(METHOD, problem, 2 * len(_chains(problem.topology, hosts, every, cluster)))
    reckoned(cluster, problem.collective.kind, problem.size, options)


METHOD = Method(
    name="nccl",
    kind="heuristic",
    synthesize=synthesize,
    options=NcclOptions,
    capabilities=Capabilities(KINDS, Groups.NONE, shape=Shape.ONE_HOST),
    check=check,
    size_dependent=lambda problem, options: True,
    summary="what NCCL would run on hosts of GPUs: its model's choice of rings, trees or NVLS at the size",
)
