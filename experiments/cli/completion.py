"""``tutti completion``: the words of every command, for a shell."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping

import shtab

from tutti.experiments.cli.parser import COLLECTIVES, make_parser
from tutti.experiments.registry import METHODS
from tutti.schedules.programs.formats import FORMATS
from tutti.topologies.text import FAMILIES

WORDS: Mapping[str, Callable[[], Iterable[str]]] = {
    "method": lambda: METHODS,
    "collective": lambda: COLLECTIVES,
    "format": lambda: FORMATS,
    "topology": lambda: [family.example for family in FAMILIES.values()],
}
"""What may stand for an argument, by its name, where the parser itself does not say."""


def execute(arguments: argparse.Namespace) -> int:
    """Print the script that a shell reads."""
    parser = make_parser()
    commands = parser.parse_args(["help"]).commands
    words = {**WORDS, "command": commands.keys}
    for command in commands.values():
        for action in command._actions:  # noqa: SLF001 (argparse has no public way to its arguments)
            if action.dest in words:
                action.choices = list(words[action.dest]())
    sys.stdout.write(f"{shtab.complete(parser, arguments.shell)}\n")
    return 0
