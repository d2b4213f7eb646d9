"""The report of a study of solvers: one page that needs nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.report.labels import brief_labels
from experiments.report.milp_study import render_mixed
from experiments.report.page import REPORT
from experiments.report.series import Series
from experiments.report.solvers_page import page_values, programs_of
from experiments.report.study_charts import error_chart, profile_chart, scaling_chart
from experiments.report.templating import template
from experiments.report.text import seconds
from experiments.runner.results import read_results, replacing
from experiments.runner.store import MANIFEST
from experiments.study.instances import MODELS
from experiments.study.models import is_mixed
from experiments.study.statistics import (
    SHIFT,
    SIZES,
    TOLERANCE,
    Choice,
    Standing,
    building,
    by_solver,
    charged,
    choices,
    shifted_geometric_mean,
    size_class,
    solved,
    standings,
)
from topologies.errors import InputError

Row = Mapping[str, Any]


def write_study_report(directory: Path) -> Path:
    """Write ``report.html`` into the directory of a study and return its path.

    Raises
    ------
    InputError
        If there are no readable results, or the page can't be written.
    """
    try:
        rows = read_results(directory).to_dict("records")
        manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{directory}: no readable results of a study: {error}") from error
    page = directory / REPORT
    text = render_study([{str(name): value for name, value in row.items()} for row in rows], manifest)
    with replacing(page) as draft:
        draft.write_text(text, encoding="utf-8")
    return page


def render_study(rows: Sequence[Row], manifest: Mapping[str, Any]) -> str:
    """Return the page of a study as HTML."""
    looks = _looks(rows)
    if any(is_mixed(row["model"]) for row in rows):
        return render_mixed(rows, manifest, looks)
    models = list(dict.fromkeys(row["model"] for row in rows))
    of_model = {model: [row for row in rows if row["model"] == model] for model in models}
    known = {model: own for model, own in of_model.items() if any(map(size_class, own))}
    return template("study.html").render(
        **page_values(rows, manifest, looks),
        standings=standings(rows),
        not_run=dict(_not_run(rows)),
        choices=[(choice, advice(choice)) for choice in choices(rows)],
        profiles=[("all models", profile_chart(rows, looks, "all models"))]
        + [(model, profile_chart(own, looks, model)) for model, own in known.items() if len(known) > 1],
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


def _program(row: Row) -> str:
    return f"{row['model']} {row['topology']}"


def _looks(rows: Sequence[Row]) -> dict[str, Series]:
    """Return the series of each solver that ran; the label stands for all its options."""
    own = by_solver(rows)
    brief = brief_labels(list(own))
    return {
        solver: Series(number, solver, str(own[solver][0]["options"] or ""), "", solver, brief=brief[number])
        for number, solver in enumerate(own)
    }


def _not_run(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    for row in rows:
        if row["status"] == "unsupported":
            yield row["method"], row["message"]


def advice(choice: Choice) -> str:
    """Return in one sentence which solver to choose for a model and size, and why, as the data has it."""
    best = choice.lines[0]
    if not best.right:
        return "no solver solved any within the limit"
    names = " or ".join(choice.equals)
    solved_text = f"{best.right} of {best.tried} solved" if best.right < best.tried else "all solved"
    rest = [line for line in choice.lines if line.solver not in choice.equals]
    return f"{names}: {solved_text}, mean {seconds(best.mean_s)}{_compared(best, rest)}"


def _compared(best: Standing, rest: Sequence[Standing]) -> str:
    if not rest:
        return ""
    following = rest[0]
    fewer = f", {following.right} of {following.tried} solved" if following.right < best.right else ""
    return f"; next {following.solver}, {seconds(following.mean_s)}{fewer}"


@dataclass(frozen=True)
class Line:
    """An instance: what it is, and what each solver took.

    Parameters
    ----------
    value
        The certified value, as text.
    cells
        Text, style class and tooltip of each solver.
    """

    model: str
    topology: str
    nonzeros: str
    value: str
    cells: tuple[tuple[str, str, str], ...]


def _lines(rows: Sequence[Row], solvers: Sequence[str]) -> Iterator[Line]:
    for (model, topology), own in programs_of(rows).items():
        sizes = [row["nonzeros"] for row in own if size_class(row)]
        cells = [_cell([row for row in own if row["method"] == solver]) for solver in solvers]
        solved_means = [mean for mean, *_ in cells if mean is not None]
        best = min(solved_means, default=None)
        yield Line(
            model,
            topology,
            f"{sizes[0]:,.0f}" if sizes else "",
            _value(own[0]),
            tuple(
                (text, "best" if mean is not None and mean == best else looks, tip)
                for mean, text, looks, tip in cells
            ),
        )


def _cell(rows: Sequence[Row]) -> tuple[float | None, str, str, str]:
    """Return the mean of a solver on an instance if it solved all seeds, its text, style and tooltip."""
    if not rows:
        return None, "", "none", ""
    tip = "\n".join(_row_tip(row) for row in rows)
    if all(map(solved, rows)):
        mean = shifted_geometric_mean(map(charged, rows))
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
    if lower is None or upper is None or lower != lower or upper != upper:
        return "not certified"
    width = (upper - lower) / abs(upper) if upper else upper - lower
    return f"{upper:.9g} (proven to {width:.0e})"
