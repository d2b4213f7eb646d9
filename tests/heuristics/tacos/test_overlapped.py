"""Allreduce that reduces and broadcasts at once: even trees, exact congestion, the gap to the bound."""

from fractions import Fraction
from functools import partial

import networkx as nx
import numpy as np
import pytest

from heuristics.tacos import overlapped as module
from heuristics.tacos.options import Tuning
from heuristics.tacos.overlapped import edges_of, grown, hung, joined
from models.bounds import best_bound
from schedules.cost import congestion
from schedules.retiming import ends
from schedules.simulation.simulate import simulate
from schedules.verify import verify
from tests.heuristics.tacos import synthesis
from tests.heuristics.tacos.synthesis import GB
from topologies import Link, Topology, Unsupported
from topologies.text import parse_topology

tacos = partial(synthesis.tacos, kind="allreduce")


def trees_on(text, count, hop=0.25, sweeps=3):
    topology = parse_topology(text)
    edges = edges_of(topology)
    root = (np.arange(count) % topology.num_ranks).astype(np.int32)
    cost = np.ones(edges.ends.shape[1])
    return edges, grown(edges, cost, root, hop, sweeps, np.array([7], np.uint64))


@pytest.mark.parametrize("text", ["ring:6", "mesh:3x4", "torus:3x3", "hypercube:3"])
def test_every_tree_spans_and_hangs_from_its_middle(text):
    edges, trees = trees_on(text, 12)
    for tree in trees:
        graph = nx.Graph([tuple(edges.ends[:, edge].tolist()) for edge in tree])
        assert nx.is_tree(graph)
        assert len(graph) == len(edges.first) - 1
        parent, side = hung(edges, tree)
        root = int(np.flatnonzero(parent < 0)[0])
        depth = nx.single_source_shortest_path_length(graph, root)
        assert max(depth.values()) == nx.radius(graph)
        for node in set(graph) - {root}:
            edge, end = divmod(int(side[node]), 2)
            assert edges.ends[end, edge] == parent[node]
            assert edges.ends[1 - end, edge] == node


