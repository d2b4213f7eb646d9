"""What a schedule is, in one word: the hash that names its file."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from schedules.schedule import Schedule

_VERSION = "tutti.content/1"
_BLOCK = 2**20
"""Rows hashed at a time: columns of any width are hashed as 64-bit integers, without a copy of the whole."""


def content_hash(schedule: Schedule) -> str:
    """Return the SHA-256, in hexadecimal, of what a schedule says, however it is stored.

    It covers the network's links, the collective, the clock (with tick and size) and the tables; not names
    and labels, claims or stats.
    """
    digest = hashlib.sha256()
    digest.update(json.dumps(_frame(schedule), sort_keys=True).encode())
    for column in _columns(schedule):
        digest.update(len(column).to_bytes(8, "little"))
        for begin in range(0, len(column), _BLOCK):
            digest.update(column[begin : begin + _BLOCK].astype("<i8").tobytes())
    return digest.hexdigest()


def _frame(schedule: Schedule) -> dict[str, Any]:
    topology, what = schedule.topology, schedule.collective
    return {
        "version": _VERSION,
        "ranks": topology.num_ranks,
        "nodes": topology.num_nodes,
        "multicast": sorted(topology.multicast),
        "aggregate": sorted(topology.aggregate),
        "units": [topology.bandwidth.reduced.denominator, topology.alpha.reduced.denominator],
        "kind": what.kind,
        "root": what.root,
        "shards": _texts(what.shards),
        "groups": what.groups,
        "clock": schedule.clock,
        "tick": _texts([schedule.tick]),
        "size": _texts([schedule.size]),
        "denominator": schedule.chunks.denominator // _common(schedule),
        "counts": _counts(schedule) is not None,
        "reduces": _reduces(schedule) is not None,
        "orders": schedule.order is not None,
        **({"parts": [str(part) for part in what.parts]} if what.parts else {}),
    }


def _texts(values: Any) -> list[str] | None:
    return None if values is None else [str(Fraction(v)) if v is not None else "" for v in values]


def _common(schedule: Schedule) -> int:
    """Return what the sizes of chunks and their denominator have in common."""
    sizes = int(np.gcd.reduce(schedule.chunks.size, initial=0))
    return math.gcd(schedule.chunks.denominator, sizes) or 1


def _counts(schedule: Schedule) -> npt.NDArray[Any] | None:
    """Return the counts, or None where each is 1."""
    return None if schedule.count is None or (schedule.count == 1).all() else schedule.count


def _reduces(schedule: Schedule) -> npt.NDArray[Any] | None:
    """Return the reduce flags, or None where none is set."""
    return None if schedule.reduce is None or not schedule.reduce.any() else schedule.reduce


def _columns(schedule: Schedule) -> Iterator[npt.NDArray[Any]]:
    topology, chunks, table = schedule.topology, schedule.chunks, schedule.route_table
    yield from (topology.source, topology.target)
    yield from (topology.bandwidth.reduced.numerators, topology.alpha.reduced.numerators)
    yield from (chunks.item, chunks.size // _common(schedule), table.offsets, table.links)
    optional = (schedule.order, _counts(schedule), _reduces(schedule))
    yield from (schedule.chunk, schedule.route, *(column for column in optional if column is not None))
