"""The ranks on this machine: each is a process, which ends with this one and never outlives it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from multiprocessing.connection import wait
from typing import Any

from tutti.schedules.execution.session import RepeatTimes, SessionTask, Settings, fifo_bytes, play, reaches
from tutti.schedules.execution.shared_memory import Segment, SharedMemory, SharedRings
from tutti.schedules.execution.transport import Failure, Stalled
from tutti.topologies.processes import CallEnd, Caller, Worker

ENTRY = "tutti.schedules.execution.launch:serve"
PRELOAD = ("tutti.schedules.execution.launch",)
GRACE = 1.0
"""Seconds after a rank has stalled. Ranks that have not stalled by then count as hung."""


class OverSharedMemory:
    """Ranks that share a segment of memory.

    Parameters
    ----------
    tasks
        The tasks that they are to play.
    """

    def __init__(self, tasks: Sequence[SessionTask]) -> None:
        ranks = tasks[0].program.num_ranks
        shared = any(reaches(task.program) for task in tasks)
        memory = [max(task.memory(rank) for task in tasks) for rank in range(ranks)] if shared else []
        self.rings = SharedRings(ranks, fifo_bytes(tasks), memory)
        self.segment = Segment(self.rings.size)

    def connect(self, rank: int) -> SharedMemory:
        """Return a rank's ends of the FIFOs."""
        return SharedMemory(self.segment, self.rings, rank)

    def close(self) -> None:
        """Release the segment."""
        self.segment.close()


def run(job: OverSharedMemory, tasks: Sequence[SessionTask], settings: Settings) -> list[list[RepeatTimes]]:
    """Play tasks on processes of this machine; return their times, by rank, then task.

    Parameters
    ----------
    job
        The memory that they share; it is closed here.
    tasks
        The tasks that they play.
    settings
        The settings of the run.

    Raises
    ------
    Failure
        If a rank dies, hangs or gets wrong bytes; one line names it.
    """
    workers: list[Worker] = []
    try:
        for rank in range(tasks[0].program.num_ranks):
            workers.append(Worker.forked(ENTRY, (job, rank, tuple(tasks), settings), PRELOAD))
            workers[-1].give(None)
        return _collect(workers)
    finally:
        job.close()
        for worker in workers:
            worker.end()


def serve(caller: Caller, setting: tuple[OverSharedMemory, int, tuple[SessionTask, ...], Settings]) -> None:
    """Be a rank."""
    job, rank, tasks, settings = setting

    def perform(_: Any) -> list[RepeatTimes]:
        return play(rank, tasks, settings, job.connect(rank))

    caller.serve(perform)


def _collect(workers: Sequence[Worker]) -> list[list[RepeatTimes]]:
    """Return the answers of all ranks, or raise the first failure."""
    answers: dict[int, list[RepeatTimes]] = {}
    stalled: dict[int, Stalled] = {}
    until = None
    rank_of: dict[Any, int] = {worker.pipe: rank for rank, worker in enumerate(workers)}
    while len(answers) + len(stalled) < len(workers):
        left = None if until is None else max(until - time.monotonic(), 0.0)
        heard = wait(list(rank_of), left)
        for pipe in heard:
            rank = rank_of[pipe]
            try:
                ended = workers[rank].step()
            except Stalled as error:
                stalled[rank] = error
                until = until or time.monotonic() + GRACE
                del rank_of[pipe]
                continue
            if ended is not None and ended.how is CallEnd.DEATH:
                raise Failure(f"rank {rank} died: {ended.cause}")
            if ended is not None:
                answers[rank] = ended.answer
                del rank_of[pipe]
        if not heard:
            break
    if stalled:
        silent = sorted(rank_of.values())
        first = stalled[min(stalled)]
        hung = f"rank {silent[0]} hangs: " if silent else ""
        raise Failure(f"{hung}{first}")
    return [answers[rank] for rank in range(len(workers))]
