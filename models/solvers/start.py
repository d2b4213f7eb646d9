"""What can be handed to a solver besides a model, and what it tells on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from models.solvers.features import Feature
from topologies.errors import InputError
from topologies.exact import FloatArray


class Place(IntEnum):
    """Where a column or row stands in a basis."""

    LOWER = 0
    BASIC = 1
    UPPER = 2
    FREE = 3
    NONBASIC = 4


@dataclass(frozen=True, eq=False)
class Basis:
    """A basis: a `Place` for every column and every row, int8."""

    columns: Any
    rows: Any


@dataclass(frozen=True, eq=False)
class Start:
    """Where a solver may begin; each part may be None.

    Parameters
    ----------
    values, duals
        float64, one a column and one a row, as in `Outcome`.
    basis
        Of an LP solved before.
    """

    values: FloatArray | None = None
    duals: FloatArray | None = None
    basis: Basis | None = None

    @property
    def needs(self) -> frozenset[Feature]:
        """What a back-end must do to use it."""
        wanted = {Feature.BASIS} if self.basis is not None else set()
        return frozenset(wanted | ({Feature.START} if self.values is not None else set()))

    def check(self, name: str, columns: int, rows: int) -> None:
        """Raise unless its parts have a model's sizes and are finite.

        Raises
        ------
        InputError
            Naming the part.
        """
        basis = self.basis
        parts = [
            ("values", self.values, columns),
            ("duals", self.duals, rows),
            ("basis columns", basis.columns if basis else None, columns),
            ("basis rows", basis.rows if basis else None, rows),
        ]
        for what, array, count in parts:
            if array is None:
                continue
            if np.shape(array) != (count,):
                raise InputError(f"model {name}: start has {len(array)} {what}; the model has {count}")
            if not np.isfinite(array).all():
                raise InputError(f"model {name}: start has {what} that are not finite")


@dataclass(frozen=True)
class Progress:
    """How far branch and cut is.

    Parameters
    ----------
    seconds
        Since it began.
    incumbent, bound
        The best objective found and what the optimum can't beat; None where there is none yet.
    """

    seconds: float
    incumbent: float | None
    bound: float | None


Trace = Callable[[Progress], None]


@dataclass(frozen=True, eq=False)
class Extras:
    """What a back-end may use and need not: a start, and who is told of progress."""

    start: Start | None = None
    trace: Trace | None = None


NOTHING = Extras()
