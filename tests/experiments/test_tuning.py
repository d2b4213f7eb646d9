"""Which schedules a set of files holds: against all ways to cut the sizes, and by hand."""

import itertools
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from tutti.experiments.cli import main
from tutti.experiments.tuning import Tuning, Winner, choose


def best_mean_loss(times: np.ndarray, most: int) -> float:
    """Of all ways to cut the sizes into at most so many ranges, each with the schedule that suits it best."""
    loss, number = times / times.min(axis=0), times.shape[1]
    cuts = (c for parts in range(most) for c in itertools.combinations(range(1, number), parts))
    return min(
        sum(loss[:, a:b].sum(axis=1).min() for a, b in itertools.pairwise([0, *cut, number])) for cut in cuts
    )


@pytest.mark.parametrize("seed", range(20))
def test_ranges_have_the_least_mean_loss(seed):
    rng = np.random.default_rng(seed)
    times = rng.integers(1, 9, (int(rng.integers(1, 5)), int(rng.integers(1, 8)))).astype(float)
    most = int(rng.integers(1, 4))
    winners = list(choose(times, most))
    assert len(winners) <= most
    assert [w.first for w in winners] == [0, *(w.last + 1 for w in winners[:-1])]
    assert winners[-1].last == times.shape[1] - 1
    loss = times / times.min(axis=0)
    total = sum(loss[w.candidate, w.first : w.last + 1].sum() for w in winners)
    assert total == pytest.approx(best_mean_loss(times, most))


def test_one_schedule_that_is_always_the_fastest_is_one_file():
    assert list(choose(np.array([[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]]), 4)) == [Winner(0, 0, 2)]
    assert list(choose(np.array([[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]]), 10**15)) == [Winner(0, 0, 2)]


@pytest.mark.parametrize("files", ["0", "-1"])
def test_no_files_are_refused(files, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["tune", "ring:4", "--files", files, "-o", str(out)]) == 2
    assert (
        capsys.readouterr().err
        == f"tutti: option --files is {files}; it must be a whole number, at least 1\n"
    )
    assert not out.exists()


def test_a_range_ends_where_the_lines_of_two_schedules_cross():
    # By hand: 1 + M/10 and 3 + M/20 cross at M = 40, between the sizes 20 and 60.
    times = np.array([[3.0, 7.0], [4.0, 6.0]])
    tuned = Tuning(np.array([20, 60]), [], times, np.zeros(2), [Winner(0, 0, 0), Winner(1, 1, 1)])
    assert [tuned.limits(winner) for winner in tuned.winners] == [(0, 40), (40, None)]


def test_a_set_is_written_with_its_ranges_and_loader(tmp_path, capsys):
    where = tmp_path / "set"
    arguments = ["--sizes", "1KB,1GB", "--methods", "ring,recursive_doubling", "-o", str(where), "--json"]
    assert main(["tune", "hypercube:3", "--collective", "allreduce", *arguments]) == 0
    said = json.loads(capsys.readouterr().out)
    # Recursive doubling has 3 steps of all data, the ring 14 of an eighth: few bytes want the one.
    assert [line["method"] for line in said["files"]] == ["recursive_doubling", "ring"]
    first, second = (ET.parse(where / line["file"]).getroot() for line in said["files"])
    assert first.get("maxBytes") == second.get("minBytes") == str(said["files"][1]["from"])
    assert [root.get("name") for root in (first, second)] == [
        "recursive_doubling_allreduce_of_8_ranks",
        "ring_allreduce_of_8_ranks",
    ]
    assert "MSCCL_XML_FILES=" in (where / "load.env").read_text()
    assert Path(said["report"]).exists()


def test_plans_have_names_of_their_own_and_say_how_they_are_loaded(tmp_path, capsys):
    sizes = ["--sizes", "1KB,1GB", "--methods", "ring,recursive_doubling", "--format", "mscclpp"]
    words = ["hypercube:3", "--collective", "allreduce", *sizes, "-o", str(tmp_path), "--json"]
    assert main(["tune", *words]) == 0
    said = json.loads(capsys.readouterr().out)
    plans = [json.loads((tmp_path / line["file"]).read_text()) for line in said["files"]]
    assert [plan["collective"] for plan in plans] == ["allreduce"] * 2
    first, second = (plan["name"] for plan in plans)
    assert first.startswith("recursive_doubling allreduce of 8 ranks, Simple, out of place, 0 to ")
    assert second.startswith("ring allreduce of 8 ranks, Simple, out of place, ")
    lines = (tmp_path / "load.env").read_text().splitlines()
    assert all(line.startswith("#") for line in lines)
    for line in said["files"]:
        assert f'# mscclpp.ExecutionPlan("{tmp_path / line["file"]}", rank)' in lines


@pytest.mark.parametrize("form", ["msccl", "nccl-tuner"])
def test_a_file_in_place_of_the_folder_is_refused(form, tmp_path, capsys):
    taken = tmp_path / "taken"
    taken.touch()
    assert main(["tune", "dgx1", "--format", form, "-o", str(taken)]) == 2
    assert capsys.readouterr().err == f"tutti: {taken}: not a folder\n"


def test_formats_without_ranges_are_refused(tmp_path, capsys):
    assert main(["tune", "ring:4", "--format", "listing", "-o", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "format 'listing' has no ranges of sizes; with ranges: msccl, mscclpp" in said
