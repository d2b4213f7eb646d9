"""What a report compares: methods with exact ones, seeds with their intervals, TACOS with its ideal."""

from __future__ import annotations

import csv
import math
import statistics
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.experiments.report.test_page import failed, fields, keep, one_way, report, ring, row
from tutti.experiments.report.comparisons import ideal_time
from tutti.experiments.report.seeds import interval as interval_of
from tutti.experiments.report.tables import TEXTS
from tutti.models.bounds import best_bound
from tutti.schedules import collective
from tutti.topologies.text import parse_topology

PUBLISHED = TEXTS["ideal"]["published"]
REFERENCE = Path(__file__).parents[2] / "data" / "reference"
STUDENT = {3: 4.302653, 5: 2.776445, 10: 2.262157}
"""The 97.5 % quantile of t with n - 1 degrees of freedom, from printed tables."""


@pytest.mark.parametrize("count", STUDENT)
def test_an_interval_is_student_s(count):
    values = np.random.default_rng(count).normal(5.0, 2.0, count).tolist()
    low, mean, high = interval_of(values)
    half = STUDENT[count] * statistics.stdev(values) / count**0.5
    assert mean == pytest.approx(statistics.mean(values))
    assert (mean - low, high - mean) == pytest.approx((half, half), rel=1e-6)


def seeded(gaps, **columns):
    """Return a row for each seed, with these gaps in percent."""
    return [
        row(method="tacos", seed=seed, gap=gap / 100, time_us=8 * (1 + gap / 100), **columns)
        for seed, gap in enumerate(gaps)
    ]


def seed_lines(page):
    """Return the rows of the table on seeds as mappings from its heads, which differ but for one."""
    head, *lines = page.table("The spread over seeds")
    head[head.index("cases")] = "all cases"
    return [dict(zip(head, line, strict=True)) for line in lines]


def interval(values, count=3):
    """Return a shifted geometric mean of gaps in percent, and the ends of its interval."""
    logs = [math.log(value + 1) for value in values]
    half = STUDENT[count] * statistics.stdev(logs) / count**0.5
    return [math.exp(statistics.mean(logs) + end * half) - 1 for end in (0, -1, 1)]


def test_series_are_compared_seed_by_seed(tmp_path):
    """The gaps with the shift of 1 % are twice as large for each seed: twice, without an interval."""
    rows = [*seeded([10, 12, 14], options="a=1"), *seeded([21, 25, 29], options="a=2")]
    first, second = seed_lines(report(tmp_path, rows))
    mean, low, high = interval([10, 12, 14])
    assert first["gap of a seed"] == f"{mean:.1f} ({low:.2f} to {high:.1f})"
    assert (first["seeds"], first["all cases"], first["best"], first["worst"]) == ("3", "1", "10.0", "14.0")
    assert (second["times the gap of the first"], second["the gap is"]) == (
        "2.000 (2.000 to 2.000)",
        "larger",
    )


def test_a_difference_within_its_interval_is_none(tmp_path):
    rows = [*seeded([10, 12, 14], options="a=1"), *seeded([15, 10, 13], options="a=2")]
    assert seed_lines(report(tmp_path, rows))[1]["the gap is"] == "no different"


def test_a_seed_s_gap_is_its_shifted_geometric_mean_over_the_cases(tmp_path):
    """(10 + 1) (30 + 1) of the first and last seed, (20 + 1)^2 of the second."""
    rows = [*seeded([10, 20, 30], topology="a"), *seeded([30, 20, 10], topology="b")]
    (line,) = seed_lines(report(tmp_path, rows))
    ends = math.sqrt(11 * 31) - 1
    mean, low, high = interval([ends, 20, ends])
    assert line["gap of a seed"] == f"{mean:.1f} ({low:.1f} to {high:.1f})"
    assert (line["best"], line["worst"]) == ("10.0", "30.0")
    assert (line["spread, median"], line["largest"]) == (f"{100 * (1.3 / 1.1 - 1):.1f}",) * 2


