"""Binary heaps whose first entry is the least, and a counting sort. Keys are integers or floats.

One heap holds (key, node) in two arrays; it is the queue of shortest-path searches. The other holds events
whose keys stand in a table, so that many heaps may share it; of equal keys the event of least number comes
first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tutti.topologies.exact import Int32Array, Int64Array, IntArray
from tutti.topologies.kernels import kernel


@kernel
def sift_up(keys: npt.NDArray[Any], nodes: Int32Array, hole: int, key: Any, node: int) -> None:
    """Put an entry into the heap, whose first free place is `hole`."""
    while hole > 0 and keys[(hole - 1) // 2] > key:
        keys[hole], nodes[hole] = keys[(hole - 1) // 2], nodes[(hole - 1) // 2]
        hole = (hole - 1) // 2
    keys[hole], nodes[hole] = key, node


@kernel
def sift_down(keys: npt.NDArray[Any], nodes: Int32Array, size: int) -> None:
    """Drop the first entry, and sift the last one, at `size`, down from the top."""
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


@kernel
def push_event(heap: Int64Array, key: npt.NDArray[Any], size: int, event: int) -> None:
    """Put an event into a heap of this size, which is ordered by (key[event], event)."""
    place = size
    while place > 0:
        above = heap[(place - 1) // 2]
        if key[above] < key[event] or (key[above] == key[event] and above < event):
            break
        heap[place] = above
        place = (place - 1) // 2
    heap[place] = event


@kernel
def pop_event(heap: Int64Array, key: npt.NDArray[Any], size: int) -> int:
    """Remove the first event of a heap of this size, and return it."""
    first, event, place, size = heap[0], heap[size - 1], 0, size - 1
    while 2 * place + 1 < size:
        below = 2 * place + 1
        if below + 1 < size:
            one, other = heap[below], heap[below + 1]
            if key[other] < key[one] or (key[other] == key[one] and other < one):
                below += 1
        if key[event] < key[heap[below]] or (key[event] == key[heap[below]] and event < heap[below]):
            break
        heap[place] = heap[below]
        place = below
    heap[place] = event
    return first


@kernel(light=1)
def stable_pass(order: Int64Array, keys: IntArray, buckets: int) -> Int64Array:
    """Return `order` sorted by keys in 0..buckets-1, equal keys in their old order."""
    place = np.zeros(buckets + 1, np.int64)
    for v in order:
        place[keys[v] + 1] += 1
    for key in range(buckets):
        place[key + 1] += place[key]
    result = np.empty_like(order)
    for v in order:
        result[place[keys[v]]] = v
        place[keys[v]] += 1
    return result
