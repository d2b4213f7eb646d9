"""Transport over TCP: a connection for each FIFO, and one from each rank to rank 0 for barriers.

Every rank listens, calls those that it sends to, and then answers those that send to it. A call begins with
what the ranks are to play, so that two runs, or two versions of one, are never mixed up.
"""

from __future__ import annotations

import copy
import errno
import hashlib
import json
import socket
import struct
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from schedules.execution.fifos import Fifo
from schedules.execution.session import Settings, Task, fifo_bytes
from schedules.execution.transport import Array, Failure, Lost, Patience, bytes_of
from topologies.errors import InputError

MAGIC = b"tutti/1\n"
HEAD = struct.Struct("<8s8sq")
"""Of a call: that it is ours, what is played, and the number of the FIFO; -r: barriers of rank r."""
LENGTH = struct.Struct("<q")
AGAIN_SECONDS = 0.05
"""Between two tries to reach a host."""
STRANGER_SECONDS = 1.0
"""For which a caller may not say who it is."""
MOST_CALLS = 4096
SIGNAL = bytes(1)


class Address(NamedTuple):
    """Where a rank listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def parse_hosts(text: str) -> list[Address]:
    """Return the addresses in ``a:5000,b:5000``.

    Raises
    ------
    InputError
        If one is no host and port.
    """
    addresses = []
    for word in text.split(","):
        host, _, port = word.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
            raise InputError(f"--hosts: '{word.strip()}' is not HOST:PORT, with a port from 1 to 65535")
        addresses.append(Address(host, int(port)))
    if len(set(addresses)) < len(addresses):
        raise InputError("--hosts: an address stands there twice; each rank needs its own")
    return addresses


def listen(address: Address) -> socket.socket:
    """Return a socket that listens there.

    Raises
    ------
    InputError
        If the port is in use, or the host isn't this one.
    """
    try:
        family = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server(address, family=family, backlog=MOST_CALLS)
    except OSError as error:
        why = "the port is in use" if error.errno == errno.EADDRINUSE else (error.strerror or error)
        raise InputError(f"can't listen at {address}: {why}") from None


class OverTcp:
    """Ranks that listen at addresses.

    Parameters
    ----------
    tasks
        What they are to play.
    settings
        How.
    addresses
        Of the ranks.
    listeners
        Of those that this process starts, by rank; they are handed over with this object.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        settings: Settings,
        addresses: Sequence[Address],
        listeners: Mapping[int, socket.socket],
    ) -> None:
        self.addresses, self.listeners, self.settings = tuple(addresses), dict(listeners), settings
        self.version = version_of(tasks, settings)

    @classmethod
    def here(cls, tasks: Sequence[Task], settings: Settings, addresses: Sequence[Address] = ()) -> OverTcp:
        """Return all ranks on this machine; without addresses at free ports of the loop-back device.

        Raises
        ------
        InputError
            As `listen`.
        """
        listeners: dict[int, socket.socket] = {}
        try:
            for rank in range(tasks[0].program.num_ranks):
                listeners[rank] = listen(addresses[rank] if addresses else Address("127.0.0.1", 0))
        except InputError:
            for listener in listeners.values():
                listener.close()
            raise
        at = [Address(*listener.getsockname()[:2]) for listener in listeners.values()]
        return cls(tasks, settings, addresses or at, listeners)

    def connect(self, rank: int, tasks: Sequence[Task]) -> Tcp:
        """Return a rank's ends of the FIFOs."""
        return Tcp(rank, self.addresses, fifo_bytes(tasks), self, self.listeners[rank])

    def share(self, rank: int) -> OverTcp:
        """Return what a rank needs of it."""
        part = copy.copy(self)
        part.listeners = {rank: self.listeners[rank]}
        return part

    def close(self) -> None:
        """Let go of the listening sockets."""
        for listener in self.listeners.values():
            listener.close()


def version_of(tasks: Sequence[Task], settings: Settings) -> bytes:
    """Return 8 bytes that tell apart what is played."""
    digest = hashlib.sha256(repr((settings, [(task.size, task.dtype) for task in tasks])).encode())
    for task in {id(task.program): task for task in tasks}.values():
        program = task.program
        digest.update(f"{program.collective} {program.units} {program.in_place}".encode())
        for array in (program.rank, program.begin, program.wait_begin, program.waits, *program.code):
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()[:8]


