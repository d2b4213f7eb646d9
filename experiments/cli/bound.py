"""``tutti bound``: lower bounds on the time of every schedule, with their proofs.

The output has a sentence for each certificate; ``--json`` has the whole certificates.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tutti.experiments.cli.commands import BoundCommand
from tutti.experiments.cli.output import SHOWN, console, print_json, print_table
from tutti.experiments.printable import complaint, remark, say
from tutti.experiments.runner.progress import waiting
from tutti.models.bounds import Bound, BoundError, bound_document, each_bound, program_bounds
from tutti.models.bounds.bandwidth import exit_bandwidth
from tutti.models.bounds.bound import ANY_SCHEDULE, ASKED_SECONDS, SECONDS_PER_BYTE
from tutti.models.bounds.check import current_kind
from tutti.models.bounds.report import FURTHER, PROGRAMS, best_document
from tutti.schedules.collective import Collective, Kind
from tutti.schedules.files.document import read_collective
from tutti.topologies.errors import InputError
from tutti.topologies.exact import ROUNDING, json_number
from tutti.topologies.files import read_text
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Topology
from tutti.topologies.units import (
    GIGA,
    MICRO,
    duration,
    exact_number,
    format_size,
    format_time,
    short,
    throughput,
)

Certificate = Mapping[str, Any]
Problem = tuple[Topology, Collective, Fraction | None]
"""A network, a collective, and M in bytes if it is given."""


def sentence(kind: str, certificate: Certificate, topology: Topology) -> str:
    """Return what a certificate says; `kind` is that of `models.bounds.Bound`.

    Examples
    --------
    >>> from tutti.topologies.text import parse_topology
    >>> rank = {"node": 0, "direction": "in", "share": "3/4", "bandwidth": 200_000_000_000}
    >>> sentence("degree", rank, parse_topology("ring:4"))
    '3/4 of M must enter rank 0, whose links in carry 200 GB/s'
    """
    if kind in SENTENCES:
        return SENTENCES[kind](certificate, topology)
    if kind in FURTHER:
        pairs, most = ((name, str(value)) for name, value in certificate.items()), SHOWN.value
        return ", ".join(
            f"{name} {text if len(text) <= most else f'{text[:most]}...'}" for name, text in pairs
        )
    crossing = _crossing(certificate, topology)
    return crossing if kind != "combined" else f"{crossing}{_far(certificate)}"


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers in brackets, consecutive ones as a range.

    Examples
    --------
    >>> ranges([0, 1, 2, 5, 7, 8])
    '[0-2, 5, 7-8]'
    """
    ordered = sorted(numbers)
    starts = [0, *(i for i, (a, b) in enumerate(pairwise(ordered), start=1) if b > a + 1), len(ordered)]
    runs = [(ordered[a], ordered[b - 1]) for a, b in pairwise(starts) if b > a]
    words = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    return f"[{', '.join(words[: SHOWN.members])}{', ...' if len(words) > SHOWN.members else ''}]"


def _crossing(certificate: Certificate, topology: Topology) -> str:
    """Return what must leave a set of nodes, or enter the others if those are fewer."""
    bandwidth = certificate.get("exit_bandwidth", certificate.get("bandwidth"))
    if "ranks" not in certificate:
        side, inward = [certificate["node"]], certificate["direction"] == "in"
    else:
        inside = [*certificate["ranks"], *certificate["switches"]]
        outside = sorted(set(range(topology.num_nodes)) - set(inside))
        inward = len(outside) < len(inside)
        side = outside if inward else inside
    verb, way = ("enter", "in") if inward else ("leave", "out")
    exact, where = Fraction(certificate["share"]), _nodes(side, topology)
    share = "all of M" if exact == 1 else f"{exact} M" if exact > 1 else f"{exact} of M"
    return f"{share} must {verb} {where}, whose links {way} carry {_rate(bandwidth)}"


def _far(certificate: Certificate) -> str:
    """Return how far what is counted in a combined bound has to go."""
    alpha = format_time(Fraction(certificate["h"]))
    if "node" not in certificate:
        return f"; every way across takes {alpha} of alpha or more"
    inward, over_cut = certificate["direction"] == "in", "ranks" in certificate
    goal = "" if not over_cut else f" for rank {certificate['node']}" if inward else ""
    origin = f" from rank {certificate['node']}" if over_cut and not inward else ""
    return f",{goal}{origin} {'from' if inward else 'to'} {alpha} of alpha or more away"


def _distance(certificate: Certificate, topology: Topology) -> str:
    path: Sequence[int] = certificate["path"]
    shown = "-".join(map(str, path)) if len(path) <= SHOWN.members else f"of {len(path) - 1} links"
    ends = f"from rank {certificate['from']} to {certificate['to']}"
    return f"{ends} no path has less alpha than {shown}: {format_time(Fraction(certificate['alpha']))}"


def _broadcast_growth(certificate: Certificate, topology: Topology) -> str:
    time = format_time(int(certificate["ticks"]) * Fraction(certificate["tick"]))
    whom = "can be heard of by" if certificate["direction"] == "out" else "can have heard of"
    what = f"rank {certificate['node']} {whom} all {certificate['needed']} not before {time}"
    return f"{what}, as a message holds each link for its alpha"


def _time(certificate: Certificate) -> str:
    """Return the time that a certificate proves: as such, or in ticks."""
    if "time" in certificate:
        exact = Fraction(certificate["time"])
    else:
        ticks = Fraction(int(certificate["ticks"]), int(certificate.get("parts", 1)))
        exact = ticks * Fraction(certificate["tick"])
    return duration(float(exact * MICRO))


