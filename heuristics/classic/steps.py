"""Rows of step schedules become schedules over shortest routes; the plain algorithms share this."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tutti.schedules.collective import Collective, Kind
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Chunks, Clock, Routes, Schedule, step_numbers
from tutti.topologies.exact import BoolArray, Int32Array, Int64Array, joined_rows, offsets_of, rows_at
from tutti.topologies.graphs.shortest_paths import hop_distances, shortest_routes
from tutti.topologies.topology import Topology

MOST_ROWS = 10**8
"""Largest number of transfers of a schedule made here; this many take some ten gigabytes while it is made."""


class StepTransfers(NamedTuple):
    """Transfers of one chunk each, as arrays of one length: comm step, sender, receiver, chunk.

    Both are ranks, or switches that add or multicast.
    """

    step: Int64Array
    source: Int64Array
    target: Int64Array
    chunk: Int64Array

    @classmethod
    def of(
        cls, step: npt.ArrayLike, source: npt.ArrayLike, target: npt.ArrayLike, chunk: npt.ArrayLike
    ) -> StepTransfers:
        """Return the rows of four arrays that broadcast against each other."""
        columns = np.broadcast_arrays(step, source, target, chunk)
        return cls(*(np.asarray(column, dtype=np.int64).ravel() for column in columns))

    def kept(self, which: BoolArray | Int64Array) -> StepTransfers:
        """Return the rows of a mask, or of indices in their order."""
        return rows_at(self, which)

    @classmethod
    def joined(cls, parts: list[StepTransfers]) -> StepTransfers:
        """Return the rows of all parts."""
        return joined_rows(parts)


def step_schedule(
    topology: Topology, what: Collective, chunks: Chunks, rows: StepTransfers, *further: Any
) -> Schedule:
    """Return the schedule with these rows, as `schedule_of_steps`: the form that plug-ins use.

    Parameters
    ----------
    topology, what, chunks
        The network, the collective and its chunks.
    rows, further
        See `schedule_of_steps`, where `further` come after the chunks.
    """
    return schedule_of_steps(Problem(topology, what), rows, chunks, *further)


def schedule_of_steps(
    problem: Problem,
    rows: StepTransfers,
    chunks: Chunks | int = 1,
    reduce: BoolArray | None = None,
    kind: Int64Array | int = 0,
    allowed: Sequence[BoolArray | None] = (None,),
) -> Schedule:
    """Return the schedule with these rows, in the step clock.

    Each pair of nodes uses one shortest route for each kind of row.

    Parameters
    ----------
    problem
        The network and the collective.
    rows
        In any order; they are stably ordered by step.
    chunks
        The chunks, or the number of equal chunks of each item.
    reduce
        Shape (rows,): whether each reduces; None: all if the collective combines, otherwise none.
    kind, allowed
        The number of each row's kind, and for each kind the links that it may use: bool, shape (links,), or
        None if it may use all links.
    """
    topology, what = problem.topology, problem.collective
    chunks = Chunks.even(what, chunks) if isinstance(chunks, int) else chunks
    if reduce is None and what.is_combining:
        reduce = np.ones(len(rows.step), dtype=np.bool_)
    order = np.argsort(step_numbers(rows.step), kind="stable")
    pairs = topology.num_nodes**2
    ends = (rows.source * topology.num_nodes + rows.target + kind * pairs)[order]
    pair, number = _numbered(ends, len(allowed) * pairs)
    one, (source, target) = pair // pairs, np.divmod(pair % pairs, topology.num_nodes)
    found = [
        shortest_routes(topology, source[one == index], target[one == index], links)
        for index, links in enumerate(allowed)
    ]
    lengths = np.concatenate([np.diff(offsets) for offsets, _ in found])
    route, routes = taking(Routes(offsets_of(lengths), np.concatenate([links for _, links in found])), number)
    reduce = None if reduce is None else reduce[order]
    columns = rows.chunk[order], route, rows.step[order]
    return problem.schedule(Clock.STEP, chunks, *columns, reduce=reduce, routes=routes)


def exchange_schedule(problem: Problem, rows: StepTransfers) -> Schedule:
    """Return the all-to-all with these rows, as `schedule_of_steps` does.

    Parameters
    ----------
    problem
        The network and the all-to-all, of all ranks.
    rows
        Their chunks are owner · N + destination; those of pairs without an item are left out.
    """
    ranks, items = problem.collective.num_ranks, problem.collective.items
    number = np.full(ranks * ranks, -1)
    number[items.owner.astype(np.int64) * ranks + items.dest] = np.arange(len(items))
    rows = rows._replace(chunk=number[rows.chunk])
    return schedule_of_steps(problem, rows.kept(rows.chunk >= 0))


class StepMessages(NamedTuple):
    """The messages of one comm step, or of several equal ones.

    Parameters
    ----------
    source, target
        Ranks, shape (messages,); a pair that occurs twice is one message of twice the data.
    part
        The size of each message, in units of M.
    times
        The number of equal steps.
    """

    source: Int64Array
    target: Int64Array
    part: float
    times: int = 1


def exchange_seconds(problem: Problem, exchanges: Sequence[StepMessages]) -> float:
    """Return T_L α + T_B M of steps over the shortest routes that `schedule_of_steps` takes.

    A step takes the α's of its longest route. Its busiest link adds the time of its bytes, and an α for each
    message after the first. T_L and T_B are exact if each route is one link that no other message takes.

    Parameters
    ----------
    problem
        The network and the size M.
    exchanges
        All steps. Their routes are chosen together, so that they spread over the links.
    """
    topology, size = problem.topology, float(problem.size or 0)
    ends = [each.source.ravel() * topology.num_nodes + each.target.ravel() for each in exchanges]
    pairs, which = np.unique(np.concatenate(ends), return_inverse=True)
    routes = routes_between(topology, *np.divmod(pairs, topology.num_nodes))
    numbers = np.split(which, np.cumsum([len(one) for one in ends])[:-1])
    steps = zip(exchanges, numbers, strict=True)
    return sum(each.times * _step_seconds(topology, routes, each.part * size, of) for each, of in steps)


def _step_seconds(topology: Topology, routes: Routes, size: float, taken: Int64Array) -> float:
    """Return the seconds of a step that sends `size` bytes over each of the routes `taken`."""
    alpha, bandwidth = topology.alpha.floats, topology.bandwidth.floats
    often = np.bincount(taken, minlength=len(routes))
    of_hop = np.repeat(often, np.diff(routes.offsets))
    messages = np.bincount(routes.links[of_hop > 0], minlength=len(alpha))
    load = np.bincount(routes.links, weights=of_hop, minlength=len(alpha)) * size
    along = np.add.reduceat(alpha[routes.links], routes.offsets[:-1])
    return float(along[often > 0].max() + (np.maximum(messages - 1, 0) * alpha + load / bandwidth).max())


def even_seconds(problem: Problem) -> float:
    """Return the seconds of a step in which each rank sends M/N to each, if its routes load all links evenly.

    No shortest routes take less time.
    """
    topology, ranks = problem.topology, problem.topology.num_ranks
    hops = hop_distances(topology, np.arange(ranks))[:, :ranks]
    size = 1 / ranks * float(problem.size or 0)
    alpha, bandwidth = topology.alpha.floats.mean(), topology.bandwidth.floats.mean()
    crossing = max(hops.sum() / topology.num_links, 1.0)
    return float((hops.max() + crossing - 1) * alpha + crossing * size / bandwidth)


def _numbered(values: Int64Array, end: int) -> tuple[Int64Array, Int32Array]:
    """Return the different values, all below `end`, in order, and the number of each entry's value."""
    if end > 4 * len(values):
        found, which = np.unique(values, return_inverse=True)
        return found, which.astype(np.int32)
    present = np.zeros(end, dtype=np.bool_)
    present[values] = True
    number = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(present), number[values]


