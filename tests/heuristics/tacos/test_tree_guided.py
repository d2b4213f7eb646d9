"""TACOS guided by trees: the least load by brute force over cuts, gaps at 1 GB, every collective it does."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from heuristics.tacos import tree_guided
from heuristics.tacos.options import Tuning
from heuristics.tacos.tree_guided import (
    Unwinding,
    least_time,
    links_of_trees,
    parents_of,
    routed_trees,
    spanning_forest,
    unwindings,
)
from models.bounds import best_bound
from schedules import Problem, collective
from schedules.retiming import ends
from schedules.schedule import Chunks
from schedules.simulation.simulate import simulate
from schedules.verify import verify
from tests.heuristics.tacos.synthesis import GB, tacos
from tests.sweep import for_each
from topologies import Link, Topology, Unsupported
from topologies.text import parse_topology

SWITCHED = {
    "dgx1": 24,
    "dragonfly:4x5?bandwidth=400GB/s,200GB/s": 8,
    "switch2d:8x4?bandwidth=300GB/s,25GB/s": 12,
    "rfs:2x4x2?bandwidth=200GB/s,100GB/s,50GB/s": 24,
    "rfs:2x4x4?bandwidth=200GB/s,100GB/s,50GB/s": 12,
}


def random_network(rng):
    """A ring and some links more, the links of unlike bandwidths."""
    ranks = int(rng.integers(3, 6))
    pairs = [(i, (i + 1) % ranks) for i in range(ranks)]
    pairs += [tuple(rng.permutation(ranks)[:2].tolist()) for _ in range(int(rng.integers(0, 6)))]
    return Topology.from_links("random", ranks, [Link(a, b, Fraction(GB)) for a, b in pairs])


def fits(topology, trees, capacity):
    """Edmonds: every set of ranks but all lets out a unit for each tree that starts in it."""
    ranks = range(topology.num_ranks)
    for count in range(1, topology.num_ranks):
        for inside in combinations(ranks, count):
            leaves = np.isin(topology.source, inside) & ~np.isin(topology.target, inside)
            if capacity[leaves].sum() < trees[list(inside)].sum():
                return False
    return True


def test_the_least_time_is_that_of_the_tightest_cut():
    for seed in range(15):
        rng = np.random.default_rng(seed)
        topology = random_network(rng)
        trees = rng.integers(0, 4, topology.num_ranks)
        trees[0] += 1
        cost = rng.choice([2, 3, 7], topology.num_links)
        time, capacity = least_time(topology, trees, cost)
        assert capacity.tolist() == (time // cost).tolist(), seed
        assert next(t for t in range(10**4) if fits(topology, trees, t // cost)) == time, seed


@for_each("seed", range(10))
def test_trees_span_from_their_roots_within_the_capacities(seed):
    rng = np.random.default_rng(seed)
    topology = random_network(rng)
    start = np.repeat(np.arange(topology.num_ranks), 2)
    trees = np.bincount(start)
    _, capacity = least_time(topology, trees, rng.choice([2, 3, 7], topology.num_links))
    parent = parents_of(spanning_forest(topology, trees, capacity), start)
    link = links_of_trees(parent, topology, capacity)
    assert (np.bincount(link[link >= 0], minlength=topology.num_links) <= capacity).all()
    for root, row, over in zip(start, parent, link, strict=True):
        assert row[root] == -1
        for rank in range(topology.num_ranks):
            if rank != root:
                assert (topology.source[over[rank]], topology.target[over[rank]]) == (row[rank], rank)
            for _ in range(topology.num_ranks):
                rank = row[rank] if row[rank] >= 0 else rank
            assert rank == root


def test_roots_may_have_unlike_numbers_of_trees():
    topology = parse_topology("mesh:2x3")
    start = np.array([0, 0, 0, 5, 2])
    trees = np.bincount(start, minlength=6)
    _, capacity = least_time(topology, trees, np.full(topology.num_links, 5))
    parent = parents_of(spanning_forest(topology, trees, capacity), start)
    assert [int(np.flatnonzero(row < 0)[0]) for row in parent] == start.tolist()


@pytest.mark.parametrize("text", SWITCHED)
def test_uneven_networks_are_within_five_percent_at_a_gigabyte(text):
    # Issue's aim: at least 95 % of the proven bound.
    made = tacos(text, chunks=SWITCHED[text], degree=1 if "switch" in text or "rfs" in text else None)
    verify(made)
    bound = best_bound(made.topology, made.collective, GB).time(GB)
    assert float(bound) / simulate(made, GB).time >= 0.95


@for_each("text", ["switch2d:3x2", "rfs:2x2x3", "mesh:2x3?bandwidth=25GB/s,100GB/s", "dgx_a100:1"])
@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce", "broadcast", "reduce"])
def test_every_collective_that_has_trees_is_legal(text, kind):
    made = tacos(text, kind, size=10**6, chunks=2, guide="trees")
    verify(made)


@pytest.mark.parametrize("text", ["switch2d:3x3", "rfs:2x2x3", "mesh:3x3?bandwidth=25GB/s,100GB/s"])
def test_auto_is_the_better_of_both(text):
    both = {
        guide: simulate(tacos(text, chunks=3, guide=guide), GB).time for guide in ("nothing", "trees", "auto")
    }
    assert both["auto"] == min(both["nothing"], both["trees"])


def test_no_chunk_enters_a_box_twice():
    # 4 boxes of 4: what crosses the slow links of a box is what the others own, once each, and no less.
    topology = parse_topology("switch2d:4x4?bandwidth=300GB/s,25GB/s")
    what = collective("allgather", 16)
    chunks = Chunks.even(what, 4)
    start = np.repeat(np.arange(16), 4)
    blank, network, cost = next(unwindings(Problem(topology, what, Fraction(GB)), chunks, Fraction(GB), 1))
    made = routed_trees(Unwinding(blank, network, *least_time(network, np.bincount(start), cost)), start)
    box = topology.hosts[:16]
    crossing = (made.parent >= 0) & (box[np.maximum(made.parent, 0)] != box[None, :])
    for inside in range(4):
        assert (crossing[:, box == inside].sum(axis=1) == (box[start] != inside)).all()


def test_what_does_not_go_to_all_ranks_has_no_trees():
    with pytest.raises(Unsupported, match="guide 'trees' does what goes to or comes from all ranks"):
        tacos("ring:4", "all-to-all", guide="trees")


@pytest.mark.parametrize("text", ["switch2d:8x2", "switch2d:4x3"])
def test_of_many_unwindings_two_are_looked_at_closely(monkeypatch, text):
    """One placement each is enough to leave out the others: the end is the same."""
    close = ends(tacos(text, guide="trees"))
    efforts = []
    original = tree_guided.placed
    monkeypatch.setattr(tree_guided, "TUNING", Tuning(few_placed=0))
    monkeypatch.setattr(
        tree_guided,
        "placed",
        lambda blank, made, effort: efforts.append(effort) or original(blank, made, effort),
    )
    assert ends(tacos(text, guide="trees")) == close
    assert efforts.count(tree_guided.ROUGH) <= 2 < efforts.count(tree_guided.ONCE)
