"""``tutti bound``: what no schedule can beat, with the proof."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from experiments.cli.output import print_json, print_table, short
from experiments.cli.problem import parse_collective
from models.bounds import bound_document
from topologies.text import parse_topology
from topologies.units import format_size, parse_size

MOST_NODES = 8
"""Of a certificate's list, for people; ``--json`` has all."""


def execute(arguments: argparse.Namespace) -> int:
    """Print the bounds of each topology."""
    size = None if arguments.size is None else parse_size(arguments.size)
    for text in arguments.topology:
        topology = parse_topology(text)
        document = bound_document(topology, parse_collective(arguments, topology), size)
        if arguments.json:
            print_json(document)
        else:
            _print(document)
    return 0


def _print(document: Mapping[str, Any]) -> None:
    size = document["size_bytes"]
    at = "for large M" if size is None else f"at {format_size(Fraction(size))}"
    best, rate = document["best"]["kind"], document["algbw_gbps"]
    limit = "no limit" if rate is None else f"algbw at most {short(rate)} GB/s {at} ({best})"
    title = f"{document['collective']} on {document['topology']}: {limit}"
    rows = [
        [bound["kind"], f"{_exact(bound['exact'])} {bound['unit']}", bound["time_us"], _proof(bound)]
        for bound in document["bounds"]
    ]
    print_table(title, ["bound", "exact", "us", "proof"], rows)


def _exact(text: str) -> str:
    return str(Fraction(text))


def _proof(bound: Mapping[str, Any]) -> str:
    """Return a certificate in a few words, its long lists cut."""
    return ", ".join(f"{name} {_brief(value)}" for name, value in bound["certificate"].items())


def _brief(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        words = [_brief(inner) for inner in value[:MOST_NODES]]
        return "[" + " ".join(words) + (f" ... {len(value)}]" if len(value) > MOST_NODES else "]")
    return str(value)
