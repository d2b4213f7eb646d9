"""The registry: every method under one name, and the command line's way to find it."""

import subprocess
import sys

import pytest

from experiments.registry import METHODS, find_method
from topologies import InputError


def test_every_method_has_the_name_that_it_is_found_by():
    assert all(name == method.name for name, method in METHODS.items())


def test_one_method_is_found_without_importing_the_others():
    code = (
        "import sys; from experiments.registry import METHODS; assert 'bfb' in METHODS; METHODS['ring']; "
        "print(*sorted({'heuristics.classic.ring', 'heuristics.tacos', 'models.bfb'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "heuristics.classic.ring\n"


def test_an_unknown_method_is_answered_with_one_alike():
    assert find_method("ring").alone is METHODS["ring"]
    with pytest.raises(InputError, match=r"unknown method 'rings'.*ring"):
        find_method("rings")


def test_the_declarations_of_all_methods_import_no_solver_and_no_compiler():
    """`tutti list` reads them all; Pyomo alone would take longer than the rest."""
    heavy = ["pyomo", "highspy", "ortools", "gurobipy", "numba", "scipy", "pandas", "networkx"]
    code = (
        "import sys; from experiments.registry import METHODS; list(METHODS.values()); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
