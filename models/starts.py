"""The schedules that the search of a model may begin with, by the names of the methods that make them."""

from __future__ import annotations

from collections.abc import Collection

from topologies.errors import InputError, suggestion

NO_START = "none"
"""The start of a search that begins with no schedule."""


def check_start(method: str, start: object, allowed: Collection[str]) -> None:
    """Refuse a start that is not allowed.

    Parameters
    ----------
    method
        Whose option it is.
    start
        As given.
    allowed
        Names of methods, and what else the method knows.

    Raises
    ------
    InputError
        If it is none of them.

    Examples
    --------
    >>> check_start("teccl", "bfb", [NO_START, "bfb"])
    """
    if start not in allowed:
        raise InputError(f"{method} option start is '{start}'{suggestion(str(start), allowed)}")
