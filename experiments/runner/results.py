"""The files of a run: tables, schedules under their content hashes, and the manifest.

Each is there whole or not at all. The manifest names the code, the versions and the machine that a run was
made with.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, TextIO

import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from tutti.experiments import DISTRIBUTION, installed_version, plugins
from tutti.experiments.old_names import current_label, current_model
from tutti.models.bounds.check import current_kind
from tutti.schedules.files.schedule_file import (
    content_hash,
    read_schedule,
    schedule_bytes,
    write_schedule,
    write_whole,
)
from tutti.schedules.schedule import Schedule
from tutti.topologies.errors import InputError
from tutti.topologies.files import opened, read_text, replacing

Row = Mapping[str, Any]
"""The values of a row by column; a column that it lacks is empty."""


def typed(columns: str) -> dict[str, Any]:
    """Return the name and type of each column of a text ``name kind, name kind, ...``."""
    kinds = {"text": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
    return {name: kinds[kind] for name, kind in map(str.split, columns.split(","))}


COLUMNS = typed("""
    topology text, nodes int, switches int, links int, collective text, size_bytes int, method text,
    kind text, options text, seed int, status text, message text, synth_s float, build_s float,
    solve_s float, peak_rss_mb float, time_us float, algbw_gbps float, tl_steps int, tb_factor float,
    congestion float, bound_us float, bound_kind text, gap float, verified bool, variables int,
    constraints int, solver text, solver_gap float, tb_exact text, congestion_exact text, clock text,
    transfers int, seeds int, verify_s float, simulate_s float, schedule text, slices int, trees int,
    height int, mean_height float, search_s float, removal_s float, packing_s float, rank_egress float,
    rank_egress_unicast float, link_traffic float, link_traffic_unicast float, note text,
    rank_ingress float, rank_ingress_unicast float, algorithm text, program text, busbw_gbps float,
    speedup float, protocol text, nccl_us float, global_bytes float, sequential_us float, alone_us text,
    exact_for text, predicted_tl int, predicted_tb text, prediction text, bound_s float, course text,
    tc_factor float, tc_exact text, program_course text
""")
"""Name and type of every column, in order. The following need an explanation.

- ``congestion`` is in s/GB of M. ``tb_exact``, ``tc_exact`` and ``congestion_exact`` are the fractions, T_C
  in units of M γ.
- ``seeds`` is the number of seeds that were tried, and ``schedule`` the content hash of the schedule.
- ``message`` says why there is no result, and ``note`` what becomes of a size that does not divide into the
  chunks.
- ``algorithm`` is the method whose schedule the portfolio chose. ``program`` is what ``solver`` solved, by
  its number in the paper.
- ``speedup`` is the least time of the config's baseline at the same size over this one.
- ``protocol`` and ``nccl_us`` are NCCL's choice, and the microseconds of its own model.
- ``global_bytes`` is what leaves hosts, each byte as often as it does.
- ``bound_s`` is the seconds that the bound took, its method's own left out.
- ``course`` is of several seeds, in order: the seconds of each and its time in microseconds at the largest
  size (``0.02 105.5; 0.03 99.1``), in the row of that size.
- ``program_course`` is of each mixed-integer program that the method solved: seconds, incumbent and bound
  (``0.1 - 2; 0.3 4 2 | 0.5 3 3``).
- Mixed collectives have ``sequential_us``, the time of the parts one after the other, and ``alone_us``, the
  time of each by itself, in order.
- Expansions have ``predicted_tl`` and ``predicted_tb``, T_L and T_B in M/B as the theorems predict them, and
  ``prediction``, whether T_B is equal to that or at most that.
- Flow schedules have ``slices`` that pipeline them at this size; ``trees`` a root (k), their largest and mean
  ``height`` in hops between ranks; and the seconds to find the bottleneck, remove the switches and pack the
  trees.
