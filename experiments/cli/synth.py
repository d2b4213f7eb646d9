"""``tutti synth``: one schedule, verified, timed and set against a proven bound."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from fractions import Fraction
from typing import Any

from experiments.cli import synth_rounds
from experiments.cli.output import console, duration, print_fields, print_json, short, throughput
from experiments.cli.problem import parse_collective
from experiments.registry import find_method
from experiments.runner.judge import Cost, ProvenBound, notes, time_columns
from experiments.runner.options import build_options, options_text, parse_assignments, with_lists
from experiments.runner.progress import waiting
from experiments.runner.tasks import Synthesized, synthesize_best
from models.bounds import own_bounds
from schedules.collective import Kind
from schedules.files.schedule_file import check_target, is_round_file, write_schedule
from schedules.method import Method, Problem
from topologies.errors import InputError
from topologies.text import parse_topology
from topologies.units import format_size, parse_size

TRAFFIC = tuple(
    f"{name}{suffix}"
    for name in ("rank_egress", "rank_ingress", "link_traffic")
    for suffix in ("", "_unicast")
)


def execute(arguments: argparse.Namespace) -> int:
    """Make the schedule, print what it is, and write it if asked to."""
    method = find_method(arguments.method)
    given = _given(method, arguments)
    options = build_options(method, given)
    size = parse_size(arguments.size)
    topology = parse_topology(arguments.topology)
    what = parse_collective(arguments, topology)
    problem = Problem(topology, what)
    if method.size_dependent(problem, options):
        problem = dataclasses.replace(problem, size=size)
    if arguments.output is not None:
        check_target(arguments.output)  # before hours of synthesis rather than after
        if is_round_file(arguments.output):
            return synth_rounds.execute(arguments, method, Problem(topology, what, size), options)
    with _waiting(f"{method.name} on {topology.name}", arguments):
        made = synthesize_best(method, problem, options, _seeds(method, arguments.seeds), size)
    try:
        if arguments.output is not None:
            write_schedule(made.schedule, arguments.output)
    finally:  # a full disk does not take the numbers along
        _say(arguments, method, made, size, options_text(given))
    return 0


def _say(
    arguments: argparse.Namespace, method: Method, made: Synthesized, size: Fraction, options: str
) -> None:
    with _waiting("bounds and simulation", arguments):
        document = _document(method, made, size)
    for note in (_seeds_note(method, arguments.seeds), notes(made.schedule, size)):
        if note:
            print(f"tutti: note: {note}", file=sys.stderr)
    if arguments.json:
        print_json(document)
    else:
        _print(document, options)


def _waiting(text: str, arguments: argparse.Namespace) -> AbstractContextManager[None]:
    return waiting(console(sys.stderr), text, quiet=arguments.quiet)


def _given(method: Method, arguments: argparse.Namespace) -> dict[str, Any]:
    given = with_lists(method, parse_assignments(arguments.option))
    if arguments.chunks is not None:
        if "chunks" in given:
            raise InputError("--chunks and --option chunks=... say the same; give one of them")
        given["chunks"] = arguments.chunks
    return given


def _seeds(method: Method, count: int | None) -> range:
    if count is not None and count < 1:
        raise InputError(f"--seeds {count}; at least 1 is needed")
    return range(count if count is not None and method.seeded else 1)


def _seeds_note(method: Method, count: int | None) -> str:
    if method.seeded or count in (None, 1):
        return ""
    return f"{method.name} has no randomness, so --seeds {count} is one try"


def _document(method: Method, made: Synthesized, size: Fraction) -> dict[str, Any]:
    schedule = made.schedule
    known = ProvenBound.of(schedule.topology, schedule.collective, size)
    bound = known.or_better(own_bounds(schedule), size)
    cost = Cost(schedule)
    return {
        "topology": schedule.topology.name,
        "collective": str(schedule.collective),
        "size_bytes": size.numerator if size.denominator == 1 else str(size),
        "method": method.name,
        "seed": made.seed,
        "verified": True,
        **time_columns(schedule, size, bound),
        "tl_steps": cost.tl_steps,
        "tb_factor": None if cost.tb_factor is None else _ratio(cost.tb_factor),
        "congestion": _ratio(cost.congestion),
        "solver_gap": schedule.stats.get("solver_gap"),
        "synth_s": made.synth_s,
        "transfers": len(schedule),
        "clock": str(schedule.clock),
        **_chosen(schedule.stats),
        **_model(schedule.stats, schedule.collective.kind is Kind.ALLREDUCE),
        **_trees(schedule.stats),
    }


def _chosen(stats: Mapping[str, Any]) -> dict[str, Any]:
    """Return whose schedule the portfolio chose, and what became of all that it tried."""
    if "tried" not in stats:
        return {}
    return {"algorithm": stats["algorithm"], "tried": [one.document for one in stats["tried"]]}


def _tried(document: Mapping[str, Any]) -> str | None:
    """Return the times of the portfolio's other methods, the fastest first, and how many have none."""
    if "tried" not in document:
        return None
    timed = sorted((one for one in document["tried"] if "why" not in one), key=lambda one: one["time_us"])
    others = [f"{one['method']} {duration(one['time_us'])}" for one in timed[1:]]
    without = len(document["tried"]) - len(timed)
    return "; ".join([*others, f"{without} without a schedule or not tried: --json says why"])


