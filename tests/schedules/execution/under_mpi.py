"""All collectives over MPI, and MPI's own on the same buffers, all checked; run under mpirun."""

import sys

from tests.schedules.execution.direct import direct
from tutti.schedules.collective import KINDS, collective
from tutti.schedules.execution.mpi import Mpi, MpiCollectives, world
from tutti.schedules.execution.session import SessionTask, Settings, fifo_bytes, play


def main(sizes: list[int]) -> None:
    """Run every collective at every size; fail at a wrong byte, ours or MPI's."""
    everyone = world()
    ranks = everyone.size
    tasks = [
        SessionTask(direct(collective(kind, ranks, root=ranks - 1 if kind.rooted else None), ranks, 2), size)
        for kind in KINDS
        for size in sizes
    ]
    transport = Mpi(everyone, fifo_bytes(tasks))
    times = play(everyone.rank, tasks, Settings(1, 2, 20.0), transport, MpiCollectives(everyone))
    transport.close()
    if everyone.rank == 0:
        sys.stdout.write(f"{sum(len(one.ours) == len(one.rival) == 2 for one in times)} right\n")


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]])
