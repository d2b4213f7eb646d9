"""What TE-CCL's authors ship: the published rows, their networks, and the config that asks for them."""

import csv
from fractions import Fraction
from pathlib import Path

import pytest

from tutti.experiments.registry import METHODS
from tutti.experiments.runner.config import read_config
from tutti.experiments.runner.plan import make_plan
from tutti.topologies.text import parse_topology
from tutti.topologies.units import parse_size

ROOT = Path(__file__).parents[2]
NDV2, DGX2 = (f"configs/networks/teccl_{name}.json" for name in ("ndv2_x4", "dgx2_x2"))
GB, US = 10**9, Fraction(1, 10**6)


def published():
    """Each row, its network, collective and size; early stops on DGX-2 moved twice the size of their name."""
    with (ROOT / "tests/data/reference/teccl_results.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            doubled = (row["topology"], row["variant"]) == ("DGX2x2", "fast_early_stop")
            network = {"NDv2x4": NDV2, "DGX2x2": DGX2}[row["topology"]]
            kind = row["collective"].replace("alltoall", "all-to-all")
            yield row, network, kind, parse_size(row["size"]) * (2 if doubled else 1)


def test_every_row_moved_its_bytes_in_its_time():
    """As the bandwidths that were published with them say."""
    rows = list(published())
    assert len(rows) == 88
    for row, _, _, size in rows:
        rate = float(size / (Fraction(row["finish_us"]) / 10**6)) / GB
        assert rate == pytest.approx(float(row["algbw_gbps"]), rel=1e-3)


def test_the_boxes_of_ndv2_are_joined_by_one_adapter_each_way():
    network = parse_topology(NDV2)
    assert (network.num_ranks, network.num_switches) == (32, 1)
    nvlinks = [b for b, a in zip(network.bandwidth, network.alpha, strict=True) if a == 7 * US / 10]
    assert sorted(set(nvlinks)) == [25 * GB, 50 * GB]
    assert sum(nvlinks) == 32 * 6 * 25 * GB
    ends = list(zip(network.source.tolist(), network.target.tolist(), strict=True))
    boxes = range(0, 32, 8)
    assert {end for end in ends if 32 in end} == {(b + 1, 32) for b in boxes} | {(32, b) for b in boxes}


def test_the_boxes_of_dgx2_are_joined_from_odd_to_even():
    network = parse_topology(DGX2)
    ends = zip(network.source.tolist(), network.target.tolist(), network.bandwidth, strict=True)
    direct = {(a, b): bandwidth for a, b, bandwidth in ends if max(a, b) < 32}
    pairs = {(2 * i + 1, 16 + 2 * i) for i in range(8)} | {(17 + 2 * i, 2 * i) for i in range(8)}
    assert direct == dict.fromkeys(pairs, Fraction(25 * GB, 2))


def test_the_config_asks_for_every_published_case():
    tasks = make_plan(read_config(ROOT / "configs" / "paper_teccl.toml"), METHODS)
    asked = {(t.topology.partition("?")[0], str(t.collective), size) for t in tasks for size in t.sizes}
    assert {(network, kind, size) for _, network, kind, size in published()} <= asked
