"""The report of a study of solvers: one page that needs nothing else, for linear and for MILP studies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tutti.experiments.report.charts import Figure
from tutti.experiments.report.page import manifest_lines, palette, scripts, source, swatch
from tutti.experiments.report.series import Series
from tutti.experiments.report.standings import shifted_geometric_mean
from tutti.experiments.report.tables import TEMPLATES
from tutti.experiments.report.text import number, seconds
from tutti.experiments.runner.manifest import MANIFEST
from tutti.experiments.runner.results import read_rows
from tutti.experiments.runner.study import REPORT
from tutti.experiments.show.svg import templates
from tutti.experiments.solver_study.charts import (
    error_chart,
    integral_chart,
    profile_chart,
    scaling_chart,
    study_charts,
    trace_chart,
)
from tutti.experiments.solver_study.comparison import (
    RULES,
    TextTable,
    difference_grid,
    measure_grid,
    outcome_grid,
    win_grid,
)
from tutti.experiments.solver_study.instances import MODELS
from tutti.experiments.solver_study.milp_instances import MIXED, is_mixed
from tutti.experiments.solver_study.milp_statistics import best_known, gap_left, is_mixed_row, mixed_standings
from tutti.experiments.solver_study.statistics import (
    MIXED_SHIFT,
    MIXED_TOLERANCE,
    NOT_RUN,
    SHIFT,
    SIZES,
    TOLERANCE,
    SolverChoice,
    building,
    by_solver,
    charged,
    choices,
    comparable,
    disagreements,
    grouped,
    instance_of,
    missing,
    not_run,
    problems_of,
    profile,
    size_class,
    solved,
    standings,
    taken,
)
from tutti.topologies.errors import InputError
from tutti.topologies.files import read_text, written

Row = Mapping[str, Any]
OWN_TEMPLATES = Path(__file__).parent / "templates"


def render(name: str, /, **shown: Any) -> str:
    """Return a page by a template of studies, with the style and the scripts of all pages."""
    style = source("report.css") + palette()
    page = templates(OWN_TEMPLATES, TEMPLATES).get_template(name)
    return page.render(shown, style=style, scripts=scripts())


def comparisons(rows: Sequence[Row]) -> list[tuple[str, str, list[TextTable]]]:
    """Return for each group of solvers that ran the same problems a title, who they are, and tables."""
    found = []
    for group in comparable(rows):
        solvers = list(by_solver(group))
        if len(solvers) > 1:
            programs = len(set(map(instance_of, group)))
            title = f"{problems_of(group)} problems of {programs} programs, {len(solvers)} solvers"
            grids = [measure_grid(group), difference_grid(group), win_grid(group)]
            found.append((title, ", ".join(solvers), [grid for grid in grids if grid.lines]))
    return found


def page_values(
    rows: Sequence[Row], manifest: Mapping[str, Any], looks: Mapping[str, Series]
) -> dict[str, Any]:
    """Return what the template asks for of any study."""
    every = comparable(rows)[0]
    return {
        "charts": study_charts(list(looks.values())),
        "name": str(manifest.get("name", "study")),
        "instances": len(set(map(instance_of, rows))),
        "seeds": sorted({int(row["seed"]) for row in rows}),
        "threads": sorted({int(row.get("threads") or 1) for row in rows}),
        "limit": seconds(max((float(row["limit_s"]) for row in rows), default=0.0)),
        "problems": problems_of(rows),
        "looks": looks,
        "swatch": swatch,
        "fastest": {solver: sum(r <= 1.0 for r in own) for solver, own in profile(every).items()},
        "comparisons": comparisons(rows),
        "outcomes": outcome_grid(rows),
        "rules": RULES,
        "not_run": not_run(rows),
        "wrong": [row for row in rows if row.get("answer") == "wrong"],
        "failed": [row for row in rows if row["status"] == "failed"],
        "pairs": disagreements(rows),
        "seconds": seconds,
        "manifest": list(manifest_lines(manifest)),
    }


def write_study_report(directory: Path, page: Path | None = None) -> Path:
    """Write the page of a folder of results, `REPORT` in it without `page`, and return its path.

    Raises
    ------
    InputError
        If there are no readable results, or the page can't be written.
    """
    try:
        rows = read_rows(directory)
        manifest = json.loads(read_text(directory / MANIFEST))
    except (InputError, ValueError) as error:
        raise InputError(f"{directory}: no readable results of a study: {error}") from error
    return written(page or directory / REPORT, render_study(rows, manifest).encode(), "report")


def render_study(rows: Sequence[Row], manifest: Mapping[str, Any]) -> str:
    """Return the page of a study as HTML."""
    looks = _looks(rows)
    if any(is_mixed(row["model"]) for row in rows):
        return render_mixed(rows, manifest, looks)
    models = list(dict.fromkeys(row["model"] for row in rows))
    of_model = {model: [row for row in rows if row["model"] == model] for model in models}
    known = {model: own for model, own in of_model.items() if any(map(size_class, own))}
    every = comparable(rows)[0]
    return render(
        "study.html",
        **page_values(rows, manifest, looks),
        standings=standings(rows),
        choices=[(choice, advice(choice)) for choice in choices(rows)],
        profiles=[("all models", profile_chart(every, looks, "all models"))]
        + [
            (model, profile_chart(comparable(own)[0], looks, model))
            for model, own in known.items()
            if len(known) > 1
        ],
        scaling=[(model, scaling_chart(own, looks, model)) for model, own in known.items()],
        errors=error_chart(rows, looks),
        unproven=sorted(
            {f"{row['model']} {row['topology']}" for row in rows if row.get("answer") == "unproven"}
        ),
        table=list(_lines(rows, list(by_solver(rows)))),
        building=building(rows),
        models={model: MODELS[model].summary for model in models if model in MODELS},
        sizes=SIZES,
        shift=SHIFT,
        tolerance=TOLERANCE,
    )


def _looks(rows: Sequence[Row]) -> dict[str, Series]:
    """Return the series of each solver that ran; the label stands for all its options."""
    own = by_solver(rows)
    return {
        solver: Series(number, solver, str(own[solver][0]["options"] or ""), "", solver)
        for number, solver in enumerate(own)
    }


def advice(choice: SolverChoice) -> str:
    """Return in one sentence which solver to choose for a model and size, and why, as the data has it."""
    best = choice.lines[0]
    if not best.right:
        return "no solver solved any within the limit"
    names = " or ".join(choice.equals)
    solved_text = f"{best.right} of {best.tried} solved" if best.right < best.tried else "all solved"
    text = f"{names}: {solved_text}, mean {seconds(best.mean_s)}"
    after = next((line for line in choice.lines if line.solver not in choice.equals), None)
    if after is None:
        return text
    fewer = f", {after.right} of {after.tried} solved" if after.right < best.right else ""
    return f"{text}; next {after.solver}, {seconds(after.mean_s)}{fewer}"


class InstanceRow(NamedTuple):
    """A program: what it is, and what each solver made of it."""

    model: str
    topology: str
    size: str
    """Nonzeros, or whole columns of all columns."""
    value: str
    """The certified value, or the best known one."""
    cells: tuple[tuple[str, str, str], ...]
    """Text, style class and tooltip of each solver."""


def _lines(rows: Sequence[Row], solvers: Sequence[str]) -> Iterator[InstanceRow]:
    for (model, topology), own in grouped(rows, instance_of).items():
        sizes = [row["nonzeros"] for row in own if size_class(row)]
        cells = [_cell([row for row in own if row["method"] == solver]) for solver in solvers]
        best = min((mean for mean, *_ in cells if mean is not None), default=None)
        marked = tuple(
            (text, "best" if mean is not None and mean == best else looks, tip)
            for mean, text, looks, tip in cells
        )
        yield InstanceRow(model, topology, f"{sizes[0]:,.0f}" if sizes else "", _value(own[0]), marked)


def _cell(rows: Sequence[Row]) -> tuple[float | None, str, str, str]:
    """Return the mean of a solver on an instance if it solved all seeds, its text, style and tooltip."""
    if not rows:
        return None, "", "none", ""
    tip = "\n".join(_row_tip(row) for row in rows)
    if all(map(solved, rows)):
        mean = shifted_geometric_mean(map(charged, rows), SHIFT)
        return mean, seconds(mean), "", tip
    if any(row.get("answer") == "wrong" for row in rows):
        return None, "wrong", "wrong", tip
    word = next(str(row["status"]) for row in rows if not solved(row))
    return None, "limit" if word == "timeout" else word, "none", tip


def _row_tip(row: Row) -> str:
    text = f"seed {row['seed']}: {row['status']}"
    if solved(row) or row.get("answer") == "wrong":
        text += f", {seconds(float(row['solve_s']))}, objective {row['objective']:.9g}"
    if row.get("message"):
        text += f", {row['message']}"
    return text


def _value(row: Row) -> str:
    if row.get("certified_exact"):
        return str(row["certified_exact"])
    lower, upper = row.get("certified_lower"), row.get("certified_upper")
    if lower is None or upper is None or missing(lower) or missing(upper):
        return "not certified"
    width = (upper - lower) / abs(upper) if upper else upper - lower
    return f"{upper:.9g} (proven to {width:.0e})"


SOON = 0.5
"""Seconds: a program that every solver solves sooner has no chart of its course."""


def render_mixed(rows: Sequence[Row], manifest: Mapping[str, Any], looks: Mapping[str, Series]) -> str:
    """Return the page of a study of mixed-integer programs as HTML."""
    ran, every = [row for row in rows if row["status"] != NOT_RUN], comparable(rows)[0]
    families = {family: [row for row in ran if _family(row) == family] for family in map(_family, ran)}
    programs = grouped(rows, instance_of)
    tried = [row for row in ran if is_mixed_row(row)]
    return render(
        "milp.html",
        **page_values(rows, manifest, looks),
        standings=mixed_standings(ran),
        families=[
            (family, len(set(map(instance_of, group))), mixed_standings(group))
            for family, own in families.items()
            for group in comparable(own)
        ],
        summaries={family: MIXED[family].summary for family in families if family in MIXED},
        profiles=[
            ("time to proven optimality", profile_chart(every, looks, "all models")),
            ("primal integral", integral_chart(every, looks)),
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
) -> Iterator[tuple[str, Figure]]:
    """Yield title and chart of each program that took some solver a while."""
    for (model, topology), own in programs.items():
        tried = [row for row in own if is_mixed_row(row) and row["seed"] == own[0]["seed"]]
        if any(not solved(row) or taken(row) >= SOON for row in tried):
            chart = trace_chart(tried, looks, f"incumbents and bounds over time, {model} {topology}")
            if chart is not None:
                yield f"{model}, {topology}", chart


def _line(rows: Sequence[Row], solvers: Sequence[str]) -> InstanceRow:
    tried = [row for row in rows if is_mixed_row(row)]
    best = next((value for row in tried if (value := best_known(row)) is not None), None)
    size = f"{tried[0]['integers']:,.0f} of {tried[0]['variables']:,.0f}" if tried else ""
    cells = [_milp_cell([row for row in rows if row["method"] == solver]) for solver in solvers]
    known = "" if best is None else number(best, 6)
    return InstanceRow(rows[0]["model"], rows[0]["topology"], size, known, tuple(cells))


def _milp_cell(rows: Sequence[Row]) -> tuple[str, str, str]:
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
