"""The charts of a collective, and the rows of a run that they show: one a case and method that has a time.

They are algbw against size, T_L against T_B, synthesis time against gap, and the gap over time of methods
that search. A collective that ran at one size has bars instead, a bar a method. `frontier_panels` has T_L
against T_B of all networks that share N and degree, `profile_panels` what all cases say of each method.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from tutti.expansions.finder import bandwidth_factor
from tutti.experiments.report.charts import Figure
from tutti.experiments.report.comparisons import near
from tutti.experiments.report.results import Results, Row, is_tb_optimal
from tutti.experiments.report.series import Series
from tutti.experiments.report.standings import GAP_RULES, LeastTB
from tutti.experiments.report.tables import Panel, percent, size
from tutti.schedules.collective import Kind
from tutti.schedules.cost import moore_optimal_steps
from tutti.schedules.schedule import Clock

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
        over it; `near`: up to which gap, for shades; `seconds`: of the synthesis, at least 1e-4, as
        the clock can't tell shorter ones apart; `step_point`: whether it is the first of its method at its
        T_L and T_B; `twins`: how many methods have the same times, but for `GapRules.coincide`, at all
        sizes of a network and collective, and `twin`, its place among them; `frontier`: whether no other of
        its topology and collective equals or betters both;
        `beside`: how far it stands beside its point, in widths of a marker. The markers of a point take at
        most 3 widths, so many of them overlap.
    """
    points = {
        (topology, collective): _points(results, topology, collective)
        for topology in results.topologies
        for collective in results.collectives
    }
    twins = {pair: _twins(_times(results, *pair)) for pair in points}
    rows = (
        _record(results, number, row)
        | twins[row.case[:2]][number]
        | _place(row, number, points[row.case[:2]], least[row.case[:2]])
        for cells in results.cases.values()
        for number, row in cells.items()
        if row.ok
    )
    return pd.DataFrame(rows)


def _twins(curves: Mapping[int, Mapping[float, float]]) -> dict[int, dict[str, int]]:
    """Return for each method how many have its curve, and its place among them."""
    groups: list[list[int]] = []
    for number, own in curves.items():
        same = next((group for group in groups if _coincide(curves[group[0]], own)), None)
        groups.append([number]) if same is None else same.append(number)
    return {
        number: {"twin": place, "twins": len(group)} for group in groups for place, number in enumerate(group)
    }


def _times(results: Results, topology: str, collective: str) -> dict[int, dict[float, float]]:
    """Return the time of each method by size."""
    curves: dict[int, dict[float, float]] = {}
    for bytes_, cells in results.of(topology, collective).items():
        for number, row in cells.items():
            if row.ok:
                curves.setdefault(number, {})[bytes_] = row.time_us or 0.0
    return curves


def _coincide(one: Mapping[float, float], other: Mapping[float, float]) -> bool:
    return one.keys() == other.keys() and all(
        abs(other[k] - one[k]) <= GAP_RULES.coincide * one[k] for k in one
    )


def _record(results: Results, number: int, row: Row) -> dict[str, Any]:
    gap, proof = results.gap(row), results.bounds.get(row.case)
    bound = 0.0 if proof is None else proof.bound_us or 0.0
    tries = results.tries.get((row.case, number))
    network = results.short[row.topology]
    return {
        "topology": row.topology,
        "network": network,
        "collective": row.collective,
        "panel": f"{network}\n{row.collective}",
        "size": size(row.size_bytes),
        "size_bytes": row.size_bytes,
        **results.series[number].columns,
        "time_us": row.time_us,
        "slowest_us": max(time for _, time in tries) if tries else None,
        "algbw_gbps": row.algbw_gbps or None,
        "busbw_gbps": row.busbw_gbps,
        "speedup": results.speedup(row),
        "limit_gbps": row.size_bytes / bound / 1e3 if bound else None,
        "share_percent": 100 / (1 + gap) if gap is not None and gap > -1 else None,
        "gap_percent": None if gap is None else max(0.0, 100 * gap),
        "gap": percent(gap),
        "near": None if gap is None else near(gap)[1],
        "seconds": None if row.synth_s is None else max(row.synth_s, 1e-4),
    }


