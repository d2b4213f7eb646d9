"""Blink: its rate against plain max-flows, its congestion against its rate, and legality everywhere."""

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from tests.sweep import for_each
from tutti.heuristics.trees.blink import METHOD, BlinkOptions, best_broadcast, broadcast_rate
from tutti.models.bounds import best_bound
from tutti.schedules import Problem, collective
from tutti.schedules.cost import congestion, link_loads
from tutti.schedules.schedule import Clock
from tutti.schedules.verify import verify
from tutti.topologies import InputError, Link, Topology, Unsupported, transpose
from tutti.topologies.text import parse_topology

GB = 10**9
KINDS = ("broadcast", "reduce", "allreduce", "allgather", "reduce-scatter")
SWITCHLESS = ("ring:5", "mesh:2x3", "mesh:3x3?bandwidth=100GB/s,25GB/s", "gen_kautz:2,7", "dgx1", "mi250:1")
SWITCHED = (
    "ndv2:2",
    "dgx2:1",
    "dgx_a100:1",
    "dgx_a100:2",
    "dgx_a100:2?rails=2",
    "dgx_h100:2",
    "mi250:2?ranks=8+8",
    "fat_tree:3,2,2,3",
    "rail_only:2,3",
    "rail_spine:2,3,2",
    "torus_of_boxes:2,3,3",
)


def blink(topology, kind="allreduce", root=0, **details):
    problem = Problem(topology, collective(kind, topology.num_ranks, **details))
    options = BlinkOptions(root=root)
    METHOD.supports(problem, options)
    return METHOD.synthesize(problem, options, np.random.default_rng(0))


def slowest_flow(topology, root):
    """The least of all max-flows from the root, by another implementation, bytes/s."""
    graph = nx.DiGraph()
    for a, b, rate in zip(
        topology.source.tolist(),
        topology.target.tolist(),
        topology.bandwidth.numerators.tolist(),
        strict=True,
    ):
        before = graph.get_edge_data(a, b, {"capacity": 0})["capacity"]
        graph.add_edge(a, b, capacity=before + rate)
    others = (rank for rank in range(topology.num_ranks) if rank != root)
    flow = min(nx.maximum_flow_value(graph, root, rank) for rank in others)
    return Fraction(flow, topology.bandwidth.denominator)


@for_each("text", [*SWITCHLESS, "dgx_a100:2", "ndv2:2", "mi250:2?ranks=8+8"])
@for_each("root", [0, 3])
def test_the_rate_is_the_least_max_flow_from_the_root(text, root):
    topology = parse_topology(text)
    assert broadcast_rate(topology, root) == slowest_flow(topology, root)


@for_each("text", [*SWITCHLESS, *SWITCHED])
@pytest.mark.parametrize("kind", ["broadcast", "reduce"])
def test_one_way_it_is_optimal(text, kind):
    """Edmonds: trees that move λ fit the capacities; λ is the bound of a broadcast."""
    topology = parse_topology(text)
    schedule = blink(topology, kind)
    verify(schedule)
    assert schedule.clock is Clock.FLOW
    if not topology.multicast:
        assert congestion(schedule) == best_bound(topology, schedule.collective, None).value
    towards = topology if kind == "broadcast" else transpose(topology)
    assert congestion(schedule) == 1 / broadcast_rate(towards, 0)


@for_each("text", [*SWITCHLESS, *SWITCHED])
@pytest.mark.parametrize("kind", ["allreduce", "allgather", "reduce-scatter"])
def test_both_ways_it_takes_no_more_than_twice_as_long(text, kind):
    topology = parse_topology(text)
    schedule = blink(topology, kind)
    verify(schedule)
    load = congestion(schedule)
    assert load >= best_bound(topology, schedule.collective, None).value
    assert load <= 1 / broadcast_rate(topology, 0) + 1 / broadcast_rate(transpose(topology), 0)


def test_the_allreduce_of_a_path_by_hand():
    """All of M goes down the path and back up it: every link carries M once."""
    path = parse_topology("mesh:4x1")
    schedule = blink(path)
    assert (link_loads(schedule) == schedule.chunks.denominator).all()
    assert congestion(schedule) == Fraction(1, 50 * GB)


def test_the_allgather_of_a_path_goes_up_to_the_root_and_down_to_who_lacks_it():
    """Root 0 of 0-1-2: shards 1 and 2 go up (2 at link 1->0). Shard 0 and, from 1 on, shards 0 and 1 go down.
    Shard 2 passed rank 1 on its path, so only shards 0 (and not 1, which was there) cross 0->1."""
    path = parse_topology("mesh:3x1")
    schedule = blink(path, "allgather")
    loads = dict(
        zip(zip(path.source.tolist(), path.target.tolist(), strict=True), link_loads(schedule), strict=True)
    )
    third = schedule.chunks.denominator // 3
    assert loads == {(0, 1): third, (1, 2): 2 * third, (2, 1): third, (1, 0): 2 * third}


