"""The charts of a report as files: vector graphics and pictures for papers and talks, by vl-convert."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from tutti.experiments.report.charts import ROWS, Figure, Spec
from tutti.topologies.errors import InputError, installing
from tutti.topologies.files import written

FORMATS = ("svg", "pdf", "png")
MISSING = f"figures need vl-convert-python: {installing('figures')}"


class Paper(NamedTuple):
    """The measures of a figure for a paper; lengths are in points."""

    column: int
    """Width of a column."""
    page: int
    """Width of both columns."""
    height: int
    """Height of a figure."""
    font: int
    """Size of letters, as captions have."""
    density: int
    """Dots per inch of a PNG."""


PAPER = Paper(column=250, page=520, height=150, font=8, density=300)


def write_figures(
    shown: Mapping[str, Any], figures: Iterable[Figure], folder: Path, suffix: str
) -> list[Path]:
    """Write figures, each under its number and description, and return their paths.

    Parameters
    ----------
    shown
        The contents of the page (`page.contents`).
    figures
        Of the page (`page.figures_of`).
    folder
        Is made where it is not there.
    suffix
        One of `FORMATS`.

    Raises
    ------
    InputError
        If the format is unknown, a file can't be written, or vl-convert is not installed.
    """
    check_formats([suffix])
    paths = []
    for number, figure in enumerate(figures, 1):
        name = re.sub(r"[^A-Za-z0-9.-]+", "_", figure.description).strip("_")[:120]
        path = folder / f"{number:03}_{name}.{suffix}"
        drawn = converted(for_paper(figure, shown["charts"], shown["rows"]), suffix)
        paths.append(written(path, drawn, "figure"))
    return paths


def check_formats(formats: Iterable[str]) -> None:
    """Raise InputError for one that is unknown."""
    for suffix in formats:
        if suffix not in FORMATS:
            raise InputError(f"--format {suffix}: a figure is one of {', '.join(FORMATS)}")


def converted(spec: Spec, suffix: str) -> bytes:
    """Return a chart as the bytes of a file."""
    try:
        import vl_convert
    except ModuleNotFoundError as error:
        raise InputError(MISSING) from error
    if suffix == "svg":
        return vl_convert.vegalite_to_svg(spec).encode()
    if suffix == "pdf":
        return vl_convert.vegalite_to_pdf(spec)
    return vl_convert.vegalite_to_png(spec, ppi=PAPER.density)


def for_paper(figure: Figure, charts: Mapping[str, Any], rows: pd.DataFrame) -> Spec:
    """Return the whole spec of a figure, its rows in it, in the size that a paper has room for."""
    spec: Spec = copy.deepcopy(charts["specs"][figure.chart])
    data = rows if figure.data is None else figure.data
    for name, value in figure.where.items():
        data = data[data[name] == value]
    spec["datasets"] = {ROWS: json.loads(data.to_json(orient="records"))}
    spec["description"] = figure.description
    spec["config"] = _small(charts["theme"])
    present = set(data["method"]) if "method" in data else set()
    for param in spec["params"]:
        if param["name"] == "present":
            param["value"] = [label for label in param["value"] if label in present]
    if "facet" in spec:
        panels = data["panel"].nunique()
        columns = next((count for count in (panels, 4, 3, 2) if count <= 4 and panels % count == 0), 4)
        spec["columns"] = spec["config"]["legend"]["columns"] = columns
        spec["spec"] |= {"width": PAPER.page / columns - 30, "height": PAPER.height / 2}
    else:
        spec["width"] = PAPER.page - 150 if figure.chart == "heat" else PAPER.column - 50
        if isinstance(spec.get("height"), int):
            spec["height"] = PAPER.height
    return spec


def _small(theme: Mapping[str, Any]) -> Spec:
    """Return the theme with the fonts of a paper."""
    small = {"labelFontSize": PAPER.font - 1, "titleFontSize": PAPER.font}
    parts = {part: {**theme[part], **small} for part in ("axis", "header", "legend")}
    parts["legend"] |= {"columns": 2, "columnPadding": 10, "symbolSize": 40}
    return {**theme, **parts, "text": {**theme["text"], "fontSize": PAPER.font - 1}}
