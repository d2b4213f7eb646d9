"""Options that check themselves: frozen dataclasses whose fields say in their annotation what they may be.

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
topologies.errors.InputError: demo option tolerance is 5; it must be a number from 1e-10 to 0.1
>>> DemoOptions(pick="rarst")
Traceback (most recent call last):
...
topologies.errors.InputError: demo option pick is 'rarst'; did you mean 'rarest'?

None passes where the annotation allows it, and a `bool` needs no range. What concerns several options at once
is for the class's own ``__post_init__``, after that of `Options`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cache
from types import NoneType
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

from tutti.topologies.errors import InputError, suggestion
from tutti.topologies.units import parse_time


@dataclass(frozen=True, kw_only=True)
class Range:
    """What the values of an option may be.

    Parameters
    ----------
    words
        What is said of a value outside, where the usual does not fit: ``"it must be ..."``.
    """

    words: str = ""

    def holds(self, value: Any) -> bool:
        """Whether a value is inside."""
        raise NotImplementedError

    def usual(self, value: Any) -> str:
        """Return what is said of a value outside."""
        raise NotImplementedError

    def check(self, owner: str, name: str, value: Any) -> None:
        """Refuse a value outside.

        Parameters
        ----------
        owner, name
            The method or solver that has the option, and what the option is called.
        value
            As given.

        Raises
        ------
        InputError
            Naming the option.
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
        """Return both."""
        return "it must be true or false"


@dataclass(frozen=True)
class Whole(Range):
    """A whole number from `least` to `most`, both inside; None for no upper end."""

    least: int = 0
    most: int | None = None

    def holds(self, value: Any) -> bool:
        """Whether it is an int, no bool, between the ends."""
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole and value >= self.least and (self.most is None or value <= self.most)

    def usual(self, value: Any) -> str:
        """Return the ends."""
        ends = f"at least {self.least}" if self.most is None else f"{self.least} to {self.most}"
        return f"it must be a whole number, {ends}"


@dataclass(frozen=True, kw_only=True)
class Number(Range):
    """A finite number in a range whose ends are inside (`least`, `most`) or outside (`above`, `below`)."""

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    below: float = math.inf

    def holds(self, value: Any) -> bool:
        """Whether it is a number, no bool, between the ends."""
        number = isinstance(value, int | float | Fraction) and not isinstance(value, bool)
        return number and self.least <= value <= self.most and self.above < value < self.below

    def usual(self, value: Any) -> str:
        """Return the ends."""
        if self.above == 0 and self.below == self.most == math.inf:
            return "it must be a positive number"
        if math.isfinite(self.least) and math.isfinite(self.most):
            return f"it must be a number from {self.least:g} to {self.most:g}"
        ends = {"at least": self.least, "at most": self.most, "above": self.above, "below": self.below}
        return "it must be " + " and ".join(
            f"{word} {end:g}" for word, end in ends.items() if math.isfinite(end)
        )


SECONDS = Number(above=0, words="it must be a positive number of seconds")
"""A time limit that is a number."""


@dataclass(frozen=True)
class Choice(Range):
    """One of several texts."""

    allowed: Collection[str]

    def holds(self, value: Any) -> bool:
        """Whether it is one of them."""
        return isinstance(value, str) and value in self.allowed

    def usual(self, value: Any) -> str:
        """Return one like it, or all."""
        return suggestion(str(value), self.allowed).removeprefix("; ")


@dataclass(frozen=True)
class Duration(Range):
    """A positive time with its unit, as text; its own errors say what is wrong with the text."""

    example: str = "60s"

    def holds(self, value: Any) -> bool:
        """Whether it is positive."""
        return parse_time(value) > 0

    def usual(self, value: Any) -> str:
        """Return an example."""
        return f"it must be positive, such as {self.example}"


@dataclass(frozen=True)
class Names(Range):
    """A list of at least so many names."""

    least: int = 0

    def holds(self, value: Any) -> bool:
        """Whether it is a list of texts and long enough."""
        listed = isinstance(value, list | tuple) and len(value) >= self.least
        return listed and all(isinstance(name, str) for name in value)

    def usual(self, value: Any) -> str:
        """Return what it is."""
        return "it must be a list of names"


@dataclass(frozen=True)
class Options:
    """The base of all classes of options: a value outside its range is refused.

    Raises
    ------
    InputError
        Naming the option, its value and its range.
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