def test_an_mi250_pair_moves_its_infiniband_bandwidth_each_way():
    """16 GPUs of 16 GB/s: a broadcast takes M/256 s/GB; ForestColl's allgather has 354.133, so its
    allreduce 177.07 GB/s, is faster than reduce and broadcast in turn, 128 (section 4.6.2)."""
    topology = parse_topology("mi250:2")
    assert broadcast_rate(topology, 0) == 256 * GB
    schedule = blink(topology)
    verify(schedule)
    assert 128 * GB <= 1 / congestion(schedule) < 177 * GB


@pytest.mark.parametrize("text", ["torus:3x3", "mi250:2?ranks=8+8", "ndv2:2"])
def test_on_an_eulerian_network_all_roots_have_one_rate(text):
    topology = parse_topology(text)
    assert len({broadcast_rate(topology, root) for root in range(topology.num_ranks)}) == 1


def test_a_network_that_is_not_eulerian_broadcasts_and_reduces_at_different_rates():
    """0 -> 1 -> 2 at 3, 2 and back at 1: λ(0) = 2 and 1 for its transpose."""
    links = [(0, 1, 3), (1, 2, 2), (2, 0, 1), (1, 0, 1)]
    uneven = Topology.from_links("uneven", 3, [Link(a, b, Fraction(rate * GB)) for a, b, rate in links])
    assert 1 / congestion(blink(uneven, "broadcast")) == 2 * GB
    assert 1 / congestion(blink(uneven, "reduce")) == GB
    for kind in ("allreduce", "allgather", "reduce-scatter"):
        verify(blink(uneven, kind))


@pytest.mark.parametrize("kind", KINDS)
@for_each("root", [0, 5])
def test_any_rank_may_be_the_root(kind, root):
    topology = parse_topology("fat_tree:2,3")
    verify(blink(topology, kind, root) if kind not in ("broadcast", "reduce") else blink(topology, kind))


@pytest.mark.parametrize("kind", ["broadcast", "reduce"])
def test_a_rooted_collective_has_its_own_root(kind):
    schedule = blink(parse_topology("torus:3x3"), kind, root=2)
    assert schedule.collective.root == 0
    problem = Problem(parse_topology("torus:3x3"), collective(kind, 9, root=7))
    verify(METHOD.synthesize(problem, BlinkOptions(), np.random.default_rng(0)))


@pytest.mark.parametrize("kind", ["allreduce", "allgather", "reduce-scatter"])
@pytest.mark.parametrize("shards", [[1, 2, 3, 4, 5, 6], [0, 0, 1, 0, 2, 0], [0, 0, 0, 0, 0, 1]])
def test_uneven_and_empty_shards_arrive_too(kind, shards):
    verify(blink(parse_topology("mesh:2x3"), kind, shards=shards))


def test_a_broadcast_brings_all_of_the_line_to_every_other_rank_once():
    topology = parse_topology("mi250:2?ranks=8+8")
    broadcast = best_broadcast(topology, 4)
    moved = broadcast.transfers
    received = np.zeros(topology.num_ranks, dtype=np.int64)
    np.add.at(received, broadcast.network.heads[moved.arc], moved.end - moved.begin)
    assert received.tolist() == [broadcast.width * (rank != 4) for rank in range(16)]


def test_it_says_how_high_its_trees_are():
    """A path of four has one tree from rank 0, 3 high; an allreduce goes up one and down one."""
    path = parse_topology("mesh:4x1")
    assert blink(path, "broadcast").stats == {"trees": 1, "height": 3, "mean_height": 3.0}
    assert blink(path).stats == {"trees": 1, "height": 6, "mean_height": 6.0}


def lopsided():
    """A switch with a link in of 2 and one out of 1 for rank 0, and so that all is connected."""
    links = [(0, 2, 2), (2, 0, 1), (1, 2, 1), (2, 1, 1)]
    return Topology.from_links(
        "lopsided", 2, [Link(a, b, Fraction(rate * GB)) for a, b, rate in links], num_switches=1
    )


@pytest.mark.parametrize(
    ("topology", "kind", "details", "message"),
    [
        (
            "ring:4",
            "all-to-all",
            {},
            "blink does allgather, reduce-scatter, allreduce, broadcast, reduce; not all",
        ),
        (
            "ring:4",
            "allreduce",
            {"groups": [[0, 1], [2, 3]]},
            "blink needs one group of all ranks; this allreduce",
        ),
        ("ring:4", "allreduce", {"root": 4}, r"blink option root is 4; ranks of ring:4 are 0\.\.3"),
        (lopsided(), "allreduce", {}, "to be Eulerian; node 0 of lopsided has 1GB/s in and 2GB/s out"),
    ],
)
def test_other_problems_are_not_supported(topology, kind, details, message):
    with pytest.raises(Unsupported, match=message):
        blink(parse_topology(topology) if isinstance(topology, str) else topology, kind, **details)


@pytest.mark.parametrize("root", [-1, True, "0"])
def test_a_root_that_is_no_rank_is_refused(root):
    with pytest.raises(InputError, match=r"blink option root is .*; it must be a rank, 0 or more"):
        BlinkOptions(root=root)
