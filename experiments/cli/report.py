"""``tutti report``: the page of finished runs, their charts as files and their tables for LaTeX.

Charts become pictures by vl-convert, in the size that a paper has room for.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd

from tutti.experiments.cli.commands import ReportCommand
from tutti.experiments.growth.study import command_of
from tutti.experiments.printable import say
from tutti.experiments.report.charts import ROWS, Figure, Spec
from tutti.experiments.report.comparisons import (
    CELLS,
    case_table,
    gap_parts,
    method_table,
    over_exact,
    summary,
)
from tutti.experiments.report.page import contents, figures_of, tables_of, write_page
from tutti.experiments.report.results import LOOKS, Results, read_results
from tutti.experiments.report.seeds import seed_table, seeds
from tutti.experiments.report.tables import PageTable, latex, size
from tutti.experiments.runner.config import KINDS, REPORT, kind_of
from tutti.experiments.runner.results import column_names, config_tables
from tutti.topologies.errors import InputError, installing
from tutti.topologies.files import check_folder, written


def do_report(arguments: ReportCommand) -> None:
    """Write what is asked for, and say where it is."""
    formats = list(dict.fromkeys(("svg" if arguments.format is None else arguments.format).split(",")))
    check_formats(formats)
    if arguments.format is not None and arguments.figures is None:
        raise InputError(f"--format {arguments.format}: of figures; give --figures DIR too")
    _check_folders(arguments)
    first, *others = arguments.runs
    kind, *_ = (_kind(arguments, directory) for directory in arguments.runs)
    results = read_results(*arguments.runs, baseline=arguments.baseline) if kind == "schedules" else None
    shown = KINDS[kind].contents(first) if results is None else contents(results)
    page = arguments.output or (Path(REPORT) if others else first / REPORT)
    say(f"report: {write_page(shown, page)}")
    if arguments.latex is not None:
        tables = tables_of(shown) if results is None else paper_tables(results)
        say(f"tables: {len(write_tables(tables, arguments.latex))} in {arguments.latex}")
    if arguments.figures is not None:
        folder, charts = choice(arguments.figures, page.parent / "figures")
        figures = [figure for figure in figures_of(shown) if results is None or figure.chart in charts]
        for suffix in formats:
            write_figures(shown, figures, folder, suffix)
        say(f"figures: {len(figures)} as {','.join(formats)} in {folder}")


def _check_folders(arguments: ReportCommand) -> None:
    """Refuse folders that can't be written in, before anything is read or drawn."""
    figures = arguments.figures and choice(arguments.figures, Path())[0]
    asked = {"--figures": figures, "--latex": arguments.latex}
    for option, folder in asked.items():
        if folder is not None and folder.exists() and not folder.is_dir():
            raise InputError(f"{option} {folder}: not a folder")
    for folder in filter(None, [*asked.values(), arguments.output and arguments.output.parent]):
        check_folder(folder)


def _kind(arguments: ReportCommand, directory: Path) -> str:
    """Return the kind of study that made a folder, as its config says.

    Raises
    ------
    InputError
        If the folder has only frontiers of networks, or if a study that is not of methods is to be joined
        with others or compared with a baseline.
    """
    if (find := command_of(directory)) is not None:
        raise InputError(f"{directory}: frontiers of networks, no runs; {find} -o {directory} draws them")
    kind = kind_of(config_tables(directory) or dict.fromkeys(column_names(directory)))
    chosen = arguments.figures is not None and choice(arguments.figures, Path())[0] != arguments.figures
    given = {"--baseline": arguments.baseline, "several folders": arguments.runs[1:], "chosen charts": chosen}
    if kind != "schedules" and any(given.values()):
        raise InputError(f"{directory}: {next(filter(given.get, given))}: for studies of methods, not {kind}")
    return kind


FORMATS = ("svg", "pdf", "png")
GROUPS = {name: frozenset(charts) for name, charts in LOOKS["groups"].items()}
"""The groups of charts that ``--figures`` can choose, by the names of their specs."""
MISSING = f"figures need vl-convert-python: {installing('figures')}"