def routes_between(topology: Topology, sources: npt.ArrayLike, targets: npt.ArrayLike) -> Routes:
    """Return the shortest route of each pair of nodes, as a route table."""
    return Routes(*shortest_routes(topology, sources, targets))


def taking(routes: Routes, route: Int32Array) -> tuple[Int32Array, Routes | None]:
    """Return the route of each row, and the table; if all routes are one link, the links and no table."""
    return (routes.links[route], None) if len(routes.links) == len(routes) else (route, routes)


def check_allgathers(method: Method, problem: Problem, parts: int = 1) -> None:
    """Raise `Unsupported` unless the allgathers that a problem is made of have at most `MOST_ROWS` transfers.

    Parameters
    ----------
    method, problem
        The method that asks, and its problem.
    parts
        Number of chunks of each shard; every rank must be sent each.
    """
    halves = 2 if problem.collective.kind is Kind.ALLREDUCE else 1
    ranks = problem.topology.num_ranks
    check_rows(method, problem, halves * parts * ranks * (ranks - 1))


def check_rows(method: Method, problem: Problem, rows: int) -> None:
    """Raise `Unsupported` if a schedule would have more transfers than `MOST_ROWS`."""
    if rows > MOST_ROWS:
        raise method.unsupported(
            f"makes at most {MOST_ROWS} transfers; on {problem.topology.name} there would be {rows}"
        )
