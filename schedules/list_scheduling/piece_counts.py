"""The search for the number of pieces into which M is cut, and even cuts of parts of M.

With P pieces on a link of bandwidth b, α is paid P times. With few pieces, a link waits long for its first
piece: about d M / (b P) in d consecutive hops. The sum of both is least near P = √(d M / (α b)). Numbers
around such a guess are tried as long as they help.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.simulate import SimulationOptions, simulate
from tutti.topologies.exact import Int64Array, entries_of, offsets_of


class TimedSchedule(Protocol):
    """A schedule with a duration."""

    @property
    def seconds(self) -> Fraction | float:
        """The duration in seconds."""


Candidate = TypeVar("Candidate")
Found = TypeVar("Found", bound=TimedSchedule)


def improved(
    best: Found,
    candidates: Iterable[Candidate],
    attempt: Callable[[Candidate], Found],
    *,
    patience: int | None = 1,
    floor: Callable[[Candidate], Fraction | float] = lambda _: 0,
) -> Found:
    """Return the shortest of `best` and the schedules of candidates, in turn; of equals the earlier one.

    Parameters
    ----------
    best
        The present schedule.
    candidates
        The candidates, for example numbers of pieces.
    attempt
        Returns the schedule of a candidate.
    patience
        The number of candidates in a row without progress that ends the search; None: nothing ends it.
    floor
        Returns a lower bound in seconds for a candidate; candidates that can't help are left out.

    Examples
    --------
    >>> class Square(NamedTuple):
    ...     seconds: int
    >>> improved(Square(9), [2, 4, 1], lambda root: Square(root * root))
    Square(seconds=4)
    >>> improved(Square(9), [2, 4, 1], lambda root: Square(root * root), patience=2)
    Square(seconds=1)
    """
    since = 0
    for candidate in candidates:
        if floor(candidate) >= best.seconds:
            continue
        found, since = attempt(candidate), since + 1
        if found.seconds < best.seconds:
            best, since = found, 0
        if since == patience:
            break
    return best


class Pieces(NamedTuple):
    """Piece i is units begin[i] to end[i] - 1 of M, and the place[i]-th piece of part[i]. Sorted by both.

    Parameters
    ----------
    units
        The number of units of M.
    part, place, begin, end
        int64, shape (pieces,).
    """

    units: int
    part: Int64Array
    place: Int64Array
    begin: Int64Array
    end: Int64Array


def cut(weight: Int64Array, counts: Int64Array, units: int, finest: int) -> Pieces:
    """Return parts of M, which follow each other, cut into pieces as evenly as possible.

    Parameters
    ----------
    weight
        int64, shape (parts,).
    counts
        int64, shape (parts,): the number of pieces of each.
    units
        The number of units of M before cutting, a multiple of the total weight.
    finest
        All pieces of a part are equal if this needs at most `finest` times the units. Otherwise M has 2^20
        times the units, and pieces differ by one unit.

    Examples
    --------
    >>> pieces = cut(np.array([1, 2]), np.array([1, 3]), 3, 100)
    >>> pieces.units, pieces.begin.tolist(), pieces.end.tolist()
    (9, [0, 3, 5, 7], [3, 5, 7, 9])
    """
    even = math.lcm(*np.unique(counts).tolist())
    units *= even if even <= finest else FINE
    size = weight * (units // int(weight.sum()))
    part, place = entries_of(counts)
    before = offsets_of(size)[part]
    begin = before + place * size[part] // counts[part]
    end = before + (place + 1) * size[part] // counts[part]
    return Pieces(units, part, place, begin, end)


FINE = 2**20
"""Factor of the units if pieces of a part can't be equal. They then differ by less than 1e-6."""


MOST_SLICED = 2**17
"""Largest number of a flow's transfers times slices that is simulated."""


class _Sliced(NamedTuple):
    seconds: float


def sliced_seconds(flow: Schedule, size: Fraction) -> float:
    """Return the least simulated time of a flow in a power of two of slices, up to `MOST_SLICED`."""

    def attempt(slices: int) -> _Sliced:
        return _Sliced(simulate(flow, size, SimulationOptions(slices=slices)).time)

    most = max(MOST_SLICED // max(len(flow), 1), 1)
    powers = (2**power for power in range(1, most.bit_length()))
    return improved(attempt(1), powers, attempt, patience=2).seconds
