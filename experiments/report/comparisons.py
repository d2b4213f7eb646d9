"""The tables of a run: gaps, their two parts, heuristics over exact models, methods by networks, and more.

Every table of cases has bound, time and gap, so that each can be checked from the other two.

The time of an exact method is that of the best schedule by its own program, which says in what it is optimal:
of bytes, of given chunks, of steps. It is no lower bound: schedules of other chunks or of less α may be
faster. Nor is a solver's solution always proven best: how much it may be too slow then stands beside.

TACOS (MICRO 2024, section V-A) measures efficiency as ideal over time, where

    ideal = 2 (N - 1) / N · M / (the smallest bandwidth of a rank) + the diameter in α.

It counts what a rank would send and receive in a reduce-scatter and an allgather. That bounds neither from
below (an allreduce that overlaps the two may be faster on uneven networks) nor can it always be met (the
bottleneck may be a cut that no rank shows). So beside each efficiency stands its *cap*: the ideal over the
proven lower bound on time, which no schedule's efficiency exceeds.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from tutti.experiments.report.charts import SHADES
from tutti.experiments.report.results import TIE, Case, Results, Row, best_time, is_best, is_optimal
from tutti.experiments.report.series import Series
from tutti.experiments.report.standings import (
    GAP_RULES,
    LeastTB,
    SeriesStanding,
    common_cases,
    ranking,
    shifted_mean,
)
from tutti.experiments.report.tables import (
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
"""What a cell says instead of a gap; its note says why."""
SIGNS = {"unsupported": "·", "timeout": "t", "infeasible": "–", "failed": "!"}
"""The same in a map, which has no notes."""
NEAR = (0.001, 0.01, 0.1, 1.0, math.inf)
"""Up to which gap a cell has each of `SHADES`: the nearer the stronger."""


def is_wrong(row: Row) -> bool:
    """Whether a row claims the impossible: to be faster than its lower bound."""
    return row.ok and row.gap is not None and row.gap < 0 and not is_optimal(row)


def near(gap: float) -> tuple[int, str]:
    """Return the shade of a gap, and up to how many percent it stands for."""
    place = next(place for place, limit in enumerate(NEAR) if gap <= limit)
    return len(NEAR) - place, SHADES[place]


def _shade(gap: float | None) -> str:
    if gap is None:
        return ""
    return f"u{near(gap)[0]}{' optimal' * (abs(gap) <= TIE)}"


def _network(results: Results, name: str) -> tuple[str, Cell]:
    """Return the style class of a topology, and the cell that names it."""
    place = f"t{results.topologies.index(name)}"
    return place, Cell(results.short[name], "name", tip=name, link=place)


def _where(results: Results, case: Case) -> tuple[str, list[Said]]:
    """Return the style classes of a case, and the cells that name it."""
    place, cell = _network(results, case[0])
    looks = f"{place} k{results.collectives.index(case[1])}"
    return looks, [cell, Cell(case[1]), Cell(size(case[2]))]


def describe(label: str, row: Row) -> str:
    """Return what a tooltip says of a row, a fact a line."""
    head = f"{label}: {row.collective}, {size(row.size_bytes)}"
    if not row.ok:
        return f"{head}\n{row.status}: {row.message}" if row.message else f"{head}\n{row.status}"
    lines = [head, *filter(None, [row.algorithm]), f"time {microseconds(row.time_us)}"]
    if row.sequential_us is not None:
        alone = " + ".join(microseconds(float(time)) for time in row.alone_us.split("; "))
        lines.append(f"one after the other {microseconds(row.sequential_us)} = {alone}")
    if row.algbw_gbps is not None:
        busbw = "" if row.busbw_gbps is None else f", busbw {number(row.busbw_gbps)} GB/s"
        lines.append(f"algbw {number(row.algbw_gbps)} GB/s{busbw}")
    if row.global_bytes is not None:
        lines.append(f"between hosts {megabytes(row.global_bytes)}")
    if row.gap is not None:
        proof = f" over the {row.bound_kind or 'lower'} bound {microseconds(row.bound_us)}"
        lines.append(f"gap {number(100 * row.gap, 6)}%{proof}{', optimal' if is_optimal(row) else ''}")
    if row.tl_steps is not None:
        lines.append(f"T_L {number(row.tl_steps)} α" + (f", T_B {row.tb_text} M/B" if row.tb_text else ""))
    if row.synth_s is not None:
        lines.append(f"synthesis {seconds(row.synth_s)}")
    if row.seed:
        lines.append(f"seed {row.seed}")
    if row.verified is False:
        lines.append("not verified")
    lines += filter(None, (row.message, row.note))
    return "\n".join(lines)


def _cell(
    results: Results,
    row: Row | None,
    said: Callable[[Row], tuple[str, str]],
    notes: dict[str, int] | None = None,
) -> Cell:
    """Return what is said of a row, and in small letters; or why it has no time, in a note."""
    if row is None:
        return Cell()
    tip = describe(results.series[results.number[row.method, row.options]].label, row)
    if not row.ok:
        reason = f"{row.status}: {row.message}" if row.message else row.status
        note = None if notes is None else notes.setdefault(reason, len(notes) + 1)
        return Cell(SHORT.get(row.status, row.status), "none", tip, note)
    holds = {
        "best": is_best(row, results.best.get(row.case)),
        "optimal": is_optimal(row),
        "wrong": is_wrong(row),
    }
    note = None
    if row.verified is False and notes is not None:
        note = notes.setdefault("not verified: don't rely on this number", len(notes) + 1)
    text, more = said(row)
    return Cell(text, " ".join(name for name, there in holds.items() if there), tip, note, more)


def _time(row: Row) -> str:
    return microseconds(row.time_us, GAP_RULES.digits)


def _lower(results: Results, case: Case) -> Cell:
    """Return the lower bound of a case, with what proves it."""
    row = results.bounds.get(case)
    return Cell() if row is None else Cell(microseconds(row.bound_us, GAP_RULES.digits), more=row.bound_kind)


def _gap(results: Results, row: Row) -> tuple[str, str]:
    gap = results.gap(row)
    return (_time(row), "") if gap is None else (percent(gap), _time(row))


def _limit(results: Results, case: Case) -> Cell:
    row = results.bounds.get(case)
    return Cell(number(case[2] / row.bound_us / 1e3) if row and row.bound_us else "")


def _rates(_: Results, row: Row) -> tuple[str, str]:
    rates = (row.algbw_gbps, row.busbw_gbps)
    return " / ".join("–" if rate is None else number(rate) for rate in rates), ""


Of = tuple[str, Callable[[Results, Case], Cell], Callable[[Results, Row], tuple[str, str]]]
CELLS: Mapping[str, Of] = {
    "gaps": ("LB#", _lower, _gap),
    "bandwidth": ("limit#", _limit, _rates),
    "speedup": ("best#", lambda results, case: Cell(microseconds(results.best.get(case), GAP_RULES.digits)),
                lambda results, row: (times(results.speedup(row)), "")),
}  # fmt: skip
"""What a table by case says: the column beside the size, and a cell of a row that has a time."""


def case_table(results: Results, topology: str, kind: str = "gaps") -> PageTable:
    """Return what every method reaches on a network, a line a collective and size.

    Parameters
    ----------
    kind
        One of `CELLS`.
    """
    head, reference, said = CELLS[kind]
    present = {results.number[row.method, row.options] for row in results.rows if row.topology == topology}
    series = [one for one in results.series if one.number in present]
    notes: dict[str, int] = {}
    rows = []
    for collective in results.collectives:
        for bytes_, cells in results.of(topology, collective).items():
            case = (topology, collective, bytes_)
            found = [
                _cell(results, cells.get(s.number), lambda row: said(results, row), notes) for s in series
            ]
            looks, (_, *named) = _where(results, case)
            rows.append((looks, [*named, reference(results, case), *found]))
    told = {"network": results.short[topology], "baseline": results.baseline}
    heads = ["collective", "size#", head, *method_heads(series)]
    return _exactly(PageTable.of(kind, rows, heads, name=f"{kind}-{topology}", notes=notes, **told))


def _exactly(table: PageTable) -> PageTable:
    """Return a table whose caption says in what each exact method is optimal."""
    series = (cell.series for cell in (*table.heads, *(c for _, cells in table.rows for c in cells[:4])))
    texts = {one.label: one.kind for one in series if one and one.kind.startswith("exact for ")}
    said = ", ".join(f"{label} is {kind}" for label, kind in texts.items())
    return replace(table, caption=f"{table.caption} {said}.") if said else table


def gap_parts(results: Results) -> PageTable | None:
    """Return what is left open in each case, and what each schedule loses; None without a bound."""
    rows = []
    for case in results.best:
        if case in results.bounds:
            looks, named = _where(results, case)
            rows.append((looks, [*named, *_parts(results, case, results.best[case])]))
    return PageTable.of("parts", rows, method_heads(results.series)) if rows else None


def _parts(results: Results, case: Case, best: float) -> list[Said]:
    cells, bound = results.cases[case], results.bounds[case].bound_us or best
    whose = next(key for key, row in cells.items() if is_best(row, best))

    def lost(row: Row) -> tuple[str, str]:
        return percent((row.time_us or best) / best - 1), _time(row)

    return [
        _lower(results, case),
        seconds(results.bound_s.get(case)),
        microseconds(best, GAP_RULES.digits),
        results.series[whose].label,
        percent(best / bound - 1),
        *(_cell(results, cells.get(one.number), lost) for one in results.series),
    ]


def over_exact(results: Results) -> PageTable | None:
    """Return the ratio of every other method's time to that of each exact one, by case and on average."""
    exact = [one for one in results.series if _is_exact(one)]
    others = [one for one in results.series if not _is_exact(one)]
    means: list[tuple[str, list[Said]]] = []
    rows: list[tuple[str, list[Said]]] = []
    for one in exact:
        found = {
            case: (cells[one.number], [_ratio(cells.get(o.number), cells[one.number]) for o in others])
            for case, cells in results.cases.items()
            if one.number in cells and cells[one.number].ok
        }
        found = {case: line for case, line in found.items() if any(line[1])}
        for case, (base, ratios) in found.items():
            looks, named = _where(results, case)
            left = percent(base.solver_gap) if (base.solver_gap or 0.0) > TIE else ""
            cells = results.cases[case]
            line = [
                Cell(f"{ratio:.3f}", more=_time(cells[other.number])) if ratio else Cell()
                for other, ratio in zip(others, ratios, strict=True)
            ]
            rows.append(
                (f"{looks} s{one.number}", [*named, *_exact_cells(one, base), _time(base), left, *line])
            )
        if found:
            known = [
                [r for r in of if r] for of in zip(*(ratios for _, ratios in found.values()), strict=True)
            ]
            first = next(base for base, _ in found.values())
            said = ["all", "", counted(len(found), "case"), *_exact_cells(one, first), "", ""]
            means.append((f"s{one.number} mean", [*said, *map(_over, known)]))
    return PageTable.of("exact", [*means, *rows], method_heads(others)) if rows else None


