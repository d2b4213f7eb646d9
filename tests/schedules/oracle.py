"""A slow replay from the definitions: plain Python, sets of contributors, Fractions for time."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

from tutti.schedules import Chunks, Schedule

TABLE, BEFORE, TWICE, OVERLAP, MISSING, SECOND = "table", "before", "twice", "overlap", "missing", "second"


@dataclass(frozen=True)
class Value:
    """A node's value of a chunk: how often each rank contributed, and the values that were added."""

    contributors: Counter
    event: int = 0
    row: int | None = None
    parts: tuple[Value, ...] = ()

    def first_doubling(self) -> tuple[int, int] | None:
        """Return (event, row) of the earliest addition in this value's past that doubled a contribution."""
        past = [found for part in self.parts if (found := part.first_doubling()) is not None]
        if max(self.contributors.values()) > 1:
            past.append((self.event, self.row))
        return min(past, default=None)


class Wrong(Exception):
    """Carries (row or None, what)."""


def judge(schedule: Schedule) -> tuple[int | None, str] | None:
    """Return None for a legal schedule, otherwise its first wrong row (None: no row) and the reason."""
    try:
        check_table(schedule)
        Replay(schedule).run()
    except Wrong as wrong:
        return wrong.args
    return None


def check_table(schedule: Schedule) -> None:
    chunks, items = schedule.chunks, schedule.collective.items
    item, size = chunks.item.tolist(), chunks.size.tolist()
    shares = list(items.share)
    if any(not 0 <= i < len(items) for i in item) or item != sorted(item):
        raise Wrong(None, TABLE)
    for i, share in enumerate(shares):
        own = [s for s, j in zip(size, item, strict=True) if i == j]
        if any(s < 0 or (s == 0 and share > 0) for s in own):
            raise Wrong(None, TABLE)
        own = [s for s, j, of in zip(size, item, copies_in(chunks), strict=True) if i == j and of < 0]
        if sum((Fraction(s, chunks.denominator) for s in own), Fraction(0)) != share:
            raise Wrong(None, TABLE)
    for chunk, of in enumerate(copies_in(chunks)):
        if of < 0 and of != -1:
            raise Wrong(None, TABLE)
        if of >= 0 and not is_copy(schedule, chunk, of):
            raise Wrong(None, TABLE)
    previous = 1 if schedule.clock == "step" else 0
    for row in rows_of(schedule):
        check_row(schedule, row, item)
        if row.order is not None and row.order < previous:
            raise Wrong(row.number, TABLE)
        previous = row.order


def copies_in(chunks: Chunks) -> list[int]:
    return [-1] * len(chunks) if chunks.copy_of is None else chunks.copy_of.tolist()


def is_copy(schedule: Schedule, chunk: int, of: int) -> bool:
    """Return whether a chunk may be a copy of another: it follows it, with only its copies between them."""
    chunks, items = schedule.chunks, schedule.collective.items
    item, size, copies = chunks.item.tolist(), chunks.size.tolist(), copies_in(chunks)
    everywhere = items.start[item[chunk]] < 0 and items.end[item[chunk]] < 0
    behind = of < chunk and all(copies[between] >= 0 for between in range(of + 1, chunk))
    return everywhere and behind and (item[of], size[of]) == (item[chunk], size[chunk])


@dataclass(frozen=True)
class Row:
    number: int
    chunk: int
    count: int
    route: int
    reduce: bool
    order: int | None

    @property
    def chunks(self) -> range:
        return range(self.chunk, self.chunk + self.count)


def rows_of(schedule: Schedule) -> list[Row]:
    column = lambda values, default: [default] * len(schedule) if values is None else values.tolist()  # noqa: E731
    columns = zip(
        range(len(schedule)),
        schedule.chunk.tolist(),
        column(schedule.count, 1),
        schedule.route.tolist(),
        column(schedule.reduce, False),
        column(schedule.order, None),
        strict=True,
    )
    return [Row(*values) for values in columns]


def route_links(schedule: Schedule, route: int) -> list[int]:
    if schedule.routes is None:
        return [route]
    begin, end = schedule.routes.offsets[route : route + 2].tolist()
    return schedule.routes.links[begin:end].tolist()


def ends(schedule: Schedule, row: Row) -> tuple[int, int]:
    links = route_links(schedule, row.route)
    return int(schedule.topology.source[links[0]]), int(schedule.topology.target[links[-1]])


def check_row(schedule: Schedule, row: Row, item: list[int]) -> None:
    """Check one row on its own; no mutation breaks a route into parts."""
    topology = schedule.topology
    routes = topology.num_links if schedule.routes is None else len(schedule.routes)
    if row.count < 1 or not 0 <= row.chunk <= row.chunk + row.count - 1 < len(item):
        raise Wrong(row.number, TABLE)
    if len({item[chunk] for chunk in row.chunks}) > 1 or not 0 <= row.route < routes:
        raise Wrong(row.number, TABLE)
    if row.reduce and kind_of(schedule, item[row.chunk]) not in ("reduce-scatter", "reduce", "allreduce"):
        raise Wrong(row.number, TABLE)
    able = topology.aggregate if row.reduce else topology.multicast
    if any(node >= topology.num_ranks and node not in able for node in ends(schedule, row)):
        raise Wrong(row.number, TABLE)


