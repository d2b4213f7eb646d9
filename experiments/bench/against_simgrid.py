"""The simulator against SimGrid: the times of a dozen schedules in both (the table of docs/simulator.md).

``python -m experiments.bench.against_simgrid`` makes the schedules and plays them with
``experiments/bench/simgrid_player.py`` in the Python that has SimGrid (``--python``).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tutti.experiments.registry import find_method
from tutti.schedules.collective import collective
from tutti.schedules.files.schedule_file import write_schedule
from tutti.schedules.method import Problem
from tutti.schedules.simulation.pipelining import best_slices
from tutti.schedules.verify import verify
from tutti.topologies.errors import InputError
from tutti.topologies.text import parse_topology
from tutti.topologies.units import parse_size, short

PLAYER = Path(__file__).with_name("simgrid_player.py")
MOST_HOPS = 2**12
"""Of a flow's slices: SimGrid takes a second for some thousands of messages."""
CASES = (
    ("ring:8", "allgather", "ring", "1MB"),
    ("torus:4x4", "allreduce", "bfb", "1MB"),
    ("complete:8", "all-to-all", "direct", "1MB"),
    ("gen_kautz:4,64", "allgather", "bfb", "1MB"),
    ("mesh:4x4", "allgather", "tacos", "1MB"),
    ("dgx1", "allreduce", "forestcoll", "1GB"),
    ("mesh:4x4", "allgather", "direct", "1MB"),
    ("mesh:4x4", "all-to-all", "direct", "1GB"),
    ("dgx_a100:2", "allgather", "ring", "1KB"),
    ("dgx_a100:2", "allgather", "ring", "1MB"),
    ("dgx_a100:2", "allgather", "nccl_like", "1GB"),
    ("dgx_a100:2", "allreduce", "forestcoll", "1GB"),
    ("mi250:2", "allgather", "tacos", "1GB"),
    ("switch2d:8x4?bandwidth=300GB/s,25GB/s", "allgather", "rhd", "1GB"),
)


def ratios(case: Sequence[str], python: str) -> tuple[float, float, float]:
    """Return our seconds, and SimGrid's over them: one message at a time on each first link, and shared.

    Raises
    ------
    InputError
        If SimGrid can't be run there.
    """
    network, kind, name, text = case
    topology, size, method = parse_topology(network), parse_size(text), find_method(name)
    problem = Problem(topology, collective(kind, topology.num_ranks), Fraction(size))
    schedule = method.synthesize(problem, method.options(), np.random.default_rng(0))
    verify(schedule)
    slices, seconds = best_slices(schedule, size, MOST_HOPS)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "schedule.json"
        write_schedule(schedule, file)
        command = [python, str(PLAYER), str(file), "--bytes", str(int(size)), "--slices", str(slices)]
        found = [
            subprocess.run([*command, *more], capture_output=True, text=True, check=False)
            for more in ([], ["--share"])
        ]
    if any(one.returncode for one in found):
        last = (found[0].stderr or found[1].stderr).strip().splitlines()[-1:]
        raise InputError(f"{python} can't play a schedule in SimGrid: {' '.join(last)}")
    alone, shared = (float(one.stdout) / seconds for one in found)
    return seconds, alone, shared


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m tutti.experiments.bench.against_simgrid", allow_abbrev=False
    )
    parser.add_argument("--python", default="/usr/bin/python3", help="one that can import simgrid")
    given = parser.parse_args(arguments)
    sys.stdout.write("| network | collective, method, size | ours, us | SimGrid, in turn | shared |\n")
    sys.stdout.write("| --- | --- | --- | --- | --- |\n")
    for case in CASES:
        seconds, alone, shared = ratios(case, given.python)
        network, *what = case
        row = f"| `{network}` | {', '.join(what)} | {short(seconds * 1e6)} | {alone:.4f} | {shared:.4f} |"
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
