"""The tables of a run: gaps, their two parts, heuristics over exact models, methods by networks, and more.

Every table of cases has bound, time and gap, so that each can be checked from the other two.

An exact method is optimal for its own program: for bytes, for given chunks, or for steps. Its time is no
lower bound, because schedules of other chunks or of less α may be faster. A solver's solution is not always
proven to be optimal. Then the table also says by how much the optimum may be faster.

TACOS (MICRO 2024, section V-A) measures efficiency as ideal over time, where

    ideal = 2 (N - 1) / N · M / (the smallest bandwidth of a rank) + the diameter in α.

It counts what a rank sends and receives in a reduce-scatter and an allgather. It is no lower bound, because
an allreduce that overlaps the two may be faster on uneven networks. It cannot always be attained either,
because the bottleneck may be a cut around several ranks. So each efficiency has a *cap* beside it: the ideal
over the proven lower bound on time, which no schedule's efficiency exceeds.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

import pandas as pd

from tutti.experiments.report.charts import NEAR
from tutti.experiments.report.results import ABSENT, TIE, Case, Results, Row, Series
from tutti.experiments.report.standings import (
    GAP_RULES,
    STATUSES,
    LeastTB,
    common_cases,
    ranking,
    shifted_mean,
)
from tutti.experiments.report.tables import (
    TEXTS,
    Cell,
    PageTable,
    Said,
    counted,
    megabytes,
    method_heads,
    microseconds,
    number,
    percent,
    seconds,
    size,
    times,
)
from tutti.schedules.collective import Kind
from tutti.topologies.graphs.shortest_paths import alpha_distances
from tutti.topologies.topology import Topology

SHORT = {"unsupported": "n/a", "infeasible": "none", "timeout": "timeout", "failed": "failed"}
"""The text of a cell without a gap, by status; the cell's note has the reason."""
SIGNS = {"unsupported": "·", "timeout": "t", "infeasible": "–", "failed": "!"}
"""The text of such a cell in a map, which has no notes."""


def _shade(gap: float) -> str:
    """Return the style classes of a gap, none if it is not known."""
    return "" if math.isnan(gap) else f"u{len(NEAR) - bisect_left(NEAR, gap)}{' optimal' * (abs(gap) <= TIE)}"


def _network(results: Results, name: str) -> Cell:
    """Return the cell that names a topology; where it leads is also the topology's style class."""
    return Cell(results.short[name], "name", tip=name, link=f"t{results.topologies.index(name)}")


def _where(results: Results, case: Case) -> tuple[str, list[Said]]:
    """Return the style classes of a case, and the cells that name it."""
    cell, what = _network(results, case[0]), results.collectives.index(case[1])
    return f"{cell.link} k{what}", [cell, Cell(case[1]), Cell(size(case[2]))]


def describe(results: Results, row: Row) -> str:
    """Return the text of a row's tooltip, a fact a line."""
    head = f"{results.series[row.number].label}: {row.collective}, {size(row.size_bytes)}"
    if not row.ok:
        return f"{head}\n{_reason(row)}"
    alone = " + ".join(microseconds(float(time)) for time in filter(None, row.alone_us.split("; ")))
    busbw = "" if math.isnan(row.busbw_gbps) else f", busbw {number(row.busbw_gbps)} GB/s"
    bound = f"{row.bound_kind or 'lower'} bound {microseconds(row.bound_us)}"
    said = {
        "algorithm": row.algorithm,
        "time_us": f"time {microseconds(row.time_us)}",
        "sequential_us": f"one after the other {microseconds(row.sequential_us)} = {alone}",
        "algbw_gbps": f"algbw {number(row.algbw_gbps)} GB/s{busbw}",
        "global_bytes": f"between hosts {megabytes(row.global_bytes)}",
        "gap": f"gap {number(100 * row.gap, 6)}% over the {bound}{', optimal' * row.optimal}",
        "tl_steps": f"T_L {number(row.tl_steps)} α" + (f", T_B {row.tb_exact} M/B" if row.tb_exact else ""),
        "synth_s": f"synthesis {seconds(row.synth_s)}",
        "seed": f"seed {row.seed:.0f}",
        "verified": "not verified" * (row.verified is False),
        "message": row.message,
        "note": row.note,
    }
    known = (text for name, text in said.items() if text and pd.notna(getattr(row, name)))
    return "\n".join([head, *known])


