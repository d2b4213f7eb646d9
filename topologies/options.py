"""Options that check themselves: frozen dataclasses whose annotations give the range of each field.

A class of options derives from `Options`, and a field's annotation carries its range:

>>> @dataclass(frozen=True)
... class DemoOptions(Options):
...     OWNER: ClassVar[str] = "demo"
...     chunks: Annotated[int, Whole(1)] = 1
...     tolerance: Annotated[float | None, Number(least=1e-10, most=0.1)] = None
...     pick: Annotated[str, Choice(("rarest", "uniform"))] = "rarest"
>>> DemoOptions(tolerance=5)
Traceback (most recent call last):
...
tutti.topologies.errors.InputError: demo option tolerance is 5; it must be a number from 1e-10 to 0.1
>>> DemoOptions(pick="rarst")
Traceback (most recent call last):
...
tutti.topologies.errors.InputError: demo option pick is 'rarst'; did you mean 'rarest'?

None passes where the annotation allows it, and a `bool` needs no range. A check that concerns several options
belongs in the class's own ``__post_init__``, after that of `Options`.
"""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from functools import cache
from types import NoneType
from typing import Annotated, Any, ClassVar, Protocol, get_args, get_origin, get_type_hints

from tutti.topologies.errors import InputError, suggestion, within
from tutti.topologies.units import parse_time


@dataclass(frozen=True, kw_only=True)
class Range:
    """The values that an option may have.

    Parameters
    ----------
    words
        What an error says of a value outside, if the usual text does not fit: ``"it must be ..."``.
    """

    words: str = ""

    def holds(self, value: Any) -> bool:
        """Whether a value is inside."""
        raise NotImplementedError

    def usual(self, value: Any) -> str:
        """Return what an error usually says of a value outside."""
        raise NotImplementedError

    def check(self, owner: str, name: str, value: Any) -> None:
        """Refuse a value outside the range.

        Parameters
        ----------
        owner, name
            The method or solver that has the option, and what the option is called.
        value
            The value that was given.

        Raises
        ------
        InputError
            If the value is outside; the message names the option.
        """
        if not self.holds(value):
            shown = str(value) if isinstance(value, Fraction) else repr(value)
            said = self.words or self.usual(value)
            raise InputError(f"{owner} option {name} is {shown}; {said}".lstrip())


@dataclass(frozen=True)
class Flag(Range):
    """True or false."""

    def holds(self, value: Any) -> bool:
        """Whether it is a bool."""
        return isinstance(value, bool)

    def usual(self, value: Any) -> str:
        """Return what an error says: the two values."""
        return "it must be true or false"


@dataclass(frozen=True)
class Whole(Range):
    """A whole number from `least` to `most`, both included; None means no upper end."""

    least: int = 0
    most: int | None = None

    def holds(self, value: Any) -> bool:
        """Whether it is an int, no bool, between the ends."""
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole and value >= self.least and (self.most is None or value <= self.most)

    def usual(self, value: Any) -> str:
        """Return what an error says: the ends."""
        ends = f"at least {self.least}" if self.most is None else f"{self.least} to {self.most}"
        return f"it must be a whole number, {ends}"


@dataclass(frozen=True, kw_only=True)
class Number(Range):
    """A finite number in a range that includes (`least`, `most`) or excludes (`above`, `below`) its ends."""

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    below: float = math.inf

    def holds(self, value: Any) -> bool:
        """Whether it is a number, no bool, between the ends."""
        number = isinstance(value, int | float | Fraction) and not isinstance(value, bool)
        return number and self.least <= value <= self.most and self.above < value < self.below

    def usual(self, value: Any) -> str:
        """Return what an error says: the ends."""
        if self.above == 0 and self.below == self.most == math.inf:
            return "it must be a positive number"
        if math.isfinite(self.least) and math.isfinite(self.most):
            return f"it must be a number from {self.least:g} to {self.most:g}"
        ends = {"at least": self.least, "at most": self.most, "above": self.above, "below": self.below}
        return "it must be " + " and ".join(
            f"{word} {end:g}" for word, end in ends.items() if math.isfinite(end)
        )


SECONDS = Number(above=0, words="it must be a positive number of seconds")
"""Range of a time limit that is a number."""


@dataclass(frozen=True)
class Choice(Range):
    """One of several texts."""

    allowed: Collection[str]

    def holds(self, value: Any) -> bool:
        """Whether it is one of them."""
        return isinstance(value, str) and value in self.allowed

    def usual(self, value: Any) -> str:
        """Return what an error says: the most similar text, or all of them."""
        return suggestion(str(value), self.allowed).removeprefix("; ")


@dataclass(frozen=True)
class Duration(Range):
    """A positive time with its unit, as text; its own errors say what is wrong with the text."""

    example: str = "60s"

    def holds(self, value: Any) -> bool:
        """Whether it is positive."""
        return parse_time(value) > 0

    def usual(self, value: Any) -> str:
        """Return what an error says: an example."""
        return f"it must be positive, such as {self.example}"


