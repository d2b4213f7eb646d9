"""Calls that take too long end by an exception, but not while something is compiled or imported."""

import contextlib
import importlib
import math
import signal
import sys
import threading
import time

import pytest

from topologies.deadline import OutOfTime, within
from topologies.kernels import COMPILATION

LONG = 5.0
"""Seconds: none of these tests takes so long if what it tests works."""


def wait(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def test_what_takes_too_long_is_ended():
    began = time.monotonic()
    with pytest.raises(OutOfTime), within(0.05):
        wait(LONG)
    assert 0.05 <= time.monotonic() - began < 1


def test_what_passes_over_faults_does_not_pass_over_this():
    def try_two_ways():
        with contextlib.suppress(Exception):
            wait(LONG)
        wait(LONG)

    with pytest.raises(OutOfTime), within(0.05):
        try_two_ways()


@pytest.mark.parametrize("seconds", [10.0, 1e11, 1e30, math.inf])
def test_what_is_done_in_time_is_left_alone(seconds):
    before = signal.getsignal(signal.SIGALRM)
    with within(seconds):
        wait(0.01)
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_compilation_is_kept_whole_and_does_not_count():
    done = []

    def compile_and_run():
        COMPILATION.start()
        wait(0.15)
        COMPILATION.end()
        done.append(time.monotonic())
        wait(LONG)

    with pytest.raises(OutOfTime), within(0.05):
        compile_and_run()
    assert time.monotonic() - done[0] >= 0.04


def test_imports_are_kept_whole(tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text("import time\ntime.sleep(0.15)\nWHOLE = True\n")
    monkeypatch.syspath_prepend(tmp_path)

    def import_and_run():
        importlib.import_module("slow_to_import")
        wait(LONG)

    with pytest.raises(OutOfTime), within(0.05):
        import_and_run()
    assert sys.modules["slow_to_import"].WHOLE


def test_other_threads_have_no_limit():
    done = []

    def work():
        with within(0.01):
            time.sleep(0.05)
        done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done
