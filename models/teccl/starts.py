"""Schedules of other methods as points of the program: their transfers listed into epochs.

What a schedule says is over which ways each chunk may come to each node, and in which order that happens;
when is decided here. In the order of the schedule's rows each chunk takes, of the ways over which any part
of it comes and whose source has the whole of it by then, the one that brings it first: it joins a message
that begins there after it has come, or begins one in the first epoch in which all links are free. As a
node that passes on a part got it in an earlier row, there is always such a way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from models.teccl.epochs import FAR, Epochs
from models.teccl.program import Send
from schedules.schedule import Schedule
from topologies.errors import NoSchedule

Offers = Mapping[tuple[int, int], list[int]]
"""The ways over which a chunk may come to a node, (chunk, node) in order."""


def listed(epochs: Epochs, schedule: Schedule) -> list[Send]:
    """Return a legal schedule's transfers as sends.

    Parameters
    ----------
    epochs
        The instance; chunks of the schedule that overlap one of its chunks count as that.
    schedule
        Of the same collective on the same network, in any clock.

    Raises
    ------
    NoSchedule
        If a transfer goes over what is no way here, or is copied by a switch.
    """
    offers: dict[tuple[int, int], list[int]] = {}
    pieces = _pieces(epochs, schedule)
    for route, first, count in _rows(schedule):
        for way in pieces[route]:
            for chunk in _overlapped(epochs, schedule, first, count):
                known = offers.setdefault((chunk, epochs.ends[way][1]), [])
                if way not in known:
                    known.append(way)
    return placed(epochs, offers)


def shortest(epochs: Epochs) -> list[Send]:
    """Return sends of every chunk along ways of fewest epochs to all that need it."""
    holders = epochs.instance.holders[epochs.instance.item]
    first = np.where(holders[:, :, None], epochs.between, FAR).min(axis=1)
    ranks = epochs.instance.topology.num_ranks
    offers: dict[tuple[int, int], list[int]] = {}
    for at, chunk, node in sorted((int(first[c, n]), c, n) for c in range(len(first)) for n in range(ranks)):
        ways = [
            way
            for way, ((a, b), lasts) in enumerate(zip(epochs.ends, epochs.lasts, strict=True))
            if b == node and a < ranks and first[chunk, a] + lasts == at
        ]
        if at and ways:
            offers[chunk, node] = ways
    return placed(epochs, offers)


def placed(epochs: Epochs, offers: Offers) -> list[Send]:
    """Return a send for each (chunk, node), in their order as early as can be."""
    holders = epochs.instance.holders[epochs.instance.item]
    at = {(int(c), int(n)): 0 for c, n in np.argwhere(holders)}
    room, sends = _Room(epochs), []
    for (chunk, node), ways in offers.items():
        if (chunk, node) in at:
            continue
        ready = [(way, at[chunk, epochs.ends[way][0]]) for way in ways if (chunk, epochs.ends[way][0]) in at]
        found = [(room.earliest(way, since) + epochs.lasts[way], way, since) for way, since in ready]
        end, way, since = min(found, key=lambda choice: choice[0])
        sends.append((way, chunk, room.take(way, since)))
        at[chunk, node] = end
    return sorted(sends, key=lambda send: (send[2], send[0], send[1]))


def passes_on(epochs: Epochs, sends: Iterable[Send]) -> bool:
    """Whether no rank stores: what it did not have from the beginning it sends as it arrives."""
    sends = list(sends)
    arrives = {(c, epochs.ends[e][1]): k + epochs.lasts[e] for e, c, k in sends}
    return all(arrives.get((c, epochs.ends[e][0]), k) == k for e, c, k in sends)


class _Room:
    """What is held when, and the messages that have begun."""

    def __init__(self, epochs: Epochs) -> None:
        self.epochs = epochs
        self.held: list[set[int]] = [set() for _ in range(epochs.instance.topology.num_links)]
        self.begun: dict[tuple[int, int], int] = {}

    def earliest(self, way: int, since: int) -> int:
        """Return the first epoch, `since` or later, in which the way can take one more chunk."""
        now = since
        while not (0 < self.begun.get((way, now), 0) < self.epochs.carries[way] or self._free(way, now)):
            now += 1
        return now

    def take(self, way: int, since: int) -> int:
        """Put one more chunk on the way, as early as can be; return when."""
        now = self.earliest(way, since)
        self.begun[way, now] = self.begun.get((way, now), 0) + 1
        for link, first, until in self.epochs.holds[way]:
            self.held[link].update(range(now + first, now + until))
        return now

    def _free(self, way: int, now: int) -> bool:
        held = self.epochs.holds[way]
        return all(self.held[link].isdisjoint(range(now + first, now + until)) for link, first, until in held)


def _rows(schedule: Schedule) -> Iterator[tuple[int, int, int]]:
    """Yield the route, first chunk and number of chunks of each row."""
    counts = np.ones(len(schedule), np.int32) if schedule.count is None else schedule.count
    yield from zip(schedule.route.tolist(), schedule.chunk.tolist(), counts.tolist(), strict=True)


def _pieces(epochs: Epochs, schedule: Schedule) -> list[list[int]]:
    """Return the ways of each route, which is cut at the ranks that it goes over."""
    topology, table = epochs.instance.topology, schedule.route_table
    found = []
    for route in range(len(table)):
        ways, piece = [], []
        for link in table.links[table.offsets[route] : table.offsets[route + 1]].tolist():
            piece.append(link)
            if topology.target[link] < topology.num_ranks:
                way = epochs.ways.number.get(tuple(piece))
                if way is None or topology.source[piece[0]] >= topology.num_ranks:
                    raise NoSchedule("it is sent over routes that are no ways of the program")
                ways.append(way)
                piece = []
        if piece:
            raise NoSchedule("switches copy in it")
        found.append(ways)
    return found


def _overlapped(epochs: Epochs, schedule: Schedule, first: int, count: int) -> range:
    """Return the instance's chunks of which a run of the schedule's chunks has a part."""
    chunks, pieces = schedule.chunks, epochs.instance.chunks
    item = int(chunks.item[first])
    begin, end = (int(chunks.offset[chunks.first[i]]) for i in (item, item + 1))
    low, high = (int(chunks.offset[i]) - begin for i in (first, first + count))
    number = int(np.searchsorted(epochs.instance.item, item))
    return range(number + low * pieces // (end - begin), number - (-high * pieces // (end - begin)))