def _reason(row: Row) -> str:
    """Return the status and message of a row without a time."""
    return f"{row.status}: {row.message}" if row.message else row.status


def _cell(
    results: Results, row: Row, said: Callable[[Row], tuple[str, str]], notes: dict[str, int] | None = None
) -> Cell:
    """Return the cell of a row: both texts of `said`, the second in small letters, or why it has no time."""
    if row is ABSENT:
        return Cell()
    reason = "not verified: don't rely on this number" if row.ok else _reason(row)
    noted = not row.ok or row.verified is False
    note = notes.setdefault(reason, len(notes) + 1) if noted and notes is not None else None
    tip = describe(results, row)
    if not row.ok:
        return Cell(SHORT.get(row.status, row.status), "none", tip, note)
    holds = {"best": row.won, "optimal": row.optimal, "wrong": row.gap < -TIE}
    text, more = said(row)
    return Cell(text, " ".join(name for name, there in holds.items() if there), tip, note, more)


def _time(row: Row) -> str:
    return microseconds(row.time_us, GAP_RULES.digits)


def _lower(row: Row) -> Cell:
    """Return the lower bound of a row's case, with what proves it."""
    return Cell(microseconds(row.lower_us, GAP_RULES.digits), more=row.lower_kind)


CELLS: Mapping[str, tuple[Callable[[Row], Cell], Callable[[Row], tuple[str, str]]]] = {
    "gaps": (
        _lower,
        lambda row: (_time(row), "") if math.isnan(row.open) else (percent(row.open), _time(row)),
    ),
    "bandwidth": (
        lambda row: Cell(_number(row.size_bytes / row.lower_us / 1e3, "")),
        lambda row: (f"{_number(row.algbw_gbps)} / {_number(row.busbw_gbps)}", ""),
    ),
    "speedup": (
        lambda row: Cell(microseconds(row.best_us, GAP_RULES.digits)),
        lambda row: (times(row.speedup), ""),
    ),
}
"""For each table by case two functions: for the cell beside the size, and for the texts of a timed row."""


def _number(value: float, missing: str = "–") -> str:
    return missing if math.isnan(value) else number(value)


def case_table(results: Results, topology: str, kind: str = "gaps") -> PageTable:
    """Return the results of all methods on a network, a line a collective and size.

    Parameters
    ----------
    kind
        One of `CELLS`.
    """
    reference, said = CELLS[kind]
    present = set(results.rows.number[results.rows.topology == topology])
    series = [one for one in results.series if one.number in present]
    notes: dict[str, int] = {}
    rows = []
    for collective in results.collectives:
        for bytes_, cells in results.panel(topology, collective).items():
            looks, (_, *named) = _where(results, (topology, collective, bytes_))
            found = [_cell(results, cells.get(one.number, ABSENT), said, notes) for one in series]
            rows.append((looks, [*named, reference(next(iter(cells.values()))), *found]))
    table = partial(PageTable.of, name=f"{kind}-{topology}", notes=notes, network=results.short[topology])
    return _exactly(table(kind, rows, method_heads(series), baseline=results.baseline))


def _exactly(table: PageTable) -> PageTable:
    """Return a table whose caption says in what each exact method is optimal."""
    series = (cell.series for cell in (*table.heads, *(c for _, cells in table.rows for c in cells[:4])))
    texts = {one.label: one.kind for one in series if one and one.kind.startswith("exact for ")}
    said = ", ".join(f"{label} is {kind}" for label, kind in texts.items())
    return replace(table, caption=f"{table.caption} {said}.") if said else table


