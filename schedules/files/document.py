"""The content of a schedule file: a header of JSON values, and a named column of integers or booleans each.

The names of columns are those of the JSON, with a point: ``chunks.owner``, ``transfers.src``. The routes are
two columns in CSR form, ``routes.offsets`` and ``routes.links``. A reader checks every value and every column
before it is used as an index, and raises an `InputError` that begins with `where`. `schedules.verify` checks
whether the schedule is correct.

Files of programs are complete. People may leave out what follows from the rest (docs/schedule_format.md). The
network and the collective may be texts, the chunks may be their number per datum, and routes of one link may
be named by their ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tutti.schedules.byte_matrix import ByteMatrix
from tutti.schedules.collective import Collective, Kind, collective, concurrent
from tutti.schedules.schedule import MOST_CHUNKS, NO_COPY, Chunks, Clock, Routes, Schedule
from tutti.topologies.errors import InputError, shortened, suggestion, within
from tutti.topologies.exact import INT64_MAX, Int32Array, json_number
from tutti.topologies.files import from_node_link, to_node_link
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Topology
from tutti.topologies.units import exact_number, parse_time

MOST_COUNTED = 2**24
"""The most chunks that a file may have by stating their number, without listing them. With a larger value a
file of a few bytes can make a reader take more memory, about 60 bytes a chunk."""


def check_keys(keys: Iterable[str], allowed: Iterable[str], where: str) -> None:
    """Refuse a key that is not allowed, suggesting one that is."""
    known = set(allowed)
    for key in keys:
        if key not in known:
            raise InputError(f"{where}: unknown key '{key}'{suggestion(key, known)}")


def mapping(value: Any, where: str) -> Mapping[str, Any]:
    """Return a JSON object."""
    if not isinstance(value, Mapping):
        raise InputError(f"{where} must be an object, not {shown(value)}")
    return value


def lists_in(value: Any, where: str) -> list[list[Any]]:
    """Return a list of lists."""
    if not isinstance(value, list):
        raise InputError(f"{where} must be a list of lists")
    for place, links in enumerate(value):
        if not isinstance(links, list):
            raise InputError(f"{where}[{place}] is {shown(links)}; it must be a list")
    return value


def integer(value: Any, low: int, high: int, where: str) -> int:
    """Return an integer in low..high."""
    if type(value) is not int or not low <= value <= high:
        raise InputError(f"{where} is {shown(value)}; it must be an integer in {low}..{high}")
    return value


def exact(value: Any, where: str) -> Fraction:
    """Return an integer, a Fraction, or the number in a text (``"3/4"``)."""
    if isinstance(value, str):
        return Fraction(within(where, lambda: exact_number(value)))
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        raise InputError(f'{where} is {shown(value)}; it must be an exact number, such as 3, 0.75 or "3/4"')
    return Fraction(value)


def positive(value: Any, where: str) -> Fraction:
    """Return a positive exact number."""
    number = exact(value, where)
    if number <= 0:
        raise InputError(f"{where} is {shown(value)}; it must be positive")
    return number


def shown(value: Any) -> str:
    """Return a value for an error: short, on one line."""
    if isinstance(value, list | Mapping):
        return "a list" if isinstance(value, list) else "an object"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value) if isinstance(value, str) else str(value)
    return shortened(text, 60)


FORMAT = "tutti.schedule/1"
Column = npt.NDArray[Any]
Columns = dict[str, Column]

KEYS = (
    "format",
    "topology",
    "collective",
    "clock",
    "denominator",
    "tick",
    "size_bytes",
    "claims",
    "chunks",
    "routes",
)
"""All keys of a file but the table ``transfers``."""
TRANSFER_COLUMNS = ("chunk", "count", "src", "dst", "route", "order", "reduce")
_NEEDED = ("format", "topology", "collective", "clock")
_OPTIONAL = ("tick", "size_bytes", "claims")
_TABLES = {
    "chunks": {"owner", "for", "group", "size", "copy_of"},
    "transfers": set(TRANSFER_COLUMNS),
}
_ROUTES = {"offsets", "links"}
_COLLECTIVE = {"kind", "num_ranks", "root", "shards", "groups", "parts", "weights", "matrix"}
_BOOLEAN = "transfers.reduce"


def header_of(schedule: Schedule) -> dict[str, Any]:
    """Return everything except the tables, as JSON values."""
    header: dict[str, Any] = {
        "format": FORMAT,
        "topology": to_node_link(schedule.topology),
        "collective": collective_document(schedule.collective),
        "clock": str(schedule.clock),
        "denominator": schedule.chunks.denominator,
    }
    if schedule.tick is not None:
        header["tick"] = f"{schedule.tick} s"
    if schedule.size is not None:
        header["size_bytes"] = json_number(schedule.size)
    header["claims"] = {name: json_number(Fraction(value)) for name, value in schedule.claims.items()}
    return header


def columns_of(schedule: Schedule) -> Columns:
    """Return the tables, one column per name."""
    items, item = schedule.collective.items, schedule.chunks.item
    columns: Columns = {"chunks.owner": items.owner[item]}
    if (items.dest >= 0).any():
        columns["chunks.for"] = items.dest[item]
    if len(schedule.collective.members) > 1:
        columns["chunks.group"] = items.group[item]
    columns["chunks.size"] = schedule.chunks.size
    if schedule.chunks.copy_of is not None:
        columns["chunks.copy_of"] = schedule.chunks.copy_of
    columns |= {"routes.offsets": schedule.route_table.offsets, "routes.links": schedule.route_table.links}
    columns["transfers.chunk"] = schedule.chunk
    optional = {"count": schedule.count, "order": schedule.order, "reduce": schedule.reduce}
    columns |= {"transfers.src": schedule.source, "transfers.dst": schedule.target}
    columns["transfers.route"] = schedule.route
    return columns | {f"transfers.{name}": column for name, column in optional.items() if column is not None}


def to_document(schedule: Schedule) -> dict[str, Any]:
    """Return the schedule as JSON values, in the form of a schedule file."""
    document, columns = header_of(schedule), columns_of(schedule)
    offsets, links = columns.pop("routes.offsets").tolist(), columns.pop("routes.links").tolist()
    document |= {"chunks": {}, "routes": [links[a:b] for a, b in pairwise(offsets)], "transfers": {}}
    for name, column in columns.items():
        table, key = name.split(".")
        document[table][key] = column.tolist()
    return document


def from_document(document: Any, where: str = "the schedule", lines: Sequence[int] | None = None) -> Schedule:
    """Return the schedule that JSON values describe.

    Parameters
    ----------
    document
        A result of `to_document`; a number that is no integer is a Fraction, not a float.
    where
        The start of every error message.
    lines
        The line of each transfer in the file, if each has its own.

    Raises
    ------
    InputError
        If a key is missing or unknown, or a value is wrong.
    """
    document = mapping(document, where)
    _check_format(document, where)
    counted = type(document.get("chunks")) is int
    tables = [table for table in _TABLES if not (counted and table == "chunks")]
    header = {key: value for key, value in document.items() if key not in (*tables, "routes")}
    columns: Columns = {}
    for table in tables:
        if table not in document:
            raise InputError(f"{where}: no key '{table}'")
        for key, values in mapping(document[table], f"{where}: {table}").items():
            columns[f"{table}.{key}"] = _column(f"{table}.{key}", values, where, lines)
    if "routes" in document:
        lists = lists_in(document["routes"], f"{where}: routes")
        flat = [link for links in lists for link in links]
        columns["routes.offsets"] = np.cumsum([0, *map(len, lists)])
        columns["routes.links"] = _column("routes", flat, where)
    return schedule_of(header, columns, where, lines)


def schedule_of(header: Any, columns: Columns, where: str, lines: Sequence[int] | None = None) -> Schedule:
    """Return the schedule of an unchecked header and columns; `lines` is as in `from_document`.

    Raises
    ------
    InputError
        As `from_document`.
    """
    header = mapping(header, where)
    _check_format(header, where)
    needed = (*_NEEDED, "chunks" if "chunks" in header else "denominator")
    check_keys(header, {*needed, *_OPTIONAL}, where)
    for key in needed:
        if key not in header:
            raise InputError(f"{where}: no key '{key}'")
    given = header["topology"]
    if isinstance(given, str):
        topology = within(where, lambda: parse_topology(given))
    else:
        topology = within(f"{where}: topology", lambda: from_node_link(given))
    what = read_collective(header["collective"], topology, f"{where}: collective")
    value = header["clock"]
    clocks = [str(clock) for clock in Clock]
    if value not in clocks:
        raise InputError(f"{where}: unknown clock {shown(value)}{suggestion(str(value), clocks)}")
    clock = Clock(value)
    reader = _Columns(where, columns, lines)
    reader.check_names()
    count = integer(header.get("chunks", 1), 1, MOST_CHUNKS, f"{where}: chunks")
    check_counted(what, count, len(columns.get("chunks.owner", ())), where)
    if "chunks" in header:
        chunks = within(where, lambda: Chunks.even(what, count))
    else:
        denominator = integer(header["denominator"], 1, INT64_MAX, f"{where}: denominator")
        chunks = Chunks(reader.items(what), reader.integers("chunks.size"), denominator, reader.copy_of())
    return reader.schedule(topology, what, clock, chunks, _quantities(header, where))


def check_counted(what: Collective, count: int, listed: int, where: str) -> None:
    """Refuse too many chunks before arrays of them are made.

    Parameters
    ----------
    what
        The collective. Its items are not listed for this.
    count
        The number of chunks of each item.
    listed
        The number of rows of chunks in the file. This number of chunks is always allowed.
    where
        The start of the error message.

    Raises
    ------
    InputError
        If there are more than `MOST_COUNTED`, and more than are listed.
    """
    if count * what.num_items > max(MOST_COUNTED, listed):
        many = f"{count} chunks for each of {what.num_items} data of {what} are too many"
        raise InputError(f"{where}: {many}; at most {MOST_COUNTED} in all, or as many as the file lists")


def _quantities(header: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return tick, size and claims."""
    tick, size = header.get("tick"), header.get("size_bytes")
    claims = mapping(header.get("claims", {}), f"{where}: claims")
    if isinstance(tick, str):
        tick = within(f"{where}: tick", lambda: parse_time(tick))
    return {
        "tick": None if tick is None else positive(tick, f"{where}: tick"),
        "size": None if size is None else positive(size, f"{where}: size_bytes"),
        "claims": {name: exact(value, f"{where}: claims.{name}") for name, value in claims.items()},
    }


