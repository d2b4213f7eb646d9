"""Exceptions of signal handlers: in Python at once, out of compiled code as soon as it returns."""

import importlib
import sys
import weakref
from typing import NamedTuple

import pytest

from topologies.deadline import OutOfTime, within
from topologies.interruption import raise_in
from topologies.kernels import kernel


class Pair(NamedTuple):
    """What the kernel returns."""

    last: int
    count: int


@kernel
def spin(count: int) -> Pair:
    """Take a while: some 20 ms for ten million."""
    last = 0
    for number in range(count):
        last = (last * 1103515245 + number) % 2147483648
    return Pair(last, count)


def spin_on(done):
    while True:
        done.append(spin(10_000_000))


def test_a_kernel_that_returns_a_named_tuple_is_ended_after_it():
    """The signal comes while it runs, so that the first Python to run is that which makes the named tuple."""
    spin(1)
    before = sys.gettrace()
    for _ in range(5):
        done = []
        with pytest.raises(OutOfTime), within(0.05):
            spin_on(done)
        assert all(pair.count == 10_000_000 for pair in done)
        assert sys.gettrace() is before


def test_in_python_it_is_raised_at_once():
    with pytest.raises(KeyboardInterrupt):
        raise_in(sys._getframe(), KeyboardInterrupt())


def test_of_what_compiled_code_calls_it_is_raised_in_the_caller():
    """A constructor of a named tuple ends, and then its caller is where it is raised."""
    kept = []

    def interrupted():
        constructor = "def make(error):\n    raise_in(sys._getframe(), error)\n    return 'made'"
        space = {"__name__": "namedtuple_Pair", "raise_in": raise_in, "sys": sys}
        exec(constructor, space)
        kept.append(space["make"](KeyboardInterrupt()))
        kept.append("not reached")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert kept == ["made"]


@pytest.mark.parametrize("name", ["on_disposal", "_on_type_disposal"])
def test_of_what_is_called_when_an_object_is_gone_it_is_raised_in_who_let_it_go(name):
    """As numba's own does it; what is raised in such a function is printed, and lost."""
    kept = []

    def on_disposal(gone):
        raise_in(sys._getframe(), KeyboardInterrupt())
        kept.append("heard")

    on_disposal.__code__ = on_disposal.__code__.replace(co_name=name)

    def interrupted():
        thing = frozenset([1])
        watched = weakref.ref(thing, on_disposal)
        del thing
        kept.append(watched)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert kept == ["heard"]


def test_of_an_import_it_is_raised_when_that_is_whole(tmp_path, monkeypatch):
    """A module that would pass over it, as those do that make up for what they can't import."""
    source = """
import sys
from topologies.interruption import raise_in
try:
    raise_in(sys._getframe(), KeyboardInterrupt())
except BaseException:
    LOST = True
WHOLE = True
"""
    (tmp_path / "passes_over.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    before, kept = sys.gettrace(), []

    def interrupted():
        importlib.import_module("passes_over")
        kept.append("not reached")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    module = sys.modules["passes_over"]
    assert module.WHOLE
    assert not hasattr(module, "LOST")
    assert not kept
    assert sys.gettrace() is before
