"""``tutti completion``: the words of every command, for a shell."""

from __future__ import annotations

import argparse
import sys

import shtab

from experiments.cli.parser import make_parser


def execute(arguments: argparse.Namespace) -> int:
    """Print the script that a shell reads."""
    sys.stdout.write(f"{shtab.complete(make_parser(), arguments.shell)}\n")
    return 0
