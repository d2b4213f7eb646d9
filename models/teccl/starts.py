"""Schedules of other methods that a search begins with, brought into epochs.

A schedule says over which routes each chunk may come to each node, and in which order. The times are decided
here: the chunks are placed in epochs in the order of the schedule's rows (`models.teccl.epochs`). A chunk may
use the routes over which any part of it comes and whose source has the whole of it by then. As a node that
passes on a part got it in an earlier row, there is always such a route.

`models.optimum` begins with the same schedules and takes their messages without the epochs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from tutti.models.teccl.epochs import Epochs, Transfer, finish_of, needed, placed
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.schedules.verify import verify
from tutti.topologies.errors import InputError, NoSchedule, Unsupported, suggestion

NO_START = "none"
"""The start of a search that begins with no schedule."""


def check_start(method: str, start: object, allowed: Collection[str]) -> None:
    """Refuse a start that is not allowed.

    Parameters
    ----------
    method
        The method with this option.
    start
        The value that was given.
    allowed
        Names of methods, and other values that the method accepts.

    Raises
    ------
    InputError
        If it is none of them.

    Examples
    --------
    >>> check_start("teccl", "bfb", [NO_START, "bfb"])
    """
    if start not in allowed:
        raise InputError(f"{method} option start is '{start}'{suggestion(str(start), allowed)}")


@dataclass(frozen=True, eq=False)
class StartSchedule:
    """Another method's result for a problem.

    Parameters
    ----------
    name
        The method's name.
    schedule
        A verified schedule; None if it has none.
    why
        The method's message if it has none.
    """

    name: str
    schedule: Schedule | None
    why: str = ""

    @classmethod
    def of(cls, method: Method, problem: Problem, chunks: int, seed: int) -> StartSchedule:
        """Return the method's schedule, with `chunks` chunks a shard if it has such an option."""
        takes = {field.name for field in dataclasses.fields(method.options)}
        given = {"chunks": chunks, **method.fast}
        options = method.options(**{name: value for name, value in given.items() if name in takes})
        try:
            method.supports(problem, options)
            schedule = method.synthesize(problem, options, np.random.default_rng(seed))
        except (Unsupported, NoSchedule) as error:
            return cls(method.name, None, str(error))
        verify(schedule)
        return cls(method.name, schedule)

    def transfers(self, epochs: Epochs, most: int, buffers: bool) -> tuple[list[Transfer] | None, str]:
        """Return the schedule in epochs, None where it does not fit, and a note that says what it is.

        Parameters
        ----------
        epochs
            The instance.
        most
            Largest number of epochs; 0: any.
        buffers
            Whether ranks may store.
        """
        if self.schedule is None:
            return None, f"start dropped: {self.why}"
        try:
            transfers = needed(epochs, in_epochs(epochs, self.schedule))
        except NoSchedule as error:
            return None, f"start dropped: {self.name}: {error}"
        finish = finish_of(epochs, transfers)
        if most and finish > most:
            return None, f"start dropped: {self.name} takes {finish} epochs, {most} are allowed"
        if not buffers and not passes_on(epochs, transfers):
            return None, f"start dropped: in {self.name} ranks store what they pass on"
        return transfers, f"start {self.name}: {finish} epochs"


def in_epochs(epochs: Epochs, schedule: Schedule) -> list[Transfer]:
    """Return a legal schedule's transfers in epochs.

    Parameters
    ----------
    epochs
        The instance; chunks of the schedule that overlap one of its chunks count as that.
    schedule
        One of the same collective on the same network, in any clock.

    Raises
    ------
    NoSchedule
        If a transfer goes over a route that the program has not, or is copied by a switch.
    """
    offers: dict[tuple[int, int], list[int]] = {}
    parts = _parts(epochs, schedule)
    counts = np.ones(len(schedule), np.int32) if schedule.count is None else schedule.count
    rows = zip(schedule.route.tolist(), schedule.chunk.tolist(), counts.tolist(), strict=True)
    for path, first, count in rows:
        for route in parts[path]:
            for chunk in _overlapped(epochs, schedule, first, count):
                known = offers.setdefault((chunk, epochs.ends[route][1]), [])
                if route not in known:
                    known.append(route)
    return placed(epochs, offers)


def passes_on(epochs: Epochs, transfers: Iterable[Transfer]) -> bool:
    """Whether no rank stores data: a rank sends what it did not start with as it arrives."""
    transfers = list(transfers)
    arrives = {(c, epochs.ends[e][1]): k + epochs.lasts[e] for e, c, k in transfers}
    return all(arrives.get((c, epochs.ends[e][0]), k) == k for e, c, k in transfers)


def _parts(epochs: Epochs, schedule: Schedule) -> list[list[int]]:
    """Return the program's routes for each of the schedule's routes, which are cut at ranks."""
    topology, table = epochs.instance.topology, schedule.route_table
    found = []
    for path in range(len(table)):
        routes, part = [], []
        for link in table.links[table.offsets[path] : table.offsets[path + 1]].tolist():
            part.append(link)
            if topology.target[link] < topology.num_ranks:
                route = epochs.routes.number.get(tuple(part))
                if route is None or topology.source[part[0]] >= topology.num_ranks:
                    raise NoSchedule("it uses routes that the program does not have")
                routes.append(route)
                part = []
        if part:
            raise NoSchedule("its switches copy data")
        found.append(routes)
    return found


def _overlapped(epochs: Epochs, schedule: Schedule, first: int, count: int) -> range:
    """Return the instance's chunks of which a run of the schedule's chunks has a part."""
    chunks, pieces = schedule.chunks, epochs.instance.chunks
    item = int(chunks.item[first])
    begin, end = (int(chunks.offset[chunks.first[i]]) for i in (item, item + 1))
    low, high = (int(chunks.offset[i]) - begin for i in (first, first + count))
    number = int(np.searchsorted(epochs.instance.item, item))
    return range(number + low * pieces // (end - begin), number - (-high * pieces // (end - begin)))
