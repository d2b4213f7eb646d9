"""The charts of a collective, and the rows of a run that they show: one a case and method that has a time.

They are algbw against size, T_L against T_B, synthesis time against gap, and the gap over time of methods
that search. A collective that ran at one size has bars instead, a bar a method. `frontier_panels` has T_L
against T_B of all networks that share N and degree, `profile_panels` what all cases say of each method.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np
import pandas as pd

from tutti.expansions.prediction import bandwidth_factor
from tutti.experiments.report.charts import NEAR, SHADES, Figure
from tutti.experiments.report.results import CASE, Results, Series, drawn_as, is_tb_optimal
from tutti.experiments.report.standings import GAP_RULES, LeastTB
from tutti.experiments.report.tables import Panel, panel_of, percent, size
from tutti.schedules.collective import Kind
from tutti.schedules.cost import moore_optimal_steps
from tutti.schedules.schedule import Clock

PAIR = CASE[:2]
POINT = ["tl_steps", "tb_factor"]
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
        T_L and T_B; `twins`: how many methods have the same times, but for `GAP_RULES.coincide`, at all
        sizes of a network and collective, and `twin`, its place among them; `frontier`: whether no other of
        its topology and collective equals or betters both;
        `beside`: how far it stands beside its point, in widths of a marker. The markers of a point take at
        most 3 widths, so many of them overlap.
    """
    frame = results.frame[results.frame.ok]
    if frame.empty:
        return pd.DataFrame()
    network = frame.topology.map(results.short)
    slowest = results.tries.groupby(["case", "number"]).time_us.max()
    bounds = [least[pair] for pair in frame[PAIR].itertuples(index=False, name=None)]
    optimal = [is_tb_optimal(row, bound) for row, bound in zip(frame.itertuples(), bounds, strict=True)]
    return frame[["topology"]].assign(
        network=network,
        collective=frame.collective,
        panel=network + "\n" + frame.collective,
        size=frame.size_bytes.map(size),
        size_bytes=frame.size_bytes,
        **drawn_as(results.series, frame.number),
        time_us=frame.time_us,
        slowest_us=slowest.reindex(pd.MultiIndex.from_frame(frame[["case", "number"]])).to_numpy(),
        algbw_gbps=frame.algbw_gbps.where(frame.algbw_gbps > 0),
        busbw_gbps=frame.busbw_gbps,
        speedup=frame.speedup,
        limit_gbps=frame.size_bytes / frame.lower_us / 1e3,
        share_percent=(100 / (1 + frame.open)).where(frame.open > -1),
        gap_percent=(100 * frame.open).clip(0),
        gap=frame.open.map(percent),
        near=[None if math.isnan(gap) else SHADES[bisect_left(NEAR, gap)] for gap in frame.open],
        seconds=frame.synth_s.clip(1e-4),
        **frame[POINT],
        tb=frame.tb_exact.where(frame.tb_exact != ""),
        tb_optimal=np.where(optimal, "yes", "no"),
        least_tb=pd.Series(bounds, frame.index).astype(float),
        **pd.concat(_looks(own) for _, own in frame.groupby(PAIR)),
    )


def _looks(own: pd.DataFrame) -> pd.DataFrame:
    """Return how the rows of a network and collective stand beside each other in its charts."""
    curves = own.pivot(index="size_bytes", columns="number", values="time_us")
    points = own.dropna(subset=POINT).sort_values("size_bytes", kind="stable")
    points = points.drop_duplicates([*POINT, "number"])
    same = points.groupby(POINT)
    place, more = same.cumcount(), same.number.transform("size") - 1
    beside = (place - more / 2) * more.clip(upper=3) / more.clip(lower=1)
    twins = _twins(curves).loc[own.number].set_index(own.index)
    return twins.assign(
        step_point=own.index.isin(points.index),
        frontier=own.index.isin(points.index[on_frontier(points)]),
        beside=beside.reindex(own.index, fill_value=0.0),
    )


def _twins(curves: pd.DataFrame) -> pd.DataFrame:
    """Return for each column how many `twins` coincide with it, itself included, and its place among them."""
    first: dict[object, object] = {}
    for name, own in curves.items():
        close = partial(np.allclose, own, rtol=GAP_RULES.coincide, atol=0, equal_nan=True)
        first[name] = next((other for other in dict.fromkeys(first.values()) if close(curves[other])), name)
    groups = pd.Series(first).groupby(pd.Series(first))
    return pd.DataFrame({"twin": groups.cumcount(), "twins": groups.transform("size")})


