"""The papers' machines, checked against the papers' statements."""

from __future__ import annotations

import csv
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from tutti.models.bounds.bottleneck_cut import bottleneck_cut
from tutti.topologies import (
    DEFAULT_ALPHA,
    InputError,
    alpha_distances,
    dgx1,
    dgx2,
    dgx_a100,
    dgx_h100,
    keep_ranks,
    mi250,
    ndv2,
    parse_topology,
)

GB = 10**9

# Dissertation, Figure 4.9(a): pairs of GPUs and their numbers of Infinity Fabric links.
FABRIC = """0-1:4 0-4:2 0-8:1 1-5:1 1-9:1 1-10:1 2-3:4 2-6:1 2-9:1 2-10:1 3-7:2 3-11:1 4-5:4 4-6:1 5-6:1 5-7:1
6-7:4 8-9:4 8-12:2 9-13:1 10-11:4 10-14:1 11-15:2 12-13:4 12-14:1 13-14:1 13-15:1 14-15:4"""


def fabric(box):
    """Return the multiset of links in one box, in both directions."""
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


def test_eight_plus_eight_is_the_left_half_of_both_boxes():
    """Section 4.6.2: GPUs 0 to 7 of each box, with the links of Figure 4.9(a) between them."""
    half = parse_topology("mi250:2?ranks=8+8")
    assert half == keep_ranks(mi250(2), [*range(8), *range(16, 24)])
    inside = {pair: m for pair, m in fabric(0).items() if max(pair) < 8}
    expected = Counter({(a, b, Fraction(50 * GB)): m for (a, b), m in inside.items()})
    expected += Counter({(a + 8, b + 8, Fraction(50 * GB)): m for (a, b), m in inside.items()})
    expected += Counter({(gpu, 16, Fraction(16 * GB)): 1 for gpu in range(16)})
    expected += Counter({(16, gpu, Fraction(16 * GB)): 1 for gpu in range(16)})
    assert links(half) == expected


def test_the_bottleneck_of_eight_plus_eight_is_what_brute_force_finds():
    """Cuts are pairs of sets, one for each box: 2^16 cuts, with the switch on the better side."""
    half = parse_topology("mi250:2?ranks=8+8")
    unit = GB * half.bandwidth.denominator
    weight = np.zeros((17, 17), dtype=np.int64)
    np.add.at(weight, (half.source, half.target), half.bandwidth.numerators // unit)
    inside = (np.arange(2**16 - 1)[:, None] >> np.arange(16)) & 1  # all ranks inside is no cut
    exits = []
    for switch in (0, 1):
        members = np.column_stack([inside, np.full(len(inside), switch)])
        exits.append(((members @ weight) * (1 - members)).sum(axis=1))
    best = max(
        Fraction(int(w), int(b)) for w, b in zip(inside.sum(axis=1)[1:], np.minimum(*exits)[1:], strict=True)
    )
    assert bottleneck_cut(half).ratio * GB == best
    assert 16 / best == 208  # GB/s of algbw: the input of a GPU with four links to its half and InfiniBand


@pytest.mark.parametrize("rails", [2, 4, 8])
@pytest.mark.parametrize("machine", [dgx_a100, dgx_h100])
def test_gpus_alternate_between_rails(machine, rails):
    cluster = machine(3, rails=rails)
    assert cluster.labels[27:] == tuple(f"ib{i}" for i in range(rails))
    to_rail = cluster.target >= 27
    assert cluster.source[to_rail].tolist() == list(range(24))
    assert cluster.target[to_rail].tolist() == [27 + gpu % rails for gpu in range(24)]
    assert cluster.hosts[27:].tolist() == [-1] * rails
    assert cluster.egress.take(np.arange(24)) == machine(3).egress.take(np.arange(24))


def test_rails_need_a_second_box():
    assert dgx_a100(1, rails=2) == dgx_a100(1)


def test_dgx_h100_has_450_gb_per_second_to_nvswitch_and_50_to_infiniband():
    # Section 4.6.3.
    assert dgx_h100(4).bandwidth == dgx_a100(4, bandwidth=[450 * GB, 50 * GB]).bandwidth
    assert dgx_h100(4).labels == dgx_a100(4).labels


def test_nvswitches_of_an_h100_multicast_and_aggregate():
    # Figure 4.12, "ForestColl NVLS".
    cluster = dgx_h100(2)
    assert cluster.multicast == cluster.aggregate == {16, 17}
    assert dgx_h100(1).multicast == {8}


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
        (lambda: mi250(0), "mi250:0: boxes 0 is too small; at least 1"),
        (lambda: dgx_a100(2, bandwidth=[1, 2, 3]), "dgx_a100:2: bandwidth has 3 values; give 1 or 2"),
        (lambda: dgx_h100(2, rails=3), "dgx_h100:2: 3 rails; allowed: 1, 2, 4, 8, which divide the GPUs"),
        (lambda: dgx_a100(2, rails=0), "dgx_a100:2: 0 rails"),
        (lambda: mi250(10**7), "mi250:10000000 has too many nodes"),
    ],
)
def test_wrong_arguments_are_refused(build, message):
    with pytest.raises(InputError, match=message):
        build()


TABLE_1 = Path(__file__).parents[2] / "data" / "reference" / "taccl_table_1_links.csv"
US = Fraction(1, 10**6)

# TACCL, Figure 5(a): pairs of GPUs and their numbers of NVLinks.
VOLTA_FABRIC = (
    """0-1:2 0-2:1 0-3:1 0-4:2 1-2:1 1-3:2 1-5:1 2-3:2 2-6:2 3-7:1 4-5:2 4-6:1 4-7:1 5-6:1 5-7:2 6-7:2"""
)


