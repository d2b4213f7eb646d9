"""``tutti synth``: a schedule, verified, timed and set against a proven bound. ``tutti bound``: bounds alone.

With ``-o FILE.rounds`` the schedule may outgrow memory and is written as it is made. With ``--repair FILE``
it is that of a whole network, on what is left of it.

Lower bounds are on the time of every schedule. ``tutti bound`` prints a sentence for each certificate;
``--json`` has the whole certificates.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tutti.experiments.cli.commands import (
    DEFAULT_METHOD,
    DEFAULT_SIZE,
    BoundCommand,
    CollectiveOptions,
    SynthCommand,
)
from tutti.experiments.cli.output import console, print_answer, print_json, print_table
from tutti.experiments.old_names import current_options
from tutti.experiments.printable import complaint, printable, remark, say
from tutti.experiments.registry import find_method
from tutti.experiments.result import Result
from tutti.experiments.runner.judge import ProvenBound, bound_columns
from tutti.experiments.runner.progress import Lines, waiting
from tutti.experiments.runner.tasks import Stopwatch, synthesize_best
from tutti.models.bounds import Bound, bound_document, each_bound, program_bounds
from tutti.models.bounds.bound import ANY_SCHEDULE, ASKED_SECONDS, sentence
from tutti.models.bounds.report import PROGRAMS, check_line
from tutti.schedules.collective import Collective, Kind
from tutti.schedules.files.rounds import round_cost
from tutti.schedules.files.schedule_file import check_target, is_round_file, read_schedule
from tutti.schedules.method import Method, Problem, first_seeds, only_seed
from tutti.schedules.simulation.simulate import best_slices
from tutti.schedules.verify import verify
from tutti.topologies.errors import InputError, Interrupted
from tutti.topologies.exact import json_number
from tutti.topologies.files import read_text
from tutti.topologies.options import build_options, options_text, parse_assignments, with_lists
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Topology
from tutti.topologies.units import GIGA, MICRO, duration, format_size, parse_size, short, throughput

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


Question = tuple[Topology, Collective, Fraction | None]
"""A network, a collective, and M in bytes if it is given."""


def do_bound(arguments: BoundCommand) -> int:
    """Print the bounds of each topology."""
    if arguments.check is not None:
        if len(arguments.topology) > 1:
            raise InputError("--check takes one topology at most, in place of the one that the file names")
        return _check_file(arguments.check, arguments.topology)
    if not arguments.topology:
        raise InputError("tutti bound needs a topology, such as torus:4x4, or --check FILE")
    for text in arguments.topology:
        _print_bounds(text, arguments)
    if not arguments.json:
        say("s/GB: per 10^9 bytes of M; --json has the whole certificates")
    return 0


def _print_bounds(text: str, arguments: BoundCommand) -> None:
    """Print the bounds on one topology. In text, those of linear programs come after the others."""
    topology = parse_topology(text)
    problem = topology, *arguments.on(topology)
    found: dict[str, Bound] = {}
    document, stopped = _find(found, each_bound(*problem), problem)
    programs = _programs(*problem[1:]) if arguments.lp and not stopped else ()
    if not arguments.json:
        _print_document(document, topology)
    if programs:
        before, limit = document, f"at most {duration(ASKED_SECONDS * MICRO)} each"
        what = f"linear programs for {', '.join(programs)}"
        remark(f"{what}, {limit}; Ctrl-C keeps what is found")
        document, stopped = _find(found, program_bounds(*problem, list(found.values())), problem, lp=True)
        known = [(bound["kind"], bound["exact"]) for bound in before["bounds"]]
        more = [bound for bound in document["bounds"] if (bound["kind"], bound["exact"]) not in known]
        if more and not arguments.json:  # those that linear programs have added or raised
            _print_document({**document, "bounds": more}, topology)
        elif not arguments.json:
            say(
                "stopped before a larger bound was proven"
                if stopped
                else "linear programs prove no larger bound"
            )
    if arguments.json:
        print_json(document)
    if stopped:
        raise stopped


def _programs(what: Collective, size: Fraction | None) -> Sequence[str]:
    """Return the kinds of bounds that ``--lp`` adds. Without a size, print that a size would add more."""
    alone = {Kind.ALL_TO_ALL: ("mcf",), Kind.ALLREDUCE: ("lp",)}.get(what.kind, ())
    if size is not None:
        return (*alone, *PROGRAMS)
    lacking = " and ".join(PROGRAMS)
    rest = f"only {alone[0]} is computed" if alone else f"nothing is added for {what.kind}"
    remark(f"note: --lp: {lacking} need --size, such as --size 1MB; without it, {rest}")
    return alone


def _find(
    found: dict[str, Bound], each: Iterator[Bound], problem: Question, *, lp: bool = False
) -> tuple[dict[str, Any], KeyboardInterrupt | None]:
    """Add bounds to those found, by kind; return their document, and Ctrl-C if it came after the first."""
    with waiting(console(sys.stderr), f"bounds on {problem[0].name}"):
        try:
            for bound in each:
                found[bound.kind] = bound
            return bound_document(*problem, [*found.values()], lp=lp), None
        except KeyboardInterrupt as stop:
            if not found:
                raise
            return bound_document(*problem, [*found.values()]), stop


def _check_file(path: Path, given: Sequence[str]) -> int:
    """Recompute every certificate in a file of ``--json`` lines; 1 if one does not prove its bound."""
    if not (lines := read_text(path).splitlines()):
        raise InputError(f"{path} is empty; tutti bound --json writes a line for each topology")
    held = True
    for number, line in enumerate(lines, 1):
        for proven, text in check_line(line, f"{path}, line {number}", *given):
            say(text if proven else complaint(text))
            held &= proven
    return 0 if held else 1


def _print_document(document: Mapping[str, Any], topology: Topology) -> None:
    size = document["size_bytes"]
    at = "for large M" if size is None else f"at {format_size(Fraction(size))}"
    best, rate = document["best"]["kind"], document["algbw_gbps"]
    limit = "no limit" if rate is None else f"algbw at most {throughput(rate)} {at} ({best})"
    title = f"{document['collective']} on {document['topology']}: {limit}"
    rows = []
    for bound in document["bounds"]:
        exact, time = f"{Fraction(bound['exact'])} {bound['unit']}", duration(bound["time_us"] or 0.0)
        proof = sentence(bound["kind"], bound["certificate"], topology)
        rows.append([bound["kind"], exact, *([] if size is None else [time]), bound["holds_for"], proof])
    print_table(title, ["bound", "exact", *([] if size is None else ["time"]), "holds for", "proof"], rows)
    for kind in (bound["kind"] for bound in document["bounds"] if bound["holds_for"] != ANY_SCHEDULE):
        say(f"{kind}: other schedules may be faster; gaps are to {best}, the largest bound on any schedule")
