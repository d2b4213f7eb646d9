"""``tutti synth NETWORK --repair FILE``."""

import json

import pytest

from tutti.experiments.cli import main
from tutti.schedules.files.schedule_file import read_schedule
from tutti.schedules.verify import verify


@pytest.fixture
def whole(tmp_path):
    """A schedule of rank 0's shard of four, sent straight to each."""
    path = tmp_path / "whole.json"
    document = {"format": "tutti.schedule/1", "topology": "complete:4", "collective": "broadcast"}
    document |= {"clock": "flow", "chunks": 1}
    document["transfers"] = {"chunk": [0, 0, 0], "src": [0, 0, 0], "dst": [2, 3, 1]}
    path.write_text(json.dumps(document))
    return path


def test_a_repair_is_written_and_says_what_changed(whole, tmp_path, capsys):
    """M of 1 GB at 50 GB/s and 0.5 us; two hops in slices instead of one, or twice as much over a link."""
    out = tmp_path / "left.json"
    command = ["synth", "complete:4?drop_links=0-1", "--repair", str(whole), "--size", "1GB", "--json"]
    assert main([*command, "-o", str(out)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["changed"], said["transfers_before"], said["method"]) == (1, 3, "repaired")
    assert said["before_s"] == pytest.approx(0.02, rel=0.01)
    assert said["time_s"] == pytest.approx(0.02, rel=0.02)
    assert said["rerouted_s"] == pytest.approx(0.04, rel=0.02)
    written = read_schedule(out)
    verify(written)
    assert written.topology.name == "complete:4?drop_links=0-1"
    assert main(["synth", "complete:4?drop_links=0-1", "--repair", str(whole)]) == 0
    assert "1 of 3 transfers of complete:4" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("network", "more", "text"),
    [
        ("complete:4", ["--method", "ring"], "--repair and --method: a repair keeps what the file has"),
        ("complete:4", ["--collective", "allreduce"], "--repair and --collective: a repair keeps"),
        ("complete:5", [], "topology complete:5 has other ranks than complete:4"),
        ("complete:4?drop_links=0-1,0-2,0-3", [], "cut off from the rest: 0"),
    ],
)
def test_what_makes_no_repair_gets_one_line(whole, network, more, text, capsys):
    assert main(["synth", network, "--repair", str(whole), *more]) == 2
    said = capsys.readouterr().err
    assert text in said
    assert said.count("\n") == 1