def test_series_are_compared_where_both_have_all_seeds(tmp_path):
    rows = [
        *seeded([10, 12, 14], options="a=1", topology="a"),
        *seeded([50, 52, 54], options="a=1", topology="b"),
        *seeded([11, 13, 15], options="a=2", topology="a"),
        *seeded([9, 9], options="a=2", topology="b"),
    ]
    second = seed_lines(report(tmp_path, rows))[1]
    ratio = ((12 / 11) * (14 / 13) * (16 / 15)) ** (1 / 3)
    assert second["all cases"] == "1"
    assert second["times the gap of the first"].startswith(f"{ratio:.3f} ")
    assert second["cases"] == "1"


def test_the_seeds_of_a_course_are_as_those_of_rows(tmp_path):
    """Its synthesis time is that of all seeds: 0.1 + 0.3 + 0.2 s; 9, 8.8 and 12 us over 8 us."""
    columns = {"method": "tacos", "seeds": 3, "synth_s": 0.6, "time_us": 8.8, "gap": 0.1}
    page = report(tmp_path, [row(**columns, course="0.1 9; 0.3 8.8; 0.2 12", bound_s=0.25)])
    (line,) = seed_lines(page)
    assert (line["seeds"], line["best"], line["worst"]) == ("3", "10.0", "50.0")
    assert (line["synthesis, all"], line["largest"]) == ("600 ms", f"{100 * (12 / 8.8 - 1):.1f}")
    _, drawn = page.drawn("gap over time, ring:3, allgather")
    assert [(r["seconds"], r["time_us"], r["gap_percent"]) for r in drawn] == [
        (0.1, 9.0, 12.5),
        (0.4, 8.8, 10.0),
        (0.6, 8.8, 10.0),
    ]
    assert {r["bound_s"] for r in drawn} == {0.25}
    _, drawn = page.drawn("algbw")
    assert [r["slowest_us"] for r in drawn] == [12.0]


def test_two_seeds_are_too_few(tmp_path):
    assert report(tmp_path, seeded([10, 12])).table("The spread over seeds") is None


def test_the_chart_of_seeds_has_a_row_for_each_series(tmp_path):
    rows = [*seeded([10, 12, 14], options="a=1"), *seeded([21, 25, 29], options="a=2")]
    page = report(tmp_path, rows)
    _, drawn = page.drawn("gap of each method over that of")
    assert [(r["method"].split()[-1], r["gap_mean"]) for r in drawn] == [("a=1", 1), ("a=2", 2)]
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
    head, line = page.table("Allreduce against the ideal")
    assert dict(zip(head, line, strict=True)) == {
        "network": "dgx1", "size": "1GB", "ideal": line[2], "published": "93.26", "cap": "80.0",
        "tacos": "50.0 62.5", "ring": "25.0 31.2",
    }  # fmt: skip


def test_without_tacos_nothing_is_said_of_its_ideal(tmp_path):
    assert report(tmp_path, [row(collective="allreduce")]).table("Allreduce against the ideal") is None


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


def exact(method, what, time, **columns):
    return row(method=method, kind="exact", exact_for=what, time_us=time, gap=time / 8 - 1, **columns)


def test_each_heuristic_stands_over_each_exact_model(tmp_path):
    """10 us at 1 KB, 20 us at 1 MB and not proven; tacos takes 12 and 15 us: 1.2 and 0.75 times."""
    rows = [
        exact("optimum", "one chunk", 10.0, size_bytes=1000, program="MILP"),
        exact("optimum", "one chunk", 20.0, solver_gap=0.125),
        row(method="tacos", size_bytes=1000, time_us=12.0),
        row(method="tacos", time_us=15.0),
        failed(method="ring"),
    ]
    head, mean, small, large = report(tmp_path, rows).table("Heuristic over exact model")
    assert head == [
        "network",
        "collective",
        "size",
        "exact method",
        "for",
        "time",
        "open, %",
        "tacos",
        "ring",
    ]
    assert mean[2:] == ["2 cases", "optimum", "one chunk MILP", "", "", f"{(1.2 * 0.75) ** 0.5:.3f} (2)", ""]
    assert small == [
        "ring:3",
        "allgather",
        "1KB",
        "optimum",
        "one chunk MILP",
        "10 us",
        "",
        "1.200 12 us",
        "",
    ]
    assert large[2:] == ["1MB", "optimum", "one chunk", "20 us", "12.5", "0.750 15 us", ""]


