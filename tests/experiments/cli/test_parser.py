"""The help: every collective, and examples that run."""

import importlib
import re
import shlex
import shutil
import subprocess

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


@pytest.mark.parametrize("columns", ["60", "120"])
def test_the_help_is_as_wide_as_asked_and_lists_every_command_once(tutti, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    out = tutti("--help")[1]
    listed = re.findall(r"^  ([a-z]+)(?:  |$)", out.partition("examples:")[0], flags=re.MULTILINE)
    assert sorted(listed) == sorted(commands.COMMANDS)
    assert max(map(len, out.partition("examples:")[0].splitlines())) <= int(columns)
    for name in commands.COMMANDS:
        lines = tutti("help", name)[1].partition("examples:")[0].splitlines()
        assert max(map(len, lines)) <= max(int(columns), 75), name  # names of matrices and groups are long


def test_every_command_has_a_function_and_every_argument_a_text():
    for name, command in commands.COMMANDS.items():
        module = importlib.import_module(f"tutti.experiments.cli.{command.module}")
        assert callable(getattr(module, f"do_{name}"))
    for of in parser.make_parser().commands.values():
        assert all(action.help for action in of._actions)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_every_command_and_its_options(tutti, shell):
    code, out, _ = tutti("completion", shell)
    assert code == 0
    assert all(name in out for name in commands.COMMANDS)
    assert "--store-and-forward" in out
    assert "torus:4x4" in out
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=out, text=True, check=False).returncode == 0