def _ratio(row: Row | None, base: Row) -> float | None:
    return row.time_us / base.time_us if row is not None and row.ok and row.time_us and base.time_us else None


def _is_exact(one: Series) -> bool:
    return one.kind.split(" ")[0] == "exact"


def _exact_cells(one: Series, row: Row) -> list[Said]:
    return [Cell(one.label, series=one), Cell(row.exact_for or "?", more=row.program)]


def _over(ratios: list[float]) -> Cell:
    """Return a geometric mean, and of how many cases."""
    return Cell(f"{statistics.geometric_mean(ratios):.3f}", more=f"({len(ratios)})") if ratios else Cell()


def exact_sentence(results: Results) -> str:
    """Return how near the best heuristic comes to the best exact method; empty where none does."""
    ratios = []
    for cells in results.cases.values():
        sides: tuple[list[Row], list[Row]] = ([], [])
        for key, row in cells.items():
            sides[_is_exact(results.series[key])].append(row)
        other, exact = map(best_time, sides)
        ratios += [other / exact] if exact and other else []
    if not ratios:
        return ""
    mean, least, most = statistics.geometric_mean(ratios), min(ratios), max(ratios)
    return (
        f"The best other method takes {mean:.3f} times the best exact model's time "
        f"(geometric mean of {counted(len(ratios), 'case')}; {least:.3f} to {most:.3f})."
    )


