"""The base of the exact methods over steps, epochs and ticks: SCCL, TE-CCL and the optimum.

`ChunkInstance` is a collective in whole chunks: their starts and ends, links and routes. Its distances in
hops, and what its links carry in a round, are for schedules in steps. `SizedInstance` is one at a size, whose
time is cut into ticks: TE-CCL's epochs, or the optimum's ticks, in which nothing is rounded. `routes_of`
lists the routes between ranks through switches.

`HorizonSearch` looks for the fewest rounds, epochs or ticks. It keeps the ticks that no schedule beats, the
best schedule so far, and the time left. `HorizonSearch.grow` asks for a schedule within a horizon of some
ticks, then within one more, until there is one or the horizon is that of the best schedule. A program that
minimizes its ticks instead is asked once, and `HorizonSearch.learn` takes its answer.

The programs themselves stand with their methods.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from tutti.models.bounds.bound import Bound
from tutti.models.bounds.report import lower_bounds
from tutti.models.solvers import SolutionStatus, SolverResult, Termination
from tutti.models.solvers.outcome import least_whole
from tutti.models.solvers.registry import milp_options
from tutti.schedules.collective import EVERYONE, Collective, Kind
from tutti.schedules.compose import BY_ALLGATHER, from_allgather
from tutti.schedules.method import Problem
from tutti.schedules.reversal import reverse, useful_transfers
from tutti.schedules.schedule import Chunks, Clock, Routes, Schedule
from tutti.topologies.errors import NoSchedule, Unsupported
from tutti.topologies.exact import BoolArray, Int32Array, Int64Array, IntArray
from tutti.topologies.graphs.shortest_paths import hop_distances
from tutti.topologies.kernels import now
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose

MOST_CHUNKS = 2**20
"""Largest number of chunks of all items together. Each chunk has a variable for each link, and more."""
BY_COPIES = (*BY_ALLGATHER, Kind.BROADCAST, Kind.REDUCE, Kind.SCATTER, Kind.GATHER, Kind.ALL_TO_ALL)
"""The collectives of `by_copies`."""
Distances = TypeVar("Distances", Int32Array, Int64Array)
Rows = TypeVar("Rows")


def by_copies(problem: Problem, make: Callable[[Problem], Schedule]) -> Schedule:
    """Return a schedule of any collective, given how to make one of a collective that does not combine.

    A reduce is the reverse of a broadcast on the transposed network; see `from_allgather` for the others.
    """
    if problem.collective.kind in BY_ALLGATHER:
        return from_allgather(problem, make)
    if problem.collective.kind is not Kind.REDUCE:
        return make(problem)
    turned = Problem(transpose(problem.topology), problem.collective.reverse, problem.size)
    return reverse(make(turned), problem.topology)


@dataclass(frozen=True, eq=False)
class ChunkInstance:
    """A collective that does not combine, every item cut into C chunks, on a network without switches.

    Parameters
    ----------
    topology, collective
        The network and what to do on it.
    chunks
        C, the chunks of each item.
    method
        The name of the method in messages.
    switches
        Whether switches are allowed; `hops` and the properties that use it do not allow them.

    Raises
    ------
    Unsupported
        If there are switches (unless allowed), items of several sizes, or too many chunks. `capacity` raises
        it if bandwidths are no multiples of the least one.
    """

    topology: Topology
    collective: Collective
    chunks: int
    method: str = "sccl"
    switches: bool = False

    def __post_init__(self) -> None:
        """Check that rounds can be counted."""
        name = self.topology.name
        if self.topology.num_switches and not self.switches:
            raise Unsupported(
                f"{self.method} needs a network without switches; {name} has {self.topology.num_switches}"
            )
        if not self.collective.items.share.uniform:
            raise Unsupported(f"{self.method} needs shards of one size, as it moves whole chunks")
        if self.chunks * len(self.collective.items.start) > MOST_CHUNKS:
            raise Unsupported(
                f"{self.method}: {self.chunks} chunks a shard are too many, over {MOST_CHUNKS} in all"
            )

    @cached_property
    def item(self) -> Int32Array:
        """int32, shape (chunks,): the item of each chunk; an item that must be moved has C chunks."""
        moved = np.flatnonzero((self.holders ^ self.wanters).any(axis=1) & self.wanters.any(axis=1))
        return np.repeat(moved, self.chunks).astype(np.int32)

    def rows_of(self, number: IntArray) -> Int32Array:
        """Return the rows of these chunks in a schedule's table, where those of an item stand together."""
        return (self.item[number] * self.chunks + number % self.chunks).astype(np.int32)

    @cached_property
    def holders(self) -> BoolArray:
        """Shape (items, nodes): the ranks that have each item before the collective."""
        return self._ranks(self.collective.items.start)

    @cached_property
    def wanters(self) -> BoolArray:
        """Shape (items, nodes): the ranks that must have it after the collective."""
        return self._ranks(self.collective.items.end)

    @cached_property
    def missing(self) -> BoolArray:
        """Shape (items, nodes): the ranks that must receive each item."""
        missing: BoolArray = self.wanters & ~self.holders
        return missing

    @cached_property
    def held(self) -> BoolArray:
        """Shape (chunks, nodes): the ranks that have each chunk before the collective."""
        return self.holders[self.item]

    @cached_property
    def wanted(self) -> tuple[tuple[int, int], ...]:
        """(chunk, rank) of all chunks that a rank must receive."""
        return tuple((int(c), int(n)) for c, n in np.argwhere(self.missing[self.item]))

    @cached_property
    def ends(self) -> list[tuple[int, int]]:
        """Source and target of each link."""
        return list(zip(self.topology.source.tolist(), self.topology.target.tolist(), strict=True))

    def _ranks(self, ends: Int32Array) -> BoolArray:
        """Return the ranks that the start or end of each item stands for, as a mask (items, nodes)."""
        table = np.zeros((len(ends), self.topology.num_nodes), dtype=np.bool_)
        for row, (end, group) in enumerate(
            zip(ends.tolist(), self.collective.items.group.tolist(), strict=True)
        ):
            table[row, list(self.collective.members[group]) if end == EVERYONE else [end]] = True
        return table

    @cached_property
    def capacity(self) -> Int64Array:
        """int64, shape (links,): b, the chunks that a link carries in a round; 1 on the slowest."""
        speeds = self.topology.bandwidth.numerators
        if (speeds % speeds.min()).any():
            raise Unsupported(
                f"{self.method} needs bandwidths that are multiples of the least one; "
                f"{self.topology.name} has others"
            )
        return speeds // speeds.min()

    @cached_property
    def hops(self) -> Int32Array:
        """int32, shape (items, ranks): links from the nearest holder."""
        return nearest(hop_distances(self.topology), self.holders, np.iinfo(np.int32).max)

    @cached_property
    def hops_left(self) -> Int32Array:
        """int32, shape (items, ranks): links to the nearest rank that must have the item and does not yet."""
        return nearest(hop_distances(self.topology).T, self.missing, np.iinfo(np.int32).max)

    def useful(self, chunk: IntArray, source: IntArray, target: IntArray) -> BoolArray:
        """Return which transfers serve a postcondition, in order of time (`useful_transfers`).

        Parameters
        ----------
        chunk, source, target
            Shape (transfers,): the chunk of each (its place in `item`), and the ranks from and to.
        """
        return useful_transfers(chunk, source, target, self.missing[self.item])

    @cached_property
    def least_steps(self) -> int:
        """The most hops that any item must make: no schedule has fewer steps."""
        return int(self.hops[self.wanters].max())

    @cached_property
    def least_rounds(self) -> int:
        """Least number of rounds by the bounds. In a round the slowest link sends one chunk."""
        share = self.collective.items.share[0] / self.chunks
        slowest = min(self.topology.bandwidth)
        bounds = [
            bound.value for bound in lower_bounds(self.topology, self.collective) if bound.unit == "s/B"
        ]
        return max(1, *(math.ceil(Fraction(value) * slowest / share) for value in bounds))

    def schedule(
        self,
        clock: Clock,
        transfers: tuple[IntArray, IntArray | Sequence[int], IntArray],
        routes: Sequence[Sequence[int]] = (),
        **further: Any,
    ) -> Schedule:
        """Return the schedule of these transfers.

        Parameters
        ----------
        clock
            The clock of the order.
        transfers
            Shape (transfers,) each: the chunk (its place in `item`), the route and the order.
        routes
            The links of each route; empty if routes are links.
        further
            Further arguments of `Schedule`.
        """
        (chunk, route, order), table = transfers, Routes.of(routes)
        return Schedule(
            topology=self.topology,
            collective=self.collective,
            clock=clock,
            chunks=Chunks.even(self.collective, self.chunks),
            chunk=self.rows_of(chunk),
            route=np.asarray(route, dtype=np.int32),
            order=order,
            routes=None if table.are_links else table,
            **further,
        )


