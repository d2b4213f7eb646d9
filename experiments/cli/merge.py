"""``tutti merge``: one folder of what several hold, such as halves of a study that two machines ran."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from experiments.cli.output import console
from experiments.cli.run import counted, run_config
from experiments.growth.study import COMMAND
from experiments.printable import say
from experiments.runner.manifest import read_manifest
from experiments.runner.run import RunOptions, Summary
from experiments.runner.store import FILES, TABLE, Store
from topologies.errors import InputError, TuttiError
from topologies.files import read_text

COPY = "config.toml"
"""The config is written under this name where it is no longer where it was."""


def execute(arguments: argparse.Namespace) -> int:
    """Merge the folders, write the tables where the config can still be read, and say what there is."""
    folders: Sequence[Path] = list(dict.fromkeys(path.resolve() for path in arguments.folders))
    out: Path = arguments.output
    _check(folders, out)
    manifests = [read_manifest(folder) for folder in folders]
    with ExitStack() as stack:
        others = [stack.enter_context(Store(folder)) for folder in folders]  # before there is an `out`
        store = stack.enter_context(Store(out))
        for other in others:
            store.take(other)
        sessions = [session for one in manifests for session in _sessions(one)]
        store.write_manifest({"sessions": sorted(sessions, key=lambda one: str(one.get("started")))})
    for line in _remarks(folders, manifests):
        say(line)
    path, text = _config(manifests)
    if path is None:
        say(f"merged, without tables: no manifest has the config; tutti run CONFIG --out {out} writes them")
        return 0
    if path == COMMAND:
        say(f"merged, without tables: {text} -o {out} writes them")
        return 0
    config = _file(Path(path), text, out)
    again = f"tutti run {config} --out {out}"
    try:
        options = RunOptions(out=out, perform=False)
        say(_said(run_config(config, options, console(sys.stderr)), again))
    except TuttiError as error:
        say(f"merged, without tables: {error}; {again} writes them")
    return 0


def _check(folders: Sequence[Path], out: Path) -> None:
    """Refuse what can't be merged, or not to there."""
    if len(folders) < 2:
        raise InputError("give two folders or more, no two of them the same")
    for folder in folders:
        if not any((folder / name).exists() for name in (TABLE, FILES)):
            raise InputError(f"{folder}: no {TABLE}; give folders that tutti run wrote")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out}: there is something already; give a new folder")
    if any(out.resolve().is_relative_to(folder) for folder in folders):
        raise InputError(f"{out}: it lies in a folder that is merged; give one elsewhere")


def _said(summary: Summary, again: str) -> str:
    rest = f"; {summary.missing} not run: {again}" if summary.missing else ""
    others = "; what other code or another config made is kept beside them"
    if summary.stale and summary.missing:
        others += ", and --rejudge takes over what it can"
    return counted(summary, f"{rest}{others if summary.stale else ''}")


def _remarks(folders: Sequence[Path], manifests: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return in what the folders differ, a line each."""
    configs = [_part(one, "config").get("text") for one in manifests]
    codes = [_part(one, "versions").get("code") for one in manifests]
    remarks = []
    if len(set(configs)) > 1:
        remarks.append(f"the configs differ: the tables are of that of {folders[0]}, and hold its rows")
    if len(set(codes)) > 1:
        which = ", ".join(
            f"{folder.name} {str(code)[:12]}" for folder, code in zip(folders, codes, strict=True)
        )
        remarks.append(f"different versions of the code made them ({which}): the tables hold this version's")
    return remarks


def _config(manifests: Sequence[Mapping[str, Any]]) -> tuple[str | None, str]:
    """Return the first config's path and text; None if no manifest has one."""
    for config in (_part(one, "config") for one in manifests):
        path, text = config.get("path"), config.get("text")
        if isinstance(path, str) and isinstance(text, str):
            return path, text
    return None, ""


def _file(path: Path, text: str, out: Path) -> Path:
    """Return a config's file: where it was, else a copy."""
    with suppress(InputError, OSError, ValueError):
        if read_text(path) == text:
            return path
    (out / COPY).write_text(text)
    return out / COPY


def _sessions(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return when a folder's run was begun and continued, and on what machine."""
    sessions = manifest.get("sessions")
    machine = _part(manifest, "machine").get("processor")
    found = sessions if isinstance(sessions, list) else []
    return [{"machine": machine, **session} for session in found if isinstance(session, dict)]


def _part(manifest: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = manifest.get(name)
    return part if isinstance(part, dict) else {}