@dataclass(frozen=True)
class _Columns:
    """Reads the tables. Errors begin with `where`; `lines` are the transfers' lines in the file."""

    where: str
    columns: Columns
    lines: Sequence[int] | None = None

    def cell(self, name: str, row: int) -> str:
        return _cell(name, row, self.where, self.lines)

    def check_names(self) -> None:
        for name in self.columns:
            table, _, key = name.partition(".")
            check_keys([table], [*_TABLES, "routes"], self.where)
            check_keys([key], _TABLES.get(table, _ROUTES), f"{self.where}: {table}")
        for table in _TABLES:
            names = [name for name in self.columns if name.startswith(f"{table}.")]
            lengths = {name: len(self.columns[name]) for name in names}
            if len(set(lengths.values())) > 1:
                listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
                raise InputError(f"{self.where}: columns of one table must have one length: {listed}")

    def integers(self, name: str, low: int | None = None, high: int | None = None) -> Column:
        """Return a required column, whose values must lie in low..high."""
        if name not in self.columns:
            raise InputError(f"{self.where}: no key '{name}'")
        column = self.columns[name]
        bad = np.zeros(0, dtype=np.int64)
        if low is not None and len(column) and column.min() < low:
            bad = np.flatnonzero(column < low)
        elif high is not None and len(column) and column.max() > high:
            bad = np.flatnonzero(column > high)
        if len(bad):
            allowed = f"at least {low}" if high is None else f"{low}..{high}" if high >= 0 else "none"
            raise InputError(f"{self.cell(name, bad[0])} is {column[bad[0]]}; allowed: {allowed}")
        return column

    def items(self, what: Collective) -> Int32Array:
        """Return the item of each chunk, found by its owner, its destination (all-to-all) and its group.

        The group is needed only if ranks are in several groups.
        """
        items, wide = what.items, np.int64(what.num_ranks + 1)
        owner = self.integers("chunks.owner", 0, what.num_ranks - 1).astype(np.int64)
        dest = np.full_like(owner, -1)
        if (items.dest >= 0).any():
            # -1 is for no rank: parts of a mixed collective may be no all-to-all
            least = min(0, int(items.dest.min()))
            dest = self.integers("chunks.for", least, what.num_ranks - 1).astype(np.int64)
        elif "chunks.for" in self.columns:
            raise InputError(f"{self.where}: chunks.for is for all-to-all; this is {what.kind}")
        keys, wanted = items.owner * wide + items.dest + 1, owner * wide + dest + 1
        if what.shares_ranks:
            group = self.integers("chunks.group", 0, len(what.members) - 1).astype(np.int64)
            keys, wanted = keys + items.group * wide * wide, wanted + group * wide * wide
        order = np.argsort(keys, kind="stable")
        found = np.searchsorted(keys[order], wanted).clip(max=len(keys) - 1)
        item = order[found]
        bad = np.flatnonzero((items.owner[item] != owner) | (items.dest[item] != dest))
        if len(bad):
            whose = f"rank {owner[bad[0]]}" + (f" for {dest[bad[0]]}" if dest[bad[0]] >= 0 else "")
            raise InputError(f"{self.where}: chunk {bad[0]} is of {whose}, which has no datum in {what}")
        self.check_same("chunks.group", items.group[item], f"its owner is in group {{}} of {what}")
        return item.astype(np.int32)

    def copy_of(self) -> Column | None:
        if "chunks.copy_of" not in self.columns:
            return None
        return self.integers("chunks.copy_of", NO_COPY, len(self.columns["chunks.copy_of"]) - 1)

    def check_same(self, name: str, expected: Column, reason: str, *, needed: bool = False) -> None:
        """Check a redundant column against the expected values."""
        if name not in self.columns and not needed:
            return
        bad = np.flatnonzero(self.integers(name) != expected)
        if len(bad):
            row = int(bad[0])
            found, because = self.columns[name][row], reason.format(expected[row])
            raise InputError(f"{self.cell(name, row)} is {found}, but {because}")

    def routes(self, topology: Topology) -> Routes | None:
        if "routes.links" not in self.columns:
            return None
        links = self.integers("routes.links", 0, topology.num_links - 1)
        offsets = self.integers("routes.offsets", 0, len(links))
        if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(links):
            raise InputError(f"{self.where}: routes.offsets must run from 0 to {len(links)}")
        empty = np.flatnonzero(np.diff(offsets.astype(np.int64)) < 1)
        if len(empty):
            raise InputError(f"{self.where}: routes[{empty[0]}] has no link; it needs at least one")
        return Routes(offsets, links)

    def links(self, topology: Topology) -> Column:
        """Return the one link of each transfer, from its source to its destination."""
        nodes = np.int64(topology.num_nodes)
        source, target = (
            self.integers(f"transfers.{end}", 0, topology.num_nodes - 1) for end in ("src", "dst")
        )
        pair, ends = source * nodes + target, topology.source * nodes + topology.target
        order = np.argsort(ends, kind="stable")
        first, beyond = (np.searchsorted(ends[order], pair, side) for side in ("left", "right"))
        bad = np.flatnonzero(beyond - first != 1)
        if len(bad):
            row, many = int(bad[0]), int(beyond[bad[0]] - first[bad[0]])
            why = f"{many} links lead" if many else "no link leads"
            need = "name one as its 'route'" if many else "over several links it needs a 'route'"
            place = self.cell("transfers.src", row)
            raise InputError(f"{place} is {source[row]}: {why} from there to {target[row]}; {need}")
        return order[first]

    def order(self, clock: Clock) -> Column | None:
        if clock is Clock.FLOW:
            if "transfers.order" in self.columns:
                raise InputError(f"{self.where}: transfers.order has no meaning in the flow clock")
            return None
        order = self.integers("transfers.order", 0)
        latest = int(order.max(initial=0))
        if clock is Clock.STEP and latest <= np.iinfo(np.uint32).max:
            return order.astype(np.uint16 if latest <= np.iinfo(np.uint16).max else np.uint32, copy=False)
        return order.astype(np.int64, copy=False)

    def schedule(
        self, topology: Topology, what: Collective, clock: Clock, chunks: Chunks, quantities: dict[str, Any]
    ) -> Schedule:
        routes, order = self.routes(topology), self.order(clock)
        if routes is None and "transfers.route" not in self.columns:
            route = self.links(topology)
        else:
            num_routes = topology.num_links if routes is None else len(routes)
            route = self.integers("transfers.route", 0, num_routes - 1)
        schedule = Schedule(
            topology,
            what,
            clock,
            chunks,
            chunk=self.integers("transfers.chunk", 0, len(chunks) - 1),
            route=route,
            order=order,
            count=self.count(len(chunks)),
            reduce=self.columns.get(_BOOLEAN),
            routes=routes,
            **quantities,
        )
        self.check_same("transfers.src", schedule.source, "its route starts at {}", needed=True)
        self.check_same("transfers.dst", schedule.target, "its route ends at {}", needed=True)
        return schedule

    def count(self, num_chunks: int) -> Column | None:
        if "transfers.count" not in self.columns:
            return None
        count = self.integers("transfers.count", 1, num_chunks)
        last = self.columns["transfers.chunk"].astype(np.int64) + count
        bad = np.flatnonzero(last > num_chunks)
        if len(bad):
            raise InputError(
                f"{self.cell('transfers.count', bad[0])} is {count[bad[0]]}, "
                f"which runs beyond the last chunk, {num_chunks - 1}"
            )
        return count


