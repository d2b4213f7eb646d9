"""What a schedule says of itself, against the exact cost."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from schedules.cost import congestion, step_cost
from schedules.schedule import Clock, Schedule
from schedules.verify.errors import VerificationError
from topologies.errors import suggestion


def check_claims(schedule: Schedule) -> None:
    """Check that each claim equals what `schedules.cost` finds.

    Raises
    ------
    VerificationError
        If a claim is wrong, unknown, or about what this schedule does not have.
    """
    for name, claimed in schedule.claims.items():
        if name not in _CLAIMS:
            raise VerificationError(f"unknown claim '{name}'{suggestion(name, _CLAIMS)}")
        found = _CLAIMS[name](schedule)
        if found is None:
            raise VerificationError(f"the schedule claims {name} = {claimed}, which it does not have")
        if Fraction(claimed) != found:
            raise VerificationError(f"the schedule claims {name} = {claimed}; it is {found}")


def _tl_steps(schedule: Schedule) -> int | None:
    return step_cost(schedule).tl_steps if schedule.clock is Clock.STEP else None


def _tb(schedule: Schedule) -> Fraction | None:
    return step_cost(schedule).tb if schedule.clock is Clock.STEP else None


_CLAIMS: dict[str, Callable[[Schedule], Fraction | int | None]] = {
    "tl_steps": _tl_steps,
    "tb": _tb,
    "congestion": congestion,
}
