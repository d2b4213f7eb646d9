"""Whether a model can be built and solved within its time limit, told before it is built."""

from __future__ import annotations

from topologies.errors import Unsupported

SECONDS_A_VARIABLE = 1e-4
"""What building a linear Pyomo model and solving it takes at the least; measured: 2e-4 to 1e-3 s for the many
small programs of BFB."""


def refuse_too_large(what: str, variables: int, time_limit: float | None) -> None:
    """Refuse a model that would not even be built in time.

    Parameters
    ----------
    what
        The model, as the message names it.
    variables
        How many it has.
    time_limit
        Seconds; None for no limit.

    Raises
    ------
    Unsupported
        If it takes longer than that.

    Examples
    --------
    >>> refuse_too_large("linear program (A.1)", 10**6, 10.0)
    Traceback (most recent call last):
    ...
    topologies.errors.Unsupported: linear program (A.1) has 1000000 variables, which take about 100 s; \
the time limit is 10 s
    """
    seconds = variables * SECONDS_A_VARIABLE
    if time_limit is not None and seconds > time_limit:
        raise Unsupported(
            f"{what} has {variables} variables, which take about {seconds:.0f} s; "
            f"the time limit is {time_limit:g} s"
        )