def check_column(name: str, column: Column, where: str) -> Column:
    """Return a column of integers that fit 64 bits or, for ``transfers.reduce``, of booleans.

    Raises
    ------
    InputError
        If it is anything else.
    """
    kinds, what = ("b", "true or false") if name == _BOOLEAN else ("iu", "integers")
    if column.ndim != 1 or (column.dtype.kind not in kinds and len(column)):
        raise InputError(f"{where}: {name} must be a list of {what}")
    if column.dtype == np.uint64 and len(column) and column.max() > INT64_MAX:
        raise InputError(f"{where}: {name} has numbers that do not fit 64 bits")
    return column if len(column) else column.astype(np.bool_ if name == _BOOLEAN else np.int64)


def _cell(name: str, row: int, where: str, lines: Sequence[int] | None) -> str:
    """Return the start of an error about a value: its column and row, or its line in the file."""
    table, _, key = name.partition(".")
    if lines is None or table != "transfers":
        return f"{where}: {name}[{row}]"
    return f"{where}, line {lines[row]}: {key}"


def _column(name: str, values: Any, where: str, lines: Sequence[int] | None = None) -> Column:
    if not isinstance(values, list):
        raise InputError(f"{where}: {name} must be a list")
    wanted, what = (bool, "true or false") if name == _BOOLEAN else (int, "an integer")
    if set(map(type, values)) - {wanted}:
        place = next(i for i, value in enumerate(values) if type(value) is not wanted)
        raise InputError(f"{_cell(name, place, where, lines)} is {shown(values[place])}; it must be {what}")
    try:
        return np.array(values, dtype=np.bool_ if wanted is bool else np.int64)
    except OverflowError:
        place = next(i for i, value in enumerate(values) if abs(value) > INT64_MAX)
        raise InputError(f"{_cell(name, place, where, lines)} does not fit 64 bits") from None


