"""Tiers: what joins what, and what an oversubscribed tier lets through."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from models.bounds.bottleneck_cut import bottleneck_cut
from topologies import InputError, fat_tree, rail_only, rail_spine, torus, torus_of_boxes

GB = 10**9


def links(topology):
    """Each link by the labels of its ends, with its GB/s."""
    return Counter(
        (topology.labels[a], topology.labels[b], bandwidth / GB)
        for a, b, bandwidth in zip(topology.source, topology.target, topology.bandwidth, strict=True)
    )


def both_ways(rows):
    return Counter({(*ends, rate): 1 for a, b, rate in rows for ends in ((a, b), (b, a))})


def test_a_fat_tree_joins_every_leaf_to_every_spine():
    tree = fat_tree(3, 2, 2)
    ports = [(str(rank), f"leaf{rank // 2}", Fraction(50)) for rank in range(6)]
    uplinks = [(f"leaf{leaf}", f"spine{spine}", Fraction(50)) for leaf in range(3) for spine in range(2)]
    assert links(tree) == both_ways(ports + uplinks)
    assert tree.hosts.tolist() == [0, 0, 1, 1, 2, 2, 0, 1, 2, -1, -1]


@pytest.mark.parametrize(("spines", "factor"), [(1, 1), (2, 1), (2, 3), (3, 2), (4, 7)])
def test_the_factor_divides_what_leaves_a_leaf(spines, factor):
    tree = fat_tree(4, 8, spines, factor, bandwidth=25 * GB)
    leaf = tree.labels.index("leaf0")
    assert tree.egress[leaf] == 8 * 25 * GB + Fraction(8 * 25 * GB, factor)
    assert tree.eulerian_defect() is None


def test_an_oversubscribed_tier_is_the_bottleneck_once_its_factor_exceeds_what_a_port_allows():
    """Into a port come N - 1 shards at b, into a leaf of p ranks N - p shards at p·b/f: f > p(N-1)/(N-p)."""
    ranks, ports = 8, 4
    limit = Fraction(ports * (ranks - 1), ranks - ports)  # 7
    for factor in (1, 7, 8, 14):
        expected = max(Fraction(ranks - 1, 50), Fraction((ranks - ports) * factor, ports * 50))
        assert bottleneck_cut(fat_tree(2, ports, 2, factor)).ratio * GB == expected
        assert (expected > Fraction(ranks - 1, 50)) == (factor > limit)


def test_a_single_leaf_has_no_spine():
    assert fat_tree(1, 4, 2, 2).labels[4:] == ("leaf0",)


def test_rails_meet_only_inside_boxes():
    cluster = rail_only(3, 4)
    boxes = [(str(gpu), f"box{gpu // 4}", Fraction(450)) for gpu in range(12)]
    rails = [(str(gpu), f"rail{gpu % 4}", Fraction(50)) for gpu in range(12)]
    assert links(cluster) == both_ways(boxes + rails)
    assert cluster.hosts.tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [0, 1, 2] + [-1] * 4


def test_a_spine_joins_the_rails():
    cluster = rail_spine(3, 4, 2, bandwidth=[300 * GB, 20 * GB])
    tier = both_ways((f"rail{i}", "spine", Fraction(30)) for i in range(4))  # 3 boxes at 20, by 2
    assert links(cluster) == links(rail_only(3, 4, bandwidth=[300 * GB, 20 * GB])) + tier


def test_boxes_in_a_torus_are_a_torus_for_each_gpu_of_a_box():
    cluster = torus_of_boxes(2, 3, 4)
    outside = torus(3, 4)
    expected = Counter(
        (str(2 * int(a) + gpu), str(2 * int(b) + gpu), Fraction(50))
        for a, b in zip(outside.source, outside.target, strict=True)
        for gpu in range(2)
    )
    expected += both_ways((str(gpu), f"box{gpu // 2}", Fraction(450)) for gpu in range(24))
    assert links(cluster) == expected
    assert cluster.hosts.tolist() == [box for box in range(12) for _ in range(2)] + [*range(12)]


def test_a_value_a_kind_of_link_replaces_the_defaults():
    alphas = [Fraction(i, 10**6) for i in (1, 2, 3)]
    cluster = rail_spine(2, 2, alpha=alphas)
    assert Counter(cluster.alpha) == dict(zip(alphas, (8, 8, 4), strict=True))
    tree = fat_tree(2, 2, alpha=alphas[:2])
    assert Counter(tree.alpha) == dict(zip(alphas[:2], (8, 4), strict=True))


@pytest.mark.parametrize(
    "cluster", [fat_tree(4, 8, 3, 5), rail_only(4, 8), rail_spine(3, 2, 7), torus_of_boxes(4, 3, 2)]
)
def test_they_are_eulerian_and_only_forward(cluster):
    assert cluster.eulerian_defect() is None
    assert not cluster.multicast | cluster.aggregate
    assert np.array_equal(np.sort(cluster.source), np.sort(cluster.target))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: fat_tree(4, 8, 0), "fat_tree:4,8,0,1: spines 0 is too small; at least 1"),
        (lambda: fat_tree(4, 8, 2, 0), "fat_tree:4,8,2,0: factor 0 is too small; at least 1"),
        (lambda: fat_tree(4, 8, bandwidth=[1, 2]), "bandwidth has 2 values; give 1$"),
        (lambda: fat_tree(10**4, 10**4), "too many nodes"),
        (lambda: rail_only(1, 8), "rail_only:1,8: 1 boxes; rails join at least 2"),
        (lambda: rail_only(2, 10**9), "too many nodes"),
        (lambda: rail_spine(2, 8, 0), "rail_spine:2,8,0: factor 0 is too small; at least 1"),
        (lambda: rail_spine(2, 8, alpha=[1, 2]), "alpha has 2 values; give 1 or 3"),
        (lambda: torus_of_boxes(0, 3), "torus_of_boxes:0,3: gpus 0 is too small; at least 1"),
        (lambda: torus_of_boxes(8, 1), "1 rank"),
        (lambda: torus_of_boxes(10**6, 3, 3), "too many nodes"),
    ],
)
def test_wrong_arguments_are_refused(build, message):
    with pytest.raises(InputError, match=message):
        build()