def on_frontier(points: pd.DataFrame) -> pd.Series[bool]:
    """Return whether no other point equals or betters each in both coordinates; of equal ones the first is.

    Examples
    --------
    >>> points = pd.DataFrame([(4, 1.0), (2, 3.0), (5, 2.0), (4, 2.0)], columns=POINT)
    >>> points[on_frontier(points)].tl_steps.tolist()
    [4, 2]
    """
    ordered = points.sort_values(POINT, kind="stable").tb_factor
    return (ordered < ordered.cummin().shift(fill_value=math.inf))[points.index]


def _figure(name: str, told: str, topology: str, collective: str, **where: object) -> Figure:
    """Return a chart over the rows of a topology and collective."""
    case = {"topology": topology, "collective": collective}
    return Figure(name, f"{told}, {topology}, {collective}", case | where)


def algbw_panel(results: Results, topology: str, collective: str) -> Panel:
    """Return algbw, or another measure, against size: a line a series and the limit; bars for one size."""
    if not (results.timed(topology, collective).algbw_gbps > 0).any():
        return panel_of(results, collective, None, "No method has a time.")
    one_size = len(results.panel(topology, collective)) == 1
    name, told = ("bars algbw", "algbw") if one_size else ("algbw", "algbw against size")
    return panel_of(results, collective, _figure(name, told, topology, collective))


def pareto_panel(results: Results, topology: str, collective: str) -> Panel:
    """Return T_B against T_L of the step schedules, with the frontier and the least T_B there can be."""
    timed = results.timed(topology, collective)
    left = timed[(timed.clock != "") & timed[POINT].isna().any(axis=1)]
    overlap = (left.clock == Clock.STEP) & left.tb_factor.notna()
    reasons = (left.clock + " clock: no steps").mask(overlap, "steps overlap")
    reasons = reasons.where(left.tl_steps.isna(), "no T_B: links differ")
    labels = left.number.map(lambda number: results.series[number].label).groupby(reasons, sort=False)
    texts = [f"{', '.join(own.unique())} ({reason})" for reason, own in labels]
    without = f"Left out: {'; '.join(texts)}." if texts else ""
    if timed.dropna(subset=POINT).empty:
        return panel_of(results, collective, None, f"No step schedule with a T_B. {without}".strip())
    figure = _figure("pareto", "T_B against T_L", topology, collective, step_point=1)
    return panel_of(results, collective, figure, without)


def effort_panel(results: Results, topology: str, collective: str) -> Panel:
    """Return the gap against the synthesis time: a point a series, a line over its sizes."""
    if results.timed(topology, collective)[["synth_s", "gap"]].isna().any(axis=1).all():
        return panel_of(results, collective, None, "No method has both a synthesis time and a gap.")
    told = "gap against synthesis time"
    return panel_of(results, collective, _figure("effort", told, topology, collective))


def search_panel(results: Results, topology: str, collective: str) -> Panel | None:
    """Return the gap of the best schedule so far against synthesis time, of methods that tried several seeds.

    It is that at the largest size; None where no method did.
    """
    bounds = results.frame[["case", "number", "lower_us", "lower_s"]]
    tries = results.tries[(results.tries.topology == topology) & (results.tries.collective == collective)]
    own = tries.merge(bounds, on=["case", "number"]).dropna(subset="lower_us")
    if own.empty:
        return None
    own = own[own.size_bytes == own.size_bytes.max()]
    seeds = own.groupby("number")
    least = seeds.time_us.cummin()
    data = pd.DataFrame(drawn_as(results.series, own.number), own.index).assign(
        seconds=seeds.seconds.cumsum().clip(1e-4),
        time_us=least,
        gap_percent=(100 * (least / own.lower_us - 1)).clip(0),
        bound_us=own.lower_us,
        bound_s=own.lower_s.fillna(0.0).clip(1e-4),
    )
    told = f"gap over time, {topology}, {collective} of {size(own.size_bytes.max())}"
    return panel_of(results, collective, Figure("search", told, data=data))