def gap_parts(results: Results) -> PageTable | None:
    """Return the gap of the best time in each case, and each schedule's loss to it; None without a bound."""

    def lost_of(row: Row) -> tuple[str, str]:
        return percent(row.time_us / row.best_us - 1), _time(row)

    rows = []
    for case, cells in results.cases.items():
        best = next((row for row in cells.values() if row.won), None)
        if best is not None and pd.notna(best.lower_us):
            looks, named = _where(results, case)
            lower, least = seconds(best.lower_s), microseconds(best.best_us, GAP_RULES.digits)
            whose, left = results.series[best.number].label, percent(best.best_us / best.lower_us - 1)
            lost = [_cell(results, cells.get(one.number, ABSENT), lost_of) for one in results.series]
            rows.append((looks, [*named, _lower(best), lower, least, whose, left, *lost]))
    return PageTable.of("parts", rows, method_heads(results.series)) if rows else None


def over_exact(results: Results) -> PageTable | None:
    """Return the ratio of every other method's time to that of each exact one, by case and on average."""
    others = [one for one in results.series if not _is_exact(one)]
    means: list[tuple[str, list[Said]]] = []
    rows: list[tuple[str, list[Said]]] = []
    for one in filter(_is_exact, results.series):
        found = []
        for case, cells in results.cases.items():
            base, rivals = cells.get(one.number, ABSENT), [cells.get(of.number, ABSENT) for of in others]
            ratios = [row.time_us / base.time_us for row in rivals]
            if not all(map(math.isnan, ratios)):
                looks, named = _where(results, case)
                what = [Cell(one.label, series=one), Cell(base.exact_for or "?", more=base.program)]
                left = percent(base.solver_gap) if base.solver_gap > TIE else ""
                line = [_ratio([ratio], _time(row)) for ratio, row in zip(ratios, rivals, strict=True)]
                rows.append((f"{looks} s{one.number}", [*named, *what, _time(base), left, *line]))
                found.append((ratios, what))
        if found:
            ratios, (what, *_) = zip(*found, strict=True)
            line = [_ratio(of) for of in zip(*ratios, strict=True)]
            whole = ["all", "", counted(len(found), "case"), *what, "", "", *line]
            means.append((f"s{one.number} mean", whole))
    return PageTable.of("exact", [*means, *rows], method_heads(others)) if rows else None


def _is_exact(one: Series) -> bool:
    return one.kind.split(" ")[0] == "exact"


def _ratio(ratios: Sequence[float], more: str = "") -> Cell:
    """Return the geometric mean of the known ratios, and their number or `more`."""
    known = [ratio for ratio in ratios if not math.isnan(ratio)]
    if not known:
        return Cell()
    return Cell(f"{statistics.geometric_mean(known):.3f}", more=more or f"({len(known)})")


def exact_sentence(results: Results) -> str:
    """Return a sentence on the ratio of the best heuristic's time to the best exact one's, or nothing."""
    frame = results.frame
    exact = frame.number.isin([one.number for one in results.series if _is_exact(one)])
    best = frame.groupby(["case", exact]).time_us.min().unstack().reindex(columns=[False, True])
    ratios = (best[False] / best[True]).dropna()
    if ratios.empty:
        return ""
    mean, cases = statistics.geometric_mean(ratios), counted(len(ratios), "case")
    return str(TEXTS["exact"]["sentence"]).format(mean, cases, ratios.min(), ratios.max())


def summary(results: Results, bytes_: float | None = None) -> PageTable:
    """Return the gap of every method on every network, over all sizes or at one: one table for a paper."""
    frame = results.frame[results.frame.best_us.notna()]
    frame = frame if bytes_ is None else frame[frame.size_bytes == bytes_]
    asked = frame.groupby("topology", sort=False).case.nunique()
    gaps = frame.dropna(subset="open").groupby(["number", "topology"]).open
    means, cases = (gaps.agg(how).unstack().reindex(columns=asked.index) for how in (shifted_mean, "size"))
    best, few, rows = (means <= means.min() + TIE).astype(int), (cases < asked).astype(int), []
    for key in means.index:
        cells = [
            Cell(percent(mean), "best" * best[name][key], more=f"({cases[name][key]:.0f})" * few[name][key])
            for name, mean in means.loc[key].items()
        ]
        one = results.series[key]
        rows.append((f"s{key}", [Cell(one.label, series=one), *cells]))
    named = [(_network(results, name), counted(count, "case")) for name, count in asked.items()]
    heads = [replace(cell, text=f"{cell.text}, {said}", looks=f"n {cell.link}") for cell, said in named]
    at = "all sizes" if bytes_ is None else size(bytes_)
    return PageTable.of("summary", rows, heads, name=f"summary-{at.replace(' ', '-')}", sizes=at)


