"""``tutti bound``: what no schedule can beat, with the proof."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from experiments.cli.output import duration, print_json, print_table, throughput
from experiments.cli.problem import parse_collective
from experiments.cli.proof import sentence
from models.bounds import bound_document
from topologies.text import parse_topology
from topologies.topology import Topology
from topologies.units import format_size, parse_size


def execute(arguments: argparse.Namespace) -> int:
    """Print the bounds of each topology."""
    size = None if arguments.size is None else parse_size(arguments.size)
    for text in arguments.topology:
        topology = parse_topology(text)
        what = parse_collective(arguments, topology)
        document = bound_document(topology, what, size, lp=arguments.lp)
        if arguments.json:
            print_json(document)
        else:
            _print(document, topology)
    if not arguments.json:
        print("s/GB: per 10^9 bytes of M; --json has the whole certificates")
    return 0


def _print(document: Mapping[str, Any], topology: Topology) -> None:
    size = document["size_bytes"]
    at = "for large M" if size is None else f"at {format_size(Fraction(size))}"
    best, rate = document["best"]["kind"], document["algbw_gbps"]
    limit = "no limit" if rate is None else f"algbw at most {throughput(rate)} {at} ({best})"
    title = f"{document['collective']} on {document['topology']}: {limit}"
    rows = [
        [
            bound["kind"],
            f"{Fraction(bound['exact'])} {bound['unit']}",
            *([] if size is None else [duration(bound["time_us"])]),
            sentence(bound["kind"], bound["certificate"], topology),
        ]
        for bound in document["bounds"]
    ]
    print_table(title, ["bound", "exact", *([] if size is None else ["time"]), "proof"], rows)
