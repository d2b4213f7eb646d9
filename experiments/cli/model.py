"""``tutti model``: a linear program as a file, for other solvers."""

from __future__ import annotations

import argparse

from experiments.cli.output import print_fields, print_json
from experiments.study import find_model
from topologies.text import parse_topology


def execute(arguments: argparse.Namespace) -> int:
    """Build it, write it and say what it is."""
    model = find_model(arguments.model)
    instance = model.build(parse_topology(arguments.topology))
    instance.compiled.write(arguments.output)
    optimum = None if instance.known is None else str(instance.known)
    fields = {
        "model": model.name,
        "summary": model.summary,
        "sense": "maximize" if instance.compiled.maximize else "minimize",
        "variables": instance.compiled.num_columns,
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
