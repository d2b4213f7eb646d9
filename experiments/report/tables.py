"""Parts of a page: tables, charts and texts, in blocks and sections; and numbers as it prints them.

A `PageTable` is one thing in three forms: a page shows it, Markdown has it (`markdown`), and a paper takes it
as LaTeX (`latex`). What is said beside numbers is in ``templates/texts.toml``.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import pandas as pd
from markupsafe import Markup

from tutti.experiments.report.results import TEMPLATES, TIE, Results, Series
from tutti.topologies.units import MICRO, format_size

TEXTS: Mapping[str, Any] = tomllib.loads((TEMPLATES / "texts.toml").read_text(encoding="utf-8"))

SIGNS = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SIGNS |= {sign: f"\\{sign}" for sign in "&%$#_{}"} | {'"': "''", "<": "$<$", ">": "$>$", "|": "$|$"}
GREEK = {"α": r"$\alpha$", "β": r"$\beta$", "τ": r"$\tau$", "≤": r"$\leq$", "≥": r"$\geq$", "·": r"$\cdot$"}
GREEK |= {"–": "--", "−": "$-$", "×": r"$\times$", "≈": r"$\approx$"}


@dataclass(frozen=True)
class Cell:
    """A number or words.

    Parameters
    ----------
    text
        What it says.
    looks
        Style classes: ``best``, ``optimal``, ``none``, ``wrong``, shades; of a head, of its whole column:
        ``n`` for numbers, ``s3`` for those of series 3, ``name`` for what a row is of.
    tip
        Its tooltip.
    note
        The number of its footnote.
    more
        What follows in small letters.
    link
        Where on the page it leads.
    series
        The method whose mark stands before it.
    """

    text: str = ""
    looks: str = ""
    tip: str = ""
    note: int | None = None
    more: str = ""
    link: str = ""
    series: Series | None = None

    def said(self, bold: str, escaped: Callable[[str], str] = str) -> str:
        """Return all that it says, escaped; if it is the best, in a form such as ``"**%s**"``."""
        text = (bold if "best" in self.looks.split() else "%s") % escaped(self.text)
        return f"{text} {escaped(self.more)}" if self.more else text


Said = str | Cell


def method_heads(series: Iterable[Series]) -> list[Said]:
    """Return the head of a column of numbers for each method."""
    return [Cell(one.label, f"n s{one.number}", series=one) for one in series]


@dataclass(frozen=True)
class PageTable:
    """A table.

    Parameters
    ----------
    name
        What its file and its label are called.
    caption
        What its numbers are, in whole sentences.
    heads
        One a column.
    rows
        Style classes, by which the page filters, and one cell a column.
    notes
        Footnotes, numbered from 1.
    """

    name: str
    caption: str
    heads: Sequence[Cell]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    notes: Iterable[str] = ()

    @classmethod
    def of(
        cls,
        key: str,
        rows: Iterable[tuple[str, Sequence[Any]]],
        more: Iterable[Said] = (),
        *,
        name: str = "",
        notes: Iterable[str] = (),
        **values: object,
    ) -> PageTable:
        """Return it, with texts for cells; a head that ends with ``#`` is of a column of numbers.

        A head that ends with ``~`` is of a column of long texts.

        Parameters
        ----------
        key
            Under which `TEXTS` has its caption, its first heads, and its name unless `name` is another.
        more
            Further heads.
        values
            What the caption and the first heads are filled in with.
        """
        heads = [*(head.format(**values) for head in TEXTS[key].get("heads", ())), *more]
        marks = {"#": "n", "~": "told"}
        made = [Cell(h.rstrip("#~"), marks.get(h[-1:], "")) if isinstance(h, str) else h for h in heads]
        filled = [(looks, [Cell(c) if isinstance(c, str) else c for c in cells]) for looks, cells in rows]
        return cls(name or key, TEXTS[key]["caption"].format(**values), made, filled, notes)

    def frame(self, bold: str = "%s", escaped: Callable[[str], str] = str) -> pd.DataFrame:
        """Return its texts as a frame, a column a head; the best in bold."""
        texts = [[cell.said(bold, escaped) for cell in cells] for _, cells in self.rows]
        frame = pd.DataFrame(texts, columns=range(len(self.heads)), dtype=object)
        return frame.set_axis([escaped(head.text) for head in self.heads], axis=1)

    def without(self, *heads: str) -> PageTable:
        """Return the table without the columns of some heads."""
        kept = [place for place, head in enumerate(self.heads) if head.text not in heads]
        rows = [(looks, [cells[place] for place in kept]) for looks, cells in self.rows]
        return replace(self, heads=[self.heads[place] for place in kept], rows=rows)


@dataclass(frozen=True)
class Panel:
    """A chart, and what is to be said of it or instead of it.

    Parameters
    ----------
    title
        What it shows.
    looks
        Style classes by which the page filters: ``k1`` of the collective of that place, ``s3`` of a series.
    chart
        A figure, or a drawing.
    note
        What stands below it.
    series
        The method whose mark stands before its title.
    """

    title: str
    looks: str
    chart: Any
    note: str = ""
    series: Series | None = None


def panel_of(results: Results, collective: str, chart: Any, note: str = "", title: str = "") -> Panel:
    """Return a collective's panel, under its name or another title."""
    return Panel(title or collective, f"k{results.collectives.index(collective)}", chart, note)


@dataclass(frozen=True)
class PageBlock:
    """Tables and charts under one heading.

    Parameters
    ----------
    key
        Under which `TEXTS` has its texts.
    title, text
        Its heading, and what is said of it.
    tables, panels
        What it shows.
    folded
        Whether one has to open it.
    looks
        How its charts lie: ``two`` a row, or as ``maps``, which are small.
    """

    key: str
    title: str
    text: str
    tables: Sequence[PageTable] = ()
    panels: Sequence[Panel] = ()
    folded: bool = False
    looks: str = ""


