"""``tutti diff``: what changed between two folders of results."""

from __future__ import annotations

import argparse
from itertools import islice
from typing import Any

from experiments.cli.output import print_json, print_table
from experiments.difference import KEY, Change, Difference, difference
from experiments.printable import say
from topologies.errors import InputError
from topologies.units import duration, exact_number, format_size

SAME, WORSE = 0, 1
SHOWN = 40
"""Characters of what differs in how both were made; hashes are longer."""


def execute(arguments: argparse.Namespace) -> int:
    """Print what differs; 1 if something is worse than is allowed."""
    most = None if arguments.fail_above is None else _share(arguments.fail_above)
    if arguments.top < 0:
        raise InputError(f"--top {arguments.top}; it must not be negative")
    found = difference(arguments.was, arguments.now)
    worse = [] if most is None else [one for one in found.changes if one.fails(most)]
    if arguments.json:
        print_json(_document(found, worse))
    else:
        _print(found, arguments.top)
        if most is not None:
            say(f"{len(worse)} rows are worse by more than {arguments.fail_above}, lost or no longer ok")
    return WORSE if worse else SAME


def _share(text: str) -> float:
    value = exact_number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if value < 0:
        raise InputError(f"--fail-above {text[:20]}: a share that is not negative, such as 1% or 0.01")
    return float(value)


def _print(found: Difference, top: int) -> None:
    names = [str(found.was.path), str(found.now.path)]
    if found.made_with:
        made_with = [[name, _short(was), _short(now)] for name, was, now in found.made_with]
        print_table("made with", ["", *names], made_with)
    changes = found.changes
    if changes and top:
        columns = ["topology", "collective", "model", "size", "method", "status"]
        columns += ["time", "now", "change", "gap", "now", "bound"]
        lines = [_line(one) for one in changes[:top]]
        # what no row has, as a model or a gap, needs no column
        shown = [place for place in range(len(columns)) if any(line[place] for line in lines)]
        more = f", {top} of {len(changes)}" if len(changes) > top else ""
        cells = [[line[place] or None for place in shown] for line in lines]
        print_table(f"rows, the largest change first{more}", [columns[place] for place in shown], cells)
    efforts = list(islice(found.efforts, top))
    if efforts:
        what, done = ("solver", "solving") if found.was.solvers else ("method", "synthesis")
        title = f"seconds of {done}"
        heads = [what, "in both", "was", "now", "now/was: median", "quartiles"]
        print_table(f"{title}, the largest change first", heads, [_effort_line(one) for one in efforts])
    say(_counts(found))


def _line(change: Change) -> list[str]:
    named = dict(zip(KEY, change.key, strict=False))
    seed = f"seed={named['seed']}" if named["seed"] else ""
    size = named["size_bytes"]
    both = change.was is not None and change.now is not None
    pair = (change.was, change.now) if both else ()
    times, gaps = ([getattr(row, name) for row in pair] or [None, None] for name in ("time", "gap"))
    return [
        named["topology"],
        named["collective"],
        named["model"],
        format_size(int(size)) if size.isdigit() else size,
        " ".join(filter(None, [named["method"], named["options"], seed])),
        change.status,
        *("" if time is None else duration(time) for time in times),
        _percent(change.rises.get("time")),
        *("" if gap is None else f"{gap:.2%}" for gap in gaps),
        _percent(change.rises.get("bound")),
    ]


def _effort_line(effort: Any) -> list[object]:
    low, middle, high = effort.quartiles
    total = (f"{sum(seconds):.3g} s" for seconds in (effort.was, effort.now))
    return [effort.method, len(effort.was), *total, f"{middle:.2f}", f"{low:.2f} to {high:.2f}"]


def _counts(found: Difference) -> str:
    kinds = {"other status": 0, "other time": 0, "other gap": 0, "other bound": 0}
    lost = gained = 0
    for one in found.changes:
        lost += one.now is None
        gained += one.was is None
        kinds["other status"] += bool(one.status) and one.was is not None and one.now is not None
        for name in one.rises:
            kinds[f"other {name}"] += 1
    text = ", ".join(f"{count} {name}" for name, count in kinds.items() if count) or "none differs"
    return f"{found.common} rows in both: {text}; {lost} lost, {gained} gained"


def _document(found: Difference, worse: list[Change]) -> dict[str, Any]:
    failed = set(worse)
    return {
        "was": str(found.was.path),
        "now": str(found.now.path),
        "made_with": [{"name": name, "was": was, "now": now} for name, was, now in found.made_with],
        "common": found.common,
        "rows": [
            {
                **{name: text for name, text in zip(KEY, one.key, strict=False) if text},
                "was": one.was and vars(one.was),
                "now": one.now and vars(one.now),
                "rises": one.rises,
                "worse": one in failed,
            }
            for one in found.changes
        ],
        "efforts": [
            {
                "method": one.method,
                "pairs": len(one.was),
                "was_s": sum(one.was),
                "now_s": sum(one.now),
                "quartiles": one.quartiles,
            }
            for one in found.efforts
        ],
    }


def _percent(rise: float | None) -> str:
    return "" if rise is None else f"{rise:+.2%}"


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= SHOWN else f"{text[:12]}..."
