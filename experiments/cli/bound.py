"""``tutti bound``: lower bounds on the time of every schedule, with their proofs.

The output has a sentence for each certificate; ``--json`` has the whole certificates.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from tutti.experiments.cli.commands import BoundCommand
from tutti.experiments.cli.output import console, print_json, print_table
from tutti.experiments.printable import complaint, remark, say
from tutti.experiments.runner.progress import waiting
from tutti.models.bounds import Bound, bound_document, each_bound, program_bounds
from tutti.models.bounds.bound import ANY_SCHEDULE, ASKED_SECONDS, sentence
from tutti.models.bounds.report import PROGRAMS, check_line
from tutti.schedules.collective import Collective, Kind
from tutti.topologies.errors import InputError
from tutti.topologies.files import read_text
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Topology
from tutti.topologies.units import MICRO, duration, format_size, throughput

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
        document, stopped = _find(found, program_bounds(*problem, list(found.values())), problem, lp=True)
        known = [(bound["kind"], bound["exact"]) for bound in before["bounds"]]
        more = [bound for bound in document["bounds"] if (bound["kind"], bound["exact"]) not in known]
        if more and not arguments.json:  # those that linear programs have added or raised
            _print({**document, "bounds": more}, topology)
        elif not arguments.json:
            say("linear programs prove no larger bound")
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
    with waiting(console(sys.stderr), f"bounds on {problem[0].name}"):
        try:
            for bound in each:
                found[bound.kind] = bound
            return bound_document(*problem, [*found.values()], lp=lp), None
        except KeyboardInterrupt as stop:
            if not found:
                raise
            return bound_document(*problem, [*found.values()]), stop


def _check(path: Path, given: Sequence[str]) -> int:
    """Recompute every certificate in a file of ``--json`` lines; 1 if one does not prove its bound."""
    if not (lines := read_text(path).splitlines()):
        raise InputError(f"{path} is empty; tutti bound --json writes a line for each topology")
    held = True
    for number, line in enumerate(lines, 1):
        for proven, text in check_line(line, f"{path}, line {number}", *given):
            say(text if proven else complaint(text))
            held &= proven
    return 0 if held else 1


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
    for kind in (bound["kind"] for bound in document["bounds"] if bound["holds_for"] != ANY_SCHEDULE):
        say(f"{kind}: other schedules may be faster; gaps are to {best}, the largest bound on any schedule")
