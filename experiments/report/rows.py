"""The rows of a run as the charts of its page have them: one a case and method that has a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from tutti.experiments.report.overview import near
from tutti.experiments.report.results import Results, Row, is_tb_optimal
from tutti.experiments.report.standings import LeastTB, case_gap
from tutti.experiments.report.text import percent, size

FASTEST_SHOWN = 1e-4
"""Seconds: shorter synthesis times are drawn here; the clock says nothing about them."""
ABREAST = 3.0
"""Widths of a marker: markers that share a point overlap rather than be further apart than this."""

Point = tuple[float, float]
"""T_L in α and T_B in M/B."""


def run_rows(results: Results, least: LeastTB) -> pd.DataFrame:
    """Return a row for each case and method that has a time.

    Parameters
    ----------
    results
        The run.
    least
        The bandwidth bound of each topology and collective.

    Returns
    -------
    DataFrame
        The case and the method by their names, `series` by its number; `slowest_us`: the time of its slowest
        seed, where it has several; `limit_gbps`: M over the largest bound of the case, `share_percent`: algbw
        over it; `near`: up to which gap, for shades; `seconds`: of the synthesis, as drawn; `step_point`:
        whether it is the first of its method at its T_L and T_B; `frontier`: whether no other of its topology
        and collective equals or betters both; `beside`: how far it stands beside its point, in widths of a
        marker.
    """
    points = {
        (topology, collective): _points(results, topology, collective)
        for topology in results.topologies
        for collective in results.collectives
    }
    rows = (
        _record(results, number, row, cells) | _place(row, number, points[row.case[:2]], least[row.case[:2]])
        for cells in results.cases.values()
        for number, row in cells.items()
        if row.ok
    )
    return pd.DataFrame(rows)


def _record(results: Results, number: int, row: Row, cells: Mapping[int, Row]) -> dict[str, Any]:
    gap = case_gap(row, cells.values())
    bound = max((other.bound_us or 0.0 for other in cells.values()), default=0.0)
    network = results.short[row.topology]
    return {
        "topology": row.topology,
        "network": network,
        "collective": row.collective,
        "panel": f"{network}\n{row.collective}",
        "size": size(row.size_bytes),
        "size_bytes": row.size_bytes,
        "method": results.series[number].label,
        "series": number,
        "dash": results.series[number].pattern,
        "time_us": row.time_us,
        "slowest_us": results.slowest.get((row.case, number)),
        "algbw_gbps": row.algbw_gbps or None,
        "busbw_gbps": row.busbw_gbps,
        "speedup": results.speedup(row),
        "limit_gbps": row.size_bytes / bound / 1e3 if bound else None,
        "share_percent": 100 / (1 + gap) if gap is not None and gap > -1 else None,
        "gap_percent": None if gap is None else max(0.0, 100 * gap),
        "gap": percent(gap),
        "near": None if gap is None else near(gap)[1],
        "seconds": None if row.synth_s is None else max(row.synth_s, FASTEST_SHOWN),
    }


def _place(row: Row, number: int, points: Mapping[Point, Mapping[int, Row]], least: Any) -> dict[str, Any]:
    """Return what the chart of T_L against T_B has of a row."""
    point = _point(row)
    here = list(points.get(point, ())) if point else []
    first = point is not None and points[point].get(number) is row
    spread = min(len(here) - 1.0, ABREAST) / max(1, len(here) - 1)
    return {
        "tl_steps": row.tl_steps,
        "tb_factor": row.tb_factor,
        "tb": row.tb_text or None,
        "tb_optimal": "yes" if is_tb_optimal(row, least) else "no",
        "least_tb": None if least is None else float(least),
        "step_point": first,
        "frontier": first and point in set(frontier(points)) and here[0] == number,
        "beside": spread * (here.index(number) - (len(here) - 1) / 2) if first else 0.0,
    }


def _point(row: Row) -> Point | None:
    if row.tl_steps is None or row.tb_factor is None:
        return None
    return (row.tl_steps, row.tb_factor)


def _points(results: Results, topology: str, collective: str) -> dict[Point, dict[int, Row]]:
    """Return the methods of each pair of T_L and T_B, with their first rows."""
    points: dict[Point, dict[int, Row]] = {}
    for cells in results.of(topology, collective).values():
        for number, row in cells.items():
            point = _point(row)
            if row.ok and point is not None:
                points.setdefault(point, {}).setdefault(number, row)
    return points


def frontier(points: Any) -> Iterator[Point]:
    """Yield the points that no other equals or betters in both coordinates, by T_L.

    Examples
    --------
    >>> list(frontier([(4, 1.0), (2, 3.0), (5, 2.0), (4, 2.0)]))
    [(2, 3.0), (4, 1.0)]
    """
    least = float("inf")
    for point in sorted(points):
        if point[1] < least:
            least = point[1]
            yield point
