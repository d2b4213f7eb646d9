"""Quick cells of docs/data/sizes.csv, made again: time and bound have the gap that the table prints.

A cell is the fastest schedule known. Its gap fixes time over bound at the printed precision. Its column
`bound` says which bounds prove it, and the certificate is recomputed. Where theory knows the time or the
bound, they are compared exactly. Slower cells are in configs/sizes_net.toml.
"""

import csv
import re
from fractions import Fraction
from functools import cache
from statistics import median

import pytest

import tutti
from lint.house import ROOT
from tutti.experiments.registry import METHODS
from tutti.experiments.runner.config import read_config
from tutti.experiments.runner.plan import make_plan
from tutti.schedules.cost import step_cost
from tutti.topologies.units import format_size

SIZES = ("1KB", "32KB", "1MB", "32MB", "1GB")
KINDS = ("allgather", "reduce-scatter", "allreduce", "all-to-all")
PAGE = (ROOT / "docs" / "sizes.md").read_text()
ALPHA, BANDWIDTH = Fraction(1, 2 * 10**6), 50 * 10**9
QUICK = """
allgather
    ring:8            1KB bfb, 32MB bfb, 1GB bfb
    mesh:4x4          1GB torus_rings
    mesh:10x10        1KB torus_rings
    torus:4x4         1KB bfb, 1GB bfb
    torus:5x6         32MB bfb
    torus:4x4x4       1GB bfb
    mesh:5x5x5        1KB torus_rings
    hypercube:5       1GB torus_rings
    complete:8        1KB direct, 1MB direct
    circulant:12,2,3  1KB bfb, 1GB bfb
    L(K_{4,4})        1KB bfb, 1GB forestcoll
    gen_kautz:4,64    1MB bfb
    dgx1              1KB bfb, 1GB nccl
    dgx_a100:2        1KB min_latency, 32MB rails, 1GB rails
    dgx_h100:4        32MB rails
    dragonfly:4x5     1KB bfb, 32KB bfb
    switch2d:8x4      1GB rails
    rfs:2x4x8         1GB rails
reduce-scatter
    L(K_{4,4})        1KB bfb
    gen_kautz:4,64    32MB bfb, 1GB bfb
    dgx_h100:4        1GB rails
    dragonfly:4x5     32KB bfb
allreduce
    ring:8            1KB de_bruijn_allreduce, 32MB one_shot_allreduce, 1GB bfb
    mesh:4x4          1KB one_shot_allreduce
    mesh:10x10        32KB one_shot_allreduce, 32MB allreduce_trees
    torus:4x4         1KB swing, 32MB one_shot_allreduce
    torus:5x6         1GB bfb
    torus:4x4x4       32MB one_shot_allreduce
    hypercube:5       1KB swing, 1GB one_shot_allreduce
    circulant:12,2,3  32MB bfb
    gen_kautz:4,64    1GB allreduce_lp
    dgx1              1GB nccl
    dgx_a100:2        1GB rails
    dgx_h100:4        1GB rails
    rfs:2x4x8         1GB rails
all-to-all
    ring:8            32MB sccl, 1GB shortest_path_all_to_all
    torus:4x4         1GB taccl
    torus:5x6         1GB shortest_path_all_to_all
    torus:4x4x4       32MB mcf
    complete:8        32MB direct
    L(K_{4,4})        1GB shortest_path_all_to_all
    dgx1              1KB shortest_path_all_to_all, 1GB shortest_path_all_to_all
    dgx_a100:2        1GB min_latency
    dgx_h100:4        1GB min_latency
    dragonfly:4x5     1KB min_latency, 1GB shortest_path_all_to_all
    switch2d:8x4      1GB min_latency
"""
OPTIONS = {"swing": {"version": "latency"}, "mcf": {"step_schedule": True}}
"""Options of all cells of a method (docs/data/sizes_options.csv)."""
SLOW = {
    "best",
    "local_search",
    "list_scheduling",
    "windowed_mcf",
    "allreduce_epochs",
    "cp_allreduce",
    "recursive_hybrid",
}
"""Methods of the table that no quick cell has: they search by the clock, or with many seeds."""
NEWER = {"message_count", "first_hop", "partition_latency", "unicast_price", "cut_gossip"}
"""The bounds of cells whose column `bound` is ``newer``."""
SOLVED = 5e-9
"""A gap (relative) up to which the table prints 0: the weights of a schedule are rounded from a solver's."""


def table():
    """Return the cells by collective, network and size."""
    with (ROOT / "docs" / "data" / "sizes.csv").open(encoding="utf-8") as file:
        return {(row["collective"], row["network"], row["size"]): row for row in csv.DictReader(file)}


def quick():
    kind = ""
    for line in QUICK.strip().splitlines():
        if not line.startswith(" "):
            kind = line
            continue
        network, cells = line.split(maxsplit=1)
        yield from ((kind, network, *cell.split()) for cell in cells.split(", "))


TABLE, CHOSEN = table(), list(quick())


@cache
def made(kind, network, size, method):
    return tutti.synthesize(network, kind, size, method, **OPTIONS.get(method, {}))


def agrees(printed, gap):
    """Whether a gap in % is printed so: rounded, or rounded down, with trailing zeros left out."""
    value, decimals = float(printed), len(printed.partition("e")[0].partition(".")[2])
    if value == 0:
        return gap <= 100 * SOLVED
    least = 2 if value < 1 else 1
    unit = 10.0 ** -max(decimals, least) if "e" not in printed else float(f"1{printed[printed.index('e') :]}")
    return value - unit / 2 <= gap < value + unit


