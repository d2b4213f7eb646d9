"""What MSCCL++ takes in an execution plan: names and limits.

Source: microsoft/mscclpp 0.9.0, ``src/core/executor/{execution_plan,executor}.cc``,
``src/core/include/execution_{common,kernel}.hpp``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tutti.schedules.collective import Collective, Kind
from tutti.schedules.programs.layout import Layout
from tutti.schedules.programs.program import Buffer
from tutti.topologies.errors import InputError

COLLECTIVES: Mapping[Kind, str] = {
    Kind.ALLGATHER: "allgather",
    Kind.ALLREDUCE: "allreduce",
    Kind.REDUCE_SCATTER: "reducescatter",
    Kind.ALL_TO_ALL: "alltoall",
}
CUSTOM = "custom"
"""The name of any other collective; the key `WHAT`, which the runtime passes over, says which it is."""
WHAT = "tutti"

BUFFERS: Mapping[str, Buffer] = {"i": Buffer.INPUT, "o": Buffer.OUTPUT, "s": Buffer.SCRATCH}
MEMORY, PORT = "memory", "port"
SIMPLE, PACKETS = "Simple", "LL"

MOST_OPS = 64
"""Of a thread block."""
MOST_CHANNELS = 16
"""Of a type, in a thread block; and remote buffers."""
MOST_IDS = 16
"""Semaphores of one operation."""
MOST_PEERS = 8
"""Channels of one operation."""
MOST_BUFFERS = 10
"""Sources, and targets, of one operation."""
MOST_BLOCKS = 108
"""Of a GPU: all must run at the same time, and the least of those that it is for (A100) runs so many."""
MOST_BYTES = 2**32 - 1
"""Of a buffer: offsets are 32 bits."""
ALIGNMENT = 16
"""Chunks are multiples of so many bytes."""


def chunks_of(what: Collective, units: int) -> tuple[int, int]:
    """Return the chunks of input and output, one number for all ranks, where M is so many units.

    Only the root of a rooted collective uses all of both.

    Raises
    ------
    InputError
        If the collective has groups or uneven shards, or an item is no whole number of units.
    """
    check_plain(what)
    nothing = np.zeros(what.num_ranks, dtype=np.int32)
    sizes = Layout.build(what, units, nothing, in_place=False).sizes.max(axis=0)
    return int(sizes[Buffer.INPUT]), int(sizes[Buffer.OUTPUT])


def check_plain(what: Collective) -> None:
    """Check that a collective has neither groups nor uneven shards.

    Raises
    ------
    InputError
        If it does.
    """
    if not what.plain:
        raise InputError(f"a plan of MSCCL++ has no groups and no uneven shards; this is {what}")
