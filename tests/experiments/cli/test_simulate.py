"""``tutti simulate``: the time of the synthesis."""

import json

import pytest

from tests.experiments.cli.commands import SYNTH


def test_a_simulated_file_takes_the_time_of_its_synthesis(tutti, schedule):
    made = json.loads(tutti(*SYNTH, "--json")[1])
    code, out, _ = tutti("simulate", schedule, "--size", "1MB", "--json")
    assert code == 0
    assert json.loads(out)["time_us"] == made["time_us"]
    assert "busiest link" in tutti("simulate", schedule, "--size", "1MB")[1]


def test_reducing_takes_the_time_that_the_network_or_the_command_says(tutti, tmp_path):
    """Halving-doubling, hypercube:3: T_L α + T_B + T_C = 6 0.5 us + 2 7/8 (1 MB / 50 GB/s) + 7/8 γ M."""
    files = {text: str(tmp_path / f"{number}.json") for number, text in enumerate(("", "?reduce=100GB/s"))}
    synth = ("--method", "rhd", "--collective", "allreduce", "--size", "1MB", "--json")
    made = {
        text: json.loads(tutti("synth", f"hypercube:3{text}", *synth, "-o", path)[1])
        for text, path in files.items()
    }
    assert made[""]["time_us"] == pytest.approx(38)
    assert made["?reduce=100GB/s"]["time_us"] == pytest.approx(46.75)
    assert [one["tc_factor"] for one in made.values()] == ["7/8", "7/8"]

    def time(text, *more):
        return json.loads(tutti("simulate", files[text], "--size", "1MB", "--json", *more)[1])["time_us"]

    assert time("") == pytest.approx(38)
    assert time("?reduce=100GB/s") == time("", "--reduce", "100GB/s") == pytest.approx(46.75)
    assert time("?reduce=100GB/s", "--reduce", "50GB/s") == pytest.approx(55.5)