@pytest.mark.parametrize(
    ("printed", "gap", "right"),
    [
        ("0.37", 0.3748, True),
        ("0.37", 0.3801, False),
        ("0.37", 0.3649, False),
        ("24.9", 24.98, True),
        ("9", 9.04, True),
        ("9", 9.2, False),
        ("0.5", 0.503, True),
        ("0.5", 0.52, False),
        ("1e-05", 1.2e-5, True),
        ("1e-05", 2.1e-5, False),
        ("0", 0, True),
        ("0", 1e-6, False),
    ],
)
def test_printed_precision(printed, gap, right):
    assert agrees(printed, gap) is right


@pytest.mark.parametrize(("kind", "network", "size", "method"), CHOSEN)
def test_a_cell_is_as_published(kind, network, size, method):
    cell = TABLE[kind, network, size]
    assert cell["method"] == method
    result = made(kind, network, size, method)
    printed = cell["gap_percent"]
    assert agrees(printed, 100 * result.gap), f"{100 * result.gap:.6g} %, published {printed}"
    assert (result.bound.kind in NEWER) == (cell["bound"] == "newer"), result.bound.kind
    assert result.bound.check()


def test_quick_cells_are_of_all_methods_that_have_one():
    methods = {cell["method"] for cell in TABLE.values()}
    assert methods - SLOW == {method for *_, method in CHOSEN}
    assert {kind for kind, *_ in CHOSEN} == set(KINDS)
    assert {size for _, _, size, _ in CHOSEN} == set(SIZES)


@pytest.mark.parametrize(
    ("network", "ranks", "degree", "hops", "method"),
    [
        ("ring:8", 8, 2, 4, "bfb"),
        ("torus:4x4", 16, 4, 4, "bfb"),
        ("torus:5x6", 30, 4, 5, "bfb"),
        ("torus:4x4x4", 64, 6, 6, "bfb"),
        ("circulant:12,2,3", 12, 4, 2, "bfb"),
        ("hypercube:5", 32, 5, 5, "torus_rings"),
        ("complete:8", 8, 7, 1, "direct"),
    ],
)
@pytest.mark.parametrize(("text", "size"), [("1KB", 10**3), ("1GB", 10**9)])
def test_allgathers_with_few_steps_and_few_bytes_in_closed_form(
    network, ranks, degree, hops, method, text, size
):
    """As many steps as the farthest rank is away; (N - 1)/N of M enters each rank over all its links."""
    result = made("allgather", network, text, method)
    cost = step_cost(result.schedule)
    assert (cost.tl_steps, cost.tb) == (hops, Fraction(ranks - 1, ranks))
    time = hops * ALPHA + Fraction(ranks - 1, ranks) * size / (degree * BANDWIDTH)
    assert result.time == pytest.approx(float(time), rel=1e-12)
    bound = result.bound.proof.time(Fraction(size))
    assert bound <= time
    if float(TABLE["allgather", network, text]["gap_percent"]) == 0:
        assert bound == time


@pytest.mark.parametrize(
    ("network", "ranks", "degree", "hops"),
    [("ring:8", 8, 2, 4), ("torus:4x4", 16, 4, 4), ("torus:4x4x4", 64, 6, 6), ("hypercube:5", 32, 5, 5)],
)
def test_bounds_of_little_data_in_closed_form(network, ranks, degree, hops):
    """One rank is farthest away: its shard enters over all links of a rank, that many α after the start."""
    least = hops * ALPHA + Fraction(1000, ranks) / (degree * BANDWIDTH)
    assert tutti.bound(network, "allgather", "1KB").proof.time(Fraction(1000)) == least


def test_who_made_the_schedule_is_said_of_cells_of_best_alone():
    made = [cell for cell in TABLE.values() if cell["maker"]]
    assert {cell["method"] for cell in made} == {"best"}
    assert {cell["maker"] for cell in made} <= set(METHODS) - {"best"}


def test_the_page_counts_its_cells():
    """The first sentences, and the table of medians."""
    gaps = {place: float(cell["gap_percent"]) for place, cell in TABLE.items()}
    counts = [sum(gap <= most for gap in gaps.values()) for most in (1, 10, 50)]
    stated = re.search(
        r"within 1 % of a proven lower bound in (\d+), within 10 % in\s+(\d+) and .* in (\d+)", PAGE
    )
    assert len(gaps) == 400
    assert [str(count) for count in counts] == list(stated.groups())
    for kind in KINDS:
        row = re.search(rf"^\| {kind} \| (.*) \|$", PAGE, re.MULTILINE)[1].split(" | ")
        for size, printed in zip(SIZES, row, strict=True):
            middle = median(gap for place, gap in gaps.items() if place[0] == kind and place[2] == size)
            assert middle == pytest.approx(float(printed), rel=0.06), (kind, size)


def test_slow_cells_are_cells_of_the_table():
    """Fifteen schedules, and the bounds of five cells whose gap is to one of --lp."""
    config = read_config(ROOT / "configs" / "sizes_net.toml")
    tasks = make_plan(config, METHODS)
    assert len(tasks) == 15
    for task in tasks:
        cell = TABLE[str(task.collective), task.topology, format_size(*task.sizes)]
        assert cell["method"] == task.method
    bounds = re.findall(r"tutti bound (.*) --collective (\S+) --size (\S+) --lp", config.text)
    cells = [(kind, network, size) for networks, kind, size in bounds for network in networks.split()]
    assert len(cells) == 5
    assert {TABLE[cell]["bound"] for cell in cells} == {"lp"}