def _check_format(header: Mapping[str, Any], where: str) -> None:
    if "format" not in header:
        raise InputError(f'{where}: no key \'format\'; a schedule file has "format": "{FORMAT}"')
    if header["format"] != FORMAT:
        raise InputError(f"{where}: unknown format {shown(header['format'])}; allowed: '{FORMAT}'")


def collective_document(what: Collective) -> dict[str, Any]:
    """Return a collective as plain JSON values, which `read_collective` reads."""
    document: dict[str, Any] = {"kind": str(what.kind), "num_ranks": what.num_ranks}
    if what.parts:
        document["parts"] = [collective_document(part) for part in what.parts]
        return document | ({"weights": [str(w) for w in what.weights]} if what.weights else {})
    if what.root is not None:
        document["root"] = what.root
    if what.shards is not None:
        document["shards"] = [json_number(shard) for shard in what.shards]
    if what.groups is not None:
        document["groups"] = [list(group) for group in what.groups]
    if what.matrix is not None:
        matrix = what.matrix
        document["matrix"] = {
            "name": matrix.text,
            "relative": matrix.relative,
            "rows": matrix.amounts.tolist(),
        }
    return document


def read_collective(value: Any, topology: Topology, where: str) -> Collective:
    """Return the collective that a document describes, on a network; a text is the kind of one for all ranks.

    Raises
    ------
    InputError
        If it describes no collective, or one for another number of ranks.
    """
    document = {"kind": value} if isinstance(value, str) else mapping(value, where)
    check_keys(document, _COLLECTIVE, where)
    if "kind" not in document:
        raise InputError(f"{where}: no key 'kind'")
    num_ranks = integer(document.get("num_ranks", topology.num_ranks), 2, INT64_MAX, f"{where}: num_ranks")
    if num_ranks != topology.num_ranks:
        raise InputError(f"{where}: num_ranks is {num_ranks}; the topology has {topology.num_ranks}")
    if "parts" in document:
        parts, weights = _parts(document, topology, where), document.get("weights")
        if weights is not None:
            weights = _exact_list(weights, f"{where}: weights")
        return within(where, lambda: concurrent(parts, weights))
    root, shards, groups = (document.get(key) for key in ("root", "shards", "groups"))
    if root is not None:
        root = integer(root, 0, num_ranks - 1, f"{where}: root")
    if shards is not None:
        shards = _exact_list(shards, f"{where}: shards")
    if groups is not None:
        lists = lists_in(groups, f"{where}: groups")
        groups = [[integer(r, 0, num_ranks - 1, f"{where}: groups") for r in group] for group in lists]
    kind, given = str(document["kind"]), document.get("matrix")
    matrix = None if given is None else _matrix(given, f"{where}: matrix")
    how: dict[str, Any] = {"root": root, "shards": shards, "groups": groups, "matrix": matrix}
    return within(where, lambda: collective(kind, num_ranks, **how))


