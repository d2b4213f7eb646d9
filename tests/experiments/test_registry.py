"""The registry: every method under one name, and the command line's way to find it."""

import subprocess
import sys

import pytest

from experiments.registry import METHODS, by_name, find_method
from topologies import InputError


def test_methods_keep_their_order_and_names():
    assert list(by_name([METHODS["ring"], METHODS["bfb"]])) == ["ring", "bfb"]
    assert all(name == method.name for name, method in METHODS.items())


def test_two_methods_of_one_name_are_refused():
    with pytest.raises(InputError, match=r"^two methods are named 'ring'; each needs a name of its own$"):
        by_name([METHODS["ring"], METHODS["bfb"], METHODS["ring"]])


def test_an_unknown_method_is_answered_with_one_alike():
    assert find_method("ring") is METHODS["ring"]
    with pytest.raises(InputError, match=r"unknown method 'rings'.*ring"):
        find_method("rings")


def test_the_declarations_of_all_methods_import_no_solver_and_no_compiler():
    """`tutti list` and each worker read the registry first; Pyomo alone would take longer than the rest."""
    heavy = ["pyomo", "highspy", "ortools", "gurobipy", "numba", "scipy", "pandas", "networkx"]
    code = f"import sys, experiments.registry; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