def kind_of(schedule: Schedule, item: int) -> str:
    """Return the kind of an item's collective, or of its part of a mixed one."""
    what = schedule.collective
    kinds = [str(part.kind) for part in what.parts or (what,) for _ in part.members]
    return kinds[what.items.group[item]]


class Replay:
    """A replay, which holds {(node, chunk): Value} and applies events in order."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.rows = rows_of(schedule)
        self.held: dict[tuple[int, int], Value] = {}
        self.read: dict[int, list[Value]] = {}
        self.event = 0
        self.required: dict[tuple[int, int], Counter] = {}
        self.copy_of = copies_in(schedule.chunks)
        items = schedule.collective.items
        for chunk, item in enumerate(schedule.chunks.item.tolist()):
            if self.copy_of[chunk] >= 0:
                continue
            members = schedule.collective.members[items.group[item]]
            starts = members if items.start[item] < 0 else [int(items.start[item])]
            finals = members if items.end[item] < 0 else [int(items.end[item])]
            self.held |= {(rank, chunk): Value(Counter([rank])) for rank in starts}
            self.required |= {(rank, chunk): Counter(starts) for rank in finals}

    def run(self) -> None:
        {"step": self.run_steps, "time": self.run_time, "flow": self.run_flow}[self.schedule.clock]()
        for chunk in range(len(self.schedule.chunks)):
            self.check_end(chunk)

    def value(self, node: int, chunk: int) -> Value | None:
        """Return a node's value of a chunk; a copy has its original's value until something arrives."""
        if (node, chunk) not in self.held and self.copy_of[chunk] >= 0:
            return self.value(node, self.copy_of[chunk])
        return self.held.get((node, chunk))

    def take(self, row: Row) -> None:
        source = ends(self.schedule, row)[0]
        values = [self.value(source, chunk) for chunk in row.chunks]
        if None in values:
            raise Wrong(row.number, BEFORE)
        self.read[row.number] = values

    def give(self, row: Row) -> None:
        self.event += 1
        target = ends(self.schedule, row)[1]
        for chunk, value in zip(row.chunks, self.read.pop(row.number), strict=True):
            before = self.value(target, chunk)
            if row.reduce and before is not None:
                together = before.contributors + value.contributors
                value = Value(together, self.event, row.number, (before, value))
            elif before is not None and not row.reduce and before.contributors == value.contributors:
                raise Wrong(row.number, TWICE)
            self.held[target, chunk] = value

    def run_flow(self) -> None:
        for row in self.rows:
            self.take(row)
            self.give(row)

    def run_steps(self) -> None:
        for step in sorted({row.order for row in self.rows}):
            now = [row for row in self.rows if row.order == step]
            for row in now:
                self.take(row)
            for row in now:
                self.give(row)

    def run_time(self) -> None:
        under_way: list[tuple[int, int]] = []
        uses: dict[int, list[tuple[int, int]]] = {}
        begun: set[tuple[int, int]] = set()
        for row in self.rows:
            for due in sorted(entry for entry in under_way if entry[0] <= row.order):
                self.give(self.rows[due[1]])
                under_way.remove(due)
            message, arrival = self.times(row)
            if (row.route, row.order) not in begun:
                for link, enter, leave in message:
                    if any(enter < other[1] and other[0] < leave for other in uses.setdefault(link, [])):
                        raise Wrong(row.number, OVERLAP)
                    uses[link].append((enter, leave))
            begun.add((row.route, row.order))
            self.take(row)
            under_way.append((arrival, row.number))
        for _, number in sorted(under_way):
            self.give(self.rows[number])

    def times(self, row: Row) -> tuple[list[tuple[int, int, int]], int]:
        """Return (link, enter, leave) of the row's message on its route, and its arrival, in ticks."""
        schedule, topology = self.schedule, self.schedule.topology
        together = [other for other in self.rows if (other.route, other.order) == (row.route, row.order)]
        load = sum(int(schedule.chunks.size[chunk]) for other in together for chunk in other.chunks)
        size = load * schedule.size / schedule.chunks.denominator
        ticks = lambda seconds: math.ceil(seconds / schedule.tick)  # noqa: E731
        links, head, uses = route_links(schedule, row.route), Fraction(0), []
        for link in links:
            enter = row.order + ticks(head)
            held = max(1, ticks(topology.alpha[link] + size / topology.bandwidth[link]))  # a tick at least
            uses.append((link, enter, enter + held))
            head += topology.alpha[link]
        slowest = min(topology.bandwidth[link] for link in links)
        return uses, row.order + max(1, ticks(head + size / slowest))

    def check_end(self, chunk: int) -> None:
        """Check a chunk that is no copy: a rank that needs it must end with it or with one of its copies."""
        wrong = []
        for (node, which), needed in self.required.items():
            copies = itertools.takewhile(lambda c: self.copy_of[c] >= 0, range(which + 1, len(self.copy_of)))
            values = [self.held.get((node, copy)) for copy in (which, *copies)]
            if which == chunk and all(value is None or value.contributors != needed for value in values):
                wrong += values
        doublings = [found for value in wrong if value and (found := value.first_doubling())]
        if doublings:
            raise Wrong(min(doublings)[1], SECOND)
        if wrong:
            raise Wrong(None, MISSING)
