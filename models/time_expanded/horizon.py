"""The search for the fewest ticks: rounds of SCCL, epochs of TE-CCL, or the optimum's ticks.

It keeps the ticks that no schedule beats, the best schedule so far, and the time left. `HorizonSearch.grow`
asks for a schedule within a horizon of some ticks, then within one more, until there is one or the horizon is
that of the best schedule. A program that minimizes its ticks instead is asked once, and `HorizonSearch.learn`
takes its answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tutti.models.solvers import Feature, SolutionStatus, SolverResult, Termination, find_backend
from tutti.models.solvers.options import LEAST_SECONDS
from tutti.models.solvers.outcome import least_whole
from tutti.topologies.errors import NoSchedule
from tutti.topologies.kernels import now

Rows = TypeVar("Rows")


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
        backend: Any = find_backend(self.solver, {Feature.MILP})
        limit = max(seconds, LEAST_SECONDS) if math.isfinite(seconds) else None
        return backend.options(time_limit=limit, seed=self.seed, relative_gap=gap)


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
