"""NCCL's choices, against a calculation by hand from its constants.

For each machine and collective a table has everything that NCCL offers. An entry is the latency (base, hops
inside hosts, hops between them) and the bandwidth of M (that of all channels, reduced by the protocol and its
limits, and the algorithm's part). For each size there are the factors by which trees with LL, LL128 and
Simple fall short. Channels: one DGX A100 has 12 of 20 GB/s, several have 8 of 24 (192 in all). One DGX H100
has 12 of 30, with NVLS 16 of 24; several have 8 of 45. A DGX-1 has 6 of 20, on rings of different order.
"""

import math

import numpy as np
import pytest

from tutti.heuristics.nccl.machine import NcclOptions, cluster_of, search
from tutti.heuristics.nccl.method import rounds_of
from tutti.heuristics.nccl.model import (
    GENERATIONS,
    Algorithm,
    Channels,
    NcclCluster,
    Protocol,
    choice,
    estimates,
    micros,
)
from tutti.schedules.collective import Kind
from tutti.topologies.graphs.grid_structure import hosts_of
from tutti.topologies.text import parse_topology

KB, MB, GB = 2**10, 2**20, 2**30
WHOLE = (1, 1, 1)
"""Factors of 1, beyond 64 bytes times 2^23."""

A100 = {
    "ring ll": (6.6 + 14 * 0.6, 87.7 * 8 / 14),
    "ring ll128": (14 + 14 * 1.9, 240 * 0.92 * 8 / 14),
    "ring simple": (8.4 + 14 * 3.4, 240 * 8 / 14),
    "tree ll": (6.8 + 2 * 7 * 0.6, 240 * 0.92 / 3.8 / 2),
    "tree ll128": (14 + 2 * 7 * 1.25, 240 * 0.92 * 7 / 9 / 2),
    "tree simple": (8.4 + 2 * 7 * 4, 240 * 0.92 / 2),
}
TWO_A100 = {
    "ring ll": (6.6 + 28 * 1.0 + 2 * 2.7, 39 * 16 / 30),
    "ring ll128": (14 + 28 * 1.9 + 2 * 4, 8 * 20 * 16 / 30),
    "ring simple": (1.4 * (8.4 + 28 * 3.4 + 2 * 14), 192 * 16 / 30),
    "tree ll": (6.8 + 2 * (7 * 0.6 + 5), 39 / 2),
    "tree ll128": (14 + 2 * (7 * 1.25 + 8.5), 8 * 20 / 2),
    "tree simple": (8.4 + 2 * (7 * 4 + 14), 192 * 0.92 / 2),
}
FEW_BYTES = {**TWO_A100, "ring simple": (8.4 + 28 * 3.4 + 2 * 14, 192 * 16 / 30)}
"""The times for less than 64 bytes a channel and rank: 8 x 16 x 64 = 8,192 bytes."""
TWO_AMD = {**TWO_A100, "ring ll": (6.6 + 28 * 2 + 2 * 2.7, 22.5 * 16 / 30)} | {
    "ring ll128": (14 + 28 * 2 + 2 * 4, 8 * 20 * 16 / 30),
    "ring simple": (1.4 * (8.4 + 28 * 6 + 2 * 14), 192 * 16 / 30),
    "tree ll": (6.8 + 2 * (7 * 0.6 + 5), 22.5 / 2),
}
FOUR_A100 = {
    "ring ll": (6.6 + 56 * 1.0 + 6 * 2.7, 20.4 * 32 / 62),
    "ring ll128": (14 + 56 * 1.9 + 6 * 4, 8 * 20 * 32 / 62),
    "ring simple": (1.4 * (8.4 + 56 * 3.4 + 6 * 14), 192 * 32 / 62),
    "tree ll": (6.8 + 2 * (7 * 0.6 + 2 * 5), 20.4 / 2),
    "tree ll128": (14 + 2 * (7 * 1.25 + 2 * 8.5), 8 * 17.8 * 120 / 128 / 2),
    "tree simple": (8.4 + 2 * (7 * 4 + 2 * 14), 8 * 17.8 / 2),
}
H100 = {
    "ring ll": (6.6 + 14 * 0.6, 141 * 8 / 14),
    "ring ll128": (14 + 14 * 1.9, 360 * 0.92 * 8 / 14),
    "ring simple": (8.4 + 14 * 3.4, 360 * 8 / 14),
    "tree ll": (6.8 + 2 * 7 * 0.6, 360 * 0.92 / 3.8 / 2),
    "tree ll128": (14 + 2 * 7 * 1.25, 360 * 0.92 * 7 / 9 / 2),
    "tree simple": (8.4 + 2 * 7 * 4, 360 * 0.92 / 2),
    "nvls simple": (25, 16 * 24 * 8 / 14),
}
FOUR_H100 = {
    "ring ll": (6.6 + 56 * 1.0 + 6 * 2.7, 20.4 * 32 / 62),
    "ring ll128": (14 + 56 * 1.9 + 6 * 4, 8 * 36.7 * 32 / 62),
    "ring simple": (1.4 * (8.4 + 56 * 3.4 + 6 * 14), 360 * 32 / 62),
    "tree ll": (6.8 + 2 * (7 * 0.6 + 2 * 5), 20.4 / 2),
    "tree ll128": (14 + 2 * (7 * 1.25 + 2 * 8.5), 8 * 29 / 2),
    "tree simple": (8.4 + 2 * (7 * 4 + 2 * 14), 8 * 36 / 2),
    "nvls_tree simple": (25 + 2 * 2 * 20.9, 8 * 45 * 32 / 62),
}
TWO_H100_SWITCHED = (25 + 2 * 20.9, 8 * 57.7 * 16 / 30)
"""NVLS tree on two hosts: 2 x 45 x 0.85 x 7/8 = 66.9, 2 x 45 = 90, at most 57.7 a channel."""
TWO_A100_GATHER = {
    "ring ll": (6.6 + 14 * 1.0 + 2.7, 39 * 16 / 15),
    "ring ll128": (14 + 14 * 1.9 + 4, 8 * 20 * 16 / 15),
    "ring simple": (8.4 + 14 * 3.4 + 14, 192 * 16 / 15),
}
H100_SCATTER = {
    "ring ll": (6.6 + 7 * 0.6, 141 * 8 / 7),
    "ring ll128": (14 + 7 * 1.9, 360 * 0.92 * 8 / 7),
    "ring simple": (8.4 + 7 * 3.4, 360 * 8 / 7),
    "nvls simple": (25, 16 * 24 * 0.85 * 15 / 16 * 7 / 8),
}
DGX1_BROADCAST = {
    "ring ll": (6.6 + 8 * 0.6, 39),
    "ring ll128": (14 + 8 * 1.9, 120 * 0.92),
    "ring simple": (8.4 + 8 * 4.0, 120),
}
A100_REDUCE = {
    "ring ll": (6.6 + 0.6, 87.7),
    "ring ll128": (14 + 1.9, 240 * 0.92),
    "ring simple": (8.4 + 3.4, 240),
}
TWO_A100_BROADCAST = {
    "ring ll": (6.6 + 16 * 2.7, 39),
    "ring ll128": (14 + 16 * 4, 8 * 20),
    "ring simple": (8.4 + 16 * 14, 192),
}
CASES = [
    ("dgx_a100:1", "allreduce", 8 * KB, A100, (0.7, 0.8, 0.8), "ring ll"),
    ("dgx_a100:1", "allreduce", 4 * MB, A100, (0.7, 0.8, 0.7), "ring ll128"),
    ("dgx_a100:1", "allreduce", GB, A100, WHOLE, "ring simple"),
    ("dgx_a100:2", "allreduce", 1 * KB, FEW_BYTES, (0.9, 1, 0.9), "tree ll"),
    ("dgx_a100:2", "allreduce", 256 * KB, TWO_A100, (0.4, 0.6, 0.5), "ring ll"),
    ("dgx_a100:2", "allreduce", 1 * MB, TWO_A100, (0.5, 0.6, 0.5), "tree ll128"),
    ("dgx_a100:2", "allreduce", 16 * MB, TWO_A100, (0.9, 0.9, 0.7), "ring ll128"),
    ("dgx_a100:2", "allreduce", GB, TWO_A100, WHOLE, "ring simple"),
    ("dgx_a100:2 amd", "allreduce", 256 * KB, TWO_AMD, (0.4, 0.6, 0.5), "tree ll128"),
    ("dgx_a100:4", "allreduce", 64 * KB, FOUR_A100, (0.6, 0.6, 0.6), "tree ll"),
    ("dgx_a100:4", "allreduce", 64 * MB, FOUR_A100, (1, 0.9, 0.8), "ring ll128"),
    ("dgx_a100:4", "allreduce", 4 * GB, FOUR_A100, WHOLE, "ring simple"),
    ("dgx_h100:1", "allreduce", 32 * KB, H100, (0.7, 0.7, 0.6), "ring ll"),
    ("dgx_h100:1", "allreduce", 2 * MB, H100, (0.6, 0.6, 0.6), "nvls simple"),
    ("dgx_h100:4", "allreduce", 32 * KB, FOUR_H100, (0.7, 0.7, 0.6), "tree ll"),
    ("dgx_h100:4", "allreduce", 1 * MB, FOUR_H100, (0.5, 0.6, 0.5), "tree ll128"),
    ("dgx_h100:4", "allreduce", 256 * MB, FOUR_H100, (1, 1, 0.9), "nvls_tree simple"),
    ("dgx_a100:2", "allgather", 64 * KB, TWO_A100_GATHER, WHOLE, "ring ll"),
    ("dgx_a100:2", "allgather", 4 * MB, TWO_A100_GATHER, WHOLE, "ring ll128"),
    ("dgx_a100:2", "allgather", GB, TWO_A100_GATHER, WHOLE, "ring simple"),
    ("dgx_h100:1", "reduce-scatter", 2 * MB, H100_SCATTER, WHOLE, "ring ll"),
    ("dgx1", "broadcast", 1 * KB, DGX1_BROADCAST, WHOLE, "ring ll"),
    ("dgx1", "broadcast", 64 * MB, DGX1_BROADCAST, WHOLE, "ring simple"),
    ("dgx_a100:1", "reduce", 1 * MB, A100_REDUCE, WHOLE, "ring simple"),
    ("dgx_a100:2", "broadcast", 2 * MB, TWO_A100_BROADCAST, WHOLE, "ring ll128"),
]


