"""Sets of chunks as 64-bit words, counts by element as bit planes, and random numbers.

A *plane* p of a counter is the set of the elements whose count has bit p set, so that one pass over the
words compares or increments 64 counts at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tutti.topologies.graphs.symmetry import mixed
from tutti.topologies.kernels import intrinsic, leaf

WORD_BITS = 64

Words = npt.NDArray[np.uint64]
"""uint64, shape (words,): element e is bit e % 64 of word e // 64."""

Planes = npt.NDArray[np.uint64]
"""uint64, shape (bits, words): the bit planes of one count an element."""

NOTHING = np.int64(-1)
"""The entry, of kernels' type of numbers, that stands for no chunk."""
_ONE = np.uint64(1)
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@intrinsic(lambda word: int(word).bit_count())
def _count_ones(context: Any, word: Any) -> Any:
    """Return the processor's own count of the set bits of a 64-bit word, as an unsigned one."""
    return word(word), lambda context, builder, signature, arguments: builder.ctpop(arguments[0])


@intrinsic(lambda word: (int(word) & -int(word)).bit_length() - 1 if word else WORD_BITS)
def _trailing_zeros(context: Any, word: Any) -> Any:
    """Return the number of bits of a 64-bit word below its lowest set bit, as an unsigned one; of 0, 64."""
    from numba.types import boolean

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(boolean, False))

    return word(word), generate


@leaf
def popcount(word: np.uint64) -> np.int64:
    """Return how many bits of a word are set."""
    return np.int64(_count_ones(word))


@leaf
def first_element(word: np.uint64) -> np.int64:
    """Return the number of the lowest set bit of a word that is not 0."""
    return np.int64(_trailing_zeros(word))


@leaf
def bit(element: int) -> np.uint64:
    """Return the word in which only the element's bit is set."""
    return _ONE << np.uint64(element & (WORD_BITS - 1))


@leaf
def below(random: np.uint64, bound: int) -> np.int64:
    """Return a number in 0..bound-1, bound below 2^32, from the high half of a random word."""
    return np.int64(((random >> _HALF) * np.uint64(bound)) >> _HALF)


@leaf
def random_below(state: Words, bound: int) -> np.int64:
    """Return a number in 0..bound-1, bound below 2^32, and step the generator.

    SplitMix64 (doi 10.1145/2660193.2660195); its high half times the bound, shifted, is uniform but for
    a bias below bound / 2^32.
    """
    state[0] += _GAMMA
    return below(mixed(state[0]), bound)


@leaf
def shuffle(values: npt.NDArray[np.int64], count: int, state: Words) -> None:
    """Put the first `count` values into a uniformly random order (Fisher and Yates)."""
    for last in range(count - 1, 0, -1):
        other = random_below(state, last + 1)
        values[last], values[other] = values[other], values[last]


@leaf
def size(words: Words) -> np.int64:
    """Return how many elements a set has."""
    total = np.int64(0)
    for w in range(len(words)):
        total += popcount(words[w])
    return total


@leaf
def intersection(one: Words, other: Words, common: Words) -> np.int64:
    """Put the elements that two sets share into a third; return how many they are."""
    total = np.int64(0)
    for w in range(len(common)):
        word = one[w] & other[w]
        common[w] = word
        total += popcount(word)
    return total


@leaf
def random_element(words: Words, total: int, state: Words) -> np.int64:
    """Return an element drawn uniformly from a set of `total` (at least one) elements."""
    skip = random_below(state, total) if total > 1 else 0
    w = 0
    while True:
        here = popcount(words[w])
        if skip < here:
            break
        skip -= here
        w += 1
    word = words[w]
    for _ in range(skip):
        word &= word - _ONE
    return w * WORD_BITS + first_element(word)


@leaf
def increment(planes: Planes, element: int) -> None:
    """Add one to the count of an element."""
    w = element // WORD_BITS
    carry = bit(element)
    for p in range(len(planes)):
        plane = planes[p, w]
        planes[p, w] = plane ^ carry
        carry &= plane
        if carry == 0:
            return


@leaf
def add_saturating(once: Words, twice: Words, words: Words) -> None:
    """Add one, up to two, to the count of every element of a set: seen once, and seen twice or more."""
    for w in range(len(words)):
        twice[w] |= once[w] & words[w]
        once[w] |= words[w]


@leaf
def keep_smallest(words: Words, planes: Planes, trial: Words) -> np.int64:
    """Keep the elements of a set whose count is least; return how many they are.

    From the highest plane down: if some elements have a zero there, the others are larger. `trial` is room.
    """
    kept = np.int64(0)
    for p in range(len(planes) - 1, -1, -1):
        low = np.int64(0)
        for w in range(len(words)):
            word = words[w] & ~planes[p, w]
            trial[w] = word
            low += popcount(word)
        if low:
            kept = low
            for w in range(len(words)):
                words[w] = trial[w]
            if kept == 1:
                return kept
    return kept if kept else size(words)
