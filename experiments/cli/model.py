"""``tutti model``: a linear or mixed-integer program as a file, for other solvers."""

from __future__ import annotations

import argparse

from tutti.experiments.cli.output import print_answer
from tutti.experiments.solver_study.milp_instances import find_model
from tutti.models.solvers.highs import check_path, write_model
from tutti.topologies.errors import InputError
from tutti.topologies.text import parse_topology
from tutti.topologies.units import GIGA

MOST_MEMORY = 4 * GIGA
"""Most bytes that a program may take without ``--large``. A larger value refuses less."""


def execute(arguments: argparse.Namespace) -> int:
    """Build it, write it and say what it is."""
    model = find_model(arguments.model)
    check_path(arguments.output)
    topology = parse_topology(arguments.topology)
    if not arguments.large:
        memory = model.memory(topology)
        if memory > MOST_MEMORY:
            entries = f"about {model.entries(topology):.2g} nonzeros"
            raise InputError(
                f"model {model.name} on {topology.name} would have {entries} and take about "
                f"{memory / GIGA:.0f} GB of memory; --large writes it all the same"
            )
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
    print_answer(fields, fields, as_json=arguments.json)
    return 0
