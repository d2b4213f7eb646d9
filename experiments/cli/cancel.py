"""``tutti cancel``: withdraw a study that was left with a scheduler."""

from __future__ import annotations

import argparse

from experiments.printable import say
from experiments.runner.run import cancel


def execute(arguments: argparse.Namespace) -> int:
    """Withdraw it, and say what became of it."""
    said = cancel(arguments.directory)
    say(f"{arguments.directory}: {said}; what was collected is kept, tutti run goes on with it")
    return 0