def block(
    key: str, *shown: PageTable | Panel | None, folded: bool = False, looks: str = "", **values: Any
) -> list[PageBlock]:
    """Return the block of some tables and charts in a list, which is empty where there are none.

    Parameters
    ----------
    values
        What its texts are filled in with.
    """
    texts = TEXTS.get(key, {})
    title, text = (Markup(texts.get(name, "")).format(**values) for name in ("title", "text"))
    tables = [one for one in shown if isinstance(one, PageTable)]
    panels = [one for one in shown if isinstance(one, Panel)]
    return [PageBlock(key, title, text, tables, panels, folded, looks)] if tables or panels else []


@dataclass(frozen=True)
class Section:
    """A part of a page: its heading, what it says first, its blocks, and words that it explains."""

    title: str
    blocks: Sequence[PageBlock] = ()
    lead: Sequence[str] = ()
    id: str = ""
    looks: str = ""
    folded: bool = False
    words: Mapping[str, str] = field(default_factory=dict)


def explained(words: Mapping[str, str], **values: object) -> dict[str, Markup]:
    """Return words with what they mean, filled in."""
    return {word: Markup(meaning).format(**values) for word, meaning in words.items()}


def markdown(table: PageTable) -> str:
    """Return a table in Markdown, networks and methods as code."""

    def named(cells: Sequence[Cell]) -> list[Cell]:
        return [replace(one, text=f"`{one.text}`") if one.series or one.link else one for one in cells]

    rows = [(looks, named(cells)) for looks, cells in table.rows]
    frame = replace(table, heads=named(table.heads), rows=rows).frame("**%s**")
    return lines_of(list(frame.columns), frame.to_numpy().tolist())


def lines_of(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return lines of cells under a head as Markdown has them."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines))


def latex(table: PageTable) -> str:
    """Return a table in LaTeX, with booktabs."""
    frame = table.frame(r"\textbf{%s}", escaped)
    heads: Any = list(frame.columns)
    styler = frame.set_axis(range(len(heads)), axis=1).style.hide(axis="index")
    text = styler.format_index(lambda place: heads[place], axis=1).to_latex(
        hrules=True,
        caption=escaped(table.caption),
        label=f"tab:{re.sub(r'[^A-Za-z0-9-]+', '-', table.name)}",
        column_format="".join("r" if "n" in head.looks.split() else "l" for head in table.heads),
        position_float="centering",
    )
    return "% \\usepackage{booktabs}\n" + text.replace(r"\centering", r"\centering\small", 1)


def escaped(text: str) -> str:
    r"""Return a text as LaTeX prints it.

    Examples
    --------
    >>> print(escaped("allreduce_lp 50 % α"))
    allreduce\_lp 50 \% $\alpha$
    """
    return "".join((SIGNS | GREEK).get(letter, letter) for letter in text)


_UNITS = (
    *((172_800, 86_400, "d"), (7200, 3600, "h"), (0.9995, 1, "s"), (0.9995e-3, 1e-3, "ms")),
    *((0.9995e-6, 1e-6, "us"), (0, 1e-9, "ns")),
)
"""The least seconds that a unit is used for, its seconds, its name."""


def percent(gap: float | None) -> str:
    """Return a gap in percent, without the sign, to about three digits.

    Examples
    --------
    >>> percent(0.0321), percent(0.456), percent(12.346), percent(0.0), percent(0.00001)
    ('3.21', '45.6', '1,235', '0', '<0.01')
    """
    if gap is None or math.isnan(gap):
        return ""
    value = 100 * gap
    if abs(gap) <= TIE:
        return "0"
    if 0 < value < 0.005:
        return "<0.01"
    decimals = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:,.{decimals}f}"


def number(value: float, digits: int = 4) -> str:
    """Return a number with that many significant digits and no exponent where it can be avoided.

    Examples
    --------
    >>> number(213.333333), number(0.00123456), number(1234567.0), number(4.0)
    ('213.3', '0.001235', '1,234,567', '4')
    """
    return f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"


def counted(value: int, word: str) -> str:
    """Return a number of things in words.

    Examples
    --------
    >>> counted(1, "switch"), counted(1200, "switch"), counted(0, "link"), counted(2, "topology")
    ('1 switch', '1,200 switches', 'no links', '2 topologies')
    """
    plural = f"{word[:-1]}ies" if word.endswith("y") else word + ("es" if word.endswith("ch") else "s")
    return f"{'no' if value == 0 else f'{value:,}'} {word if value == 1 else plural}"


def times(ratio: float | None) -> str:
    """Return a ratio of times."""
    return "" if ratio is None or math.isnan(ratio) else f"{ratio:.2f}×"


def seconds(value: float | None, digits: int = 3) -> str:
    """Return a time given in seconds, in a fitting unit.

    Examples
    --------
    >>> seconds(0.00123), seconds(75.0), seconds(2e-6), seconds(1e8)
    ('1.23 ms', '75 s', '2 us', '1,157 d')
    """
    if value is None or math.isnan(value):
        return ""
    if value == 0:
        return "0 s"
    scale, unit = next((scale, unit) for least, scale, unit in _UNITS if abs(value) >= least)
    return f"{number(value / scale, digits)} {unit}"


def microseconds(value: float | None, digits: int = 3) -> str:
    """Return a time given in microseconds, in a fitting unit."""
    return "" if value is None else seconds(value / MICRO, digits)


def size(value: float) -> str:
    """Return a size in bytes with its unit."""
    return format_size(Fraction(value))


def megabytes(value: float) -> str:
    """Return a number of bytes that need not be whole."""
    return f"{number(value / 1e6)} MB"
