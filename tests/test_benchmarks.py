"""The benchmarks: what counts as missed, and how numbers are compared and printed."""

import json

import pytest

import benchmarks
from benchmarks import TACOS_CASES, Measurement, _tacos_case, at_most, best_of_three, exactly

SLOW, RIGHT, WRONG = (
    at_most("c", "s", 2.0, 1.0),
    exactly("c", "q", 1, 1),
    exactly("c", "q", 1, 2),
)


@pytest.mark.parametrize(("found", "code"), [([RIGHT], 0), ([RIGHT, SLOW], 0), ([SLOW, WRONG], 1)])
def test_only_a_missed_exact_target_is_exit_1(tmp_path, monkeypatch, capsys, found, code):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(benchmarks.BENCHMARKS, "x", lambda: iter(found))
    assert benchmarks.main(["--only", "x"]) == code
    out = capsys.readouterr().out
    assert f"{sum(m is WRONG for m in found)} of {len([m for m in found if m.exact])} exact target" in out
    assert len(json.loads((tmp_path / "results" / "bench.json").read_text())["measurements"]) == len(found)


def test_a_time_has_the_digits_of_its_target(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    case = [Measurement("c", "time, us", 8890.88888, "at most 8890.8889", True, decimals=4)]
    monkeypatch.setitem(benchmarks.BENCHMARKS, "x", lambda: iter(case))
    benchmarks.main(["--only", "x"])
    assert " 8890.8889  at most 8890.8889 " in capsys.readouterr().out


def test_the_tacos_cases_reach_the_peer_and_the_chunk_bound():
    """TACOS C++ (peers_measured.csv): 8890.8889 us, 4 steps; 8 chunks over a corner's 2 links are 4 steps."""
    case = "mesh:3x3 1 chunk 1024 MiB 50 GiB/s 0.5 us allgather"
    time, steps = _tacos_case(case, *TACOS_CASES[case])
    assert time.reached
    assert time.exact
    assert (steps.value, steps.target, steps.published) == ("4", "4", "4 steps, the bound")


@pytest.mark.parametrize("seconds", [[3.0, 1.0, 1.0], [1.0, 0.5, 2.0]])
def test_a_short_time_is_the_best_of_three_and_a_long_one_is_taken_once(seconds):
    times = iter(seconds)
    assert best_of_three(lambda: ("result", next(times))) == ("result", 3.0 if seconds[0] > 2 else 0.5)
