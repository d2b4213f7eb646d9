"""The network that TACOS matches on: links with costs in ticks, switches unwound (MICRO 2024, IV-F, IV-G).

An unwinding of degree d gives each of the n ranks on a switch links to the d ranks after it, modulo n. Such
a link has the α of its route through the switch, and its share of the route's narrowest link: the bandwidth
over d. The option ``bidirectional`` makes degree 1 a ring in both directions, with half the bandwidth each
(2023 version, IV-G). Switches that are linked to each other are unwound together, as one with all their
ranks, over shortest routes. Ranks on one switch are numbered in turn, one of each host after the other, so
that neighbours are on different hosts where possible.

Such links share ports, so the times of a schedule on the unwound network are only a plan. On the real network
each transfer has the whole bandwidth of its route, and one transfer at a time is on a link (`method`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tutti.heuristics.tacos.options import TUNING
from tutti.schedules.collective import Collective
from tutti.schedules.message_durations import exact_tick
from tutti.schedules.schedule import MOST_CHUNKS, Chunks, Routes
from tutti.topologies.errors import InputError, Unsupported
from tutti.topologies.exact import INT64_MAX, Int64Array
from tutti.topologies.graphs.grid_structure import placed
from tutti.topologies.graphs.shortest_paths import shortest_routes
from tutti.topologies.topology import Link, Topology


class TacosNetwork(NamedTuple):
    """A switch-free network as the kernels read it; links of equal cost form a class, cheapest first.

    Parameters
    ----------
    source, target
        int64, shape (links,): the ends of each link.
    out_first, out_links, in_first, in_links
        int64: the links out of and into each node, in CSR form.
    cost
        int64, shape (links,): the class of each link.
    duration
        int64, shape (classes,): ticks that a link of the class takes for a chunk, strictly increasing.
    """

    source: Int64Array
    target: Int64Array
    out_first: Int64Array
    out_links: Int64Array
    in_first: Int64Array
    in_links: Int64Array
    cost: Int64Array
    duration: Int64Array


def time_expanded(topology: Topology, chunk_bytes: Fraction, transfers: int) -> tuple[TacosNetwork, Fraction]:
    """Return the network with its link costs α + β·n (section IV-F), and the tick in seconds.

    Parameters
    ----------
    topology
        Without switches.
    chunk_bytes
        n, exact.
    transfers
        The number of transfers of the schedule: it can't last longer than all of them one after the other.
    """
    links = np.stack([topology.alpha.numerators, topology.bandwidth.numerators])
    _, example, kind = np.unique(links, axis=1, return_index=True, return_inverse=True)
    # IV-F: "a single number", α + β·n, for each link.
    seconds = [topology.alpha[link] + chunk_bytes / topology.bandwidth[link] for link in example]
    tick = exact_tick(seconds, max(seconds) * transfers)
    of_example = np.array([math.ceil(value / tick) for value in seconds], dtype=np.int64)
    duration, cost = np.unique(of_example[kind.ravel()], return_inverse=True)
    columns = topology.source, topology.target, *topology.out_links, *topology.in_links, cost, duration
    return TacosNetwork(*(column.astype(np.int64) for column in columns)), tick


def cut(what: Collective, chunks: int) -> Chunks:
    """Return this number of chunks for the largest shards, and fewer for smaller ones.

    So all chunks have about the same size, and none is larger than those of the largest shards.

    Raises
    ------
    InputError
        If there would be too many, or their sizes do not fit 64 bits.
    """
    share = what.items.share.reduced
    if share.uniform:
        return Chunks.even(what, chunks)
    largest = int(share.numerators.max())
    if chunks * max(len(share), largest) > INT64_MAX:
        raise InputError(f"tacos: {chunks} chunks a shard are too many for shards of such sizes")
    count = np.maximum(-(-share.numerators * chunks // largest), 1)
    common = math.lcm(*np.unique(count).tolist())
    if int(count.sum()) > MOST_CHUNKS or largest * common > INT64_MAX:
        raise InputError(f"tacos: {chunks} chunks a shard are too many for shards of such sizes")
    item = np.repeat(np.arange(len(share), dtype=np.int32), count)
    return Chunks(item, (share.numerators * (common // count))[item], share.denominator * common)


class Unwound(NamedTuple):
    """A network without its switches.

    Parameters
    ----------
    topology
        A network of the same ranks.
    routes
        The route of each of its links on the network with switches.
    """

    topology: Topology
    routes: Routes


def largest_degree(topology: Topology) -> int:
    """Return the highest degree of any switch, at least 1: one less than the ranks on it."""
    most = (len(_ranks_on(topology, switches)) - 1 for switches in _joined_switches(topology))
    return max([1, *most])


def degrees(topology: Topology) -> list[int]:
    """Return the degrees to try: 1 and those that make at most `TacosTuning.most_unwound` links."""
    most = largest_degree(topology)
    powers = (2**k for k in range(most.bit_length()))
    tried = {*range(1, min(most, TUNING.first_degrees) + 1), *powers, most} - {0}
    return sorted({1, *(degree for degree in tried if degree * topology.num_ranks <= TUNING.most_unwound)})


def check_degree(topology: Topology, degree: int | None) -> None:
    """Raise `InputError` if a degree exceeds the ports of all switches."""
    most = largest_degree(topology)
    if degree is not None and degree > most:
        raise InputError(
            f"tacos: degree is {degree}; on {topology.name} no switch joins more than {most + 1} ranks, "
            f"allowed: 1 to {most}"
        )


def check_unwinding(topology: Topology) -> None:
    """Raise `Unsupported` if links between the ranks on each switch do not join all ranks in both directions.

    If the links of degree 1 do, which form rings, so do those of any other degree.
    """
    try:
        unwind(topology, 1)
    except InputError as error:
        raise Unsupported(
            f"tacos can't unwind the switches of {topology.name}, each into links between the ranks that "
            f"both send to it and receive from it: {error}"
        ) from error


def unwind(topology: Topology, degree: int, *, bidirectional: bool = False) -> Unwound:
    """Return the network with every switch unwound, to a lower degree where it joins fewer ranks.

    With `bidirectional`, degree 1 gives rings in both directions.

    Raises
    ------
    InputError
        As `check_unwinding`.
    """
    ranks = topology.num_ranks
    own = np.flatnonzero((topology.source < ranks) & (topology.target < ranks)).tolist()
    links = [topology.link(link) for link in own]
    routes = [[link] for link in own]
    for switches in _joined_switches(topology):
        for link, route in _unwound_links(topology, switches, degree, bidirectional and degree == 1):
            links.append(link)
            routes.append(route)
    name = f"{topology.name} without its switches"
    return Unwound(Topology.from_links(name, ranks, links, labels=topology.labels[:ranks]), Routes.of(routes))


def _joined_switches(topology: Topology) -> list[list[int]]:
    """Return the switches, grouped by the parts that links between switches connect."""
    part = {switch: [switch] for switch in range(topology.num_ranks, topology.num_nodes)}
    for a, b in zip(topology.source.tolist(), topology.target.tolist(), strict=True):
        if a in part and b in part and part[a] is not part[b]:
            part[a] += part[b]
            for switch in part[b]:
                part[switch] = part[a]
    return [sorted(members) for members in {id(members): members for members in part.values()}.values()]


def _ranks_on(topology: Topology, switches: list[int]) -> list[int]:
    """Return the ranks with links to and from some switches, one of each host in turn."""
    inside = np.isin(np.arange(topology.num_nodes), switches)
    up = set(topology.source[inside[topology.target]].tolist())
    ranks = sorted(up & set(topology.target[inside[topology.source]].tolist()) - set(switches))
    hosts = placed(topology, infer=True).hosts
    if hosts is None:
        return ranks
    turn = [np.count_nonzero(hosts[ranks[:place]] == hosts[rank]) for place, rank in enumerate(ranks)]
    return [rank for _, rank in sorted(zip(turn, ranks, strict=True))]


def _unwound_links(
    topology: Topology, switches: list[int], degree: int, back: bool
) -> Iterator[tuple[Link, list[int]]]:
    """Yield the links that replace some joined switches, with their routes."""
    ranks = _ranks_on(topology, switches)
    count = len(ranks)
    if count < 2:
        return
    nodes = {node: number for number, node in enumerate([*ranks, *switches])}
    inside = set(switches)
    ends = zip(topology.source.tolist(), topology.target.tolist(), strict=True)
    own = [link for link, (a, b) in enumerate(ends) if {a, b} & inside and a in nodes and b in nodes]
    part = Topology.from_links(
        f"switches of {topology.name}",
        count,
        [Link(nodes[int(topology.source[link])], nodes[int(topology.target[link])]) for link in own],
        labels=[topology.labels[node] for node in nodes],
        num_switches=len(switches),
    )
    steps = np.unique([1, count - 1]) if back else np.arange(1, min(degree, count - 1) + 1)
    tails = np.repeat(np.arange(count), len(steps))
    heads = (tails + np.tile(steps, count)) % count  # IV-G: from rank i to i + 1, ..., i + d (mod n)
    offsets, used = shortest_routes(part, tails, heads)
    sharing = np.bincount(used, minlength=len(own))
    costs = topology.alpha.numerators[own], topology.bandwidth.numerators[own], sharing
    kinds = list(zip(*(column.tolist() for column in costs), strict=True))
    known: dict[tuple[tuple[int, int, int], ...], tuple[Fraction, Fraction]] = {}
    for pair in range(len(tails)):
        taken = used[offsets[pair] : offsets[pair + 1]].tolist()
        route = [own[link] for link in taken]
        alike = tuple(kinds[link] for link in taken)
        if alike not in known:
            # IV-G: α stays, β is multiplied by the links that share: on one switch d, or 2 if bidirectional.
            share = min(topology.bandwidth[own[link]] / int(sharing[link]) for link in taken)
            known[alike] = share, sum((topology.alpha[link] for link in route), Fraction(0))
        yield Link(ranks[tails[pair]], ranks[heads[pair]], *known[alike]), route
