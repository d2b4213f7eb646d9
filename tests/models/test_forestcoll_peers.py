"""Beside the public Python of ForestColl, as measured: the same throughput, lower trees."""

import csv
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from models.bounds.bottleneck_cut import bottleneck_cut
from models.forestcoll import METHOD, ForestcollOptions
from models.forestcoll.fixed_k import fixed_k_ratio
from schedules import Problem, collective
from schedules.cost import congestion
from schedules.verify import verify
from topologies.scaling import tree_capacities
from topologies.text import parse_topology

REFERENCE = Path(__file__).parent.parent / "data" / "reference" / "peers_measured.csv"
GB = 10**9


def measured(case):
    """The row of a case, apart from the words "with NICs and two rails" or "same": its value and its note."""
    with REFERENCE.open() as file:
        rows = [row for row in csv.DictReader(file) if row["peer"] == "ForestColl Python"]
    names = {case, f"{case} with NICs and two rails", f"{case} same"}
    (row,) = [row for row in rows if row["case"] in names]
    return row["value"], row["note"]


def test_a_fixed_number_of_trees_has_its_throughput_on_two_mi250_boxes():
    """It prints three decimals of GB/s; ours are fractions."""
    topology = parse_topology("mi250:2")
    values = [Fraction(text.strip()) for text in measured("mi250:2 fixed k 1..5")[0].split(",")]
    ours = [32 / fixed_k_ratio(topology, k) / GB for k in range(1, 6)]
    assert [round(algbw, 3) for algbw in ours] == values


@pytest.mark.parametrize("text", ["mi250:2", "mi250:4"])
def test_the_optimum_takes_as_many_trees(text):
    topology = parse_topology(text)
    k, _ = tree_capacities(topology, bottleneck_cut(topology).ratio)
    assert measured(text)[1].endswith(f"k = {k}")


@pytest.mark.parametrize(("text", "highest"), [("dgx_a100:4?rails=2", 19), ("dgx_a100:8?rails=2", 36)])
def test_trees_over_two_rails_are_two_high_instead(text, highest):
    """Its switch removal leaves 19 and 36 hops; one rank of each box and then a star in the box are 2."""
    assert f"height max {highest}" in measured(text.partition("?")[0])[1]
    topology = parse_topology(text)
    what = collective("allgather", topology.num_ranks)
    schedule = METHOD.synthesize(Problem(topology, what), ForestcollOptions(), np.random.default_rng(0))
    verify(schedule)
    assert congestion(schedule) == bottleneck_cut(topology).ratio / topology.num_ranks
    assert schedule.stats["height"] == 2
