"""Output that is closed, full, or knows ASCII only."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.experiments.cli.commands import ROOT
from tutti.experiments.cli.output import console
from tutti.topologies import ring, write_topology


def test_a_reader_that_leaves_is_no_traceback():
    # The pipe is closed before the command writes to it.
    path = f"import sys; sys.path.insert(0, {str(ROOT)!r})"
    command = f"{path}; from tutti.experiments.cli import main; sys.exit(main())"
    arguments = [sys.executable, "-c", command, "list", "topologies", "--json"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">/dev/full"])
def test_output_that_is_closed_or_full_is_no_traceback(closed):
    script = (
        "import sys; from tutti.experiments.cli import main; sys.exit(main(['list', 'topologies', '--json']))"
    )
    line = f'exec "$0" -c "$1" {closed}'
    done = subprocess.run(
        ["/bin/sh", "-c", line, sys.executable, script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == (2 if "full" in closed else 0)
    assert done.stderr == ("tutti: No space left on device\n" if "full" in closed else "")


def test_output_that_knows_ascii_only_gets_a_table():
    script = "import sys; from tutti.experiments.cli import main; sys.exit(main(['list', 'topologies']))"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"torus:AxBx..." in done.stdout


STEERING = "\x1b[31mred\a\x9b2J\u202e.json"


def test_what_steers_a_terminal_is_written_out_wherever_it_stands(tutti, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_topology(ring(4), STEERING)
    Path("x.toml").write_text(
        f'name = "x"\n[[topology]]\nspec = {json.dumps(STEERING)}\n'
        '[[collective]]\nkind = "allgather"\nsizes = ["1MB"]\n'
        '[[method]]\nname = "direct"\n[[method]]\nname = "rhd"\n[run]\nworkers = 1\n'
    )
    synth = ["synth", STEERING, "--method", "direct", "--size", "1MB"]
    said = []
    for command in (
        ["bound", STEERING],
        [*synth, "-o", "x.json"],
        [*synth, "--collective", STEERING],
        ["simulate", "x.json", "--size", "1MB"],
        ["verify", "x.json"],
        ["verify", STEERING],
        ["model", "all-to-all", STEERING, "-o", f"{STEERING}.lp"],
        ["run", "x.toml"],
        ["run", "x.toml", "--only", STEERING + "x"],
        [STEERING],
    ):
        _, out, err = tutti(*command)
        said.append(out + err)
        assert all(c == "\n" or c.isprintable() for c in out + err), command
    assert sum(r"\x1b[31mred\x07\x9b2J\u202e.json" in text for text in said) == len(said)


def test_a_pipe_is_no_terminal_where_colours_are_forced(monkeypatch, tmp_path):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a notebook's kernel does
    with (tmp_path / "out").open("w") as file:
        assert not console(file).is_interactive
