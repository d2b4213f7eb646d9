"""The method `optimum`: the least time of all schedules of given chunks, in the time clock."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from models.optimum.clocked import Clocked
from models.optimum.greedy import Row, replayed
from models.optimum.program import least_time
from models.sccl.instance import Instance
from schedules.collective import Kind
from schedules.method import Method, Problem
from schedules.reverse import reverse
from schedules.schedule import Chunks, Clock, Schedule
from topologies.errors import InputError, NoSchedule
from topologies.exact import Int64Array
from topologies.transforms import transpose
from topologies.units import parse_time

REVERSED = (Kind.REDUCE_SCATTER, Kind.REDUCE)
KINDS = (Kind.ALLGATHER, Kind.BROADCAST, Kind.SCATTER, Kind.GATHER, Kind.ALL_TO_ALL, *REVERSED)
MOST_PLACES = 2000
"""Chunks times links: beyond, the program is not tiny any more."""


@dataclass(frozen=True)
class OptimumOptions:
    """Options of the exact search.

    Parameters
    ----------
    chunks
        Into how many equal chunks every item is cut.
    time_limit
        Of CP-SAT, a time with its unit; then the best schedule so far is returned, and what is proven.

    Raises
    ------
    InputError
        If `chunks` is no positive integer, or the time none.
    """

    chunks: int = 1
    time_limit: str = "60s"

    def __post_init__(self) -> None:
        """Check the values."""
        if isinstance(self.chunks, bool) or not isinstance(self.chunks, int) or self.chunks < 1:
            raise InputError(f"optimum option chunks is {self.chunks!r}; it must be an integer of at least 1")
        if parse_time(self.time_limit) <= 0:
            raise InputError(
                f"optimum option time_limit is {self.time_limit!r}; it must be positive, such as 60s"
            )


def synthesize(problem: Problem, options: OptimumOptions, rng: np.random.Generator) -> Schedule:
    """Return the schedule of least time; ``stats["solver_gap"]`` is 0 where that is proven.

    Raises
    ------
    Unsupported
        As `supports`.
    NoSchedule
        If times do not fit the solver's integers.
    InputError
        If the problem has no size.
    """
    supports(problem, options)
    if problem.size is None:
        raise InputError("optimum needs a size: its schedule depends on it")
    find = partial(_forward, options=options, seed=int(rng.integers(2**31)))
    if problem.collective.kind not in REVERSED:
        return find(problem)
    turned = Problem(transpose(problem.topology), problem.collective.reverse, problem.size)
    return reverse(find(turned), problem.topology)


def _forward(problem: Problem, options: OptimumOptions, seed: int) -> Schedule:
    """Return the schedule of a collective that does not combine."""
    what = problem.collective
    instance = Instance(problem.topology, what, options.chunks)
    clocked = Clocked(instance, problem.size or problem.collective.items.share[0])
    start = partial(_by_epochs, clocked, options, seed)
    found = least_time(clocked, float(parse_time(options.time_limit)), seed=seed, start=start)
    start, link, number = found.rows
    place = (number % instance.chunks).astype(np.int32)
    return Schedule(
        topology=problem.topology,
        collective=what,
        clock=Clock.TIME,
        chunks=Chunks.even(what, instance.chunks),
        chunk=instance.item[number] * instance.chunks + place,
        route=link.astype(np.int32),
        order=start,
        tick=clocked.tick,
        size=clocked.size,
        stats={
            "solver": "cp-sat",
            "solve_s": found.seconds,
            "solver_gap": (found.ticks - found.proven) / found.ticks,
        },
    )


def _by_epochs(clocked: Clocked, options: OptimumOptions, seed: int) -> tuple[list[Row], int] | None:
    """Return TE-CCL's schedule without its epochs: every message as early as can be."""
    from models.teccl import METHOD as TECCL  # Pyomo is slow to import, and seldom needed here
    from models.teccl import TecclOptions

    instance = clocked.instance
    problem = Problem(instance.topology, instance.collective, clocked.size)
    chosen = TecclOptions(chunks=options.chunks, epoch="best", time_limit=options.time_limit)
    try:
        schedule = TECCL.synthesize(problem, chosen, np.random.default_rng(seed))
    except NoSchedule:
        return None
    number = {chunk: c for c, chunk in enumerate(_places(instance).tolist())}
    messages: dict[tuple[int, int], list[int]] = {}
    columns = (np.asarray(column).tolist() for column in (schedule.order, schedule.route, schedule.chunk))
    for start, link, chunk in zip(*columns, strict=True):
        messages.setdefault((start, link), []).append(number[chunk])
    return replayed(clocked, [(link, chunks) for (_, link), chunks in messages.items()])


def _places(instance: Instance) -> Int64Array:
    """Return the row of each of the instance's chunks in the schedule's table."""
    count = instance.chunks
    return instance.item.astype(np.int64) * count + np.arange(len(instance.item)) % count


def supports(problem: Problem, options: OptimumOptions) -> None:
    """Raise `Unsupported` for switches, uneven shards, and networks that are not tiny."""
    METHOD.check_kind(problem.collective, KINDS)
    instance = Instance(problem.topology, problem.collective, options.chunks, method="optimum")
    places = len(instance.item) * problem.topology.num_links
    if places > MOST_PLACES:
        raise METHOD.unsupported(
            f"is for tiny networks: {len(instance.item)} chunks times {problem.topology.num_links} links are "
            f"{places}; at most {MOST_PLACES}"
        )


METHOD = Method(
    name="optimum",
    kind="exact",
    synthesize=synthesize,
    options=OptimumOptions,
    supports=supports,
    size_dependent=lambda problem, options: True,
    seeded=True,
    summary="the least time of all schedules of given chunks, by CP-SAT; tiny networks",
)
