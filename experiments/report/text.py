"""Numbers as the report prints them."""

from __future__ import annotations

from fractions import Fraction

from tutti.experiments.report.results import TIE, Row, is_optimal
from tutti.topologies.units import MICRO, format_size

_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_LONG = ((172_800, 86_400, "d"), (7200, 3600, "h"))
"""From how many seconds on a unit is used, its seconds, its name."""


def percent(gap: float | None) -> str:
    """Return a gap in percent, without the sign, to about three digits.

    Examples
    --------
    >>> percent(0.0321), percent(0.456), percent(12.346), percent(0.0), percent(0.00001)
    ('3.21', '45.6', '1,235', '0', '<0.01')
    """
    if gap is None:
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
    if abs(value) >= 10**digits:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def counted(value: int, word: str) -> str:
    """Return so many of something.

    Examples
    --------
    >>> counted(1, "switch"), counted(1200, "switch"), counted(0, "link"), counted(2, "topology")
    ('1 switch', '1,200 switches', 'no links', '2 topologies')
    """
    plural = f"{word[:-1]}ies" if word.endswith("y") else word + ("es" if word.endswith("ch") else "s")
    return f"{'no' if value == 0 else f'{value:,}'} {word if value == 1 else plural}"


def times(ratio: float | None) -> str:
    """Return a ratio of times."""
    return "" if ratio is None else f"{ratio:.2f}×"


def seconds(value: float | None, digits: int = 3) -> str:
    """Return a time given in seconds, in a fitting unit.

    Examples
    --------
    >>> seconds(0.00123), seconds(75.0), seconds(2e-6), seconds(1e8)
    ('1.23 ms', '75 s', '2 us', '1,157 d')
    """
    if value is None:
        return ""
    if value == 0:
        return "0 s"
    for least, long, unit in _LONG:
        if abs(value) >= least:
            return f"{number(value / long, digits)} {unit}"
    scale, unit = next((pair for pair in _TIME_UNITS if abs(value) >= 0.9995 * pair[0]), _TIME_UNITS[-1])
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


def describe(label: str, row: Row) -> str:
    """Return what a tooltip says of a row, a fact a line."""
    head = f"{label}: {row.collective}, {size(row.size_bytes)}"
    if not row.ok:
        return f"{head}\n{row.status}: {row.message}" if row.message else f"{head}\n{row.status}"
    lines = [head, *filter(None, [row.algorithm]), f"time {microseconds(row.time_us)}"]
    if row.sequential_us is not None:
        alone = " + ".join(microseconds(float(time)) for time in row.alone_us.split("; "))
        lines.append(f"one after the other {microseconds(row.sequential_us)} = {alone}")
    if row.algbw_gbps is not None:
        busbw = "" if row.busbw_gbps is None else f", busbw {number(row.busbw_gbps)} GB/s"
        lines.append(f"algbw {number(row.algbw_gbps)} GB/s{busbw}")
    if row.global_bytes is not None:
        lines.append(f"between hosts {megabytes(row.global_bytes)}")
    if row.gap is not None:
        proof = f" over the {row.bound_kind or 'lower'} bound {microseconds(row.bound_us)}"
        lines.append(f"gap {number(100 * row.gap, 6)}%{proof}{', optimal' if is_optimal(row) else ''}")
    if row.tl_steps is not None:
        lines.append(f"T_L {number(row.tl_steps)} α" + (f", T_B {row.tb_text} M/B" if row.tb_text else ""))
    if row.synth_s is not None:
        lines.append(f"synthesis {seconds(row.synth_s)}")
    if row.seed:
        lines.append(f"seed {row.seed}")
    if row.verified is False:
        lines.append("not verified")
    lines += filter(None, (row.message, row.note))
    return "\n".join(lines)
