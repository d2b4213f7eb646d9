r"""The least time in which given chunks can be where they must be: α-β scheduling, exactly, by CP-SAT.

Link e = (a, b) sends messages k = 1, 2, ... one after the other; a message of chunks c with y[e, k, c] = 1
starts when all of them are at a, lasts α_e + Σ_c s / b_e, and all of them are at b when it ends:

.. math::

    \sum_{e \to n, k} y_{e k c} = 1 \;(n \text{ must have } c), \qquad
    y_{e k c} \Rightarrow A_{c a} \le S_{e k}, \; A_{c b} = E_{e k}, \qquad
    E_{e k} = S_{e k} + \alpha_e u_{e k} + \sum_c \tfrac{s}{b_e} y_{e k c} \le S_{e, k+1}, \qquad
    \min \max_{c, n} A_{c n}.

All times are whole ticks, the largest in which α and s/b are whole, so nothing is rounded. A link has as many
messages as chunks could ever use it, so nothing is left out either, but that a message is not cut through a
rank: ranks pass on what they hold. The project's lower bounds are constraints, which are often all of the
proof; what is known already is a deadline, and only shorter schedules are looked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from models.optimum.clocked import Clocked
from models.optimum.greedy import Row, best_greedy
from models.solvers.outcome import least_whole
from topologies.errors import NoSchedule
from topologies.exact import Int64Array

MOST_TICKS = 2**40
"""CP-SAT adds in 64 bits; longer horizons are refused."""
LEAST_SECONDS = 0.01
"""Of CP-SAT where the start and the model took all the time."""


Known = Callable[[], tuple[list[Row], int] | None]
"""Makes a first schedule, and says how many ticks it takes; None if it has none."""


@dataclass(frozen=True)
class Limits:
    """How the search is done.

    Parameters
    ----------
    seconds
        Of first schedules, model and CP-SAT together.
    threads, seed
        Of CP-SAT.
    cuts
        Whether the project's lower bounds are constraints, and not only the longest way.
    gap
        Relative to the time found, at which to stop.
    """

    seconds: float
    threads: int = 1
    seed: int = 0
    cuts: bool = True
    gap: float = 0.0


@dataclass(frozen=True)
class Optimum:
    """The schedule found: rows (start, link, chunk), its ticks, and what is proven."""

    rows: Int64Array
    ticks: int
    proven: int
    seconds: float


class _Program:
    """The model of what ends by a deadline, and its variables."""

    def __init__(self, clocked: Clocked, deadline: int, least: int) -> None:
        self.clocked, self.deadline = clocked, deadline
        self.instance, self.ends = clocked.instance, clocked.ends
        self.model = cp_model.CpModel()
        self.at = {
            (c, n): self.model.new_int_var(int(first), 0 if first == 0 else deadline, "")
            for c, item in enumerate(self.instance.item.tolist())
            for n, first in enumerate(clocked.earliest[item].tolist())
            if first <= deadline
        }
        self.sends: dict[tuple[int, int, int], Any] = {}
        self.start: dict[tuple[int, int], Any] = {}
        for link in range(len(self.ends)):
            self._add_link(link)
        self._deliver()
        self.last = self.model.new_int_var(least, deadline, "last")
        self.model.add_max_equality(self.last, [self.at[pair] for pair in self._wanted()])
        self.model.minimize(self.last)

    def _add_link(self, link: int) -> None:
        """Add the messages of a link, used ones first, one after the other; as many as can end in time."""
        model, (a, b) = self.model, self.ends[link]
        alpha, move = self.clocked.alpha[link], self.clocked.move[link]
        first = self.clocked.earliest[self.instance.item, a]
        useful = [
            c
            for c, item in enumerate(self.instance.item.tolist())
            if not self.instance.holders[item, b] and first[c] + alpha + move <= self.deadline
        ]
        if not useful:
            return
        begin = int(first[useful].min())
        before: tuple[Any, Any] | None = None
        for k in range(min(len(useful), (self.deadline - begin) // (alpha + move))):
            used = model.new_bool_var("")
            low = begin + k * (alpha + move)
            start, end = (model.new_int_var(low, self.deadline, "") for _ in range(2))
            sends = {c: model.new_bool_var("") for c in useful}
            model.add(end == start + alpha * used + move * sum(sends.values()))
            model.add_max_equality(used, list(sends.values()))
            if before is not None:
                model.add(start >= before[0])
                model.add_implication(used, before[1])
            for c, send in sends.items():
                model.add(self.at[c, a] <= start).only_enforce_if(send)
                model.add(self.at[c, b] == end).only_enforce_if(send)
                self.sends[link, k, c] = send
            self.start[link, k] = start
            before = end, used

    def _deliver(self) -> None:
        """Bring each chunk once to all that must have it, and at most once to others."""
        instance = self.instance
        arriving: dict[tuple[int, int], list[Any]] = {}
        leaving: dict[tuple[int, int], list[Any]] = {}
        for (link, _, c), send in self.sends.items():
            leaving.setdefault((c, self.ends[link][0]), []).append(send)
            arriving.setdefault((c, self.ends[link][1]), []).append(send)
        for (c, n), sends in arriving.items():
            if instance.wanters[instance.item[c], n]:
                self.model.add_exactly_one(sends)
            else:
                self.model.add_at_most_one(sends)
                for send in leaving.get((c, n), ()):
                    self.model.add_bool_or([*sends, send.negated()])

    def found(self, solver: cp_model.CpSolver) -> tuple[list[Row], int]:
        """Return the rows and the ticks of a solution."""
        rows = [
            (solver.value(self.start[link, k]), link, c)
            for (link, k, c), send in self.sends.items()
            if solver.value(send)
        ]
        return rows, solver.value(self.last)

    def _wanted(self) -> list[tuple[int, int]]:
        instance = self.instance
        wanted = instance.wanters & ~instance.holders
        return [(c, int(n)) for c, item in enumerate(instance.item) for n in np.flatnonzero(wanted[item])]


def least_time(clocked: Clocked, limits: Limits, starts: Sequence[Known] | None = None) -> Optimum:
    """Return the schedule of least time, or the best one found in time with what is proven.

    Parameters
    ----------
    clocked
        The instance.
    limits
        How to search.
    starts
        First schedules, each asked for where those before are not good enough; None: the greedy one.

    Raises
    ------
    NoSchedule
        If none was found in time, or times do not fit CP-SAT's integers.
    """
    begin, name = time.perf_counter(), clocked.instance.topology.name
    if clocked.horizon > MOST_TICKS:
        raise NoSchedule(
            f"optimum on {name}: α and chunk times have no common tick above 1/{MOST_TICKS} of the whole; "
            "choose a size whose chunks take times with fewer digits"
        )
    least = clocked.least if limits.cuts else clocked.farthest
    known = best_known(clocked, limits, least, starts)
    if known is not None and known[1] - least <= limits.gap * known[1]:
        return Optimum(_columns(known[0]), known[1], least, 0.0)
    program = _Program(clocked, clocked.horizon if known is None else known[1] - 1, least)
    solver = _solver(limits, limits.seconds - (time.perf_counter() - begin))
    status = solver.solve(program.model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        known = program.found(solver)
    if known is None:
        raise NoSchedule(
            f"optimum on {name}: found none in {limits.seconds:g} s; give it a start or more time"
        )
    rows, ticks = known
    proven = max(least, least_whole(solver.best_objective_bound))
    proven = ticks if status == cp_model.INFEASIBLE else min(proven, ticks)
    return Optimum(_columns(rows), ticks, proven, solver.wall_time)


def best_known(
    clocked: Clocked, limits: Limits, least: int, starts: Sequence[Known] | None = None
) -> tuple[list[Row], int] | None:
    """Return the shortest of the first schedules, or the first that is within the gap of `least` ticks."""
    known = None
    for start in [lambda: best_greedy(clocked, limits.seed)] if starts is None else starts:
        other = start()
        if other is not None and (known is None or other[1] < known[1]):
            known = other
        if known is not None and known[1] - least <= limits.gap * known[1]:
            break
    return known


def _solver(limits: Limits, seconds: float) -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(seconds, LEAST_SECONDS)
    solver.parameters.num_workers = limits.threads
    solver.parameters.random_seed = limits.seed
    solver.parameters.relative_gap_limit = limits.gap
    return solver


def _columns(rows: list[Row]) -> Int64Array:
    return np.array(sorted(rows), dtype=np.int64).reshape(-1, 3).T
