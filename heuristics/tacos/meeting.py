"""Where threads that share out a computation wait for each other, many thousand times a second.

Each thread counts the steps that it has done, in a line of the cache of its own, and reads how many the
others have. Within a kernel that takes a fraction of a microsecond where all of them run; a wait that takes
long is left to the caller, who lets other threads have the processor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import cgutils
from numba.extending import intrinsic
from numba.types import void

from heuristics.tacos.bitsets import leaf
from topologies.exact import Int64Array

LINE = 8
"""Numbers in a line of the cache, or two threads would write to the same one."""

PATIENCE = 4096
"""How often the others are looked at before a wait is left to the caller: some ten microseconds."""


def meeting(threads: int) -> Int64Array:
    """Return int64, shape (threads, LINE): how many steps each thread has done, in column 0; none so far."""
    return np.zeros((threads, LINE), np.int64)


def _place(context: Any, builder: Any, kind: Any, array: Any, row: Any) -> Any:
    """Return the address of a row's first number."""
    view = context.make_array(kind)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, kind, view, [row, row.type(0)])


@intrinsic
def _read(context: Any, steps: Any, thread: Any) -> Any:
    """Return how many steps a thread has done; what it wrote before is then there to read."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_place(context, builder, signature.args[0], *arguments), "acquire", LINE)

    return steps.dtype(steps, thread), generate


@intrinsic
def _write(context: Any, steps: Any, thread: Any, done: Any) -> Any:
    """Let the others read how many steps a thread has done, and what it wrote before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature.args[0], *arguments[:2])
        builder.store_atomic(arguments[2], place, "release", LINE)
        return context.get_dummy_value()

    return void(steps, thread, done), generate


@leaf
def arrive(steps: Int64Array, thread: int, done: int) -> None:
    """Say that a thread has done so many steps."""
    _write(steps, np.int64(thread), np.int64(done))


@leaf
def all_have(steps: Int64Array, done: int) -> bool:
    """Wait a while until all threads have done so many steps; return whether they have."""
    for thread in range(len(steps)):
        left = PATIENCE
        while _read(steps, np.int64(thread)) < done:
            left -= 1
            if left == 0:
                return False
    return True
