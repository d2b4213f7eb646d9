"""What all back-ends' options share: the limits, the log, and the checks."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from models.solvers.features import Feature
from topologies.errors import InputError, suggestion

SECONDS = "a positive number of seconds"
NUMBER = "a positive number"


@dataclass(frozen=True, kw_only=True)
class SolverOptions:
    """What every back-end takes; each adds its own.

    Parameters
    ----------
    time_limit
        Seconds, which the solver itself keeps, and `own_process` where it does not; None for no limit.
    memory_limit
        Bytes resident, which only a process of its own keeps, so this implies `own_process`; None for none.
    iteration_limit
        None for no limit.
    tolerance
        Feasibility and optimality; None for the solver's own.
    presolve
        Whether the model is reduced first.
    log
        The file that the solver's log goes to; None for no log.
    own_process
        Whether to solve in another process: it is killed when it exceeds a limit, and a crash harms nobody.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    SOLVER: ClassVar[str] = ""

    time_limit: float | None = None
    memory_limit: float | None = None
    iteration_limit: int | None = None
    tolerance: float | None = None
    presolve: bool = True
    log: Path | str | None = None
    own_process: bool = False

    def __post_init__(self) -> None:
        """Check the ranges."""
        check_positive(self.SOLVER, "time_limit", self.time_limit, SECONDS)
        check_positive(self.SOLVER, "memory_limit", self.memory_limit, "a positive number of bytes")
        check_positive(self.SOLVER, "tolerance", self.tolerance, NUMBER)
        check_count(self.SOLVER, "iteration_limit", self.iteration_limit, 0)
        check_log(self.SOLVER, self.log)

    @property
    def needs(self) -> frozenset[Feature]:
        """What the options ask of the back-end besides solving the model."""
        return frozenset()

    @property
    def apart(self) -> bool:
        """Whether to solve in a process of its own."""
        return self.own_process or self.memory_limit is not None


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


def check_log(solver: str, log: Path | str | None) -> None:
    """Raise unless `log` is None or a file in an existing folder.

    Raises
    ------
    InputError
        Naming the file.
    """
    if log is not None and not Path(log).parent.is_dir():
        raise InputError(f"{solver} option log is '{log}'; there is no folder {Path(log).parent}")