def summary(results: Results, bytes_: float | None = None) -> PageTable:
    """Return the gap of every method on every network, over all sizes or at one: one table for a paper."""
    cases = [case for case in results.best if bytes_ in (None, case[2])]
    asked = Counter(case[0] for case in cases)
    gaps: dict[tuple[int, str], list[float]] = {}
    for case in cases:
        for key, row in results.cases[case].items():
            if (gap := results.gap(row)) is not None:
                gaps.setdefault((key, case[0]), []).append(gap)
    means = {place: shifted_mean(own) or 0.0 for place, own in gaps.items()}
    least = {name: min((mean for (_, n), mean in means.items() if n == name), default=0.0) for name in asked}

    def cell(key: int, name: str) -> Cell:
        if (key, name) not in means:
            return Cell()
        mean, count = means[key, name], len(gaps[key, name])
        best = "best" if mean <= least[name] + TIE else ""
        return Cell(percent(mean), best, more=f"({count})" if count < asked[name] else "")

    rows = [
        (f"s{one.number}", [Cell(one.label, series=one), *(cell(one.number, name) for name in asked)])
        for one in results.series
        if any((one.number, name) in means for name in asked)
    ]
    heads: list[Said] = []
    for name in asked:
        place, named = _network(results, name)
        told = f"{named.text}, {counted(asked[name], 'case')}"
        heads.append(Cell(told, f"n {place}", name, link=place))
    at = "all sizes" if bytes_ is None else size(bytes_)
    return PageTable.of("summary", rows, heads, name=f"summary-{at.replace(' ', '-')}", sizes=at)


