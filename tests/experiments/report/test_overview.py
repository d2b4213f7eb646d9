"""The section of a report on many networks: winners, gaps, means and coverage worked out by hand."""

import math
from pathlib import Path

import pandas as pd
import pytest

from tests.experiments.report.test_page import report
from tests.experiments.report.test_page import row as record
from tutti.experiments.report.comparisons import gap_map, nearest
from tutti.experiments.report.panels import program_panel
from tutti.experiments.report.results import Results
from tutti.experiments.report.standings import STATUSES, common_cases, ranking

SMALL, LARGE = 1000.0, 1e9


def row(topology, method, size, time, bound, **more):
    """Return a row whose gap is that to its own bound."""
    case = {"topology": topology, "collective": "allgather", "size_bytes": size, "method": method}
    return case | {"time_us": time, "bound_us": bound, "gap": time / bound - 1} | more


def without(topology, method, size, status):
    case = {"topology": topology, "collective": "allgather", "size_bytes": size, "method": method}
    return case | {"status": status, "message": "why not"}


@pytest.fixture
def results(tmp_path):
    """Return two rings, three methods: `a` everywhere, `b` nowhere on ring:5, `c` without any schedule."""
    rows = [
        row("ring:4", "a", SMALL, 2.0, 1.0, synth_s=1.0, schedule="one"),
        row("ring:4", "a", LARGE, 10.0, 10.0, synth_s=1.0, schedule="one"),
        row("ring:4", "b", SMALL, 1.0, 1.0, synth_s=0.5, schedule="two"),
        row("ring:4", "b", LARGE, 15.0, 10.0, synth_s=0.5, schedule="two"),
        row("ring:5", "a", SMALL, 4.0, 2.0, synth_s=3.0, schedule="three"),
        row("ring:5", "a", LARGE, 40.0, 20.0, synth_s=3.0, schedule="three"),
        without("ring:5", "b", SMALL, "unsupported"),
        without("ring:5", "b", LARGE, "timeout"),
        *(without(t, "c", s, "infeasible") for t in ("ring:4", "ring:5") for s in (SMALL, LARGE)),
    ]
    return Results.of(tmp_path, rows)


def shifted(*gaps):
    """Return the shifted geometric mean of gaps, with a shift of 1 %, by its definition."""
    return math.prod(gap + 0.01 for gap in gaps) ** (1 / len(gaps)) - 0.01


def test_a_bound_that_one_method_proved_holds_for_all_of_the_case(tmp_path):
    """12 us are 20 % over a bound of 10 us, but only half as much over one of 11 us that another proved."""
    mine, other = row("ring:4", "a", LARGE, 13.2, 10.0), row("ring:4", "b", LARGE, 22.0, 11.0)
    lost = without("ring:4", "c", LARGE, "timeout")
    gaps = Results.of(tmp_path, (mine, other, lost)).frame.open
    assert gaps.tolist() == [pytest.approx(0.2), 1.0, pytest.approx(math.nan, nan_ok=True)]


def test_each_case_names_its_fastest_method(results):
    table = nearest(results, "allgather")
    assert [head.text for head in table.heads] == ["network", "1KB", "1GB"]
    told = {cells[0].text: [(cell.text, cell.more) for cell in cells[1:]] for _, cells in table.rows}
    assert told == {"ring:4": [("0", "b"), ("0", "a")], "ring:5": [("100", "a"), ("100", "a")]}


def test_who_chooses_is_named_before_what_it_chose(tmp_path):
    """Only methods of the config are named alone: `dbt` here is an algorithm of another."""
    rows = [
        row("ring:4", "best", LARGE, 2.0, 1.0, algorithm="swing"),
        row("ring:5", "nccl_like", LARGE, 2.0, 1.0, algorithm="dbt"),
    ]
    table = nearest(Results.of(tmp_path, rows), "allgather")
    assert [cell.more for _, (_, cell) in table.rows] == ["best (swing)", "nccl_like (dbt)"]


def test_a_map_has_a_sign_where_there_is_no_time_and_leaves_out_who_has_none(results):
    found = gap_map(results, "allgather", LARGE)
    cells = {cells[0].text: [cell.text for cell in cells[1:]] for _, cells in found.rows}
    assert cells == {"a": ["0", "100"], "b": ["50.0", "t"]}
    assert found.caption.endswith("No schedule anywhere: c.")
    assert found.rows[1][1][2].tip.endswith("timeout: why not")


def test_the_nearer_the_stronger_the_shade(results):
    (_, (_, optimal, double)), (_, (_, half, _)) = gap_map(results, "allgather", LARGE).rows
    assert optimal.looks.split() == ["u5", "optimal", "best"]
    assert double.looks.split() == ["u2", "best"]
    assert half.looks.split() == ["u2"]


