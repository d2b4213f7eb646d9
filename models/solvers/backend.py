"""The contract of a solver back-end: a record that says what it can do, and one function.

It holds for LPs and MILPs: the matrices say which columns take whole numbers, incumbents and bounds go
through `Extras.trace`, and `Outcome` has objective and bound apart.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tutti.models.solvers.compiled import CompiledModel
from tutti.models.solvers.options import Feature, SolverOptions
from tutti.models.solvers.outcome import Extras, Outcome
from tutti.topologies.kernels import COMPILATION


@dataclass(frozen=True)
class Extra:
    """A feature that a further package brings.

    Parameters
    ----------
    feature
        The feature that it adds.
    distribution
        Its name for pip.
    install
        The command that installs it.
    """

    feature: Feature
    distribution: str
    install: str

    @property
    def installed(self) -> bool:
        """Whether the package is there."""
        return bool(_version(self.distribution))


@dataclass(frozen=True)
class Backend:
    """A solver, described without importing it.

    Parameters
    ----------
    name
        Its name for users.
    package
        The module that it needs; if that is found, the solver is installed.
    distribution
        Its name for pip, which tells its version.
    features
        What it can do, the `extras` included.
    options
        Its frozen dataclass of options, which checks itself.
    run
        ``(model, options, extras) -> Outcome``; quiet.
    install
        How to get it.
    modules
        Everything that `run` imports. `load` imports it beforehand, so that no solve pays for it.
    rehearse
        Solves a tiny model. `load` calls it once in a process, so that no measured solve pays for what the
        library sets up at its first one.
    extras
        Features that need further packages.
    tolerance
        Its own tolerance, if its options name none: of feasibility, or the gap at which it stops.
    sets_tolerance
        Whether another tolerance can be chosen.
    """

    name: str
    package: str
    distribution: str
    features: frozenset[Feature]
    options: type[SolverOptions]
    run: Callable[[CompiledModel, Any, Extras], Outcome]
    install: str
    modules: tuple[str, ...] = ()
    rehearse: Callable[[], object] | None = None
    extras: tuple[Extra, ...] = ()
    tolerance: float | None = None
    sets_tolerance: bool = True

    @property
    def installed(self) -> bool:
        """Whether its package can be found (it is not imported, and no licence is taken)."""
        return importlib.util.find_spec(self.package) is not None

    @property
    def version(self) -> str:
        """The installed version; empty if there is none."""
        return _version(self.distribution) if self.installed else ""

    @property
    def missing(self) -> tuple[Extra, ...]:
        """The extras that are not installed."""
        return tuple(extra for extra in self.extras if not extra.installed)

    @property
    def features_here(self) -> frozenset[Feature]:
        """The features that need none of the missing extras."""
        return self.features - {extra.feature for extra in self.missing}

    def load(self) -> None:
        """Do what `run` needs once in a process: imports, and a first solve."""
        for module in self.modules:
            importlib.import_module(module)
        if self.rehearse is not None:
            _once(self.rehearse)


@cache
def _once(call: Callable[[], object]) -> None:
    with COMPILATION:
        call()


def tiny(*, whole: bool = False) -> CompiledModel:
    """Return a tiny model for `rehearse`: maximize x, where 2 x is at most 3."""
    one = np.ones(1)
    return CompiledModel(
        name="tiny",
        maximize=True,
        cost=one,
        offset=0.0,
        starts=np.array([0, 1], np.int32),
        index=np.zeros(1, np.int32),
        value=2 * one,
        row_lower=-np.inf * one,
        row_upper=3 * one,
        lower=0 * one,
        upper=9 * one,
        integer=np.array([whole]),
        compile_s=0.0,
    )


@cache
def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


@contextmanager
def printing_to(log: Path | str | None) -> Iterator[None]:
    """Append what the process prints meanwhile, in any thread, to a file; do nothing for None.

    Raises
    ------
    OSError
        If the file can't be written.
    """
    if log is None:
        yield
        return
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    with Path(log).open("ab") as file:
        kept = {descriptor: os.dup(descriptor) for descriptor in (1, 2)}  # standard output and error
        try:
            for descriptor in kept:
                os.dup2(file.fileno(), descriptor)
            yield
        finally:
            ctypes.CDLL(None).fflush(None)  # else what C libraries hold back would be printed elsewhere
            for descriptor, old in kept.items():
                os.dup2(old, descriptor)
                os.close(old)
