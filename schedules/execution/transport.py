"""The interface of a transport: it brings messages, which lie in slots, from one process to another.

The executor writes a message into its slot of the FIFO's ring and calls `sent`. At the other end it reads the
slot once `there` returns true, and calls `taken`. These calls never wait; the executor tries again later.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tutti.schedules.execution.fifos import Fifo
from tutti.topologies.errors import TuttiError

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


def bytes_of(slot: Array) -> npt.NDArray[np.uint8]:
    """Return a slot as bytes, not copied."""
    return slot.reshape(-1).view(np.uint8)


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
