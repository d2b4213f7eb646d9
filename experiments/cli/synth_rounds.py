"""``tutti synth -o FILE.rounds``: a schedule that outgrows memory, written as it is made."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tutti.experiments.cli.output import print_fields, print_json
from tutti.experiments.printable import say
from tutti.experiments.runner.judge import GAP_DIGITS, GIGA, MICRO, ProvenBound
from tutti.experiments.runner.tasks import Stopwatch
from tutti.heuristics.tacos.on_disk import synthesize_to
from tutti.schedules.files.rounds import RoundTable, round_cost
from tutti.schedules.method import Method, Problem
from tutti.schedules.verify import verify
from tutti.topologies.errors import InputError
from tutti.topologies.units import format_size, short

WRITERS = {"tacos": synthesize_to}
"""What writes a table of rounds as it makes it, by the name of the method."""
SPOKEN_SECONDS = 10.0
"""Between two lines of progress."""


def execute(
    arguments: argparse.Namespace, method: Method, problem: Problem, options: Any, seeds: range
) -> int:
    """Make the schedule, verify it by streaming, and print what it is."""
    write = WRITERS.get(method.name)
    if write is None:
        raise method.unsupported("writes no table of rounds; allowed: .json, .json.gz, .npz")
    if len(seeds) != 1:
        raise InputError(f"--seeds {len(seeds)}: a table of rounds is of one seed")
    method.supports(problem, options)
    with Stopwatch() as watch:
        rng = np.random.default_rng(seeds[0])
        table = write(arguments.output, problem, options, rng, _teller())
    _say(f"made in {watch.seconds:.3g} s; now verifying")
    with Stopwatch() as verification:
        verify(table)
    _say(f"{table.transfers} transfers verified in {verification.seconds:.3g} s; now the bound")
    document = {**_document(table, problem), "method": method.name, "seed": seeds[0], "verified": True}
    document |= {"synth_s": watch.seconds, "verify_s": verification.seconds, "file": str(arguments.output)}
    if arguments.json:
        print_json(document)
    else:
        _print(document)
    return 0


def _teller() -> Callable[[int, float], None]:
    """Return what prints, now and then, how far a synthesis is."""
    spoke = time.monotonic()

    def tell(turn: int, share: float) -> None:
        nonlocal spoke
        if time.monotonic() - spoke > SPOKEN_SECONDS:
            spoke = time.monotonic()
            _say(f"round {turn}, {share:.2%} of all transfers")

    return tell


def _say(text: str) -> None:
    say(f"tutti: {text}", sys.stderr)


def _document(table: RoundTable, problem: Problem) -> dict[str, Any]:
    """Return what holds of a table at the problem's size; its time is T_L α + T_B, rounds being alike."""
    size, topology = Fraction(problem.size or 0), table.topology
    cost = round_cost(table)
    seconds = cost.steps.tl_steps * topology.alpha[0] + cost.steps.bandwidth_time * size
    bound = ProvenBound.of(topology, table.collective, size)
    return {
        "topology": topology.name,
        "collective": str(table.collective),
        "size_bytes": size.numerator if size.denominator == 1 else str(size),
        "time_us": float(seconds) * MICRO,
        "algbw_gbps": float(size / seconds) / GIGA,
        "bound_us": float(bound.seconds) * MICRO,
        "bound_kind": bound.kind,
        "gap": round(float(seconds / bound.seconds) - 1, GAP_DIGITS) + 0.0,
        "tl_steps": cost.steps.tl_steps,
        "tb_factor": None if cost.steps.tb is None else str(cost.steps.tb),
        "congestion": str(cost.congestion * GIGA),
        "transfers": table.transfers,
        "clock": str(table.clock),
    }


def _print(document: dict[str, Any]) -> None:
    size = format_size(Fraction(document["size_bytes"]))
    print_fields(
        {
            "schedule": f"{document['collective']} on {document['topology']}, {document['clock']} clock",
            "method": f"{document['method']}, seed {document['seed']}",
            "verified": f"{document['transfers']} transfers, all legal, {document['verify_s']:.3g} s",
            "time": f"{short(document['time_us'])} us at {size}",
            "algbw": f"{short(document['algbw_gbps'])} GB/s",
            "bound": f"{short(document['bound_us'])} us ({document['bound_kind']})",
            "gap": f"{document['gap']:.4%}",
            "T_L": document["tl_steps"],
            "T_B": document["tb_factor"] and f"{document['tb_factor']} M/B",
            "congestion": f"{document['congestion']} s/GB",
            "synthesis": f"{document['synth_s']:.3g} s",
            "file": document["file"],
        }
    )