- In units of M, ``rank_egress`` is what the busiest rank of a flow schedule sends, ``rank_ingress`` what it
  receives and ``link_traffic`` what crosses all links. They are with in-network multicast and aggregation,
  and with ``_unicast`` without."""
TEXTS = {name: str for name, kind in COLUMNS.items() if kind == pa.string()}
"""The columns of texts, which are read as such even if all look like numbers."""
PARQUET, CSV = "results.parquet", "results.csv"
"""The names of the tables of a run."""
FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
"""The beginning of a cell that a spreadsheet would take for a formula, after any number of marks ``'``."""


def to_table(rows: Iterable[Row], columns: Mapping[str, Any] = COLUMNS) -> Any:
    """Return rows as an arrow table; a column that a row lacks is empty."""
    filled = [{name: row.get(name) for name in columns} for row in rows]
    return pa.Table.from_pylist(filled, schema=pa.schema(list(columns.items())))


@contextmanager
def tables(
    directory: Path, columns: Mapping[str, Any] = COLUMNS
) -> Iterator[Callable[[Iterable[Row]], None]]:
    """Give a function that adds rows to ``results.parquet`` and ``results.csv``.

    Both take the place of the old ones at the end of the ``with`` block.

    Raises
    ------
    OSError
        If they can't be written.
    """
    schema = pa.schema(list(columns.items()))
    with (
        replacing(directory / PARQUET) as draft,
        replacing(directory / CSV) as text,
        pq.ParquetWriter(draft, schema) as parquet,
        text.open("w", newline="", encoding="utf-8") as file,
    ):
        waiting: list[Row] = []

        def flush(*, header: bool = False) -> None:
            table = to_table(waiting, columns)
            parquet.write_table(table)
            _append(table.to_pandas(integer_object_nulls=True, use_threads=False), file, header=header)
            waiting.clear()

        def write(rows: Iterable[Row]) -> None:
            for row in rows:
                waiting.append(row)
                if len(waiting) == 1000:  # a batch of columns is faster than rows, and fits memory
                    flush()

        flush(header=True)
        yield write
        flush()


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV in one go; a mark, ``'``, keeps spreadsheets from taking a text for a formula."""
    with replacing(path) as draft, draft.open("w", newline="", encoding="utf-8") as file:
        _append(frame, file, header=True)


def _append(frame: pd.DataFrame, file: TextIO, *, header: bool) -> None:
    """Write rows to a CSV file, texts that look like formulas with a mark."""
    marked = _changed(frame, lambda text: f"'{text}" if FORMULA.match(text) else text)
    # texts in quotes, as one may have a line's end in it
    marked.to_csv(file, index=False, header=header, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)


def read_csv(path: Path) -> pd.DataFrame:
    """Return a table that `write_csv` wrote, or one like it: without the marks, empty where a cell is.

    Raises
    ------
    InputError
        If the file can't be read.
    ValueError
        If it is no table.
    """
    with opened(path) as file:  # a topology may be called NA; only an empty field is empty
        frame = pd.read_csv(file, keep_default_na=False, na_values=[""], dtype=TEXTS, low_memory=False)
    return _changed(frame, lambda text: text[1:] if text[:1] == "'" and FORMULA.match(text) else text)


def _changed(frame: pd.DataFrame, change: Callable[[str], str]) -> pd.DataFrame:
    """Return a table with its texts and the names of its columns changed, and nothing else."""

    def texts(column: pd.Series[Any]) -> pd.Series[Any]:
        if pd.api.types.is_numeric_dtype(column):
            return column
        cells = [change(cell) if isinstance(cell, str) else cell for cell in column]
        return pd.Series(cells, column.index, dtype=object)  # else whole numbers beside None become floats

    return pd.DataFrame({change(str(name)): texts(column) for name, column in frame.items()}, frame.index)


def read_frame(directory: Path) -> pd.DataFrame:
    """Return the results of a finished run, one row each.

    Raises
    ------
    InputError
        If they can't be read.
    """
    return _read(directory / PARQUET).to_pandas(use_threads=False)


