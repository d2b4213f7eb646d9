"""``tutti list``: methods, topologies and solvers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tutti.experiments.cli.output import print_json, print_table

if TYPE_CHECKING:
    from tutti.models.solvers import SolverInfo


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
        print_table("", columns, [_cells(document.values()) for document in documents])
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
        yield {
            "name": solver.name,
            "installed": solver.installed,
            "version": solver.version,
            "features": sorted(map(str, solver.features)),
            "missing": list(_hints(solver)),
        }


def _hints(solver: SolverInfo) -> Iterator[str]:
    """Yield what is missing and how to get it: the solver itself, or a feature of it."""
    if not solver.installed:
        yield f"{solver.name}: {solver.install}"
    for feature, install in solver.missing:
        yield f"{feature}: {install}"


def _cells(values: Any) -> list[object]:
    return [_cell(value) for value in values]


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={text}" for name, text in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return value