def _cut_gossip(certificate: Certificate, topology: Topology) -> str:
    inside = _nodes([*certificate["ranks"], *certificate["switches"]], topology)
    has = "as a message has only what its sender heard of"
    return f"{inside} can't have all they need before {_time(certificate)}, {has}"


def _message_count(certificate: Certificate, topology: Topology) -> str:
    inward = certificate["direction"] == "in"
    what = "needs can't all have come" if inward else "starts with can't all have gone"
    which = "some rank can't have heard of all" if certificate["heard"] else f"what some rank {what}"
    return f"{which} before {_time(certificate)}, as a message costs alpha and holds only what its sender had"


def _unicast_price(certificate: Certificate, topology: Topology) -> str:
    why = "as one that relays waits for data or pays alpha again"
    return f"links can't have moved all before {_time(certificate)}, {why}"


def _multicast_price(certificate: Certificate, topology: Topology) -> str:
    verb = "arrived" if certificate["direction"] == "in" else "been added up"
    before = f"before {_time(certificate)}, by prices of what links do when"
    return f"what is needed can't all have {verb} {before}"


def _path_price(certificate: Certificate, topology: Topology) -> str:
    pairs, before = len(certificate["pairs"]), f"before {_time(certificate)}"
    return f"{pairs} pairs of ranks can't all have heard {before}, by prices of messages' whole ways"


def _first_hop(certificate: Certificate, topology: Topology) -> str:
    node = _nodes([certificate["node"]], topology)
    verb = "have all" if certificate["direction"] == "in" else "have sent all"
    why = "as a link with more than a neighbour's own pays alpha twice"
    return f"{node} can't {verb} before {_time(certificate)}, {why}"


def _partition_latency(certificate: Certificate, topology: Topology) -> str:
    taken = f"transfers between {len(certificate['parts'])} parts take {_time(certificate)}"
    return f"{taken}, as links pay alpha again where these wait"


def _partition(certificate: Certificate, topology: Topology) -> str:
    parts: Sequence[Sequence[int]] = certificate["parts"]
    single = all(len(part) == 1 for part in parts)
    between = f"the {len(parts)} ranks" if single else f"{len(parts)} parts like {_nodes(parts[0], topology)}"
    transfers, rate = Fraction(certificate["transfers"]), _rate(certificate["capacity"])
    way = f"links {certificate['direction']}"
    return f"2(k - 1) transfers between {between}, {transfers} M in all, whose {way} together carry {rate}"


def _lengths(certificate: Certificate, topology: Topology) -> str:
    """Return which links are the bottleneck of a flow: those of a cut, or how many have a length."""
    count, every = len(certificate["links"]), topology.num_links
    if "cut" in certificate:
        inside = [*certificate["cut"]["ranks"], *certificate["cut"]["switches"]]
        members = np.isin(np.arange(topology.num_nodes), inside)
        rate = _rate(json_number(exit_bandwidth(topology, members)))
        return f"the links out of {_nodes(inside, topology)} are the bottleneck; they carry {rate}"
    which = f"all {every} links are" if count == every else f"{count} of {every} links are"
    distance = Fraction(certificate["distance"]) / max(certificate["lengths"])
    capacity = Fraction(certificate["capacity"]) / max(certificate["lengths"])
    return (
        f"{which} the bottleneck: weighed by length, routes need {short(float(distance))} M of them, "
        f"and they carry {_rate(str(capacity))}"
    )


def _weights(certificate: Certificate, topology: Topology) -> str:
    """Return what proves the bound of the allreduce LP."""
    cuts = certificate["cuts"]
    unit = max(cut["weight"] for cut in cuts)
    crossed = short(float(Fraction(certificate["crossed"]) / unit))
    rate = _rate(str(Fraction(certificate["capacity"]) / unit))
    attained = "attained" if certificate["attained"] else "not known to be attained"
    everyone = "; the partition bound is as large" if "partition" in certificate else ""
    return (
        f"of {len(cuts)} weighted cuts all data crosses {crossed} M, and the links across carry {rate}; "
        f"{attained}{everyone}"
    )


SENTENCES: Mapping[str, Callable[[Certificate, Topology], str]] = {
    "distance": _distance,
    "broadcast_growth": _broadcast_growth,
    "partition": _partition,
    "mcf": _lengths,
    "lp": _weights,
    "first_hop": _first_hop,
    "cut_gossip": _cut_gossip,
    "multicast_price": _multicast_price,
    "path_price": _path_price,
    "message_count": _message_count,
    "unicast_price": _unicast_price,
    "partition_latency": _partition_latency,
}
"""The sentence for a certificate, by the kind of its bound. Other kinds are about the data that must leave a
set of nodes."""


def _nodes(nodes: Sequence[int], topology: Topology) -> str:
    ranks = [node for node in nodes if node < topology.num_ranks]
    switches = [node for node in nodes if node >= topology.num_ranks]
    groups = ((ranks, "rank", "ranks"), (switches, "switch", "switches"))
    return " and ".join(
        f"{one} {group[0]}" if len(group) == 1 else f"the {len(group)} {many} {ranges(group)}"
        for group, one, many in groups
        if group
    )


def _rate(bandwidth: str | int) -> str:
    return throughput(float(Fraction(bandwidth) / GIGA))


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