def _model(stats: Mapping[str, Any], in_halves: bool) -> dict[str, Any]:
    """Return what is said of a solved program; SCCL's and TE-CCL's own counts unless of a half."""
    if "solver_gap" not in stats and "program" not in stats:
        return {}
    names = ("program", "solver", "variables", "constraints", *(() if in_halves else ("epochs",)))
    document: dict[str, Any] = {name: stats[name] for name in names if stats.get(name) is not None}
    if "program" in document:
        document |= {name: stats[name] for name in ("build_s", "solve_s") if name in stats}
    if "frontier" in stats and not in_halves:
        keys = ("steps", "rounds", "least_rounds")
        document["frontier"] = [dict(zip(keys, point, strict=True)) for point in stats["frontier"]]
    return document


def _solver(document: Mapping[str, Any]) -> str | None:
    """Return by whom the method's model was solved, and how far from its optimum the answer may be."""
    gap = document["solver_gap"]
    if "solver" not in document or ("program" in document and gap is None):
        return None  # an exact answer: the program's line says it all
    proven = "optimal" if gap == 0 else "nothing proven"
    if gap:
        proven = f"within {100 * gap:.2g} % of optimal"
    size = [] if "program" in document else _size(document)
    return ", ".join([document["solver"], f"{proven} for the method's model", *size])


def _size(document: Mapping[str, Any]) -> list[str]:
    """Return how large the solved program is."""
    return [f"{document[name]:,} {name}" for name in ("variables", "constraints") if document.get(name)]


def _program(document: Mapping[str, Any]) -> str | None:
    """Return which program was solved, by whom, how large it is and how long it took."""
    if "program" not in document:
        return None
    solved, size = f"solved {document['program']} with {document['solver']}", _size(document)
    if not size:
        return f"{solved} in {document['solve_s']:.2g} s"
    seconds = f"built in {document['build_s']:.2g} s, solved in {document['solve_s']:.2g} s"
    return f"{solved}: {', '.join(size)}; {seconds}"


def _rounds(document: Mapping[str, Any]) -> str | None:
    """Return SCCL's frontier: rounds and steps, and what is proven where that is less."""
    if "frontier" not in document:
        return None
    points = [
        f"{point['rounds']} in {point['steps']} steps"
        + (f" (at least {point['least_rounds']})" if point["least_rounds"] < point["rounds"] else "")
        for point in document["frontier"]
    ]
    return ", ".join(points)


def _trees(stats: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is said of trees: k, their heights in hops between ranks, and what multicast saves."""
    document: dict[str, Any] = {name: stats[name] for name in ("trees", *TRAFFIC) if name in stats}
    if "height" in stats:
        document["heights"] = {"max": stats["height"], "mean": stats["mean_height"]}
    return document


def _ratio(value: Fraction) -> str:
    return f"{value.numerator}/{value.denominator}"


def _print(document: dict[str, Any], options: str) -> None:
    seed = "" if document["seed"] is None else f", seed {document['seed']}"
    size = format_size(Fraction(document["size_bytes"]))
    slices = document["slices"]
    pipelined = "" if slices is None else f", {slices} slice{'s' * (slices > 1)}"
    heights = document.get("heights")
    print_fields(
        {
            "schedule": f"{document['collective']} on {document['topology']}, {document['clock']} clock",
            "method": " ".join(filter(None, [document["method"], options])) + seed,
            "fastest": document.get("algorithm"),
            "verified": f"{document['transfers']} transfers, all legal",
            "time": f"{duration(document['time_us'])} at {size}{pipelined}",
            "algbw": None if document["algbw_gbps"] is None else throughput(document["algbw_gbps"]),
            "bound": f"{duration(document['bound_us'])} ({document['bound_kind']})",
            "gap": None if document["gap"] is None else f"{document['gap']:.4%}",
            "T_L": document["tl_steps"],
            "T_B": document["tb_factor"] and f"{document['tb_factor']} M/B",
            "congestion": f"{document['congestion']} s/GB",
            "rounds": _rounds(document),
            "epochs": document.get("epochs"),
            "program": _program(document),
            "solver": _solver(document),
            "trees": document.get("trees") and f"{document['trees']} a root",
            "heights": heights and f"{heights['max']} at most, {short(heights['mean'])} on average",
            "synthesis": f"{document['synth_s']:.3g} s",
            "slower": _tried(document),
        }
    )
