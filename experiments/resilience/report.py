"""The page of a study of failures: what the best schedule loses, and each method's, as quantiles."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from pathlib import Path

import altair as alt
import pandas as pd

from tutti.experiments.report.charts import (
    COLOUR,
    OPACITY,
    Drawn,
    Figure,
    named_rows,
    page_charts,
    specs_of,
    tips_of,
)
from tutti.experiments.report.page import write_page as write
from tutti.experiments.report.series import Series
from tutti.experiments.report.tables import TEXTS, PageBlock, PageTable, Panel, Section, explained
from tutti.experiments.resilience.study import BEST, HEADS, SHOWN, FailureCase, FailureLosses, losses
from tutti.experiments.runner.results import read_rows
from tutti.experiments.runner.study import REPORT

CHART = "losses"


def write_page(directory: Path, page: Path | None = None) -> Path:
    """Write the page of a folder of results, `REPORT` in it without `page`, and return its path.

    Raises
    ------
    InputError
        If the rows can't be read or the page not written.
    """
    texts = TEXTS["resilience"]
    series = [Series(number, made, "", "", made) for number, made in enumerate(SHOWN)]
    words = Section("What the words are", words=explained(texts["words"]))
    shown = {
        "title": f"Failures, {directory.name}: tutti",
        "heading": f"What failures cost: {directory.name}",
        "lead": texts["lead"],
        "sections": [*map(_section, losses(read_rows(directory))), words],
        "charts": page_charts(specs_of({CHART: chart()}), series),
    }
    return write(shown, page or directory / REPORT)


def _section(case: FailureCase) -> Section:
    """Return what the page says of a case: of the best schedule, then of each method's."""
    groups = groupby(case.lines, attrgetter("method"))
    cut = case.disconnected
    said = [f"{len(cut)} samples cut ranks off, and are not counted: {'; '.join(cut)}."] if cut else []
    return Section(str(case), [_block(case, label, list(lines)) for label, lines in groups], said)


def _block(case: FailureCase, label: str, lines: list[FailureLosses]) -> PageBlock:
    best = label == BEST
    heads = [f"{head}{'#' * (place != 1)}" for place, head in enumerate(HEADS[1:])]
    table = PageTable.of("losses", [("", line.cells[1:]) for line in lines], heads)
    title = TEXTS["resilience"]["best"] if best else label
    data = pd.DataFrame(lines)
    name, place = data.failures.map("{} fail".format), data.made.map(SHOWN.index)
    shares = 100 * data[["low", "median", "high", "worst"]]
    data = shares.assign(name=name, method=data.made, series=place)
    panel = Panel("", "", Figure(CHART, f"loss of {case}, {label}", data=data))
    return PageBlock("losses", title, "", [table], [panel], folded=not best, looks="two")


def chart() -> Drawn:
    """Return bars from the tenth to the ninetieth percentile, with the median and the worst."""
    across = alt.X("low:Q", title="time over that on the whole network, less 1 (%)")
    lane = alt.YOffset("method:N", sort=list(SHOWN))
    base = named_rows().encode(alt.Y("name:N", title=None, sort=None), lane, COLOUR, opacity=OPACITY)
    shares = (f"{column}:Q|{column}|.1f" for column in ("low", "median", "high", "worst"))
    tips = tips_of("method:N|made", "name:N|links or adapters", *shares)
    return alt.layer(
        base.mark_rule(strokeWidth=1).encode(across, x2="worst:Q"),
        base.mark_bar(height=6, opacity=0.55).encode(across, x2="high:Q", tooltip=tips),
        base.mark_tick(thickness=3, height=11).encode(x="median:Q", tooltip=tips),
        base.mark_point(filled=True, size=22).encode(x="worst:Q", tooltip=tips),
    ).properties(height=alt.Step(14))
