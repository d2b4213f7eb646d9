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


def test_connections_of_a_port_slow_it_if_the_command_says_so(tutti, tmp_path):
    """Each of 8 ranks sends 1 MB / 8 to 7 others at 300 GB/s: with 0.1 a byte takes 1 + 6/10 of its time."""
    path = tmp_path / "direct.json"
    synth = ("--method", "direct", "--collective", "allgather", "--size", "1MB", "-o", path)
    assert tutti("synth", "dgx_a100:1", *synth)[0] == 0

    def run(*more):
        return json.loads(tutti("simulate", path, "--size", "1MB", "--json", *more)[1])

    plain, slow = run(), run("--congestion", "0.1")
    assert (plain["congestion"], slow["congestion"]) == ("0", "1/10")
    assert slow["time_us"] - plain["time_us"] == pytest.approx(7 * 0.6 * 1e12 / 8 / 300e9)
    for wrong, words in (
        ("x", "'x' is not a number"),
        ("-0.1", "must be a Fraction or an integer, at least 0"),
    ):
        code, _, error = tutti("simulate", path, "--size", "1MB", f"--congestion={wrong}")
        assert (code, error.count("\n")) == (2, 1)
        assert words in error
