"""Commands are called as from a shell."""

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


@pytest.fixture
def schedule(tutti, tmp_path):
    """A file with a BFB allgather on a ring of four."""
    path = tmp_path / "ring.json"
    assert tutti(*SYNTH, "-o", path)[0] == 0
    return path
