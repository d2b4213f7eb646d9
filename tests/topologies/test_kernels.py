"""Light kernels, run by Python in a process without numba, against the compiled ones of this process."""

import gc
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np

from tests.topologies import interpreted
from tutti.topologies.kernels import Compilation, Interpreter

ROOT = Path(__file__).parents[2]


class Pair(NamedTuple):
    first: int
    second: float


def test_python_finds_what_the_compiled_kernels_find():
    assert numba  # so that this process compiles
    script = [sys.executable, ROOT / "tests" / "topologies" / "interpreted.py"]
    ran = subprocess.run(script, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT)})
    lines = ran.stdout.splitlines()
    assert lines == interpreted.findings()
    assert len(lines) > 30
    assert any("delivered twice" in line for line in lines)


def test_it_returns_numbers_of_python_as_compiled_functions_do():
    found = Interpreter().run(lambda a: (a.sum(), Pair(a[0], np.float64(2.5)), a), (np.arange(3),))
    assert [type(value) for value in found] == [int, Pair, np.ndarray]
    assert [type(value) for value in found[1]] == [int, float]


def test_words_wrap_around_without_a_warning(recwarn):
    assert Interpreter().run(lambda x: x * x, (np.uint64(2**63 + 1),)) == 1
    assert not recwarn


def test_what_is_large_or_late_is_compiled(monkeypatch):
    monkeypatch.delitem(sys.modules, "numba")
    one = Interpreter()
    assert one.takes((np.zeros(10), (np.zeros(5), 3)))
    assert not one.takes((np.zeros(one.most // 2),), weight=3)
    assert not one.takes((np.zeros(one.most), (np.zeros(5), 3)))
    one.run(lambda: None, ())
    one.seconds = 0.0
    assert not one.takes(())


def test_after_numba_is_loaded_all_is_compiled():
    assert "numba" in sys.modules
    assert not Interpreter().takes(())


def test_garbage_is_collected_again_once_all_is_compiled():
    stretch, seen = Compilation(), []
    for step in (stretch.start, stretch.start, stretch.end, stretch.end):
        step()
        seen.append(gc.isenabled())
    assert seen == [False, False, False, True]
    gc.disable()
    stretch.start()
    stretch.end()
    assert not gc.isenabled()
    gc.enable()