def read_rows(directory: Path) -> list[dict[str, Any]]:
    """Return the rows of a finished run, None where a cell is empty.

    Raises
    ------
    InputError
        If they can't be read.
    """
    return [current_row(row) for row in _read(directory / PARQUET).to_pylist()]


def current_row(row: Row) -> dict[str, Any]:
    """Return a row of any version with the names of today: of its method, options and bound.

    Rows of a study of solvers have labels of solvers, which are no methods, and names of models. Labels of a
    study of training may be of several words, which no name of a method is.
    """
    if "limit_s" in row:
        return {**row, "model": current_model(row["model"])}
    found = dict(row)
    if isinstance(row.get("method"), str) and " " not in row["method"]:
        label = current_label(" ".join(filter(None, [row["method"], row.get("options")])))
        found["method"], _, options = label.partition(" ")
        found |= {"options": options} if row.get("options") else {}
    for name, current in (("algorithm", current_label), ("bound_kind", current_kind)):
        if isinstance(row.get(name), str):
            found[name] = current(row[name])
    return found


def _read(path: Path) -> Any:
    """Return an arrow table, read by this thread alone.

    Arrow's own threads may hold on to the file until Python ends, and then abort the process
    (https://github.com/apache/arrow/issues/34314).
    """
    try:
        with opened(path) as file, pq.ParquetFile(file) as parquet:
            return parquet.read(use_threads=False)
    except ValueError as error:
        raise InputError(f"{path}: can't be read: {error}") from error


def column_names(directory: Path) -> list[str]:
    """Return the columns of the results in a folder; none where there is no Parquet file."""
    return list(_read(directory / PARQUET).column_names) if (directory / PARQUET).exists() else []


SCHEDULES = "schedules"
"""The folder of a run that has its schedules."""
MANY_TRANSFERS = 10**6
"""Most transfers of a schedule that is kept as readable JSON. A larger one is kept as arrays (.npz)."""
KEPT_NAME = re.compile(r"([0-9a-f]{16,128})\.(json\.gz|npz)")
"""The name of a kept schedule: its content hash, and the format."""


def keep_schedule(schedule: Schedule, directory: Path) -> str:
    """Write a schedule into `directory`, unless it is there, and return its content hash.

    Raises
    ------
    InputError, OSError
        If it can't be written; no half file is left behind.
    """
    digest = content_hash(schedule)
    path = directory / _name_of(schedule, digest)
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        write_schedule(schedule, path)
    return digest


def packed(schedule: Schedule) -> tuple[str, str, bytes]:
    """Return a schedule's content hash, and the name and the content of the file that would keep it."""
    digest = content_hash(schedule)
    name = _name_of(schedule, digest)
    return digest, name, schedule_bytes(schedule, name)


def keep_file(name: str, data: bytes, directory: Path) -> None:
    """Write a file that `packed` made into `directory`, unless it is there.

    Raises
    ------
    InputError, OSError
        As `keep_schedule`.
    """
    if not (directory / name).exists():
        directory.mkdir(parents=True, exist_ok=True)
        write_whole(directory / name, lambda file: file.write(data))


def _name_of(schedule: Schedule, digest: str) -> str:
    """Return the name of the file that keeps a schedule with this content hash."""
    return f"{digest}.{'npz' if len(schedule) > MANY_TRANSFERS else 'json.gz'}"


def schedule_path(directory: Path, digest: str) -> Path | None:
    """Return the file of the schedule with that content hash, None if it was not kept."""
    paths = (directory / f"{digest}.{suffix}" for suffix in ("json.gz", "npz"))
    return next((path for path in paths if path.exists()), None)


def is_whole(path: Path, digest: str) -> bool:
    """Whether a file holds a schedule with that content hash."""
    try:
        return content_hash(read_schedule(path)) == digest
    except InputError:
        return False


def drop_schedules(directory: Path, keep: Collection[str]) -> None:
    """Remove the schedules whose content hash is not in `keep`; other files stay."""
    for path in directory.glob("*") if directory.is_dir() else ():
        name = KEPT_NAME.fullmatch(path.name)
        if name and name[1] not in keep:
            path.unlink()


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