PAPER = SimpleNamespace(**LOOKS["paper"])
"""The measures of a figure for a paper."""


def write_figures(
    shown: Mapping[str, Any], figures: Iterable[Figure], folder: Path, suffix: str
) -> list[Path]:
    """Write figures, each under its number and description, and return their paths.

    Parameters
    ----------
    shown
        The contents of the page (`page.contents`).
    figures
        The charts of the page (`page.figures_of`).
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
        drawn = converted(for_paper(figure, shown["charts"], shown.get("rows")), suffix)
        paths.append(written(folder / f"{number:03}_{name}.{suffix}", drawn, "figure"))
    return paths


def check_formats(formats: Iterable[str]) -> None:
    """Raise InputError for one that is unknown."""
    if unknown := [suffix for suffix in formats if suffix not in FORMATS]:
        raise InputError(f"--format '{unknown[0]}': a figure is one of {', '.join(FORMATS)}")


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
    theme, small = charts["theme"], {"labelFontSize": PAPER.font - 1, "titleFontSize": PAPER.font}
    parts = {part: {**theme[part], **small} for part in ("axis", "header", "legend")}
    parts["legend"] |= {"columns": 2, "columnPadding": 10, "symbolSize": 40}
    spec["config"] = {**theme, **parts, "text": {**theme["text"], "fontSize": PAPER.font - 1}}
    present = set(data["method"]) if "method" in data else set()
    shown, _ = spec["params"]
    shown["value"] = [label for label in shown["value"] if label in present]
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


def choice(asked: Path, default: Path) -> tuple[Path, frozenset[str]]:
    """Return the folder that ``--figures`` names, and the charts that it chooses: all, or some of `GROUPS`.

    Parameters
    ----------
    asked
        A folder, some groups (``bandwidth,gaps``), or some groups in a folder (``paper/bandwidth,gaps``).
    default
        The folder where it names none.
    """
    words = asked.name.split(",")
    if asked.is_dir() or not GROUPS.keys() & words:
        return asked, frozenset().union(*GROUPS.values())
    if unknown := [word for word in words if word not in GROUPS]:
        raise InputError(f"--figures {asked}: unknown charts '{unknown[0]}'; allowed: {', '.join(GROUPS)}")
    folder = default if len(asked.parts) == 1 else asked.parent
    return folder, frozenset().union(*(GROUPS[word] for word in words))


def write_tables(tables: Mapping[str, PageTable], folder: Path) -> list[Path]:
    """Write tables for LaTeX, each in a file of its name, and return their paths.

    Raises
    ------
    InputError
        If a file can't be written.
    """
    return [written(folder / f"{name}.tex", latex(table).encode(), "table") for name, table in tables.items()]


def paper_tables(results: Results) -> dict[str, PageTable]:
    """Return the tables of a run for a paper, by the names of their files.

    They are the methods, the methods by networks (``summary``: over all sizes, and at each), heuristics over
    exact models, the two parts of the gaps, and the spread over seeds. For each network there are gaps,
    bandwidths and, over a baseline, speed-ups.
    """
    found: dict[str, PageTable | None] = {"methods": method_table(results).without("T_B optimal", "where")}
    sizes = sorted(set(results.frame.size_bytes[results.frame.ok]))
    found |= {"summary": summary(results)} if sizes else {}
    found |= {f"summary_{size(bytes_)}": summary(results, bytes_) for bytes_ in sizes if len(sizes) > 1}
    found |= {"exact": over_exact(results), "parts": gap_parts(results), "seeds": seed_table(seeds(results))}
    kinds = [kind for kind in CELLS if kind != "speedup" or results.base]
    for number, topology in enumerate(results.topologies):
        name = re.sub(r"[^A-Za-z0-9.-]+", "_", results.short[topology])
        found |= {f"{kind}_{number}_{name}": case_table(results, topology, kind) for kind in kinds}
    return {name: table for name, table in found.items() if table is not None}
