"""``tutti simulate``: the time of the synthesis."""

import json

from tests.experiments.cli.commands import SYNTH


def test_a_simulated_file_takes_the_time_of_its_synthesis(tutti, schedule):
    made = json.loads(tutti(*SYNTH, "--json")[1])
    code, out, _ = tutti("simulate", schedule, "--size", "1MB", "--json")
    assert code == 0
    assert json.loads(out)["time_us"] == made["time_us"]
    assert "busiest link" in tutti("simulate", schedule, "--size", "1MB")[1]
