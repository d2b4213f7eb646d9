"""Platforms against their makers' data for a chip: the sum of both directions' bandwidths, and neighbours."""

import pytest

from tutti.topologies import DEFAULT_ALPHA, diameter, parse_topology

GB = 10**9


@pytest.mark.parametrize(
    ("text", "ranks", "links", "rate"),
    [
        ("dgx_h200:1", 8, 1, 900),
        ("dgx_b200:1", 8, 1, 1800),
        ("gb200_nvl72:1", 72, 1, 1800),
        ("mi300x:1", 8, 7, 896),
        ("tpu_v4:4x4x8", 128, 6, 600),
        ("tpu_v5p:4x4x4", 64, 6, 1200),
        ("trn2", 16, 4, 1024),  # a fifth of 1,280 GB/s leads to other instances
        # With an adapter of 400 Gb/s, which is 100 GB/s in both directions together:
        ("dgx_h200:2", 16, 2, 1000),
        ("dgx_b200:3", 24, 2, 1900),
        ("gb200_nvl72:2?rails=4", 144, 2, 1900),
        ("mi300x:2?rails=8", 16, 8, 996),
    ],
)
def test_a_chip_has_what_its_data_sheet_says(text, ranks, links, rate):
    network = parse_topology(text)
    assert network.num_ranks == ranks
    assert set(network.out_degrees[:ranks]) == set(network.in_degrees[:ranks]) == {links}
    assert {network.egress[rank] + network.ingress[rank] for rank in range(ranks)} == {rate * GB}
    assert set(network.alpha) == {DEFAULT_ALPHA}


def test_a_rack_has_130_terabytes_a_second():
    rack = parse_topology("gb200_nvl72:1")
    assert float(rack.egress[72] + rack.ingress[72]) == pytest.approx(130e12, rel=0.01)


@pytest.mark.parametrize(("text", "able"), [("dgx_b200:2?rails=2", 2), ("gb200_nvl72:3", 3), ("mi300x:2", 0)])
def test_switches_of_nvlink_add_and_copy_and_others_forward(text, able):
    network = parse_topology(text)
    assert (
        network.multicast
        == network.aggregate
        == frozenset(range(network.num_ranks, network.num_ranks + able))
    )


def test_a_trn2_instance_is_a_torus_of_diameter_four():
    assert diameter(parse_topology("trn2")) == 4


@pytest.mark.parametrize("text", ["dgx_b200:2", "gb200_nvl72:2", "mi300x:3"])
def test_boxes_are_hosts(text):
    network = parse_topology(text)
    gpus = network.num_ranks // int(text[-1])
    assert network.hosts[: network.num_ranks].tolist() == [rank // gpus for rank in range(network.num_ranks)]
