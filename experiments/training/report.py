"""The page of a study of training: what papers state beside ours, bars a method, and a Gantt chart a job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt
import pandas as pd

from tutti.experiments.report.charts import COLOUR, OPACITY, Drawn, Figure, named_rows, page_charts, specs_of
from tutti.experiments.report.page import render
from tutti.experiments.report.series import Series
from tutti.experiments.runner.results import read_rows
from tutti.experiments.runner.study import REPORT
from tutti.experiments.training.config import StatedTable, claims
from tutti.topologies.files import written
from tutti.topologies.units import MICRO, duration

PARTS = {"compute": "compute_s", "bubble": "bubble_s", "activations": "activations_s", "weights": "weights_s"}
"""What an iteration is made of, and the columns of it."""
BEST_PARTS = PARTS | {"activations": "optimal_activations_s", "weights": "optimal_weights_s"}
"""The same with optimal collectives."""
BARS, GANTT = "iterations", "timeline"
OPTIMAL = "optimal"


class JobSection(NamedTuple):
    """What the page says of a job."""

    name: str
    about: str
    bars: Figure | None
    rows: list[tuple[str, str, str, str, str]]
    timelines: list[tuple[str, Figure]]
    failed: list[tuple[str, str]]


def write_page(directory: Path, stated: Sequence[StatedTable] = (), page: Path | None = None) -> Path:
    """Write the page of a folder of results, `REPORT` in it without `page`, and return its path.

    Raises
    ------
    InputError
        If the rows can't be read or the page not written.
    """
    rows = read_rows(directory)
    jobs: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        jobs.setdefault(row["job"], []).append(row)
    series = [Series(number, part, "", "", part) for number, part in enumerate(PARTS)]
    text = render(
        "training.html",
        charts=page_charts(specs_of({BARS: _bars(), GANTT: _gantt()}), series),
        name=directory.name,
        claims=claims(rows, stated),
        sections=list(map(_section, jobs.values())),
    )
    return written(page or directory / REPORT, text.encode(), "report")


def _section(rows: Sequence[Mapping[str, Any]]) -> JobSection:
    first = rows[0]
    ok = [row for row in rows if row["status"] == "ok"]
    bars = [bar for row in ok for bar in _stack(row["method"], row, PARTS)]
    if ok:
        bars += _stack(OPTIMAL, min(ok, key=lambda row: row["optimal_s"]), BEST_PARTS)
    about = f"{first['model']}, {first['parallelism']}, {first['ranks']} ranks"
    return JobSection(
        first["job"],
        "; ".join(filter(None, (about, first["networks"], first["note"]))),
        Figure(BARS, f"iteration time of {first['job']} by method", data=pd.DataFrame(bars)) if ok else None,
        list(map(_line, ok)),
        [(row["method"], _timeline(row)) for row in ok],
        [(row["method"], row["message"]) for row in rows if row["status"] != "ok"],
    )


def _stack(name: str, row: Mapping[str, Any], parts: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the bars of a line, one a part."""
    return [
        {"name": name, "method": part, "seconds": row[column], "series": number}
        for number, (part, column) in enumerate(parts.items())
    ]


def _line(row: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    time, optimal = (duration(row[name] * MICRO) for name in ("time_s", "optimal_s"))
    return row["method"], time, f"{row['exposed_s'] / row['time_s']:.1%}", optimal, f"{row['saving']:.1%}"


def _timeline(row: Mapping[str, Any]) -> Figure:
    bars = json.loads(row["timeline"])
    frame = pd.DataFrame(bars, columns=["stream", "method", "what", "start", "end"])
    frame["series"] = frame["method"].map(list(PARTS).index)
    return Figure(GANTT, f"timeline of {row['job']} with {row['method']}", data=frame)


def _bars() -> Drawn:
    bar = named_rows().mark_bar(height=14)
    tips = [alt.Tooltip("name:N", title="method"), alt.Tooltip("method:N", title="part"), "seconds:Q"]
    x = alt.X("seconds:Q", title="seconds of an iteration", stack="zero")
    y, order = alt.Y("name:N", title=None, sort=None), alt.Order("series:Q")
    bars = bar.encode(x, y, COLOUR, order=order, opacity=OPACITY, tooltip=tips)
    return alt.layer(bars).properties(height=alt.Step(22))


def _gantt() -> Drawn:
    bar = named_rows().mark_bar(height=12)
    tips = [alt.Tooltip("what:N"), alt.Tooltip("start:Q"), alt.Tooltip("end:Q")]
    x, y = alt.X("start:Q", title="seconds"), alt.Y("stream:N", title=None, sort=None)
    bars = bar.encode(x, y, COLOUR, x2="end:Q", opacity=OPACITY, tooltip=tips)
    return alt.layer(bars).properties(height=alt.Step(18))
