"""Worker processes: limits hold, clocks pause, deaths and errors are reported, none outlives the parent."""

import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import Pipe
from pathlib import Path

import psutil
import pytest

from tutti.topologies.errors import InputError, TuttiError
from tutti.topologies.processes import CallEnd, Caller, Worker

ENTRY = """
import os, signal, time
from functools import partial
import numpy as np
from tutti.topologies.errors import InputError

def hesitate(caller, setting=None):
    time.sleep(30)

def work(caller, setting=None):
    caller.serve(partial(perform, caller))

def perform(caller, call):
    name, *rest = call
    return globals()[name](caller, *rest)

def add(caller, a, b):
    return a + b

def tell(caller, *values):
    for value in values:
        caller.tell(value)

def refuse(caller):
    raise InputError("not that")

def kill(caller):
    os.kill(os.getpid(), signal.SIGKILL)

def fork(caller):
    return "the child's" if os.fork() == 0 else "ours"

def leave(caller):
    os._exit(3)

def sleep(caller, *laps):
    for seconds in laps:
        caller.start_clock()
        time.sleep(seconds)
        caller.stop_clock()

def compile(caller, seconds):
    caller.start_clock()
    caller.pause_clock()
    time.sleep(seconds)
    caller.resume_clock()
    time.sleep(30)

def take(caller, size):
    kept = np.ones(size, dtype=np.uint8)
    time.sleep(30)
    return int(kept[0])
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Make the functions that the workers of these tests run importable."""
    (tmp_path / "work_of_tests.py").write_text(ENTRY)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.fixture(params=["fresh", "forked"])
def worker(request, place):
    """Return a worker of either kind."""
    made = (
        Worker.fresh("work_of_tests:work")
        if request.param == "fresh"
        else Worker.forked("work_of_tests:work", None, ["numpy"])
    )
    made.watched = True
    yield made
    if not made.pipe.closed:
        made.end()


def perform(worker, *call, **limits):
    worker.give(call, **limits)
    return worker.finish()


def test_a_worker_performs_call_after_call(worker):
    assert perform(worker, "add", 1, 2).answer == 3
    ended = perform(worker, "add", 3, 4)
    assert (ended.how, ended.answer, ended.exitcode) == (CallEnd.ANSWER, 7, None)
    assert not worker.busy
    assert worker.ready


def test_progress_is_told_and_an_error_is_raised_here(worker):
    told = []
    perform(worker, "tell", 1, 2, notify=told.append)
    assert told == [1, 2]
    with pytest.raises(InputError, match=r"^not that$"):
        perform(worker, "refuse")
    assert perform(worker, "add", 1, 1).answer == 2


def test_a_child_that_a_call_forked_answers_nothing(worker):
    assert [perform(worker, "fork").answer for _ in range(10)] == ["ours"] * 10
    assert perform(worker, "add", 1, 1).answer == 2


def test_a_worker_that_nobody_wants_when_it_is_ready_leaves_quietly():
    mine, theirs = Pipe()
    mine.close()
    with theirs:
        Caller(theirs).serve(len)


@pytest.mark.parametrize(("call", "cause"), [("kill", "SIGKILL"), ("leave", "exit status 3")])
def test_a_death_says_its_cause(worker, call, cause):
    ended = perform(worker, call)
    assert (ended.how, ended.cause) == (CallEnd.DEATH, cause)


def test_each_lap_has_the_time_limit_and_the_one_that_exceeds_it_is_known(worker):
    ended = perform(worker, "sleep", 0.2, 0.2, 30, seconds=0.4)
    assert (ended.how, ended.stops) == (CallEnd.TIME, 2)
    assert 0.4 <= ended.seconds < 5
    assert worker.process.exitcode is not None


def test_compilation_is_not_counted(worker):
    begin = time.monotonic()
    assert perform(worker, "compile", 0.5, seconds=0.3).how is CallEnd.TIME
    assert 0.8 <= time.monotonic() - begin < 10