def method_table(results: Results, least: LeastTB | None = None) -> PageTable:
    """Return the methods by rank, with their results over the whole run."""
    ranked = enumerate(ranking(results, least).itertuples(), 1)
    rows = [(f"s{one.Index}", _standing(place, one)) for place, one in ranked]
    over = f" Speed-up: the geometric mean of the time of {results.baseline} over its own."
    words = {"run": results.name, "speedup": over if results.base else ""}
    common = len(common_cases(results)[1])
    table = _exactly(PageTable.of("ranking", rows, name="methods", common=common, **words))
    return table if results.base else table.without("speed-up")


def _standing(place: int, one: Row) -> list[Said]:
    counts = {words: getattr(one, name) for name, words in STATUSES.items()}
    lost = ", ".join(f"{words} {count:.0f}" for words, count in counts.items() if count)
    return [
        "" if math.isnan(one.common) else str(place),
        Cell(one.series.label, series=one.series, link=f"term-{one.series.method}"),
        one.series.kind,
        percent(one.common),
        Cell(f"{one.timed:.0f} of {one.tried:.0f}", more=lost),
        f"{one.won:.0f}",
        f"{one.optimal:.0f}",
        "–" if math.isnan(one.tb_optimal) else f"{one.tb_optimal:.0f}",
        percent(one.median),
        percent(one.worst),
        Cell(one.where, "where"),
        times(one.slower),
        times(one.speedup),
        seconds(one.synthesis),
    ]


def solved_programs(results: Results) -> PageTable | None:
    """Return the programs that were solved; of several sizes or seeds, that of the longest solve."""
    solved = results.rows[(results.rows.program != "") | (results.rows.variables > 0)]
    solved = solved.fillna({"solve_s": 0.0})
    longest = solved.groupby(["topology", "collective", "number"], sort=False).solve_s.idxmax()
    rows = []
    for row in results.rows.loc[longest].itertuples():
        looks, (network, what, _) = _where(results, (row.topology, row.collective, row.size_bytes))
        one = results.series[row.number]
        counts = ("" if math.isnan(count) else f"{count:,.0f}" for count in (row.variables, row.constraints))
        built = seconds(row.build_s) if row.variables > 0 else ""  # without a model it is making the schedule
        cells = [network, what, Cell(one.label, series=one), row.program, row.solver, *counts, built]
        rows.append((f"{looks} s{row.number}", [*cells, seconds(row.solve_s), percent(row.solver_gap)]))
    return PageTable.of("programs", rows) if rows else None


def predictions(results: Results) -> PageTable | None:
    """Return T_L and T_B of expansions as predicted and as attained, marked where they disagree."""
    made = results.rows[(results.rows.prediction != "") & (results.rows.tb_exact != "")]
    made = made.dropna(subset=["predicted_tl", "tl_steps"])
    said = ["predicted_tl", "predicted_tb", "prediction", "tl_steps", "tb_exact"]
    rows = []
    for row in made.drop_duplicates(["topology", "collective", *said]).itertuples():
        looks, (network, what, _) = _where(results, (row.topology, row.collective, row.size_bytes))
        tb, most = Fraction(row.tb_exact), Fraction(row.predicted_tb)
        holds = (row.tl_steps == row.predicted_tl, tb == most or (row.prediction == "at most" and tb < most))
        found = map(Cell, (number(row.tl_steps), row.tb_exact), ("" if right else "wrong" for right in holds))
        predicted = (number(row.predicted_tl), row.predicted_tb, row.prediction)
        rows.append((looks, [network, what, *predicted, *found]))
    return PageTable.of("predictions", rows) if rows else None


