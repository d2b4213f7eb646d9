"""``tutti synth``: one schedule, verified, timed and set against a proven bound.

With ``-o FILE.rounds`` the schedule may outgrow memory and is written as it is made. With ``--repair FILE``
it is that of a whole network, on what is left of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tutti.experiments.cli.commands import DEFAULT_METHOD, DEFAULT_SIZE, CollectiveOptions, SynthCommand
from tutti.experiments.cli.output import console, print_answer
from tutti.experiments.old_names import current_options
from tutti.experiments.printable import printable, remark
from tutti.experiments.registry import find_method
from tutti.experiments.result import Result
from tutti.experiments.runner.judge import ProvenBound, bound_columns
from tutti.experiments.runner.progress import Lines, waiting
from tutti.experiments.runner.tasks import Stopwatch, synthesize_best
from tutti.schedules.files.rounds import round_cost
from tutti.schedules.files.schedule_file import check_target, is_round_file, read_schedule
from tutti.schedules.method import Method, Problem, first_seeds, only_seed
from tutti.schedules.simulation.simulate import best_slices
from tutti.schedules.verify import verify
from tutti.topologies.errors import InputError, Interrupted
from tutti.topologies.exact import json_number
from tutti.topologies.options import build_options, options_text, parse_assignments, with_lists
from tutti.topologies.text import parse_topology
from tutti.topologies.units import GIGA, MICRO, duration, format_size, parse_size, short

OF_THE_FILE = (
    *("method", "chunks", "option", "seeds", "seed", "collective", "root", "shards", "groups", "matrix"),
)
"""Arguments of ``tutti synth`` whose values a schedule's file gives."""


def do_synth(arguments: SynthCommand) -> None:
    """Make the schedule, print what it is, and write it if arguments to."""
    if arguments.repair is not None:
        _repair(arguments, arguments.repair)
        return
    method = find_method(arguments.method or DEFAULT_METHOD)
    given = _given(method, arguments)
    options = build_options(method, given)
    if arguments.seed is None:
        seeds = first_seeds(method, arguments.seeds, "--seeds")
    else:
        seeds = only_seed(method, arguments.seed, "--seed")
    topology = parse_topology(arguments.topology)
    what, given_size = arguments.on(topology)
    size = given_size or parse_size(DEFAULT_SIZE)
    problem = method.sized(Problem(topology, what), options, size)
    if arguments.output is not None:
        check_target(arguments.output)  # before hours of synthesis rather than after
        if is_round_file(arguments.output):
            problem = Problem(topology, what, size)
            _in_rounds(arguments, arguments.output, method, problem, options, seeds)
            return
    stopped: Interrupted | None = None
    shown = partial(waiting, console(sys.stderr), quiet=arguments.quiet)
    try:
        with shown(f"{method.name} on {topology.name}"):
            made = synthesize_best(method, problem, options, seeds, size)
    except Interrupted as stop:
        made, stopped = stop.found, stop
    said, exact_for = tuple(_notes(method, arguments, given)), method.exactness(options, problem)
    result = Result.of(made, size, method.name, options_text(given), said=said, exact_for=exact_for)
    try:
        if arguments.output is not None:
            result.save(arguments.output)
    finally:  # a full disk does not take the numbers along
        with shown("bounds and simulation"):
            document, fields = result.document, result.fields
        _print(arguments, result.notes, document, fields)
    if stopped is not None:
        raise stopped


def _print(
    arguments: SynthCommand, notes: Sequence[str], document: Mapping[str, Any], fields: Mapping[str, object]
) -> None:
    for note in notes:
        remark(f"note: {note}")
    print_answer(document, fields, as_json=arguments.json)


def _given(method: Method, arguments: SynthCommand) -> dict[str, Any]:
    quick = {} if arguments.method else method.quick
    asked = current_options(method.name, parse_assignments(arguments.option))
    given = {**quick, **with_lists(method, asked)}
    if arguments.chunks is not None:
        if "chunks" in given:
            raise InputError("--chunks and --option chunks=... say the same; give one of them")
        given["chunks"] = arguments.chunks
    return given


def _notes(method: Method, arguments: SynthCommand, given: Mapping[str, Any]) -> Iterator[str]:
    if not arguments.method:
        limit, more = given["time_limit"], "; --option time_limit=1min gives it more time"
        tries = f"no --method was given, so {method.name} tries the sensible ones for {limit}"
        yield tries if limit != method.quick["time_limit"] else f"{tries}{more}"
    if not method.seeded and arguments.seed is not None:
        yield f"{method.name} has no randomness, so --seed {arguments.seed} changes nothing."
    elif not method.seeded and arguments.seeds != 1:
        yield f"{method.name} has no randomness, so --seeds {arguments.seeds} is one try."


