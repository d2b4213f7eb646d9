"""``tutti synth -o FILE.rounds`` and ``tutti verify FILE.rounds``."""

import json
from fractions import Fraction

import numpy as np
import pytest

from tutti.experiments.runner import progress
from tutti.schedules.files.rounds import read_head, read_rounds

SYNTH = ["synth", "mesh:4x4", "--method", "tacos", "--size", "1MB"]


def test_a_table_is_made_verified_and_costed(tutti, tmp_path):
    path = tmp_path / "a.rounds"
    torus = ["synth", "torus:4x4", *SYNTH[2:], "--collective", "allreduce"]
    code, out, _ = tutti(*torus, "-o", path, "--json")
    document = json.loads(out)
    assert code == 0
    assert document["verified"] is True
    assert document["transfers"] == 2 * 16 * 15
    steps = document["tl_steps"]
    assert steps == read_rounds(path).steps
    # every step moves a sixteenth of M over a link of 50 GB/s, half a microsecond of alpha each
    assert document["time_us"] == pytest.approx(steps * (0.5 + 1e6 / 16 / 50e9 * 1e6))
    assert Fraction(document["tb_factor"]) == Fraction(steps, 16) * 4
    assert document["gap"] == pytest.approx(document["time_us"] / document["bound_us"] - 1)
    assert tutti("verify", path)[:2] == (0, "legal: 480 transfers, allreduce on torus:4x4, step clock\n")


def test_a_table_is_of_the_seed_that_is_asked_for(tutti, tmp_path):
    made = {}
    for name, words in {"first": (), "again": ("--seed", 0), "other": ("--seed", 5)}.items():
        path = tmp_path / f"{name}.rounds"
        code, out, _ = tutti(*SYNTH, *words, "-o", path, "--json")
        made[name] = json.loads(out)["seed"], path.read_bytes()
        assert code == 0
    assert made["first"] == made["again"]
    assert made["other"][0] == 5
    assert made["other"][1] != made["first"][1]


def test_a_spoilt_table_fails_verification(tutti, tmp_path):
    path = tmp_path / "a.rounds"
    assert tutti(*SYNTH, "-o", path)[0] == 0
    _, begin = read_head(path)
    cells = np.memmap(path, np.uint16, "r+", begin)
    cells[np.flatnonzero(cells != 2**16 - 1)[3]] = 2**16 - 1
    cells.flush()
    code, _, err = tutti("verify", path)
    assert code == 1
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (["synth", "ring:4", "--method", "bfb", "--size", "1MB"], 3, "bfb writes no table of rounds"),
        ([*SYNTH, "--seeds", "2"], 2, "--seeds 2: a table of rounds is of one seed"),
        ([*SYNTH, "--collective", "broadcast"], 3, "not of broadcast"),
        ([*SYNTH, "--option", "memory=100B"], 2, "GB of memory; allowed are 1e-07 GB"),
    ],
)
def test_what_is_not_done_is_said_in_one_line(tutti, tmp_path, arguments, code, what):
    found, _, err = tutti(*arguments, "-o", tmp_path / "a.rounds")
    assert (found, err.count("\n")) == (code, 1)
    assert what in err


def test_other_commands_say_what_reads_it(tutti, tmp_path):
    code, _, err = tutti("simulate", tmp_path / "a.rounds", "--size", "1MB")
    assert (code, err.count("\n")) == (2, 1)
    assert "made by tutti synth and read by tutti verify, no more" in err


def test_progress_is_told_now_and_then(tutti, tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "PACE", progress.PACE._replace(plain=-1.0))
    monkeypatch.setattr("tutti.heuristics.tacos.on_disk.TOLD", 1)
    _, out, err = tutti(*SYNTH, "-o", tmp_path / "a.rounds")
    assert "tutti: round 1, 2" in err
    assert "all legal" in out
