"""The help: every collective, and examples that run."""

import shlex

import pytest

from tutti.experiments.cli import commands, parser
from tutti.schedules.collective import KINDS


def test_the_help_names_every_collective(tutti):
    assert list(KINDS) == list(commands.COLLECTIVES)
    assert "all-to-all" in tutti("synth", "--help")[1]


@pytest.mark.parametrize("command", [None, "synth"])
def test_the_examples_of_the_help_run(tutti, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    whole = parser.make_parser()
    _, *examples = whole.commands.get(command, whole).epilog.splitlines()
    assert len(examples) == 2
    for line in examples:
        assert tutti(*shlex.split(line)[1:])[0] == 0


def test_help_and_version_succeed(tutti):
    assert tutti("--help")[0] == 0
    assert tutti("--version")[1].startswith("tutti ")