@dataclass(frozen=True)
class Names(Range):
    """A list of at least `least` names."""

    least: int = 0

    def holds(self, value: Any) -> bool:
        """Whether it is a list of texts and long enough."""
        listed = isinstance(value, list | tuple) and len(value) >= self.least
        return listed and all(isinstance(name, str) for name in value)

    def usual(self, value: Any) -> str:
        """Return what an error says: what it is."""
        return "it must be a list of names"


@dataclass(frozen=True)
class Options:
    """The base of all classes of options. It refuses a value outside its range.

    Raises
    ------
    InputError
        If a value is outside; the message names the option, its value and its range.
    """

    OWNER: ClassVar[str] = ""
    """The method or solver whose options these are; empty for several methods' options."""

    def __post_init__(self) -> None:
        """Check every field by the range in its annotation."""
        kind: Any = type(self)
        for name, (range_, optional) in _ranges(kind).items():
            value = getattr(self, name)
            if value is not None or not optional:
                range_.check(self.OWNER, name, value)


@cache
def _ranges(options: type) -> Mapping[str, tuple[Range, bool]]:
    """Return each field's range, and whether it may be None."""
    hints = get_type_hints(options, include_extras=True)
    found = {}
    for field in fields(options):
        hint = hints[field.name]
        given = [range_ for range_ in getattr(hint, "__metadata__", ()) if isinstance(range_, Range)]
        kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        if not given and kind in (bool, bool | None):
            given = [Flag()]
        if given:
            found[field.name] = (given[0], NoneType in get_args(kind))
    return found


TIME_LIMIT = "time_limit"
"""Name of the option that takes seconds as well as a text with its unit, whichever its method stores."""


class Optioned(Protocol):
    """An object that has options: a method, a format, or a tuner's format."""

    @property
    def name(self) -> str:
        """The name on the command line."""

    @property
    def options(self) -> type[Any]:
        """The class of its options."""


def build_options(owner: Optioned, given: Mapping[str, Any]) -> Any:
    """Return the options dataclass of a method (or format) with the values in `given`, checked and exact.

    Values are those of TOML or JSON; numbers with a point may be `Decimal`, which a field of type
    `Fraction` takes exactly.

    Raises
    ------
    InputError
        If it has no such option, or if a value has the wrong type or is refused by the dataclass.
    """
    fields = _fields(owner)
    for name in given:
        if name not in fields:
            known = suggestion(name, fields) if fields else "; it has none"
            raise InputError(f"{_named(owner)} has no option '{name}'{known}")
    values = {name: _value(owner, name, fields[name], value) for name, value in given.items()}
    try:
        return owner.options(**values)
    except (TypeError, ValueError) as error:
        raise InputError(f"{_named(owner)}: {error}") from error


def describe_options(owner: Optioned) -> dict[str, str]:
    """Return each option of the method with its default, as text."""
    return {
        field.name: "required"
        if field.default is field.default_factory is dataclasses.MISSING
        else _text(getattr(owner.options(), field.name))
        for field in fields(owner.options)
        if field.init
    }


def time_text(value: Any) -> Any:
    """Return a number of seconds as a text with its unit, and anything else unchanged.

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


def with_lists(owner: Optioned, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options; ``a,b`` becomes a list where the method takes one, so a shell needs no quotes."""
    lists = {name for name, hint in _fields(owner).items() if get_origin(hint) is tuple}
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
    return f"{'method' if hasattr(owner, 'synthesize') else 'format'} {owner.name}"


def _fields(owner: Optioned) -> dict[str, Any]:
    hints = get_type_hints(owner.options)
    return {field.name: hints[field.name] for field in fields(owner.options) if field.init}


def _value(owner: Optioned, name: str, hint: Any, value: Any) -> Any:
    """Check one value in pydantic's strict mode for JSON, where an enum is a text and a tuple an array."""
    from pydantic import TypeAdapter, ValidationError  # a solver's process needs neither

    if name == TIME_LIMIT:
        text = time_text(value)
        if isinstance(text, str):  # the method stores a text with its unit, or seconds
            seconds = within(f"{_named(owner)}, option '{TIME_LIMIT}'", lambda: parse_time(text))
            value = text if hint is str else float(seconds)
    elif hint is str and type(value) in (int, Decimal):
        value = str(value)  # the text's parser then says that a unit is missing, or what is allowed
    exact = hint is Fraction or Fraction in get_args(hint)
    plain = json.dumps(
        value, default=lambda odd: str(odd) if exact or not isinstance(odd, Decimal) else float(odd)
    )
    try:
        return TypeAdapter(hint).validate_json(plain, strict=True)
    except ValidationError as error:
        wanted = error.errors()[0]["msg"]
        wanted = wanted[0].lower() + wanted[1:]
        wanted = wanted.replace("a valid boolean", "true or false").replace("a valid array", "a list")
        raise InputError(f"{_named(owner)}, option '{name}': {wanted}, not {plain}") from error


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(map(_text, value))
    return str(value)
