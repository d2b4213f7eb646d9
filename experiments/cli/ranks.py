"""Ranks as the command line asks for them: on which transport, and whose processes they are."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

import psutil

from tutti.experiments.printable import complaint, say
from tutti.schedules.execution.launch import OverSharedMemory, run
from tutti.schedules.execution.session import RepeatTimes, SessionTask, Settings, fifo_bytes, play, reaches
from tutti.schedules.execution.transport import Failure
from tutti.topologies.errors import InputError
from tutti.topologies.units import format_size, parse_time

MOST_RANKS = 512
"""Of processes on one machine."""

REMOTE = ("mpi", "nccl")
"""Transports whose processes others start, perhaps on other machines."""
COPIES = 3
"""Of a rank's memory: itself, its input and the output that is due, and what comparing them takes."""

Played = tuple[Sequence[SessionTask], list[list[RepeatTimes]]]


def settings_of(arguments: argparse.Namespace) -> Settings:
    """Return how a run goes.

    Raises
    ------
    InputError
        If a number is out of range.
    """
    for name, least in (("repeats", 1), ("warmup", 0), ("seed", 0)):
        if getattr(arguments, name) < least:
            raise InputError(f"--{name} {getattr(arguments, name)}; it must be at least {least}")
    timeout = float(parse_time(arguments.timeout))
    if timeout <= 0:
        raise InputError(f"--timeout {arguments.timeout}; it must be positive")
    return Settings(arguments.warmup, arguments.repeats, timeout, arguments.seed)


def on_ranks(
    arguments: argparse.Namespace, make: Callable[[int | None], Sequence[SessionTask]]
) -> Played | None:
    """Play tasks on the ranks of ``--transport``; None in a process that isn't the one to report.

    Parameters
    ----------
    arguments
        Of the command.
    make
        Returns the tasks for so many ranks; None: as many as they want.

    Raises
    ------
    Failure
        If a rank dies, hangs or gets wrong bytes.
    InputError
        If the ranks can't be had.
    """
    settings = settings_of(arguments)
    if arguments.transport == "mpi":
        return _over_mpi(settings, arguments, make)
    if arguments.transport == "nccl":
        return _over_nccl(settings, arguments, make)
    tasks = _checked(make(arguments.ranks), arguments)
    return tasks, run(OverSharedMemory(tasks), tasks, settings)


def _checked(tasks: Sequence[SessionTask], arguments: argparse.Namespace) -> Sequence[SessionTask]:
    ranks, spread = tasks[0].program.num_ranks, arguments.transport in REMOTE
    if ranks > MOST_RANKS and not spread:
        raise InputError(f"{ranks} processes on one machine; at most {MOST_RANKS}")
    here = [0] if spread else range(ranks)
    needed = COPIES * max(sum(task.memory(rank) for rank in here) for task in tasks)
    free = psutil.virtual_memory().available
    if needed > free:
        raise InputError(f"{format_size(needed)} of memory are needed here, and {format_size(free)} are free")
    remote = [task.program.name for task in tasks if reaches(task.program)]
    if remote and arguments.transport != "shm":
        raise InputError(f"{remote[0]}: ranks reach into each other's memory, which takes --transport shm")
    return tasks


def _over_mpi(
    settings: Settings, arguments: argparse.Namespace, make: Callable[[int | None], Sequence[SessionTask]]
) -> Played | None:
    """Play on the processes of ``mpirun``; what is wrong with the input is said by rank 0 alone."""
    from tutti.schedules.execution.mpi import Mpi, MpiCollectives, world

    everyone = world()
    tasks = None
    try:
        if everyone.rank == 0:
            tasks = _for_mpi(_checked(make(arguments.ranks or everyone.size), arguments), everyone.size)
    finally:
        tasks = everyone.bcast(tasks)
    if tasks is None:
        return None
    transport = Mpi(everyone, fifo_bytes(tasks))
    try:
        times = play(everyone.rank, tasks, settings, transport, MpiCollectives(everyone))
    except Failure as error:
        say(complaint(f"tutti: {error}"), sys.stderr)
        everyone.Abort(1)
    transport.close()
    gathered = everyone.gather(times)
    return None if gathered is None else (tasks, gathered)


def _over_nccl(
    settings: Settings, arguments: argparse.Namespace, make: Callable[[int | None], Sequence[SessionTask]]
) -> Played | None:
    from tutti.schedules.execution import nccl

    distributed = nccl.world()
    rank, size = distributed.get_rank(), distributed.get_world_size()
    tasks = _checked(make(arguments.ranks or size), arguments)
    played = nccl.play(distributed, tasks, settings)
    return None if rank else (tasks, played)


def _for_mpi(tasks: Sequence[SessionTask], size: int) -> Sequence[SessionTask]:
    ranks = tasks[0].program.num_ranks
    if size != ranks:
        raise InputError(f"{ranks} ranks, and MPI has {size} processes: mpirun -n {ranks} tutti ...")
    return tasks