def cluster(text):
    """Return what is found in a network; after a blank the vendor of the processors."""
    network, _, cpu = text.partition(" ")
    topology = parse_topology(network)
    hosts = hosts_of(topology, trivial=True)
    return cluster_of(topology, hosts, rounds_of(topology, hosts), NcclOptions(cpu=cpu or "intel"))


@pytest.mark.parametrize(("text", "kind", "size", "reckoned", "factors", "chosen"), CASES)
def test_times_and_choices_are_those_reckoned_by_hand(text, kind, size, reckoned, factors, chosen):
    shortfall = {f"tree {p}": factor for p, factor in zip(("ll", "ll128", "simple"), factors, strict=True)}
    by_hand = {
        name: wait + size / (1000 * speed * shortfall.get(name, 1))
        for name, (wait, speed) in reckoned.items()
    }
    found = {f"{a} {p}": time for a, p, time in estimates(cluster(text), Kind(kind), size)}
    assert found == pytest.approx(by_hand)
    algorithm, protocol, _ = choice(cluster(text), Kind(kind), size)
    assert f"{algorithm} {protocol}" == chosen == min(by_hand, key=by_hand.get)


def test_trees_of_switches_join_two_hosts_at_twice_the_speed_of_adapters():
    wait, speed = TWO_H100_SWITCHED
    found = micros(cluster("dgx_h100:2"), Kind.ALLREDUCE, Algorithm.NVLS_TREE, Protocol.SIMPLE, GB)
    assert found == pytest.approx(wait + GB / (1000 * speed))


