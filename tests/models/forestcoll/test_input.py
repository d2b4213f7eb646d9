"""Inputs that ForestColl refuses: one line names the fault and what is allowed, in Python and commands."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from tests.sweep import for_each
from tests.topologies.eulerian import random_eulerian, worst_ratio
from tutti.experiments.cli import main
from tutti.experiments.registry import METHODS
from tutti.experiments.runner.config import read_config
from tutti.experiments.runner.plan import make_plan
from tutti.experiments.runner.study import Workplace, perform
from tutti.models.bounds.bottleneck_cut import bottleneck_cut, node_cut
from tutti.models.forestcoll import METHOD, ForestcollOptions
from tutti.models.forestcoll.fixed_k import fixed_k_ratio
from tutti.schedules import Problem, collective
from tutti.schedules.cost import congestion
from tutti.schedules.verify import verify
from tutti.topologies import InputError, Link, NoSchedule, Topology, Unsupported
from tutti.topologies.files import write_topology

GB = 10**9


@pytest.fixture
def tutti(capsys):
    """Run a command; return its exit code and standard error, which is one line if it failed."""

    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        err = capsys.readouterr().err
        assert code == 0 or err.count("\n") == 1
        return code, err

    return call


def synth(file, *more):
    return ("synth", file, "--method", "forestcoll", "--size", "1MB", *more)


def make(topology, what=None, **options):
    problem = Problem(topology, what or collective("allgather", topology.num_ranks))
    chosen = ForestcollOptions(**options)
    METHOD.supports(problem, chosen)
    schedule = METHOD.synthesize(problem, chosen, np.random.default_rng(0))
    verify(schedule)
    return schedule


def path(near, far, name="crooked"):
    """Three ranks in a row, with these bandwidths."""
    links = [Link(0, 1, near), Link(1, 0, near), Link(1, 2, far), Link(2, 1, far)]
    return Topology.from_links(name, 3, links)


def lopsided_star():
    """The switch receives 6 GB/s and sends 5: rank c receives less than it sends."""
    links = [Link(rank, 3, Fraction(2 * GB)) for rank in range(3)]
    links += [Link(3, rank, Fraction(b * GB)) for rank, b in enumerate((2, 2, 1))]
    return Topology.from_links("lopsided", 3, links, labels=["a", "b", "c", "leaf"], num_switches=1)


def test_a_switch_that_is_not_balanced_is_named_with_its_totals(tutti, tmp_path):
    topology = lopsided_star()
    words = "as they take in; node leaf of {} has 6GB/s in and 5GB/s out"
    with pytest.raises(Unsupported, match=words.format("lopsided")):
        make(topology)
    file = tmp_path / "star.json"
    write_topology(topology, file)
    code, err = tutti(*synth(file))
    assert code == 3
    assert words.format(file) in err
    assert tutti("bound", file)[0] == 0  # what no schedule beats is known all the same


def test_too_many_trees_for_the_optimum_suggests_a_number_that_works(tutti, tmp_path):
    topology = path(Fraction(GB + 7), Fraction(GB))
    words = (
        "the optimum needs 500000000 trees at a root, at most 1000000 are allowed; fix the number of trees"
    )
    with pytest.raises(NoSchedule, match=f"^trees of crooked: {words} "):
        make(topology)
    file = tmp_path / "crooked.json"
    write_topology(topology, file)
    code, err = tutti(*synth(file))
    assert code == 3
    assert f"trees of {file}: {words} (--option trees=4)" in err
    assert tutti(*synth(file, "--option", "trees=4"))[0] == 0
    assert make(topology, trees=4).stats["trees"] == 4


def test_in_a_run_too_many_trees_are_an_infeasible_row_and_no_fault(tmp_path):
    write_topology(path(Fraction(GB + 7), Fraction(GB)), tmp_path / "crooked.json")
    config = tmp_path / "x.toml"
    config.write_text(
        f'name = "x"\n[[topology]]\nspec = "{tmp_path / "crooked.json"}"\n'
        '[[collective]]\nkind = "allgather"\nsizes = ["1MB"]\n[[method]]\nname = "forestcoll"\n'
    )
    (task,) = make_plan(read_config(config), METHODS)
    outcome = perform(task, Workplace(METHODS))
    assert outcome.status == outcome.rows[0]["status"] == "infeasible"
    assert "at most 1000000 are allowed; fix the number of trees" in outcome.rows[0]["message"]


# Bandwidths that fit 64 bits, though not the flows of the bottleneck cut.
CLOSE = (Fraction(2**60 - 1, 2**10), Fraction(2**60 - 3, 2**10))


def test_bandwidths_too_close_for_an_exact_cut_suggest_a_fixed_number_of_trees(tutti, tmp_path):
    topology = path(*CLOSE)
    what = collective("allgather", 3, shards=[31, 17, 11])
    words = r"does not fit 64 bits \(at most 9223372036854775807\); give them a larger common divisor, or"
    with pytest.raises(NoSchedule, match=f"^bottleneck cut of crooked: .* {words} ForestColl a fixed number"):
        make(topology, what)
    file = tmp_path / "close.json"
    write_topology(topology, file)
    code, err = tutti(*synth(file, "--shards", "31,17,11"))
    assert code == 3
    assert f"bottleneck cut of {file}: " in err
    assert "--option trees=4" in err
    assert tutti(*synth(file, "--shards", "31,17,11", "--option", "trees=4"))[0] == 0
    assert tutti("bound", file, "--shards", "31,17,11")[0] == 0


def test_a_fixed_number_of_trees_needs_no_exact_cut():
    """Its congestion is within Theorem 35 of the node cut here, where rank 2 is the bottleneck."""
    topology = path(*CLOSE)
    weights = [31, 17, 11]
    schedule = make(topology, collective("allgather", 3, shards=weights), trees=4)
    ratio = congestion(schedule) * sum(weights)
    assert node_cut(topology, weights).ratio == Fraction(48) / CLOSE[1]
    assert Fraction(48) / CLOSE[1] <= ratio <= Fraction(48) / CLOSE[1] + 1 / (4 * CLOSE[1])
    assert ratio == fixed_k_ratio(topology, 4, weights)


def test_the_node_cut_is_the_worst_around_one_rank():
    for seed in range(60):
        topology = random_eulerian(seed)
        others = topology.num_ranks - 1
        cut = node_cut(topology)
        assert cut.ratio == max(others / topology.ingress[rank] for rank in range(topology.num_ranks))
        assert cut.ratio <= bottleneck_cut(topology).ratio == worst_ratio(topology)


def test_bandwidths_that_no_array_of_64_bits_holds_are_refused(tutti, tmp_path):
    far = (Fraction(10**18 + 1, 10**9 + 7), Fraction(GB, 10**9 + 9))
    with pytest.raises(
        InputError,
        match=r"^topology crooked: bandwidth: values too far apart: over their common denominator they "
        r"do not fit 64 bits; give them a larger common divisor$",
    ):
        path(*far)
    file = tmp_path / "far.json"
    edges = [
        {
            "source": a,
            "target": b,
            "bandwidth": f"{bandwidth.numerator}/{bandwidth.denominator}B/s",
            "alpha": 0,
        }
        for (a, b), bandwidth in zip([(0, 1), (1, 0), (1, 2), (2, 1)], np.repeat(far, 2), strict=True)
    ]
    nodes = [{"id": rank, "kind": "compute"} for rank in range(3)]
    file.write_text(json.dumps({"directed": True, "multigraph": True, "nodes": nodes, "edges": edges}))
    for command in (synth(file), ("bound", file)):
        code, err = tutti(*command)
        assert code == 2
        assert f"{file}: " in err
        assert "do not fit 64 bits" in err


def test_bandwidths_of_a_family_that_are_too_far_apart_are_refused(tutti):
    text = "mesh:3x3?bandwidth=1000000000000000001/1000000007B/s,1/1000000009B/s"
    for command in (synth(text), ("bound", text)):
        code, err = tutti(*command)
        assert code == 2
        assert f"{text}'" in err
        assert "too far apart; each must fit 64 bits over their common denominator" in err


@for_each("what", ["bandwidth", "alpha"])
@for_each("value", [math.nan, math.inf, -math.inf, None, "50GB/s"])
def test_a_bandwidth_that_is_no_finite_number_names_the_link(value, what):
    links = [Link(0, 1), Link(1, 0, **{what: value})]
    with pytest.raises(InputError, match=f"^topology pair: {what} of link b->a is .*; it must be a finite"):
        Topology.from_links("pair", 2, links, labels=["a", "b"])


@pytest.mark.parametrize(("value", "word"), [("NaN", "NaN"), ("Infinity", "Infinity"), ('"nan"', "nan")])
def test_a_file_with_such_a_bandwidth_is_refused(tutti, tmp_path, value, word):
    nodes = '[{"id": 0, "kind": "compute"}, {"id": 1, "kind": "compute"}]'
    edges = f'[{{"source": 0, "target": 1, "bandwidth": {value}, "alpha": "1us"}}]'
    file = tmp_path / "odd.json"
    file.write_text(f'{{"directed": false, "multigraph": false, "nodes": {nodes}, "edges": {edges}}}')
    for command in (synth(file), ("bound", file)):
        code, err = tutti(*command)
        assert code == 2
        assert str(file) in err
        assert word in err


def test_a_rank_that_cannot_be_reached_is_named(tutti, tmp_path):
    with pytest.raises(InputError, match=r"^topology cut off .* rank 0 can't reach 2$"):
        Topology.from_links("cut off", 3, [Link(0, 1), Link(1, 0), Link(2, 0)])
    nodes = [{"id": name, "kind": "compute"} for name in ("x", "y", "z")]
    ends = [("x", "y"), ("y", "x"), ("x", "z")]
    edges = [{"source": a, "target": b, "bandwidth": "1GB/s", "alpha": "1us"} for a, b in ends]
    file = tmp_path / "sink.json"
    file.write_text(json.dumps({"directed": True, "multigraph": True, "nodes": nodes, "edges": edges}))
    for command in (synth(file), ("bound", file)):
        code, err = tutti(*command)
        assert code == 2
        assert "not strongly connected: rank x can't be reached from z" in err


@pytest.mark.parametrize("k", ["0", "-2", "1.5"])
def test_fewer_than_one_tree_or_parts_of_one_are_refused(tutti, k):
    code, err = tutti(*synth("ring:4", "--option", f"trees={k}"))
    assert code == 2
    assert "trees" in err
    assert k in err


@pytest.mark.parametrize("root", [16, 18, -1, 1.5])
def test_a_root_that_is_no_rank_is_refused(root):
    """Nodes 16 to 18 of two DGX A100 boxes are switches."""
    with pytest.raises(InputError, match=f"^broadcast: root {root}; allowed: 0..15$"):
        collective("broadcast", 16, root=root)


def test_a_switch_as_root_is_refused(tutti):
    for command in (synth("dgx_a100:2"), ("bound", "dgx_a100:2")):
        code, err = tutti(*command, "--collective", "broadcast", "--root", 16)
        assert (code, err) == (2, "tutti: broadcast: root 16; allowed: 0..15\n")


def test_a_switch_in_a_group_is_refused(tutti):
    code, err = tutti(*synth("dgx_a100:2"), "--groups", "0,1,16")
    assert (code, err) == (2, "tutti: allgather: rank 16 in group 0; ranks are 0..15\n")
