"""An allgather as expansions see it: rows (owner, part, link, step), with all shards cut into the same parts.

A `turned` table is an allgather on the transpose of its network. It uses the numbers of the network's own
nodes and links, which transposing keeps. Every expansion commutes with the transpose, so a reduce-scatter is
the reverse of the expansion of a turned table (dissertation, Corollary 1.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tutti.schedules.collective import Collective
from tutti.schedules.schedule import Chunks, Clock, Schedule, step_numbers
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import INT64_MAX, Int64Array, offsets_of
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose

MOST_ROWS = 10**8
"""Largest number of rows of a table; a row takes about 100 bytes while a table is expanded."""

MOST_CHUNKS = 2**31 - 1
"""Largest number of chunks of a schedule: chunk numbers are int32."""


class ShardRows(NamedTuple):
    """The rows of a `ShardTable`, one array for each of its columns."""

    owner: Int64Array
    first: Int64Array
    number: Int64Array
    link: Int64Array
    step: Int64Array


@dataclass(frozen=True, eq=False)
class ShardTable:
    """The rows of an allgather in the step clock, over single links.

    Parameters
    ----------
    topology
        The network whose nodes and links the rows use.
    turned
        Whether links are used against their direction.
    sizes
        int64, shape (parts,): the parts of every shard, in order; a shard is their sum.
    owner
        int64, shape (rows,): the node whose shard a row moves.
    first, count
        int64, shape (rows,): the run of parts that a row moves.
    link
        int64, shape (rows,): the link that it crosses.
    step
        int64, shape (rows,): from 1.
    """

    topology: Topology
    turned: bool
    sizes: Int64Array
    owner: Int64Array
    first: Int64Array
    count: Int64Array
    link: Int64Array
    step: Int64Array

    def __len__(self) -> int:
        return len(self.owner)

    @property
    def tail(self) -> Int64Array:
        """int64, shape (links,): the node that sends over each link."""
        return (self.topology.target if self.turned else self.topology.source).astype(np.int64)

    @property
    def head(self) -> Int64Array:
        """int64, shape (links,): the node that receives over each link."""
        return (self.topology.source if self.turned else self.topology.target).astype(np.int64)

    @property
    def steps(self) -> int:
        """T_L, in comm steps."""
        return int(self.step.max(initial=0))

    @property
    def rows(self) -> ShardRows:
        """The rows alone."""
        return ShardRows(self.owner, self.first, self.count, self.link, self.step)

    def taken(self, rows: Int64Array) -> ShardTable:
        """Return the table with these rows, in this order."""
        return ShardTable(self.topology, self.turned, self.sizes, *(column[rows] for column in self.rows))


def from_schedule(schedule: Schedule, topology: Topology, turned: bool) -> ShardTable:
    """Return the table of an allgather by steps, whose topology is `topology` or, if turned, its transpose.

    Raises
    ------
    InputError
        If shards are cut differently, or a route has several links.
    """
    table, parts = schedule.chunks, len(schedule.chunks) // topology.num_ranks
    sizes = (
        table.size.reshape(topology.num_ranks, parts) if parts * topology.num_ranks == len(table) else None
    )
    if sizes is None or (sizes != sizes[0]).any() or schedule.routes is not None or schedule.order is None:
        raise InputError(f"{schedule.collective} on {topology.name}: an expansion needs equally cut shards")
    chunk = schedule.chunk.astype(np.int64)
    count = np.ones(len(chunk)) if schedule.count is None else schedule.count
    return ShardTable(
        topology,
        turned,
        sizes[0].astype(np.int64),
        chunk // parts,
        chunk % parts,
        count.astype(np.int64),
        schedule.route.astype(np.int64),
        schedule.order.astype(np.int64),
    )


def to_schedule(table: ShardTable, topology: Topology, what: Collective) -> Schedule:
    """Return the allgather on `topology`, which has the links of the table's, or on its transpose.

    Raises
    ------
    NoSchedule
        If numbers outgrow the types of a schedule.
    """
    parts, ranks = len(table.sizes), topology.num_ranks
    denominator = int(table.sizes.sum()) * ranks
    if denominator > INT64_MAX or parts * ranks > MOST_CHUNKS:
        raise NoSchedule(f"expansion on {topology.name}: {parts} parts a shard are too many for a table")
    sorted_rows = table.taken(np.argsort(table.step, kind="stable"))
    chunks = Chunks(
        np.repeat(np.arange(ranks, dtype=np.int32), parts), np.tile(table.sizes, ranks), denominator
    )
    return Schedule(
        topology=transpose(topology) if table.turned else topology,
        collective=what,
        clock=Clock.STEP,
        chunks=chunks,
        chunk=(sorted_rows.owner * parts + sorted_rows.first).astype(np.int32),
        route=sorted_rows.link.astype(np.int32),
        order=step_numbers(sorted_rows.step),
        count=None if parts == 1 else sorted_rows.count.astype(np.int32),
    )


def refined(table: ShardTable, cuts: int) -> ShardTable:
    """Return the same rows with every shard also cut into `cuts` equal parts.

    Raises
    ------
    NoSchedule
        If sizes do not fit 64 bits.
    """
    whole = int(table.sizes.sum())
    scale = math.lcm(whole, cuts) // whole
    if whole * scale > INT64_MAX:
        raise NoSchedule(f"expansion on {table.topology.name}: the shards would be cut too finely")
    old = offsets_of(table.sizes) * scale
    new = np.union1d(old, np.arange(cuts + 1) * (whole * scale // cuts))
    place = np.searchsorted(new, old)
    return replace(
        table,
        sizes=np.diff(new),
        first=place[table.first],
        count=place[table.first + table.count] - place[table.first],
    )


def equal_parts(table: ShardTable, number: int) -> tuple[Int64Array, Int64Array]:
    """Return the runs of parts (first, count) of each of `number` equal pieces, which must not cut parts."""
    ends = offsets_of(table.sizes)
    place = np.searchsorted(ends, np.arange(number + 1) * (int(ends[-1]) // number))
    return place[:-1], np.diff(place)


def rank_within(group: Int64Array) -> Int64Array:
    """Return how many earlier entries are of the same group, for each entry.

    Examples
    --------
    >>> rank_within(np.array([1, 0, 1, 1])).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(group, kind="stable")
    counts = np.bincount(group)
    result = np.empty(len(group), dtype=np.int64)
    result[order] = np.arange(len(group)) - np.repeat(offsets_of(counts)[:-1], counts)
    return result


def check_rows(name: str, rows: int) -> None:
    """Refuse a table of too many rows.

    Raises
    ------
    NoSchedule
        If there are more than `MOST_ROWS`.
    """
    if rows > MOST_ROWS:
        raise NoSchedule(f"expansion on {name}: {rows} transfers; at most {MOST_ROWS}")


def spread(counts: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return, for rows repeated `counts` times, the row and the number of the repetition, from 0."""
    row = np.repeat(np.arange(len(counts)), counts)
    return row, np.arange(len(row)) - offsets_of(counts)[:-1][row]
