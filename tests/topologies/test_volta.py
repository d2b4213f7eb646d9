"""The TACCL paper's machines, checked against its Table 1 and figures."""

import csv
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest

from topologies import InputError, alpha_distances, dgx1, dgx2, ndv2

TABLE_1 = Path(__file__).parents[1] / "data" / "reference" / "taccl_table_1_links.csv"
US = Fraction(1, 10**6)

# TACCL, Figure 5(a): pairs of GPUs and how many NVLinks join them.
FABRIC = """0-1:2 0-2:1 0-3:1 0-4:2 1-2:1 1-3:2 1-5:1 2-3:2 2-6:2 3-7:1 4-5:2 4-6:1 4-7:1 5-6:1 5-7:2 6-7:2"""


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


def fabric(box):
    links: Counter = Counter()
    for entry in FABRIC.split():
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
    """The least bandwidth on the way between these nodes."""
    rates = dict(zip(zip(topology.source, topology.target, strict=True), topology.bandwidth, strict=True))
    return min(rates[step] for step in pairwise(path))


def alpha(topology, source, target):
    distances, denominator = alpha_distances(topology), topology.alpha.denominator
    return Fraction(int(distances[source, target]), denominator)


@pytest.mark.parametrize("machine", [dgx1(), ndv2(1)])
def test_a_box_is_figure_5a_with_six_nvlinks_a_gpu(machine):
    nvlink_alpha, nvlink = MEASURED["ndv2", "nvlink"]
    assert pairs(machine, nvlink) == pairs(machine) == fabric(0)
    assert set(machine.alpha) == {nvlink_alpha}
    assert (machine.degree, machine.num_switches) == (6, 0)
    assert machine.hosts.tolist() == [0] * 8


@pytest.mark.parametrize("boxes", [2, 3])
def test_every_gpu_of_an_ndv2_reaches_its_boxs_adapter(boxes):
    machine = ndv2(boxes)
    first, ib = 8 * boxes, 9 * boxes
    infiniband = MEASURED["ndv2", "infiniband"][1]
    expected = sum((fabric(box) for box in range(boxes)), Counter())
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
        (lambda: ndv2(0), "ndv2:0: 0 boxes; at least 1"),
        (lambda: ndv2(2, bandwidth=[1, 2]), "ndv2:2: bandwidth has 2 values; give 1 or 3"),
        (lambda: dgx1(alpha=[1, 2]), "dgx1: alpha has 2 values; give 1$"),
        (lambda: dgx2(10**6), "dgx2:1000000 has too many nodes"),
    ],
)
def test_wrong_arguments_are_refused(build, message):
    with pytest.raises(InputError, match=message):
        build()
