"""Whether a linear program is small enough for its time limit, told from its size before it is built.

Measured with linear program (A.1) on one core, CPU seconds to build it in Pyomo, compile it and solve it with
HiGHS: 0.5 to 1 for 16,000 variables, 0.2 to 2.1 (median 1.3) for 18,000 to 21,000, 2 to 6 for 36,000 by
interior point, 55 for 937,000 by PDLP. The estimate is linear, and other programs have one of their own: it
refuses what has no chance.
"""

from __future__ import annotations

from topologies.errors import Unsupported

VARIABLES_A_SECOND = 20_000
"""Of linear program (A.1) in Pyomo, built, compiled and solved on one core."""


def seconds_for(variables: int) -> float:
    """Return about how many seconds linear program (A.1) takes to build and solve.

    Examples
    --------
    >>> seconds_for(5_000)
    0.25
    """
    return variables / VARIABLES_A_SECOND


def refuse_too_large(
    what: str, variables: int, time_limit: float | None, seconds: float | None = None
) -> None:
    """Refuse a model that would not be built and solved within its time limit.

    Parameters
    ----------
    what
        Names the model and what it is of: ``"mcf by=model on torus:8x8"``.
    variables
        Of the model.
    time_limit
        Seconds; None for no limit, which refuses nothing.
    seconds
        What the model is likely to take; None: `seconds_for` its variables.

    Raises
    ------
    Unsupported
        If the estimate exceeds the limit.

    Examples
    --------
    >>> refuse_too_large("mcf by=model on torus:64x64", 67_108_865, 60)
    Traceback (most recent call last):
    topologies.errors.Unsupported: mcf by=model on torus:64x64 has 67,108,865 variables, about 3.4e+03 s to \
build and solve; its time limit is 60 s
    """
    if seconds is None:
        seconds = seconds_for(variables)
    if time_limit is not None and seconds > time_limit:
        raise Unsupported(
            f"{what} has {variables:,} variables, about {seconds:.2g} s to build and solve; "
            f"its time limit is {time_limit:g} s"
        )
