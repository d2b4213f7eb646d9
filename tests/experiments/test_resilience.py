"""A study of failures on the runner: its samples, losses by hand on a ring, its page, and bad configs."""

from itertools import combinations
from math import comb
from pathlib import Path

import pytest

from tutti.experiments.cli import main
from tutti.experiments.registry import METHODS
from tutti.experiments.resilience import (
    ANEW,
    BEST,
    BOUND,
    COLUMNS,
    DISCONNECTED,
    MADE,
    drawn,
    losses,
    study_of,
)
from tutti.experiments.runner.config import read_config
from tutti.experiments.runner.results import read_rows
from tutti.experiments.runner.study import Workplace, perform
from tutti.topologies import InputError

STUDY = """
name = "study"
{failures}
[[topology]]
spec = "{network}"
[[collective]]
kind = "allgather"
sizes = ["1GB"]
[[method]]
name = "ring"
[run]
workers = 1
"""


def config(folder: Path, failures: str, network: str = "ring:4?bandwidth=1GB/s&alpha=0us") -> Path:
    path = folder / "study.toml"
    path.write_text(STUDY.format(failures=failures, network=network))
    return path


def test_samples_are_different_and_fewer_are_the_first_of_more():
    assert sorted(drawn(5, 3, 100, seed=1)) == list(combinations(range(5), 3))
    for number, count in ((30, 3), (200, 4)):  # listed, and too many for that
        many = drawn(number, count, 50, seed=1)
        assert len(set(many)) == 50
        assert all(len(set(one)) == count and max(one) < number for one in many)
        assert drawn(number, count, 20, seed=1) == many[:20]
        assert drawn(number, count, 20, seed=2) != many[:20]
    assert comb(200, 4) > 10**5


def test_a_ring_loses_half_of_its_bandwidth_with_any_link(tmp_path, capsys):
    """Both ways each link carries 3/8 of M. Without one a rank has a single link, for the 3/4 that it needs.

    Two that are gone cut a ring of four, wherever they are: all six samples are named. The run goes on where
    it stopped.
    """
    path = config(tmp_path, '[failures]\nlinks = [1, 2]\nsamples = "all"')
    assert read_config(path).kind == "failures"
    command = ["run", str(path), "--out", str(tmp_path / "out")]
    assert main([*command, "--only", "*drop_links=?-? *"]) == 0
    assert "4 rows: 4 ok; 6 not run" in capsys.readouterr().out
    assert main(command) == 0
    assert "10 rows: 4 ok, 6 disconnected" in capsys.readouterr().out
    rows = read_rows(tmp_path / "out")
    done = [row for row in rows if row["status"] == "ok"]
    assert [row["made"] for row in done] == 4 * list(MADE)
    for row in done:
        assert row["whole_us"] == pytest.approx(375e3)
        assert row["bound_us"] == pytest.approx(750e3)
        assert row["time_us"] == pytest.approx(750e3)
        assert row["time_us"] >= row["bound_us"] * (1 - 1e-9)
        assert row["loss"] == pytest.approx(row["time_us"] / 375e3 - 1)
        assert (row["changed"] is None) == (row["made"] == ANEW)
    cut = [row for row in rows if row["status"] == DISCONNECTED]
    assert {row["failed"] for row in cut} >= {"0-1,1-2", "0-1,2-3"}
    assert all("cut off from the rest: " in row["message"] for row in cut)
    (case,) = losses(rows)
    assert len(case.disconnected) == 6
    lines = {(line.method, line.made): line for line in case.lines}
    assert set(lines) == {(method, made) for method in (BEST, "ring") for made in (*MADE, BOUND)}
    assert lines[BEST, BOUND].median == pytest.approx(1)
    assert lines[BEST, BOUND].samples == 4
    page = (tmp_path / "out" / "report.html").read_text()
    assert "6 samples cut ranks off" in page
    assert main(["report", str(tmp_path / "out"), "-o", str(tmp_path / "again.html")]) == 0
    assert (tmp_path / "again.html").read_text() == page
    assert set(done[0]) <= set(COLUMNS)


def test_a_schedule_depends_on_the_size_once_a_link_is_slower(tmp_path):
    """On equal links TACOS needs no size; with one slower link it does."""
    path = config(tmp_path, "[failures]\nlinks = 1\ndegrade = 0.5\nsamples = 1")
    path.write_text(path.read_text().replace('name = "ring"', 'name = "tacos"'))
    (task,) = study_of(read_config(path), METHODS).tasks
    rows = perform(task, Workplace(methods=METHODS)).rows
    assert [row["status"] for row in rows] == ["ok"] * len(MADE)


