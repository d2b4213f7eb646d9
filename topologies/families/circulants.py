"""Circulant networks of small diameter, and the offsets that they take.

All degrees are even: k offsets make degree 2k. For k = 2, Theorem 22 of the dissertation gives the offsets of
least diameter: m and m + 1 with m = ceil((sqrt(2n - 1) - 1)/2), for n > 6. For more offsets no formula is
known, so they are searched. The first offset is 1. The others run through all choices or, where these are too
many, through a fixed random sample. The search ends at a diameter that no k offsets can beat: the least D
with

    sum over i of 2^i (k over i) (D over i) >= n,

which counts the words of at most D steps. The result is the best that was seen; it is not always proven
least.

Source: dissertation, A.6.4.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tutti.topologies.assembly import Values, check_size
from tutti.topologies.errors import InputError
from tutti.topologies.exact import Int64Array
from tutti.topologies.families.grids import circulant
from tutti.topologies.kernels import assign, kernel
from tutti.topologies.topology import Topology

_STEPS = 200_000_000
"""Number of choices tried, times ranks and links of each. A larger value may find smaller diameters."""
_BLOCK = 1024
"""Number of choices drawn in one block. A larger value draws more that are not needed."""
Words = npt.NDArray[np.uint64]


def least_circulant(degree: int, ranks: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return a circulant network of this degree with the offsets of `least_offsets`, which its name contains.

    Raises
    ------
    InputError
        If `degree` is odd or less than 2, or `ranks` is not above `degree`.

    Examples
    --------
    >>> least_circulant(4, 1024).name
    'circulant:1024,23,24'
    """
    name = f"least_circulant:{degree},{ranks}"
    if degree < 2 or degree % 2:
        raise InputError(f"topology {name}: degree {degree}; a circulant of distinct offsets has an even one")
    if ranks <= degree:
        raise InputError(f"topology {name}: {ranks} ranks; degree {degree} needs at least {degree + 1}")
    check_size(name, ranks, degree * ranks)
    return circulant(ranks, *least_offsets(ranks, degree // 2), bandwidth=bandwidth, alpha=alpha)


@lru_cache(maxsize=4096)
def least_offsets(ranks: int, count: int) -> tuple[int, ...]:
    """Return `count` offsets for `ranks` ranks, of least diameter (proven for two, else searched).

    Parameters
    ----------
    ranks
        n, above 2·count.
    count
        k, at least 1.

    Examples
    --------
    >>> least_offsets(16, 2), least_offsets(55, 3)
    ((3, 4), (1, 5, 21))
    """
    if count == 1:
        return (1,)
    if count == 2:
        m = (math.isqrt(2 * ranks - 1) - 1) // 2  # the least m with 2m² + 2m + 1 >= n, or one less
        m += 2 * m * (m + 1) + 1 < ranks
        return (m, m + 1) if ranks > 6 else (1, 2)
    return _searched(ranks, count)


def circulant_diameter(ranks: int, offsets: tuple[int, ...]) -> int:
    """Return the diameter of a connected circulant network; all its ranks are equivalent."""
    return int(_first_within(ranks, np.array([offsets], dtype=np.int64), ranks)[1])


def least_diameter(ranks: int, count: int) -> int:
    """Return the least diameter that `count` offsets could have, by counting words of steps."""
    reach = 0
    # The sum counts the points of Z^k that are at most `reach` unit steps from 0.
    while sum(2**i * math.comb(count, i) * math.comb(reach, i) for i in range(count + 1)) < ranks:
        reach += 1
    return reach


def _searched(ranks: int, count: int) -> tuple[int, ...]:
    bound = least_diameter(ranks, count)
    best: tuple[int, ...] = tuple(range(1, count + 1))
    diameter = circulant_diameter(ranks, best)
    for choices in _candidates(ranks, count):
        place = 0
        while diameter > bound and place < len(choices):
            further, found = _first_within(ranks, choices[place:], diameter - 1)
            place += further
            if place < len(choices):
                best, diameter = tuple(sorted(choices[place].tolist())), int(found)
        if diameter == bound:
            break
    return best


def _candidates(ranks: int, count: int) -> Iterator[Int64Array]:
    """Yield choices, one per row: 1 and other offsets up to half of the ranks, all in order or a sample."""
    largest, further = (ranks - 1) // 2, count - 1
    tries = max(_STEPS // (2 * count * ranks), 100)
    rows: Iterator[Int64Array] = _sampled(np.random.default_rng(ranks), largest - 1, further, tries)
    if math.comb(largest - 1, further) <= tries:
        every = itertools.combinations(range(2, largest + 1), further)
        blocks = iter(lambda: list(itertools.islice(every, _BLOCK)), [])
        rows = (np.array(block, dtype=np.int64) for block in blocks)
    for block in rows:
        yield np.concatenate([np.ones((len(block), 1), np.int64), block], axis=1)


def _sampled(rng: np.random.Generator, among: int, size: int, tries: int) -> Iterator[Int64Array]:
    """Yield blocks of rows, each with the numbers of ``2 + rng.choice(among, size, replace=False)``.

    That call takes 15 us, most of a search, so the words that it would draw are drawn here in one block.
    """
    words = np.empty(0, np.uint32)
    while tries > 0:
        drawn = rng.bit_generator.random_raw(_BLOCK * size).astype("<u8").view("<u4")
        words = np.concatenate([words, drawn])
        rows, used = _choices(words, among, min(tries, _BLOCK), size)
        yield rows + 2
        words, tries = words[used:], tries - len(rows)


@kernel
def _choices(words: npt.NDArray[np.uint32], among: int, most: int, size: int) -> tuple[Int64Array, int]:
    """Return up to `most` rows of `size` numbers below `among`, by Floyd's algorithm, and the words used.

    As in numpy, a row takes a word for each number, a word for each place but the first of the shuffle after
    it, and one more for each that Lemire's method refuses. The shuffle is left out: a choice has no order.
    """
    rows = np.empty((most, size), np.int64)
    used = 0
    for row in range(most):
        if used + 4 * size > len(words):  # one word in 2^32 / among is refused
            return rows[:row], used
        for place in range(size):
            last = among - size + place
            number, used = _below(words, used, last + 1)
            rows[row, place] = last if (rows[row, :place] == number).any() else number
        for place in range(size - 1, 0, -1):
            _, used = _below(words, used, place + 1)
    return rows, used


@kernel
def _below(words: npt.NDArray[np.uint32], used: int, limit: int) -> tuple[int, int]:
    """Return a number below a limit by Lemire's method, and the number of words used by then."""
    if limit == 1:
        return 0, used
    while True:
        product = np.int64(words[used]) * limit
        used += 1
        if product % 2**32 >= 2**32 % limit:
            return int(product >> 32), used


@kernel
def _first_within(ranks: int, choices: Int64Array, limit: int) -> tuple[int, int]:
    """Return the first row of offsets whose diameter is within the limit, and its diameter.

    If there is none, return the number of rows and limit + 1. Sets of ranks are bit sets. A ball about rank 0
    grows by its union with itself turned by each offset, forwards and backwards.
    """
    size = (ranks + 63) // 64
    ball, twice = np.empty(size, np.uint64), np.empty(2 * size + 2, np.uint64)
    for row in range(len(choices)):
        ball[:] = 0
        ball[0] = 1
        for offset in choices[row]:
            for rank in (offset, ranks - offset):
                ball[rank // 64] |= np.uint64(1) << np.uint64(rank % 64)
        first = 1 if ranks <= 2 * choices.shape[1] + 1 else 2  # the ball has radius 1
        for distance in range(first, limit + 1):
            if _grown(ranks, choices[row], ball, twice):
                return row, distance
    return len(choices), limit + 1


@kernel
def _grown(ranks: int, offsets: Int64Array, ball: Words, twice: Words) -> bool:
    """Add all neighbours to a set of ranks; return whether it has all ranks."""
    size, word = len(ball), np.uint64(64)
    twice[:] = 0
    assign(twice[:size], ball)
    whole, part = ranks // 64, np.uint64(ranks % 64)
    for i in range(size):  # the bits, and behind them all of them again
        twice[i + whole] |= ball[i] << part
        if part:
            twice[i + whole + 1] |= ball[i] >> (word - part)
    for offset in offsets:
        for turn in (offset, ranks - offset):
            whole, part = turn // 64, np.uint64(turn % 64)
            for i in range(size):
                ball[i] |= twice[i + whole] >> part
                if part:
                    ball[i] |= twice[i + whole + 1] << (word - part)
    full = ~np.uint64(0)
    last = full >> np.uint64(64 * size - ranks)
    ball[size - 1] &= last
    return bool(ball[size - 1] == last and (ball[: size - 1] == full).all())
