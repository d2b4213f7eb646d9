"""The method `optimum`: the least time of given chunks, in the time clock, and its search.

Every message goes over one link, as in SCCL, TE-CCL and TACOS, or through switches to the next rank. With
`cut_through` it may also go over a route of several links through ranks. Its head leaves a rank before
its tail has arrived, so a single long message over two links takes half the time. The bounds hold for such
messages too. Switches do not multicast here, and messages do not wait at them.

The search (`least_time`) makes first schedules, then asks CP-SAT for a shorter one or for a proof. The
*greedy* first schedule is the best of many tries. In each, a link that is free takes the chunk that fewest
ranks have (ties at random), or all that it can as one message. A chunk that is under way to a rank is not
sent there again. Events are links becoming free, earliest first. Through switches routes take the place of
links.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from tutti.models.bfb import METHOD as BFB
from tutti.models.bounds import lower_bounds
from tutti.models.forestcoll import METHOD as FORESTCOLL
from tutti.models.optimum.program import TickProgram, TickRow, TimedInstance
from tutti.models.solvers.options import LEAST_SECONDS
from tutti.models.solvers.ortools import MOST_WHOLE
from tutti.models.teccl import METHOD as TECCL
from tutti.models.teccl import Epochs, TecclOptions
from tutti.models.teccl.starts import NO_START, StartSchedule, check_start
from tutti.models.time_expanded import (
    ChunkInstance,
    HorizonAnswer,
    HorizonLimits,
    HorizonResult,
    HorizonSearch,
    by_copies,
)
from tutti.schedules.capabilities import Capabilities
from tutti.schedules.collective import Kind
from tutti.schedules.method import Method, Problem, chunks_a_shard
from tutti.schedules.retiming import ends, retimed
from tutti.schedules.schedule import Clock, Schedule
from tutti.topologies.errors import InputError, NoSchedule, Unsupported
from tutti.topologies.exact import BoolArray, Int64Array
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


class FirstSchedule(NamedTuple):
    """A schedule that is known, and the ticks that it takes."""

    rows: list[TickRow]
    ticks: int


MakeFirst = Callable[[], FirstSchedule | None]
"""Makes a first schedule; None if it has none."""


@dataclass(frozen=True)
class TickLimits(HorizonLimits):
    """The limits of the search by CP-SAT; the time is that of first schedules, model and CP-SAT together.

    Parameters
    ----------
    cuts
        Whether the project's lower bounds are constraints, and not only the longest route.
    """

    cuts: bool = True


def least_time(
    timed: TimedInstance, limits: TickLimits, starts: Sequence[MakeFirst] | None = None
) -> HorizonResult[list[TickRow]]:
    """Return the schedule of least time, or the best one found in time with what is proven.

    Parameters
    ----------
    timed
        The instance.
    limits
        How to search.
    starts
        Makers of first schedules, each asked if those before are not good enough; None: the greedy one.

    Raises
    ------
    NoSchedule
        If none was found in time, or times do not fit CP-SAT's integers.
    """
    name = timed.instance.topology.name
    search = HorizonSearch[list[TickRow]](limits)
    if timed.horizon > MOST_WHOLE:
        raise NoSchedule(
            f"optimum on {name}: α and chunk times have no common tick above 1/{MOST_WHOLE} of the whole; "
            "choose a size whose chunks take times with fewer digits"
        )
    search.proven = timed.begin(cuts=limits.cuts)
    for start in [partial(best_greedy, timed, limits.seed)] if starts is None else starts:
        first = start()
        if first is not None and first.ticks < search.ticks:
            search.offer(*first)
        if search.met:
            break
    seconds = 0.0
    if not search.met:
        deadline = timed.horizon if search.rows is None else int(search.ticks) - 1
        answer, seconds = _solved(timed, search, deadline)
        search.learn(answer, deadline)
    why = f"found none in {limits.seconds:g} s; give it a start or more time"
    return search.result({"solve_s": seconds}, NoSchedule(f"optimum on {name}: {why}"))


def _solved(
    timed: TimedInstance, search: HorizonSearch[list[TickRow]], deadline: int
) -> tuple[HorizonAnswer[list[TickRow]], float]:
    """Return CP-SAT's answer for the schedules that end by a deadline, and its seconds."""
    from ortools.sat.python import cp_model  # slow to import

    program, limits = TickProgram(timed, deadline, search.proven), search.limits
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(search.left, LEAST_SECONDS)
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = limits.seed
    solver.parameters.relative_gap_limit = limits.gap
    status = solver.solve(program.model)
    bound, seconds = solver.best_objective_bound, solver.wall_time
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return HorizonAnswer(infeasible=status == cp_model.INFEASIBLE, bound=bound), seconds
    rows = sorted(program.rows(solver))
    if timed.over_routes:
        return HorizonAnswer(_useful(timed, rows), solver.value(program.last), bound=bound), seconds
    return HorizonAnswer(*replayed(timed, rows), bound=bound), seconds


