"""The options of a method or format: from a config's table or ``--option K=V`` to its validated dataclass."""

from __future__ import annotations

import dataclasses
import json
import tomllib
import typing
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Protocol

from pydantic import BeforeValidator, TypeAdapter, ValidationError

from tutti.schedules.method import Method
from tutti.topologies.errors import InputError, suggestion
from tutti.topologies.exact import INT64_MAX
from tutti.topologies.ranges import Whole
from tutti.topologies.units import parse_time

SEED_COUNT = Whole(1, 10**6)
"""Allowed numbers of seeds for one row. A larger number is probably a mistake."""
SEED = Whole(0, INT64_MAX)
"""Allowed values of a single seed: results keep it in a column of int64."""
TIME_LIMIT = "time_limit"
"""The option that takes a number of seconds as well as a text with its unit, whatever its method holds."""


class Optioned(Protocol):
    """What has options: a method, a format, or a tuner's."""

    @property
    def name(self) -> str:
        """As on the command line."""

    @property
    def options(self) -> type[Any]:
        """The class of its options."""


def build_options(method: Optioned, given: Mapping[str, Any]) -> Any:
    """Return the options dataclass of a method (or format) with the values in `given`, checked and exact.

    Values are those of TOML or JSON; numbers with a point may be `Decimal`, which a field of type
    `Fraction` takes exactly.

    Raises
    ------
    InputError
        For an option that it does not have, of a wrong type, or that its dataclass refuses.
    """
    fields = _fields(method)
    for name in given:
        if name not in fields:
            known = suggestion(name, fields) if fields else "; it has none"
            raise InputError(f"{_named(method)} has no option '{name}'{known}")
    values = {name: _value(method, name, fields[name], value) for name, value in given.items()}
    try:
        return method.options(**values)
    except (TypeError, ValueError) as error:
        raise InputError(f"{_named(method)}: {error}") from error


def first_seeds(method: Method, count: int, name: str = "seeds") -> range:
    """Return so many seeds from 0; of a method without randomness one.

    Raises
    ------
    InputError
        If there can't be so many, with what the user calls their number.
    """
    SEED_COUNT.check("", name, count)
    return range(count if method.seeded else 1)


def only_seed(method: Method, seed: int, name: str = "seed") -> range:
    """Return one seed, as `first_seeds` returns several; 0 for a method without randomness.

    Raises
    ------
    InputError
        If it is no seed, with what the user calls it.
    """
    SEED.check("", name, seed)
    return range(seed, seed + 1) if method.seeded else range(1)


def describe_options(method: Method) -> dict[str, str]:
    """Return each option of the method with its default, as text."""
    return {
        field.name: "required" if _required(field) else _text(getattr(method.options(), field.name))
        for field in dataclasses.fields(method.options)
        if field.init
    }


def time_text(value: Any) -> Any:
    """Return a number, which is seconds, as a time with its unit, and anything else as it is.

    Examples
    --------
    >>> time_text(15), time_text("2min")
    ('15s', '2min')
    """
    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return f"{value}s" if number else value


def options_text(given: Mapping[str, Any]) -> str:
    """Return options as one short text, sorted by name: ``"chunks=4 pick=rarest"``; empty for none.

    Examples
    --------
    >>> options_text({"pick": "rarest", "chunks": 4})
    'chunks=4 pick=rarest'
    """
    return " ".join(f"{name}={_text(given[name])}" for name in sorted(given))


TimeText = Annotated[str, BeforeValidator(time_text)]
"""A time in a config's table, as text: numbers are seconds."""


def parse_assignments(texts: Iterable[str]) -> dict[str, Any]:
    """Return ``K=V`` texts as a mapping; V is read as TOML, or else as plain text.

    Raises
    ------
    InputError
        If a text has no ``=``, or a key occurs twice.

    Examples
    --------
    >>> parse_assignments(["chunks=4", "pick=rarest"])
    {'chunks': 4, 'pick': 'rarest'}
    """
    result: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"option '{text}': write it as NAME=VALUE, such as chunks=4")
        if name in result:
            raise InputError(f"option '{name}' is given twice")
        result[name] = _toml_value(value)
    return result


def with_lists(method: Method, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with ``a,b`` made a list where the method has one: no quotes in a shell."""
    lists = {name for name, hint in _fields(method).items() if typing.get_origin(hint) is tuple}
    return {
        name: [part.strip() for part in value.split(",")]
        if name in lists and isinstance(value, str)
        else value
        for name, value in given.items()
    }


def _toml_value(text: str) -> Any:
    try:
        table = tomllib.loads(f"value = {text}", parse_float=Decimal)
    except (ValueError, RecursionError):  # no TOML, or more than Python reads: the option's check refuses it
        return text
    return table["value"] if len(table) == 1 else text


def _named(owner: Optioned) -> str:
    return f"{'method' if isinstance(owner, Method) else 'format'} {owner.name}"


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _fields(method: Optioned) -> dict[str, Any]:
    hints = typing.get_type_hints(method.options)
    return {field.name: hints[field.name] for field in dataclasses.fields(method.options) if field.init}


def _value(method: Optioned, name: str, hint: Any, value: Any) -> Any:
    """Check one value in JSON's strict mode, where an enum is its text and a tuple an array."""
    if name == TIME_LIMIT:
        value = _time(method, hint, value)
    elif hint is str and type(value) in (int, Decimal):
        value = str(value)  # what reads the text says that it lacks a unit, or what is allowed
    exact = hint is Fraction or Fraction in typing.get_args(hint)
    plain = json.dumps(
        value, default=lambda odd: str(odd) if exact or not isinstance(odd, Decimal) else float(odd)
    )
    try:
        return TypeAdapter(hint).validate_json(plain, strict=True)
    except ValidationError as error:
        wanted = error.errors()[0]["msg"]
        wanted = wanted[0].lower() + wanted[1:]
        raise InputError(f"{_named(method)}, option '{name}': {wanted}, not {plain}") from error


def _time(method: Optioned, hint: Any, value: Any) -> Any:
    """Return a time limit as the method holds it: a text with its unit, or seconds."""
    text = time_text(value)
    if not isinstance(text, str):
        return value
    try:
        seconds = parse_time(text)
    except InputError as error:
        raise InputError(f"{_named(method)}, option '{TIME_LIMIT}': {error}") from error
    return text if hint is str else float(seconds)


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(map(_text, value))
    return str(value)
