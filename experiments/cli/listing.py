"""``tutti list``, methods, topologies and solvers; ``tutti completion``, all words for a shell."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tutti.experiments.cli.output import print_json, print_table
from tutti.experiments.cli.parser import COLLECTIVES, make_parser


def execute(arguments: argparse.Namespace) -> int:
    """Print what there is of it; without a word, the words."""
    if arguments.what is None:
        arguments.parser.print_help()
        return 0
    documents = list({"methods": _methods, "topologies": _topologies, "solvers": _solvers}[arguments.what]())
    if arguments.json:
        for document in documents:
            print_json(document)
    else:
        columns = list(documents[0])
        print_table("", columns, [list(map(_cell, document.values())) for document in documents])
    return 0


def _methods() -> Iterator[dict[str, Any]]:
    from tutti.experiments.registry import METHODS
    from tutti.schedules.collective import KINDS, Kind
    from tutti.topologies.options import describe_options

    for method in METHODS.values():
        able = method.capabilities
        yield {
            "name": method.name,
            "kind": method.kind,
            "exact_for": method.exactness(method.options()),
            "summary": method.summary,
            "collectives": [str(kind) for kind in KINDS if kind in able.collectives],
            "data": [
                able.groups.value,
                f"{'uneven' if able.uneven_shards else 'equal'} shards",
                *(["several kinds at once"] if Kind.MIXED in able.collectives else []),
            ],
            "networks": [f"needs {need}" for need in able.needs] or ["any"],
            "seeded": method.seeded,
            "options": describe_options(method),
        }


def _topologies() -> Iterator[dict[str, Any]]:
    from tutti.topologies.importing.formats import FORMATS
    from tutti.topologies.text import FAMILIES

    for family in FAMILIES.values():
        yield {
            "name": family.name,
            "form": f"{family.name}:{family.form}" if family.form else family.name,
            "example": family.example,
            "summary": family.summary,
        }
    for form in FORMATS.values():
        yield {
            "name": form.name,
            "form": f"{form.name}:FILE",
            "example": form.example,
            "summary": form.summary,
        }


def _solvers() -> Iterator[dict[str, Any]]:
    from tutti.models.solvers import known_solvers

    for solver in known_solvers():
        own = [] if solver.installed else [(solver.name, solver.install)]
        yield {
            "name": solver.name,
            "installed": solver.installed,
            "version": solver.version,
            "features": sorted(map(str, solver.features)),
            "missing": [f"{name}: {install}" for name, install in (*own, *solver.missing)],
        }


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={text}" for name, text in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return value


def complete(arguments: argparse.Namespace) -> int:
    """Print the script that a shell reads."""
    import shtab

    from tutti.experiments.registry import METHODS
    from tutti.schedules.programs.formats import FORMATS
    from tutti.topologies.text import FAMILIES

    parser = make_parser()
    commands = parser.parse_args(["help"]).commands
    words: dict[str, Iterable[str]] = {
        "command": commands,
        "method": METHODS,
        "collective": COLLECTIVES,
        "format": FORMATS,
        "topology": [family.example for family in FAMILIES.values()],
    }  # by an argument's name: what may stand for it, where the parser itself does not say
    for command in commands.values():
        for action in command._actions:  # noqa: SLF001 (argparse has no public way to its arguments)
            if action.dest in words:
                action.choices = list(words[action.dest])
    sys.stdout.write(f"{shtab.complete(parser, arguments.shell)}\n")
    return 0
