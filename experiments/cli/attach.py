"""``tutti attach``: go on with a study that was left with a scheduler."""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments.cli.run import carry_out
from experiments.runner.run import RunOptions, left


def execute(arguments: argparse.Namespace) -> int:
    """Collect what has ended, wait for the rest, and return the exit code."""
    held = left(arguments.directory)
    options = RunOptions(
        out=arguments.directory, scheduler=held.scheduler, only=held.only, quiet=arguments.quiet
    )
    return carry_out(Path(held.config), options)