def _place(row: Row, number: int, points: Mapping[Point, Mapping[int, Row]], least: Any) -> dict[str, Any]:
    """Return what the chart of T_L against T_B has of a row."""
    point = _point(row)
    here = list(points.get(point, ())) if point else []
    first = point is not None and points[point].get(number) is row
    spread = min(len(here) - 1.0, 3.0) / max(1, len(here) - 1)
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


def _figure(name: str, told: str, topology: str, collective: str, **where: object) -> Figure:
    """Return a chart over the rows of a topology and collective."""
    case = {"topology": topology, "collective": collective}
    return Figure(name, f"{told}, {topology}, {collective}", case | where)


def panel_of(results: Results, collective: str, chart: Figure | None, note: str = "") -> Panel:
    """Return a collective's panel."""
    return Panel(collective, f"k{results.collectives.index(collective)}", chart, note)


def _timed(results: Results, topology: str, collective: str) -> list[Row]:
    return [row for cells in results.of(topology, collective).values() for row in cells.values() if row.ok]


def algbw_panel(results: Results, topology: str, collective: str) -> Panel:
    """Return algbw, or another measure, against size: a line a series and the limit; bars for one size."""
    if not any(row.algbw_gbps for row in _timed(results, topology, collective)):
        return panel_of(results, collective, None, "No method has a time.")
    one_size = len(results.of(topology, collective)) == 1
    name, told = ("bars algbw", "algbw") if one_size else ("algbw", "algbw against size")
    return panel_of(results, collective, _figure(name, told, topology, collective))


def pareto_panel(results: Results, topology: str, collective: str) -> Panel:
    """Return T_B against T_L of the step schedules, with the frontier and the least T_B there can be."""
    rows = _timed(results, topology, collective)
    points = {(r.tl_steps, r.tb_factor) for r in rows if r.tl_steps is not None and r.tb_factor is not None}
    without = _left_out(results, rows)
    if not points:
        return panel_of(results, collective, None, f"No step schedule with a T_B. {without}".strip())
    figure = _figure("pareto", "T_B against T_L", topology, collective, step_point=1)
    return panel_of(results, collective, figure, without)


def _left_out(results: Results, rows: Sequence[Row]) -> str:
    """Return a sentence on the series that have a time but no T_L or T_B, and why; empty without any."""
    reasons: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.clock and (row.tl_steps is None or row.tb_factor is None):
            stepped = row.clock == Clock.STEP and row.tb_factor is not None
            reason = "steps overlap" if stepped else f"{row.clock} clock: no steps"
            reason = reason if row.tl_steps is None else "no T_B: links differ"
            label = results.series[results.number[row.method, row.options]].label
            reasons.setdefault(reason, {})[label] = None
    texts = [f"{', '.join(labels)} ({reason})" for reason, labels in reasons.items()]
    return f"Left out: {'; '.join(texts)}." if texts else ""


def effort_panel(results: Results, topology: str, collective: str) -> Panel:
    """Return the gap against the synthesis time: a point a series, a line over its sizes."""
    rows = _timed(results, topology, collective)
    if not any(row.synth_s is not None and row.gap is not None for row in rows):
        return panel_of(results, collective, None, "No method has both a synthesis time and a gap.")
    figure = _figure("effort", "gap against synthesis time", topology, collective)
    return panel_of(results, collective, figure)


def search_panels(results: Results, topology: str, collectives: Sequence[str]) -> list[Panel]:
    """Return the gap of the best schedule so far against synthesis time, of methods that tried several seeds.

    A panel a collective, at its largest size; none where no method did.
    """
    panels = []
    for collective in collectives:
        found = [
            case for case, _ in results.tries if case[:2] == (topology, collective) and case in results.bounds
        ]
        if found:
            case = max(found, key=lambda one: one[2])
            data = pd.DataFrame(_course(results, case))
            told = f"gap over time, {topology}, {collective} of {size(case[2])}"
            panels.append(panel_of(results, collective, Figure("search", told, data=data)))
    return panels


def _course(results: Results, case: tuple[str, str, float]) -> Iterator[dict[str, Any]]:
    """Yield each seed of a case: when it was done, and the least gap by then."""
    bound = results.bounds[case]
    for (of, number), tries in results.tries.items():
        spent, least = 0.0, float("inf")
        for seconds, time in tries if of == case else ():
            spent, least = spent + seconds, min(least, time)
            yield {
                **results.series[number].columns,
                "seconds": max(spent, 1e-4),
                "time_us": least,
                "gap_percent": max(0.0, 100 * (least / (bound.bound_us or least) - 1)),
                "bound_us": bound.bound_us,
                "bound_s": max(results.bound_s.get(case, 0.0), 1e-4),
            }


