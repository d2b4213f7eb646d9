r"""The line α + β·s through measured times, by least squares of relative errors; networks with such values.

.. math:: \min_{α, β} \sum_i \left(\frac{m_i α + β s_i}{t_i} - 1\right)^2

A sample is s bytes in m messages that follow one another, each of which pays α. n chunks of c bytes thus take
n (α + β c) one after the other (m = n), and α + β n c sent as one buffer (m = 1; TACCL, section 4.1). Every
size has the same weight: with plain least squares the largest times alone would determine α. The intervals
are those of 95 % by Student's distribution, for relative errors that are independent and identically
distributed. Measured errors are so only roughly: the sizes at which the line is off say more.

A network gets measured values as follows. A measurement from one rank to another belongs to a route, here the
one with the fewest links. Its α is divided among the links of the route in proportion to their α (equally if
they have none). Its bandwidth is given to the narrowest links of the route; wider links keep theirs unless it
is less than the measured one. Parallel links share the measured bandwidth. A link on several routes gets the
median.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tutti.topologies.errors import InputError, suggestion, visible
from tutti.topologies.exact import FloatArray, Rationals
from tutti.topologies.graphs.shortest_paths import shortest_routes
from tutti.topologies.topology import Link, Topology

TOLERANCE = 0.1
"""Relative error above which a size does not fit the line. A larger value reports fewer sizes."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class AlphaBetaLine:
    """The α and β of measured times.

    Parameters
    ----------
    alpha, beta
        Seconds, and seconds per byte.
    alpha_interval, beta_interval
        The 95 % intervals; None if there are only two samples, or if the value is at its limit.
    samples
        The number of times.
    off
        The sizes of a message (bytes) at which the line is off by more than the tolerance on average, each
        with the error as a fraction of the measured time; it is positive if the line is above it.
    worst
        The error of largest absolute value, of any size.
    note
        What was done if the plain line makes no sense; or nothing.
    """

    alpha: float
    beta: float
    alpha_interval: Interval | None
    beta_interval: Interval | None
    samples: int
    off: tuple[tuple[float, float], ...]
    worst: float
    note: str = ""

    @property
    def bandwidth(self) -> float | None:
        """Bytes per second, 1/β."""
        return 1 / self.beta if self.beta > 0 else None

    @property
    def bandwidth_interval(self) -> Interval | None:
        """The 95 % interval of the bandwidth; None also if the slope may be zero."""
        if self.beta_interval is None or self.beta_interval[0] <= 0:
            return None
        low, high = self.beta_interval
        return 1 / high, 1 / low


def fit(
    size: FloatArray, seconds: FloatArray, tolerance: float = TOLERANCE, messages: FloatArray | float = 1.0
) -> AlphaBetaLine:
    """Return the line through measured times.

    Neither α nor β is negative: if one would be, it is 0, and the other is fitted alone.

    Parameters
    ----------
    size, seconds
        float64, shape (samples,): bytes, and the times that they took, above 0.
    tolerance
        The relative error above which a size does not fit.
    messages
        m, float64, shape (samples,) or one for all: how many messages carry the bytes, one after the other.

    Raises
    ------
    InputError
        If all messages have one size, so that α and β can't be separated.

    Examples
    --------
    >>> line = fit(np.array([1e3, 1e6, 1e9]), 5e-6 + np.array([1e3, 1e6, 1e9]) / 20e9)
    >>> round(line.alpha * 1e6, 6), round(line.bandwidth / 1e9, 6), line.off
    (5.0, 20.0, ())
    """
    each = size / messages
    if len(np.unique(each)) < 2:
        raise InputError(f"all times are of one size, {each[0]:g} B: alpha and bandwidth can't be told apart")
    scale = size.max()
    design = np.stack([messages / seconds, size / scale / seconds], axis=1)
    values, intervals = _solve(design)
    note = ""
    if values.min() < 0:
        free = int(np.argmax(values))
        one, interval = _solve(design[:, [free]])
        values, intervals = np.zeros(2), [None, None]
        values[free], intervals[free] = one[0], interval[0]
        note = ("the times do not grow with size", "alpha would be negative, so it is 0")[free]
    sizes, which, count = np.unique(each, return_inverse=True, return_counts=True)
    errors = np.bincount(which, weights=design @ values - 1) / count
    worst = float(errors[np.argmax(np.abs(errors))])
    large = np.flatnonzero(np.abs(errors) > tolerance)
    off = tuple(zip(sizes[large].tolist(), errors[large].tolist(), strict=True))
    beta = intervals[1] and (intervals[1][0] / scale, intervals[1][1] / scale)
    return AlphaBetaLine(
        float(values[0]), float(values[1] / scale), intervals[0], beta, len(size), off, worst, note
    )


def _solve(design: FloatArray) -> tuple[FloatArray, list[Interval | None]]:
    """Return the factors of the columns that make their sum closest to ones, with intervals."""
    from scipy.special import stdtrit  # slow to import, and few commands need it

    unit = np.linalg.norm(design, axis=0)  # normalized columns, as their magnitudes differ a lot
    columns = design / unit
    values = np.linalg.lstsq(columns, np.ones(len(design)))[0]
    free = len(design) - len(unit)
    if free < 1:
        return values / unit, [None] * len(unit)
    residual = float(((columns @ values - 1) ** 2).sum()) / free
    deviation = np.sqrt(residual * np.diag(np.linalg.pinv(columns.T @ columns)))
    reach = float(stdtrit(free, 0.975)) * deviation
    return values / unit, [
        (float((value - width) / length), float((value + width) / length))
        for value, width, length in zip(values, reach, unit, strict=True)
    ]


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
    speeds, delays = list(topology.bandwidth), list(topology.alpha)
    for link, one in enumerate(kind.tolist()):
        if one in factor:
            speeds[link] = _rounded(bandwidth[link] * factor[one])
        if one in delay:
            delays[link] = _alpha(delay[one])
    return replace(
        topology,
        bandwidth=Rationals.of(speeds),
        alpha=Rationals.of(delays),
        expression=None,
        notes=(*topology.notes, note),
    )


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