def test_an_exact_method_is_compared_by_each_sense_of_its_own(tmp_path):
    rows = [exact("mcf", "bytes", 8.0), exact("bfb", "steps", 16.0), row(method="ring", time_us=12.0)]
    page = report(tmp_path, rows)
    assert [(line[3], line[4], line[-1]) for line in page.table("Heuristic over exact model")[1:3]] == [
        ("mcf", "bytes", "1.500 (1)"),
        ("bfb", "steps", "0.750 (1)"),
    ]
    assert (
        "takes 1.500 times the best exact model's time (geometric mean of 1 case"
        in (page.all("p", "answer")[0]["text"])
    )


def test_without_an_exact_method_or_its_time_there_is_no_such_table(tmp_path):
    for rows in ([row(method="tacos")], [row(), failed(method="optimum", kind="exact")]):
        assert report(tmp_path, rows).table("Heuristic over exact model") is None


def cases():
    """Return rows of two networks: (UB, LB) of each method and size, of which one is at its bound."""
    times = {"a": (8.0, 30.0, 9.0), "b": (10.0, 20.0, 12.0)}
    places = [("ring:3", 1000, 8.0), ("ring:3", 10**6, 5.0), ("ring:4", 1000, 6.0)]
    return [
        row(method=m, topology=t, size_bytes=s, bound_us=lb, time_us=ub, gap=ub / lb - 1, bound_s=0.5)
        for m, own in times.items()
        for (t, s, lb), ub in zip(places, own, strict=True)
    ]


def numbers(text):
    """Return the numbers in a cell."""
    return [float(word.replace(",", "")) for word in text.split() if word[0].isdigit()]


def test_the_gap_has_two_parts_that_make_the_whole(tmp_path):
    """Each part and the whole are computed here from the times and bounds of the rows alone."""
    rows = cases()
    page = report(tmp_path, rows)
    head, *lines = page.table("The gap in two parts")
    assert len(lines) == 3
    for line in lines:
        cell = dict(zip(head, line, strict=True))
        size = {"1KB": 1000, "1MB": 10**6}[cell["size"]]
        own = {r["method"]: r for r in rows if (r["topology"], r["size_bytes"]) == (cell["network"], size)}
        bound, best = next(iter(own.values()))["bound_us"], min(r["time_us"] for r in own.values())
        assert numbers(cell["LB"]) == [bound]
        assert (cell["computed in"], numbers(cell["UB"])) == ("500 ms", [best])
        assert numbers(cell["open, %"])[0] == pytest.approx(100 * (best / bound - 1), rel=5e-3)
        for method, made in own.items():
            part, time = numbers(cell[method])
            assert time == made["time_us"]
            assert part == pytest.approx(100 * (time / best - 1), rel=5e-3)
            whole = (1 + part / 100) * (1 + numbers(cell["open, %"])[0] / 100) - 1
            assert whole == pytest.approx(made["gap"], rel=5e-3, abs=1e-4)


def test_a_gap_can_be_checked_from_the_bound_and_the_time_beside_it(tmp_path):
    page = report(tmp_path, cases())
    for number in range(2):
        for _, bound, *cells in page.cells(number):
            (lower,) = numbers(bound)
            for gap, time in map(numbers, cells):
                assert gap == pytest.approx(100 * (time - lower) / lower, rel=5e-3)
    assert "(UB - LB)/LB" in next(
        e["text"] for e in page.all("p", "fine", page.section(0)) if "UB" in e["text"]
    )


