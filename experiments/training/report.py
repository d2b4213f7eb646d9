"""The page of a study of training: what papers state beside ours, bars a method, and a Gantt chart a job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from tutti.experiments.report.charts import COLOUR, OPACITY, Drawn, Figure, named_rows, page_charts, specs_of
from tutti.experiments.report.results import Series
from tutti.experiments.report.tables import (
    TEXTS,
    PageBlock,
    PageTable,
    Panel,
    Said,
    Section,
    block,
    explained,
)
from tutti.experiments.runner.judge import grouped
from tutti.experiments.runner.results import read_rows
from tutti.experiments.training.study import Claim, claims, stated_in
from tutti.topologies.units import MICRO, duration

PARTS = {"compute": "compute_s", "bubble": "bubble_s", "activations": "activations_s", "weights": "weights_s"}
"""The parts of an iteration, and their columns."""
BEST_PARTS = PARTS | {"activations": "optimal_activations_s", "weights": "optimal_weights_s"}
"""The same with optimal collectives."""
BARS, GANTT = "iterations", "timeline"
OPTIMAL = "optimal"


def contents(directory: Path) -> dict[str, Any]:
    """Return the contents of the page of a folder of results, with the papers' numbers in its config.

    Raises
    ------
    InputError
        If the rows can't be read.
    """
    rows, texts = read_rows(directory), TEXTS["training"]
    stated = [("", [*one.cells, one.stated.note]) for one in claims(rows, stated_in(directory))]
    heads = [*(f"{head}{'#' * (place > 1)}" for place, head in enumerate(Claim.HEADS)), "note"]
    series = [Series(number, part, "", "", part) for number, part in enumerate(PARTS)]
    return {
        "title": f"Training, {directory.name}: tutti",
        "heading": f"What collectives are worth in training: {directory.name}",
        "lead": texts["lead"],
        "sections": [
            *([Section("", block("claims", PageTable.of("claims", stated, heads)))] if stated else []),
            *map(_section, grouped(rows, itemgetter("job")).values()),
            Section("What the parts are", words=explained(texts["words"])),
        ],
        "charts": page_charts(specs_of({BARS: _bars(), GANTT: _gantt()}), series),
    }


def _section(rows: Sequence[Mapping[str, Any]]) -> Section:
    """Return what the page says of a job: bars a method, a table, and what runs when."""
    first, ok = rows[0], [row for row in rows if row["status"] == "ok"]
    about = f"{first['model']}, {first['parallelism']}, {first['ranks']} ranks"
    said = ["; ".join(filter(None, (about, first["networks"], first["note"])))]
    said += [f"{row['method']}: {row['message']}" for row in rows if row["status"] != "ok"]
    if not ok:
        return Section(first["job"], lead=said)
    bars = [bar for row in ok for bar in _stack(row["method"], row, PARTS)]
    bars += _stack(OPTIMAL, min(ok, key=lambda row: row["optimal_s"]), BEST_PARTS)
    figure = Figure(BARS, f"iteration time of {first['job']} by method", data=pd.DataFrame(bars))
    lines: list[tuple[str, list[Said]]] = []
    for row in ok:
        time, optimal = (duration(row[name] * MICRO) for name in ("time_s", "optimal_s"))
        exposed, saving = f"{row['exposed_s'] / row['time_s']:.1%}", f"{row['saving']:.1%}"
        lines.append(("", [row["method"], time, exposed, optimal, saving]))
    table = PageTable.of("jobs", lines, job=first["job"])
    blocks = [*block("job", Panel(TEXTS["training"]["bars"], "", figure), table, looks="two")]
    for row in ok:
        title = f"What runs when, {row['method']}"
        blocks.append(PageBlock("", title, "", (), [Panel("", "", _timeline(row))], folded=True, looks="two"))
    return Section(first["job"], blocks, said)


def _stack(name: str, row: Mapping[str, Any], parts: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the bars of a line, one a part."""
    return [
        {"name": name, "method": part, "seconds": row[column], "series": number}
        for number, (part, column) in enumerate(parts.items())
    ]


def _timeline(row: Mapping[str, Any]) -> Figure:
    frame = pd.DataFrame(json.loads(row["timeline"]), columns=["stream", "method", "what", "start", "end"])
    frame["series"] = frame["method"].map(list(PARTS).index)
    return Figure(GANTT, f"timeline of {row['job']} with {row['method']}", data=frame)


def _bars() -> Drawn:
    tips = [alt.Tooltip("name:N", title="method"), alt.Tooltip("method:N", title="part"), "seconds:Q"]
    x = alt.X("seconds:Q", title="seconds of an iteration", stack="zero")
    y, order = alt.Y("name:N", title=None, sort=None), alt.Order("series:Q")
    bars = named_rows().mark_bar(height=14).encode(x, y, COLOUR, order=order, opacity=OPACITY, tooltip=tips)
    return alt.layer(bars).properties(height=alt.Step(22))


def _gantt() -> Drawn:
    tips = [alt.Tooltip("what:N"), alt.Tooltip("start:Q"), alt.Tooltip("end:Q")]
    x, y = alt.X("start:Q", title="seconds"), alt.Y("stream:N", title=None, sort=None)
    bars = named_rows().mark_bar(height=12).encode(x, y, COLOUR, x2="end:Q", opacity=OPACITY, tooltip=tips)
    return alt.layer(bars).properties(height=alt.Step(18))
