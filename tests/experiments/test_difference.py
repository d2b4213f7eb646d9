"""What differs between two folders of results, by tables written by hand."""

import json
import math

import pytest

from experiments.difference import difference
from topologies import InputError

HEAD = "topology,collective,size_bytes,method,options,seed,seeds,status,time_us,bound_us,gap,synth_s"
BASE = {
    "topology": "ring:4",
    "collective": "allgather",
    "size_bytes": 1000,
    "method": "bfb",
    "status": "ok",
    "time_us": 10.0,
    "bound_us": 8.0,
    "gap": 0.25,
    "synth_s": 1.0,
}


def folder(path, *rows, head=HEAD, manifest=None):
    path.mkdir()
    names = head.split(",")
    lines = [",".join(str({**BASE, **row}.get(name, "")) for name in names) for row in rows]
    (path / "results.csv").write_text("\n".join([head, *lines]) + "\n")
    if manifest is not None:
        (path / "manifest.json").write_text(json.dumps(manifest))
    return path


def found(tmp_path, was, now):
    return difference(folder(tmp_path / "a", *was), folder(tmp_path / "b", *now))


def test_a_folder_does_not_differ_from_itself(tmp_path):
    here = folder(tmp_path / "a", {}, {"size_bytes": 2000})
    same = difference(here, here)
    assert (same.changes, same.made_with, same.common) == ([], [], 2)


def test_changes_stand_largest_first_and_rows_of_one_folder_last(tmp_path):
    methods = [{"method": name} for name in ("a", "b", "c", "d", "e")]
    now = [
        {"method": "a", "time_us": 11.0, "gap": 0.375},
        {"method": "b", "time_us": 5.0, "gap": -0.375},
        {"method": "c", "status": "timeout", "time_us": "", "gap": ""},
        {"method": "d"},
        {"method": "new"},
    ]
    difference = found(tmp_path, methods, now)
    said = [(change.key[4], change.status) for change in difference.changes]
    assert said == [("c", "ok to timeout"), ("b", ""), ("a", ""), ("e", "lost (ok)"), ("new", "gained (ok)")]
    assert difference.changes[2].rises == pytest.approx({"time": 0.1, "gap": 0.1})  # 1.375/1.25, 11/10
    assert [change.fails(0.05) for change in difference.changes] == [True, False, True, True, False]
    assert [change.fails(0.1) for change in difference.changes] == [True, False, False, True, False]


def test_a_better_bound_is_a_change_and_no_failure_and_a_lost_one_is_both(tmp_path):
    better = found(tmp_path, [{}], [{"bound_us": 10.0, "gap": 0.0}]).changes[0]
    assert better.rises == pytest.approx({"bound": 0.25, "gap": -0.2})
    assert not better.fails(0)
    worse = difference(tmp_path / "b", tmp_path / "a").changes[0]
    assert worse.fails(0.2)
    assert not worse.fails(0.25)


def test_a_seed_names_a_row_only_where_no_other_was_tried(tmp_path):
    one = found(tmp_path, [{"seed": 3, "seeds": 20}], [{"seed": 7, "seeds": 20}])
    assert (one.common, one.changes) == (1, [])
    folder(tmp_path / "c", {"seed": 3, "seeds": 1})
    folder(tmp_path / "d", {"seed": 7, "seeds": 1})
    two = difference(tmp_path / "c", tmp_path / "d")
    assert (two.common, len(two.changes)) == (0, 2)


def test_what_synthesis_took_is_told_by_method_once_for_all_sizes(tmp_path):
    was = [{"size_bytes": size, "topology": f"ring:{n}", "synth_s": n} for n in (1, 2, 4) for size in (1, 2)]
    now = [
        {**row, "synth_s": row["synth_s"] * ratio} for row, ratio in zip(was, [1, 1, 2, 2, 3, 3], strict=True)
    ]
    (effort,) = found(tmp_path, was, now).efforts
    assert (effort.method, sum(effort.was), sum(effort.now)) == ("bfb", 7, 1 + 4 + 12)
    assert effort.quartiles == pytest.approx((1.5, 2, 2.5))


def test_folders_of_earlier_versions_lack_columns_and_the_manifest(tmp_path):
    old = folder(tmp_path / "a", {}, head="topology,collective,size_bytes,method,status,time_us")
    new = folder(tmp_path / "b", {"time_us": 10.0}, manifest={"versions": {"tutti": "2"}})
    difference_ = difference(old, new)
    assert (difference_.common, difference_.changes) == (1, [])
    assert difference_.made_with == [("tutti", None, "2")]


def test_versions_machines_and_configs_that_differ_are_named(tmp_path):
    one = {"versions": {"numba": "1", "code": "x"}, "machine": {"cores": 2}, "config": {"sha256": "1"}}
    two = {"versions": {"numba": "2", "code": "x"}, "machine": {"cores": 4}, "config": {"sha256": "1"}}
    folder(tmp_path / "a", {}, manifest=one)
    folder(tmp_path / "b", {}, manifest=two)
    assert difference(tmp_path / "a", tmp_path / "b").made_with == [("numba", "1", "2"), ("cores", "2", "4")]


def test_of_a_study_of_solvers_answers_and_seconds_are_compared(tmp_path):
    head = "topology,collective,model,method,seed,status,answer,timed_s"
    was = folder(tmp_path / "a", {"model": "mcf", "answer": "right", "timed_s": 2}, head=head)
    now = folder(tmp_path / "b", {"model": "mcf", "answer": "wrong", "timed_s": 4}, head=head)
    (change,) = difference(was, now).changes
    assert change.status == "ok to wrong"
    assert math.isinf(change.size)
    assert difference(was, was).efforts[0].was == [2]
    methods = folder(tmp_path / "c", {})
    with pytest.raises(InputError, match="a is of a study of solvers, and the other is not"):
        difference(was, methods)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no results.csv"),
        ("a,b\n1,2\n", "no column method, status, topology; only rows of methods and"),
        ("a\n1,2\n3\n", "no "),
    ],
)
def test_what_is_no_folder_of_results_is_refused(tmp_path, content, said):
    if content is not None:
        (tmp_path / "results.csv").write_text(content)
    with pytest.raises(InputError, match=said):
        difference(tmp_path, tmp_path)


def test_a_table_without_rows_has_none(tmp_path):
    folder(tmp_path / "a", {})
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "results.csv").write_text("")
    assert [one.status for one in difference(tmp_path / "a", tmp_path / "b").changes] == ["lost (ok)"]
