"""Schedules that would not fit are refused before anything is built, in one line."""

from fractions import Fraction

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.heuristics.classic.steps import MOST_ROWS
from tutti.heuristics.trees.pipelined_trees import best_slices
from tutti.schedules import Problem, collective
from tutti.topologies import NoSchedule, Unsupported
from tutti.topologies.text import parse_topology


def test_routes_of_one_link_each_are_links_and_need_no_table():
    problem = Problem(parse_topology("ring:6"), collective("allgather", 6))
    made = METHODS["ring"].synthesize(problem, METHODS["ring"].options(), np.random.default_rng(0))
    assert made.routes is None
    assert sorted(set(made.route.tolist())) == list(range(12))


NO_COMMON_DIVISOR = "mesh:2x4?bandwidth=1GiB/s,123456789B/s"


@for_each(
    ("name", "text", "kind", "options", "rows"),
    [
        # by hand: 2 halves, each shard's parts to N - 1 ranks
        ("ring", "ring:8192", "allreduce", {}, 2 * 2 * 8192 * 8191),
        ("ring", "ring:16384", "allgather", {"one_way": True}, 16384 * 16383),
        ("direct", "ring:16384", "all-to-all", {}, 16384 * 16383),
        ("direct", "ring:8192", "allreduce", {}, 2 * 8192 * 8191),
        ("rhd", "hypercube:14", "allgather", {}, 16384 * 16383),
        ("torus_rings", "torus:64x128", "allgather", {}, 4 * 8192 * 8191),
        ("shifted_ring", "circulant:8192,1,3", "allgather", {}, 4 * 8192 * 8191),
        ("themis", "torus:4x4", "allgather", {"chunks": 10**9}, 2 * 10**9 * 16 * 15),
        ("blueconnect", "mesh:4x4", "allreduce", {"chunks": 10**9}, 2 * 10**9 * 16 * 15),
        ("nccl_like", "ring:8192", "allgather", {}, 2 * 8192 * 8191),
        # every shard to a partner in each of log2 N steps
        ("recursive_doubling", "hypercube:12", "allreduce", {}, 12 * 4096**2),
        ("swing", "torus:64x64", "allreduce", {"version": "latency"}, 4 * 12 * 4096**2),
        ("swing", "torus:64x128", "allgather", {}, 4 * 8192 * 8191),
        # every rank to every other, moved once for each one in their distance: half of 12 on average
        ("bruck", "hypercube:12", "all-to-all", {}, 4096 * 4096 * 6),
        # N parts of M, up and down a tree of N - 1 edges
        ("dbt", "ring:8192", "allreduce", {}, 2 * 8191 * 8192),
        ("tto", "mesh:128x128", "allreduce", {}, 2 * 16383 * 16384),
    ],
)
def test_a_schedule_of_too_many_transfers_is_unsupported(name, text, kind, options, rows):
    topology, method = parse_topology(text), METHODS[name]
    problem = Problem(topology, collective(kind, topology.num_ranks), Fraction(10**6))
    with pytest.raises(Unsupported, match=f"{name} makes at most {MOST_ROWS} transfers; .* would be {rows}$"):
        method.supports(problem, method.options(**options))


@pytest.mark.parametrize(
    ("name", "kind", "options"),
    [
        ("ring", "allreduce", {}),
        ("ring", "allgather", {"one_way": True}),
        ("bruck", "all-to-all", {}),
        ("recursive_doubling", "allreduce", {}),
        ("swing", "allreduce", {"version": "latency"}),
        ("swing", "reduce-scatter", {}),
        ("torus_rings", "allreduce", {}),
        ("themis", "allreduce", {"chunks": 3}),
        ("dbt", "allreduce", {"slices": 8}),
    ],
)
def test_a_schedule_of_one_transfer_too_many_is_unsupported(monkeypatch, name, kind, options):
    topology, method = parse_topology("torus:4x4"), METHODS[name]
    problem, chosen = Problem(topology, collective(kind, 16), Fraction(10**6)), method.options(**options)
    rows = len(method.synthesize(problem, chosen, np.random.default_rng(0)))
    monkeypatch.setattr("tutti.heuristics.classic.steps.MOST_ROWS", rows - 1)
    with pytest.raises(Unsupported, match=f"{name} makes at most {rows - 1} transfers"):
        method.supports(problem, chosen)


def test_slices_are_chosen_by_simulations_of_a_limited_size(monkeypatch):
    topology = parse_topology("ring:8")
    problem = Problem(topology, collective("broadcast", 8, root=0), Fraction(10**9))
    chain = np.array([[-1, 0, 1, 2, 3, 4, 5, 6]], dtype=np.int32)
    assert best_slices(problem, chain) > 4
    monkeypatch.setattr("tutti.heuristics.trees.pipelined_trees.MOST_TRIED", 4 * 8)
    assert best_slices(problem, chain) == 4


def test_blink_says_that_bandwidths_without_a_common_divisor_need_too_many_trees():
    topology = parse_topology(NO_COMMON_DIVISOR)
    problem = Problem(topology, collective("allreduce", 8), Fraction(10**6))
    with pytest.raises(NoSchedule, match=r"^blink: trees of .* at most 1000000 are allowed; give bandwidths"):
        METHODS["blink"].synthesize(problem, METHODS["blink"].options(), np.random.default_rng(0))
