"""The method `optimum`: the least time of given chunks, in the time clock.

Every message goes over one link, as in SCCL, TE-CCL and TACOS, or through switches to the next rank. With
`cut_through` it may also go over a route of several links through ranks. Its head leaves a rank before
its tail has arrived, so a single long message over two links takes half the time. The bounds hold for such
messages too. Switches do not multicast here, and messages do not wait at them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import numpy as np

from tutti.models.bfb import METHOD as BFB
from tutti.models.bounds import lower_bounds
from tutti.models.forestcoll import METHOD as FORESTCOLL
from tutti.models.optimum.program import TickRow, TimedInstance
from tutti.models.optimum.search import (
    FirstSchedule,
    MakeFirst,
    TickLimits,
    best_greedy,
    least_time,
    replayed,
)
from tutti.models.teccl import METHOD as TECCL
from tutti.models.teccl import Epochs, TecclOptions
from tutti.models.teccl.starts import NO_START, StartSchedule, check_start
from tutti.models.time_expanded import ChunkInstance, by_copies
from tutti.schedules.capabilities import Capabilities
from tutti.schedules.collective import Kind
from tutti.schedules.method import Method, Problem, chunks_a_shard
from tutti.schedules.retiming import ends, retimed
from tutti.schedules.schedule import Clock, Schedule
from tutti.topologies.errors import InputError, NoSchedule, Unsupported
from tutti.topologies.options import Duration, Number, Options, Whole
from tutti.topologies.units import parse_time

REVERSED = (Kind.REDUCE_SCATTER, Kind.REDUCE)
"""Collectives whose schedules are reversed ones of others."""
KINDS = (Kind.ALLGATHER, Kind.BROADCAST, Kind.SCATTER, Kind.GATHER, Kind.ALL_TO_ALL, *REVERSED)
AUTO = "auto"
PROGRAMS = ("constraint program of messages over one link each", "constraint program of messages over routes")
"""The program whose optimum a row has, without and with messages that cut through ranks or switches."""


@dataclass(frozen=True)
class OptimumOptions(Options):
    """Options of the exact search.

    Parameters
    ----------
    chunks
        The number of equal chunks into which every item is cut.
    start
        ``"auto"``: a greedy schedule, and TE-CCL's where that is not good enough; a method, whose schedule
        is replayed in whole chunks; or ``"none"``.
    cuts
        Whether the project's lower bounds are constraints of the program, and not only the longest route.
    cut_through
        Whether messages may go over several links, through ranks that do not keep them.
    gap
        Gap relative to the time found, at which to stop early.
    time_limit
        Limit of the whole, a time with its unit; then the best schedule so far is returned, and its bound.

    Raises
    ------
    InputError
        If `chunks` is no positive integer, the gap out of range, or the time none.
    """

    OWNER: ClassVar[str] = "optimum"

    chunks: Annotated[int, Whole(1, words="it must be an integer of at least 1")] = 1
    start: str = AUTO
    cuts: bool = True
    cut_through: bool = False
    gap: Annotated[float, Number(least=0, below=1)] = 0.0
    time_limit: Annotated[str, Duration("60s")] = "60s"


def optimum(starts: Mapping[str, Method]) -> Method:
    """Return the method, which may start from these methods under their names."""

    def make(problem: Problem, options: OptimumOptions, rng: np.random.Generator) -> Schedule:
        method.supports(problem, options)
        return synthesize(problem, options, rng, starts.get(options.start))

    def check(problem: Problem, options: OptimumOptions) -> None:
        check_start("optimum", options.start, [AUTO, NO_START, *starts])
        _check_tiny(problem, options)

    method = Method(
        name="optimum",
        kind="exact",
        synthesize=make,
        options=OptimumOptions,
        capabilities=Capabilities(KINDS, uneven_shards=False, further="a tiny network"),
        check=check,
        size_dependent=lambda problem, options: True,
        seeded=True,
        exact_for=lambda options: chunks_a_shard(options) + ("" if options.cut_through else ", link by link"),
        summary="the least time of given chunks, by CP-SAT; tiny networks",
    )
    return method


def synthesize(
    problem: Problem, options: OptimumOptions, rng: np.random.Generator, first: Method | None = None
) -> Schedule:
    """Return the schedule of least time; ``stats["solver_gap"]`` is 0 where that is proven.

    A reduction over routes whose links differ in speed is compared with the lower bounds.

    Parameters
    ----------
    problem, options, rng
        As for every method.
    first
        Makes the schedule to start from, if the options name one.

    Raises
    ------
    Unsupported
        As `Method.supports`.
    NoSchedule
        If times do not fit the solver's integers, or none was found in time without a start.
    InputError
        If the problem has no size.
    """
    if problem.size is None:
        raise InputError("optimum needs a size: its schedule depends on it")
    find = partial(_forward, options=options, seed=int(rng.integers(2**31)), first=first)
    schedule = by_copies(problem, find)
    switches, alike = problem.topology.num_switches, problem.topology.bandwidth.uniform
    if problem.collective.kind not in REVERSED or alike or not (options.cut_through or switches):
        return schedule
    # Reversed, a message through links of different speed may arrive later than in the program, so the
    # program's bound proves nothing: the gap is to the lower bounds.
    bounds = lower_bounds(problem.topology, problem.collective, problem.size)
    proven = max(bound.time(problem.size) for bound in bounds)
    gap = max(0.0, float(1 - proven / ends(schedule)))
    return schedule.replace(stats={**schedule.stats, "solver_gap": gap})


def _forward(problem: Problem, options: OptimumOptions, seed: int, first: Method | None) -> Schedule:
    """Return the schedule of a collective that does not combine."""
    what = problem.collective
    instance = ChunkInstance(problem.topology, what, options.chunks, "optimum", switches=True)
    timed = TimedInstance(instance, problem.size or what.items.share[0], options.cut_through)
    limits = TickLimits(
        seconds=float(parse_time(options.time_limit)), seed=seed, gap=options.gap, cuts=options.cuts
    )
    starts: list[MakeFirst] = []
    note = ""
    if options.start == AUTO:
        starts = [partial(best_greedy, timed, seed)]
        if not problem.topology.num_switches:
            starts.append(partial(_by_epochs, timed, options, seed))
    elif first is not None:
        given, note = _by_method(timed, first, seed)
        starts = [lambda: given]
    found = least_time(timed, limits, starts)
    start, used, number = zip(*found.rows, strict=True)
    routes = [(link,) for link in range(timed.instance.topology.num_links)]
    if any(len(route) > 1 for route in used):
        routes = sorted(set(used))
    where = {route: place for place, route in enumerate(routes)}
    schedule = timed.instance.schedule(
        Clock.TIME,
        (np.array(number), [where[route] for route in used], np.array(start, dtype=np.int64)),
        routes,
        tick=timed.tick,
        size=timed.size,
    )
    schedule = min(schedule, retimed(schedule), key=ends)
    return schedule.replace(
        stats={
            "program": PROGRAMS[timed.over_routes],
            "solver": "cp-sat",
            **found.stats,
            "solver_gap": float(1 - found.proven * timed.tick / ends(schedule)),
            **({"note": note} if note else {}),
        }
    )


def _by_epochs(timed: TimedInstance, options: OptimumOptions, seed: int) -> FirstSchedule | None:
    """Return TE-CCL's schedule without its epochs: every message as early as possible."""
    instance = timed.instance
    problem = Problem(instance.topology, instance.collective, timed.size)
    half = float(parse_time(options.time_limit)) / 2  # the rest is for the exact search
    chosen = TecclOptions(chunks=options.chunks, epoch="best", time_limit=f"{max(half, 1e-3):.9f}s")
    try:
        schedule = TECCL.synthesize(problem, chosen, np.random.default_rng(seed))
    except NoSchedule:
        return None
    rows = instance.rows_of(np.arange(len(instance.item)))
    number = {chunk: c for c, chunk in enumerate(rows.tolist())}
    columns = (np.asarray(column).tolist() for column in (schedule.order, schedule.route, schedule.chunk))
    transfers = zip(*columns, strict=True)
    return replayed(timed, (TickRow(start, (link,), number[chunk]) for start, link, chunk in transfers))


