"""The search for how many pieces M is cut into, around a guess, and even cuts of parts of M.

With P pieces on a link of bandwidth b, α is paid P times; with few, a link waits long for its first piece,
about d M / (b P) in d hops one after the other. The sum of both is least near P = √(d M / (α b)); numbers
around such a guess are tried, as long as they help.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.simulate import SimulationOptions, simulate
from tutti.topologies.exact import Int64Array, offsets_of


class TimedSchedule(Protocol):
    """A schedule that takes some time."""

    @property
    def seconds(self) -> Fraction | float:
        """How long it takes."""


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
    """Return the shortest of a schedule and of those made of candidates in turn; the earlier one of equals.

    Parameters
    ----------
    best
        What there is.
    candidates
        Numbers of pieces, for example.
    attempt
        Makes a schedule of a candidate.
    patience
        So many in a row that do not help end the search; None: nothing does.
    floor
        Seconds that a candidate takes at least: those that could not help are left out.

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
    """Piece i is units begin[i] to end[i] - 1 of M, the place[i]-th piece of part[i]; by part, then place.

    Parameters
    ----------
    units
        M has so many.
    part, place, begin, end
        int64, shape (pieces,).
    """

    units: int
    part: Int64Array
    place: Int64Array
    begin: Int64Array
    end: Int64Array


def cut(weight: Int64Array, counts: Int64Array, units: int, finest: int) -> Pieces:
    """Return parts of M, which follow each other, cut into pieces as even as can be.

    Parameters
    ----------
    weight
        int64, shape (parts,).
    counts
        int64, shape (parts,): in how many pieces each is cut.
    units
        M is a multiple of so many, which are a multiple of all weight.
    finest
        All pieces of a part are alike where that needs no more than so many times the units; else M has
        2^20 times the units, and pieces differ by one.

    Examples
    --------
    >>> pieces = cut(np.array([1, 2]), np.array([1, 3]), 3, 100)
    >>> pieces.units, pieces.begin.tolist(), pieces.end.tolist()
    (9, [0, 3, 5, 7], [3, 5, 7, 9])
    """
    even = math.lcm(*np.unique(counts).tolist())
    units *= even if even <= finest else FINE
    size = weight * (units // int(weight.sum()))
    part = np.repeat(np.arange(len(weight)), counts)
    place = np.arange(len(part)) - offsets_of(counts)[part]
    before = offsets_of(size)[part]
    begin = before + place * size[part] // counts[part]
    end = before + (place + 1) * size[part] // counts[part]
    return Pieces(units, part, place, begin, end)


FINE = 2**20
"""Units of M in place of one where pieces of a part cannot be alike: then they differ by less than 1e-6."""


MOST_SLICED = 2**17
"""A flow's transfers times slices: not simulated beyond."""


class _Sliced(NamedTuple):
    seconds: float


def sliced_seconds(flow: Schedule, size: Fraction) -> float:
    """Return the least simulated time of a flow in a power of 2 slices; not tried beyond `MOST_SLICED`."""

    def attempt(slices: int) -> _Sliced:
        return _Sliced(simulate(flow, size, SimulationOptions(slices=slices)).time)

    most = max(MOST_SLICED // max(len(flow), 1), 1)
    powers = (2**power for power in range(1, most.bit_length()))
    return improved(attempt(1), powers, attempt, patience=2).seconds
