"""The features of back-ends, and the options that all of them share: limits, the log, and where to solve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar, Self

from tutti.topologies.errors import InputError
from tutti.topologies.options import SECONDS, Number, Options, Whole

Positive = Annotated[float | None, Number(above=0)]
Threads = Annotated[int, Whole(1)]
Seed = Annotated[int, Whole(0)]
LEAST_SECONDS = 0.01
"""Least time limit of a solve. With a larger value a search whose time is nearly over exceeds it by more."""


class Feature(StrEnum):
    """A kind of model, an algorithm, an answer or a service that a back-end offers."""

    LP = "LP"
    MILP = "MILP"
    QP = "QP"
    SIMPLEX = "simplex"
    IPM = "interior point"
    HIPO = "HiPO"
    """HiGHS's newer interior point, in a package of its own."""

    PDLP = "PDLP"
    DUALS = "duals"
    BASIS = "basis"
    """A basis is returned, and can be started from."""

    START = "start"
    """Values (and duals, for an LP) can be started from."""

    THREADS = "threads"
    SEED = "seed"


@dataclass(frozen=True, kw_only=True)
class SolverOptions(Options):
    """The options of every back-end; each adds its own.

    Parameters
    ----------
    time_limit
        Seconds. The solver itself keeps them, or `own_process` where it does not; None for no limit.
    memory_limit
        Bytes resident. Only a process of its own keeps them, so this implies `own_process`; None for no
        limit.
    iteration_limit
        None for no limit.
    tolerance
        Tolerance of feasibility and optimality; None for the solver's own.
    presolve
        Whether the model is reduced first.
    log
        The file that the solver's log goes to; None for no log.
    own_process
        Whether to solve in another process: it is killed when it exceeds a limit, and its crash does no harm.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    ALGORITHMS: ClassVar[Mapping[str, Feature | None]] = {}
    """The feature that each value of an option `method` needs; None: no feature."""

    time_limit: Annotated[float | None, SECONDS] = None
    memory_limit: Annotated[float | None, Number(above=0, words="it must be a positive number of bytes")] = (
        None
    )
    iteration_limit: Annotated[int | None, Whole(0)] = None
    tolerance: Positive = None
    presolve: bool = True
    log: Path | str | None = None
    own_process: bool = False

    def __post_init__(self) -> None:
        """Check the ranges, and that the log goes into an existing folder."""
        super().__post_init__()
        if self.log is not None and not Path(self.log).parent.is_dir():
            folder = Path(self.log).parent
            raise InputError(f"{self.OWNER} option log is '{self.log}'; there is no folder {folder}")

    def within(self, seconds: float | None) -> Self:
        """Return these options with no more time than is left; None: the time is not limited."""
        if seconds is None:
            return self
        left = max(seconds, LEAST_SECONDS)
        return replace(self, time_limit=left if self.time_limit is None else min(left, self.time_limit))

    @property
    def needs(self) -> frozenset[Feature]:
        """The features that a back-end must have for these options: the algorithm that `method` names."""
        feature = self.ALGORITHMS.get(getattr(self, "method", ""))
        return frozenset() if feature is None else frozenset({feature})

    @property
    def apart(self) -> bool:
        """Whether to solve in a process of its own."""
        return self.own_process or self.memory_limit is not None
