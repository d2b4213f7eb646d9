"""The papers' machines, checked against what the papers say of them."""

from collections import Counter
from fractions import Fraction

import networkx as nx
import pytest

from topologies import DEFAULT_ALPHA, InputError, dgx_a100, mi250

GB = 10**9

# Dissertation, Figure 4.9(a): pairs of GPUs and how many Infinity Fabric links join them.
FABRIC = """0-1:4 0-4:2 0-8:1 1-5:1 1-9:1 1-10:1 2-3:4 2-6:1 2-9:1 2-10:1 3-7:2 3-11:1 4-5:4 4-6:1 5-6:1 5-7:1
6-7:4 8-9:4 8-12:2 9-13:1 10-11:4 10-14:1 11-15:2 12-13:4 12-14:1 13-14:1 13-15:1 14-15:4"""


def fabric(box):
    """The multiset of links in one box, each way."""
    links: Counter = Counter()
    for entry in FABRIC.split():
        pair, count = entry.split(":")
        a, b = (int(gpu) + 16 * box for gpu in pair.split("-"))
        links[a, b] = links[b, a] = int(count)
    return links


def links(topology):
    return Counter(
        (int(a), int(b), bandwidth)
        for a, b, bandwidth in zip(topology.source, topology.target, topology.bandwidth, strict=True)
    )


@pytest.mark.parametrize("boxes", [1, 2, 3])
def test_mi250_is_figure_4_9_with_16_gb_per_second_to_infiniband(boxes):
    expected = Counter(
        {(a, b, Fraction(50 * GB)): m for box in range(boxes) for (a, b), m in fabric(box).items()}
    )
    if boxes > 1:
        for gpu in range(16 * boxes):
            expected[gpu, 16 * boxes, Fraction(16 * GB)] = 1
            expected[16 * boxes, gpu, Fraction(16 * GB)] = 1
    assert links(mi250(boxes)) == expected


def test_an_mi250_has_seven_fabric_links_and_no_switch_alone():
    # Section 4.6: "directly connected to three or four other GPUs through 7 x AMD Infinity Fabric links".
    alone = mi250(1)
    assert (alone.num_switches, alone.degree) == (0, 7)
    neighbours = nx.Graph(zip(alone.source.tolist(), alone.target.tolist(), strict=True)).degree
    assert {degree for _, degree in neighbours} == {3, 4}


@pytest.mark.parametrize("boxes", [1, 2, 4])
def test_dgx_a100_has_300_gb_per_second_to_nvswitch_and_25_to_infiniband(boxes):
    expected: Counter = Counter()
    for gpu in range(8 * boxes):
        nvswitch, infiniband = 8 * boxes + gpu // 8, 9 * boxes
        for a, b in ((gpu, nvswitch), (nvswitch, gpu)):
            expected[a, b, Fraction(300 * GB)] = 1
        if boxes > 1:
            for a, b in ((gpu, infiniband), (infiniband, gpu)):
                expected[a, b, Fraction(25 * GB)] = 1
    assert links(dgx_a100(boxes)) == expected


def test_hosts_are_boxes_and_the_infiniband_switch_has_none():
    assert dgx_a100(2).hosts.tolist() == [0] * 8 + [1] * 8 + [0, 1, -1]
    assert dgx_a100(1).hosts.tolist() == [0] * 9
    assert mi250(2).hosts.tolist() == [0] * 16 + [1] * 16 + [-1]


def test_switches_have_names_and_only_forward():
    machine = dgx_a100(2)
    assert machine.labels[16:] == ("nvswitch0", "nvswitch1", "ib")
    assert (machine.multicast, machine.aggregate) == (frozenset(), frozenset())


def test_a_value_a_kind_of_link_replaces_the_defaults():
    fast = dgx_a100(2, bandwidth=[450 * GB, 50 * GB], alpha=[Fraction(1), Fraction(2)])
    to_box = fast.target < 18
    from_rank = fast.source < 16
    assert set(fast.bandwidth.take(to_box & from_rank)) == {Fraction(450 * GB)}
    assert set(fast.alpha.take(~to_box)) == {Fraction(2)}
    assert set(dgx_a100(2).alpha) == {DEFAULT_ALPHA}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: mi250(0), "mi250:0: 0 boxes; at least 1"),
        (lambda: dgx_a100(2, bandwidth=[1, 2, 3]), "dgx_a100:2: bandwidth has 3 values; give 1 or 2"),
        (lambda: mi250(10**7), "mi250:10000000 has too many nodes"),
    ],
)
def test_wrong_arguments_are_refused(build, message):
    with pytest.raises(InputError, match=message):
        build()
