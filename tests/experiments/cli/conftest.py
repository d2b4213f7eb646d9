"""Commands are called as from a shell."""

import contextlib
import io
import shutil
from pathlib import Path

import pytest

from tests.experiments.cli.commands import SYNTH
from tutti.experiments.cli import main


@pytest.fixture
def tutti(capsys):
    """Run a command; return its exit code, standard output and standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture(scope="session")
def ring(tmp_path_factory):
    """A file with a BFB allgather on a ring of four, which is not to be changed."""
    path = tmp_path_factory.mktemp("ring") / "ring.json"
    with contextlib.redirect_stdout(io.StringIO()):
        assert main([*SYNTH, "-o", str(path)]) == 0
    return path


@pytest.fixture
def schedule(ring, tmp_path):
    """A copy of that file."""
    return Path(shutil.copy(ring, tmp_path))
