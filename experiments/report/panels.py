"""The charts of a collective: algbw against size, T_L against T_B, synthesis time against gap.

A collective that ran at one size has bars instead, a bar a method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from markupsafe import Markup

from tutti.experiments.report.charts import Figure
from tutti.experiments.report.results import Results, Row
from tutti.experiments.report.rows import frontier
from tutti.schedules.schedule import Clock


@dataclass(frozen=True)
class Panel:
    """A chart, and what is to be said of it or instead of it.

    Parameters
    ----------
    collective
        What it shows.
    number
        The place of the collective in the run, which the page's filter goes by.
    lines
        Which lines it has that the section explains: ``frontier``, ``least``.
    """

    collective: str
    number: int
    chart: Markup | Figure | None
    note: str = ""
    lines: frozenset[str] = frozenset()


def _figure(name: str, told: str, topology: str, collective: str, **where: object) -> Figure:
    """Return a chart over the rows of a topology and collective."""
    case = {"topology": topology, "collective": collective}
    return Figure(name, f"{told}, {topology}, {collective}", case | where)


def _timed(results: Results, topology: str, collective: str) -> list[Row]:
    return [row for cells in results.of(topology, collective).values() for row in cells.values() if row.ok]


def algbw_panel(results: Results, topology: str, collective: str) -> Panel:
    """Return algbw, or another measure, against size: a line a series and the limit; bars for one size."""
    number = results.collectives.index(collective)
    if not any(row.algbw_gbps for row in _timed(results, topology, collective)):
        return Panel(collective, number, None, "No method has a time.")
    one_size = len(results.of(topology, collective)) == 1
    name, told = ("bars algbw", "algbw") if one_size else ("algbw", "algbw against size")
    return Panel(collective, number, _figure(name, told, topology, collective))


def pareto_panel(results: Results, topology: str, collective: str, least: Fraction | None) -> Panel:
    """Return T_B against T_L of the step schedules, with the frontier and the least T_B there can be."""
    number = results.collectives.index(collective)
    rows = _timed(results, topology, collective)
    points = {(r.tl_steps, r.tb_factor) for r in rows if r.tl_steps is not None and r.tb_factor is not None}
    without = _left_out(results, rows)
    if not points:
        return Panel(collective, number, None, f"No step schedule with a T_B. {without}".strip())
    lines = {"frontier": len(list(frontier(points))) > 1, "least": least is not None}
    drawn = frozenset(name for name, there in lines.items() if there)
    figure = _figure("pareto", "T_B against T_L", topology, collective, step_point=1)
    return Panel(collective, number, figure, without, drawn)


def _no_steps(row: Row) -> str:
    stepped = row.clock == Clock.STEP and row.tb_factor is not None
    return "steps overlap" if stepped else f"{row.clock} clock: no steps"


def _left_out(results: Results, rows: Sequence[Row]) -> str:
    """Return a sentence on the series that have a time but no T_L or T_B, and why; empty without any."""
    reasons: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.clock and (row.tl_steps is None or row.tb_factor is None):
            reason = "no T_B: links differ" if row.tl_steps is not None else _no_steps(row)
            label = results.series[results.number[row.method, row.options]].label
            reasons.setdefault(reason, {})[label] = None
    texts = [f"{', '.join(labels)} ({reason})" for reason, labels in reasons.items()]
    return f"Left out: {'; '.join(texts)}." if texts else ""


def effort_panel(results: Results, topology: str, collective: str) -> Panel:
    """Return the gap against the synthesis time: a point a series, a line over its sizes."""
    number = results.collectives.index(collective)
    rows = _timed(results, topology, collective)
    if not any(row.synth_s is not None and row.gap is not None for row in rows):
        return Panel(collective, number, None, "No method has both a synthesis time and a gap.")
    figure = _figure("effort", "gap against synthesis time", topology, collective)
    return Panel(collective, number, figure)
