"""``tutti model``: a linear or mixed-integer program as a file, for other solvers."""

from __future__ import annotations

import argparse

from tutti.experiments.cli.output import print_fields, print_json
from tutti.experiments.solver_study import LinearModel, find_model
from tutti.models.solvers.highs import check_path, write_model
from tutti.topologies.errors import InputError
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Topology

MOST_MEMORY = 4 * 10**9
"""Bytes that a program may take without being asked for."""


def execute(arguments: argparse.Namespace) -> int:
    """Build it, write it and say what it is."""
    model = find_model(arguments.model)
    check_path(arguments.output)
    topology = parse_topology(arguments.topology)
    if not arguments.large:
        _check_size(model, topology)
    instance = model.build(topology)
    write_model(instance.compiled, arguments.output)
    optimum = None if instance.known is None else str(instance.known)
    fields = {
        "model": model.name,
        "summary": model.summary,
        "sense": "maximize" if instance.compiled.maximize else "minimize",
        "variables": instance.compiled.num_columns,
        "integers": int(instance.compiled.integer.sum()),
        "constraints": instance.compiled.num_rows,
        "nonzeros": instance.compiled.num_nonzeros,
        "optimum": optimum,
        "file": str(arguments.output),
    }
    if arguments.json:
        print_json(fields)
    else:
        print_fields(fields)
    return 0


def _check_size(model: LinearModel, topology: Topology) -> None:
    """Refuse a program that would take long and much memory before anything is written."""
    memory = model.memory(topology)
    if memory > MOST_MEMORY:
        raise InputError(
            f"model {model.name} on {topology.name} would have about {model.entries(topology):.2g} nonzeros "
            f"and take about {memory / 1e9:.0f} GB of memory; --large writes it all the same"
        )
