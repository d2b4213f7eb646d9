"""Tables of a run in Markdown pages: what they say, and that all else of a page stays."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.experiments.report.test_overview import LARGE, SMALL, row, without
from tests.experiments.report.test_page import row as record
from tests.experiments.report.test_page import write_run
from tutti.experiments.report.markdown import BLOCK, filled, main
from tutti.experiments.report.results import Results
from tutti.topologies import InputError

ROOT = Path(__file__).parents[3]
LINKS = "?bandwidth=25GB/s"


@pytest.fixture
def results(tmp_path):
    """Return one network and two methods: `b` is optimal at 1 KB and has no time at 1 GB."""
    rows = [
        row(f"ring:4{LINKS}", "a", SMALL, 2.0, 1.0, synth_s=2.0),
        row(f"ring:4{LINKS}", "b", SMALL, 1.0, 1.0, synth_s=0.5),
        row(f"ring:4{LINKS}", "a", LARGE, 15.0, 10.0, synth_s=2.0),
        without(f"ring:4{LINKS}", "b", LARGE, "timeout"),
    ]
    return Results.of(tmp_path, rows)


def page(words, before=""):
    return f"# Title\n\n<!-- results: {words} -->\n{before}<!-- end -->\n\nThe rest.\n"


def table(results, words):
    """Return the lines of a table as lists of cells, without the rule under the head."""
    lines = filled(page(words), results).splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")]
    assert set(rows[1]) == {"---"}
    assert len({line.count("|") for line in lines if line.startswith("|")}) == 1
    return [rows[0], *rows[2:]]


def test_the_least_gap_and_whose_at_the_sizes_asked_for(results):
    assert table(results, "least 1GB 1KB") == [
        ["network", "allgather 1GB", "allgather 1KB"],
        ["`ring:4`", "50.0 a", "0 b"],
    ]


def test_the_least_gaps_of_a_collective_at_every_size(results):
    assert table(results, "gaps allgather") == [["network", "1KB", "1GB"], ["`ring:4`", "0 b", "50.0 a"]]


def test_the_gaps_of_all_methods(results):
    assert table(results, "map allgather 1KB") == [["gap, %", "`ring:4`"], ["`a`", "100"], ["`b`", "**0**"]]


def test_the_methods_by_their_mean_gap(results):
    """b: 0 %, one time of two; a: 100 and 50 %, twice and once the best time: sqrt(2) times slower."""
    head, b, a = table(results, "methods")
    assert dict(zip(head, a, strict=True))["gap, %"] == f"{100 * ((1.01 * 0.51) ** 0.5 - 0.01):.1f}"
    assert dict(zip(head, a, strict=True))["slower than the best"] == "1.41×"
    assert dict(zip(head, b, strict=True)) == {
        "method": "`b`", "gap, %": "0", "smallest size": "0", "largest size": "",
        "slower than the best": "1.00×", "best in": "1", "has a time": "1", "not defined": "",
        "no schedule": "", "time limit": "1", "failed": "", "synthesis, median": "500 ms",
    }  # fmt: skip


def test_speed_ups_and_bandwidths_of_a_network(results):
    """At 1 KB b is twice as fast as a."""
    compared = replace(results, baseline="a")
    name = f"ring:4{LINKS}"
    assert table(compared, f"speedup {name}")[1:] == [
        ["allgather", "1KB", "1 us", "1.00×", "**2.00×**"],
        ["allgather", "1GB", "15 us", "**1.00×**", "timeout"],
    ]
    assert table(compared, f"bandwidth {name}")[0] == ["collective", "size", "limit", "`a`", "`b`"]
    assert table(compared, "methods")[0][5] == "speed-up over a"


def test_times_and_what_leaves_hosts(results):
    rows = results.rows.assign(global_bytes=results.rows.method.map({"b": 1.5e9}))
    told = table(replace(results, rows=rows), "traffic allgather 1KB")
    assert told[0] == ["method", "`ring:4`"]
    assert [line[0] for line in told[1:]] == ["`a`", "`b`"]
    assert "," not in told[1][1]
    assert told[2][1].endswith(", 1500 MB")
    assert [line[0] for line in table(results, "traffic allgather 1GB")[1:]] == ["`a`"]  # b has no time


def test_all_else_of_a_page_stays(results):
    text = filled(page("rows", before="old\n"), results)
    told = "Topologies: 1; collectives: 1; methods: 2; rows: 4 (3 ok, 1 timeout)."
    assert text == page("rows", before=f"{told}\n")
    assert filled(text, results) == text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("leest 1GB", "unknown table 'leest'; did you mean 'least'?"),
        ("gaps allreduce", "the run has no collective 'allreduce'"),
        ("gaps", "wrong number of words"),
        ("least 5MB", "allgather was not run at 5MB; its sizes are 1KB, 1GB"),
        ("map allgather 5MB", "allgather was not run at 5MB; its sizes are 1KB, 1GB"),
        ("least 5", "'5'"),
    ],
)
def test_a_wrong_marker_is_an_error_in_one_line(results, words, message):
    with pytest.raises(InputError) as error:
        filled(page(words), results)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_the_command_fills_in_pages(tmp_path, capsys):
    run = write_run(tmp_path / "run", [record(method="ring"), record(method="bfb")])
    target = tmp_path / "page.md"
    target.write_text(page("rows"))
    assert main([str(run), str(target)]) == 0
    assert "rows: 2 (2 ok)" in target.read_text()
    assert main([str(tmp_path / "none"), str(target)]) == 2
    assert main([str(run)]) == 2
    assert "usage" in capsys.readouterr().err


def test_the_page_of_rivals_asks_for_tables_of_its_run():
    """Every table that it asks for can be made of a run of those collectives and sizes."""
    kinds = ("allgather", "allreduce", "all-to-all")
    rows = [row("ring:4", "a", size, 3.0, 2.0, collective=kind) for kind in kinds for size in (1e6, 1e9)]
    text = (ROOT / "docs/rivals.md").read_text(encoding="utf-8")
    made = filled(text, Results.of(ROOT, rows))
    assert made.count("| method | `ring:4` |") == len(re.findall(r"<!-- results: traffic ", text)) > 0
    assert text.count("<!-- results: ") == text.count("<!-- end -->") == len(BLOCK.findall(text))
