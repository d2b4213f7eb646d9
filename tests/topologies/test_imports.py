"""Imports are counted exactly, by a clock that the modules themselves move."""

import importlib
import sys
import time

import pytest

from tutti.topologies.kernels import COMPILATION, counted


class Clock:
    """A clock that a module moves by setting its seconds."""

    seconds = 0.0


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Make modules that take 2 s, 2 s and 3 s more, and one that takes 5 s until an error."""
    texts = {
        "slow_a": "2",
        "slow_b": "1; import slow_a; Clock.seconds += 2",
        "slow_c": "5; raise ValueError('no')",
    }
    for name, text in texts.items():
        head = f"from {__name__} import Clock\n"
        (tmp_path / f"{name}.py").write_text(f"{head}Clock.seconds += {text}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(time, "perf_counter", lambda: Clock.seconds)
    yield
    for name in texts:
        sys.modules.pop(name, None)


def counting(name):
    """Return the durations of an import by the clock and by `COMPILATION`."""
    clock, compilation = Clock.seconds, COMPILATION.seconds
    with counted():
        importlib.import_module(name)
    return Clock.seconds - clock, COMPILATION.seconds - compilation


@pytest.mark.parametrize(
    ("names", "seconds"), [(["slow_a"], [2]), (["slow_b"], [5]), (["slow_a", "slow_b"], [2, 3])]
)
def test_what_an_import_takes_is_counted_once_with_all_that_it_imports(modules, names, seconds):
    assert [counting(name) for name in names] == [(each, each) for each in seconds]
    assert counting(names[-1]) == (0, 0)


def test_an_import_that_fails_is_counted_too_and_nothing_goes_on(modules):
    with pytest.raises(ValueError, match=r"^no$"):
        counting("slow_c")
    assert not COMPILATION.under_way
    assert not any(type(finder).__module__ == "tutti.topologies.kernels" for finder in sys.meta_path)


def test_nothing_is_counted_outside_of_the_block(modules):
    before = COMPILATION.seconds
    importlib.import_module("slow_a")
    assert COMPILATION.seconds == before
