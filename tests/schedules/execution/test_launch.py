"""Ranks that are processes, over shared memory and MPI; a rank that dies, hangs or stops leaves nothing."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.schedules.execution.crew import Saboteur
from tests.schedules.execution.direct import direct
from tutti.schedules.collective import collective
from tutti.schedules.execution.session import SessionTask, Settings
from tutti.schedules.execution.shared_memory import OverSharedMemory, Segment, run
from tutti.schedules.execution.transport import Failure

ROOT = Path(__file__).parents[3]
BRIEF = Settings(warmup=1, repeats=2, timeout=5.0)


def tasks():
    kinds = ("allreduce", "all-to-all", "gather")
    return [
        SessionTask(direct(collective(kind, 3, root=0 if kind == "gather" else None), 3), 960)
        for kind in kinds
    ]


def test_processes_play_and_check_programs():
    todo = tasks()
    times = run(OverSharedMemory(todo), todo, BRIEF)
    assert [[len(one.ours) for one in of_rank] for of_rank in times] == [[2, 2, 2]] * 3


def test_shared_memory_has_no_name_that_could_be_left():
    segment = Segment(100)
    assert os.fstat(segment._file).st_nlink == 0
    segment.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(segment._file)


def test_a_rank_that_dies_is_named():
    todo = tasks()[:1]
    with pytest.raises(Failure, match=r"^rank 1 died: SIGKILL$"):
        run(Saboteur(todo, 1, signal.SIGKILL), todo, BRIEF)


def test_a_rank_that_hangs_is_named_by_those_that_wait_for_it():
    todo = tasks()[:1]
    with pytest.raises(Failure, match=r"^rank 2 hangs: rank 0 waits at a barrier for rank 2, for 0\.2 s$"):
        run(Saboteur(todo, 2, signal.SIGSTOP), todo, Settings(0, 1, 0.2))


ENDLESS = """
import sys
from tutti.experiments.cli import main
from tutti.schedules.execution.shared_memory import OverSharedMemory, run
from tutti.schedules.execution.session import Settings, SessionTask
from tests.schedules.programs.test_program import ring
import tutti.experiments.cli.parser

def forever(arguments):
    todo = [SessionTask(ring(2), 64)]
    print("started", flush=True)
    run(OverSharedMemory(todo), todo, Settings(0, 10**9, 5.0))

if __name__ == "__main__":
    tutti.experiments.cli.parser.do_help = forever
    sys.exit(main(["help"]))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_command(number, tmp_path):
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
    )
    assert command.stdout.readline() == "started\n"
    ranks = []
    while len(ranks) < 2 + 2:  # both ranks, the server that forks them and the resource tracker
        time.sleep(0.05)
        ranks = psutil.Process(command.pid).children(recursive=True)
    command.send_signal(number)
    _, said = command.communicate(timeout=20)
    if number == signal.SIGTERM:
        assert (command.returncode, said) == (130, "tutti: stopped\n")
    psutil.wait_procs(ranks, timeout=5)
    assert not [rank for rank in ranks if rank.is_running() and rank.status() != psutil.STATUS_ZOMBIE]


WITHOUT_MPI = shutil.which("mpirun") is None or importlib.util.find_spec("mpi4py") is None


@pytest.mark.skipif(WITHOUT_MPI, reason="no MPI here: `make mpi`, after installing Open MPI or another one")
@pytest.mark.parametrize("ranks", [2, 4])
def test_all_collectives_over_mpi_and_by_it(ranks):
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = ["mpirun", "--oversubscribe", "-n", str(ranks), sys.executable]
    done = subprocess.run(
        [*command, "-m", "tests.schedules.execution.under_mpi", "1024", "1048576"],
        cwd=ROOT, env=os.environ | root, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "16 right\n"), done.stderr
