"""NCCL's run of a collective: its model's choice of algorithm and protocol at the size, and a schedule.

Rings and trees have channels, each with an equal part of the data. The order of GPUs is along NVLinks inside
a host, and between hosts on one rail. If a host's GPUs are on a switch, channels take them in their order. If
GPUs are linked to each other, as on DGX-1, channels follow rounds of the GPUs that share no link (`rounds`).
On several hosts, channels begin at evenly spaced places, or at places nearby where no other channel enters or
leaves. So each channel has its own adapters if there are enough. In every second host rings run backwards: a
ring then enters a host at the place at which it left the host before, which is on the same rail (NCCL does so
by default, ``NCCL_CROSS_NIC=2``).

A broadcast or a reduce goes along the rings in slices. Trees are double binary trees of hosts and chains
inside (`heuristics.trees.nccl_like`), NVLS is `heuristics.trees.sharp`, PAT `heuristics.classic.pat`. The
schedule is timed like any other; the protocol has no effect on that, only on the model's own time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np

from tutti.heuristics.classic.pat import METHOD as PAT
from tutti.heuristics.classic.ring import rings_allgather
from tutti.heuristics.classic.steps import check_allgathers
from tutti.heuristics.hosts import hosts_for, with_note_on_hosts
from tutti.heuristics.nccl.machine import NcclOptions, cluster_of, switches_of_hosts
from tutti.heuristics.nccl.model import KINDS, VERSION, Algorithm, Estimate, NcclCluster, estimates
from tutti.heuristics.trees.nccl_like import AUTOMATIC, chained_trees
from tutti.heuristics.trees.pipelined_trees import pipelined_trees
from tutti.heuristics.trees.sharp import over_switches
from tutti.schedules.capabilities import Capabilities, Groups, Shape
from tutti.schedules.collective import Kind
from tutti.schedules.compose import from_allgather
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Routes, Schedule
from tutti.topologies.exact import Int64Array, offsets_of
from tutti.topologies.graphs.grid_structure import Hosts
from tutti.topologies.graphs.shortest_paths import shortest_routes
from tutti.topologies.topology import Topology
from tutti.topologies.units import duration

MUCH = Fraction(2**30)
"""Bytes of M if no size is given."""
MOST_LOOKED_AT = 5_000
"""Largest number of partial rounds that are tried; NCCL's search has a similar limit."""
PASSES = 20
"""Number of times that each channel may move its start. More passes may leave fewer shared adapters."""


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
        rank, trees = hosts.ranks.ravel(), chained_trees(len(hosts.ranks), orders)
        parents = np.empty_like(trees)
        parents[:, rank] = np.where(trees < 0, trees, rank[trees])
        # With one host the two trees of a channel are one.
        return pipelined_trees(
            problem, parents[: len(orders)] if len(hosts.ranks) == 1 else parents, AUTOMATIC
        )
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


def chains(every: Int64Array, hosts: int, number: int, exits: Int64Array) -> Int64Array:
    """Return the places of a host in the order of each channel, shape (channels, GPUs of a host).

    Parameters
    ----------
    every
        The rounds of a host (`rounds_of`).
    hosts
        The number of hosts; one has a channel for each round.
    number
        The number of channels of several hosts; at most the number of rounds, or of places where they may
        begin.
    exits
        The adapter by which a ring leaves a host from each place (`exits_of`).

    Examples
    --------
    >>> chains(np.array([[0, 1, 2, 3]]), 2, 2, np.arange(4)).tolist()
    [[0, 1, 2, 3], [2, 3, 0, 1]]
    >>> chains(np.array([[0, 1, 2, 3]]), 2, 3, np.array([0, 1, 1, 3])).tolist()
    [[0, 1, 2, 3], [1, 2, 3, 0], [3, 0, 1, 2]]
    """
    if hosts == 1:
        return every
    gpus = every.shape[1]
    channel = np.arange(min(number, max(gpus, len(every))))
    begin = channel * gpus // len(channel)
    if len(every) == 1 and (np.diff(every[0]) == 1).all():  # all are on a switch: any order is possible
        return np.stack(list(_on_a_switch(every[0], begin.tolist(), exits.tolist())))
    taken = every[channel % len(every)]
    begin = _apart(exits[taken], begin)
    turned: Int64Array = taken[channel[:, None], (begin[:, None] + np.arange(gpus)) % gpus]
    return turned


