"""Settings for the mixed-integer programs of both stages: their time, their solver, and a row's columns.

The stages share the time: each gets a fraction of what is left, and the next gets what it does not use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple

from tutti.models.solvers import Effort, Feature, SolverResult, find_backend
from tutti.models.solvers.registry import milp_options
from tutti.topologies.errors import NoSchedule


class TimeShares(NamedTuple):
    """Shares of time and effort. A fraction is of the time that is left when a stage begins.

    The fractions are such that all rows of Table 2 of the paper have a routing and an order within 60 s
    (docs/taccl.md).
    """

    half: float
    """Fraction for the reduction, before the allgather of an allreduce; also for a symmetric routing, before
    one without symmetry. A larger value leaves less for the second."""
    planning: float
    """Fraction for routing and ordering, where a program for contiguity follows. A larger value leaves less
    for contiguity."""
    first: float
    """Fraction for the first routing, where others may follow. A larger value leaves less for the others."""
    retry: float
    """Fraction for each of the routings that follow. A larger value improves each more, but allows fewer."""
    greedy: float
    """Fraction for improving the greedy routing. A larger value leaves less for the solver."""
    effort: int
    """Most transfers in all disturbed orders together. A larger value tries more orders of large routings."""
    tries: int
    """Most disturbed orders that are tried. With a larger value more schedules are as short as their
    routing's time, but synthesis takes longer."""


SHARES = TimeShares(
    half=1 / 2, planning=2 / 3, first=3 / 4, retry=1 / 4, greedy=1 / 4, effort=400_000, tries=200
)
UNSOLVED = "none: no time for a program"
"""The solver's name in results where the greedy routing and the heuristic order are the answer."""


@dataclass(frozen=True)
class Deadline:
    """The moment when a stage should end.

    Parameters
    ----------
    moment
        A moment of ``time.monotonic``; inf for never.
    last
        The moment after which even necessary work stops, such as a first routing.
    """

    moment: float = math.inf
    last: float = math.inf

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """Return the moment after these seconds; None for never. A first routing has at least two seconds."""
        if seconds is None:
            return cls()
        now = monotonic()
        return cls(now + seconds, now + max(seconds, 2.0))

    @property
    def left(self) -> float:
        """Seconds until then: 0 if it has passed, inf for never."""
        return max(0.0, self.moment - monotonic())

    @property
    def over(self) -> bool:
        """Whether no time is left."""
        return self.left <= 0

    def share(self, part: float) -> Deadline:
        """Return the moment when that part of the time left has passed; necessary work keeps all of it."""
        return self if math.isinf(self.moment) else Deadline(monotonic() + self.left * part, self.last)

    def check(self, network: str) -> None:
        """Stop necessary work if it takes too long.

        Raises
        ------
        NoSchedule
            If even its time has passed.
        """
        if monotonic() > self.last:
            raise NoSchedule(f"taccl: no routing on {network} in the time that is given; give it more")


NEVER = Deadline()


@dataclass(frozen=True)
class StageLimits:
    """Limits within which a model is solved.

    Parameters
    ----------
    solver
        A back-end that does mixed-integer programs.
    deadline
        The moment when the whole stage, model and solver, should end.
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
    return milp_options(limits.solver, limits.deadline.left, limits.gap)


def slack(limits: StageLimits) -> float:
    """Return a margin over a time of about 1 to 100 that is known to be reached, for an upper bound.

    A solver on a grid rounds each time on the way up to it.
    """
    grid = getattr(mip_options(limits), "grid", None)
    return 1e-4 if grid is None else 100 / grid  # larger than rounding, and smaller than solvers' gaps


def takes_start(limits: StageLimits) -> bool:
    """Whether the solver begins from values."""
    return Feature.START in find_backend(limits.solver).features


def stats_of(result: SolverResult, build_s: float) -> dict[str, Any]:
    """Return the columns of a result row for a solve."""
    effort = Effort()
    effort.add(result, build_s)
    return effort.columns | {"solver_gap": result.gap}


def unsolved(build_s: float) -> dict[str, Any]:
    """Return those columns for a stage whose time ended before the solver could begin."""
    return Effort(solver=UNSOLVED, build_s=build_s).columns | {"solver_gap": None}


def added(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns for two solves together, with the size and gap of the first."""
    return {**one, **{key: one[key] + other[key] for key in ("build_s", "solve_s")}}


def joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns for two stages together: sums, and the larger gap; the second may be empty."""
    if not other:
        return dict(one)
    sums = {key: one[key] + other[key] for key in ("build_s", "solve_s", "variables", "constraints")}
    gaps = [stats["solver_gap"] for stats in (one, other)]
    solver = (one if one["variables"] else other)["solver"]
    return {**one, **sums, "solver": solver, "solver_gap": None if None in gaps else max(gaps)}
