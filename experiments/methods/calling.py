"""Options that all methods share which call others: names of these, and a time limit for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from tutti.experiments.old_names import unknown_method
from tutti.schedules.method import Method
from tutti.topologies.errors import InputError
from tutti.topologies.options import Duration, Options
from tutti.topologies.units import parse_time


@dataclass(frozen=True)
class CallingOptions(Options):
    """The base of their options, which have another field, of names.

    Parameters
    ----------
    time_limit
        A time with its unit.

    Raises
    ------
    InputError
        If the time is none, or a method is not a name.
    """

    CALLED: ClassVar[str] = "base_methods"
    """The field with the names."""

    time_limit: Annotated[str, Duration("20s")] = "10s"

    def __post_init__(self) -> None:
        """Check the values; the names become a tuple."""
        super().__post_init__()
        object.__setattr__(self, self.CALLED, self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """The methods that are to be called."""
        return tuple(getattr(self, self.CALLED))

    @property
    def seconds(self) -> float:
        """The time limit."""
        return float(parse_time(self.time_limit))

    def chosen(self, methods: Mapping[str, Method]) -> list[Method]:
        """Return the methods of these names, in order.

        Raises
        ------
        InputError
            If there is none of a name.
        """
        if (unknown := next((name for name in self.names if name not in methods), None)) is not None:
            asked = f"{self.OWNER} option {self.CALLED}"
            raise InputError(f"{asked}: {unknown_method(unknown, methods)}")
        return [methods[name] for name in self.names]
