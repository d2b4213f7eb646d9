"""Checks that all back-ends' options share."""

from __future__ import annotations

import math
from collections.abc import Collection

from topologies.errors import InputError, suggestion


def check_positive(solver: str, name: str, value: float | None, what: str) -> None:
    """Raise unless `value` is None or a positive finite number.

    Raises
    ------
    InputError
        Naming the option.
    """
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InputError(f"{solver} option {name} is {value!r}; it must be {what}")


def check_count(solver: str, name: str, value: int | None, least: int) -> None:
    """Raise unless `value` is None or an integer of at least `least`.

    Raises
    ------
    InputError
        Naming the option.
    """
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{solver} option {name} is {value!r}; it must be a whole number, at least {least}")


def check_choice(solver: str, name: str, value: str, allowed: Collection[str]) -> None:
    """Raise unless `value` is one of `allowed`.

    Raises
    ------
    InputError
        Naming the option, with a suggestion.
    """
    if value not in allowed:
        raise InputError(f"{solver} option {name} is '{value}'{suggestion(str(value), allowed)}")
