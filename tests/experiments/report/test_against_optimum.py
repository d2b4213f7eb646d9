"""What a report says of TACOS: seeds with their intervals, the paper's ideal, links busy over time."""

from __future__ import annotations

import csv
import statistics
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.experiments.report.test_page import fields, keep, one_way, report, ring, row
from tutti.experiments.report.against_optimum import PUBLISHED, ideal_time
from tutti.experiments.report.seeds import ConfidenceInterval
from tutti.models.bounds import best_bound
from tutti.schedules import collective
from tutti.topologies.text import parse_topology

REFERENCE = Path(__file__).parents[2] / "data" / "reference"
STUDENT = {3: 4.302653, 5: 2.776445, 10: 2.262157}
"""The 97.5 % quantile of t with n - 1 degrees of freedom, from printed tables."""


@pytest.mark.parametrize("count", STUDENT)
def test_an_interval_is_student_s(count):
    values = np.random.default_rng(count).normal(5.0, 2.0, count).tolist()
    interval = ConfidenceInterval.of(values)
    half = STUDENT[count] * statistics.stdev(values) / count**0.5
    assert interval.mean == pytest.approx(statistics.mean(values))
    assert interval.half == pytest.approx(half, rel=1e-6)


def seeded(gaps, **columns):
    """Return a row for each seed, with these gaps in percent."""
    return [
        row(method="tacos", seed=seed, gap=gap / 100, time_us=8 * (1 + gap / 100), **columns)
        for seed, gap in enumerate(gaps)
    ]


def seed_table(page):
    """Return the rows of the table on seeds."""
    heading = next(e for e in page.all("h3") if e["text"].startswith("Over "))
    table = next(e for e in page.all("table") if e["id"] > heading["id"])
    return [
        [" ".join(cell["text"].split()) for cell in page.all("td", None, tr)]
        for tr in page.all("tr", None, table)
    ]


def test_series_are_compared_seed_by_seed(tmp_path):
    """Both vary by 2 points from seed to seed, their difference is 3 in each."""
    rows = [*seeded([10, 12, 14], options="a=1"), *seeded([13, 15, 17], options="a=2")]
    page = report(tmp_path, rows)
    first, second = seed_table(page)[1:]
    assert first[:3] == ["1", "12.00 ± 4.97", "10.00"]
    assert second[:3] == ["1", "15.00 ± 4.97", "13.00"]
    assert (second[4], second[6]) == ("3.00", "larger")


def test_a_difference_within_its_interval_is_none(tmp_path):
    rows = [*seeded([10, 12, 14], options="a=1"), *seeded([15, 10, 13], options="a=2")]
    assert seed_table(report(tmp_path, rows))[2][6] == "no different"


def test_a_seed_s_gap_is_its_mean_over_the_cases(tmp_path):
    rows = [*seeded([10, 20, 30], topology="a"), *seeded([30, 20, 10], topology="b")]
    assert seed_table(report(tmp_path, rows))[1][:3] == ["2", "20.00", "10.00"]


def test_series_are_compared_where_both_have_all_seeds(tmp_path):
    rows = [
        *seeded([10, 12, 14], options="a=1", topology="a"),
        *seeded([50, 52, 54], options="a=1", topology="b"),
        *seeded([11, 13, 15], options="a=2", topology="a"),
        *seeded([9, 9], options="a=2", topology="b"),
    ]
    second = seed_table(report(tmp_path, rows))[2]
    assert (second[0], second[4], second[5]) == ("1", "1.00", "1")


def test_two_seeds_are_too_few(tmp_path):
    page = report(tmp_path, seeded([10, 12]))
    assert not [e for e in page.all("h3") if e["text"].startswith("Over ")]


def test_the_chart_of_seeds_has_a_row_for_each_series(tmp_path):
    rows = [*seeded([10, 12, 14], options="a=1"), *seeded([13, 15, 17], options="a=2")]
    page = report(tmp_path, rows)
    _, drawn = page.drawn("gap of each method less that of")
    assert [(r["method"].split()[-1], r["gap_mean"]) for r in drawn] == [("a=1", 0), ("a=2", 3)]
    spec, drawn = page.drawn("synthesis time of each method")
    assert fields(spec)["x"] == {"time_low", "time_mean"}
    assert all(r["time_low"] <= r["time_mean"] <= r["time_high"] for r in drawn)


CAPS = [  # what the paper's own networks allow, in percent of its ideal, to a digit or two
    ("switch2d:8x4?bandwidth=300GB/s,25GB/s", 79.5, 0.05),
    ("rfs:2x4x2?bandwidth=200GB/s,100GB/s,50GB/s", 100, 0.5),
    ("rfs:2x4x4?bandwidth=200GB/s,100GB/s,50GB/s", 94, 0.5),
    ("rfs:2x4x8?bandwidth=200GB/s,100GB/s,50GB/s", 82, 0.5),
    ("rfs:2x4x16?bandwidth=200GB/s,100GB/s,50GB/s", 77, 0.5),
]


@pytest.mark.parametrize(("text", "percent", "slack"), CAPS)
def test_no_schedule_gets_closer_to_the_ideal_than_its_cap(text, percent, slack):
    """On the 2D switch 6 M over 800 GB/s between four boxes; the ideal has 2 · 31/32 M over 325 GB/s."""
    topology = parse_topology(text)
    bound = best_bound(topology, collective("allreduce", topology.num_ranks))
    large = Fraction(10**18)
    assert float(100 * ideal_time(topology, large) / bound.time(large)) == pytest.approx(percent, abs=slack)