def nearest(distance: Distances, chosen: BoolArray, far: int) -> Distances:
    """Return the distance to every node from the nearest of some nodes.

    Parameters
    ----------
    distance
        Shape (nodes, nodes): from one node to another.
    chosen
        Shape (sets, nodes): which nodes each set has.
    far
        The distance from a set without nodes.

    Returns
    -------
    Distances
        Shape (sets, nodes).
    """
    rows = [distance[row].min(axis=0) if row.any() else np.full(len(row), far) for row in chosen]
    return np.stack(rows).astype(distance.dtype)


@dataclass(frozen=True)
class NetworkRoutes:
    """All routes of a network.

    Parameters
    ----------
    links
        The links of each route, in order. If the routes are exactly the links, route e is link e.
    ends
        The first and the last node of each route.
    """

    links: tuple[tuple[int, ...], ...]
    ends: tuple[tuple[int, int], ...]

    @cached_property
    def number(self) -> dict[tuple[int, ...], int]:
        """The route that goes over these links."""
        return {links: route for route, links in enumerate(self.links)}


def routes_of(topology: Topology, method: str = "teccl") -> NetworkRoutes:
    """Return the routes of a network: links first, then routes through switches by their rank and length.

    Raises
    ------
    Unsupported
        If there are more than 2^14 through switches: 128 ranks on one have 16,256.
    """
    ends = list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    stops = set(range(topology.num_ranks)) | topology.multicast
    found: list[tuple[int, ...]] = [(link,) for link, (a, b) in enumerate(ends) if a in stops and b in stops]
    most = 2**14
    limit = len(found) + most
    out: list[list[int]] = [[] for _ in range(topology.num_nodes)]
    for link, (a, _) in enumerate(ends):
        out[a].append(link)
    for rank in range(topology.num_ranks if topology.num_switches else 0):
        for links in _through_switches(topology.num_ranks, ends, out, rank):
            found.append(links)
            if len(found) > limit:
                raise Unsupported(f"{method}: {topology.name} has over {most} routes through switches")
    return NetworkRoutes(tuple(found), tuple((ends[links[0]][0], ends[links[-1]][1]) for links in found))


