"""What a study says of itself beside its results: how far it is.

A small file in the folder of results. The table of tasks is its run's alone; this is for ``tutti status`` in
another terminal.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil

from experiments.runner.manifest import MANIFEST, NOT_RUN
from topologies.errors import InputError
from topologies.files import read_text, replacing

PROGRESS = "progress.json"
SILENT_SECONDS = 60.0
"""A run elsewhere that has said nothing for so long may have been killed."""


def say(directory: Path, document: Mapping[str, Any]) -> None:
    """Write how far a run is; where that can't be written, rows can't either, and the store says so."""
    who = {"host": platform.node(), "process": os.getpid(), "said": time.time()}
    with contextlib.suppress(OSError), replacing(directory / PROGRESS, lasting=False) as draft:
        draft.write_text(json.dumps({**document, **who}) + "\n")


def status(directory: Path) -> dict[str, Any]:
    """Return how far a study is, as its last run said, and its ``state``.

    That is ``running``, ``finished``, ``interrupted`` or ``killed``.

    Raises
    ------
    InputError
        If there are no results, or what is there can't be read.
    """
    try:
        said = json.loads(read_text(directory / (PROGRESS if (directory / PROGRESS).exists() else MANIFEST)))
        found = _checked(_of_manifest(said) if "versions" in said else said)
        state = found["state"]
        if state == "running" and not _lives(found):
            state = "killed"
        if state != "running":
            found |= {"running": [], "ends_in": None, "waits": ""}
            state = "interrupted" if state == "detached" else state  # as an earlier version had it
        return {"directory": str(directory), **found, "state": state}
    except (InputError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise InputError(f"{directory}: no results of a run that can be read") from error


def _of_manifest(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run of an earlier version left: its rows, not by method."""
    counts = dict(manifest["rows"])
    left = counts.pop(NOT_RUN, 0)
    done = sum(counts.values())
    return {
        "state": "interrupted" if left else "finished",
        "rows": {"": [done, done + left]},
        "failed": counts.get("failed", 0),
        "where": "",
    }


def _checked(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run said, its numbers and names as they should be."""
    seconds = {name: _seconds(said[name]) for name in ("seconds", "ends_in") if said.get(name) is not None}
    rows = {name: [int(done), int(every)] for name, (done, every) in said["rows"].items()}
    running = [
        {name: str(one[name]) for name in ("task", "where")} | {"seconds": _seconds(one["seconds"])}
        for one in said.get("running", ())
    ]
    return {**said, **seconds, "rows": rows, "running": running}


def _seconds(value: Any) -> float:
    """Return a time that lasts as long as one can."""
    return timedelta(seconds=value).total_seconds()


def _lives(said: Mapping[str, Any]) -> bool:
    """Whether the process that said so is there still; of another machine, whether it spoke lately."""
    if said["host"] != platform.node():
        return bool(time.time() - said["said"] < SILENT_SECONDS)
    try:
        return bool(psutil.Process(said["process"]).create_time() <= said["said"])  # else it is another
    except psutil.Error:
        return False


def studies(folder: Path) -> list[Path]:
    """Return the folders of results in a folder, in the order of their names."""
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        paths = [Path(entry.path) for entry in entries if entry.is_dir()]
    return sorted(path for path in paths if (path / PROGRESS).exists() or (path / MANIFEST).exists())