class _Outgoing:
    """The sending end of a FIFO: what the kernel hasn't taken yet."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.queue: deque[memoryview] = deque()

    def flush(self) -> None:
        while self.queue:
            view = self.queue[0]
            try:
                count = self.connection.send(view)
            except BlockingIOError:
                return
            if count < len(view):
                self.queue[0] = view[count:]
            else:
                self.queue.popleft()


class _Incoming:
    """The receiving end of a FIFO: how much of the next message is here."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection, self.come = connection, 0


class Tcp:
    """A rank's ends of the FIFOs.

    Parameters
    ----------
    rank
        Which.
    addresses
        Where the ranks listen.
    capacity
        Bytes of each FIFO.
    run
        What is played.
    listener
        Where this rank listens.

    Raises
    ------
    InputError
        If a rank can't be reached in time.
    Failure
        If one doesn't call in time, or is about to play something else.
    """

    def __init__(
        self,
        rank: int,
        addresses: Sequence[Address],
        capacity: Mapping[Fifo, int],
        run: OverTcp,
        listener: socket.socket,
    ) -> None:
        self._rank, self._ranks = rank, len(addresses)
        self._rings = {
            fifo: np.empty(size, dtype=np.uint8) for fifo, size in capacity.items() if rank in fifo[:2]
        }
        numbers = {fifo: number for number, fifo in enumerate(capacity, 1)}
        until = time.monotonic() + run.settings.timeout
        self._seconds = run.settings.timeout
        calls = {number: fifo.target for fifo, number in numbers.items() if fifo.source == rank}
        calls |= {-rank: 0} if rank else {}
        expected = {number: fifo.source for fifo, number in numbers.items() if fifo.target == rank}
        expected |= {} if rank else {-other: other for other in range(1, self._ranks)}
        made: dict[int, socket.socket] = {}
        try:
            for number, peer in calls.items():
                head = HEAD.pack(MAGIC, run.version, number)
                made[number] = _call(addresses[peer], peer, head, until, self._seconds)
            self._answer(listener, expected, made, run.version, until)
        except Exception:
            for connection in made.values():
                connection.close()
            raise
        finally:
            listener.close()
        for connection in made.values():
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._out = {fifo: _Outgoing(made[number]) for fifo, number in numbers.items() if number in calls}
        self._in = {fifo: _Incoming(made[number]) for fifo, number in numbers.items() if number in expected}
        self._control = {
            peer: made[-max(rank, peer)] for peer in (range(1, self._ranks) if not rank else [0])
        }

    def _answer(
        self,
        listener: socket.socket,
        expected: Mapping[int, int],
        made: dict[int, socket.socket],
        version: bytes,
        until: float,
    ) -> None:
        """Add the connections that others make."""
        while missing := expected.keys() - made.keys():
            listener.settimeout(max(until - time.monotonic(), 0.001))
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                late = f"rank {expected[min(missing)]} hasn't called rank {self._rank}"
                raise Failure(f"{late} in {self._seconds:g} s") from None
            magic, theirs, number = _introduction(connection)
            if magic == MAGIC and theirs == version and number in missing:
                made[number] = connection
                continue
            connection.close()
            if magic == MAGIC and theirs != version:
                raise Failure(f"rank {self._rank} was called by a rank with another program, size or setting")

    def ring(self, fifo: Fifo) -> npt.NDArray[np.uint8]:
        """Return the memory of a FIFO's slots at this end."""
        return self._rings[fifo]

    def room(self, fifo: Fifo, window: int) -> bool:
        """Whether another message may be written."""
        return len(self._out[fifo].queue) < window

    def sent(self, fifo: Fifo, slot: Array) -> None:
        """Give the message to the kernel, or what it takes of it."""
        out = self._out[fifo]
        out.queue.append(bytes_of(slot).data if slot.size else memoryview(SIGNAL))
        self._flush(fifo, out)

    def there(self, fifo: Fifo, slot: Array) -> bool:
        """Take what has come of the next message."""
        end = self._in[fifo]
        view = bytes_of(slot).data if slot.size else memoryview(bytearray(1))
        while end.come < len(view):
            count = self._received(end.connection, view[end.come :], fifo.source)
            if not count:
                return False
            end.come += count
        return True

    def taken(self, fifo: Fifo) -> None:
        """Begin the next message."""
        self._in[fifo].come = 0

    def progress(self) -> None:
        """Give the kernel what it hadn't taken."""
        for fifo, out in self._out.items():
            if out.queue:
                self._flush(fifo, out)

    def barrier(self, patience: Patience) -> None:
        """Wait until all ranks have told rank 0 that they are here, and it has told them."""
        patience.reset()
        if self._rank:
            self._control[0].send(SIGNAL)
        waiting = set(self._control)

        def why() -> str:
            return f"rank {self._rank} waits at a barrier for rank {min(waiting, default=0)}"

        while True:
            self.progress()
            waiting.difference_update([peer for peer in waiting if self._signalled(peer)])
            if not waiting and not any(out.queue for out in self._out.values()):
                break
            patience.wait(why)
        if not self._rank:
            for connection in self._control.values():
                connection.send(SIGNAL)

    def memories(self, fits: int) -> list[npt.NDArray[np.uint8]] | None:
        """Return None: others' memory is out of reach."""
        return None

    def gather(self, document: Any) -> list[Any]:
        """Return, on rank 0, the JSON documents of all ranks; elsewhere nothing."""
        for connection in self._control.values():
            connection.settimeout(self._seconds)
        if self._rank:
            text = json.dumps(document).encode()
            self._control[0].sendall(LENGTH.pack(len(text)) + text)
            return []
        others = []
        for peer, connection in self._control.items():
            try:
                (length,) = LENGTH.unpack(_exactly(connection, LENGTH.size))
                others.append(json.loads(_exactly(connection, length)))
            except (OSError, struct.error):
                raise Lost(f"rank 0 has lost its connection to rank {peer}") from None
        return [document, *others]

    def close(self) -> None:
        """End all connections."""
        ends = [end.connection for end in self._out.values()] + [end.connection for end in self._in.values()]
        for connection in (*ends, *self._control.values()):
            connection.close()

    def _flush(self, fifo: Fifo, out: _Outgoing) -> None:
        try:
            out.flush()
        except OSError:
            raise Lost(f"rank {self._rank} has lost its connection to rank {fifo.target}") from None

    def _signalled(self, peer: int) -> bool:
        return self._received(self._control[peer], memoryview(bytearray(1)), peer) > 0

    def _received(self, connection: socket.socket, view: memoryview, peer: int) -> int:
        """Return how many bytes came; 0 if there are none yet."""
        try:
            count = connection.recv_into(view)
        except BlockingIOError:
            return 0
        except OSError:
            count = 0
        if not count:
            raise Lost(f"rank {self._rank} has lost its connection to rank {peer}")
        return count