def program_panel(results: Results, topology: str, collective: str) -> Panel | None:
    """Return the gap of incumbent and bound over time, of the mixed-integer programs that methods solved.

    It is that of each method's largest size, relative to the smaller of the two. None if no program has a gap
    above 0.
    """
    rows = results.rows
    own = rows[(rows.topology == topology) & (rows.collective == collective) & (rows.program_course != "")]
    if own.empty:
        return None
    own = own.sort_values("size_bytes").drop_duplicates("number", keep="last")
    own = own.assign(course=own.program_course.str.split(" | ", regex=False)).explode("course", True)
    own = own.assign(solve=own.index, course=own.course.str.split("; ")).explode("course", True)
    words = own.course.str.split(expand=True).apply(pd.to_numeric, errors="coerce").reindex(columns=range(3))
    values = words[[1, 2]].set_axis(["incumbent", "proven"], axis=1)
    apart, least = (values.incumbent - values.proven).abs(), values.abs().min(axis=1)
    gap = (100 * apart / least).where(apart > 0, apart)
    data = pd.DataFrame(drawn_as(results.series, own.number)).assign(
        solve=own.solve, seconds=words[0].clip(1e-4), gap_percent=gap, **values
    )
    data = data[np.isfinite(data.gap_percent)]
    if not data.gap_percent.any():  # every first incumbent was optimal
        return None
    told = f"gap of programs over time, {topology}, {collective}"
    return panel_of(results, collective, Figure("programs", told, data=data))


def profile_panels(results: Results) -> list[Panel]:
    """Return the performance profile of all methods, and how many cases have which gap."""
    frame, panels = results.frame, []
    count = frame[frame.ok].case.nunique()
    told = {"profile": "performance profile", "ecdf": "share of the cases by their gap"}
    values = {"profile": frame.time_us / frame.best_us, "ecdf": (100 * frame.open).clip(0)}
    for name, text in told.items():
        found = {results.series[number]: own for number, own in values[name].dropna().groupby(frame.number)}
        if found:
            figure = Figure(name, f"{text}, {count:,} cases", data=shares(found, count))
            panels.append(Panel(text, "", figure))
    return panels


def shares(
    found: Mapping[Series, Iterable[float]], count: int, ends: tuple[float, float] | None = None
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
    curves = pd.DataFrame({one.number: pd.Series(sorted(own), dtype=float) for one, own in found.items()})
    most, twins, rows = ends[1] if ends else curves.max().max(), _twins(curves), []
    for one in found:
        values = curves[one.number].dropna()
        places = {ends[0]: 0} if ends else {}
        places |= {value: place for place, value in enumerate(values, 1)} | {most: len(values)}
        rows += [
            {"value": value, "percent": 100 * place / count, "end": value in (min(places), most)}
            | one.columns
            | twins.loc[one.number].to_dict()
            for value, place in places.items()
        ]
    return pd.DataFrame(rows)


def frontier_panels(results: Results) -> list[Panel]:
    """Return a chart for every N, degree and collective in which at least two networks have a T_B."""
    degrees = {name: network.degree for name, network in results.networks.items() if network}
    frame, panels = results.frame.assign(degree=results.frame.topology.map(degrees)), []
    shown = (Kind.ALLGATHER, Kind.REDUCE_SCATTER)  # Moore's bound and (N - 1)/N hold for these as they are
    frame = frame[frame.ok & frame.collective.isin(shown)].dropna(subset=[*POINT, "nodes", "degree"])
    frame = frame.drop_duplicates([*PAIR, "number", "nodes"])
    groups = frame.groupby(["nodes", "degree", "collective"], sort=False)
    for (nodes, degree, collective), own in sorted(groups, key=lambda group: group[0][:2]):
        if own.topology.nunique() > 1:
            title = f"{collective}, {nodes:,.0f} nodes of degree {degree:.0f}"
            moore, least = moore_optimal_steps(int(nodes), int(degree)), bandwidth_factor(int(nodes))
            network = own.topology.str.partition("?")[0]
            names = network.groupby([own.tl_steps, own.tb_factor])  # the first at a point speaks for all
            more = names.transform("nunique") - 1
            data = pd.DataFrame(
                {
                    "network": network,
                    "method": own.number.map(lambda number: results.series[number].label),
                    "series": own.number,
                    **own[POINT],
                    "tb": own.tb_exact,
                    "name": names.transform("first") + (" + " + more.map(str) + " more").where(more > 0, ""),
                    "frontier": on_frontier(own),
                    "moore": moore,
                    "least_tb": float(least),
                }
            )
            figure = Figure("frontier", f"T_B against T_L, {title}", data=data)
            panels.append(panel_of(results, collective, figure, title=title))
    return panels