def nearest(results: Results, collective: str, sizes: Iterable[float] | None = None) -> PageTable:
    """Return the least gap and its method, a line a topology and a column a size."""
    every = results.rows.size_bytes[results.rows.collective == collective]
    chosen = sorted(set(every)) if sizes is None else list(sizes)
    rows = []
    for name in results.topologies:
        cases = results.panel(name, collective)
        cell = _network(results, name)
        rows.append((cell.link, [cell, *(_least(results, cases.get(bytes_)) for bytes_ in chosen)]))
    heads = [f"{size(bytes_)}#" for bytes_ in chosen]
    return PageTable.of("nearest", rows, heads, name=f"nearest-{collective}", collective=collective)


def _least(results: Results, cells: Mapping[int, Row] | None) -> Cell:
    """Return the gap of the first of a case's fastest rows, its method, and what a portfolio chose."""
    best = next((row for row in (cells or {}).values() if row.won), None)
    if best is None:
        return Cell("–" if cells else "", "none")
    more = results.series[best.number].label + (f" ({best.algorithm})" if best.algorithm else "")
    return Cell(percent(best.open) or "?", _shade(best.open), describe(results, best), more=more)


def gap_map(results: Results, collective: str, bytes_: float) -> PageTable:
    """Return the gaps on every topology, a line for each method that has a time on any."""
    cases = [results.panel(topology, collective).get(bytes_, {}) for topology in results.topologies]
    asked = {key for cells in cases for key in cells}
    timed = {key for cells in cases for key, row in cells.items() if row.ok}
    rows, lost = [], ", ".join(results.series[key].label for key in sorted(asked - timed))
    for one in (results.series[key] for key in sorted(timed)):
        spots = (_spot(results, cells.get(one.number, ABSENT)) for cells in cases)
        rows.append((f"s{one.number}", [Cell(one.label, "name", series=one), *spots]))
    named = (_network(results, name) for name in results.topologies)
    heads = [replace(cell, looks=f"n {cell.link}") for cell in named]
    words = {"collective": collective, "size": size(bytes_)}
    words["absent"] = f" No schedule anywhere: {lost}." if lost else ""
    return PageTable.of("map", rows, heads, name=f"map-{collective}-{size(bytes_)}", **words)


def _spot(results: Results, row: Row) -> Cell:
    """Return the cell of a row in a map."""
    if row is ABSENT:
        return Cell()
    if not row.ok:
        return Cell(SIGNS.get(row.status, row.status), "none", describe(results, row))
    brief = f"{row.open / 10:.0f}k" if row.open >= 99.995 else percent(row.open) or "?"
    return Cell(brief, _shade(row.open) + " best" * row.won, describe(results, row))


OVERLAPPED = "tacos"
"""The method without which a run has no table of ideals."""


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


def ideal_table(results: Results) -> PageTable | None:
    """Return the efficiencies of all allreduces at their largest size; None if TACOS has none."""
    networks = {name: network for name, network in results.networks.items() if network is not None}
    timed = results.frame[results.frame.ok & (results.frame.collective == Kind.ALLREDUCE)]
    timed = timed[timed.topology.isin(list(networks))]
    last = timed[timed.size_bytes == timed.groupby("topology").size_bytes.transform("max")]
    series = [results.series[key] for key in sorted(last.number.unique())]
    if not any(one.method == OVERLAPPED for one in series):
        return None
    rows = []
    for name, own in last.groupby("topology", sort=False):
        lower, bytes_ = own.lower_us.iloc[0], own.size_bytes.iloc[0]
        ideal = 1e6 * float(ideal_time(networks[name], Fraction(bytes_)))
        published = TEXTS["ideal"]["published"].get(name.partition("?")[0], "")
        times_us = dict(zip(own.number, own.time_us, strict=True))
        cells = {key: Cell(_share(ideal, time), more=_share(lower, time)) for key, time in times_us.items()}
        cell = _network(results, name)
        said = [cell, size(bytes_), microseconds(ideal), published, _share(ideal, lower)]
        rows.append((cell.link, [*said, *(cells.get(one.number, Cell()) for one in series)]))
    return PageTable.of("ideal", rows, method_heads(series))


def _share(part: float, whole: float) -> str:
    """Return a part of a whole in percent; empty if one is not known."""
    return "" if math.isnan(part / whole) else f"{100 * part / whole:.1f}"