def _call(address: Address, peer: int, head: bytes, until: float, seconds: float) -> socket.socket:
    """Return a connection to a rank, which may not be listening yet."""
    while True:
        left = until - time.monotonic()
        try:
            connection = socket.create_connection(address, timeout=max(left, 0.001))
        except socket.gaierror as error:
            raise InputError(f"rank {peer} at {address}: {error.strerror}") from None
        except OSError as error:
            if time.monotonic() + AGAIN_SECONDS > until:
                why = error.strerror or "no answer"
                raise InputError(
                    f"rank {peer} at {address} can't be reached in {seconds:g} s: {why}"
                ) from None
            time.sleep(AGAIN_SECONDS)
            continue
        connection.sendall(head)
        return connection


def _introduction(connection: socket.socket) -> tuple[bytes, bytes, int]:
    """Return what a caller says of itself."""
    connection.settimeout(STRANGER_SECONDS)
    try:
        magic, version, number = HEAD.unpack(_exactly(connection, HEAD.size))
    except (OSError, struct.error):
        return b"", b"", 0
    return magic, version, number


def _exactly(connection: socket.socket, size: int) -> bytes:
    """Return so many bytes, or fewer if the connection ends."""
    come = bytearray()
    while len(come) < size and (more := connection.recv(size - len(come))):
        come += more
    return bytes(come)
