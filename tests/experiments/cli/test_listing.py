"""``tutti list``: networks, methods and what they need."""

import json

import pytest

from tutti.schedules.collective import KINDS


@pytest.mark.parametrize(
    ("what", "name"),
    [("methods", "bfb"), ("topologies", "torus"), ("topologies", "nccl"), ("solvers", "highs")],
)
def test_lists_have_a_document_each(tutti, what, name):
    code, out, _ = tutti("list", what, "--json")
    assert code == 0
    assert name in [json.loads(line)["name"] for line in out.splitlines()]
    assert name in tutti("list", what)[1]


def test_the_list_of_methods_says_what_each_does_and_needs(tutti):
    lines = tutti("list", "methods", "--json")[1].splitlines()
    found = {method["name"]: method for method in map(json.loads, lines)}
    assert set(found["direct"]["collectives"]) == set(KINDS)
    assert found["direct"]["networks"] == ["any"]
    assert found["rhd"]["networks"] == ["needs a power of two ranks"]
    assert found["bfb"]["collectives"] == ["allgather", "reduce-scatter", "allreduce"]
    assert found["bfb"]["networks"] == ["needs no switches"]


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("torus_rings", ["a torus or mesh"]),
        ("swing", ["a torus whose sides are powers of two"]),
        ("shifted_ring", ["a circulant network, links i to i ± a for all i"]),
        ("ccube", ["8 ranks without switches with two disjoint binary trees, as dgx1 is"]),
        ("tto", ["a 2D mesh of at least 3x3"]),
        ("min_latency", ["at most 256 ranks, 1024 if equivalent"]),
        ("expansion", ["a network in the papers' notation, such as L(C(16,{3,4}))"]),
        (
            "allreduce_trees",
            ["a network with switches to be Eulerian", "bidirectional links that join all ranks"],
        ),
    ],
)
def test_what_a_method_needs_is_listed(tutti, name, needs):
    """A method that takes some networks only says in words which."""
    lines = tutti("list", "methods", "--json")[1].splitlines()
    found = {method["name"]: method for method in map(json.loads, lines)}
    assert found[name]["networks"] == [f"needs {need}" for need in needs]


def test_which_data_a_method_moves_is_listed(tutti):
    lines = tutti("list", "methods", "--json")[1].splitlines()
    found = {method["name"]: method["data"] for method in map(json.loads, lines)}
    assert found["ring"] == ["all ranks", "uneven shards"]
    assert found["bfb"] == ["all ranks", "equal shards"]
    assert found["forestcoll"] == ["one group, of all ranks or some", "uneven shards"]
    assert found["direct"] == ["any groups", "uneven shards"]
    assert found["tacos"] == ["any groups", "uneven shards", "several kinds at once"]


def test_a_list_leaves_columns_out_where_the_screen_is_too_narrow_for_their_words(tutti, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, err = tutti("list", "methods")
    assert max(map(len, out.splitlines())) <= 80
    assert {"shortest_path_all_to_all", "reduce-scatter,"} <= {*out.split()}
    assert "options" not in out.split()
    assert "a wider screen also shows networks, data, exact_for, kind, options, seeded; --json" in err
    monkeypatch.setenv("COLUMNS", "400")
    _, out, err = tutti("list", "methods")
    assert "options" in out.split()
    assert not err


def test_a_list_of_nothing_says_the_choices(tutti):
    code, out, _ = tutti("list")
    assert code == 0
    assert "methods|topologies|solvers" in out


@pytest.mark.parametrize(("kind", "network"), [("gather", "dgx_a100:2"), ("allreduce", "torus:4x4")])
def test_methods_that_a_list_for_a_network_leaves_out_refuse_it(tutti, kind, network):
    def names(*options):
        lines = tutti("list", "methods", "--json", *options)[1].splitlines()
        return {json.loads(line)["name"] for line in lines}

    every, listed = names(), names("--collective", kind, "--network", network)
    assert names("--collective", kind) > listed
    assert "direct" in listed
    left_out = every - listed
    assert "tto" in left_out
    for name in left_out:
        code, _, err = tutti("synth", network, "--collective", kind, "--method", name, "--size", "1MB")
        assert (code, err.count("\n")) == (3, 1), name


def test_a_list_of_the_methods_for_a_collective_is_of_those_that_declare_it(tutti):
    found = map(json.loads, tutti("list", "methods", "--json")[1].splitlines())
    able = [method["name"] for method in found if "all-to-all" in method["collectives"]]
    lines = tutti("list", "methods", "--json", "--collective", "all-to-all")[1].splitlines()
    assert [json.loads(line)["name"] for line in lines] == able


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["solvers", "--network", "ring:4"], "--network goes with tutti list methods, not solvers"),
        (["methods", "--collective", "allrdce"], "did you mean 'allreduce'?"),
        (["methods", "--network", "rng:4"], "did you mean 'ring'?"),
    ],
)
def test_what_does_not_choose_among_methods_is_one_line(tutti, arguments, message):
    code, out, err = tutti("list", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