def _through_switches(
    num_ranks: int, ends: list[tuple[int, int]], out: list[list[int]], rank: int
) -> Iterator[tuple[int, ...]]:
    """Yield the routes of fewest links from a rank to each other rank, those of more than one link."""
    fewest = {rank: 0}
    growing: list[tuple[int, ...]] = [(link,) for link in out[rank]]
    # Breadth first: the list grows at its end, so `fewest` is final when a node is first met.
    for route in growing:
        at = ends[route[-1]][1]
        if len(route) > fewest.setdefault(at, len(route)):
            continue
        if at >= num_ranks:
            growing += [(*route, link) for link in out[at]]
        elif len(route) > 1:
            yield route


@dataclass(frozen=True, eq=False)
class SizedInstance(ABC):
    """An instance at a size, in ticks.

    Parameters
    ----------
    instance
        Chunks, links and their ends.
    size
        M in bytes.
    """

    instance: ChunkInstance
    size: Fraction

    @property
    @abstractmethod
    def tick(self) -> Fraction:
        """Seconds of a tick."""

    @property
    @abstractmethod
    def earliest(self) -> Int64Array:
        """int64, shape (items, nodes): ticks before which an item can not be there, alone on the network."""

    @property
    def problem(self) -> Problem:
        """The problem that it is the instance of."""
        return Problem(self.instance.topology, self.instance.collective, self.size)

    @cached_property
    def chunk_bytes(self) -> Fraction:
        """The size of one chunk in bytes."""
        return self.size * self.instance.collective.items.share[0] / self.instance.chunks

    @cached_property
    def bounds(self) -> list[Bound]:
        """The project's lower bounds at this size."""
        return lower_bounds(self.instance.topology, self.instance.collective, self.size)

    @cached_property
    def farthest(self) -> int:
        """Ticks of the longest route that a chunk must go, alone on the network."""
        return int(self.earliest[self.instance.missing].max(initial=0))

    @cached_property
    def least(self) -> int:
        """The ticks that every schedule needs, by the bounds, the longest route and the links' room."""
        proven = max(math.ceil(Fraction(bound.time(self.size)) / self.tick) for bound in self.bounds)
        return self.with_room(max(proven, self.farthest))

    def begin(self, *, cuts: bool) -> int:
        """Return the ticks that a search begins with: as many as the bounds say, or the longest route."""
        return self.least if cuts else self.farthest

    def with_room(self, least: int) -> int:
        """Return the first tick, `least` or later, by which the links have room for all that is wanted."""
        return least