STATUSES = {
    "unsupported": "not defined",
    "infeasible": "no schedule",
    "timeout": "time limit",
    "failed": "failed",
}


def method_table(results: Results, least: LeastTB | None = None) -> PageTable:
    """Return the methods by rank, and how each does over the run."""
    found = ranking(results, least)
    rows = [(f"s{s.series.number}", _standing(place, s)) for place, s in enumerate(found, 1)]
    count = len(common_cases(results)[1])
    told: dict[str, Any] = {"run": results.name, "common": count, "speedup": ""}
    if results.base:
        told["speedup"] = f" Speed-up: the geometric mean of the time of {results.baseline} over its own."
    table = _exactly(PageTable.of("ranking", rows, name="methods", **told))
    return table if results.base else table.without("speed-up")


def _standing(place: int, s: SeriesStanding) -> list[Said]:
    lost = ", ".join(f"{words} {s.counts[status]}" for status, words in STATUSES.items() if s.counts[status])
    where = f"{s.worst[0][0]}, {s.worst[0][1]}, {size(s.worst[0][2])}" if s.worst else ""
    return [
        "" if s.common is None else str(place),
        Cell(s.series.label, series=s.series, link=f"term-{s.series.method}"),
        s.series.kind,
        percent(s.common),
        Cell(f"{len(s.gaps)} of {s.tried}", more=lost),
        str(len(s.won)),
        str(s.optimal),
        "–" if s.tb_optimal is None else str(s.tb_optimal),
        percent(s.median),
        percent(s.worst[1]) if s.worst else "",
        Cell(where, "where"),
        times(s.slower),
        times(s.speedup),
        seconds(sum(s.syntheses)) if s.syntheses else "",
    ]


def solved_programs(results: Results) -> PageTable | None:
    """Return the programs that solvers were given: of several sizes or seeds the longest solve."""
    longest: dict[tuple[str, str, int], Row] = {}
    for row in results.rows:
        key = row.topology, row.collective, results.number[row.method, row.options]
        known = longest.get(key)
        if (row.program or row.variables) and (known is None or (row.solve_s or 0) > (known.solve_s or 0)):
            longest[key] = row
    rows = [
        (
            f"{_where(results, row.case)[0]} s{key}",
            [*_where(results, row.case)[1][:2], *_solved(results.series[key], row)],
        )
        for (_, _, key), row in longest.items()
    ]
    return PageTable.of("programs", rows) if rows else None


def _solved(series: Series, row: Row) -> list[Said]:
    return [
        Cell(series.label, series=series),
        row.program,
        row.solver,
        *("" if count is None else f"{count:,.0f}" for count in (row.variables, row.constraints)),
        seconds(row.build_s if row.variables else None),  # of no model: making the schedule
        seconds(row.solve_s),
        percent(row.solver_gap),
    ]


def predictions(results: Results) -> PageTable | None:
    """Return T_L and T_B of expansions as predicted and as they are, marked where they disagree."""
    lines: dict[tuple[str, ...], tuple[str, list[Said]]] = {}
    for row in results.rows:
        if row.prediction and row.predicted_tl is not None and row.tl_steps is not None and row.tb_text:
            looks, (network, what, _) = _where(results, row.case)
            tb, most = Fraction(row.tb_text), Fraction(row.predicted_tb)
            holds = (
                row.tl_steps == row.predicted_tl,
                tb == most or (row.prediction == "at most" and tb < most),
            )
            said = (number(row.predicted_tl), row.predicted_tb, row.prediction)
            found = zip((number(row.tl_steps), row.tb_text), holds, strict=True)
            marked = [Cell(text, "" if right else "wrong") for text, right in found]
            lines[*row.case[:2], *said, *(cell.text for cell in marked)] = (
                looks,
                [network, what, *said, *marked],
            )
    return PageTable.of("predictions", lines.values()) if lines else None