def best_greedy(timed: TimedInstance, seed: int = 0, tries: int = 200) -> FirstSchedule:
    """Return the shortest schedule of `tries` tries."""
    rng = np.random.default_rng(seed)
    best = FirstSchedule([], timed.horizon)
    for attempt in range(tries):
        found = _greedy(timed, rng, whole=attempt % 2 == 1)
        if not best.rows or found.ticks < best.ticks:
            best = found
        if best.ticks <= timed.least:
            break
    return best


def _greedy(timed: TimedInstance, rng: np.random.Generator, *, whole: bool) -> FirstSchedule:
    """Return the schedule of one try; `whole`: links take all that they can as one message."""
    instance = timed.instance
    items = instance.item
    held = np.where(instance.held, 0, timed.horizon).astype(np.int64)
    coming = instance.held.copy()
    earliest = timed.earliest[items] / timed.least
    weights = np.array([1.0, -instance.topology.num_ranks * rng.random(), 2 * rng.random()])
    missing = int((instance.wanters[items] & ~coming).sum())
    free = [0] * len(timed.ends)
    next_up = [(0, float(rng.random()), route) for route in timed.routes]
    rows: list[TickRow] = []
    while missing and next_up:
        now, _, route = heapq.heappop(next_up)
        soonest = _soonest(timed, route, free)
        if soonest > now:
            heapq.heappush(next_up, (soonest, float(rng.random()), route))
            continue
        a, b = timed.ends[route[0]][0], timed.ends[route[-1]][1]
        ready = np.flatnonzero((held[:, a] <= now) & ~coming[:, b])
        if not len(ready):
            later = _next_arrival(held[:, a], coming[:, b], now)
            if later < timed.horizon:
                heapq.heappush(next_up, (later, float(rng.random()), route))
            elif not coming[:, b].all():
                coming_in = held[(held > now) & (held < timed.horizon)]  # nothing changes before
                later = int(coming_in.min()) if len(coming_in) else now + 1 + timed.alpha[route[0]]
                heapq.heappush(next_up, (later, float(rng.random()), route))
            continue
        value = weights @ np.stack([coming[ready].sum(axis=1), earliest[ready, b], rng.random(len(ready))])
        chosen = ready if whole else ready[[int(np.argmin(value))]]
        ends, come = timed.lasting(route, len(chosen))
        for link, end in zip(route, ends, strict=True):
            free[link] = now + end
        missing -= int(instance.wanters[items[chosen], b].sum())
        coming[chosen, b], held[chosen, b] = True, now + come
        rows += [TickRow(now, route, int(c)) for c in chosen]
        heapq.heappush(next_up, (now + ends[0], float(rng.random()), route))
    return replayed(timed, rows)


def _useful(timed: TimedInstance, rows: Sequence[TickRow]) -> list[TickRow]:
    """Return the rows that are of use; every chunk arrives before it is sent again."""
    ends = [(timed.ends[row.route[0]][0], timed.ends[row.route[-1]][1]) for row in rows]
    source, target = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    chunk = np.array([row.chunk for row in rows], dtype=np.int64)
    useful = timed.instance.useful(chunk, source, target)
    return [row for row, use in zip(rows, useful.tolist(), strict=True) if use]


def replayed(timed: TimedInstance, rows: Iterable[TickRow]) -> FirstSchedule:
    """Return the schedule of the rows that are of use, each message as early as it can be.

    Rows of one route and start are a message. The ticks are then those that the simulator takes.

    Parameters
    ----------
    timed
        The instance.
    rows
        In an order in which every chunk arrives before it is sent again, and in which messages go over each
        link; starts may have any unit.
    """
    messages: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for start, route, chunk in _useful(timed, list(rows)):
        messages.setdefault((start, route), []).append(chunk)
    at = np.where(timed.instance.held, 0, timed.horizon).astype(np.int64)
    free = [0] * len(timed.ends)
    found: list[TickRow] = []
    last = 0
    for (_, route), chunks in messages.items():
        a, b = timed.ends[route[0]][0], timed.ends[route[-1]][1]
        start = max(_soonest(timed, route, free), int(at[chunks, a].max()))
        ends, come = timed.lasting(route, len(chunks))
        for link, end in zip(route, ends, strict=True):
            free[link] = start + end
        at[chunks, b] = start + come
        last = max(last, start + come)
        found += [TickRow(start, route, c) for c in chunks]
    return FirstSchedule(sorted(found), last)


def _soonest(timed: TimedInstance, route: Sequence[int], free: Sequence[int]) -> int:
    """Return when a message can begin that finds every link of its route free."""
    heads = accumulate((timed.alpha[link] for link in route), initial=0)
    return max(free[link] - head for link, head in zip(route, heads, strict=False))


def _next_arrival(at_source: Int64Array, coming: BoolArray, now: int) -> int:
    """Return when the next chunk that the end lacks arrives at the source; never if none is on its way."""
    waiting = at_source[~coming & (at_source > now)]
    return int(waiting.min()) if len(waiting) else int(np.iinfo(np.int64).max)


METHOD = optimum({method.name: method for method in (BFB, FORESTCOLL)})