def test_methods_stand_in_order_of_their_mean_gap(results):
    """a: 100, 0, 100, 100 %; times over the best 2, 1, 1, 1. b: 0 and 50 %; 1 and 1.5."""
    b, a, c = ranking(results).itertuples()
    assert [one.series.label for one in (b, a, c)] == ["b", "a", "c"]
    assert b.mean == pytest.approx(shifted(0, 0.5))
    assert a.mean == pytest.approx(shifted(1, 0, 1, 1))
    assert [b.smallest, b.largest] == pytest.approx([0.0, 0.5])
    assert [a.smallest, a.largest] == pytest.approx([1.0, shifted(0, 1)])
    assert a.slower == pytest.approx(2 ** (1 / 4))
    assert b.slower == pytest.approx(math.sqrt(1.5))
    assert all(math.isnan(number) for number in (c.mean, c.slower, c.seconds, c.worst))


def test_a_schedule_for_all_sizes_was_made_once(results):
    """a: 1 s on ring:4 and 3 s on ring:5, the median 2 s; b: 0.5 s."""
    b, a, _ = ranking(results).itertuples()
    assert (a.seconds, a.synthesis, b.seconds) == (2.0, 4.0, 0.5)


def test_cases_are_counted_by_what_became_of_them(results):
    found = ranking(results).set_index(pd.Index(["b", "a", "c"]))
    states = found[["ok", *STATUSES]]
    counts = {name: states.loc[name][states.loc[name] > 0].to_dict() for name in "abc"}
    assert counts["a"] == {"ok": 4}
    assert counts["b"] == {"ok": 2, "unsupported": 1, "timeout": 1}
    assert counts["c"] == {"infeasible": 4}
    assert found.won["a"] == 3
    assert found.won["b"] == 1
    assert not found.won["c"] > 0


def test_the_page_begins_with_it_and_says_short_names(tmp_path):
    links = "?bandwidth=25GB/s&alpha=1us"
    rows = [record(topology=f"ring:{n}{links}", method=m) for n in range(3, 8) for m in ("ring", "bfb")]
    page = report(tmp_path, rows)
    section = next(e for e in page.all("section") if e["attrs"].get("id") == "glance")
    names = [e for e in page.all("a", None, section) if e["attrs"]["href"] == "#t0"]
    assert {e["text"] for e in names} == {"ring:3"}
    cells = [e for e in page.elements if any(e["id"] == name["path"][-1] for name in names)]
    assert {e["attrs"]["data-tip"] for e in cells} == {f"ring:3{links}"}
    assert page.section(0)["id"] > section["id"]
    assert "?bandwidth" not in section["text"]


def test_the_page_of_a_small_run_has_none(tmp_path):
    page = report(tmp_path, [record(method="ring"), record(method="bfb")])
    assert not any(e["attrs"].get("id") == "glance" for e in page.all("section"))


def test_methods_are_ranked_over_the_cases_that_all_of_them_have(results):
    """Both have ring:4 only: a 100 and 0 %; b 0 and 50 %. c has none."""
    members, common = common_cases(results)
    networks = results.frame.topology[results.frame.case.isin(common)]
    assert (members, set(networks), len(common)) == ({0, 1}, {"ring:4"}, 2)
    assert ranking(results).common.tolist() == pytest.approx(
        [shifted(0, 0.5), shifted(0, 1), math.nan], nan_ok=True
    )


def test_a_method_of_few_cases_has_no_place_and_decides_no_other(tmp_path):
    """By its own mean `few`, of one case of four, would be the first; it is last."""
    rows = [row(f"ring:{n}", m, LARGE, t, 1.0) for n in range(4, 8) for m, t in (("a", 1.5), ("b", 2.0))]
    ranked = ranking(Results.of(tmp_path, (*rows, row("ring:4", "few", LARGE, 1.0, 1.0))))
    assert [series.label for series in ranked.series] == ["a", "b", "few"]
    assert ranked.common.tolist() == pytest.approx([0.5, 1.0, math.nan], nan_ok=True)
    assert ranked["mean"].iloc[2] == pytest.approx(0.0)


def test_the_gap_of_a_program_is_that_of_its_incumbent_over_its_bound():
    """Two programs one after the other: only the first had an incumbent that was not optimal."""
    course = "0.1 8 -; 0.2 8 4; 0.3 5 4; 0.4 4 4 | 0.5 3 3"
    rows = [
        row("ring:4", "taccl", 10**6, 3.0, 2.0, program_course=course),
        row("ring:4", "bfb", 10**6, 3.0, 2.0),
    ]
    panel = program_panel(Results.of(Path(), rows), "ring:4", "allgather")
    data = panel.chart.data
    assert data.method.unique().tolist() == ["taccl"]
    assert data.seconds.tolist() == [0.2, 0.3, 0.4, 0.5]
    assert data.gap_percent.tolist() == [100.0, 25.0, 0.0, 0.0]
    assert data.groupby("solve").size().tolist() == [3, 1]
    assert program_panel(Results.of(Path(), rows[1:]), "ring:4", "allgather") is None