def nearest(results: Results, collective: str, sizes: Iterable[float] | None = None) -> PageTable:
    """Return the least gap and whose it is, a line a topology and a column a size."""
    every = sorted({row.size_bytes for row in results.rows if row.collective == collective})
    chosen = every if sizes is None else list(sizes)
    rows = []
    for name in results.topologies:
        cases = results.of(name, collective)
        looks, cell = _network(results, name)
        rows.append((looks, [cell, *(_least(results, cases.get(bytes_, {})) for bytes_ in chosen)]))
    heads = [f"{size(bytes_)}#" for bytes_ in chosen]
    return PageTable.of("nearest", rows, heads, name=f"nearest-{collective}", collective=collective)


def _least(results: Results, cells: Mapping[int, Row]) -> Cell:
    """Return the gap of the first of the fastest of a case, its name and what it chose."""
    best = best_time(cells.values())
    found = next(((key, row) for key, row in cells.items() if is_best(row, best)), None)
    if found is None:
        return Cell("–" if cells else "", "none")
    series, gap = results.series[found[0]], results.gap(found[1])
    chosen = f" ({found[1].algorithm})" if found[1].algorithm else ""
    tip = describe(series.label, found[1])
    return Cell(percent(gap) or "?", _shade(gap), tip, more=f"{series.label}{chosen}")


def gap_map(results: Results, collective: str, bytes_: float) -> PageTable:
    """Return the gaps of every method that has a time on every topology."""
    cases = [results.of(topology, collective).get(bytes_, {}) for topology in results.topologies]
    timed = {key for cells in cases for key, row in cells.items() if row.ok}
    lost = [one.label for one in results.series if one.number in set().union(*cases) - timed]
    rows = [
        (
            f"s{one.number}",
            [Cell(one.label, "name", series=one), *(_spot(results, one, cells) for cells in cases)],
        )
        for one in results.series
        if one.number in timed
    ]
    names = [_network(results, name) for name in results.topologies]
    heads = [Cell(cell.text, f"n {place}", cell.tip, link=place) for place, cell in names]
    absent = f" No schedule anywhere: {', '.join(lost)}." if lost else ""
    told = {"collective": collective, "size": size(bytes_), "absent": absent}
    return PageTable.of("map", rows, heads, name=f"map-{collective}-{size(bytes_)}", **told)


def _spot(results: Results, series: Series, cells: Mapping[int, Row]) -> Cell:
    row = cells.get(series.number)
    if row is None or not row.ok:
        sign = "" if row is None else SIGNS.get(row.status, row.status)
        return Cell(sign, "none" if row else "", describe(series.label, row) if row else "")
    gap = results.gap(row)
    best = " best" if is_best(row, results.best.get(row.case)) else ""
    brief = f"{100 * gap / 1000:.0f}k" if gap is not None and gap >= 99.995 else percent(gap) or "?"
    return Cell(brief, _shade(gap) + best, describe(series.label, row))


OVERLAPPED = "tacos"
"""The table of ideals is for runs in which it occurs."""
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
    """Return the efficiencies of all allreduces at their largest size; None where TACOS has none."""
    lines = list(_ideals(results))
    present = sorted({key for *_, cells in lines for key in cells})
    if not any(results.series[key].method == OVERLAPPED for key in present):
        return None
    rows = [(looks, [*named, *(cells.get(key, Cell()) for key in present)]) for looks, named, cells in lines]
    return PageTable.of("ideal", rows, method_heads(results.series[key] for key in present))


def _ideals(results: Results) -> Iterator[tuple[str, list[Said], dict[int, Cell]]]:
    for name in results.topologies:
        cases = results.of(name, Kind.ALLREDUCE)
        timed = [b for b, rows in cases.items() if best_time(rows.values()) is not None]
        network = results.networks[name]
        if not timed or network is None:
            continue
        bytes_ = max(timed)
        ideal = 1e6 * float(ideal_time(network, Fraction(bytes_)))
        row = results.bounds.get((name, Kind.ALLREDUCE.value, bytes_))
        bound = None if row is None else row.bound_us
        looks, cell = _network(results, name)
        published = PUBLISHED.get(name.partition("?")[0], "")
        cells = {
            key: Cell(_share(ideal, row.time_us), more=_share(bound, row.time_us))
            for key, row in cases[bytes_].items()
            if row.ok
        }
        yield looks, [cell, size(bytes_), microseconds(ideal), published, _share(ideal, bound)], cells


def _share(part: float | None, whole: float | None) -> str:
    return f"{100 * part / whole:.1f}" if part and whole else ""
