"""Results of other code are taken over with this code's bounds, and nothing else of them changes."""

import json
import shutil
from fractions import Fraction

import pytest

from tests.experiments.runner.test_run import HEAD, as_files, comparable, go, write_config
from tutti.experiments.cli import main
from tutti.experiments.runner import results

METHODS = ('name = "good"', 'name = "hopeless"')
SMALL = HEAD.replace("[4, 5]", "[4]")
MARK = 123.0
"""Seconds of synthesis that no run here takes: who has them was not made anew."""


@pytest.fixture(scope="module")
def other_code(tmp_path_factory):
    """Return a directory with results of other code."""
    folder = tmp_path_factory.mktemp("other")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(results, "code_digest", lambda *folders: "other code")
        go(write_config(folder, *METHODS, 'name = "picky"', 'name = "lucky"\nseeds = 2', head=SMALL), folder)
    return folder


@pytest.fixture
def old(other_code, tmp_path):
    """Return a config and a copy of those results, whose bounds are half of what is true."""
    shutil.copytree(other_code, tmp_path / "out")
    change(tmp_path / "out", halve)
    return write_config(tmp_path, *METHODS, head=SMALL), tmp_path / "out"


def change(out, how):
    folder = as_files(out) if not (out / "tasks").exists() else out / "tasks"
    for path in folder.iterdir():
        document = json.loads(path.read_text())
        how(document)
        document.pop("sha256", None)  # as the first versions wrote them
        path.write_text(json.dumps(document))


def halve(document):
    for row in document["rows"]:
        if row["status"] == "ok":
            row |= {"bound_us": row["bound_us"] / 2, "gap": 2 * row["gap"] + 1, "synth_s": MARK}
        if row["status"] == "unsupported":
            row["message"] = "as it was"
    bounds = document["bounds"].items()
    document["bounds"] = {key: [str(Fraction(seconds) / 2), kind] for key, (seconds, kind) in bounds}


def rows_of(summary, method):
    return [row for row in summary.rows if row["method"] == method]


def test_times_stay_and_bounds_are_new(old, tmp_path):
    config, out = old
    summary, _ = go(config, out, rejudge=True)
    fresh, _ = go(config, tmp_path / "fresh")
    assert comparable(out) == comparable(tmp_path / "fresh")
    assert [row["synth_s"] for row in rows_of(summary, "good")] == [MARK] * 2
    assert all(row["bound_us"] > 0 for row in rows_of(fresh, "good"))


def test_what_was_unsupported_is_asked_again(old, tmp_path):
    summary, _ = go(write_config(tmp_path, 'name = "picky"', head=SMALL), old[1], rejudge=True)
    assert {row["message"] for row in rows_of(summary, "picky")} == {
        "picky does nothing, and ring:4 is something"
    }


def test_a_larger_bound_of_the_method_itself_stays(old):
    """The common bound of the file says half of what a row of it was judged by: so that one is its own."""
    config, out = old

    def prove(document):
        for row in document["rows"]:
            if row["status"] == "ok":
                row |= {"bound_us": row["time_us"] / 1.25, "bound_kind": "lp", "gap": 0.25}

    change(out, prove)
    summary, _ = go(config, out, rejudge=True)
    assert [(row["bound_kind"], row["gap"]) for row in rows_of(summary, "good")] == [("lp", 0.25)] * 2
    assert [row["synth_s"] for row in rows_of(summary, "good")] == [MARK] * 2


def test_a_time_below_the_bound_is_made_anew(old):
    config, out = old

    def hurry(document):
        for row in document["rows"]:
            if row["status"] == "ok":
                row["time_us"] = 1e-6

    change(out, hurry)
    summary, _ = go(config, out, rejudge=True)
    assert all(row["gap"] >= 0 and row["synth_s"] < MARK for row in rows_of(summary, "good"))


def test_results_of_other_numbers_of_seeds_are_not_taken(old, tmp_path):
    config = write_config(tmp_path, 'name = "lucky"\nseeds = 3', head=SMALL)
    summary, _ = go(config, old[1], rejudge=True)
    assert all(row["seeds"] == 3 and row["synth_s"] < MARK for row in summary.rows)


def test_values_that_are_none_of_a_result_are_passed_over(old):
    config, out = old
    spoilt = iter(["abc", "1/0", None, 5])

    def spoil(document):
        if document["status"] == "ok":
            document["rows"][0]["time_us"] = next(spoilt)
        else:
            document["bounds"] = {"x": ["1/0", "cut"]}

    change(out, spoil)
    summary, _ = go(config, out, rejudge=True)
    assert [row["status"] for row in summary.rows] == ["ok", "infeasible"] * 2
    assert all(row["synth_s"] < MARK for row in rows_of(summary, "good"))


@pytest.mark.parametrize("text", ["{", "{}"])
def test_a_damaged_file_is_passed_over(text, old):
    config, out = old
    path = next(path for path in (out / "tasks").glob("*.json") if "hopeless" in path.read_text())
    path.write_text(text)
    summary, _ = go(config, out, rejudge=True)
    assert [row["status"] for row in summary.rows] == ["ok", "infeasible"] * 2
    assert [row["synth_s"] for row in rows_of(summary, "good")] == [MARK] * 2


@pytest.mark.parametrize("name", ["solvers", "resilience"])
def test_other_studies_are_not_judged_again(name, capsys):
    assert main(["run", f"configs/{name}.toml", "--rejudge"]) == 2
    why = "only the bounds of a plain comparison of methods are computed again"
    assert f"--rejudge: configs/{name}.toml is another study; {why}" in capsys.readouterr().err