def test_slower_links_and_adapters_of_several_tables(tmp_path):
    tables = '[[failures]]\nlinks = 1\ndegrade = 0.5\nsamples = 2\ntopologies = ["ring*"]\n'
    tables += '[[failures]]\nnics = 2\nsamples = 3\ntopologies = ["dgx*"]\n'
    path = config(tmp_path, tables)
    path.write_text(path.read_text() + '[[topology]]\nspec = "dgx_h100:2"\n')
    tasks = study_of(read_config(path), METHODS).tasks
    slow, gone = ([t for t in tasks if t.whole[0].known["nodes"] == nodes] for nodes in (4, 19))
    assert [len(slow), len(gone)] == [2, 3]
    assert all(f"&degrade={task.failed}:1/2" in task.left for task in slow)
    assert all(task.left.count("-ib") == task.count == 2 for task in gone)
    assert {task.what for task in tasks} == {"links at 1/2 of their bandwidth", "nics"}


@pytest.mark.parametrize(
    ("failures", "text"),
    [
        ("[failures]", r"\[\[failures\]\] 1: give how many fail at once: links = \[1, 2\], or nics$"),
        ("[failures]\nlinks = 1\nnics = 1", "give how many fail at once"),
        ("[failures]\nlinks = []", r"links = \[\]; different whole numbers, at least 1$"),
        ("[failures]\nlinks = [1, 1]", r"links = \[1, 1\]; different whole numbers"),
        ("[failures]\nlinks = 0", "links = 0; different whole numbers, at least 1$"),
        ("[failures]\nlinks = 5", "links = 5; ring:4.* has 4 that can fail$"),
        ("[failures]\nnics = 1", "ring:4.* has no hosts with adapters to fail; links can$"),
        ("[failures]\nlinks = 1\nsamples = 0", "samples = 0; it is 1 to 100000 or 'all'$"),
        ('[failures]\nlinks = 1\nsamples = "some"', "samples = 'some'; it is 1 to 100000 or 'all'$"),
        ("[failures]\nlinks = 1\nseed = -1", "'seed' must be greater than or equal to 0, not -1$"),
        ("[failures]\nlinks = 1\ndegrade = 1.0", "degrade = 1.0; it must be above 0 and below 1$"),
        ("[failures]\nlinks = 1\ndegrade = 2", "degrade = 2; it must be above 0 and below 1$"),
        (
            "[failures]\nlinks = 1\ndegrade = 1e-99",
            r"\[\[failures\]\] 1: degrade: the number 1E-99 is out of",
        ),
        ("[failures]\nlink = 1", r"unknown key 'link'; did you mean 'links'\?$"),
        ('[failures]\nlinks = 1\ntopologies = ["torus*"]', "match none of the networks$"),
    ],
)
def test_bad_failures_get_one_line(tmp_path, failures, text):
    with pytest.raises(InputError, match=text) as caught:
        study_of(read_config(config(tmp_path, failures)), METHODS)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("failures", "text"),
    [
        ('links = 4\nsamples = "all"', "4 of 128 links fail on torus:8x8 in more than 100000 ways; give"),
        ("links = 60\nsamples = 100000", "links = 60 in 100000 samples on torus:8x8; at most 1000000 in all"),
    ],
)
def test_too_many_failures_are_refused(tmp_path, failures, text):
    with pytest.raises(InputError, match=text):
        study_of(read_config(config(tmp_path, f"[failures]\n{failures}", "torus:8x8")), METHODS)


def test_a_method_that_has_no_schedule_then_says_so(tmp_path):
    """Swing is for tori with all their links."""
    path = config(tmp_path, "[failures]\nlinks = 1\nsamples = 1", "torus:4x4")
    path.write_text(path.read_text().replace('"ring"\n', '"swing"\n'))
    (task,) = study_of(read_config(path), METHODS).tasks
    rows = {row["made"]: row for row in perform(task, Workplace(METHODS)).rows}
    assert rows["repaired"]["status"] == rows["rerouted"]["status"] == "ok"
    assert rows[ANEW]["status"] == "unsupported"
    assert rows[ANEW]["message"]
