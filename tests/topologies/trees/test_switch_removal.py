"""Switch removal keeps max-flows (networkx); routes and capacities are right; γ equals the best cut."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from tests.topologies.eulerian import (
    PLATFORMS,
    flows_by_networkx,
    node_sets,
    platform,
    random_eulerian,
    random_uneven_ranks,
    routes_are_paths,
    worst_ratio,
)
from tutti.topologies import InputError, Link, Topology
from tutti.topologies.graphs.max_flow import FlowNetwork
from tutti.topologies.trees.forest import tree_capacities, trees_by_root
from tutti.topologies.trees.switch_removal import _Splitting, _SplittingNetwork, remove_switches

WITH_SWITCHES = [seed for seed in range(120) if random_eulerian(seed).num_switches]


def removed(topology, ratio, weights=None):
    k, capacity = tree_capacities(topology, ratio, weights)
    return k, capacity, remove_switches(topology, capacity, k, weights)


def units_by_link(topology, network):
    units = np.zeros(topology.num_links, dtype=np.int64)
    np.add.at(units, network.links, np.repeat(network.capacity, np.diff(network.offsets)))
    return units


def arcs_of(network):
    return list(zip(network.tails.tolist(), network.heads.tolist(), network.capacity.tolist(), strict=True))


def test_every_rank_can_still_be_sent_everything():
    for seed in WITH_SWITCHES:
        topology = random_eulerian(seed)
        k, _, network = removed(topology, worst_ratio(topology))
        ranks = topology.num_ranks
        assert flows_by_networkx(ranks, ranks, arcs_of(network), [k] * ranks) == [k * ranks] * ranks


def test_ranks_may_take_in_another_bandwidth_than_they_send():
    """Bang-Jensen, Frank and Jackson: nodes that are split off must be balanced, ranks need not be."""
    uneven = 0
    for seed in WITH_SWITCHES:
        topology = random_uneven_ranks(seed)
        ranks = topology.num_ranks
        uneven += topology.eulerian_defect() is not None
        for weights in ([1] * ranks, [0, *range(1, ranks)]):
            k, capacity, network = removed(topology, worst_ratio(topology, weights), weights)
            trees = trees_by_root(ranks, k, weights)
            assert flows_by_networkx(ranks, ranks, arcs_of(network), trees) == [trees.sum()] * ranks
            assert (units_by_link(topology, network) <= capacity).all()
    assert uneven > len(WITH_SWITCHES) / 2


def test_every_rank_can_still_be_sent_everything_of_uneven_shards():
    for seed in WITH_SWITCHES[:40]:
        topology, ranks = random_eulerian(seed), random_eulerian(seed).num_ranks
        weights = [0, *range(1, ranks)]
        k, _, network = removed(topology, worst_ratio(topology, weights), weights)
        trees = trees_by_root(ranks, k, weights)
        assert flows_by_networkx(ranks, ranks, arcs_of(network), trees) == [trees.sum()] * ranks


def test_arcs_use_links_within_their_capacities_over_simple_routes():
    for seed in WITH_SWITCHES:
        topology = random_eulerian(seed)
        _, capacity, network = removed(topology, worst_ratio(topology))
        assert (units_by_link(topology, network) <= capacity).all()
        assert (network.capacity > 0).all()
        assert routes_are_paths(topology, network)


@pytest.mark.parametrize("text", PLATFORMS)
def test_platforms_keep_their_flows_and_use_links_within_capacities(text):
    topology, ratio = platform(text)
    k, capacity, network = removed(topology, ratio)
    ranks = topology.num_ranks
    assert flows_by_networkx(ranks, ranks, arcs_of(network), [k] * ranks) == [k * ranks] * ranks
    assert (units_by_link(topology, network) <= capacity).all()
    assert routes_are_paths(topology, network)


def test_routes_may_cross_several_switches():
    """Ranks 0 and 1 are joined by a path over three switches: the only route has four links."""
    path = [0, 2, 3, 4, 1]
    links = [Link(a, b, Fraction(5)) for a, b in pairwise(path)]
    links += [Link(link.target, link.source, link.bandwidth) for link in links]
    topology = Topology.from_links("path", 2, links, num_switches=3)
    network = remove_switches(topology, [1] * 8, 1)
    assert (network.tails.tolist(), network.heads.tolist(), network.capacity.tolist()) == (
        [0, 1],
        [1, 0],
        [1, 1],
    )
    assert network.links.tolist() == [0, 1, 2, 3, 7, 6, 5, 4]


def test_a_network_without_switches_stays_as_it_is():
    topology, ratio = platform("mi250:1")
    k, capacity = tree_capacities(topology, ratio)
    network = remove_switches(topology, capacity, k)
    order = np.lexsort((np.arange(topology.num_links), topology.target, topology.source))
    assert network.links.tolist() == order.tolist()
    assert network.capacity.tolist() == capacity[order].tolist()


def gamma_by_cuts(topology, capacity, trees, tail, switch, head):
    """Return γ by trying every cut that contains s, has a rank outside, and loses by the split."""
    sets = node_sets(topology.num_nodes)
    outside = ~sets[:, : topology.num_ranks]
    values = (sets[:, topology.source] & ~sets[:, topology.target]) @ capacity + outside @ trees
    before = sets[:, tail] & sets[:, head] & ~sets[:, switch]
    after = ~sets[:, tail] & ~sets[:, head] & sets[:, switch]
    slack = values[(before | after) & outside.any(axis=1)] - trees.sum()
    joins = [
        int(capacity[(topology.source == a) & (topology.target == b)].sum())
        for a, b in ((tail, switch), (switch, head))
    ]
    return min([*joins, *slack.tolist()])


@pytest.mark.parametrize("max_flow", [None, FlowNetwork], ids=["kernel", "ortools"])
def test_gamma_is_the_least_slack_of_all_cuts_that_lose(max_flow):
    seen = set()
    for seed in WITH_SWITCHES[:50]:
        topology = random_eulerian(seed)
        k, capacity = tree_capacities(topology, worst_ratio(topology))
        trees = trees_by_root(topology.num_ranks, k)
        switch = topology.num_ranks
        network = _SplittingNetwork.of(_Splitting.of(topology, capacity, trees), switch, max_flow)
        for tail in set(topology.source[topology.target == switch].tolist()):
            for head in set(topology.target[topology.source == switch].tolist()):
                expected = gamma_by_cuts(topology, capacity, trees, tail, switch, head)
                assert network.gamma(tail, switch, head, 2**60) == expected
                seen.add(expected > 0)
    assert seen == {True, False}


def star(bandwidth_in, bandwidth_out):
    """Return three ranks around a switch, rank 2 with another bandwidth out of the switch."""
    links = []
    for rank in range(3):
        back = bandwidth_out if rank == 2 else bandwidth_in
        links += [Link(rank, 3, Fraction(bandwidth_in)), Link(3, rank, Fraction(back))]
    return Topology.from_links("star", 3, links, num_switches=1, labels=["0", "1", "2", "ib"])


def test_a_switch_that_is_not_balanced_is_named_with_its_totals():
    """Rank 2 has 25 GB/s less out of the switch."""
    with pytest.raises(InputError) as refusal:
        remove_switches(star(100 * 10**9, 75 * 10**9), [1] * 6, 1)
    assert str(refusal.value) == (
        "topology star: switch ib has 300GB/s in and 275GB/s out; ForestColl needs them equal"
    )


def test_capacities_uneven_at_a_switch_are_refused():
    with pytest.raises(
        InputError, match=r"^topology star: switch ib has capacity for 4 trees in and 3 out; Forest"
    ):
        remove_switches(star(1, 1), [2, 1, 1, 1, 1, 1], 1)


def test_more_trees_than_fit_are_refused():
    with pytest.raises(
        InputError, match=r"^switch removal in star: 2 trees a root do not fit the links; 1/x\* and k"
    ):
        remove_switches(star(1, 1), [2] * 6, 2)
