"""Times against those of `optimum`, and allreduces against the "ideal" of TACOS.

The time of `optimum` is that of the best schedule of given chunks, every message over one link. It is no
lower bound: schedules of more chunks, or over routes that cut through ranks, may be faster, which the table
then shows as a negative gap. Nor is it always proven best: then the part by which it may be too slow stands
beside it.

TACOS (MICRO 2024, section V-A) measures efficiency as ideal over time, where

    ideal = 2 (N - 1) / N · M / (the smallest bandwidth of a rank) + the diameter in α.

It counts what a rank would send and receive in a reduce-scatter and an allgather. That bounds neither from
below (an allreduce that overlaps the two may be faster on uneven networks) nor can it always be met (the
bottleneck may be a cut that no rank shows). So beside each efficiency stands its *cap*: the ideal over the
proven lower bound on time, which no schedule's efficiency exceeds.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tutti.experiments.report.results import OK, TIE, Case, Results, Row
from tutti.experiments.report.series import Series
from tutti.experiments.report.text import microseconds, percent, size
from tutti.schedules.collective import Kind
from tutti.topologies.graphs.shortest_paths import alpha_distances
from tutti.topologies.topology import Topology

METHOD = "optimum"
"""The table is for runs in which it occurs."""


@dataclass(frozen=True)
class YardstickRow:
    """One case.

    Parameters
    ----------
    best
        The time of `optimum`.
    open
        By how many percent it may exceed the true optimum of its chunks; empty where it is proven.
    cells
        For each series how many percent it takes longer; empty where it has no time.
    """

    case: Case
    size: str
    best: str
    open: str
    cells: list[str]


@dataclass(frozen=True)
class Yardstick:
    """The other series, a line a case, and of each series the mean, the worst and how often it is as fast."""

    series: list[Series]
    rows: list[YardstickRow]
    means: list[str]
    worst: list[str]
    met: list[str]


def yardstick(results: Results) -> Yardstick | None:
    """Return the gaps to `optimum`; None where it has no time."""
    cases = {case: best for case in results.cases if (best := _best(results, case)) is not None}
    if not cases:
        return None
    present = {key for case in cases for key, row in results.cases[case].items() if row.status == OK}
    series = [one for one in results.series if one.number in present and one.method != METHOD]
    gaps = [
        [_gap(results.cases[case].get(one.number), best) for case, best in cases.items()] for one in series
    ]
    known = [[gap for gap in line if gap is not None] for line in gaps]
    return Yardstick(
        series,
        list(_rows(cases, gaps)),
        [percent(statistics.mean(line)) if line else "" for line in known],
        [percent(max(line)) if line else "" for line in known],
        [f"{sum(gap <= TIE for gap in line)} of {len(line)}" for line in known],
    )


def _best(results: Results, case: Case) -> Row | None:
    rows = (row for row in results.cases[case].values() if row.method == METHOD and row.ok)
    return min(rows, key=lambda row: row.time_us or 0.0, default=None)


def _gap(row: Row | None, best: Row) -> float | None:
    if row is None or not row.ok or not row.time_us or not best.time_us:
        return None
    return row.time_us / best.time_us - 1


def _rows(cases: dict[Case, Row], gaps: list[list[float | None]]) -> Iterator[YardstickRow]:
    for place, (case, best) in enumerate(cases.items()):
        left = best.solver_gap or 0.0
        cells = [percent(line[place]) for line in gaps]
        yield YardstickRow(
            case, size(case[2]), microseconds(best.time_us), percent(left) if left > TIE else "", cells
        )


OVERLAPPED = "tacos"
"""The tables are for runs in which it occurs."""

PUBLISHED = {
    "dragonfly:4x5": "> 90",
    "switch2d:8x4": "> 90",
    "rfs:2x4x2": "100",
    "rfs:2x4x4": "72",
    "rfs:2x4x8": "68",
    "rfs:2x4x16": "68",
    "torus:5x5x5": "95.9",
    "mesh:5x5x5": "98.1",
    "torus:8x8": "92.15",
    "mesh:10x10": "82.6",
    "dgx1": "93.26",
}
"""The paper's efficiencies in percent: sections VI-B.1 (DragonFly, 2D switch), VI-B.3 (3D torus and "3D
hypercube", a grid), VI-B.4 (2D torus, 2D mesh, of sizes that it does not give there), VI-B.5 (DGX-1), and the
column Ideal of Table V (3D-RFS), which has 68 % where VI-B.1 claims more than 90 % for 2x4x8."""


@dataclass(frozen=True)
class IdealRow:
    """One topology: ideal, published efficiency and cap, and each series' efficiencies.

    Parameters
    ----------
    cells
        For each series its efficiency over the ideal and over the proven bound, in percent; empty where it
        has no time.
    """

    topology: str
    size: str
    ideal: str
    published: str
    cap: str
    cells: list[tuple[str, str]]


@dataclass(frozen=True)
class IdealTable:
    """The series that have times, and the rows."""

    series: list[Series]
    rows: list[IdealRow]


def ideal_time(topology: Topology, bytes_: Fraction) -> Fraction:
    """Return the paper's ideal time of an allreduce of M = `bytes_`, in seconds, exact.

    Examples
    --------
    A ring of 4: 2 · 3/4 · M over two links of 50 GB/s, and 2 hops of 0.5 us.

    >>> from tutti.topologies.text import parse_topology
    >>> ideal_time(parse_topology("ring:4"), Fraction(10**9))
    Fraction(15001, 1000000)
    """
    ranks = topology.num_ranks
    bandwidths = (total[node] for node in range(ranks) for total in (topology.egress, topology.ingress))
    diameter = int(alpha_distances(topology, range(ranks))[:, :ranks].max())
    serial = Fraction(2 * (ranks - 1), ranks) * bytes_ / min(bandwidths)
    return serial + Fraction(diameter, topology.alpha.denominator)


def ideal_table(results: Results) -> IdealTable | None:
    """Return the efficiencies of all allreduces at their largest size; None where TACOS has none."""
    if not any(
        row.method == OVERLAPPED and row.collective == Kind.ALLREDUCE and row.ok for row in results.rows
    ):
        return None
    cases = {name: _largest(results, name) for name in results.topologies}
    present = sorted({key for _, rows in cases.values() for key in rows})
    series = [results.series[key] for key in present]
    return IdealTable(series, list(_ideal_rows(results, cases, series)))


def _largest(results: Results, topology: str) -> tuple[float, Mapping[int, Row]]:
    """Return the largest size, and the rows of the series that have a time there."""
    found = results.of(topology, Kind.ALLREDUCE)
    timed = {bytes_: {key: row for key, row in rows.items() if row.ok} for bytes_, rows in found.items()}
    return max(((bytes_, rows) for bytes_, rows in timed.items() if rows), default=(0.0, {}))


def _ideal_rows(
    results: Results, cases: Mapping[str, tuple[float, Mapping[int, Row]]], series: Sequence[Series]
) -> Iterator[IdealRow]:
    for name, (bytes_, rows) in cases.items():
        network = results.networks[name]
        if not rows or network is None:
            continue
        ideal = 1e6 * float(ideal_time(network, Fraction(bytes_)))
        bound = next((row.bound_us for row in rows.values() if row.bound_us), None)
        yield IdealRow(
            name,
            size(bytes_),
            microseconds(ideal),
            PUBLISHED.get(name.partition("?")[0], ""),
            _percent(ideal, bound),
            [_cell(rows.get(one.number), ideal, bound) for one in series],
        )


def _cell(row: Row | None, ideal: float, bound: float | None) -> tuple[str, str]:
    return ("", "") if row is None else (_percent(ideal, row.time_us), _percent(bound, row.time_us))


def _percent(part: float | None, whole: float | None) -> str:
    return f"{100 * part / whole:.1f}" if part and whole else ""