def test_the_ideal_of_a_mesh_is_past_its_bound():
    """2 · 99/100 M over a corner's two links; the partition bound of 10x10 is 0.55 M/b: a cap of 180 %."""
    topology = parse_topology("mesh:10x10?bandwidth=1GB/s&alpha=1us")
    assert ideal_time(topology, Fraction(10**9)) == Fraction(99, 100) + Fraction(18, 10**6)


def test_efficiencies_stand_beside_the_cap_and_the_published_one(tmp_path):
    """Ideal of a 2-ring with 1 GB: bound and time are made up, the ideal is not."""
    ideal = 1e6 * float(ideal_time(parse_topology("dgx1"), Fraction(10**9)))
    columns = {"collective": "allreduce", "topology": "dgx1", "size_bytes": 10**9}
    rows = [
        row(method="tacos", time_us=2 * ideal, bound_us=1.25 * ideal, gap=0.6, **columns),
        row(method="ring", time_us=4 * ideal, bound_us=1.25 * ideal, gap=2.2, **columns),
    ]
    page = report(tmp_path, rows)
    heading = next(e for e in page.all("h3") if e["text"].startswith("Allreduce against"))
    table = next(e for e in page.all("table") if e["id"] > heading["id"])
    first, second = ([c["text"] for c in page.all("td", None, tr)] for tr in page.all("tr", None, table)[1:])
    assert first[2:] == ["93.26", "80.0", "ideal", "50.0", "25.0"]
    assert second[4:] == ["proven bound", "62.5", "31.2"]


def test_without_tacos_nothing_is_said_of_its_ideal(tmp_path):
    page = report(tmp_path, [row(collective="allreduce")])
    assert not [e for e in page.all("h3") if e["text"].startswith("Allreduce against")]


def test_published_efficiencies_are_the_papers():
    with (REFERENCE / "tacos_headlines.csv").open() as file:
        headlines = {line["what"]: line["value"] for line in csv.DictReader(file)}

    def value(words):
        (found,) = (value for what, value in headlines.items() if words in what)
        return [f"{100 * float(part):g}" for part in found.removeprefix(">").split("/")]

    assert PUBLISHED["dragonfly:4x5"] == PUBLISHED["switch2d:8x4"] == f"> {value('DragonFly 4x5')[0]}"
    assert [PUBLISHED["torus:5x5x5"], PUBLISHED["mesh:5x5x5"]] == value("3D torus")
    assert [PUBLISHED["torus:8x8"], PUBLISHED["mesh:10x10"]] == value("2D torus and 2D mesh")
    assert [PUBLISHED["dgx1"]] == value("DGX-1")
    with (REFERENCE / "tacos_table_V_3d_rfs.csv").open() as file:
        for line in csv.DictReader(file):
            assert PUBLISHED[f"rfs:2x4x{line['nodes']}"] == f"{100 * float(line['ideal']):g}"


def test_links_busy_over_time_are_drawn(tmp_path):
    """Half of the links are busy all the time: 50 % from the start to the end, which is at 1."""
    page = report(tmp_path, [row(schedule=keep(tmp_path, one_way(ring(4, "ring:4"))), topology="ring:4")])
    spec, drawn = page.drawn("links busy over time")
    assert (fields(spec)["x"], fields(spec)["y"]) == ({"time"}, {"busy"})
    assert {r["busy"] for r in drawn[:-1]} == {50}
    assert (drawn[0]["time"], drawn[-1]["time"], drawn[-1]["busy"]) == (0, 1, 0)
    assert {r["mean"] for r in drawn} == {50}


def test_without_kept_schedules_there_is_no_course(tmp_path):
    page = report(tmp_path, [row()])
    assert not [e for e in page.all("h3") if e["text"] == "Link utilisation over time"]


HEADING = "Against the optimum of given chunks"


def table(page):
    """Return the cells of the table's rows, without its head."""
    heading = next(e for e in page.all("h3") if e["text"].startswith(HEADING))
    found = next(e for e in page.all("table") if e["id"] > heading["id"])
    return [
        [" ".join(cell["text"].split()) for cell in page.all("td", None, tr)]
        for tr in page.all("tr", None, found)
    ][1:]


def test_times_are_set_against_those_of_optimum(tmp_path):
    """10 us at 1 KB and 20 us at 1 MB: 12 and 20 us are 20 % more and as fast; 15 us is a quarter less."""
    rows = [
        row(method="optimum", size_bytes=1000, time_us=10.0, solver_gap=0.0),
        row(method="optimum", size_bytes=10**6, time_us=20.0, solver_gap=0.125),
        row(method="tacos", size_bytes=1000, time_us=12.0),
        row(method="tacos", size_bytes=10**6, time_us=20.0),
        row(method="forestcoll", size_bytes=10**6, time_us=15.0),
    ]
    mean, worst, met, small, large = table(report(tmp_path, rows))
    assert (mean, worst, met) == (["10.0", "-25.0"], ["20.0", "-25.0"], ["1 of 2", "1 of 1"])
    assert small[1:] == ["1KB", "10 us", "", "20.0", ""]
    assert large[1:] == ["1MB", "20 us", "12.5", "0", "-25.0"]


def test_without_optimum_there_is_no_such_table(tmp_path):
    page = report(tmp_path, [row(method="tacos")])
    assert not any(e["text"].startswith(HEADING) for e in page.all("h3"))
    failed = [row(method="tacos"), row(method="optimum", status="infeasible", time_us=None)]
    page = report(tmp_path, failed)
    assert not any(e["text"].startswith(HEADING) for e in page.all("h3"))