@pytest.mark.parametrize(("size", "chosen"), [(1 * KB, "pat simple"), (GB, "ring simple")])
def test_hosts_of_one_gpu_have_pat(size, chosen):
    """16 hosts: 4 levels of trees; a ring's hops are the tree's then."""
    alone = NcclCluster("ampere", 16, 1, Channels(1, 24.0, 24.0))
    by_hand = {
        "pat simple": (8 + 4 * 14 / 3.5 + 2.8 * 16, 24 * 0.75),
        "ring ll": (6.6 + 15 * 5, 24 / 2 * 16 / 15),
        "ring ll128": (14 + 15 * 8.5, 20 * 16 / 15),
        "ring simple": (8.4 + 15 * 14, 24 * 16 / 15),
    }
    times = {name: wait + size / (1000 * speed) for name, (wait, speed) in by_hand.items()}
    assert {f"{a} {p}": t for a, p, t in estimates(alone, Kind.ALLGATHER, size)} == pytest.approx(times)
    algorithm, protocol, _ = choice(alone, Kind.ALLGATHER, size)
    assert f"{algorithm} {protocol}" == chosen == min(times, key=times.get)


def test_latency_of_the_network_counts_twice_for_simple():
    slow, fast = (NcclCluster("ampere", 2, 8, Channels(8, 24.0, 24.0), latency=us) for us in (5.0, 0.0))
    for protocol, hops in ((Protocol.LL, 1), (Protocol.SIMPLE, 2)):
        later = [micros(c, Kind.ALLREDUCE, Algorithm.TREE, protocol, KB) for c in (slow, fast)]
        assert later[0] - later[1] == pytest.approx(2 * 5.0 * hops)


