"""The FIFOs of programs, and the cutting of a program's data so that they fit.

A program is played in *passes*: pass k moves the k-th *slice* of every unit. Messages are therefore small
enough for FIFOs of bounded memory. A block can begin a slice while others still do the previous one, as in
MSCCL's interpreter. Slices are disjoint, so passes have no hazards between them.

A FIFO has room for all messages of `ROOM.depth` passes. That is enough for every program that ends with
unbounded FIFOs: in the oldest unfinished pass, everything in a FIFO before a message belongs to that pass,
and fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tutti.schedules.programs.program import Op, Program, table_of
from tutti.topologies.errors import InputError


class FifoRoom(NamedTuple):
    """The size of FIFOs."""

    depth: int
    """Number of passes whose messages a FIFO can hold. A larger value uses more memory."""
    pass_bytes: int
    """Most bytes of one pass in a FIFO. With a smaller value, ranks on one core switch more often."""
    total_bytes: int
    """Largest number of bytes of all FIFOs."""


ROOM = FifoRoom(depth=2, pass_bytes=2**23, total_bytes=2**30)


class Fifo(NamedTuple):
    """A FIFO, or the signals from one rank to another, which are messages without data."""

    source: int
    target: int
    channel: int
    signals: bool = False


@dataclass(frozen=True)
class Fifos:
    """The FIFOs of a program, with a row of `units` for each.

    Parameters
    ----------
    fifos
        The FIFOs in ascending order.
    units
        The units of each message that a pass puts into each FIFO.
    """

    fifos: tuple[Fifo, ...]
    units: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, program: Program) -> Fifos:
        """Return the FIFOs of a program.

        Raises
        ------
        InputError
            If two blocks share an end of a FIFO, so that the order of its messages depends on their timing,
            or if sent and received messages differ.
        """
        sent = _messages(program, sends=True)
        received = _messages(program, sends=False)
        for fifo in sorted({*sent, *received}):
            here, there = sent.get(fifo, ()), received.get(fifo, ())
            if here != there:
                raise InputError(f"{program.name}: {_mismatch(fifo, here, there)}")
        fifos = tuple(sorted(sent))
        return cls(fifos, tuple(sent[fifo] for fifo in fifos))

    def slice_of(self, elements: int, itemsize: int) -> int:
        """Return how many of the `elements` of a unit, of `itemsize` bytes each, a pass moves."""
        most = max(map(sum, self.units), default=0)
        total = ROOM.depth * sum(map(sum, self.units))
        fits = min(ROOM.pass_bytes // max(most, 1), ROOM.total_bytes // max(total, 1)) // itemsize
        return max(1, min(elements, fits))


def capacities(tasks: Sequence[tuple[Fifos, int, int]]) -> dict[Fifo, int]:
    """Return the bytes that each FIFO needs for tasks: FIFOs, elements of a unit, and bytes of an element."""
    needed: dict[Fifo, int] = {}
    for fifos, elements, itemsize in tasks:
        width = fifos.slice_of(elements, itemsize) * itemsize
        for fifo, units in zip(fifos.fifos, fifos.units, strict=True):
            needed[fifo] = max(needed.get(fifo, 0), ROOM.depth * sum(units) * width)
    return dict(sorted(needed.items()))


def fifo_of(program: Program, number: int, *, sends: bool) -> Fifo:
    """Return the FIFO that an instruction sends into, or receives from."""
    code, rank = program.code, int(program.rank[program.block_of[number]])
    ends = (rank, int(code.to[number])) if sends else (int(code.origin[number]), rank)
    return Fifo(*ends, int(code.channel[number]), code.op[number] in (Op.SIGNAL, Op.WAIT))


def _messages(program: Program, *, sends: bool) -> dict[Fifo, tuple[int, ...]]:
    """Return the units of the messages that are put into (or taken out of) each FIFO, in order."""
    code = program.code
    is_end = table_of("sends" if sends else "receives")
    is_end[Op.SIGNAL if sends else Op.WAIT] = True
    block_of: dict[Fifo, int] = {}
    units: dict[Fifo, list[int]] = {}
    for number in np.flatnonzero(is_end[code.op]).tolist():
        block, fifo = int(program.block_of[number]), fifo_of(program, number, sends=sends)
        if block_of.setdefault(fifo, block) != block:
            what = "sends into" if sends else "receives from"
            raise InputError(
                f"{program.name}: {program.place(number)} {what} {name_of(fifo)}, as another block does"
            )
        units.setdefault(fifo, []).append(0 if fifo.signals else int(code.length[number]))
    return {fifo: tuple(lengths) for fifo, lengths in units.items()}


def name_of(fifo: Fifo) -> str:
    """Return the name of a FIFO for people."""
    what = "the signals" if fifo.signals else "the FIFO"
    return f"{what} from rank {fifo.source} to {fifo.target} on channel {fifo.channel}"


def _mismatch(fifo: Fifo, sent: Sequence[int], received: Sequence[int]) -> str:
    if len(sent) != len(received):
        return f"{len(sent)} messages go into {name_of(fifo)}, and {len(received)} are taken out"
    number = next(n for n, (a, b) in enumerate(zip(sent, received, strict=True)) if a != b)
    return (
        f"message {number} of {name_of(fifo)} is sent as {sent[number]} units and received as"
        f" {received[number]}"
    )