def test_profile_and_ecdf_count_the_cases(tmp_path):
    """Of three cases: who takes at most how many times the best time, and has at most which gap."""
    rows = [*cases(), row(method="c", topology="ring:3", size_bytes=1000, time_us=16.0, gap=1.0)]
    page = report(tmp_path, rows)
    best = {}
    for r in rows:
        case = (r["topology"], r["size_bytes"])
        best[case] = min(r["time_us"], best.get(case, math.inf))
    values = {
        "performance profile": [
            (r["method"], r["time_us"] / best[r["topology"], r["size_bytes"]]) for r in rows
        ],
        "share of the cases": [(r["method"], 100 * r["gap"]) for r in rows],
    }
    for name, found in values.items():
        _, drawn = page.drawn(name)
        for point in drawn:
            count = sum(m == point["method"] and value <= point["value"] * (1 + 1e-6) for m, value in found)
            assert point["percent"] == pytest.approx(100 * count / len(best), rel=1e-6)
        assert {r["method"] for r in drawn} == {"a", "b", "c"}
    assert "Proven optimal: the best time of 1 of 3 cases." in page.all("p", "answer")[0]["text"]


def test_curves_that_coincide_share_their_stripes(tmp_path):
    """a and b differ by 0.1 % at one size, c by 10 %, d has one size only."""
    times = {"a": (10.0, 20.0), "b": (10.0, 20.02), "c": (10.0, 22.0), "d": (10.0,)}
    rows = [
        row(method=m, size_bytes=s, time_us=t)
        for m, own in times.items()
        for s, t in zip((1000, 10**6), own, strict=False)
    ]
    spec, drawn = report(tmp_path, rows).drawn("algbw against size")
    told = {r["method"]: (r["twin"], r["twins"]) for r in drawn}
    assert told == {"a": (0, 2), "b": (1, 2), "c": (0, 1), "d": (0, 1)}
    (line,) = [e for e in spec["layer"] if e["mark"]["type"] == "line" and "color" in e["encoding"]]
    assert "twins" in line["mark"]["strokeDash"]["expr"]


def test_the_bound_is_in_the_legend_of_each_chart_that_has_it(tmp_path):
    specs = report(tmp_path, [row()]).charts()["specs"]
    for name in ("algbw", "share", "bars algbw", "pareto", "effort", "search", "frontier"):
        layers = specs[name].get("layer") or specs[name]["spec"]["layer"]
        dashes = [layer["encoding"].get("strokeDash") for layer in layers]
        assert {"proven bound"} in [set(dash["scale"]["domain"]) for dash in dashes if dash], name


def test_predictions_stand_beside_the_cost_of_the_schedule_and_a_false_one_is_marked(tmp_path):
    """K_{2,2}: T_L = 2, T_B = 3/4. A line graph adds 1 and at most 1/N = 1/4 (Theorem 7): 3 and 1."""
    common = {"method": "expansion", "predicted_tl": 3, "predicted_tb": "1", "tl_steps": 3}
    rows = [
        row(topology="L(K_{2,2})", **common, prediction="at most", tb_factor=7 / 8, tb_exact="7/8"),
        row(
            topology="L(K_{2,2})",
            **common,
            prediction="at most",
            tb_factor=7 / 8,
            tb_exact="7/8",
            size_bytes=9,
        ),
        row(topology="a", **common, prediction="equal", tb_factor=1.0, tb_exact="1"),
        row(topology="b", **common, prediction="equal", tb_factor=7 / 8, tb_exact="7/8"),
        row(topology="c", **common, prediction="at most", tb_factor=9 / 8, tb_exact="9/8"),
        row(topology="d", **common | {"tl_steps": 4}, prediction="equal", tb_factor=1.0, tb_exact="1"),
        row(topology="a", method="bfb"),
    ]
    page = report(tmp_path, rows)
    assert page.table("Predicted and simulated cost")[1:] == [
        ["L(K_{2,2})", "allgather", "3", "1", "at most", "3", "7/8"],
        ["a", "allgather", "3", "1", "equal", "3", "1"],
        ["b", "allgather", "3", "1", "equal", "3", "7/8"],
        ["c", "allgather", "3", "1", "at most", "3", "9/8"],
        ["d", "allgather", "3", "1", "equal", "4", "1"],
    ]
    assert [cell["text"] for cell in page.all("td", "wrong")] == ["7/8", "9/8", "4"]


def test_a_run_without_expansions_has_no_table_of_predictions(tmp_path):
    assert report(tmp_path, [row()]).table("Predicted and simulated cost") is None
