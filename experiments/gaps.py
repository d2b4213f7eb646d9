"""Who comes how close: one line for each network, collective and size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

Row = Mapping[str, Any]
GAPS = "gaps.csv"
INSTANCE = ("topology", "collective", "size_bytes")
REFERENCE = ("bound_us", "bound_kind", "exact_us", "exact_method", "best_us", "best_method", "best_gap")


def method_label(row: Row) -> str:
    """Return what a method is called beside others: its name and its options."""
    return " ".join(filter(None, [row["method"], row.get("options") or ""]))


def gap_table(rows: Iterable[Row]) -> pd.DataFrame:
    """Return the gap table.

    Columns: ``topology, collective, size_bytes``; ``bound_us, bound_kind``, the largest proven lower bound;
    ``exact_us, exact_method``, the best of the exact methods; ``best_us, best_method, best_gap``, the best of
    all (equal ones: the first of the config); and one column a method, its gap to the bound, empty where it
    has none. Several seeds of one method share a column, which holds the best.
    """
    table = list(rows)
    labels = list(dict.fromkeys(method_label(row) for row in table))
    instances: dict[tuple[Any, ...], list[Row]] = {}
    for row in table:
        instances.setdefault(tuple(row[name] for name in INSTANCE), []).append(row)
    lines = [_line(instance, group, labels) for instance, group in instances.items()]
    return pd.DataFrame(lines, columns=[*INSTANCE, *REFERENCE, *labels])


def _line(instance: tuple[Any, ...], rows: list[Row], labels: list[str]) -> dict[str, Any]:
    line = dict(zip(INSTANCE, instance, strict=True))
    done = [row for row in rows if row["status"] == "ok"]
    if not done:
        return line
    best, bound = min(done, key=_time), max(done, key=lambda row: float(row["bound_us"] or 0))
    line |= {"bound_us": bound["bound_us"], "bound_kind": bound["bound_kind"]}
    line |= {"best_us": best["time_us"], "best_method": method_label(best), "best_gap": _gap(best, bound)}
    exact = min((row for row in done if row["kind"] == "exact"), key=_time, default=None)
    if exact is not None:
        line |= {"exact_us": exact["time_us"], "exact_method": method_label(exact)}
    for label in labels:
        gaps = [_gap(row, bound) for row in done if method_label(row) == label]
        line[label] = min((gap for gap in gaps if gap is not None), default=None)
    return line


def _gap(row: Row, bound: Row) -> float | None:
    """Return a row's gap to the largest bound of its instance, which another's method may have proven."""
    if row["gap"] is None or row["bound_us"] == bound["bound_us"]:
        return None if row["gap"] is None else float(row["gap"])
    return float(row["time_us"]) / float(bound["bound_us"]) - 1


def _time(row: Row) -> float:
    return float(row["time_us"])