@pytest.mark.parametrize("text", ["ring:6", "mesh:4x4", "mesh:3x3x3", "torus:4x4", "hypercube:4"])
def test_the_load_is_even_to_within_one_tree(text):
    # trees x (N - 1) edges over all edges: no spanning trees have less.
    edges, trees = trees_on(text, 60)
    load = np.bincount(trees.ravel(), minlength=edges.ends.shape[1])
    assert load.max() <= -(-trees.size // len(load)) + 1


@pytest.mark.parametrize(
    "text", ["ring:5", "mesh:3x4", "torus:3x4", "mesh:3x3?bandwidth=25GB/s,100GB/s", "dgx1"]
)
def test_the_congestion_is_near_the_bound_and_not_below(text):
    made = tacos(text, chunks=12, allreduce="overlapped")
    verify(made)
    bound = best_bound(made.topology, made.collective)
    exact = congestion(made)
    assert bound.time(1) <= exact <= bound.time(1) * Fraction(106, 100)


@pytest.mark.parametrize(
    ("text", "chunks"), [("dgx1", 12), ("hypercube:3", 3), ("mesh:4x4", 3), ("mesh:3x3", 4), ("torus:3x3", 2)]
)
def test_the_congestion_is_the_partition_bound_exactly(text, chunks):
    # As many trees as make their edges a multiple of all edges.
    made = tacos(text, chunks=chunks, allreduce="overlapped")
    bound = best_bound(made.topology, made.collective)
    assert bound.kind == "partition"
    assert congestion(made) == bound.time(1)


@pytest.mark.parametrize(("text", "chunks"), [("mesh:10x10", 4), ("mesh:5x5x5", 3)])
def test_meshes_are_within_fifteen_percent_of_the_partition_bound(text, chunks):
    made = tacos(text, chunks=chunks, allreduce="overlapped")
    verify(made)
    bound = best_bound(made.topology, made.collective, GB)
    assert bound.kind == "partition"
    assert simulate(made, GB).time <= 1.15 * float(bound.time(GB))


@pytest.mark.parametrize("text", ["mesh:4x4", "mesh:2x3x3", "mesh:3x4?bandwidth=25GB/s,100GB/s"])
def test_overlapping_ends_before_halves_do_at_a_gigabyte(text):
    overlapped = tacos(text, chunks=8, allreduce="overlapped")
    verify(overlapped)
    assert simulate(overlapped, GB).time < simulate(tacos(text, chunks=8), GB).time


@pytest.mark.parametrize("size", [10**5, GB])
@pytest.mark.parametrize("text", ["mesh:3x3", "ring:4", "switch2d:2x2"])
def test_auto_is_no_slower_than_halves(text, size):
    halves = tacos(text, size=size, chunks=2, tries=3)
    made = tacos(text, size=size, chunks=2, tries=3, allreduce="auto")  # makes the same halves first
    assert simulate(made, size).time <= simulate(halves, size).time
    verify(made)


def test_auto_overlaps_where_that_ends_first():
    made = tacos("mesh:4x4", chunks=8, allreduce="auto")
    assert simulate(made, GB).time < simulate(tacos("mesh:4x4", chunks=8), GB).time


def test_parallel_links_are_used_side_by_side():
    links = [Link(a, b, Fraction(GB), Fraction(0)) for a, b in ((0, 1), (0, 1), (1, 0), (1, 0))]
    pair = Topology.from_links("double pair", 2, links)
    assert edges_of(pair).ends.tolist() == [[0, 0], [1, 1]]
    made = tacos(pair, chunks=2, allreduce="overlapped")
    verify(made)
    assert congestion(made) == Fraction(1, 2 * GB)  # half of M over each


def test_the_seed_alone_decides():
    one, other = (tacos("mesh:3x3", seed=4, chunks=2, allreduce="overlapped") for _ in range(2))
    assert np.array_equal(one.order, other.order)
    assert np.array_equal(one.route, other.route)


def test_other_collectives_do_not_change():
    one = tacos("mesh:3x3", kind="allgather", allreduce="overlapped")
    assert np.array_equal(one.route, tacos("mesh:3x3", kind="allgather").route)


def test_tries_and_a_time_limit(clock):
    one = tacos("mesh:3x3", chunks=2, allreduce="overlapped")
    best = tacos("mesh:3x3", chunks=2, allreduce="overlapped", tries=4)
    assert best.stats["tries"] == 4
    assert simulate(best, GB).time <= simulate(one, GB).time
    assert tacos("mesh:3x3", chunks=2, allreduce="overlapped", time_limit=0.3).stats["tries"] > 1


def test_links_one_way_and_switches_are_refused():
    circle = Topology.from_links("one way", 3, [Link(0, 1), Link(1, 2), Link(2, 0)])
    assert not joined(edges_of(circle), 3)
    for text in (circle, "switch2d:2x2"):
        with pytest.raises(Unsupported, match="'overlapped' needs links both ways"):
            tacos(text, allreduce="overlapped")


def test_overlapping_unasked_ends_where_it_takes_long(monkeypatch):
    """Four chunks a shard on a 2x4 mesh: 4 * 8 * 8 transfers a half."""
    auto, halves = ({"chunks": 4, "allreduce": how} for how in ("auto", "halves"))
    monkeypatch.setattr(module, "TUNING", Tuning(overlapped_up_to=256))
    assert ends(tacos("mesh:2x4", **auto)) < ends(tacos("mesh:2x4", **halves))
    monkeypatch.setattr(module, "TUNING", Tuning(overlapped_up_to=255))
    assert ends(tacos("mesh:2x4", **auto)) == ends(tacos("mesh:2x4", **halves))