def _on_a_switch(order: Int64Array, begin: list[int], exits: list[int]) -> Iterator[Int64Array]:
    """Yield orders whose starts and ends are spread evenly over adapters, and then over places."""
    heads, tails = Counter[tuple[int, int]](), Counter[tuple[int, int]]()

    def uses(counts: Counter[tuple[int, int]], place: int) -> tuple[int, int]:
        of_adapter = sum(count for (adapter, _), count in counts.items() if adapter == exits[place])
        return of_adapter, counts[exits[place], place]

    for first in begin:
        chain = min(
            (np.roll(order, -first - by) for by in range(len(order))), key=lambda c: uses(heads, int(c[0]))
        )
        last = min(range(len(order) - 1, 0, -1), key=lambda at: uses(tails, int(chain[at])), default=0)
        chain = np.append(np.delete(chain, last), chain[last])
        for counts, place in ((heads, int(chain[0])), (tails, int(chain[-1]))):
            counts[exits[place], place] += 1
        yield chain


def _apart(exits: Int64Array, begin: Int64Array) -> Int64Array:
    """Return where channels begin on their rounds so that few share the adapters at which they begin or end.

    Parameters
    ----------
    exits
        The adapter of each place of each channel's round, shape (channels, places).
    begin
        The first choice of the starts, shape (channels,).
    """
    count, gpus = exits.shape
    ends, begin = np.roll(exits, 1, axis=1), begin.copy()
    for channel in list(range(count)) * PASSES:
        other = np.arange(count) != channel
        shared = np.zeros(gpus, dtype=np.int64)
        for own in (exits, ends):
            shared += np.count_nonzero(own[channel][:, None] == own[other, begin[other]], axis=1)
        if shared[begin[channel]]:  # also to a place that is no better: the others may then find better ones
            turns = (begin[channel] + np.arange(1, gpus + 1)) % gpus
            begin[channel] = turns[np.argmin(shared[turns])]
    return begin


def exits_of(topology: Topology, hosts: Hosts) -> Int64Array:
    """Return the adapter by which each place of a host leaves it for the next one, shape (GPUs of a host,).

    Places with equal entries share an adapter. The entries are those of the host that uses the fewest.
    """
    here, there = hosts.ranks, np.roll(hosts.ranks, -1, axis=0)
    offsets, links = shortest_routes(topology, here.ravel(), there.ravel())
    from_host, to_host = hosts.of[topology.source[links]], hosts.of[topology.target[links]]
    leaving = np.flatnonzero((from_host >= 0) & (from_host != to_host))
    first = leaving[np.searchsorted(leaving, offsets[:-1])]
    exits = topology.source[links[first]].astype(np.int64).reshape(here.shape)
    fewest: Int64Array = min(exits, key=lambda row: len(np.unique(row)))
    return fewest


def rings(hosts: Hosts, chains: Int64Array) -> Int64Array:
    """Return the ranks in the order of each channel's ring, shape (channels, N).

    Examples
    --------
    >>> two = Hosts(np.arange(6).reshape(2, 3), np.zeros(6, dtype=np.int32), inferred=False)
    >>> rings(two, np.array([[0, 1, 2], [1, 2, 0]])).tolist()
    [[0, 1, 2, 5, 4, 3], [1, 2, 0, 3, 5, 4]]
    """
    parts = [ranks[chains if host % 2 == 0 else chains[:, ::-1]] for host, ranks in enumerate(hosts.ranks)]
    return np.concatenate(parts, axis=1)


