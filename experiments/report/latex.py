"""The tables of a run for LaTeX, with booktabs and captions: the methods, and the gaps on each network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from experiments.report.overview import common_cases, ranking
from experiments.report.results import Results
from experiments.report.tables import Cell, gap_table
from experiments.report.text import percent
from topologies.errors import InputError

SIGNS = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    sign: f"\\{sign}" for sign in "&%$#_{}"
}
GREEK = {"α": r"$\alpha$", "β": r"$\beta$", "–": "--", "×": r"$\times$"}
HEAD = "% \\usepackage{booktabs}\n"


def write_tables(results: Results, folder: Path) -> list[Path]:
    """Write ``methods.tex`` and a file of gaps for each network, and return their paths.

    Raises
    ------
    InputError
        If a file can't be written.
    """
    texts = {"methods": methods(results)}
    for number, topology in enumerate(results.topologies):
        texts[f"gaps_{number}_{re.sub(r'[^A-Za-z0-9.-]+', '_', results.short[topology])}"] = gaps(
            results, topology
        )
    paths = []
    for name, text in texts.items():
        path = folder / f"{name}.tex"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path}: can't write the table: {error.strerror}") from error
        paths.append(path)
    return paths


def methods(results: Results) -> str:
    """Return the methods, the ranked ones first."""
    count = len(common_cases(results)[1])
    lines = (
        [one.series.label, percent(one.common), str(one.best), str(one.counts["ok"]), f"{one.slower:.2f}"]
        for one in ranking(results)
        if one.slower is not None
    )
    caption = (
        f"Methods of {results.name}, ranked by their mean gap to the proven bound over the {count} cases "
        "that all ranked ones have. Slower: the geometric mean of the time over the best of the same case."
    )
    heads = ["method", "mean gap, %", "fastest in", "cases", "slower"]
    return table(caption, "methods", "lrrrr", heads, [[*map(escaped, line)] for line in lines])


def gaps(results: Results, topology: str) -> str:
    """Return the gaps of every method on a network, a line a collective and size; the least are bold."""
    found = gap_table(results, topology)
    lines = (
        [escaped(collective), escaped(row.size), *map(_cell, row.cells)]
        for collective, rows in found.groups
        for row in rows
    )
    heads = ["collective", "size", *(series.label for series in found.series)]
    caption = (
        f"Gap to the proven lower bound on time on {results.short[topology]}, in percent; the least are bold."
    )
    return table(caption, f"gaps-{topology}", "lr" + "r" * len(found.series), heads, lines)


def _cell(cell: Cell) -> str:
    text = escaped(cell.text)
    return rf"\textbf{{{text}}}" if "best" in cell.looks.split() else text


def table(
    caption: str, label: str, columns: str, heads: Sequence[str], lines: Iterable[Sequence[str]]
) -> str:
    """Return a table; the cells of `lines` are LaTeX already."""
    return HEAD + "\n".join(_lines(caption, label, columns, heads, lines)) + "\n"


def _lines(
    caption: str, label: str, columns: str, heads: Sequence[str], lines: Iterable[Sequence[str]]
) -> Iterator[str]:
    yield r"\begin{table}"
    yield r"  \centering\small"
    yield rf"  \caption{{{escaped(caption)}}}"
    yield rf"  \label{{tab:{re.sub(r'[^A-Za-z0-9-]+', '-', label)}}}"
    yield rf"  \begin{{tabular}}{{{columns}}}"
    yield r"    \toprule"
    yield rf"    {' & '.join(map(escaped, heads))} \\"
    yield r"    \midrule"
    yield from (rf"    {' & '.join(line)} \\" for line in lines)
    yield r"    \bottomrule"
    yield r"  \end{tabular}"
    yield r"\end{table}"


def escaped(text: str) -> str:
    r"""Return a text as LaTeX prints it.

    Examples
    --------
    >>> print(escaped("allreduce_lp 50 % α"))
    allreduce\_lp 50 \% $\alpha$
    """
    return "".join((SIGNS | GREEK).get(letter, letter) for letter in text)
