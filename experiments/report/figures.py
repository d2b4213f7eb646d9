"""Single figures for papers and READMEs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from experiments.report.results import Results, read_results
from experiments.report.series import LIGHT, MATPLOTLIB_MARKERS, Series
from experiments.report.svg import spread
from experiments.report.text import size
from topologies.errors import InputError, suggestion

SUFFIXES = (".png", ".svg", ".pdf")
INK = "#1d2329"
MUTED = "#5b6570"
INCHES = (7.2, 4.2)
DOTS_PER_INCH = 160
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 9.5,
    "text.color": INK,
    "axes.edgecolor": "#9aa3ac",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "svg.hashsalt": "tutti",
    "svg.fonttype": "none",
}


def save_figure(directory: Path, topology: str, collective: str, path: Path) -> None:
    """Write one picture of algbw against size, every method and the limit that the lower bound sets.

    Parameters
    ----------
    directory
        Of a finished run.
    topology, collective
        As its rows have them.
    path
        Ends in ``.png``, ``.svg`` or ``.pdf``.

    Raises
    ------
    InputError
        If the run has no such rows with a time, or the path's suffix or folder can't be used.
    """
    if path.suffix not in SUFFIXES:
        raise InputError(f"{path}: a figure ends in {', '.join(SUFFIXES)}")
    results = read_results(directory)
    for word, name, known in (
        ("topology", topology, results.topologies),
        ("collective", collective, results.collectives),
    ):
        if name not in known:
            raise InputError(f"{directory}: no rows of {word} '{name}'{suggestion(name, known)}")
    with mpl.rc_context(STYLE):
        figure = _figure(results, topology, collective)
        _save(figure, path)


def _figure(results: Results, topology: str, collective: str) -> Figure:
    lines = _lines(results, topology, collective)
    if not lines:
        raise InputError(f"{results.directory}: no method has a time for {collective} on {topology}")
    figure = Figure(figsize=INCHES, dpi=DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    ends = [_draw(axes, series, points) for series, points in lines]
    ends += _draw_bound(axes, results, topology, collective)
    axes.set_ylim(bottom=0)
    _label_axes(axes, sorted({s for _, points in lines for s, _ in points}))
    axes.set_title(f"{collective} on {topology}", loc="left", fontsize=10.5, color=INK)
    _name_lines(figure, axes, ends)
    return figure


Line = list[tuple[float, float]]


def _lines(results: Results, topology: str, collective: str) -> list[tuple[Series, Line]]:
    """Return each series with its (size, algbw in GB/s)."""
    cells = results.of(topology, collective)
    points = {
        series: [
            (s, row.algbw_gbps) for s, rows in cells.items() if (row := rows.get(series.number)) and row.ok
        ]
        for series in results.series
    }
    known = {key: [(s, value) for s, value in line if value is not None] for key, line in points.items()}
    return [(series, line) for series, line in known.items() if line]


End = tuple[str, float, float, str]
"""Name, size and algbw of a line's last point, and its colour."""


def _draw(axes: Axes, series: Series, points: Line) -> End:
    colour = LIGHT[series.colour]
    axes.plot(
        *zip(*points, strict=True),
        color=colour,
        linewidth=1.6,
        linestyle=(0, series.dash) if series.dash else "solid",
        marker=MATPLOTLIB_MARKERS[series.shape],
        markersize=5,
        markeredgecolor="white",
        markeredgewidth=0.6,
        clip_on=False,
        zorder=3,
    )
    return (series.label, *points[-1], colour)


def _draw_bound(axes: Axes, results: Results, topology: str, collective: str) -> list[End]:
    points = [
        (s, s / row.bound_us / 1e3)
        for s, rows in results.of(topology, collective).items()
        for row in [next((row for row in rows.values() if row.bound_us), None)]
        if row is not None and row.bound_us
    ]
    if not points:
        return []
    axes.plot(*zip(*points, strict=True), color=MUTED, linewidth=1.2, linestyle=(0, (5, 3)), zorder=2)
    return [("limit", *points[-1], MUTED)]


def _label_axes(axes: Axes, sizes: Sequence[float]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(sizes, [size(s) for s in sizes])
    axes.minorticks_off()
    axes.set_xlabel("size M")
    axes.set_ylabel("algbw (GB/s)")
    axes.grid(axis="y", color="#e3e7ea", linewidth=0.8)
    axes.set_axisbelow(True)


def _name_lines(figure: Figure, axes: Axes, ends: Sequence[End]) -> None:
    """Write the names right of the lines' last points, moved apart where they would touch."""
    figure.draw_without_rendering()
    box = axes.get_window_extent()
    line = 1.35 * mpl.rcParams["font.size"] * figure.dpi / 72
    wanted = [float(axes.transData.transform((s, value))[1]) for _, s, value, _ in ends]
    places = spread(wanted, box.y0, box.y1, line)
    for (name, s, value, colour), place in zip(ends, places, strict=True):
        axes.annotate(
            name,
            xy=(s, value),
            xytext=(1.04, (place - box.y0) / box.height),
            textcoords=axes.transAxes,
            color=colour,
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "relpos": (0, 0.5),
                "color": "#b8c0c7",
                "linewidth": 0.7,
                "shrinkA": 1,
                "shrinkB": 4,
            },
        )


def _save(figure: Figure, path: Path) -> None:
    metadata: dict[str, Any] = (
        {} if path.suffix == ".png" else {"CreationDate" if path.suffix == ".pdf" else "Date": None}
    )
    try:
        figure.savefig(path, metadata=metadata)
    except OSError as error:
        raise InputError(f"{path}: can't write the figure: {error.strerror}") from error