def over_parallel_links(schedule: Schedule) -> Schedule:
    """Return a step schedule whose messages of a step, from one node to another, take its links in turn."""
    topology, table, order = schedule.topology, schedule.route_table, schedule.order
    pairs, group, sizes = np.unique(
        topology.source.astype(np.int64) * topology.num_nodes + topology.target,
        return_inverse=True,
        return_counts=True,
    )
    if order is None or len(pairs) == topology.num_links:
        return schedule
    lengths = np.diff(table.offsets)[schedule.route]
    offsets = offsets_of(lengths)
    row = np.repeat(np.arange(len(lengths)), lengths)
    taken = group[table.links[table.offsets[schedule.route][row] + np.arange(len(row)) - offsets[row]]]
    key = order[row].astype(np.int64) * len(pairs) + taken
    sort = np.argsort(key, kind="stable")
    # `turn` numbers the messages of a step between two nodes: each takes the next of their links.
    turn = np.empty(len(row), dtype=np.int64)
    turn[sort] = np.arange(len(row)) - np.searchsorted(key[sort], key[sort])
    links = np.argsort(group, kind="stable")[offsets_of(sizes)[taken] + turn % sizes[taken]].astype(np.int32)
    if (lengths == 1).all():
        return schedule.replace(route=links, routes=None)
    return schedule.replace(route=np.arange(len(lengths), dtype=np.int32), routes=Routes(offsets, links))


def rounds_of(topology: Topology, hosts: Hosts) -> Int64Array:
    """Return the rounds along the links of a host's places, shape (rounds, GPUs of a host)."""
    ends = np.stack([topology.source, topology.target])
    ends = ends[:, (ends < topology.num_ranks).all(axis=0)]
    every = np.zeros((topology.num_ranks, topology.num_ranks), dtype=np.int64)
    np.add.at(every, tuple(ends), 1)
    fewest = np.min([every[np.ix_(ranks, ranks)] for ranks in hosts.ranks], axis=0)
    return np.array(rounds(fewest), dtype=np.int64)


def rounds(links: Int64Array) -> list[list[int]]:
    """Return rounds of all places that share no link, the most found; if there is none, the order of places.

    Parameters
    ----------
    links
        Shape (g, g): the number of links from one place to another.

    Examples
    --------
    >>> rounds(np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]]))
    [[0, 1, 2], [0, 2, 1]]
    """
    plain = [list(range(len(links)))]
    if len(links) == 1 or not links.any():
        return plain
    found = np.array(list(_all_rounds(links)), dtype=np.int64).reshape(-1, len(links))
    wires = found * len(links) + np.roll(found, -1, axis=1)
    best: list[int] = []
    looked = 0

    def extend(chosen: list[int], free: Int64Array, fitting: Int64Array) -> None:
        nonlocal best, looked
        # Branch and bound: a place has a link out for each further round, so `most` rounds can be reached.
        looked += 1
        best = max(best, chosen, key=len)
        most = len(chosen) + int(free.reshape(links.shape).sum(axis=1).min())
        for number, place in enumerate(fitting.tolist()):
            if most <= len(best) or looked > MOST_LOOKED_AT:
                return
            left = free.copy()
            left[wires[place]] -= 1
            after = fitting[number:]
            extend([*chosen, place], left, after[(left[wires[after]] > 0).all(axis=1)])

    extend([], links.ravel(), np.arange(len(found)))
    return found[best].tolist() or plain


def _all_rounds(links: Int64Array) -> Iterator[list[int]]:
    """Yield the rounds of all places from place 0 on, until `MOST_LOOKED_AT` partial ones were tried."""
    near = [np.flatnonzero(row).tolist() for row in links]
    waiting = [[0]]
    for _ in range(MOST_LOOKED_AT):
        if not waiting:
            return
        path = waiting.pop()
        if len(path) == len(links) and links[path[-1], 0]:
            yield path
        waiting += [[*path, place] for place in reversed(near[path[-1]]) if place not in path]


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