def _repair(arguments: SynthCommand, file: Path) -> None:
    """Repair the schedule, print what it is and what it was, and write it if arguments to."""
    from tutti.schedules.repair import fastest_repair, rerouted  # and their kernels

    usual = vars(SynthCommand) | vars(CollectiveOptions) | {"option": []}
    if given := next((name for name in OF_THE_FILE if getattr(arguments, name) != usual[name]), None):
        raise InputError(f"--repair and --{given}: a repair keeps what the file has; leave out --{given}")
    if arguments.output is not None:
        check_target(arguments.output)
    schedule, topology = read_schedule(file), parse_topology(arguments.topology)
    verify(schedule)
    own = schedule.collective.own_size or schedule.size or parse_size(DEFAULT_SIZE)
    size = Fraction(own) if arguments.size is None else parse_size(arguments.size)
    slices, before = best_slices(schedule, Fraction(size))
    with Stopwatch() as watch:
        made = fastest_repair(schedule, topology, Fraction(size), slices)
    verify(made)
    old = rerouted(schedule, topology)
    verify(old)
    result = Result(made, Fraction(size), "repaired", seconds=watch.seconds)
    blindly = best_slices(old, result.size)[1]
    changed = made.stats["changed"]
    if arguments.output is not None:
        result.save(arguments.output)
    numbers = {"transfers_before": len(schedule), "before_s": before, "rerouted_s": blindly}
    words = {
        "changed": f"{changed} of {len(schedule)} transfers of {printable(schedule.topology.name)}",
        "before": f"{duration(before * MICRO)} on the whole network",
        "rerouted": f"{duration(blindly * MICRO)}, had they taken shortest paths",
    }
    document = result.document | {"changed": changed} | numbers
    _print(arguments, result.notes, document, result.fields | words)


def _in_rounds(
    arguments: SynthCommand, path: Path, method: Method, problem: Problem, options: Any, seeds: range
) -> None:
    """Make the schedule, verify it by streaming, and print what it is."""
    from tutti.heuristics.tacos.on_disk import synthesize_to  # and its kernels

    if method.name != "tacos":
        raise method.unsupported("writes no table of rounds; allowed: .json, .json.gz, .npz")
    if len(seeds) != 1:
        raise InputError(f"--seeds {len(seeds)}: a table of rounds is of one seed")
    method.supports(problem, options)
    lines = Lines(console(sys.stderr), "tutti")

    def told(turn: int, share: float) -> None:
        lines.tell(f"round {turn}, {share:.2%} of all transfers")

    with Stopwatch() as watch:
        table = synthesize_to(path, problem, options, np.random.default_rng(seeds[0]), told)
    remark(f"made in {watch.seconds:.3g} s; now verifying")
    with Stopwatch() as verification:
        verify(table)
    remark(f"{table.transfers} transfers verified in {verification.seconds:.3g} s; now the bound")
    size, cost = Fraction(problem.size or 0), round_cost(table)
    # Rounds take equal time, so that all take T_L α + T_B + T_C.
    a_byte = cost.steps.bandwidth_time + table.topology.gamma * cost.steps.tc
    seconds = cost.steps.tl_steps * table.topology.alpha[0] + a_byte * size
    document = {
        "topology": table.topology.name,
        "collective": str(table.collective),
        "size_bytes": json_number(size),
        "time_us": float(seconds) * MICRO,
        "algbw_gbps": float(size / seconds) / GIGA,
        **bound_columns(float(seconds) * MICRO, ProvenBound.of(table.topology, table.collective, size)),
        "tl_steps": cost.steps.tl_steps,
        "tb_factor": None if cost.steps.tb is None else str(cost.steps.tb),
        "congestion": str(cost.congestion * GIGA),
        "transfers": table.transfers,
        "clock": str(table.clock),
        "method": method.name,
        "seed": seeds[0],
        "verified": True,
        "synth_s": watch.seconds,
        "verify_s": verification.seconds,
        "file": str(path),
    }
    fields = {
        "schedule": f"{document['collective']} on {document['topology']}, {document['clock']} clock",
        "method": f"{document['method']}, seed {document['seed']}",
        "verified": f"{document['transfers']} transfers, all legal, {document['verify_s']:.3g} s",
        "time": f"{short(document['time_us'])} us at {format_size(size)}",
        "algbw": f"{short(document['algbw_gbps'])} GB/s",
        "bound": f"{short(document['bound_us'])} us ({document['bound_kind']})",
        "gap": f"{document['gap']:.4%}",
        "T_L": document["tl_steps"],
        "T_B": document["tb_factor"] and f"{document['tb_factor']} M/B",
        "congestion": f"{document['congestion']} s/GB",
        "synthesis": f"{document['synth_s']:.3g} s",
        "file": document["file"],
    }
    print_answer(document, fields, as_json=arguments.json)
