"""``tutti bound``: lower bounds on the time of every schedule, with their proofs.

The output has a sentence for each certificate; ``--json`` has the whole certificates.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from tutti.experiments.cli.commands import BoundCommand
from tutti.experiments.cli.output import console, print_json, print_table
from tutti.experiments.printable import complaint, remark, say
from tutti.experiments.runner.progress import waiting
from tutti.models.bounds import Bound, BoundError, bound_document, each_bound, program_bounds
from tutti.models.bounds.bound import ANY_SCHEDULE, ASKED_SECONDS, SECONDS_PER_BYTE
from tutti.models.bounds.check import current_kind
from tutti.models.bounds.report import PROGRAMS, best_document
from tutti.models.bounds.sentences import sentence
from tutti.schedules.collective import Collective, Kind
from tutti.schedules.files.document import read_collective
from tutti.topologies.errors import InputError
from tutti.topologies.exact import ROUNDING
from tutti.topologies.files import read_text
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Topology
from tutti.topologies.units import (
    GIGA,
    MICRO,
    duration,
    exact_number,
    format_size,
    throughput,
)

Certificate = Mapping[str, Any]
Problem = tuple[Topology, Collective, Fraction | None]
"""A network, a collective, and M in bytes if it is given."""


def do_bound(arguments: BoundCommand) -> int:
    """Print the bounds of each topology."""
    if arguments.check is not None:
        if len(arguments.topology) > 1:
            raise InputError("--check takes one topology at most, in place of the one that the file names")
        return _check(arguments.check, arguments.topology)
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
        _print(document, topology)
    if programs:
        before, limit = document, f"at most {duration(ASKED_SECONDS * MICRO)} each"
        what = f"linear programs for {', '.join(programs)}"
        remark(f"{what}, {limit}; Ctrl-C keeps what is found")
        each = program_bounds(*problem, list(found.values()))
        document, stopped = _find(found, each, problem, lp=True)
        if not arguments.json:
            _print_more(before, document, topology)
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
    found: dict[str, Bound], each: Iterator[Bound], problem: Problem, *, lp: bool = False
) -> tuple[dict[str, Any], KeyboardInterrupt | None]:
    """Add bounds to those found, by kind; return their document, and Ctrl-C if it came after the first."""
    stopped: KeyboardInterrupt | None = None
    with waiting(console(sys.stderr), f"bounds on {problem[0].name}"):
        try:
            for bound in each:
                found[bound.kind] = bound
            return bound_document(*problem, [*found.values()], lp=lp), None
        except KeyboardInterrupt as stop:
            if not found:
                raise
            stopped = stop
        return bound_document(*problem, [*found.values()]), stopped


def _check(path: Path, given: Sequence[str]) -> int:
    """Recompute every certificate in a file of ``--json`` lines; 1 if one does not prove its bound."""
    lines = read_text(path).splitlines()
    if not lines:
        raise InputError(f"{path} is empty; tutti bound --json writes a line for each topology")
    places = [f"{path}, line {number}" for number in range(1, len(lines) + 1)]
    held = [_holds(line, where, given) for line, where in zip(lines, places, strict=True)]
    return 0 if all(held) else 1


def _holds(line: str, where: str, given: Sequence[str]) -> bool:
    """Recompute the certificates in a line, and print of each whether it proves its bound."""
    try:
        document = json.loads(line)
        text, best, entries = str(document["topology"]), document["best"], document["bounds"]
        bounds = [_bound(entry) for entry in entries]
        stated = [{name: entry[name] for name in ("time_us", "holds_for")} for entry in entries]
        largest = {"kind": current_kind(best["kind"]), "time_us": best["time_us"]}
        largest["algbw_gbps"] = document["algbw_gbps"]
        size = None if document["size_bytes"] is None else exact_number(str(document["size_bytes"]))
        problem = document["problem"]
    except (ValueError, KeyError, TypeError) as error:
        wrong = f"it has no {error}" if isinstance(error, KeyError) else "it can't be read"
        raise InputError(f"{where}: no line of tutti bound --json: {wrong}") from None
    if not bounds:
        raise InputError(f"{where}: no bounds to check")
    topology = parse_topology(given[0] if given else text)
    what = read_collective(problem, topology, where)
    faults = 0
    for bound, said in zip(bounds, stated, strict=True):
        try:
            bound.check(topology, what)
            time = None if size is None else float(bound.time(size) * MICRO)
            _compare(f"{bound.kind} bound", said, {"time_us": time, "holds_for": bound.scope})
        except (BoundError, InputError, TypeError, ValueError) as error:
            faults += 1
            say(complaint(f"no: {text}, {what}: {error}"))
        else:
            at = "" if time is None else f", {duration(time)} at {format_size(size or 0)}"
            say(f"proven: {text}, {what}: {bound.kind} {bound.value} {bound.unit}{at}")
    if not faults:
        try:
            _check_best(largest, bounds, size)
        except BoundError as error:
            faults = 1
            say(complaint(f"no: {text}, {what}: {error}"))
    return not faults


def _check_best(stated: Mapping[str, Any], bounds: Sequence[Bound], size: Fraction | None) -> None:
    """Raise `BoundError` if the largest bound on any schedule is stated otherwise than it is."""
    if not any(bound.binds_all for bound in bounds):
        raise BoundError("the best: none of these holds for any schedule")
    best = best_document(bounds, size)
    _compare("the best", stated, {**best.pop("best"), **best})


def _compare(of: str, stated: Mapping[str, Any], proven: Mapping[str, Any]) -> None:
    """Raise `BoundError` for the first thing that is stated otherwise than it is proven."""
    for name, value in proven.items():
        said = stated[name]
        close = isinstance(value, float) and isinstance(said, int | float)
        off = value * ROUNDING if close else 0
        if not (value - off <= said <= value + off if close else value == said):
            raise BoundError(f"{of}: {name} is {value}, not {said}")


def _bound(entry: Mapping[str, Any]) -> Bound:
    exact, per_gigabyte = exact_number(str(entry["exact"])), entry["unit"] == "s/GB"
    value, unit = (exact / GIGA, SECONDS_PER_BYTE) if per_gigabyte else (exact, str(entry["unit"]))
    if not isinstance(entry["certificate"], dict):
        raise TypeError("a certificate that is no object")
    return Bound(str(entry["kind"]), value, unit, entry["certificate"])


def _print_more(before: Mapping[str, Any], after: Mapping[str, Any], topology: Topology) -> None:
    """Print the bounds that linear programs have added or raised."""
    known = [(bound["kind"], bound["exact"]) for bound in before["bounds"]]
    more = [bound for bound in after["bounds"] if (bound["kind"], bound["exact"]) not in known]
    if more:
        _print({**after, "bounds": more}, topology)
    else:
        say("linear programs prove no larger bound")


def _print(document: Mapping[str, Any], topology: Topology) -> None:
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
    narrow = [bound["kind"] for bound in document["bounds"] if bound["holds_for"] != ANY_SCHEDULE]
    for kind in narrow:
        say(f"{kind}: other schedules may be faster; gaps are to {best}, the largest bound on any schedule")
