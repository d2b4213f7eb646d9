"""The interface of a transport: it brings messages, which lie in slots, from one process to another.

The executor writes a message into its slot of the FIFO's ring and calls `sent`. At the other end it reads the
slot once `there` returns true, and calls `taken`. These calls never wait; the executor tries again later.

A program is played in *passes*: pass k moves the k-th *slice* of every unit. Messages are therefore small
enough for FIFOs of bounded memory. A block can begin a slice while others still do the previous one, as in
MSCCL's interpreter. Slices are disjoint, so passes have no hazards between them.

A FIFO has room for all messages of `ROOM.depth` passes. That is enough for every program that ends with
unbounded FIFOs: in the oldest unfinished pass, everything in a FIFO before a message belongs to that pass,
and fits.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tutti.schedules.programs.program import Op, Program
from tutti.schedules.programs.serial import senders
from tutti.topologies.errors import TuttiError
from tutti.topologies.exact import NONE

Array = npt.NDArray[Any]


class Waiting(NamedTuple):
    """Parameters of a rank's waiting for others."""

    looks: int
    """Number of turns without progress before the rank reads the clock. A larger value holds a core longer
    that others may need."""
    awake: float
    """Seconds for which the rank then yields its core, before it sleeps. A larger value reacts sooner and
    uses more of a core."""
    nap: float
    """Seconds of one sleep. A larger value reacts later and uses less of a core."""


WAITING = Waiting(looks=50, awake=2e-3, nap=1e-4)

_yield: Callable[[], None] = getattr(os, "sched_yield", partial(time.sleep, 0))


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
            As `senders`.
        """
        units: dict[Fifo, list[int]] = defaultdict(list)
        sent = senders(program, signals=True)
        for number in np.unique(sent[sent != NONE]).tolist():
            fifo = fifo_of(program, number, sends=True)
            units[fifo].append(0 if fifo.signals else int(program.code.length[number]))
        fifos = tuple(sorted(units))
        return cls(fifos, tuple(tuple(units[fifo]) for fifo in fifos))

    def slice_of(self, elements: int, itemsize: int) -> int:
        """Return how many of the `elements` of a unit, of `itemsize` bytes each, a pass moves."""
        most = max(map(sum, self.units), default=0)
        total = ROOM.depth * sum(map(sum, self.units))
        fits = min(ROOM.pass_bytes // max(most, 1), ROOM.total_bytes // max(total, 1)) // itemsize
        return max(1, min(elements, fits))


def fifo_of(program: Program, number: int, *, sends: bool) -> Fifo:
    """Return the FIFO that an instruction sends into, or receives from."""
    code, rank = program.code, int(program.own[number])
    ends = (rank, int(code.to[number])) if sends else (int(code.origin[number]), rank)
    return Fifo(*ends, int(code.channel[number]), code.op[number] in (Op.SIGNAL, Op.WAIT))


def name_of(fifo: Fifo) -> str:
    """Return the name of a FIFO for people."""
    what = "the signals" if fifo.signals else "the FIFO"
    return f"{what} from rank {fifo.source} to {fifo.target} on channel {fifo.channel}"


class Failure(TuttiError):
    """A run that ended because of a rank: it died, hung or got wrong bytes."""


class Stalled(Failure):
    """A rank has waited for too long."""


class Transport(Protocol):
    """One rank's ends of all FIFOs."""

    def ring(self, fifo: Fifo) -> npt.NDArray[np.uint8]:
        """Return the memory of a FIFO's slots at this end."""

    def room(self, fifo: Fifo, window: int) -> bool:
        """Whether another message may be written, if at most `window` may be under way."""

    def sent(self, fifo: Fifo, slot: Array) -> None:
        """Announce that the next message is in its slot."""

    def there(self, fifo: Fifo, slot: Array) -> bool:
        """Whether the next message has arrived in its slot."""

    def taken(self, fifo: Fifo) -> None:
        """Announce that the slot of the next message may be written again."""

    def barrier(self, patience: Patience) -> None:
        """Wait until all ranks are here."""

    def memories(self) -> list[npt.NDArray[np.uint8]] | None:
        """Return the memory of each rank if a rank can access all, otherwise None."""


class Patience:
    """Waits for others: first it yields the core, then it sleeps, up to a limit.

    Parameters
    ----------
    limit
        Seconds without progress after which the rank has stalled.
    """

    def __init__(self, limit: float) -> None:
        self.limit, self._turns, self._since = limit, 0, 0.0

    def reset(self) -> None:
        """Note that there was progress."""
        self._turns = 0

    def wait(self, what: Callable[[], str]) -> None:
        """Wait a little; `what` describes what for.

        Raises
        ------
        Stalled
            If there was no progress for as long as the limit.
        """
        self._turns += 1
        waited = 0.0
        if self._turns == WAITING.looks:
            self._since = time.monotonic()
        elif self._turns > WAITING.looks:
            waited = time.monotonic() - self._since
        if waited > self.limit:
            raise Stalled(f"{what()}, for {self.limit:g} s")
        if waited < WAITING.awake:
            _yield()
        else:
            time.sleep(WAITING.nap)
