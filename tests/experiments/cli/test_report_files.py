"""The charts of a page as files, and its tables for LaTeX."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from tests.experiments.report.test_page import failed, row, two_by_two, write_run
from tutti.experiments.cli.report import (
    GROUPS,
    MISSING,
    choice,
    for_paper,
    paper_tables,
    write_figures,
    write_tables,
)
from tutti.experiments.report.comparisons import case_table, gap_parts, method_table, over_exact, summary
from tutti.experiments.report.page import contents, figures_of
from tutti.experiments.report.results import read_results
from tutti.experiments.report.tables import escaped, latex
from tutti.topologies import InputError


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    return contents(read_results(write_run(tmp_path_factory.mktemp("shown"), two_by_two())))


def chosen(shown, name="algbw"):
    return [next(figure for figure in figures_of(shown) if figure.chart == name)]


def by_case(results, topology, kind):
    return latex(case_table(results, topology, kind))


def test_every_chart_of_the_page_is_a_figure(shown):
    """Two networks and collectives: four panels of each kind, and one of networks of one size."""
    charts = [figure.chart for figure in figures_of(shown)]
    assert charts[0] == "share"
    assert [charts.count(name) for name in ("algbw", "pareto", "effort", "frontier")] == [4, 4, 4, 1]


def test_a_figure_holds_its_own_rows_and_names_the_methods_that_are_there(tmp_path):
    rows = [row(), row(method="bfb", topology="ring:4"), row(size_bytes=10)]
    page = contents(read_results(write_run(tmp_path, rows)))
    figure = next(f for f in figures_of(page) if f.description == "algbw against size, ring:3, allgather")
    spec = for_paper(figure, page["charts"], page["rows"])
    assert [(r["method"], r["size_bytes"]) for r in spec["datasets"]["rows"]] == [
        ("ring", 10**6),
        ("ring", 10),
    ]
    assert {param["name"]: param.get("value") for param in spec["params"]} == {
        "present": ["ring"],
        "hot": None,
    }
    assert "NaN" not in json.dumps(spec)


@pytest.mark.parametrize(("suffix", "magic"), [("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_a_figure_is_written(shown, tmp_path, suffix, magic):
    pytest.importorskip("vl_convert")
    (path,) = write_figures(shown, chosen(shown), tmp_path / "new" / "folder", suffix)
    assert path.name == f"001_algbw_against_size_ring_3_allgather.{suffix}"
    assert path.read_bytes().startswith(magic)


def test_an_svg_names_every_line_and_axis_and_is_the_same_again(shown, tmp_path):
    pytest.importorskip("vl_convert")
    first, again = (
        write_figures(shown, chosen(shown), tmp_path / name, "svg")[0].read_text() for name in "ab"
    )
    assert first == again
    assert {"ring", "bfb", "size M", "algbw (GB/s)"} <= set(re.findall(r">([^<]+)</text>", first))


def test_an_unknown_format_is_refused(shown, tmp_path):
    with pytest.raises(InputError, match="--format 'bmp': a figure is one of svg, pdf, png"):
        write_figures(shown, [], tmp_path, "bmp")


def test_a_figure_that_cannot_be_written_is_refused(shown, tmp_path):
    pytest.importorskip("vl_convert")
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match="can't write the figure: File exists"):
        write_figures(shown, chosen(shown), tmp_path / "taken", "svg")


def test_without_vl_convert_its_extra_is_named(shown, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    with pytest.raises(InputError, match=re.escape(MISSING)):
        write_figures(shown, chosen(shown), tmp_path, "svg")


def test_the_table_of_gaps_has_the_gaps_and_the_least_in_bold(tmp_path):
    rows = [
        row(method="swing_2"),
        row(method="b&b", gap=0.5, time_us=12.0),
        failed("unsupported", method="rhd"),
    ]
    results = read_results(write_run(tmp_path, rows))
    lines = [line.strip() for line in by_case(results, "ring:3", "gaps").splitlines()]
    assert r"collective & size & LB & swing\_2 & b\&b & rhd \\" in lines
    assert r"allgather & 1MB & 8 us cut & \textbf{25.0} 10 us & 50.0 12 us & n/a \\" in lines
    assert [line for line in lines if "rule" in line] == [r"\toprule", r"\midrule", r"\bottomrule"]


def test_the_table_of_methods_has_a_line_a_method_by_rank(tmp_path):
    found = body(latex(method_table(read_results(write_run(tmp_path, two_by_two())))))
    told = [line.split(" & ")[:6] for line in found]
    assert told == [
        ["1", "bfb", "heuristic", "0", "12 of 12", "12"],
        ["2", "ring", "heuristic", "25.0", "12 of 12", "0"],
    ]


def body(text):
    """Return the lines of a table between its rules."""
    assert r"\caption{" in text
    rules = text.index(r"\midrule"), text.index(r"\bottomrule")
    return [line.strip() for line in text[slice(*rules)].splitlines()[1:]]


def against_ring(tmp_path):
    """ring takes 10 us, bfb 8 us: 1 MB at 100 and 125 GB/s, and 1.25 times as fast."""
    rows = [
        row(busbw_gbps=50.0),
        row(method="bfb", gap=0.0, time_us=8.0, algbw_gbps=125.0, busbw_gbps=62.5),
    ]
    return read_results(write_run(tmp_path, rows, {"settings": {"baseline": "ring"}}))


def test_bandwidths_and_speed_ups_have_tables(tmp_path):
    results = against_ring(tmp_path / "run")
    assert [path.name for path in write_tables(paper_tables(results), tmp_path)][3:] == [
        f"{kind}_0_ring_3.tex" for kind in ("gaps", "bandwidth", "speedup")
    ]
    assert body(by_case(results, "ring:3", "bandwidth")) == [
        r"allgather & 1MB & 125 & 100 / 50 & \textbf{125 / 62.5} \\"
    ]
    assert body(by_case(results, "ring:3", "speedup")) == [
        r"allgather & 1MB & 8 us & 1.00$\times$ & \textbf{1.25$\times$} \\"
    ]
    assert [line.split(" & ")[-2] for line in body(latex(method_table(results)))] == [
        r"1.25$\times$",
        r"1.00$\times$",
    ]
    assert "Speed-up over ring, on ring:3" in by_case(results, "ring:3", "speedup")


def test_a_chart_against_size_is_a_figure_in_each_measure(tmp_path):
    told = [f.description for f in figures_of(contents(against_ring(tmp_path))) if "bars" in f.chart]
    assert told == [f"{what}, ring:3, allgather" for what in ("algbw", "busbw", "speed-up over ring")]


def test_every_network_has_a_file_of_its_own(tmp_path):
    results = read_results(write_run(tmp_path / "run", two_by_two()))
    names = [path.name for path in write_tables(paper_tables(results), tmp_path / "tex")]
    ends = [f"{kind}_{ring}.tex" for ring in ("0_ring_3", "1_ring_4") for kind in ("gaps", "bandwidth")]
    sizes = [f"summary{at}.tex" for at in ("", "_1KB", "_1MB", "_1GB")]
    assert names == ["methods.tex", *sizes, "parts.tex", *ends]
    assert all("booktabs" in path.read_text() for path in (tmp_path / "tex").iterdir())


def test_a_table_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "taken").write_text("")
    results = read_results(write_run(tmp_path / "run", [row()]))
    with pytest.raises(InputError, match="can't write the table: File exists"):
        write_tables(paper_tables(results), tmp_path / "taken")


@pytest.mark.parametrize(
    ("text", "tex"),
    [("a_b{c}", r"a\_b\{c\}"), ("\\x", r"\textbackslash{}x"), ("5 %", r"5 \%"), ('<a|"b"', "$<$a$|$''b''")],
)
def test_signs_of_latex_are_escaped_once(text, tex):
    assert escaped(text) == tex


def test_joined_runs_are_as_one(tmp_path):
    """Of a case that both have, the faster row counts; each keeps its manifest."""
    first = write_run(tmp_path / "a", [row(), row(topology="ring:4")], {"name": "one", "seed": 1})
    other = write_run(tmp_path / "b", [row(time_us=9.0, gap=0.125), row(method="bfb")], {"name": "two"})
    joined = read_results(first, other)
    assert joined.name == "one and two"
    assert [series.label for series in joined.series] == ["ring", "bfb"]
    assert joined.cases["ring:3", "allgather", 10**6][0].time_us == 9.0
    assert joined.manifest[str(first)] == {"name": "one", "seed": 1}
    assert len(joined.rows) == 4


def test_a_joined_run_finds_the_schedules_of_each(tmp_path):
    digest = "0" * 64
    other = write_run(tmp_path / "b", [row(schedule=digest)])
    (other / "schedules").mkdir()
    (other / "schedules" / f"{digest}.json.gz").write_bytes(b"")
    joined = read_results(write_run(tmp_path / "a", [row(schedule="1" * 64)]), other)
    assert [joined.kept(each) is not None for each in joined.rows.itertuples()] == [False, True]


def test_what_is_not_a_number_is_no_value_in_a_figure(tmp_path):
    page = contents(read_results(write_run(tmp_path, [row(bound_us=None, gap=None)])))
    figure = next(f for f in figures_of(page) if f.chart == "bars algbw")
    (only,) = for_paper(figure, page["charts"], page["rows"])["datasets"]["rows"]
    assert only["limit_gbps"] is None
    assert pd.isna(page["rows"].limit_gbps[0])


def test_the_panels_of_a_paper_fill_their_rows(tmp_path):
    """Six panels: two rows of three."""
    rows = [row(topology=t, collective=c) for t in "abc" for c in ("allgather", "allreduce")]
    page = contents(read_results(write_run(tmp_path, rows)))
    figure = next(figure for figure in figures_of(page) if figure.chart == "share")
    assert for_paper(figure, page["charts"], page["rows"])["columns"] == 3


def test_pages_and_tables_say_in_what_an_exact_method_is_optimal(tmp_path):
    exact = {"method": "mcf", "kind": "exact", "exact_for": "bytes"}
    results = read_results(write_run(tmp_path, [row(), row(**exact)]))
    assert [series.kind for series in results.series] == [row()["kind"], "exact for bytes"]
    for text in (latex(method_table(results)), by_case(results, "ring:3", "gaps")):
        (caption,) = re.findall(r"\\caption\{(.*)\}", text)
        assert caption.endswith(". mcf is exact for bytes.")


def test_a_paper_has_the_ratios_the_parts_and_the_networks_too(tmp_path):
    """10 us over the exact method's 8 us, which is the bound."""
    rows = [row(), row(method="mcf", kind="exact", exact_for="bytes", time_us=8.0, gap=0.0)]
    results = read_results(write_run(tmp_path, rows))
    assert [line.split(" & ")[3:] for line in body(latex(over_exact(results)))] == [
        ["mcf", "bytes", "", "", r"1.250 (1) \\"],
        ["mcf", "bytes", "8 us", "", r"1.250 10 us \\"],
    ]
    (parts,) = body(latex(gap_parts(results)))
    assert parts.split(" & ")[3:] == ["8 us cut", "", "8 us", "mcf", "0", "25.0 10 us", r"\textbf{0} 8 us \\"]
    assert body(latex(summary(results))) == [r"ring & 25.0 \\", r"mcf & \textbf{0} \\"]
    for table in (over_exact(results), gap_parts(results), summary(results)):
        text = latex(table)
        assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 1
        columns = re.search(r"\\begin\{tabular\}\{(.*)\}", text)[1]
        assert {line.count(" & ") + 1 for line in body(text)} == {len(columns)}


@pytest.mark.parametrize(
    ("asked", "folder", "groups"),
    [
        ("bandwidth,gaps", "run/figures", ("bandwidth", "gaps")),
        ("paper/gaps", "paper", ("gaps",)),
        ("paper", "paper", tuple(GROUPS)),
    ],
)
def test_figures_can_be_chosen(asked, folder, groups):
    found = choice(Path(asked), Path("run/figures"))
    assert found == (Path(folder), frozenset().union(*(GROUPS[group] for group in groups)))


def test_every_chart_is_of_a_group_or_drawn_on_a_network(shown):
    small = {"matrix", "histogram"}  # of links, which figures leave out
    specs = {name.removesuffix(" log") for name in shown["charts"]["specs"]}
    assert specs - small == frozenset().union(*GROUPS.values())
