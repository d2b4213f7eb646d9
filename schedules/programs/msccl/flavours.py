"""The names and limits of the two runtimes that load MSCCL XML.

Sources: microsoft/msccl ``src/include/msccl.h``, ``src/graph/{topo,xml}.cc``; RCCL
``src/include/msccl/msccl_struct.h``, ``src/misc/msccl/msccl_parser.cc``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tutti.schedules.collective import Kind
from tutti.schedules.programs.program import Buffer, Op
from tutti.topologies.errors import InputError, suggestion

TYPES: Mapping[str, Op] = {
    "nop": Op.NOP,
    "cpy": Op.COPY,
    "re": Op.REDUCE,
    "s": Op.SEND,
    "r": Op.RECV,
    "rcs": Op.RECV_COPY_SEND,
    "rrs": Op.RECV_REDUCE_SEND,
    "rrc": Op.RECV_REDUCE_COPY,
    "rrcs": Op.RECV_REDUCE_COPY_SEND,
}
"""Types of steps that both runtimes interpret (one of them also parses `ra`, which then does nothing)."""
BUFFERS: Mapping[str, Buffer] = {"i": Buffer.INPUT, "o": Buffer.OUTPUT, "s": Buffer.SCRATCH}
DEPTHS: Mapping[str, int] = {"Simple": 2, "LL": 8, "LL128": 8}
"""Number of messages that a connection holds, by protocol. A connection has eight steps (``NCCL_STEPS``); a
message takes four of them in Simple (``MSCCL_CHUNKSTEPS``) and one in the other protocols. Only if chunks are
small (``mscclMaxAllowedCount``) does a message have several."""
PROTOCOLS = tuple(DEPTHS)
SIMPLE = "Simple"


class MscclLimits(NamedTuple):
    """Limits of the runtimes, and of the files that are read. Each is the largest allowed number."""

    chunks: int
    """Chunks in one step."""
    channels: int
    """Channels of a rank."""
    peers: int
    """Blocks of a rank that send (or receive) on one channel."""
    awaited: int
    """Number of a block for which another block waits: the runtimes keep it in 8 bits (``dependentBid``)."""
    elements: int
    """Elements as the parsers count them: ``algo``, all ``gpu``, and the own rank's ``tb`` and ``step``."""
    children: int
    """Elements in one element."""
    attributes: int
    """Attributes of an element."""
    characters: int
    """Characters of a value."""
    fused: int
    """Consecutive reductions into one place that the runtimes fuse."""
    of_file: int
    """Elements in a file that is read: enough for 128 ranks with as many each as the runtimes read."""
    units: int
    """Units of a buffer in a file that is read."""
    moved: int
    """Units moved by all steps: enough for 128 ranks with all the steps and chunks that the runtimes read."""


LIMITS = MscclLimits(
    chunks=71,
    channels=32,
    peers=32,
    awaited=127,
    elements=4095,
    children=1024,
    attributes=16,
    characters=255,
    fused=16,
    of_file=2**19,
    units=2**20,
    moved=2**26,
)

_COMMON: Mapping[Kind, str] = {
    Kind.ALLREDUCE: "allreduce",
    Kind.ALLGATHER: "allgather",
    Kind.REDUCE: "reduce",
    Kind.BROADCAST: "broadcast",
    Kind.ALL_TO_ALL: "alltoall",
}


@dataclass(frozen=True)
class Flavour:
    """The names and limits of one runtime.

    Parameters
    ----------
    name
        The flavour's name, for people.
    collectives
        The names of the collectives.
    required
        The attributes that ``algo`` must have.
    steps, blocks
        The largest number of steps in a block, and of blocks in a rank.
    characters
        The largest length of the algorithm's name.
    threads
        The largest number of threads in a block.
    whole_buffers
        Whether nonzero sizes of input and output must be those of the collective.
    """

    name: str
    collectives: Mapping[Kind, str]
    required: tuple[str, ...]
    steps: int
    blocks: int
    characters: int
    threads: int
    whole_buffers: bool

    def collective(self, kind: Kind) -> str:
        """Return the name of a collective.

        Raises
        ------
        InputError
            If the flavour has no name for it; the message names the flavours that have one.
        """
        if kind in self.collectives:
            return self.collectives[kind]
        others = [f"{f.name} ('{f.collectives[kind]}')" for f in (MSCCL, RCCL) if kind in f.collectives]
        where = f"; choose the flavour {' or '.join(others)}" if others else ""
        raise InputError(f"MSCCL XML of flavour '{self.name}' has no {kind}{where}")


_REQUIRED = ("name", "ngpus", "nchannels", "nchunksperloop", "proto", "coll", "inplace")

MSCCL = Flavour(
    name="msccl",
    collectives={**_COMMON, Kind.REDUCE_SCATTER: "reduce_scatter"},
    required=_REQUIRED,
    steps=256,
    blocks=216,
    characters=63,
    threads=640,
    whole_buffers=True,
)
RCCL = Flavour(
    name="rccl",
    collectives={
        **_COMMON,
        Kind.REDUCE_SCATTER: "reducescatter",
        Kind.GATHER: "gather",
        Kind.SCATTER: "scatter",
    },
    required=(*_REQUIRED, "outofplace", "minBytes", "maxBytes"),
    steps=64,
    blocks=64,
    characters=255,
    threads=256,
    whole_buffers=False,
)
BOTH = Flavour(
    name="both",
    collectives=_COMMON,
    required=RCCL.required,
    steps=min(MSCCL.steps, RCCL.steps),
    blocks=min(MSCCL.blocks, RCCL.blocks),
    characters=min(MSCCL.characters, RCCL.characters),
    threads=min(MSCCL.threads, RCCL.threads),
    whole_buffers=True,
)
FLAVOURS = {flavour.name: flavour for flavour in (BOTH, MSCCL, RCCL)}
KINDS = {name: kind for flavour in (MSCCL, RCCL) for kind, name in flavour.collectives.items()}
"""The collective of each name in a file."""


def find_flavour(name: str) -> Flavour:
    """Return the flavour with this name.

    Raises
    ------
    InputError
        If there is none; the message suggests a similar name.
    """
    if name not in FLAVOURS:
        raise InputError(f"unknown flavour of MSCCL XML '{name}'{suggestion(name, FLAVOURS)}")
    return FLAVOURS[name]
