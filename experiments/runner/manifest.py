"""The code, versions and machine that a run was made with, and the manifest that names them."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import re
import tomllib
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from tutti.experiments import DISTRIBUTION, installed_version, plugins
from tutti.topologies.errors import InputError
from tutti.topologies.files import read_text

MANIFEST = "manifest.json"
FORMAT = "tutti.run/1"
NOT_RUN = "not run"
"""Stands for the status of rows that a run leaves for another, such as with ``--only``."""
CODE = ("topologies", "schedules", "models", "heuristics", "expansions", "experiments/methods")
"""The folders that results depend on; the runner and the report only arrange them."""


@cache
def code_digest(folders: tuple[str, ...] = CODE) -> str:
    """Return a hash of the source of folders; without any, of all that a result depends on."""
    root, digest = Path(__file__).resolve().parents[2], hashlib.sha256()
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(f"{path.relative_to(root)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def task_key(kind: str, *parts: Any) -> str:
    """Return a hash of everything that determines a result, the code that makes it included."""
    code = [code_digest(), *plugins.digests(*parts)]
    text = json.dumps([kind, *code, *parts], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def versions() -> dict[str, str]:
    """Return the version of Python, of tutti and of everything that it depends on."""
    found = {"python": platform.python_version(), "tutti": installed_version(), "code": code_digest()}
    with suppress(importlib.metadata.PackageNotFoundError):
        needed = importlib.metadata.requires(DISTRIBUTION) or []
        for name in sorted({re.split(r"[^\w.-]", text, maxsplit=1)[0] for text in needed}):
            with suppress(importlib.metadata.PackageNotFoundError):
                found[name] = importlib.metadata.version(name)
    return found


def machine() -> dict[str, Any]:
    """Return what the run was made on."""
    cores = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*:\s*(.*)", cores.read_text() if cores.exists() else "")
    return {
        "system": platform.system(),
        "release": platform.release(),
        "architecture": platform.machine(),
        "processor": named[1] if named else platform.processor(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
    }


def read_manifest(directory: Path) -> dict[str, Any]:
    """Return the manifest of a folder of results, empty where there is none that can be read."""
    try:
        found = json.loads(read_text(directory / MANIFEST))
    except (InputError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def config_tables(directory: Path) -> dict[str, Any]:
    """Return the tables of the config that a folder of results was made by; none where it can't be read."""
    config = read_manifest(directory).get("config")
    try:
        return tomllib.loads(config["text"]) if isinstance(config, dict) else {}
    except (KeyError, TypeError, ValueError, RecursionError):
        return {}


def made_with() -> dict[str, Any]:
    """Return what results depend on beside their config: versions, plug-ins and the machine."""
    return {"versions": versions(), "plugins": plugins.manifest(), "machine": machine()}


def now() -> str:
    """Return the time in UTC, to the second, in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")