def test_without_nvlinks_there_is_no_ll128():
    pcie = NcclCluster("ampere", 1, 4, Channels(2, 12.0, 12.0), wire="pcie")
    found = {(str(a), str(p)): t for a, p, t in estimates(pcie, Kind.ALLREDUCE, MB)}
    assert set(found) == {(a, p) for a in ("ring", "tree") for p in ("ll", "simple")}
    assert found["ring", "simple"] == pytest.approx(8.4 + 6 * 5.7 + MB / (1000 * 24 * 4 / 6))


def test_a_plain_tree_is_slower():
    both = [
        NcclCluster("hopper", 1, 8, Channels(12, 30.0, 30.0), plain_trees=plain) for plain in (False, True)
    ]
    whole, plain = (micros(c, Kind.ALLREDUCE, Algorithm.TREE, Protocol.SIMPLE, GB) - 64.4 for c in both)
    assert plain == pytest.approx(whole / 0.85)


@pytest.mark.parametrize(
    ("generation", "inside", "adapters", "number", "speed"),
    [
        ("volta", 120.0, None, 6, 20.0),  # 3 of 40, then twice as many
        ("ampere", 240.0, None, 12, 20.0),  # 6 of 40, then twice as many
        ("hopper", 370.8, None, 12, 30.0),  # 6 of 60, then twice as many: NVIDIA/nccl issue 1197
        ("ampere", 240.0, [25.0] * 8, 8, 24.0),
        ("hopper", 370.8, [50.0] * 8, 8, 45.0),  # 48 fits seven times
        ("volta", 120.0, [12.5], 1, 12.0),  # 2 of 6 are no more, and less than 0.49 of 12 is not tried
        ("ampere", math.inf, [25.0], 1, 24.0),  # one GPU a host
        ("ampere", 240.0, [0.05], 1, 0.1),  # what NCCL takes if it finds none
    ],
)
def test_channels_of_machines(generation, inside, adapters, number, speed):
    given = None if adapters is None else np.array(adapters)
    assert search(GENERATIONS[generation], inside, given) == (number, speed, speed)


@pytest.mark.parametrize(
    ("text", "generation"),
    [
        ("dgx1", "volta"),
        ("ndv2:2", "volta"),
        ("dgx2:2", "volta"),
        ("dgx_a100:2", "ampere"),
        ("dgx_h100:2", "hopper"),
    ],
)
def test_the_generation_is_told_by_its_nvlinks(text, generation):
    assert cluster(text).generation == generation
