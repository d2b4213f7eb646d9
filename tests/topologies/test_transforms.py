"""Transforms: transposes, failures, parallel links, and the resulting names, degrees and switches."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tutti.topologies import (
    InputError,
    Link,
    Topology,
    circulant,
    dgx_a100,
    drop_links,
    drop_nodes,
    gen_kautz,
    keep_ranks,
    mesh,
    mi250,
    parallel_links,
    ring,
    torus,
    transpose,
    union_with_transpose,
    uniring,
)
from tutti.topologies.transforms import without

GB = 10**9


@pytest.fixture
def star():
    """Return three ranks around a switch that multicasts; the link to rank 2 is the slow one."""
    ends = [(0, 3), (3, 0), (1, 3), (3, 1), (2, 3), (3, 2)]
    links = [Link(a, b, Fraction(GB if b == 2 else 2 * GB)) for a, b in ends]
    return Topology.from_links("star", 3, links, num_switches=1, multicast=[3], hosts=[0, 0, 1, -1])


def pairs(topology):
    return Counter(
        (topology.labels[a], topology.labels[b])
        for a, b in zip(topology.source, topology.target, strict=True)
    )


def test_the_transpose_turns_link_i_round():
    kautz = gen_kautz(2, 7)
    turned = transpose(kautz)
    assert np.array_equal(turned.source, kautz.target)
    assert np.array_equal(turned.target, kautz.source)
    assert (turned.bandwidth, turned.degree) == (kautz.bandwidth, kautz.degree)


def test_the_transpose_of_a_multicast_is_an_aggregation(star):
    turned = transpose(star)
    assert (turned.multicast, turned.aggregate) == (frozenset(), frozenset({3}))
    assert turned.hosts.tolist() == star.hosts.tolist()


def test_transposing_twice_is_the_identity(star):
    twice = transpose(transpose(star))
    assert twice == star
    assert twice.name == star.name


def test_a_transform_forgets_the_expression():
    expressed = replace(ring(4), expression=("ring", 4))
    for changed in (
        transpose(expressed),
        drop_nodes(expressed, [0]),
        drop_links(expressed, [(0, 1)]),
        parallel_links(expressed, 2),
        union_with_transpose(expressed),
    ):
        assert changed.expression is None


def test_the_union_with_the_transpose_is_a_bidirectional_network():
    both = union_with_transpose(uniring(5))
    assert pairs(both) == pairs(ring(5))
    assert np.array_equal(both.source[5:], both.target[:5])
    assert union_with_transpose(gen_kautz(4, 64)).degree == 8


def test_parallel_links_are_neighbours_in_number_and_multiply_the_degree():
    double = parallel_links(ring(3), 2)
    assert double.target.tolist() == [1, 1, 2, 2, 2, 2, 0, 0, 0, 0, 1, 1]
    assert (double.degree, double.node_bandwidth) == (4, 200 * GB)
    assert parallel_links(gen_kautz(4, 64), 3).degree == 12


def test_dropped_nodes_take_their_links_and_the_rest_move_up():
    broken = drop_nodes(mesh(2, 3), [1])
    assert broken.num_ranks == 5
    assert broken.labels == ("0", "2", "3", "4", "5")
    assert pairs(broken) == Counter({pair: 1 for pair in pairs(mesh(2, 3)) if "1" not in pair})
    assert broken.name == "mesh:2x3?drop_nodes=1"


def test_switches_keep_what_they_can_do_and_where_they_stand(star):
    broken = drop_nodes(star, [0])
    assert (broken.num_ranks, broken.multicast) == (2, frozenset({2}))
    assert broken.hosts.tolist() == [0, 1, -1]
    assert broken.bandwidth == star.bandwidth.take(np.arange(2, 6))


def test_a_switch_without_links_goes_too():
    broken = drop_nodes(dgx_a100(3), range(8))
    assert broken.labels[16:] == ("nvswitch1", "nvswitch2", "ib")


def test_a_dropped_link_fails_both_ways_with_its_parallels():
    broken = drop_links(mi250(1), [(0, 1)])
    assert broken.num_links == mi250(1).num_links - 2 * 4  # Figure 4.9: four links join GPUs 0 and 1
    assert ("0", "1") not in pairs(broken)


def test_one_direction_alone_can_fail():
    broken = drop_links(ring(4), [(0, 1)], both=False)
    assert pairs(broken) == pairs(ring(4)) - Counter([("0", "1")])
    assert broken.name == "ring:4?drop_links=0>1"


def test_failures_void_the_nominal_degree():
    assert drop_links(gen_kautz(4, 64), [(0, 63)], both=False).degree is None
    assert without(gen_kautz(4, 64)).degree == 4


def test_keeping_ranks_is_dropping_the_others():
    assert keep_ranks(torus(3, 3), [0, 1, 2, 5]) == drop_nodes(torus(3, 3), [3, 4, 6, 7, 8])
    assert keep_ranks(dgx_a100(2), [0, 1, 8]).num_switches == 3


def test_names_of_several_failures_follow_one_another():
    assert drop_nodes(drop_nodes(torus(3, 3), [0]), [0]).name == "torus:3x3?drop_nodes=0&drop_nodes=1"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: drop_nodes(mesh(3, 1), [1]), "is not strongly connected: cut off from the rest: 2$"),
        (lambda: drop_nodes(mesh(9, 1), [2]), "cut off from the rest: 0, 1$"),  # the smaller part
        (lambda: drop_nodes(ring(4), [0, 2]), "cut off from the rest: 3$"),
        (lambda: drop_links(mesh(20, 1), [(9, 10)]), r"cut off from the rest: 10, 11, 12, 13, 14, \.\.\.$"),
        (lambda: drop_links(uniring(3), [(0, 1)]), "cut off from the rest: 1, 2$"),
        (lambda: drop_nodes(dgx_a100(1), [8]), "dgx_a100:1.drop_nodes=nvswitch0 is not strongly connected"),
        (lambda: drop_nodes(ring(3), [0, 1]), r"has 1 rank\(s\) left; a collective needs at least 2"),
        (lambda: drop_nodes(ring(3), [3]), r"ring:3 has no node 3; nodes are 0\.\.2"),
        (lambda: drop_nodes(ring(3), [-1]), r"ring:3 has no node -1; nodes are 0\.\.2"),
        (lambda: keep_ranks(dgx_a100(1), [0, 8]), r"dgx_a100:1 has no rank 8; ranks are 0\.\.7"),
        (lambda: drop_links(circulant(8, 1, 3), [(0, 2)]), "has no link 0->2; 0 has links to 1, 3, 5, 7"),
        (lambda: drop_links(ring(3), [(0, 9)]), "ring:3 has no node 9"),
        (lambda: parallel_links(ring(3), 0), "0 parallel links; at least 1"),
        (lambda: parallel_links(ring(3), 10**7), "has too many links"),
    ],
)
def test_what_can_not_be_is_refused_in_one_line(build, message):
    with pytest.raises(InputError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)
