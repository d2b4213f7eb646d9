"""Values of a JSON document that nobody has checked: each is what it should be, or an `InputError`.

Every function takes `where`, which opens the error's line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from topologies.errors import InputError, suggestion
from topologies.units import exact_number

_LONGEST = 60
"""Longer values are cut short in errors."""


def check_keys(keys: Iterable[str], allowed: Iterable[str], where: str) -> None:
    """Refuse a key that is not allowed, suggesting one that is."""
    known = set(allowed)
    for key in keys:
        if key not in known:
            raise InputError(f"{where}: unknown key '{key}'{suggestion(key, known)}")


def mapping(value: Any, where: str) -> Mapping[str, Any]:
    """Return a JSON object."""
    if not isinstance(value, Mapping):
        raise InputError(f"{where} must be an object, not {shown(value)}")
    return value


def lists_in(value: Any, where: str) -> list[list[Any]]:
    """Return a list of lists."""
    if not isinstance(value, list):
        raise InputError(f"{where} must be a list of lists")
    for place, links in enumerate(value):
        if not isinstance(links, list):
            raise InputError(f"{where}[{place}] is {shown(links)}; it must be a list")
    return value


def within(where: str, make: Callable[[], Any]) -> Any:
    """Return what `make` makes; its errors begin with `where`."""
    try:
        return make()
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def integer(value: Any, low: int, high: int, where: str) -> int:
    """Return an integer in low..high."""
    if type(value) is not int or not low <= value <= high:
        raise InputError(f"{where} is {shown(value)}; it must be an integer in {low}..{high}")
    return value


def exact(value: Any, where: str) -> Fraction:
    """Return an integer, a Fraction, or a text that is one (``"3/4"``)."""
    if isinstance(value, str):
        return Fraction(within(where, lambda: exact_number(value)))
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        raise InputError(f'{where} is {shown(value)}; it must be an exact number, such as 3, 0.75 or "3/4"')
    return Fraction(value)


def positive(value: Any, where: str) -> Fraction:
    """Return a positive exact number."""
    number = exact(value, where)
    if number <= 0:
        raise InputError(f"{where} is {shown(value)}; it must be positive")
    return number


def shown(value: Any) -> str:
    """Return a value for an error: short, on one line."""
    if isinstance(value, list | Mapping):
        return "a list" if isinstance(value, list) else "an object"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
