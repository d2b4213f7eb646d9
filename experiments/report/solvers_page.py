"""What the pages of both studies of solvers have alike: the values of ``solvers_page.html``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.report.page import manifest_lines, palette, swatch
from experiments.report.series import Series
from experiments.report.templating import source
from experiments.report.text import seconds
from experiments.study.statistics import disagreements, problems_of, profile

Row = Mapping[str, Any]


def programs_of(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """Return the rows of each program, by model and topology."""
    programs: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        programs.setdefault((row["model"], row["topology"]), []).append(row)
    return programs


def page_values(
    rows: Sequence[Row], manifest: Mapping[str, Any], looks: Mapping[str, Series]
) -> dict[str, Any]:
    """Return what the template asks for of any study."""
    return {
        "style": source("report.css") + palette(),
        "script": source("report.js"),
        "name": str(manifest.get("name", "study")),
        "instances": len(programs_of(rows)),
        "seeds": sorted({int(row["seed"]) for row in rows}),
        "limit": seconds(max((float(row["limit_s"]) for row in rows), default=0.0)),
        "problems": problems_of(rows),
        "looks": looks,
        "swatch": swatch,
        "fastest": {solver: sum(r <= 1.0 for r in own) for solver, own in profile(rows).items()},
        "wrong": [row for row in rows if row.get("answer") == "wrong"],
        "failed": [row for row in rows if row["status"] == "failed"],
        "pairs": disagreements(rows),
        "seconds": seconds,
        "manifest": list(manifest_lines(manifest)),
    }
