"""Networks with measured α and bandwidth.

A measurement from one rank to another belongs to a route, here the one with the fewest links. Its α is
divided among the links of the route in proportion to their α (equally if they have none). Its bandwidth is
given to the narrowest links of the route; wider links keep theirs unless it is less than the measured one.
Parallel links share the measured bandwidth. A link on several routes gets the median.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tutti.topologies.errors import InputError, suggestion, visible
from tutti.topologies.exact import Rationals
from tutti.topologies.graphs.shortest_paths import shortest_routes
from tutti.topologies.measurements.regression import AlphaBetaLine
from tutti.topologies.topology import Link, Topology


class Precision(NamedTuple):
    """Precision to which fitted lines are rounded, and the bandwidth above which they are refused."""

    digits: int
    """Significant digits of a bandwidth. The measurement has no more, and exact sums stay small."""
    finest: int
    """α is a multiple of 1 / `finest` s, which is 0.1 ns. A larger value rounds less."""
    fastest: float
    """Largest bandwidth that is accepted, in bytes/s."""


PRECISION = Precision(digits=4, finest=10**10, fastest=1e15)

Pair = tuple[str, str]


def measured_network(lines: Mapping[Pair, AlphaBetaLine], name: str, source: Path | str) -> Topology:
    """Return the network whose links are the measured pairs.

    Ranks are in order if their names are numbers, otherwise in the order in which pairs name them. The
    network's note names `source`, where it was measured.

    Raises
    ------
    InputError
        If a pair has no bandwidth, or some rank can't reach another over the pairs.
    """
    labels = list(dict.fromkeys(label for pair in lines for label in pair))
    if all(label.isdecimal() and len(label) < 10 for label in labels):
        labels.sort(key=int)
    place = {label: rank for rank, label in enumerate(labels)}
    links = [
        Link(place[one], place[other], _bandwidth(line, (one, other)), _alpha(line.alpha))
        for (one, other), line in lines.items()
    ]
    notes = [f"alpha and bandwidth are measured ({visible(str(source))})"]
    return Topology.from_links(name, len(labels), links, labels=labels, notes=notes)


def calibrated(
    topology: Topology, lines: Mapping[Pair, AlphaBetaLine], source: Path | str, *, alike: bool
) -> Topology:
    """Return the network with the measured values on the links of its pairs' routes.

    Parameters
    ----------
    topology
        The network, whose labels name the pairs.
    lines
        The fitted line of each pair.
    source
        The source of the measurements, for the note that the network gets.
    alike
        Whether a link with the bandwidth and α of a link on a route gets the same values.

    Raises
    ------
    InputError
        If a label is unknown, or a pair has no bandwidth.
    """
    place = {label: node for node, label in enumerate(topology.labels)}
    for label in (label for pair in lines for label in pair if label not in place):
        raise InputError(f"topology {topology.name} has no node {label!r}{suggestion(label, place)}")
    ends = np.array([[place[label] for label in pair] for pair in lines])
    offsets, routes = shortest_routes(topology, ends[:, 0], ends[:, 1])
    bandwidth, alpha = topology.bandwidth.floats, topology.alpha.floats
    # Parallel links are one hop; links of one kind have equal bandwidth, α and kinds of ends.
    hops = topology.source.astype(np.int64) * topology.num_nodes + topology.target
    hop = np.unique(hops, return_inverse=True)[1].reshape(-1)
    width = np.bincount(hop, weights=bandwidth)[hop]
    kind = hop
    if alike:
        switches = (np.stack([topology.source, topology.target]) >= topology.num_ranks).sum(axis=0)
        kinds = np.stack([topology.bandwidth.numerators, topology.alpha.numerators, switches])
        kind = np.unique(kinds, axis=1, return_inverse=True)[1].reshape(-1)
    wide: dict[int, list[float]] = {}
    late: dict[int, list[float]] = {}
    for index, (pair, line) in enumerate(lines.items()):
        route = routes[offsets[index] : offsets[index + 1]]
        speed, total = float(_bandwidth(line, pair)), alpha[route].sum()
        narrowest = width[route].min()
        for link in route.tolist():
            share = alpha[link] / total if total else 1 / len(route)
            late.setdefault(int(kind[link]), []).append(line.alpha * share)
            if width[link] == narrowest or width[link] < speed:
                wide.setdefault(int(kind[link]), []).append(speed / width[link])
    changed = np.isin(kind, list(late))
    factor = {one: float(np.median(values)) for one, values in wide.items()}
    delay = {one: float(np.median(values)) for one, values in late.items()}
    count = int(changed.sum())
    note = (
        f"alpha and bandwidth of {count} of {topology.num_links} links are measured ({visible(str(source))})"
    )
    speeds = [
        _rounded(bandwidth[e] * factor[one]) if one in factor else None for e, one in enumerate(kind.tolist())
    ]
    delays = [_alpha(delay[one]) if one in delay else None for one in kind.tolist()]
    return replace(
        topology,
        bandwidth=_exact(topology.bandwidth, speeds),
        alpha=_exact(topology.alpha, delays),
        expression=None,
        notes=(*topology.notes, note),
    )


def _exact(given: Rationals, values: Sequence[Fraction | None]) -> Rationals:
    return Rationals.of([given[index] if value is None else value for index, value in enumerate(values)])


def _bandwidth(line: AlphaBetaLine, pair: Pair) -> Fraction:
    where = f"{pair[0]} -> {pair[1]}"
    if line.bandwidth is None:
        raise InputError(
            f"{where}: the times do not grow with size, so there is no bandwidth; measure larger ones"
        )
    if not 1 <= line.bandwidth <= PRECISION.fastest:
        raise InputError(
            f"{where}: a bandwidth of {line.bandwidth:.3g} B/s; from 1 to {PRECISION.fastest:g} are expected"
        )
    return _rounded(line.bandwidth)


def _rounded(bandwidth: float) -> Fraction:
    """Return a bandwidth of a few digits, in whole bytes per second."""
    return Fraction(max(1, int(float(f"{bandwidth:.{PRECISION.digits}g}"))))


def _alpha(seconds: float) -> Fraction:
    return Fraction(round(seconds * PRECISION.finest), PRECISION.finest)