def _exact_list(value: Any, where: str) -> list[Fraction]:
    (numbers,) = lists_in([value], where)
    return [exact(number, f"{where}[{place}]") for place, number in enumerate(numbers)]


def _matrix(value: Any, where: str) -> ByteMatrix:
    document = mapping(value, where)
    check_keys(document, {"name", "relative", "rows"}, where)
    lists = lists_in(document.get("rows"), f"{where}: rows")
    rows = [
        [integer(cell, 0, INT64_MAX, f"{where}: rows[{place}]") for cell in row]
        for place, row in enumerate(lists)
    ]
    if {len(row) for row in rows} != {len(rows)}:
        raise InputError(f"{where}: rows must be a square table")
    return ByteMatrix(np.array(rows), str(document.get("name", "")), document.get("relative") is True)


def _parts(document: Mapping[str, Any], topology: Topology, where: str) -> list[Collective]:
    check_keys(document, {"kind", "num_ranks", "parts", "weights"}, where)
    if document["kind"] != Kind.MIXED or not isinstance(document["parts"], list):
        raise InputError(f"{where}: parts must be a list, of the kind '{Kind.MIXED}'")
    return [
        read_collective(part, topology, f"{where}: parts[{place}]")
        for place, part in enumerate(document["parts"])
    ]
