"""How both stages' mixed-integer programs are solved: until when, by which solver, and what a row says of it.

Time is shared out: a stage gets a share of what is left, and what it leaves over goes to the next.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple

from tutti.models.solvers import Effort, Feature, SolverResult, find_backend
from tutti.models.solvers.options import LEAST_SECONDS
from tutti.topologies.errors import NoSchedule


class TimeShares(NamedTuple):
    """How stages share time and effort. A fraction is of the time that is left when its stage begins.

    The fractions are such that all rows of Table 2 of the paper have a routing and an order within 60 s
    (docs/taccl.md).
    """

    half: float
    """For the reduction, before the broadcasting half; and for a symmetric routing, before a plain one."""
    planning: float
    """For routing and ordering, if a program for contiguity follows."""
    first: float
    """For the first routing, if others may follow."""
    retry: float
    """For each of the routings that follow."""
    greedy: float
    """For improving the greedy routing."""
    effort: int
    """Most transfers of all disturbed orders together. A larger value tries more orders of large routings."""
    tries: int
    """Most disturbed orders that are tried. With a larger value more schedules meet their routing's time,
    and later."""


SHARES = TimeShares(
    half=1 / 2, planning=2 / 3, first=3 / 4, retry=1 / 4, greedy=1 / 4, effort=400_000, tries=200
)
UNSOLVED = "none: no time for a program"
"""Stands for the solver where the greedy routing and the heuristic order are the answer."""


@dataclass(frozen=True)
class Deadline:
    """When something should be over.

    Parameters
    ----------
    moment
        A moment of ``time.monotonic``; inf for never.
    last
        When there is no time even for what must be done, such as a first routing.
    """

    moment: float = math.inf
    last: float = math.inf

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """Return the moment after these seconds; None for never. A first routing has two seconds at least."""
        if seconds is None:
            return cls()
        now = monotonic()
        return cls(now + seconds, now + max(seconds, 2.0))

    @property
    def left(self) -> float:
        """Seconds; 0 if it is over, inf if it never is."""
        return max(0.0, self.moment - monotonic())

    @property
    def over(self) -> bool:
        """Whether no time is left."""
        return self.left <= 0

    def share(self, part: float) -> Deadline:
        """Return the moment when that part of the time left is over; what must be done has all of it."""
        return self if math.isinf(self.moment) else Deadline(monotonic() + self.left * part, self.last)

    def check(self, network: str) -> None:
        """Stop what must be done where it takes too long.

        Raises
        ------
        NoSchedule
            If its time is over.
        """
        if monotonic() > self.last:
            raise NoSchedule(f"taccl: no routing on {network} in the time that is given; give it more")


NEVER = Deadline()


@dataclass(frozen=True)
class StageLimits:
    """How a model is solved.

    Parameters
    ----------
    solver
        A back-end that does mixed-integer programs.
    deadline
        When the whole stage, model and solver, should be over.
    gap
        Relative gap at which it may stop.
    """

    solver: str = "highs"
    deadline: Deadline = field(default_factory=Deadline)
    gap: float = 1e-4


def mip_options(limits: StageLimits) -> Any:
    """Return a back-end's options for a mixed-integer program.

    Raises
    ------
    InputError
        If there is no such solver, or it is not installed.
    Unsupported
        If it does no mixed-integer programs.
    """
    backend = find_backend(limits.solver, {Feature.MILP})
    options: Any = backend.options
    left = limits.deadline.left
    seconds = None if math.isinf(left) else max(left, LEAST_SECONDS)
    return options(time_limit=seconds, relative_gap=limits.gap)


def slack(limits: StageLimits) -> float:
    """Return by which an upper bound must exceed a time of about 1 to 100 that is known to be reached.

    A solver on a grid rounds each time on the way up to it.
    """
    grid = getattr(mip_options(limits), "grid", None)
    return 1e-4 if grid is None else 100 / grid  # more than rounding, and less than solvers' gaps


def takes_start(limits: StageLimits) -> bool:
    """Whether the solver begins from values."""
    return Feature.START in find_backend(limits.solver).features


def stats_of(result: SolverResult, build_s: float) -> dict[str, Any]:
    """Return the columns of a result row that a solve gives."""
    effort = Effort()
    effort.add(result, build_s)
    return effort.columns | {"solver_gap": result.gap}


def unsolved(build_s: float) -> dict[str, Any]:
    """Return those columns where the time was over before the solver could begin."""
    return Effort(solver=UNSOLVED, build_s=build_s).columns | {"solver_gap": None}


def added(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return what two solves took together, with the size and gap of the first."""
    return {**one, **{key: one[key] + other[key] for key in ("build_s", "solve_s")}}


def joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return what two stages took together: sums, and the larger gap; the second may be empty."""
    if not other:
        return dict(one)
    sums = {key: one[key] + other[key] for key in ("build_s", "solve_s", "variables", "constraints")}
    gaps = [stats["solver_gap"] for stats in (one, other)]
    solver = (one if one["variables"] else other)["solver"]
    return {**one, **sums, "solver": solver, "solver_gap": None if None in gaps else max(gaps)}
