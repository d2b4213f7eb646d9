"""The schedule: a table of chunks and a table of transfers, under one of three clocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tutti.schedules.collective import Collective
from tutti.topologies.errors import InputError
from tutti.topologies.exact import INT32_MAX, BoolArray, Int32Array, Int64Array, IntArray, frozen, offsets_of
from tutti.topologies.topology import Topology

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("chunk", "route", "order", "count", "reduce")
"""Columns of the table of transfers. Each but the first two may be None."""
MOST_CHUNKS = INT32_MAX
"""Largest number of chunks: their numbers fit 32 bits."""
NO_COPY = -1
"""The entry of `Chunks.copy_of` for a chunk that is no copy."""


class Clock(StrEnum):
    """The meaning of `order` in a schedule."""

    STEP = "step"
    """The comm step, from 1; rows of one step happen together, on data held before the step."""

    TIME = "time"
    """The start in integer ticks, for the size that the schedule was made for."""

    FLOW = "flow"
    """Rows have no order: a row waits for every earlier row into its source that overlaps its chunk."""


@dataclass(frozen=True, eq=False)
class Chunks:
    """The chunk table: each item of the collective is tiled by its chunks, in table order.

    A sum may be made several times, of different parts each time: in *copies* of a chunk, which follow the
    chunk in the table. At each rank a copy is equal to its original until something arrives in the copy
    there. A rank that must end with the chunk may end with any of its copies instead.

    Parameters
    ----------
    item
        int32, shape (chunks,): row of `Collective.items`, non-decreasing.
    size
        int64, shape (chunks,): numerators over `denominator`, in units of M; zero only if the item's
        share is.
    denominator
        The common denominator.
    copy_of
        int32, shape (chunks,): the chunk or copy that each is a copy of, of the same size; -1 for chunks that
        tile the item. None if all do. Only items that are summed and end at every rank have copies.
    """

    item: Int32Array
    size: Int64Array
    denominator: int
    copy_of: Int32Array | None = None

    def __post_init__(self) -> None:
        """Freeze the arrays; if nothing is a copy, `copy_of` becomes None."""
        object.__setattr__(self, "item", frozen(self.item, np.int32))
        object.__setattr__(self, "size", frozen(self.size, np.int64))
        if self.copy_of is not None:
            copies = frozen(self.copy_of, np.int32) if (self.copy_of != NO_COPY).any() else None
            object.__setattr__(self, "copy_of", copies)

    def __len__(self) -> int:
        return len(self.item)

    @property
    def copy_of_or_empty(self) -> Int32Array:
        """`copy_of`, or an empty array if it is None, because kernels take one type."""
        return frozen([], np.int32) if self.copy_of is None else self.copy_of

    @property
    def tiling_size(self) -> Int64Array:
        """int64 (chunks,): `size`, but 0 for copies; computed at each call if there are any."""
        return self.size if self.copy_of is None else np.where(self.copy_of == NO_COPY, self.size, 0)

    @cached_property
    def original(self) -> Int32Array:
        """int32 (chunks,): the chunk that each copy is finally a copy of; other chunks themselves."""
        number = np.arange(len(self), dtype=np.int32)
        if self.copy_of is None:
            return number
        return np.maximum.accumulate(np.where(self.copy_of == NO_COPY, number, 0))

    @cached_property
    def first(self) -> Int64Array:
        """Offsets (items + 1,): the chunks of item i are first[i]..first[i + 1] - 1."""
        count = int(self.item[-1]) + 1 if len(self.item) else 0
        return np.searchsorted(self.item, np.arange(count + 1)).astype(np.int64)

    @cached_property
    def offset(self) -> Int64Array:
        """int64 (chunks + 1,): running total of sizes; the size of a run is a difference of two."""
        return offsets_of(self.size)

    def cut(self, parts: int | IntArray) -> Chunks:
        """Return the table with each chunk in equal parts, if none is a copy.

        `parts` is the number for all, or int (chunks,): the number for each, which divides the largest.
        """
        many = np.broadcast_to(parts, len(self))
        scale = int(many.max(initial=1))
        return Chunks(
            np.repeat(self.item, many), np.repeat(self.size * (scale // many), many), self.denominator * scale
        )

    @classmethod
    def even(cls, collective: Collective, per_item: int = 1) -> Chunks:
        """Return `per_item` equal chunks for every item.

        Raises
        ------
        InputError
            If `per_item` is less than 1, or there would be more chunks than 32 bits count.
        """
        if per_item < 1:
            raise InputError(f"{per_item} chunks a shard; at least 1 is needed")
        share = collective.items.share.reduced
        if per_item * len(share) > MOST_CHUNKS:
            raise InputError(f"{per_item} chunks a shard are too many: over {MOST_CHUNKS} chunks in all")
        item = np.repeat(np.arange(len(share), dtype=np.int32), per_item)
        return cls(item, np.repeat(share.numerators, per_item), share.denominator * per_item)


@dataclass(frozen=True, eq=False)
class Routes:
    """Link lists in CSR form: route r is links[offsets[r] : offsets[r + 1]], at least one link."""

    offsets: Int64Array
    links: Int32Array

    def __post_init__(self) -> None:
        """Freeze the arrays."""
        object.__setattr__(self, "offsets", frozen(self.offsets, np.int64))
        object.__setattr__(self, "links", frozen(self.links, np.int32))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def direct(cls, num_links: int) -> Routes:
        """Return the identity: route r is link r."""
        return cls(np.arange(num_links + 1), np.arange(num_links, dtype=np.int32))

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> Routes:
        """Return the routes with these link lists."""
        flat = [link for links in lists for link in links]
        return cls(offsets_of([len(links) for links in lists]), np.array(flat, dtype=np.int32))

    @classmethod
    def joined(cls, tables: Sequence[Routes]) -> Routes:
        """Return the routes of all tables, one table's after the other's."""
        lengths = np.concatenate([np.diff(table.offsets) for table in tables])
        return cls(offsets_of(lengths), np.concatenate([table.links for table in tables]))

    @property
    def lists(self) -> list[tuple[int, ...]]:
        """The links of each route, as `of` takes them."""
        return [tuple(links.tolist()) for links in np.split(self.links, self.offsets[1:-1])]

    @property
    def are_links(self) -> bool:
        """Whether route r is link r for every r."""
        return len(self.links) == len(self) and np.array_equal(self.links, np.arange(len(self)))


class TransferColumns(NamedTuple):
    """Three columns of the transfer table, as kernels take them; `counts` may be empty."""

    chunk: Int32Array
    counts: Int32Array
    route: Int32Array


@dataclass(frozen=True, eq=False, repr=False)
class Schedule:
    """A table of transfers: which chunks go over which route, and in which order.

    Rows of the table are in the order in which they are replayed. `transfers` and `messages` return data
    frames.

    Parameters
    ----------
    topology, collective
        The problem that the schedule solves.
    clock
        The meaning of `order`.
    chunks
        The table of chunks.
    chunk
        int32, shape (transfers,): the first chunk of each row.
    route
        int32, shape (transfers,): a row of `routes`, from which source and destination follow.
    order
        uint16, uint32 or int64, shape (transfers,), non-decreasing: the step, or the start in ticks; None in
        the flow clock.
    count
        int32, shape (transfers,): the number of consecutive chunks of one item that a row carries; None: one.
    reduce
        bool, shape (transfers,): whether the destination adds what arrives to what it holds, instead of
        overwriting it; None: nowhere.
    routes
        The routes as lists of links; None: route r is link r.
    tick
        Seconds of a tick, exact; in the time clock only.
    size
        M in bytes, exact, for which a schedule in the time clock was made.
    claims
        Exact values that the method states (``tl_steps``, ``tb``, ``congestion``); `verify` checks them.
    stats
        Facts about the synthesis (``build_s``, ``solve_s``, ``variables``, ``constraints``, ``solver``,
        ``solver_gap``, ...), for the columns of a result row. They are not written to the schedule's file.
        ``bounds`` holds lower bounds that the method proved (`models.bounds.Bound`); a gap may be to one of
        them after its certificate is checked.

    Examples
    --------
    >>> import tutti
    >>> schedule = tutti.synthesize("ring:3", "allgather", "3MB", method="direct").schedule
    >>> schedule
    <Schedule allgather on ring:3: 6 transfers, step clock>
    >>> schedule.transfers()[["source", "target"]].head(2).values.tolist()
    [[0, 1], [1, 2]]
    """

    topology: Topology
    collective: Collective
    clock: Clock
    chunks: Chunks
    chunk: Int32Array
    route: Int32Array
    order: npt.NDArray[np.integer[Any]] | None = None
    count: Int32Array | None = None
    reduce: BoolArray | None = None
    routes: Routes | None = None
    tick: Fraction | None = None
    size: Fraction | None = None
    claims: Mapping[str, Fraction | int] = field(default_factory=dict)
    stats: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Freeze the arrays; a route table that is the identity becomes None."""
        object.__setattr__(self, "clock", Clock(self.clock))
        columns = {"chunk": np.int32, "route": np.int32, "count": np.int32, "reduce": np.bool_}
        for name, dtype in columns.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, frozen(value, dtype))
        if self.order is not None:
            kept = self.order.dtype if self.order.dtype in (np.uint16, np.uint32) else np.int64
            object.__setattr__(self, "order", frozen(self.order, kept))
        if self.routes is not None and len(self.routes) == self.topology.num_links and self.routes.are_links:
            object.__setattr__(self, "routes", None)

    def __repr__(self) -> str:
        """Return the problem and the length of the table, because the arrays would fill pages."""
        return (
            f"<Schedule {self.collective} on {self.topology.name}: {len(self)} transfers, {self.clock} clock>"
        )

    def __len__(self) -> int:
        return len(self.chunk)

    @cached_property
    def route_table(self) -> Routes:
        """The routes, also if each is one link."""
        return self.routes if self.routes is not None else Routes.direct(self.topology.num_links)

    @cached_property
    def route_source(self) -> Int32Array:
        """int32 (routes,): the node that each route leaves."""
        table = self.route_table
        return self.topology.source[table.links[table.offsets[:-1]]]

    @cached_property
    def route_target(self) -> Int32Array:
        """int32 (routes,): the node that each route enters."""
        table = self.route_table
        return self.topology.target[table.links[table.offsets[1:] - 1]]

    @property
    def source(self) -> Int32Array:
        """int32 (transfers,): computed at each call."""
        return self.route_source[self.route]

    @property
    def target(self) -> Int32Array:
        """int32 (transfers,): computed at each call."""
        return self.route_target[self.route]

    @property
    def load(self) -> Int64Array:
        """int64 (transfers,): the load of each row, over `chunks.denominator`; computed at each call."""
        if self.count is None:
            return self.chunks.size[self.chunk]
        return self.chunks.offset[self.chunk + self.count] - self.chunks.offset[self.chunk]

    @property
    def counts(self) -> Int32Array:
        """int32 (transfers,): `count`, or ones if it is None; computed at each call."""
        return np.ones(len(self), np.int32) if self.count is None else self.count

    @property
    def adds(self) -> BoolArray:
        """Booleans (transfers,): `reduce`, or all false if it is None; computed at each call."""
        return np.zeros(len(self), np.bool_) if self.reduce is None else self.reduce

    @property
    def count_or_empty(self) -> Int32Array:
        """`count`, or an empty array if it is None, because kernels take one type."""
        return frozen([], np.int32) if self.count is None else self.count

    @property
    def columns(self) -> TransferColumns:
        """Chunk, count and route of every row, for kernels."""
        return TransferColumns(self.chunk, self.count_or_empty, self.route)

    @property
    def reduce_or_empty(self) -> BoolArray:
        """`reduce`, or an empty array if it is None, because kernels take one type."""
        return frozen([], np.bool_) if self.reduce is None else self.reduce

    def replace(self, **changes: Any) -> Schedule:
        """Return a copy with these fields changed."""
        return replace(self, **changes)

    def taking(self, rows: BoolArray | IntArray, **changes: Any) -> Schedule:
        """Return a copy with the rows that a mask or an array of indices selects, and these changes."""
        columns = {name: getattr(self, name) for name in COLUMNS if name not in changes}
        taken = {name: None if column is None else column[rows] for name, column in columns.items()}
        return self.replace(**taken, **changes)

    def transfers(self) -> pd.DataFrame:
        """Return a data frame with one row for each transfer, in table order.

        Columns: ``order`` (the comm step, or seconds in the time clock; none in a flow), ``source`` and
        ``target`` (nodes), ``links`` (numbers, with spaces), ``chunk`` (the first), ``count``, ``share`` (of
        M, a float) and ``reduce``.
        """
        import pandas as pd  # slow to import

        names = [" ".join(map(str, links)) for links in self.route_table.lists]
        order, unit = self.order, 1 if self.tick is None else float(self.tick)
        return pd.DataFrame(
            {
                **({} if order is None else {"order": order * unit}),
                "source": self.source,
                "target": self.target,
                "links": np.array(names, dtype=object)[self.route],
                "chunk": self.chunk,
                "count": self.counts,
                "share": self.load / self.chunks.denominator,
                "reduce": self.adds,
            }
        )

    def messages(self, size: Fraction | int | str) -> pd.DataFrame:
        """Return a data frame of messages at a size: which link each holds, from when to when, in seconds."""
        return resolve_name("tutti.schedules.simulation.simulate:message_frame")(self, size)


def joined_counts(parts: Sequence[Schedule]) -> Int32Array | None:
    """Return the column `Schedule.count` of all rows of several schedules, or None if none has it."""
    have = any(part.count is not None for part in parts)
    return np.concatenate([part.counts for part in parts]) if have else None


def joined_adds(parts: Sequence[Schedule]) -> BoolArray | None:
    """Return the column `Schedule.reduce` of all rows of several schedules, or None if none has it."""
    have = any(part.reduce is not None for part in parts)
    return np.concatenate([part.adds for part in parts]) if have else None


def step_numbers(steps: npt.ArrayLike) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Return comm steps as a column `Schedule.order`, in the narrowest of its types."""
    numbers = np.asarray(steps, dtype=np.int64)
    fits = numbers.max(initial=0) <= np.iinfo(np.uint16).max
    return numbers.astype(np.uint16 if fits else np.uint32)
