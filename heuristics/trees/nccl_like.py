"""The choice that NCCL would make: for an allreduce rings or double binary trees, by the size; else rings.

On g ranks in each of several hosts there are g *channels*, each with an equal part of the data. A ring of
channel c goes through the ranks c, c + 1, ..., c - 1 (modulo g) of each host and on to rank c of the next. So
every rank's adapter sends for one channel and receives for one. The trees of channel c are double binary
trees that join ranks c of the hosts, and a chain from there through each host (Jeaugey: Massively Scale Your
Deep Learning Training with NCCL 2.4, 2019). If hosts have unequal sizes, there is a channel for each rank of
the smallest, and its ring goes through all ranks of each host. Where this is slower, and on other networks,
the ring and the trees of the methods `ring` and `dbt` are used. NCCL estimates times from a host; here they
go in rank order. NCCL knows which ranks share a host, so hosts that the network does not name are inferred
where they are obvious (`topologies.graphs.grid_structure`).
"""

from __future__ import annotations

import numpy as np

from tutti.heuristics.classic.ring import RING, rings_allgather
from tutti.heuristics.classic.steps import check_allgathers
from tutti.heuristics.hosts import HostOptions, with_note_on_hosts
from tutti.heuristics.trees.double_binary_tree import double_binary_trees
from tutti.heuristics.trees.pipelined_trees import fastest_trees
from tutti.schedules.capabilities import Capabilities, Groups
from tutti.schedules.collective import Kind
from tutti.schedules.compose import BY_ALLGATHER, from_allgather
from tutti.schedules.cost import congestion
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.simulate import simulate
from tutti.topologies.exact import Int32Array, Int64Array
from tutti.topologies.graphs.grid_structure import hosts_of, members_of, uneven_hosts
from tutti.topologies.topology import Topology

AUTOMATIC = 0


def synthesize(problem: Problem, options: HostOptions, rng: np.random.Generator) -> Schedule:
    """Return the faster one; ``stats["algorithm"]`` says which.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    hosts = _hosts(problem.topology, options)
    every = [RING.synthesize(problem, RING.options(), rng)]
    if hosts is not None:
        rings = rings_through(hosts)
        every.insert(0, from_allgather(problem, lambda one: rings_allgather(one, rings)))
    every = [_named(ring, "ring") for ring in every]
    made = _fastest(problem, hosts, every)
    uneven = uneven_hosts(problem.topology)
    if uneven is None:
        return with_note_on_hosts(made, options)
    note = f"{uneven}: a channel for each rank of the smallest"
    return made.replace(stats={**made.stats, "note": note})


def _fastest(problem: Problem, hosts: list[Int64Array] | None, rings: list[Schedule]) -> Schedule:
    """Return the fastest of rings and, for an allreduce at a size, trees; without a size the least loaded."""
    size, every = problem.size, list(rings)
    if size is None:
        return min(every, key=congestion)
    if problem.collective.kind is Kind.ALLREDUCE:
        trees = double_binary_trees(problem.topology.num_ranks)
        trees = trees if hosts is None else [trees_through(hosts), *trees]
        every.append(_named(fastest_trees(problem, trees, AUTOMATIC), "dbt"))
    return min(every, key=lambda one: simulate(one, size).time)


def _hosts(topology: Topology, options: HostOptions) -> list[Int64Array] | None:
    """Return the ranks of each host; None if none are known."""
    return members_of(hosts_of(topology, infer=options.infer_hosts), topology)


def _named(schedule: Schedule, algorithm: str) -> Schedule:
    return schedule.replace(stats={**schedule.stats, "algorithm": algorithm})


def rings_through(hosts: list[Int64Array]) -> Int64Array:
    """Return the ranks in the order of each channel's ring, for the ranks of each host, of any size.

    Examples
    --------
    >>> rings_through([np.array([0, 1, 2]), np.array([3, 4])]).tolist()
    [[0, 1, 2, 3, 4], [1, 2, 0, 4, 3]]
    """
    return np.stack([np.concatenate(order) for order in _orders(hosts)])


def _orders(hosts: list[Int64Array]) -> list[list[Int64Array]]:
    """Return for each channel the ranks of each host in its order, for as many as every host has ranks."""
    return [[np.roll(members, -channel) for members in hosts] for channel in range(_channels(hosts))]


def _channels(hosts: list[Int64Array]) -> int:
    return min(map(len, hosts))


def trees_through(hosts: list[Int64Array]) -> Int32Array:
    """Return the parents in both trees of each channel, for the ranks of each host, of any size.

    Examples
    --------
    >>> trees_through([np.array([0, 1, 2]), np.array([3, 4])]).tolist()
    [[3, 0, 1, -1, 3], [2, 4, 1, 4, -1], [-1, 0, 1, 0, 3], [2, -1, 1, 4, 1]]
    """
    return _trees_in_order(_orders(hosts))


def _trees_in_order(orders: list[list[Int64Array]]) -> Int32Array:
    """Return double binary trees of the first ranks, each with a chain through its host, by channel."""
    trees = []
    for parent in double_binary_trees(len(orders[0]))[0].tolist():
        for order in orders:
            tree = np.full(sum(map(len, order)), -1, dtype=np.int32)
            for own, above in zip(order, parent, strict=True):
                tree[own[1:]] = own[:-1]
                tree[own[0]] = -1 if above < 0 else order[above][0]
            trees.append(tree)
    return np.stack(trees)


def chained_trees(hosts: int, chains: Int64Array) -> Int32Array:
    """Return the parents in double binary trees of the hosts' heads, with a chain from each through its host.

    Parameters
    ----------
    hosts
        Number of hosts.
    chains
        Shape (channels, ranks of a host): the places of a host in the order of each channel, its head first.

    Returns
    -------
    ndarray
        int32, shape (2 x channels, hosts x ranks of a host), -1 at roots.
    """
    ranks = chains.shape[1]
    return _trees_in_order([[chain + ranks * host for host in range(hosts)] for chain in chains])


def check(problem: Problem, options: HostOptions) -> None:
    """Raise `Unsupported` for too many transfers."""
    hosts = _hosts(problem.topology, options)
    check_allgathers(METHOD, problem, 2 if hosts is None else max(2, _channels(hosts)))


METHOD = Method(
    name="nccl_like",
    kind="heuristic",
    synthesize=synthesize,
    options=HostOptions,
    capabilities=Capabilities(BY_ALLGATHER, Groups.NONE),
    check=check,
    size_dependent=lambda problem, options: (
        problem.collective.kind is Kind.ALLREDUCE or _hosts(problem.topology, options) is not None
    ),
    summary="rings or double binary trees, a channel a rank of a host, whichever is faster at the size",
)
