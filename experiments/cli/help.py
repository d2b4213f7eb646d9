"""``tutti help``, and ``tutti`` alone: what there is."""

from __future__ import annotations

import argparse

from tutti.topologies.errors import InputError, suggestion


def execute(arguments: argparse.Namespace) -> int:
    """Print the help of a command, or of all.

    Raises
    ------
    InputError
        If there is no such command.
    """
    name, parser = arguments.command, arguments.parser
    if name is not None:
        if name not in arguments.commands:
            raise InputError(f"no command '{name}'{suggestion(name, arguments.commands)}")
        parser = arguments.commands[name]
    parser.print_help()
    return 0