def table_1():
    with TABLE_1.open() as file:
        return {
            (row["system"], row["link"]): (
                Fraction(row["alpha_us"]) * US,
                Fraction(10**6) / (Fraction(row["beta_us_per_mb"]) * US),
            )
            for row in csv.DictReader(file)
        }


MEASURED = table_1()


def volta_fabric(box):
    links: Counter = Counter()
    for entry in VOLTA_FABRIC.split():
        pair, count = entry.split(":")
        a, b = (int(gpu) + 8 * box for gpu in pair.split("-"))
        links[a, b] = links[b, a] = int(count)
    return links


def pairs(topology, wanted=None):
    ends = zip(topology.source.tolist(), topology.target.tolist(), topology.bandwidth, strict=True)
    return Counter((a, b) for a, b, bandwidth in ends if wanted in (None, bandwidth))


def both_ways(ends):
    return Counter({pair: 1 for a, b in ends for pair in ((a, b), (b, a))})


def slowest(topology, path):
    """Return the smallest bandwidth on the path through these nodes."""
    rates = dict(zip(zip(topology.source, topology.target, strict=True), topology.bandwidth, strict=True))
    return min(rates[step] for step in pairwise(path))


def alpha(topology, source, target):
    distances, denominator = alpha_distances(topology), topology.alpha.denominator
    return Fraction(int(distances[source, target]), denominator)


@pytest.mark.parametrize("machine", [dgx1(), ndv2(1)])
def test_a_box_is_figure_5a_with_six_nvlinks_a_gpu(machine):
    nvlink_alpha, nvlink = MEASURED["ndv2", "nvlink"]
    assert pairs(machine, nvlink) == pairs(machine) == volta_fabric(0)
    assert set(machine.alpha) == {nvlink_alpha}
    assert (machine.degree, machine.num_switches) == (6, 0)
    assert machine.hosts.tolist() == [0] * 8


@pytest.mark.parametrize("boxes", [2, 3])
def test_every_gpu_of_an_ndv2_reaches_its_boxs_adapter(boxes):
    machine = ndv2(boxes)
    first, ib = 8 * boxes, 9 * boxes
    infiniband = MEASURED["ndv2", "infiniband"][1]
    expected = sum((volta_fabric(box) for box in range(boxes)), Counter())
    expected += both_ways((gpu, first + gpu // 8) for gpu in range(8 * boxes))
    expected += both_ways((first + box, ib) for box in range(boxes))
    assert pairs(machine) == expected
    assert pairs(machine, infiniband) == both_ways((first + box, ib) for box in range(boxes))
    assert machine.labels[first:] == (*(f"nic{box}" for box in range(boxes)), "ib")
    assert machine.hosts.tolist() == [box for box in range(boxes) for _ in range(8)] + [*range(boxes), -1]


def test_a_transfer_between_ndv2_boxes_costs_what_table_1_says():
    machine = ndv2(2)
    expected = MEASURED["ndv2", "infiniband"]
    assert (alpha(machine, 3, 12), slowest(machine, [3, 16, 18, 17, 12])) == expected


def test_two_chunks_of_32_kb_between_ndv2_boxes_take_17_percent_less_if_they_are_joined():
    """TACCL, section 4.1: 2 (α + β s) against α + 2 β s."""
    machine = ndv2(2)
    latency, rate = alpha(machine, 0, 8), slowest(machine, [0, 16, 18, 17, 8])
    apart, joined = 2 * (latency + 32_000 / rate), latency + 64_000 / rate
    assert round(100 * (1 - joined / apart)) == 17


@pytest.mark.parametrize("boxes", [1, 2, 3])
def test_dgx2_has_sixteen_gpus_on_nvswitch_and_an_adapter_for_two(boxes):
    machine = dgx2(boxes)
    ranks = 16 * boxes
    expected = both_ways((gpu, ranks + gpu // 16) for gpu in range(ranks))
    names = [f"nvswitch{box}" for box in range(boxes)]
    hosts = [*range(boxes)]
    if boxes > 1:
        nic, ib = ranks + boxes, ranks + boxes + ranks // 2
        expected += both_ways((gpu, nic + gpu // 2) for gpu in range(ranks))
        expected += both_ways((nic + j, ib) for j in range(ranks // 2))
        names += [f"nic{j}" for j in range(ranks // 2)] + ["ib"]
        hosts += [j // 8 for j in range(ranks // 2)] + [-1]
    assert pairs(machine) == expected
    assert machine.labels[ranks:] == tuple(names)
    assert machine.hosts[ranks:].tolist() == hosts


def test_transfers_on_dgx2_cost_what_table_1_says():
    machine = dgx2(2)
    inside, outside = MEASURED["dgx2", "nvlink"], MEASURED["dgx2", "infiniband"]
    assert (alpha(machine, 0, 15), slowest(machine, [0, 32, 15])) == inside
    assert (alpha(machine, 0, 17), slowest(machine, [0, 34, 50, 42, 17])) == outside


@pytest.mark.parametrize("machine", [dgx1(), ndv2(3), dgx2(2)])
def test_they_are_eulerian(machine):
    assert machine.eulerian_defect() is None


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ndv2(0), "ndv2:0: boxes 0 is too small; at least 1"),
        (lambda: ndv2(2, bandwidth=[1, 2]), "ndv2:2: bandwidth has 2 values; give 1 or 3"),
        (lambda: dgx1(alpha=[1, 2]), "dgx1: alpha has 2 values; give 1$"),
        (lambda: dgx2(10**6), "dgx2:1000000 has too many nodes"),
    ],
)
def test_wrong_arguments_are_refused_of_volta(build, message):
    with pytest.raises(InputError, match=message):
        build()
