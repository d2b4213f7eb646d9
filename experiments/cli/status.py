"""``tutti status``: how far studies are, while they run or afterwards."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.cli.output import print_fields, print_json, print_table
from experiments.runner.progress import clock, lasting
from experiments.runner.state import status, studies
from topologies.errors import InputError

RESULTS = Path("results")


def execute(arguments: argparse.Namespace) -> int:
    """Print it, of one study or of all in ``results``."""
    one: Path | None = arguments.directory
    if one is None:
        found = [status(directory) for directory in studies(RESULTS)]
        if not found:
            raise InputError(f"{RESULTS}: no results of a run; name their folder: tutti status DIR")
    else:
        found = [status(one)]
    if arguments.json:
        for each in found:
            print_json(each)
    elif one is None:
        heads = ["study", "state", "rows", "failed", "ends", "where"]
        print_table("", heads, [_short(each) for each in found])
    else:
        _print(found[0])
    return 0


def _short(said: Mapping[str, Any]) -> list[object]:
    return [said["directory"], said["state"], _rows(said), said["failed"], _end(said), said["where"] or None]


def _rows(said: Mapping[str, Any]) -> str:
    counts = said["rows"].values()
    return f"{sum(done for done, _ in counts)}/{sum(every for _, every in counts)}"


def _end(said: Mapping[str, Any]) -> str | None:
    left = said.get("ends_in")
    return None if left is None else f"about {clock(left)}"


def _print(said: Mapping[str, Any]) -> None:
    who = f"process {said['process']} on {said['host']}" if said["state"] == "running" else None
    print_fields(
        {
            "study": said["directory"],
            "state": said["state"],
            "where": said["where"] or None,
            "run by": who,
            "for": lasting(said["seconds"]) if who else None,
            "rows": f"{_rows(said)}, {said['failed']} failed",
            "ends": _end(said),
            "waits": f"for {said['waits']}" if said.get("waits") else None,
        }
    )
    lines = [[name, done, every - done] for name, (done, every) in said["rows"].items() if name]
    if lines:
        print_table("", ["method", "done", "left"], lines)
    running = [[one["task"], lasting(one["seconds"]), one["where"]] for one in said["running"]]
    if running:
        print_table("", ["runs now", "for", "where"], running)
