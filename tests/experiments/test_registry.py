"""The registry: every method under one name, and the command line's way to find it."""

import subprocess
import sys

import pytest

from tutti.experiments.old_names import NAMES
from tutti.experiments.registry import METHODS, find_method
from tutti.experiments.runner.config import read_config
from tutti.experiments.runner.plan import make_plan
from tutti.schedules import Problem, collective
from tutti.topologies import InputError
from tutti.topologies.options import build_options
from tutti.topologies.text import parse_topology


def test_every_method_has_the_name_that_it_is_found_by():
    assert all(name == method.name for name, method in METHODS.items())


def test_one_method_is_found_without_importing_the_others():
    code = (
        "import sys; from tutti.experiments.registry import METHODS\n"
        "assert 'bfb' in METHODS; METHODS['ring']\n"
        "makers = ['tutti.heuristics.classic.ring', 'tutti.heuristics.tacos', 'tutti.models.bfb']\n"
        "print(*(name for name in makers if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "tutti.heuristics.classic.ring\n"


def test_an_unknown_method_is_answered_with_one_alike():
    assert find_method("ring").alone is METHODS["ring"]
    with pytest.raises(InputError, match=r"unknown method 'rings'.*ring"):
        find_method("rings")


def test_the_declarations_of_all_methods_import_no_solver_and_no_compiler():
    """`tutti list` reads them all; Pyomo alone would take longer than the rest."""
    heavy = ["pyomo", "highspy", "ortools", "gurobipy", "numba", "scipy", "pandas", "networkx"]
    code = (
        "import sys; from tutti.experiments.registry import METHODS; list(METHODS.values()); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_exact_method_says_in_what_it_is_optimal_and_no_other_does():
    said = {name: method.exactness(method.options()) for name, method in METHODS.items()}
    assert {name for name, text in said.items() if text} == {
        name for name, method in METHODS.items() if method.kind == "exact"
    }


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("optimum", {"chunks": 2, "cut_through": True}, "2 chunks a shard"),
        ("optimum", {}, "1 chunk a shard, link by link"),
        ("sccl", {"chunks": 3}, "rounds of 3 chunks a shard"),
        ("teccl", {"window": 4}, "1 chunk a shard in whole epochs, each window by itself"),
        ("mcf", {}, "bytes"),
        ("forestcoll", {"trees": 1}, "bytes over 1 tree a root (of an allreduce, in each half)"),
        (
            "allreduce_trees",
            {"epsilon": "1/100"},
            "bytes within 0.01, without switches and with links equal in both directions",
        ),
        ("tacos", {}, ""),
    ],
)
def test_what_an_exact_method_is_exact_for_follows_its_options(name, options, said):
    method = METHODS[name]
    assert method.exactness(build_options(method, options)) == said


def test_what_is_put_together_of_exact_parts_is_not_exact():
    """Two groups of two, each on its own half of a ring: either is exact, and both together need not be."""
    method, ring = find_method("bfb"), parse_topology("ring:4")
    one, two = collective("allgather", 4), collective("allgather", 4, groups=[[0, 1], [2, 3]])
    told = [method.exactness(method.options(), Problem(ring, what)) for what in (one, two)]
    assert told == [METHODS["bfb"].exact_for, ""]


def test_a_removed_method_names_the_one_to_use(tmp_path):
    """A config, a command and an option that ask for it get one line; what it made before can be reported."""
    line = "method 'postal' was removed in version 0.2; use 'min_latency'"
    with pytest.raises(InputError, match=f"^{line}$"):
        find_method("postal")
    with pytest.raises(InputError, match=f"^local_search option base_methods: {line}$"):
        METHODS["local_search"].options(base_methods=["postal"]).chosen(METHODS)
    config = tmp_path / "old.toml"
    config.write_text(
        'name = "old"\n[[topology]]\nspec = "ring:3"\n[[collective]]\nkind = "allgather"\n'
        'sizes = ["1KB"]\n[[method]]\nname = "postal"\n'
    )
    with pytest.raises(InputError, match=rf"\[\[method\]\] 1: {line}$"):
        make_plan(read_config(config), METHODS)


def test_every_replacement_of_a_removed_method_is_there():
    assert all(name not in METHODS and instead in METHODS for name, (_, instead) in NAMES["removed"].items())
