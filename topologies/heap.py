"""A binary heap of (key, node) in two arrays, the least key first: the queue of shortest-path searches.

Keys are integers or floats; numba compiles either.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from numba import njit

from topologies.exact import Int32Array


@njit(cache=True)
def sift_up(keys: npt.NDArray[Any], nodes: Int32Array, hole: int, key: Any, node: int) -> None:
    """Put an entry into the heap, whose first free place is `hole`."""
    while hole > 0 and keys[(hole - 1) // 2] > key:
        keys[hole], nodes[hole] = keys[(hole - 1) // 2], nodes[(hole - 1) // 2]
        hole = (hole - 1) // 2
    keys[hole], nodes[hole] = key, node


@njit(cache=True)
def sift_down(keys: npt.NDArray[Any], nodes: Int32Array, size: int) -> None:
    """Drop the first entry; the last one, at `size`, takes a place from the top down."""
    key, node, hole = keys[size], nodes[size], 0
    while 2 * hole + 1 < size:
        child = 2 * hole + 1
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[hole], nodes[hole] = keys[child], nodes[child]
        hole = child
    keys[hole], nodes[hole] = key, node
