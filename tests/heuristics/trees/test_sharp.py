"""Trees in switches that add and multicast: times by hand, loads of links, and that no bound is beaten."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.heuristics.trees.sharp import able_switches, aggregation_trees, rerooted
from tutti.models.bounds import best_bound
from tutti.schedules.cost import link_loads
from tutti.topologies import InputError, Unsupported
from tutti.topologies.text import parse_topology

SHARP = METHODS["sharp"]
ALPHA, B, SLOW = 0.5e-6, 450e9, 50e9
KINDS = ("allreduce", "allgather", "reduce-scatter", "broadcast", "reduce")
NETWORKS = (
    "dgx_h100:1",
    "dgx_h100:2",
    "dgx_h100:2?switches=sharp",
    "dgx_h100:2?rails=4&switches=sharp",
    "switch2d:2x3?switches=sharp",
    "fat_tree:4,8,2,3?switches=sharp",
)


@for_each("slices", [1, 2, 8])
@for_each("kind", ["allreduce", "broadcast", "reduce"])
def test_on_one_switch_slices_follow_each_other_up_and_down(made, seconds, kind, slices):
    """(S + 1)(alpha + M/(S b)): the last slice comes down after S went up."""
    schedule = made(SHARP, "dgx_h100:1", kind, 10**7, {"slices": slices})
    expected = (slices + 1) * (ALPHA + 10**7 / slices / B)
    assert seconds(schedule, 10**7) == pytest.approx(expected, rel=1e-9)


def test_slices_that_do_not_help_do_not_end_the_search(made, seconds):
    """Reducing to a rank of four hosts, two slices are slower than one, four faster than both."""
    one, two, four, chosen = (
        seconds(made(SHARP, "dgx_h100:4", "reduce", 10**9, {"slices": slices}, root=0), 10**9)
        for slices in (1, 2, 4, 0)
    )
    assert two > one > four >= chosen


@for_each("kind", ["allreduce", "allgather"])
@for_each("size", [1000, 10**6, 10**8])
def test_the_number_of_slices_is_the_best_power_of_two(made, seconds, kind, size):
    chosen = seconds(made(SHARP, "dgx_h100:1", kind, size), size)
    counts = [2**i for i in range(11)]
    if kind == "allreduce":
        expected = min((count + 1) * (ALPHA + size / count / B) for count in counts)
    else:
        expected = min((count + 1) * ALPHA + (7 + 1 / count) / 8 * size / B for count in counts[:7])
    assert chosen == pytest.approx(expected, rel=1e-9)


@for_each("slices", [1, 2, 8])
@for_each("kind", ["allgather", "reduce-scatter"])
def test_on_one_switch_slices_of_shards_go_up_and_all_others_come_down(made, seconds, kind, slices):
    """M/(8 S) up, then S times the 7 others' down in one message; the reverse takes as long."""
    schedule = made(SHARP, "dgx_h100:1", kind, 10**6, {"slices": slices})
    expected = (slices + 1) * ALPHA + (7 + 1 / slices) / 8 * 10**6 / B
    assert seconds(schedule, 10**6) == pytest.approx(expected, rel=1e-9)


@for_each("kind", ["allreduce", "broadcast", "reduce"])
def test_every_link_of_the_tree_carries_all_of_m_once(made, kind):
    """The links of one switch carry M up and M down; a root only sends, or only receives."""
    schedule = made(SHARP, "dgx_h100:1", kind, 1000)
    topology, loads = schedule.topology, link_loads(schedule)
    loads = {
        (int(a), int(b)): Fraction(int(load), schedule.chunks.denominator)
        for a, b, load in zip(topology.source, topology.target, loads, strict=True)
    }
    up, down = [
        {rank: loads[ends(rank)] for rank in range(8)} for ends in (lambda r: (r, 8), lambda r: (8, r))
    ]
    everyone, root, others = {*range(8)}, {0}, {*range(1, 8)}
    sending = {"allreduce": everyone, "broadcast": root, "reduce": others}[kind]
    receiving = {"allreduce": everyone, "broadcast": others, "reduce": root}[kind]
    assert {rank for rank, load in up.items() if load == 1} == sending
    assert {rank for rank, load in down.items() if load == 1} == receiving
    assert sum(up.values()) + sum(down.values()) == len(sending) + len(receiving)


def test_between_hosts_a_rank_sends_the_sum_of_its_host(made):
    """8 trees of M/8 on rails that add: every adapter carries M/8 each way; M over the ports in all."""
    schedule = made(SHARP, "dgx_h100:2?rails=8&switches=sharp", "allreduce", 10**9)
    topology, loads = schedule.topology, link_loads(schedule)
    slow = topology.bandwidth.numerators == topology.bandwidth.numerators.min()
    assert {Fraction(int(load), schedule.chunks.denominator) for load in loads[slow]} == {Fraction(1, 8)}


def test_without_such_switches_between_them_hosts_are_joined_by_binary_trees():
    """Two trees for each of 8 places, in which switches of hosts stand below the ranks at that place."""
    topology = parse_topology("dgx_h100:4")
    (trees,) = aggregation_trees(topology, able_switches(topology))
    assert trees.shape == (16, 32 + 4 + 1)
    for number, tree in enumerate(trees):
        assert tree[32:36].tolist() == [8 * host + number // 2 for host in range(4)]
        assert Counter(tree[32:].tolist())[-1] == 1  # ib is in none


def test_the_lowest_trees_of_several_levels_are_taken():
    """Leaves are below each of two spines: ranks two hops from the top."""
    topology = parse_topology("fat_tree:4,8,2?switches=sharp")
    trees = aggregation_trees(topology, able_switches(topology))[0]
    leaves = range(32, 36)
    assert [{int(tree[leaf]) for leaf in leaves} for tree in trees] == [{36}, {37}]
    assert all(tree[rank] in leaves for tree in trees for rank in range(32))


def test_a_tree_from_another_node_has_the_same_edges():
    parent = np.array([4, 4, 5, 5, 6, 6, -1])
    turned = rerooted(parent, 2)
    assert turned.tolist() == [4, 4, -1, 5, 6, 2, 5]


@for_each("kind", KINDS)
@for_each("text", NETWORKS)
def test_it_is_legal_from_any_root(made, text, kind):
    made(SHARP, text, kind, 10**6, **({"root": 3} if kind in ("broadcast", "reduce") else {}))


@for_each("kind", KINDS)
@for_each("text", ["dgx_h100:1", "switch2d:2x2?switches=sharp"])
@for_each("size", [100, 10**6])
def test_it_beats_no_bound(made, seconds, text, kind, size):
    schedule = made(SHARP, text, kind, size)
    least = best_bound(schedule.topology, schedule.collective, Fraction(size)).time(Fraction(size))
    assert seconds(schedule, size) >= float(least) * (1 - 1e-9)


@pytest.mark.parametrize("text", ["ring:4", "dgx_a100:2", "dgx_h100:1?switches=forward"])
def test_networks_without_such_switches_are_refused(made, text):
    with pytest.raises(
        Unsupported, match=r"^sharp needs switches that multicast and aggregate, .* has none$"
    ):
        made(SHARP, text, "allreduce")


@pytest.mark.parametrize("slices", [-1, 2000, None, 1.5])
def test_wrong_slices_are_refused(slices):
    with pytest.raises(InputError, match="slices"):
        SHARP.options(slices=slices)
