"""Calls that take too long end by an exception when our own code runs that foreign code does not call."""

import contextlib
import ctypes
import importlib
import math
import signal
import sys
import threading
import time
import weakref
from multiprocessing.connection import Pipe
from multiprocessing.connection import wait as wait_for
from typing import NamedTuple

import numba.core.serialize
import numpy as np
import pytest

from tutti.topologies import interruption
from tutti.topologies.interruption import OutOfTime, stop, within
from tutti.topologies.kernels import COMPILATION, kernel

PIPE = Pipe()
LONG = 5.0
"""A time in seconds that no test here reaches if the code works."""


class Pair(NamedTuple):
    """The result of a kernel."""

    last: int
    count: int


@kernel
def spin(count: int) -> Pair:
    """Spend time: about 20 ms for a count of ten million."""
    last = 0
    for number in range(count):
        last = (last * 1103515245 + number) % 2147483648
    return Pair(last, count)


@kernel
def draw(rng):
    """Take a generator as argument, for which numba calls Python."""
    return rng.random()


def called_from(file, text):
    """Return a function ``call(act)`` that is compiled from this text as if it came from this file."""
    space = {}
    exec(compile(f"def call(act):\n    {text}\n", file, "exec"), space)
    return space["call"]


def stop_in(frame):
    """Do what Ctrl-C does in this frame; the effect of the next Ctrl-C stays the same."""
    before = signal.getsignal(signal.SIGINT)
    try:
        stop(signal.SIGINT, frame)
    finally:
        signal.signal(signal.SIGINT, before)


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


@pytest.mark.parametrize(
    "file",
    [
        ctypes.__file__,
        weakref.__file__,
        np.__file__,
        numba.core.serialize.__file__,
        "<string>",  # the file of a named tuple's constructor
        "<frozen importlib._bootstrap>",
    ],
)
def test_in_code_of_others_nothing_is_raised_but_in_own_code_after_it(file):
    kept = []
    call = called_from(file, "return act(), 'whole'")

    def interrupted():
        kept.append(call(lambda: stop_in(sys._getframe(1))))
        wait(LONG)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert kept == [(None, "whole")]


@pytest.mark.parametrize("file", [numba.core.serialize.__file__, "<frozen importlib._bootstrap>"])
def test_in_own_code_that_an_import_or_numba_calls_nothing_is_raised(file):
    kept = []
    call = called_from(file, "return act(), 'whole'")

    def interrupted():
        kept.append(call(lambda: stop_in(sys._getframe())))
        wait(LONG)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert kept == [(None, "whole")]


def test_in_what_a_handler_calls_nothing_is_raised(monkeypatch):
    """A second signal arrives before the first one's handler returns to the interrupted code."""
    kept, real = [], signal.signal

    def interrupted(*args):
        kept.append(interruption.may_raise(sys._getframe()))
        return real(*args)

    assert interruption.may_raise(sys._getframe())
    monkeypatch.setattr(signal, "signal", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stop(signal.SIGINT, sys._getframe())
    monkeypatch.undo()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    assert kept
    assert not any(kept)


def test_in_own_code_it_is_raised_immediately():
    with pytest.raises(KeyboardInterrupt):
        stop_in(sys._getframe())


@pytest.mark.parametrize("waiting", [threading.Event().wait, lambda seconds: wait_for(PIPE[:1], seconds)])
def test_a_wait_is_ended(waiting):
    with pytest.raises(OutOfTime), within(0.05):
        waiting(LONG)


def test_what_numba_calls_for_a_generator_is_not_interrupted(monkeypatch):
    """It reads an attribute of the result of ``ctypes.cast``; an exception there would cause SIGSEGV."""
    rng, kept = np.random.default_rng(0), []
    draw(rng)
    # The next look comes after the casts: this file is own code, which nothing compiled calls but here.
    monkeypatch.setattr(interruption, "AGAIN_SECONDS", 0.2)
    monkeypatch.setattr(interruption, "HALVINGS", 1)
    inner = called_from(ctypes.__file__, "return act()")
    cast = ctypes.cast

    def interrupted_cast(*args):
        kept.append(args)
        return inner(lambda: (stop_in(sys._getframe(1)), cast(*args))[1])

    monkeypatch.setattr(ctypes, "cast", interrupted_cast)

    def interrupted():
        kept.append(draw(rng))
        wait(LONG)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(kept) == 4
    assert 0 <= kept[-1] < 1


def test_a_kernel_that_returns_a_named_tuple_is_ended_after_it():
    """The signal arrives while the kernel runs; the first Python code after it makes the named tuple."""
    spin(1)
    done = []

    def spin_on():
        while True:
            done.append(spin(10_000_000))

    with pytest.raises(OutOfTime), within(0.05):
        spin_on()
    assert all(pair.count == 10_000_000 for pair in done)
