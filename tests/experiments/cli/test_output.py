"""Output that is closed, full, or knows ASCII only."""

import os
import subprocess
import sys

import pytest

from tests.experiments.cli.commands import ROOT


def test_a_reader_that_leaves_is_no_traceback():
    # The pipe is closed before the command writes to it.
    command = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from experiments.cli import main; sys.exit(main())"
    )
    arguments = [sys.executable, "-c", command, "list", "topologies", "--json"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">/dev/full"])
def test_output_that_is_closed_or_full_is_no_traceback(closed):
    script = "import sys; from experiments.cli import main; sys.exit(main(['list', 'topologies', '--json']))"
    line = f'exec "$0" -c "$1" {closed}'
    done = subprocess.run(
        ["/bin/sh", "-c", line, sys.executable, script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == (2 if "full" in closed else 0)
    assert done.stderr == ("tutti: No space left on device\n" if "full" in closed else "")


def test_output_that_knows_ascii_only_gets_a_table():
    script = "import sys; from experiments.cli import main; sys.exit(main(['list', 'topologies']))"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"torus:AxBx..." in done.stdout