def _by_method(timed: TimedInstance, first: Method, seed: int) -> tuple[FirstSchedule | None, str]:
    """Return another method's schedule with every message as early as possible, or None, and a note on it."""
    instance = timed.instance
    problem = Problem(instance.topology, instance.collective, timed.size)
    start = StartSchedule.of(first, problem, instance.chunks, seed)
    transfers, note = start.transfers(Epochs(instance, timed.size), 0, buffers=True)
    if transfers is None:
        return None, note
    found = replayed(timed, (TickRow(epoch, (link,), chunk) for link, chunk, epoch in transfers))
    return found, f"start {first.name}: {float(found.ticks * timed.tick) * 1e6:g} us"


def _check_tiny(problem: Problem, options: OptimumOptions) -> None:
    """Raise `Unsupported` for networks that are not tiny, and starts that would stop at switches."""
    instance = ChunkInstance(problem.topology, problem.collective, options.chunks, "optimum", switches=True)
    if problem.topology.num_switches and options.start not in (AUTO, NO_START):
        raise Unsupported(
            f"optimum: the start {options.start} needs a network without switches; {problem.topology.name} "
            f"has {problem.topology.num_switches}"
        )
    places, most = len(instance.item) * problem.topology.num_links, 2000
    if places > most:
        raise Unsupported(
            f"optimum is for tiny networks: {len(instance.item)} chunks times {problem.topology.num_links} "
            f"links are {places}; at most {most}"
        )


METHOD = optimum({method.name: method for method in (BFB, FORESTCOLL)})
