"""The published rows, what is compared with them, and the verdicts."""

import csv
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tutti.experiments.bench.teccl import REFERENCE, Case, Found, bound, dropped, fastest, lines, published
from tutti.experiments.registry import METHODS
from tutti.experiments.report.results import Row
from tutti.experiments.runner.config import read_config
from tutti.experiments.runner.kept_schedules import keep_schedule
from tutti.experiments.runner.plan import make_plan
from tutti.schedules import Problem, collective
from tutti.topologies.text import parse_topology

ROOT = Path(__file__).parents[3]
NDV2, DGX2 = (f"configs/networks/teccl_{name}.json" for name in ("ndv2_x4", "dgx2_x2"))
GB, US = 10**9, Fraction(1, 10**6)


def test_every_row_moved_its_bytes_in_its_time():
    """As the bandwidths that were published with them say."""
    algbw = [float(row["algbw_gbps"]) for row in csv.DictReader(REFERENCE.read_text().splitlines())]
    rows = published()
    assert len(rows) == 88
    for row, rate in zip(rows, algbw, strict=True):
        assert float(row.size / row.finish) / GB == pytest.approx(rate, rel=1e-3)


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


@pytest.mark.parametrize(("epoch", "lost"), [("1ns", 0), ("1us", Fraction(14, 10)), ("4us", 4)])
def test_what_an_epoch_drops_of_the_longest_way(epoch, lost):
    """From an even rank to an odd one of the other box: two ports, a link of 2.6 us, two ports."""
    seconds = {"1ns": US / 1000, "1us": US, "4us": 4 * US}[epoch]
    assert dropped(parse_topology(DGX2), seconds) == lost * US


def test_the_bound_counts_a_delay_once():
    """Three quarters of M come through one adapter, over 1.3 us twice, and have 0.7 us to go twice."""
    least = bound(Case(NDV2, "allgather", Fraction(GB)))
    assert least == Fraction(3, 4) * GB / Fraction(25 * GB, 2) + 4 * US


def test_trees_for_another_network_are_played_on_the_network_itself(tmp_path):
    """A broadcast of 50 KB over two links, 1 us each and 0.5 us ahead: no α is paid twice, sliced or not."""
    slow = "mesh:3x1?degrade=0>1:1/2"
    method = METHODS["forestcoll"]
    problem = Problem(parse_topology(slow), collective("broadcast", 3, root=0), Fraction(50_000))
    schedule = method.synthesize(problem, method.options(), np.random.default_rng(0))
    digest = keep_schedule(schedule, tmp_path)
    row = Row(slow, "broadcast", 50_000, "forestcoll", schedule=digest, synth_s=2.0)
    case = Case("mesh:3x1", "broadcast", Fraction(50_000))
    best = fastest(case, [row], tmp_path)
    assert (best.method, best.synthesis) == ("forestcoll'", 2.0)
    slices = 2 ** np.arange(13)
    assert best.theirs == pytest.approx(min(2 * 0.5e-6 + 1e-6 * (1 + 1 / s) for s in slices), rel=1e-3)
    assert best.ours == pytest.approx(min((s + 1) * (0.5e-6 + 1e-6 / s) for s in slices))


def test_a_row_is_met_or_missed_by_what_was_dropped_or_missed():
    row = next(row for row in published() if row.variant == "fast" and row.size == 16 * 10**6)
    assert (row.network, row.kind, row.finish, row.epoch) == ("DGX2x2", "allgather", 124 * US, 4 * US)
    verdicts = []
    for seconds in (124e-6, 127.9e-6, 128.1e-6):
        table = list(lines([row], {row.case: Found(130e-6, seconds, "some", 1.0)}))
        verdicts.append(table[2].split(" | ")[5])
        assert table[-1] == f"{verdicts[-1].partition(' ')[0]} 1 of 1"
    assert verdicts == ["met", "dropped +3.9 of 4", "missed +4.1 of 4"]


def test_the_config_asks_for_every_published_case():
    tasks = make_plan(read_config(ROOT / "configs" / "paper_teccl.toml"), METHODS)
    asked = {(t.topology.partition("?")[0], str(t.collective), size) for t in tasks for size in t.sizes}
    assert {(row.case.network, row.kind, row.size) for row in published()} <= asked
