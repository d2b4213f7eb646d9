"""Dragonfly, 2D switch and ring-FC-switch against their definitions in words and their bandwidths."""

import itertools
from collections import Counter
from fractions import Fraction

import pytest

from topologies import InputError, complete, diameter, parse_topology, ring
from topologies.tiers import dragonfly, ring_fc_switch, switch2d

GB = 10**9


def links(topology):
    """The links between labels, each with its bandwidth."""
    found = (topology.link(i) for i in range(topology.num_links))
    return Counter((topology.labels[x.source], topology.labels[x.target], x.bandwidth) for x in found)


@pytest.mark.parametrize(("per_group", "groups"), [(4, 5), (7, 8), (2, 5), (1, 3), (4, 2), (3, 7)])
def test_every_two_groups_of_a_dragonfly_share_one_global_link(per_group, groups):
    built = dragonfly(per_group, groups)
    between = Counter()
    at_rank = Counter()
    found = links(built)
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
    assert links(built) == expected
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
    assert links(built) == expected


def test_ring_fc_switch_of_one_dimension_is_that_network():
    def shape(topology):
        return Counter(link[:2] for link in links(topology).elements())

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
        (lambda: dragonfly(0, 5), "dragonfly:0x5: 0 ranks a group; at least 1"),
        (lambda: dragonfly(4, 1), "dragonfly:4x1: 1 groups; at least 2"),
        (lambda: dragonfly(4, 5, bandwidth=[1, 2, 3]), "bandwidth has 3 values; give 1 or 2"),
        (lambda: switch2d(0, 4), "switch2d:0x4: 0 ranks a box; at least 1"),
        (lambda: switch2d(1, 1), "1 rank"),
        (lambda: switch2d(10**4, 10**4), "too many nodes"),
        (lambda: ring_fc_switch(0, 4, 8), "rfs:0x4x8: 0 ring length; at least 1"),
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
