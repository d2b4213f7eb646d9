"""Calls in a copy of the process: it is killed at a limit, its death is an answer, otherwise it continues."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from tutti.topologies.apart import Apart
from tutti.topologies.kernels import COMPILATION
from tutti.topologies.processes import CallEnd, resident_memory
from tutti.topologies.progress import listening, tell

LIMIT = 0.2
"""Time limit of the calls, in seconds."""


def in_c(seconds):
    """Hold Python's lock in C, so that no signal handler runs meanwhile."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


def perform(act):
    """Perform the act with this name."""
    what, *rest = act
    return {
        "pid": os.getpid,
        "sleep": in_c,
        "kill": signal.raise_signal,
        "tell": tell,
        "compile": compile_for,
    }[what](*rest)


def compile_for(seconds):
    COMPILATION.start()
    time.sleep(seconds)
    COMPILATION.end()


def test_what_is_stuck_in_c_is_ended_and_the_next_call_has_another_process():
    with Apart(perform) as apart:
        first = apart.call(("pid",)).answer
        assert apart.call(("pid",), LIMIT).answer == first != os.getpid()
        began = time.monotonic()
        assert apart.call(("sleep", 30.0), LIMIT).how is CallEnd.TIME
        assert LIMIT <= time.monotonic() - began < 10
        second = apart.call(("pid",)).answer
        assert second not in (first, os.getpid())
    assert not psutil.pid_exists(first)
    assert not psutil.pid_exists(second)


def test_a_call_beside_this_process_waits_for_its_answer_and_then_ends_at_its_limit():
    with Apart(perform) as quick, Apart(perform) as slow:
        quick.begin(("pid",), LIMIT)
        slow.begin(("sleep", 30.0), LIMIT)
        time.sleep(2 * LIMIT)
        assert quick.answer().answer[0] not in (None, os.getpid())
        began = time.monotonic()
        assert slow.answer().how is CallEnd.TIME
        assert LIMIT <= time.monotonic() - began < 10


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_death_is_an_answer(number):
    with Apart(perform) as apart:
        ended = apart.call(("kill", number))
        assert (ended.how, ended.cause) == (CallEnd.DEATH, number.name)
        assert apart.call(("pid",)).how is CallEnd.ANSWER


def test_it_ignores_ctrl_c():
    with Apart(perform) as apart:
        assert apart.call(("kill", signal.SIGINT)).how is CallEnd.ANSWER


def test_closures_need_not_be_pickled():
    base = {"known": lambda: 7}
    with Apart(lambda name: base[name]()) as apart:
        assert apart.call("known").answer == 7


def test_it_tells_its_progress():
    told = []
    with listening(told.append), Apart(perform) as apart:
        apart.call(("tell", "half done"))
    assert told == ["half done"]


def test_compilation_does_not_count_and_stops_the_clock_here_as_well(monkeypatch):
    seen, before = [], COMPILATION.seconds
    monkeypatch.setattr(COMPILATION, "watchers", [(lambda: seen.append("on"), lambda: seen.append("off"))])
    with Apart(perform) as apart:
        assert apart.call(("compile", 2 * LIMIT), LIMIT).how is CallEnd.ANSWER
    assert seen == ["on", "off"]
    assert 2 * LIMIT <= COMPILATION.seconds - before < 10 * LIMIT
    assert not COMPILATION.under_way


def test_it_works_in_threads_side_by_side():
    pids = []

    def work():
        with Apart(perform) as apart:
            pids.append(apart.call(("pid",)).answer)
            assert apart.call(("sleep", 30.0), LIMIT).how is CallEnd.TIME
            pids.append(apart.call(("pid",)).answer)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(pids)) == 6


@pytest.mark.skipif(sys.platform != "linux", reason="a copy hears of its parent's death on Linux alone")
def test_it_ends_with_its_parent():
    code = (
        "import os, signal, time\n"
        "from tutti.topologies.apart import Apart\n"
        "def perform(value):\n"
        "    print(os.getpid(), flush=True)\n"
        "    time.sleep(30)\n"
        "Apart(perform).call(None)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", code]
    parent = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    copy = psutil.Process(int(parent.stderr.readline()))
    parent.kill()
    parent.wait()
    parent.stderr.close()
    assert not psutil.wait_procs([copy], 10)[1]


@pytest.mark.skipif(sys.platform != "linux", reason="a process's children are known on Linux alone")
def test_its_memory_counts():
    here = psutil.Process().memory_info().rss

    def grow(size):
        held = b"x" * size
        return resident_memory(os.getppid()), len(held)

    with Apart(grow) as apart:
        seen, _ = apart.call(here + 10**7).answer
    assert seen * 10**6 > here + 10**7
