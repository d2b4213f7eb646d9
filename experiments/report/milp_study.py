"""The report of a study of mixed-integer programs: one page that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from markupsafe import Markup

from experiments.report.milp_charts import integral_chart, trace_chart
from experiments.report.series import Series
from experiments.report.solvers_page import page_values, programs_of
from experiments.report.study_charts import profile_chart
from experiments.report.templating import template
from experiments.report.text import number, seconds
from experiments.study.milp_models import MIXED
from experiments.study.milp_statistics import best_known, gap_left, is_mixed_row, missing, mixed_standings
from experiments.study.statistics import MIXED_SHIFT, NOT_RUN, solved, taken
from experiments.study.tasks import MIXED_TOLERANCE

Row = Mapping[str, Any]

SOON = 0.5
"""Seconds: a program that every solver solves sooner has no chart of its course."""


def render_mixed(rows: Sequence[Row], manifest: Mapping[str, Any], looks: Mapping[str, Series]) -> str:
    """Return the page of a study of mixed-integer programs as HTML."""
    ran = [row for row in rows if row["status"] != NOT_RUN]
    families = {family: [row for row in ran if _family(row) == family] for family in map(_family, ran)}
    programs = programs_of(rows)
    tried = [row for row in ran if is_mixed_row(row)]
    return template("milp.html").render(
        **page_values(rows, manifest, looks),
        standings=mixed_standings(ran),
        families=[(family, len(programs_of(own)), mixed_standings(own)) for family, own in families.items()],
        summaries={family: MIXED[family].summary for family in families if family in MIXED},
        not_run=sorted({(row["method"], row["message"]) for row in rows if row["status"] == NOT_RUN}),
        profiles=[
            ("time to proven optimality", profile_chart(rows, looks, "all models")),
            ("primal integral", integral_chart(ran, looks)),
        ],
        courses=list(_courses(programs, looks)),
        soon=SOON,
        table=[_line(own, list(looks)) for own in programs.values()],
        shift=MIXED_SHIFT,
        tolerance=MIXED_TOLERANCE,
        share=median(row["cpu_s"] / row["solve_s"] for row in tried if not missing(row.get("cpu_s")))
        if tried
        else 1,
        clock=str(dict(manifest.get("settings", {})).get("clock", "wall")),
    )


def _family(row: Row) -> str:
    return str(row["model"]).partition(" ")[0]


def _courses(
    programs: Mapping[tuple[str, str], Sequence[Row]], looks: Mapping[str, Series]
) -> Iterator[tuple[str, Markup]]:
    """Yield title and chart of each program that took some solver a while."""
    for (model, topology), own in programs.items():
        tried = [row for row in own if is_mixed_row(row) and row["seed"] == own[0]["seed"]]
        if any(not solved(row) or taken(row) >= SOON for row in tried):
            chart = trace_chart(tried, looks, f"incumbents and bounds over time, {model} {topology}")
            if chart:
                yield f"{model}, {topology}", chart


@dataclass(frozen=True)
class MixedLine:
    """A program: what it is, its best known value, and what each solver made of it.

    Parameters
    ----------
    cells
        Text, style class and tooltip of each solver.
    """

    model: str
    topology: str
    columns: str
    best: str
    cells: tuple[tuple[str, str, str], ...]


def _line(rows: Sequence[Row], solvers: Sequence[str]) -> MixedLine:
    tried = [row for row in rows if is_mixed_row(row)]
    best = next((value for row in tried if (value := best_known(row)) is not None), None)
    size = f"{tried[0]['integers']:,.0f} of {tried[0]['variables']:,.0f}" if tried else ""
    cells = [_cell([row for row in rows if row["method"] == solver]) for solver in solvers]
    return MixedLine(
        rows[0]["model"], rows[0]["topology"], size, "" if best is None else number(best, 6), tuple(cells)
    )


def _cell(rows: Sequence[Row]) -> tuple[str, str, str]:
    if not rows:
        return "", "none", ""
    tip = "\n".join(_tip(row) for row in rows)
    if any(row.get("answer") == "wrong" for row in rows):
        return "wrong", "wrong", tip
    if all(map(solved, rows)):
        return seconds(sum(map(taken, rows)) / len(rows)), "", tip
    row = next(row for row in rows if not solved(row))
    if missing(row.get("objective")):
        return "–" if is_mixed_row(row) else str(row["status"]), "none", tip
    left = "grid" if row["status"] == "grid" else f"{100 * gap_left(row):.3g} %"
    return f"{number(float(row['objective']), 6)}, {left}", "none", tip


def _tip(row: Row) -> str:
    parts = [f"seed {row['seed']}: {row['status']}"]
    parts += [
        f"{key} {row[key]:.9g}"
        for key in ("objective", "bound", "primal_integral")
        if not missing(row.get(key))
    ]
    if row.get("message"):
        parts.append(str(row["message"]))
    return ", ".join(parts)