def profile_panels(results: Results) -> list[Panel]:
    """Return the performance profile of all methods, and how many cases have which gap."""
    count = len(results.best)
    ratios, gaps = dict[int, list[float]](), dict[int, list[float]]()
    for case, cells in results.cases.items():
        for number, row in cells.items():
            if row.ok and row.time_us:
                ratios.setdefault(number, []).append(row.time_us / results.best[case])
            if (gap := results.gap(row)) is not None:
                gaps.setdefault(number, []).append(max(0.0, 100 * gap))
    told = {"profile": "performance profile", "ecdf": "share of the cases by their gap"}
    return [
        Panel(text, "", Figure(name, f"{text}, {count:,} cases", data=shares(found, count)))
        for (name, text), values in zip(told.items(), (ratios, gaps), strict=True)
        if (found := {results.series[number]: own for number, own in sorted(values.items())})
    ]


def shares(
    found: Mapping[Series, Sequence[float]], count: int, ends: tuple[float, float] | None = None
) -> pd.DataFrame:
    """Return in what share of all cases each method has at most a value, for each of its values.

    Parameters
    ----------
    found
        The values of each method.
    count
        How many cases there are.
    ends
        From where to where the curves go; None: each from its first value to the largest of all.
    """
    twins = _twins({one.number: dict(enumerate(sorted(values))) for one, values in found.items()})
    most = ends[1] if ends else max(map(max, found.values()))
    rows = []
    for one, values in found.items():
        places = {ends[0]: 0} if ends else {}
        places |= {value: place for place, value in enumerate(sorted(values), 1)} | {most: len(values)}
        rows += [
            {"value": value, "percent": 100 * place / count, "end": value in (min(places), most)}
            | one.columns
            | twins[one.number]
            for value, place in places.items()
        ]
    return pd.DataFrame(rows)


SHOWN = (Kind.ALLGATHER.value, Kind.REDUCE_SCATTER.value)
"""Collectives for which Moore's bound and (N - 1)/N hold as they are."""


def frontier_panels(results: Results) -> list[Panel]:
    """Return a chart for every N, degree and collective in which at least two networks have a T_B."""
    degrees = {name: network and network.degree for name, network in results.networks.items()}
    found: dict[tuple[int, int, str], dict[tuple[str, int], Row]] = {}
    for (topology, collective, _), cells in results.cases.items():
        degree = degrees[topology]
        for key, row in cells.items() if degree is not None and collective in SHOWN else ():
            if row.ok and _point(row) is not None and row.nodes is not None:
                of_group = (int(row.nodes), degree or 0, collective)
                found.setdefault(of_group, {}).setdefault((topology, key), row)
    panels = []
    for group, rows in sorted(found.items(), key=lambda entry: entry[0][:2]):
        if len({topology for topology, _ in rows}) > 1:
            title = f"{group[2]}, {group[0]:,} nodes of degree {group[1]}"
            figure = Figure(
                "frontier", f"T_B against T_L, {title}", data=_frontier_rows(results, group, rows)
            )
            panels.append(Panel(title, f"k{results.collectives.index(group[2])}", figure))
    return panels


def _frontier_rows(
    results: Results, group: tuple[int, int, str], rows: Mapping[tuple[str, int], Row]
) -> pd.DataFrame:
    """Return a row a network and method; the first of several at one point speaks for all."""
    frame = pd.DataFrame(
        {
            "network": topology.partition("?")[0],
            "method": results.series[key].label,
            "series": key,
            "tl_steps": row.tl_steps,
            "tb_factor": row.tb_factor,
            "tb": row.tb_text,
        }
        for (topology, key), row in rows.items()
    )
    points = frame[["tl_steps", "tb_factor"]].apply(tuple, axis=1)
    names = frame.network.groupby(points).unique()
    return frame.assign(
        name=points.map({point: own[0] + _more(len(own) - 1) for point, own in names.items()}),
        frontier=points.isin(set(frontier(points))) & ~points.duplicated(),
        moore=moore_optimal_steps(*group[:2]),
        least_tb=float(bandwidth_factor(group[0])),
    )


def _more(count: int) -> str:
    return f" + {count} more" if count else ""