def test_a_memory_limit_holds(worker):
    perform(worker, "add", 1, 1)
    held = psutil.Process(worker.process.pid).memory_info().rss
    ended = perform(worker, "take", 10**9, memory=held + 10**8)
    assert ended.how is CallEnd.MEMORY
    assert ended.peak_mb * 1e6 > held + 10**8


@pytest.mark.usefixtures("place")
def test_a_worker_that_can_not_start_says_so(capfd):
    for worker in (
        Worker.fresh("no_such_module:work"),
        Worker.forked("no_such_module:work", None, ["numpy"]),
    ):
        worker.give("call")
        with pytest.raises(
            TuttiError, match="a worker process could not start; what it printed stands above"
        ):
            worker.finish()
    assert "no_such_module" in capfd.readouterr().err


@pytest.mark.parametrize("start", ["Worker.fresh('work_of_tests:work')",
                                   "Worker.forked('work_of_tests:work', None, ['numpy'])"])  # fmt: skip
def test_a_worker_ends_with_its_parent(start, place, tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(
        "import sys, time\n"
        "if __name__ == '__main__':\n"
        f"    sys.path[:0] = [{str(Path(__file__).parents[2])!r}, {str(tmp_path)!r}]\n"
        "    from tutti.topologies.processes import Worker\n"
        f"    worker = {start}; worker.give(('sleep', 60)); time.sleep(0.2)\n"
        "    print(worker.process.pid, flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        worker = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        worker.wait(timeout=5)
        assert not worker.is_running()


def test_ctrl_c_while_workers_start_is_quiet():
    """Python's resource tracker, started with the first worker, must not let Ctrl-C reach the others."""
    code = (
        "import signal; from tutti.topologies.processes import inherited\n"
        "from multiprocessing import resource_tracker\n"
        "with inherited():\n"
        "    resource_tracker.ensure_running()\n"
        "    print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_a_lock_that_a_killed_process_held_is_no_message():
    """Libraries make such locks on import; Python's resource tracker would report them at the end."""
    code = (
        "import multiprocessing, os; from tutti.topologies.processes import inherited\n"
        "with inherited():\n"
        "    lock = multiprocessing.get_context('spawn').Lock()\n"
        "assert 'PYTHONWARNINGS' not in os.environ\n"
        "os._exit(0)"
    )
    root = Path(__file__).parents[2]
    left = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    done = subprocess.run([sys.executable, "-c", code], cwd=root, env=left, capture_output=True, check=True)
    assert done.stderr == b""


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("start", [Worker.fresh, lambda entry: Worker.forked(entry, None, ["numpy"])])
def test_a_worker_killed_before_it_is_ready_is_a_death(start):
    worker = start("work_of_tests:hesitate")
    os.kill(worker.process.pid, signal.SIGKILL)
    ended = worker.finish()
    assert (ended.how, ended.cause, worker.ready) == (CallEnd.DEATH, "SIGKILL", False)


def server() -> int:
    """Return the process that forks workers."""
    (found,) = (
        child.pid for child in psutil.Process().children() if "forkserver" in " ".join(child.cmdline())
    )
    return found


@pytest.mark.usefixtures("place")
def test_a_server_killed_while_it_forks_is_replaced():
    Worker.forked("work_of_tests:work", None, ["numpy"]).end()
    old = server()
    os.kill(old, signal.SIGSTOP)
    threading.Timer(0.3, os.kill, (old, signal.SIGKILL)).start()
    worker = Worker.forked("work_of_tests:work", None, ["numpy"])
    assert perform(worker, "add", 1, 2).answer == 3
    assert server() != old
    worker.end()


@pytest.mark.usefixtures("place")
def test_a_worker_whose_server_was_killed_works_on_and_its_limits_hold():
    worker = Worker.forked("work_of_tests:work", None, ["numpy"])
    process = psutil.Process(worker.process.pid)
    os.kill(server(), signal.SIGKILL)
    assert perform(worker, "add", 1, 2).answer == 3
    assert perform(worker, "sleep", 30, seconds=0.2).how is CallEnd.TIME
    process.wait(timeout=5)
