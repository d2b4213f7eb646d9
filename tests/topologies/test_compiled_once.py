"""Processes that start together on an empty cache: one compiles a kernel, the others load the result."""

import errno
import importlib.util
import multiprocessing
import os
import signal
import sys
from pathlib import Path

import pytest

from tutti.topologies import compiled_once
from tutti.topologies.kernels import COMPILATION

SOURCE = """
from tutti.topologies.kernels import kernel

@kernel
def inner(x):
    return x + 1

@kernel
def outer(x):
    return inner(x) + inner(x)

@kernel
def wrong(x):
    return x.nothing
"""
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def module(tmp_path, monkeypatch):
    path = tmp_path / "fresh.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("fresh", path)
    loaded = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "fresh", loaded)
    spec.loader.exec_module(loaded)
    return loaded


def in_processes(count, work):
    """Return the results of `work` in this number of processes that start it at the same time."""
    barrier, answers = FORK.Barrier(count), FORK.SimpleQueue()

    def one():
        barrier.wait()
        try:
            answers.put(work())
        except BaseException as error:
            answers.put(repr(error))
            raise

    started = [FORK.Process(target=one) for _ in range(count)]
    for process in started:
        process.start()
    found = [answers.get() for _ in started]
    for process in started:
        process.join()
    assert not [one for one in found if isinstance(one, str)], found
    return found


def compilations(module):
    before = COMPILATION.kernels
    assert module.outer(3) == 8
    return COMPILATION.kernels - before


def test_processes_that_start_at_once_compile_each_kernel_once(module):
    assert sum(in_processes(3, lambda: compilations(module))) == 2


def test_what_calls_a_kernel_of_a_changed_file_is_compiled_again(tmp_path, monkeypatch):
    """The cached `outer` contains the old `inner`, although the file of `outer` is unchanged."""
    monkeypatch.syspath_prepend(tmp_path)
    head = "from tutti.topologies.kernels import kernel\n"
    (tmp_path / "outer_of.py").write_text(
        f"{head}from inner_of import STEP, inner\n@kernel\ndef outer(x):\n    return inner(x) + STEP\n"
    )

    def answer():
        before = COMPILATION.kernels
        found = importlib.import_module("outer_of").outer(1)
        return found, COMPILATION.kernels - before

    for factor, step, compiled in ((2, 0, 2), (2, 0, 0), (30, 0, 2), (30, 4, 2)):
        text = f"{head}STEP = {step}\n@kernel\ndef inner(x):\n    return {factor} * x\n"
        if compiled:
            (tmp_path / "inner_of.py").write_text(text)
            os.utime(tmp_path / "inner_of.py", ns=(0, factor * 10**12 + step * 10**9))
        assert in_processes(1, answer) == [(factor + step, compiled)]


def test_what_was_kept_for_a_class_that_was_renamed_since_is_compiled_again(tmp_path, monkeypatch):
    """The kernel's own file is unchanged, so numba reads its table, which names the class."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "summed.py").write_text(
        "from tutti.topologies.kernels import kernel\n@kernel\ndef summed(pair): return pair.x + pair.y\n"
    )

    def answer():
        before = COMPILATION.kernels
        pair = vars(importlib.import_module(f"pair_of_{name}"))[name](1, 2)
        return importlib.import_module("summed").summed(pair), COMPILATION.kernels - before

    for name, compiled in (("Ends", 1), ("Ends", 0), ("Sides", 1)):
        (tmp_path / "pair_of_Ends.py").unlink(missing_ok=True)
        (tmp_path / f"pair_of_{name}.py").write_text(
            f"from typing import NamedTuple\nclass {name}(NamedTuple):\n    x: int\n    y: int\n"
        )
        assert in_processes(1, answer) == [(3, compiled)]


def test_a_table_with_damaged_bytes_is_written_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    source = "from tutti.topologies.kernels import kernel\n@kernel\ndef next_of(x): return x + 1\n"
    (tmp_path / "stepping.py").write_text(source)

    def answer():
        before = COMPILATION.kernels
        return importlib.import_module("stepping").next_of(1), COMPILATION.kernels - before

    assert in_processes(1, answer) == [(2, 1)]
    (table,) = (tmp_path / "__pycache__").glob("*.nbi")
    table.write_bytes(b"\x8c\x02\xff\xff.")  # not valid UTF-8
    assert [in_processes(1, answer) for _ in range(2)] == [[(2, 1)], [(2, 0)]]


def test_a_process_that_is_killed_leaves_its_claim_to_others(module):
    def killed():
        module.outer.compiled._cache._claim()
        os.kill(os.getpid(), signal.SIGKILL)

    process = FORK.Process(target=killed)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert compilations(module) == 2


def test_what_could_not_be_compiled_is_left_to_others(module):
    def refused():
        with pytest.raises(Exception, match="nothing"):
            module.wrong(3)
        return compiled_once._HELD

    assert in_processes(2, refused) == [{}, {}]


def test_who_holds_a_claim_for_too_long_is_not_waited_for(module, monkeypatch):
    monkeypatch.setattr(compiled_once, "CLAIMING", compiled_once.CLAIMING._replace(patience=0.05))
    cache = module.outer.compiled._cache
    cache._claim()
    assert in_processes(1, lambda: compilations(module)) == [2]
    written = list(Path(cache.cache_path).glob("fresh.*.nbi"))
    assert [path.name.split("-")[0] for path in written] == ["fresh.inner"]  # the other may still write
    cache.release()


def test_where_there_can_be_no_file_of_claims_each_compiles_for_itself(module, monkeypatch):
    monkeypatch.setattr(compiled_once, "CLAIMS", "missing/kernels.lock")
    assert compilations(module) == 2


def test_where_nothing_can_be_locked_each_compiles_for_itself(module, monkeypatch):
    def refused(*arguments):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(compiled_once.fcntl, "lockf", refused)
    assert compilations(module) == 2


def test_without_a_folder_to_write_to_kernels_are_compiled_and_not_kept(module, monkeypatch):
    def nowhere(*_):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(compiled_once, "CompiledOnce", nowhere)
    assert compilations(module) == 2