@dataclass(frozen=True)
class HorizonLimits:
    """Options for solving the programs of a search.

    Parameters
    ----------
    solver
        A back-end for mixed-integer programs.
    seconds
        The time of all solves together.
    seed
        Seed of the solver.
    gap
        Relative gap at which to stop.
    """

    solver: str = "cp-sat"
    seconds: float = math.inf
    seed: int = 0
    gap: float = 0.0

    def options(self, seconds: float, gap: float | None = None) -> Any:
        """Return the back-end's options for a solve of at most `seconds`."""
        return milp_options(self.solver, seconds, gap, self.seed)


@dataclass(frozen=True)
class HorizonAnswer(Generic[Rows]):
    """A solver's answer to the question whether there is a schedule within a horizon.

    Parameters
    ----------
    rows, ticks
        A schedule, and when it has ended; None and infinity if it found none.
    infeasible
        Whether it has proven that there is none.
    bound
        Ticks that no schedule beats.
    """

    rows: Rows | None = None
    ticks: float = math.inf
    infeasible: bool = False
    bound: float = 0.0

    @classmethod
    def of(
        cls, result: SolverResult, rows_of: Callable[[], Rows], ticks_of: Callable[[Rows], int]
    ) -> HorizonAnswer[Rows]:
        """Return what a result says, with the rows of its values, where it has any."""
        bound = result.bound or 0.0
        if result.status is SolutionStatus.NONE:
            return cls(infeasible=result.termination is Termination.INFEASIBLE, bound=bound)
        rows = rows_of()
        return cls(rows, ticks_of(rows), bound=bound)


@dataclass(frozen=True)
class HorizonResult(Generic[Rows]):
    """The schedule found.

    Parameters
    ----------
    rows, ticks
        Its transfers, and when it has ended.
    proven
        Ticks that no schedule beats.
    stats
        Columns of a result row.
    """

    rows: Rows
    ticks: int
    proven: int
    stats: Mapping[str, Any] = field(default_factory=dict)

    @property
    def gap(self) -> float:
        """The gap that is left: the fraction of its ticks by which the schedule may exceed the optimum."""
        return (self.ticks - self.proven) / max(self.ticks, 1)


class HorizonSearch(Generic[Rows]):
    """The state of a search for the fewest ticks: the proven bound, the best schedule and the time left.

    Parameters
    ----------
    limits
        How to solve. The time begins when the search is made.
    proven
        Ticks that no schedule beats; they may be set later, if that takes time.
    """

    def __init__(self, limits: HorizonLimits, proven: int = 0) -> None:
        self.limits, self.proven = limits, proven
        self.until = now() + limits.seconds
        self.rows: Rows | None = None
        self.ticks = math.inf

    @property
    def left(self) -> float:
        """Seconds of the time limit."""
        return self.until - now()

    @property
    def met(self) -> bool:
        """Whether the best schedule is within the gap of what is proven."""
        return self.rows is not None and self.ticks - self.proven <= self.limits.gap * self.ticks

    def offer(self, rows: Rows, ticks: float) -> None:
        """Keep a schedule unless a better one is known."""
        if ticks <= self.ticks:
            self.rows, self.ticks = rows, ticks

    def learn(self, answer: HorizonAnswer[Rows], horizon: float) -> None:
        """Take what a solver says of the schedules within a horizon."""
        if answer.rows is not None:
            self.offer(answer.rows, answer.ticks)
        if answer.infeasible:
            self.proven = max(self.proven, int(horizon) + 1)
        elif math.isfinite(answer.bound):
            self.proven = max(self.proven, least_whole(answer.bound))

    def grow(
        self,
        ask: Callable[[int], HorizonAnswer[Rows]],
        horizon: int,
        most: float = math.inf,
        *,
        past_unknown: bool = False,
    ) -> None:
        """Ask whether there is a schedule within a horizon, then within the next one.

        It ends with a schedule, where the horizon is no less than the best schedule's ticks, or beyond the
        most ticks allowed.

        Parameters
        ----------
        ask
            Asks for a schedule within a horizon.
        horizon
            The first horizon.
        most
            Largest number of ticks allowed.
        past_unknown
            Whether to leave behind a horizon that the solver can not decide; else the search ends there.
        """
        while self.proven <= horizon <= most and horizon < self.ticks:
            answer = ask(horizon)
            self.learn(answer, horizon)
            if answer.rows is not None or not (answer.infeasible or past_unknown):
                break
            horizon += 1

    def result(self, stats: Mapping[str, Any], none: NoSchedule) -> HorizonResult[Rows]:
        """Return the best schedule with what is proven, or raise `none` if there is no schedule."""
        if self.rows is None:
            raise none
        ticks = int(self.ticks)
        return HorizonResult(self.rows, ticks, min(self.proven, ticks), stats)
