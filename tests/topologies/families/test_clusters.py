"""Tiers: the links between them, and the bandwidth through an oversubscribed tier."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from tutti.models.bounds.bottleneck_cut import bottleneck_cut
from tutti.topologies import (
    InputError,
    complete,
    diameter,
    fat_tree,
    parse_topology,
    rail_only,
    rail_spine,
    ring,
    torus,
    torus_of_boxes,
)
from tutti.topologies.families.clusters import dragonfly, ring_fc_switch, switch2d

GB = 10**9


def links(topology):
    """Return each link by the labels of its ends, with its GB/s."""
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
    """A port takes N - 1 shards at b, a leaf of p ranks N - p shards at p·b/f: f > p(N-1)/(N-p)."""
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


def tiers_links(topology):
    """Return the links between labels, each with its bandwidth."""
    found = (topology.link(i) for i in range(topology.num_links))
    return Counter((topology.labels[x.source], topology.labels[x.target], x.bandwidth) for x in found)


@pytest.mark.parametrize(("per_group", "groups"), [(4, 5), (7, 8), (2, 5), (1, 3), (4, 2), (3, 7)])
def test_every_two_groups_of_a_dragonfly_share_one_global_link(per_group, groups):
    built = dragonfly(per_group, groups)
    between = Counter()
    at_rank = Counter()
    found = tiers_links(built)
    for u, v, speed in found.elements():
        (a, g), (b, h) = divmod(int(u), groups), divmod(int(v), groups)
        if g == h:
            assert a != b
            assert speed == 400 * GB
        else:
            assert speed == 200 * GB
            between[g, h] += 1
            at_rank[u] += 1
    assert between == Counter(itertools.permutations(range(groups), 2))
    spread = [at_rank[str(rank)] for rank in range(built.num_ranks)]
    assert max(spread) - min(spread) <= 1  # spread over the ranks in turn
    assert built.num_links == groups * per_group * (per_group - 1) + groups * (groups - 1)
    assert built.eulerian_defect() is None
    assert all(found[v, u, speed] for u, v, speed in found)


def test_a_dragonfly_reaches_any_rank_by_local_global_local():
    assert diameter(dragonfly(4, 5)) == 3
    assert set(dragonfly(4, 5).egress) == {3 * 400 * GB + 200 * GB}  # TACOS's 4x5: one global link a rank


def test_a_2d_switch_has_a_port_to_its_box_and_one_to_its_rail():
    built = switch2d(8, 4)
    expected = Counter()
    for a, b in itertools.product(range(8), range(4)):
        for switch, speed in ((f"box{b}", 300 * GB), (f"rail{a}", 25 * GB)):
            expected[str(a * 4 + b), switch, speed] += 1
            expected[switch, str(a * 4 + b), speed] += 1
    assert tiers_links(built) == expected
    assert built.num_switches == 12
    assert [built.hosts[rank] for rank in range(5)] == [0, 1, 2, 3, 0]


def test_a_box_of_the_2d_switch_caps_the_papers_ideal_at_79_5_percent():
    # The 24 shards outside enter a box of 8 over 8 ports of 25; the paper's ideal is 31 shards over 325.
    built = switch2d(8, 4)
    box = [rank for rank in range(32) if built.hosts[rank] == 0]
    rails = [
        i
        for i in range(built.num_links)
        if built.target[i] in box and "rail" in built.labels[built.source[i]]
    ]
    entering = sum(built.link(i).bandwidth for i in rails)
    ideal = Fraction(31, built.ingress[0])
    assert round(float(ideal / Fraction(24, entering)), 3) == 0.795


@pytest.mark.parametrize("lengths", [(2, 4, 8), (4, 2, 2), (3, 3, 2), (1, 3, 2), (5, 1, 1)])
def test_ring_fc_switch_is_three_networks_at_once(lengths):
    r, f, s = lengths
    built = ring_fc_switch(r, f, s)
    number = {place: str(i) for i, place in enumerate(itertools.product(range(r), range(f), range(s)))}
    expected = Counter()
    for (i, j, k), rank in number.items():
        for step in {(i + 1) % r, (i - 1) % r} - {i}:
            expected[rank, number[step, j, k], 200 * GB] += 1
        for other in set(range(f)) - {j}:
            expected[rank, number[i, other, k], 100 * GB] += 1
        if s > 1:
            expected[rank, f"switch{i * f + j}", 50 * GB] += 1
            expected[f"switch{i * f + j}", rank, 50 * GB] += 1
    assert tiers_links(built) == expected


def test_ring_fc_switch_of_one_dimension_is_that_network():
    def shape(topology):
        return Counter(link[:2] for link in tiers_links(topology).elements())

    assert shape(ring_fc_switch(5, 1, 1)) == shape(ring(5))
    assert shape(ring_fc_switch(2, 1, 1)) == shape(ring(2))
    assert shape(ring_fc_switch(1, 4, 1)) == shape(complete(4))


def test_the_text_gives_every_tier_its_bandwidth():
    assert parse_topology("dragonfly:4x5?bandwidth=400GB/s,200GB/s") == dragonfly(4, 5)
    assert parse_topology("switch2d:8x4?bandwidth=1GB/s,2GB/s") == switch2d(8, 4, bandwidth=[GB, 2 * GB])
    assert parse_topology("rfs:2x4x8?alpha=1us,2us,3us") == ring_fc_switch(
        2, 4, 8, alpha=[Fraction(i, 10**6) for i in (1, 2, 3)]
    )
    assert set(parse_topology("rfs:2x4x2?bandwidth=5GB/s").bandwidth) == {5 * GB}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: dragonfly(0, 5), "dragonfly:0x5: group size 0 is too small; at least 1"),
        (lambda: dragonfly(4, 1), "dragonfly:4x1: groups 1 is too small; at least 2"),
        (lambda: dragonfly(4, 5, bandwidth=[1, 2, 3]), "bandwidth has 3 values; give 1 or 2"),
        (lambda: switch2d(0, 4), "switch2d:0x4: box size 0 is too small; at least 1"),
        (lambda: switch2d(1, 1), "1 rank"),
        (lambda: switch2d(10**4, 10**4), "too many nodes"),
        (lambda: ring_fc_switch(0, 4, 8), "rfs:0x4x8: ring length 0 is too small; at least 1"),
        (lambda: ring_fc_switch(1, 1, 1), "1 rank"),
        (lambda: ring_fc_switch(2, 4, 8, bandwidth=[1, 2]), "bandwidth has 2 values; give 1 or 3"),
        (lambda: parse_topology("dragonfly:4"), r"1 arguments; expected dragonfly:AxG, e\.g\. dragonfly:4x5"),
        (lambda: parse_topology("rfs:2x4"), "2 arguments; expected rfs:RxFxS"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(build, message):
    with pytest.raises(InputError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)
