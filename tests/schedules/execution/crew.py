"""Ranks as threads of one process, over the shared memory of processes."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

from tutti.schedules.execution.session import play
from tutti.schedules.execution.shared_memory import OverSharedMemory
from tutti.schedules.execution.transport import Stalled


def as_threads(tasks, settings):
    """Return the results of each rank's `play`, or raise the first rank's exception."""
    ranks = tasks[0].program.num_ranks
    job = OverSharedMemory(tasks)
    with ThreadPoolExecutor(ranks) as pool:
        parts = [pool.submit(play, rank, tasks, settings, job.connect(rank)) for rank in range(ranks)]
        errors = [part.exception() for part in parts]
        job.close()
    raised = sorted(
        (error for error in errors if error is not None), key=lambda one: isinstance(one, Stalled)
    )
    if raised:
        raise raised[0]  # the others only waited for the failed one
    return [part.result() for part in parts]


class Saboteur(OverSharedMemory):
    """Shared memory where one rank kills or stops itself."""

    def __init__(self, tasks, rank, number):
        super().__init__(tasks)
        self.victim, self.number = rank, number

    def connect(self, rank):
        if rank == self.victim:
            os.kill(os.getpid(), self.number)
            if self.number != signal.SIGSTOP:
                time.sleep(60)
        return super().connect(rank)
