"""Switches unwound into links between ranks, and schedules mapped back onto the ports (MICRO 2024, IV-G).

An unwinding of degree d gives each of the n ranks on a switch links to the d ranks after it, modulo n. Such
a link has the α of its route through the switch, and its share of the route's narrowest link: the bandwidth
over d. Switches that are linked to each other are unwound together, as one with all their ranks, over
shortest routes. Ranks on one switch are numbered in turn, one of each machine after the other, so that
neighbours are on different machines where they can be.

Such links share ports, so the times of the unwound schedule are only a plan. On the real network each
transfer has the whole bandwidth of its route, and one transfer at a time is on a link: in the order of the
plan each starts as soon as its data is there and all links of its route are free for it (`retimed`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from heuristics.tacos.network import MAX_HORIZON, RESOLUTION
from heuristics.tacos.retiming import retimed
from schedules.schedule import Routes, Schedule
from topologies.errors import InputError, Unsupported
from topologies.exact import common_divisor
from topologies.routes import shortest_routes
from topologies.topology import Link, Topology

FIRST_DEGREES = 4
"""Of the degrees up to here each is tried, then powers of two, then the largest."""
MOST_LINKS = 2**17
"""Higher degrees that would make more links, degree times ranks, are tried only if asked for."""


class Unwound(NamedTuple):
    """A network without its switches.

    Parameters
    ----------
    topology
        Of the same ranks.
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
    """Return the degrees worth a try: 1 and those that make at most `MOST_LINKS` links."""
    most = largest_degree(topology)
    powers = (2**k for k in range(most.bit_length()))
    tried = {*range(1, min(most, FIRST_DEGREES) + 1), *powers, most} - {0}
    return sorted({1, *(degree for degree in tried if degree * topology.num_ranks <= MOST_LINKS)})


def check_degree(topology: Topology, degree: int | None) -> None:
    """Raise `InputError` if a degree is past the ports of all switches."""
    most = largest_degree(topology)
    if degree is not None and degree > most:
        raise InputError(
            f"tacos: degree is {degree}; on {topology.name} no switch joins more than {most + 1} ranks, "
            f"allowed: 1 to {most}"
        )


def check_unwinding(topology: Topology) -> None:
    """Raise `Unsupported` if links between the ranks on each switch do not join all ranks both ways.

    If those of degree 1 do, which go round them, so do those of any other.
    """
    try:
        unwind(topology, 1)
    except InputError as error:
        raise Unsupported(
            f"tacos can't unwind the switches of {topology.name}, each into links between the ranks that "
            f"both send to it and receive from it: {error}"
        ) from error


def unwind(topology: Topology, degree: int) -> Unwound:
    """Return the network with every switch unwound, where it joins fewer ranks to a lower degree.

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
        for link, route in _unwound_links(topology, switches, degree):
            links.append(link)
            routes.append(route)
    name = f"{topology.name} without its switches"
    return Unwound(Topology.from_links(name, ranks, links, labels=topology.labels[:ranks]), Routes.of(routes))


def on_ports(schedule: Schedule, topology: Topology, routes: Routes, chunk_bytes: Fraction) -> Schedule:
    """Return a schedule of the unwound network on the one with switches, with times of its own."""
    tick = tick_of(topology, [chunk_bytes], len(schedule))
    return retimed(schedule.replace(topology=topology, routes=routes, tick=tick))


def tick_of(topology: Topology, chunk_sizes: Iterable[Fraction], transfers: int) -> Fraction:
    """Return the tick of which all times are multiples, or one so short that rounding hardly matters.

    Parameters
    ----------
    chunk_sizes
        In bytes.
    transfers
        How many there are: all of them, one after the other, last no more ticks than 64 bits hold.
    """
    alphas = {topology.alpha[link] for link in range(topology.num_links)}
    bandwidths = {topology.bandwidth[link] for link in range(topology.num_links)}
    seconds = [*(alpha for alpha in alphas if alpha), *(n / b for n in chunk_sizes for b in bandwidths)]
    horizon = 2 * topology.num_nodes * max(seconds) * transfers
    tick = common_divisor(seconds)
    if horizon / tick > MAX_HORIZON:
        tick = max(min(seconds) / RESOLUTION, horizon / MAX_HORIZON)
    return tick


def _joined_switches(topology: Topology) -> list[list[int]]:
    """Return the switches by the parts that hang together through links between switches."""
    part = {switch: [switch] for switch in range(topology.num_ranks, topology.num_nodes)}
    for a, b in zip(topology.source.tolist(), topology.target.tolist(), strict=True):
        if a in part and b in part and part[a] is not part[b]:
            part[a] += part[b]
            for switch in part[b]:
                part[switch] = part[a]
    return [sorted(members) for members in {id(members): members for members in part.values()}.values()]


def _ranks_on(topology: Topology, switches: list[int]) -> list[int]:
    """Return the ranks with links to and from some switches, one of each machine in turn."""
    inside = np.isin(np.arange(topology.num_nodes), switches)
    up = set(topology.source[inside[topology.target]].tolist())
    ranks = sorted(up & set(topology.target[inside[topology.source]].tolist()) - set(switches))
    if topology.hosts is None:
        return ranks
    seen: defaultdict[int, int] = defaultdict(int)
    turn = []
    for rank in ranks:
        host = int(topology.hosts[rank])
        turn.append((seen[host], rank))
        seen[host] += 1
    return [rank for _, rank in sorted(turn)]


def _unwound_links(topology: Topology, switches: list[int], degree: int) -> Iterator[tuple[Link, list[int]]]:
    """Yield the links that stand for some joined switches, with their routes."""
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
    steps = np.arange(1, min(degree, count - 1) + 1)
    tails = np.repeat(np.arange(count), len(steps))
    heads = (tails + np.tile(steps, count)) % count
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
            share = min(topology.bandwidth[own[link]] / int(sharing[link]) for link in taken)
            known[alike] = share, sum((topology.alpha[link] for link in route), Fraction(0))
        yield Link(ranks[tails[pair]], ranks[heads[pair]], *known[alike]), route
