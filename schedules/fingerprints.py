"""Fingerprints: one word for the multiset of contributions that a value consists of.

Each contribution is a random word modulo the prime 2^61 - 1, and a multiset is the sum of its words. So two
different multisets get the same word with probability 2^-61.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tutti.topologies.graphs.symmetry import mixed
from tutti.topologies.kernels import kernel

UInt64Array = npt.NDArray[np.uint64]

PRIME = np.uint64(2**61 - 1)
EMPTY = np.uint64(2**64 - 1)
"""The word of the empty multiset. It is no possible sum, so that a sum of 0 differs from it."""


@kernel
def plus(a: np.uint64, b: np.uint64) -> np.uint64:
    """Return the word of the union of two multisets; the second is not empty."""
    if a == EMPTY:
        return b
    total = a + b
    return total - PRIME if total >= PRIME else total


@kernel
def word_of(rank: int, chunk: int) -> np.uint64:
    """Return the random word of a rank's contribution to a chunk; it is always the same."""
    word = mix(mix(np.uint64(chunk)) + np.uint64(rank)) >> np.uint64(3)
    return word if word < PRIME else np.uint64(0)


@kernel
def mix(x: np.uint64) -> np.uint64:
    """Return the next number of the generator splitmix64 from the state `x`.

    Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014.
    """
    return mixed(x + np.uint64(0x9E3779B97F4A7C15))
