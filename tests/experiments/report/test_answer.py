"""The answer of a run equals what its results.csv says, read and counted without the report's code."""

import csv
import math

import pytest

from tests.experiments.report.test_page import failed, row, write_run
from tutti.experiments.report.results import read_results
from tutti.experiments.report.standings import answers, sentences

TIMES = {
    ("ring:3", "allgather", 10**6): {"a": 10.0, "b": 10.0, "c": 20.0},
    ("ring:3", "allgather", 10**9): {"a": 8.1, "b": 9.0, "c": 16.0},
    ("ring:4", "allgather", 10**6): {"a": 12.0, "b": 11.0},
    ("ring:4", "allgather", 10**9): {"a": 8.4, "b": 10.0},
    ("ring:4", "allreduce", 10**9): {"b": 16.0, "c": 12.0},
}


def run(directory):
    """Return a run of those times, with a bound of 8 us, and what failed."""
    rows = [
        row(topology=t, collective=c, size_bytes=s, method=m, time_us=us, gap=us / 8 - 1)
        for (t, c, s), of in TIMES.items()
        for m, us in of.items()
    ]
    write_run(directory, [*rows, failed(method="d")])
    results = read_results(directory)
    with (directory / "results.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return results


def counted(path):
    """Return for each method its wins, cases, mean factor over the best, and gaps at 1 GB, from the table."""
    cases = {}
    for line in csv.DictReader(path.read_text().splitlines()):
        case = (line["topology"], line["collective"], int(line["size_bytes"]))
        cases.setdefault(case, {})[line["method"]] = (float(line["time_us"]), float(line["bound_us"]))
    found = {}
    for method in "abc":
        mine = {case: of for case, of in cases.items() if method in of}
        factors = [of[method][0] / min(time for time, _ in of.values()) for of in mine.values()]
        gaps = [of[method][0] / of[method][1] - 1 for case, of in mine.items() if case[2] == 10**9]
        wins = sum(factor < 1 + 1e-9 for factor in factors)
        found[method] = (wins, len(mine), math.prod(factors) ** (1 / len(factors)), (min(gaps), max(gaps)))
    return found


def test_who_is_the_fastest_and_how_near_is_what_the_table_says(tmp_path):
    results = run(tmp_path)
    table = counted(tmp_path / "results.csv")
    frame = results.frame[results.frame.size_bytes == 10**9]
    for one in answers(results).itertuples():
        wins, cases, factor, gaps = table[one.series.method]
        assert (one.won, one.timed) == (wins, cases)
        assert one.slower == pytest.approx(factor)
        own = frame.open[frame.number == one.Index]
        assert (own.min(), own.max()) == pytest.approx(gaps)
    assert [series.method for series in answers(results).series] == ["a", "b", "c"]


def test_the_sentences_have_those_numbers(tmp_path):
    """a wins three of five cases and has four, 1.25 to 5 % over 8 us; b loses 1, 10/9, 1, 10/8.4 and 4/3."""
    first, second, proven, third = sentences(run(tmp_path))
    assert proven == "Proven optimal: the best time of 0 of 5 cases."
    assert first == "On ring:3 and ring:4, a is the fastest in 3 of 5 cases (it has a schedule for 4)."
    assert second == "At 1GB its times are 1.25 to 5.00 % above the proven bound."
    factor = (10 / 9 * 9 / 8.1 * 9 / 10 * 10 / 8.4 * 4 / 3) ** (1 / 5)
    assert third.startswith("b comes next: it is the fastest in 2, and over its 5 cases it takes ")
    assert f" {factor:.2f} times the best time" in third


def test_methods_that_are_as_fast_everywhere_are_named_together(tmp_path):
    rows = [row(method=m, time_us=8.0, gap=0.0) for m in "ab"]
    write_run(tmp_path, [*rows, row(method="c", size_bytes=10, time_us=9.0)])
    assert sentences(read_results(tmp_path))[0] == (
        "On ring:3, a is the fastest in 1 of 2 cases, all that it has a schedule for; as fast there: b."
    )


def test_a_run_without_a_time_has_no_answer(tmp_path):
    write_run(tmp_path, [failed()])
    assert sentences(read_results(tmp_path)) == []
