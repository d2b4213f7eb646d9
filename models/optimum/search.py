"""The search for the least time: first schedules, then CP-SAT for a shorter one or for a proof.

The *greedy* first schedule is the best of many tries. In each, a link that is free takes the chunk that
fewest ranks have (ties at random), or all that it can as one message. A chunk that is under way to a rank is
not sent there again. Events are links becoming free, earliest first. Through switches routes take the place
of links.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from tutti.models.optimum.program import TickProgram, TickRow, TimedInstance
from tutti.models.solvers.options import LEAST_SECONDS
from tutti.models.solvers.ortools import MOST_WHOLE
from tutti.models.time_expanded import HorizonAnswer, HorizonLimits, HorizonResult, HorizonSearch
from tutti.topologies.errors import NoSchedule
from tutti.topologies.exact import BoolArray, Int64Array


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
