"""Transport over MPI, by mpi4py: a message is a non-blocking send, whose tag is the number of the FIFO.

The processes are those of ``mpirun``. Both ends of a FIFO have a ring, so that a message can travel while its
sender continues.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tutti.schedules.collective import Kind
from tutti.schedules.execution.transport import Array, Fifo, Patience
from tutti.schedules.programs.program import Program
from tutti.topologies.errors import InputError, installing


def world() -> Any:
    """Return the communicator of all processes that ``mpirun`` started.

    Raises
    ------
    InputError
        If mpi4py or its library is missing.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        why = str(error).partition("\n")[0]
        raise InputError(f"--transport mpi needs an MPI and mpi4py ({installing('mpi')}): {why}") from None
    return MPI.COMM_WORLD


class Mpi:
    """A rank's ends of the FIFOs.

    Parameters
    ----------
    communicator
        The communicator of all ranks. It is duplicated, so that other messages are not confused with ours.
    capacity
        The bytes of each FIFO.
    """

    def __init__(self, communicator: Any, capacity: Mapping[Fifo, int]) -> None:
        self._communicator = communicator.Dup()
        self._rank = communicator.rank
        self._tags = {fifo: tag for tag, fifo in enumerate(capacity)}
        ours = [fifo for fifo in capacity if self._rank in fifo[:2]]
        self._rings = {fifo: np.empty(capacity[fifo], dtype=np.uint8) for fifo in ours}
        self._sends: dict[Fifo, deque[Any]] = {fifo: deque() for fifo in ours}
        self._receives: dict[Fifo, Any] = {}
        self._come: set[Fifo] = set()

    def ring(self, fifo: Fifo) -> npt.NDArray[np.uint8]:
        """Return the memory of a FIFO's slots at this end."""
        return self._rings[fifo]

    def room(self, fifo: Fifo, window: int) -> bool:
        """Whether another message may be written."""
        sends = self._sends[fifo]
        while sends and sends[0].Test():
            sends.popleft()
        return len(sends) < window

    def sent(self, fifo: Fifo, slot: Array) -> None:
        """Send the message."""
        content = slot.reshape(-1).view(np.uint8)
        self._sends[fifo].append(self._communicator.Isend(content, fifo.target, self._tags[fifo]))

    def there(self, fifo: Fifo, slot: Array) -> bool:
        """Request the next message, and return whether it has arrived."""
        if fifo in self._come:
            return True
        if fifo not in self._receives:
            content = slot.reshape(-1).view(np.uint8)
            self._receives[fifo] = self._communicator.Irecv(content, fifo.source, self._tags[fifo])
        if not self._receives[fifo].Test():
            return False
        self._come.add(fifo)
        return True

    def taken(self, fifo: Fifo) -> None:
        """Forget the message."""
        self._come.remove(fifo)
        del self._receives[fifo]

    def barrier(self, patience: Patience) -> None:
        """Wait until all ranks are here."""
        patience.reset()
        request = self._communicator.Ibarrier()
        while not request.Test():
            patience.wait(lambda: f"rank {self._rank} waits at a barrier")

    def memories(self) -> list[npt.NDArray[np.uint8]] | None:
        """Return None: the memory of other ranks can't be accessed."""
        return None

    def close(self) -> None:
        """Wait for the last sends to complete."""
        for sends in self._sends.values():
            for request in sends:
                request.Wait()
        self._communicator.Free()


class MpiCollectives:
    """MPI's own collectives, for comparison.

    Parameters
    ----------
    communicator
        The communicator of all ranks.
    """

    def __init__(self, communicator: Any) -> None:
        self._communicator = communicator

    def play(self, program: Program, source: Array, target: Array) -> Callable[[], object] | None:
        """Return a call that does the program's collective; None over groups or with uneven shards."""
        what, c = program.collective, self._communicator
        if not what.plain or what.kind is Kind.MIXED:
            return None
        root = what.root or 0
        at_root = target if c.rank == root else None

        def broadcast() -> None:
            if c.rank == root:
                np.copyto(target, source)
            c.Bcast(target, root=root)

        calls: dict[Kind, Callable[[], object]] = {
            Kind.ALLGATHER: lambda: c.Allgather(source, target),
            Kind.REDUCE_SCATTER: lambda: c.Reduce_scatter_block(source, target),
            Kind.ALLREDUCE: lambda: c.Allreduce(source, target),
            Kind.REDUCE: lambda: c.Reduce(source, at_root, root=root),
            Kind.ALL_TO_ALL: lambda: c.Alltoall(source, target),
            Kind.GATHER: lambda: c.Gather(source, at_root, root=root),
            Kind.SCATTER: lambda: c.Scatter(source if c.rank == root else None, target, root=root),
            Kind.BROADCAST: broadcast,
        }
        return calls[what.kind]
