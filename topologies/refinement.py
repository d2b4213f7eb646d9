"""Colour refinement with hashed colours, the invariant that an automorphism search is pruned by.

A colour is 64 bits. In a round every node's colour becomes a hash of its own and of the multisets of
(colour of the other end, class of the link) over its links in and over its links out; nodes of one orbit
keep one colour. A collision can only merge two classes, which costs time and never correctness: what a search
finds with these colours is checked on the links.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from topologies.exact import Int32Array

UInt64Array = npt.NDArray[np.uint64]

_OUT = np.uint64(0x9E3779B97F4A7C15)
_IN = np.uint64(0xC2B2AE3D27D4EB4F)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@njit(cache=True)
def mixed(value: np.uint64) -> np.uint64:
    """Scramble 64 bits (the finalizer of splitmix64; a bijection)."""
    value = (value ^ (value >> np.uint64(30))) * _FIRST
    value = (value ^ (value >> np.uint64(27))) * _SECOND
    return value ^ (value >> np.uint64(31))


@njit(cache=True)
def refine(
    colours: UInt64Array, source: Int32Array, target: Int32Array, classes: UInt64Array
) -> tuple[UInt64Array, int]:
    """Refine until a round finds no new class; return the colours and the rounds.

    The number of rounds depends on the network up to isomorphism alone, so that the colours of two isomorphic
    coloured networks are equal as multisets.
    """
    distinct, rounds = _distinct(colours), 0
    while distinct < len(colours):
        refined = _round(colours, source, target, classes)
        rounds += 1
        found = _distinct(refined)
        colours = refined
        if found <= distinct:
            break
        distinct = found
    return colours, rounds


@njit(cache=True)
def _round(colours: UInt64Array, source: Int32Array, target: Int32Array, classes: UInt64Array) -> UInt64Array:
    """Sum the hashes of what each node sees; a sum forgets the order, as a multiset does."""
    seen = np.zeros(len(colours), np.uint64)
    for link in range(len(source)):
        u, v = source[link], target[link]
        seen[u] += mixed((colours[v] ^ classes[link]) + _OUT)
        seen[v] += mixed((colours[u] ^ classes[link]) + _IN)
    for node in range(len(colours)):
        seen[node] = mixed(seen[node] + mixed(colours[node]))
    return seen


@njit(cache=True)
def _distinct(colours: UInt64Array) -> int:
    ordered = np.sort(colours)
    count = 1
    for i in range(1, len(ordered)):
        if ordered[i] != ordered[i - 1]:
            count += 1
    return count
