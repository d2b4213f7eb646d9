"""A network as the physical topology that ASTRA-sim's ns-3 back-end loads (``TOPOLOGY_FILE``).

The first line counts nodes (switches included), switches and links; the second names the switches; then a
link a line: ends, rate, delay, loss. Links there go both ways, and there is one between two nodes. So what
goes there and back must be alike, and parallel links of one α become one of their bandwidth together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction

from tutti.topologies.errors import InputError
from tutti.topologies.topology import Topology
from tutti.topologies.units import BITS_PER_BYTE, GIGA, format_bandwidth, format_time


def to_ns3(topology: Topology) -> str:
    """Return a network as ns-3's physical topology.

    Raises
    ------
    InputError
        If two nodes are joined one way only, or unlike there and back, or an α is no whole number of
        nanoseconds, ns-3's unit of time.
    """
    links = list(_links(topology))
    switches = range(topology.num_ranks, topology.num_nodes)
    head = [f"{topology.num_nodes} {len(switches)} {len(links)}", " ".join(map(str, switches))]
    return "\n".join([*head, *links]) + "\n"


def _links(topology: Topology) -> Iterator[str]:
    joined: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    ends = zip(topology.source.tolist(), topology.target.tolist(), strict=True)
    for link, pair in enumerate(ends):
        joined[pair].append(link)
    joint = {pair: _together(topology, links) for pair, links in joined.items()}
    for (source, target), (bandwidth, alpha) in joint.items():
        back = joint.get((target, source))
        if back != (bandwidth, alpha):
            name = topology.link_name(joined[source, target][0])
            others = "nothing" if back is None else _shown(*back)
            raise InputError(
                f"does not fit: {name} has {_shown(bandwidth, alpha)}, back there is {others}; "
                "ns-3's links go both ways"
            )
        delay = alpha * GIGA
        if delay.denominator != 1:
            name = topology.link_name(joined[source, target][0])
            raise InputError(f"does not fit: α of {name} is {format_time(alpha)}; ns-3 counts nanoseconds")
        if source < target:
            yield f"{source} {target} {_rate(bandwidth)} {int(delay)}ns 0"


def _together(topology: Topology, links: list[int]) -> tuple[Fraction, Fraction]:
    """Return the bandwidth of parallel links, and their α."""
    alphas = {topology.alpha[link] for link in links}
    if len(alphas) > 1:
        raise InputError(
            f"does not fit: parallel links {topology.link_name(links[0])} have several α; "
            "ns-3 has one link between two nodes"
        )
    return sum((topology.bandwidth[link] for link in links), Fraction(0)), alphas.pop()


def _shown(bandwidth: Fraction, alpha: Fraction) -> str:
    return f"{format_bandwidth(bandwidth)} and {format_time(alpha)}"


def _rate(bandwidth: Fraction) -> str:
    """Return a bandwidth in whole bits a second, rounded down as ns-3 does."""
    bits = int(bandwidth * BITS_PER_BYTE)
    return f"{bits // GIGA}Gbps" if bits % GIGA == 0 else f"{bits}bps"
