"""The tables of a run for LaTeX, with booktabs and captions: the methods, and what they reach where."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from tutti.experiments.report.results import Results
from tutti.experiments.report.series import Series
from tutti.experiments.report.standings import common_cases, ranking
from tutti.experiments.report.tables import CELLS, gap_table
from tutti.experiments.report.text import percent, times
from tutti.topologies.files import written

SIGNS = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    sign: f"\\{sign}" for sign in "&%$#_{}"
}
GREEK = {"α": r"$\alpha$", "β": r"$\beta$", "–": "--", "×": r"$\times$"}
CAPTIONS = {
    "gaps": "Gap to the proven lower bound on time, in percent",
    "bandwidth": "algbw / busbw in GB/s",
    "speedup": "Speed-up over {}",
}


def write_tables(results: Results, folder: Path) -> list[Path]:
    """Write ``methods.tex`` and for each network files of gaps, bandwidths and, over a baseline, speed-ups.

    Returns
    -------
    list
        Their paths.

    Raises
    ------
    InputError
        If a file can't be written.
    """
    texts = {"methods": methods(results)}
    kinds = [kind for kind in CELLS if kind != "speedup" or results.base]
    for number, topology in enumerate(results.topologies):
        name = re.sub(r"[^A-Za-z0-9.-]+", "_", results.short[topology])
        texts |= {f"{kind}_{number}_{name}": by_case(results, topology, kind) for kind in kinds}
    return [written(folder / f"{name}.tex", text.encode(), "table") for name, text in texts.items()]


def methods(results: Results) -> str:
    """Return the methods, the ranked ones first."""
    count = len(common_cases(results)[1])
    lines = (
        [one.series.label, percent(one.common), str(len(one.won)), str(len(one.gaps)), times(one.slower)]
        + [times(one.speedup)] * bool(results.base)
        for one in ranking(results)
        if one.slower is not None
    )
    caption = (
        f"Methods of {results.name}, ranked by their mean gap to the proven bound over the {count} cases "
        "that all ranked ones have. Slower: the geometric mean of the time over the best of the same case."
    )
    caption += _exactness(one.series for one in ranking(results) if one.slower is not None)
    heads = ["method", "mean gap, %", "fastest in", "cases", "slower"]
    if results.base:
        caption += f" Speed-up: the same of the time of {results.baseline} over its own."
        heads += ["speed-up"]
    found = [[*map(escaped, line)] for line in lines]
    return table(caption, "methods", "l" + "r" * (len(heads) - 1), heads, found)


def by_case(results: Results, topology: str, kind: str) -> str:
    """Return what every method reaches on a network, a line a collective and size; the best are bold.

    Parameters
    ----------
    results, topology
        The run, and the network.
    kind
        One of `CELLS`.
    """
    found = gap_table(results, topology, CELLS[kind])
    lines = (
        [escaped(collective), escaped(row.size), *(cell.bold(r"\textbf{%s}", escaped) for cell in row.cells)]
        for collective, rows in found.groups
        for row in rows
    )
    heads = ["collective", "size", *(series.label for series in found.series)]
    told = f"{CAPTIONS[kind].format(results.baseline)}, on {results.short[topology]}; the best are bold."
    told += _exactness(found.series)
    return table(told, f"{kind}-{topology}", "lr" + "r" * len(found.series), heads, lines)


def _exactness(series: Iterable[Series]) -> str:
    """Return the sense in which each exact method is optimal, as a sentence that follows another."""
    texts = [f"{one.label} is {one.kind}" for one in series if one.kind.startswith("exact for ")]
    return f" {', '.join(texts)}." if texts else ""


def table(
    caption: str, label: str, columns: str, heads: Sequence[str], lines: Iterable[Sequence[str]]
) -> str:
    """Return a table; the cells of `lines` are LaTeX already."""
    name = re.sub(r"[^A-Za-z0-9-]+", "-", label)
    rows = "".join(f"    {' & '.join(line)} \\\\\n" for line in lines)
    return rf"""% \usepackage{{booktabs}}
\begin{{table}}
  \centering\small
  \caption{{{escaped(caption)}}}
  \label{{tab:{name}}}
  \begin{{tabular}}{{{columns}}}
    \toprule
    {" & ".join(map(escaped, heads))} \\
    \midrule
{rows}    \bottomrule
  \end{{tabular}}
\end{{table}}
"""


def escaped(text: str) -> str:
    r"""Return a text as LaTeX prints it.

    Examples
    --------
    >>> print(escaped("allreduce_lp 50 % α"))
    allreduce\_lp 50 \% $\alpha$
    """
    return "".join((SIGNS | GREEK).get(letter, letter) for letter in text)
