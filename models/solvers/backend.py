"""The contract of a solver back-end: a record that says what it can do, and one function."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from models.solvers.compiled import CompiledModel
from models.solvers.features import Feature
from models.solvers.outcome import Outcome


@dataclass(frozen=True)
class Backend:
    """A solver, described without importing it.

    Parameters
    ----------
    name
        As users write it.
    package
        The module that it needs, which tells whether it is installed.
    distribution
        What pip calls it, which tells its version.
    features
        What it can do.
    options
        Its frozen dataclass of options, which checks itself.
    run
        ``(model, options) -> Outcome``; imports the solver when first called. Quiet.
    install
        How to get it.
    """

    name: str
    package: str
    distribution: str
    features: frozenset[Feature]
    options: type
    run: Callable[[CompiledModel, Any], Outcome]
    install: str

    @property
    def installed(self) -> bool:
        """Whether its package can be found (it is not imported, and no licence is taken)."""
        return importlib.util.find_spec(self.package) is not None

    @property
    def version(self) -> str:
        """The installed version; empty if there is none."""
        return _version(self.distribution) if self.installed else ""


@cache
def _version(distribution: str) -> str:
    return importlib.metadata.version(distribution)
