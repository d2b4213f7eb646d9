"""The files of a run: its table of results and its schedules; a file is there whole, or not at all."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from schedules.files.schedule_file import content_hash, write_schedule
from schedules.schedule import Schedule

Row = Mapping[str, Any]
COLUMNS: dict[str, Any] = {
    "topology": pa.string(),
    "nodes": pa.int64(),
    "switches": pa.int64(),
    "links": pa.int64(),
    "collective": pa.string(),
    "size_bytes": pa.int64(),
    "method": pa.string(),
    "kind": pa.string(),
    "options": pa.string(),
    "seed": pa.int64(),
    "status": pa.string(),
    "message": pa.string(),
    "synth_s": pa.float64(),
    "build_s": pa.float64(),
    "solve_s": pa.float64(),
    "peak_rss_mb": pa.float64(),
    "time_us": pa.float64(),
    "algbw_gbps": pa.float64(),
    "tl_steps": pa.int64(),
    "tb_factor": pa.float64(),
    "congestion": pa.float64(),
    "bound_us": pa.float64(),
    "bound_kind": pa.string(),
    "gap": pa.float64(),
    "verified": pa.bool_(),
    "variables": pa.int64(),
    "constraints": pa.int64(),
    "solver": pa.string(),
    "solver_gap": pa.float64(),
    "tb_exact": pa.string(),
    "congestion_exact": pa.string(),
    "clock": pa.string(),
    "transfers": pa.int64(),
    "seeds": pa.int64(),
    "verify_s": pa.float64(),
    "simulate_s": pa.float64(),
    "schedule": pa.string(),
    "slices": pa.int64(),
    "trees": pa.int64(),
    "height": pa.int64(),
    "mean_height": pa.float64(),
    "search_s": pa.float64(),
    "removal_s": pa.float64(),
    "packing_s": pa.float64(),
    "rank_egress": pa.float64(),
    "rank_egress_unicast": pa.float64(),
    "link_traffic": pa.float64(),
    "link_traffic_unicast": pa.float64(),
    "note": pa.string(),
    "rank_ingress": pa.float64(),
    "rank_ingress_unicast": pa.float64(),
    "algorithm": pa.string(),
    "program": pa.string(),
}
"""Name and type of every column, in order. ``congestion`` is in s/GB of M; ``tb_exact`` and
``congestion_exact`` are the fractions; ``seeds``: how many were tried; ``schedule``: its content hash;
``message``: why there is no result; ``note``: what becomes of a size that does not divide into the chunks;
``algorithm``: whose schedule the portfolio chose; ``program``: what ``solver`` solved, by its number in the
paper.

Of flow schedules: ``slices`` that pipeline it at this size; ``trees`` a root (k), their largest and mean
``height`` in hops between ranks, and the seconds to find the bottleneck, remove the switches and pack the
trees. In units of M, what the busiest rank sends (``rank_egress``) and receives (``rank_ingress``) and what
crosses all links, with in-network multicast and aggregation and (``_unicast``) without."""
MEASURED = frozenset(
    {
        *("synth_s", "build_s", "solve_s", "verify_s", "simulate_s", "peak_rss_mb"),
        *("search_s", "removal_s", "packing_s"),
    }
)
"""The columns that differ from run to run."""
PARQUET, CSV = "results.parquet", "results.csv"
MANY_TRANSFERS = 10**6
"""Above this a schedule is kept as arrays (.npz), up to it as readable JSON."""
NAME = re.compile(r"([0-9a-f]{16,128})\.(json\.gz|npz)")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give the path of a draft, which takes the place of `path` at the end of the ``with`` block.

    Raises
    ------
    OSError
        If it can't be written; it names `path` (a full disk does not), and no draft is left behind.
    """
    draft = path.with_name(f".{path.name}")
    try:
        yield draft
        draft.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        draft.unlink(missing_ok=True)


def to_table(rows: Iterable[Row], columns: Mapping[str, Any] = COLUMNS) -> Any:
    """Return rows as an arrow table; a column that a row lacks is empty."""
    filled = [{name: row.get(name) for name in columns} for row in rows]
    return pa.Table.from_pylist(filled, schema=pa.schema(list(columns.items())))


def write_results(rows: Iterable[Row], directory: Path, columns: Mapping[str, Any] = COLUMNS) -> None:
    """Write ``results.parquet`` and ``results.csv``; either the old file or the new one is there.

    Raises
    ------
    OSError
        If they can't be written.
    """
    table = to_table(rows, columns)
    with replacing(directory / PARQUET) as draft:
        pq.write_table(table, draft)
    write_csv(table.to_pandas(integer_object_nulls=True), directory / CSV)


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV in one go."""
    with replacing(path) as draft:
        frame.to_csv(draft, index=False, lineterminator="\n")


def read_results(directory: Path) -> pd.DataFrame:
    """Return the results of a finished run, one row each."""
    return pd.read_parquet(directory / PARQUET)


def keep_schedule(schedule: Schedule, directory: Path) -> str:
    """Write a schedule into `directory`, unless it is there, and return its content hash.

    Raises
    ------
    InputError, OSError
        If it can't be written; no half file is left behind.
    """
    digest = content_hash(schedule)
    suffix = "npz" if len(schedule) > MANY_TRANSFERS else "json.gz"
    path = directory / f"{digest}.{suffix}"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        write_schedule(schedule, path)
    return digest


def schedule_path(directory: Path, digest: str) -> Path | None:
    """Return the file of the schedule with that content hash, None if it was not kept."""
    paths = (directory / f"{digest}.{suffix}" for suffix in ("json.gz", "npz"))
    return next((path for path in paths if path.exists()), None)


def drop_schedules(directory: Path, keep: Collection[str]) -> None:
    """Remove the schedules whose content hash is not in `keep`; other files stay."""
    for path in directory.glob("*") if directory.is_dir() else ():
        name = NAME.fullmatch(path.name)
        if name and name[1] not in keep:
            path.unlink()
