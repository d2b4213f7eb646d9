"""``tutti bound``: what no schedule can beat, with the proof.

Certificates are told as sentences, for people; ``--json`` has them whole.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tutti.experiments.cli.output import console, print_json, print_table
from tutti.experiments.cli.problem import parse_amount, parse_collective
from tutti.experiments.printable import complaint, say
from tutti.experiments.runner.progress import waiting
from tutti.models.bounds import Bound, BoundError, bound_document, each_bound, program_bounds
from tutti.models.bounds.bandwidth import exit_bandwidth
from tutti.models.bounds.bound import ANY_SCHEDULE, ASKED_SECONDS, SECONDS_PER_BYTE
from tutti.models.bounds.check import current_kind
from tutti.models.bounds.report import FURTHER, PROGRAMS, best_document
from tutti.schedules.collective import Collective, Kind
from tutti.schedules.files.document import read_collective
from tutti.topologies.errors import InputError
from tutti.topologies.exact import json_number
from tutti.topologies.files import read_text
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Topology
from tutti.topologies.units import duration, exact_number, format_size, format_time, short, throughput

GIGA, MICRO = 10**9, 10**6
_ROUNDED = 1e-9
"""By what part of a time the one that a file states may differ from the one that is proven."""
MOST = 8
"""Ranges of a set, or nodes of a path, that are printed."""
WIDE = 40
"""Characters of a value in a certificate of a kind from outside that are printed."""

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
    if kind == "distance":
        return _distance(certificate)
    if kind == "broadcast_growth":
        return _broadcast_growth(certificate)
    if kind == "partition":
        return _partition(certificate, topology)
    if kind == "mcf":
        return _lengths(certificate, topology)
    if kind == "lp":
        return _weights(certificate, topology)
    if kind == "first_hop":
        return _first_hop(certificate, topology)
    if kind == "cut_gossip":
        return _cut_gossip(certificate, topology)
    if kind in FURTHER or kind in ALONE:
        return ALONE.get(kind, _plain)(certificate)
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
    return f"[{', '.join(words[:MOST])}{', ...' if len(words) > MOST else ''}]"


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
    where, verb, way = _nodes(side, topology), *(("enter", "in") if inward else ("leave", "out"))
    return f"{_share(certificate['share'])} must {verb} {where}, whose links {way} carry {_rate(bandwidth)}"


def _far(certificate: Certificate) -> str:
    """Return how far what is counted in a combined bound has to go."""
    alpha = format_time(Fraction(certificate["h"]))
    if "node" not in certificate:
        return f"; every way across takes {alpha} of alpha or more"
    inward, over_cut = certificate["direction"] == "in", "ranks" in certificate
    goal = "" if not over_cut else f" for rank {certificate['node']}" if inward else ""
    origin = f" from rank {certificate['node']}" if over_cut and not inward else ""
    return f",{goal}{origin} {'from' if inward else 'to'} {alpha} of alpha or more away"


def _distance(certificate: Certificate) -> str:
    path: Sequence[int] = certificate["path"]
    shown = "-".join(map(str, path)) if len(path) <= MOST else f"of {len(path) - 1} links"
    alpha = format_time(Fraction(certificate["alpha"]))
    return (
        f"from rank {certificate['from']} to {certificate['to']} no path has less alpha than {shown}: {alpha}"
    )


def _broadcast_growth(certificate: Certificate) -> str:
    time = format_time(int(certificate["ticks"]) * Fraction(certificate["tick"]))
    whom = "can be heard of by" if certificate["direction"] == "out" else "can have heard of"
    return (
        f"rank {certificate['node']} {whom} all {certificate['needed']} not before {time}, "
        "as a message holds each link for its alpha"
    )


def _cut_gossip(certificate: Certificate, topology: Topology) -> str:
    ticks = Fraction(int(certificate["ticks"]), int(certificate["parts"]))
    time = duration(float(ticks * Fraction(certificate["tick"]) * MICRO))
    inside = _nodes([*certificate["ranks"], *certificate["switches"]], topology)
    return f"{inside} can't have all they need before {time}, as a message has only what its sender heard of"


def _message_count(certificate: Certificate) -> str:
    time = duration(float(int(certificate["ticks"]) * Fraction(certificate["tick"]) * MICRO))
    inward = certificate["direction"] == "in"
    what = "needs can't all have come" if inward else "starts with can't all have gone"
    which = "some rank can't have heard of all" if certificate["heard"] else f"what some rank {what}"
    return f"{which} before {time}, as a message costs alpha and holds only what its sender had"


def _unicast_price(certificate: Certificate) -> str:
    time = duration(float(Fraction(certificate["time"]) * MICRO))
    return f"links can't have moved all before {time}, as one that relays waits for data or pays alpha again"


def _multicast_price(certificate: Certificate) -> str:
    time = duration(float(Fraction(certificate["time"]) * MICRO))
    verb = "arrived" if certificate["direction"] == "in" else "been added up"
    return f"what is needed can't all have {verb} before {time}, by prices of what links do when"


def _path_price(certificate: Certificate) -> str:
    pairs, time = len(certificate["pairs"]), duration(float(Fraction(certificate["time"]) * MICRO))
    return f"{pairs} pairs of ranks can't all have heard before {time}, by prices of messages' whole ways"


def _first_hop(certificate: Certificate, topology: Topology) -> str:
    node = _nodes([certificate["node"]], topology)
    verb = "have all" if certificate["direction"] == "in" else "have sent all"
    time = duration(float(Fraction(certificate["time"]) * MICRO))
    return f"{node} can't {verb} before {time}, as a link with more than a neighbour's own pays alpha twice"


def _partition_latency(certificate: Certificate) -> str:
    count, time = len(certificate["parts"]), duration(float(Fraction(certificate["time"]) * MICRO))
    return f"transfers between {count} parts take {time}, as links pay alpha again where these wait"


ALONE: Mapping[str, Callable[[Certificate], str]] = {
    "multicast_price": _multicast_price,
    "path_price": _path_price,
    "message_count": _message_count,
    "unicast_price": _unicast_price,
    "partition_latency": _partition_latency,
}
"""What is said of kinds whose certificate says it alone."""


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


def _plain(certificate: Certificate) -> str:
    """Return the certificate of a kind from outside: its keys and values, long ones cut."""
    pairs = ((name, str(value)) for name, value in certificate.items())
    return ", ".join(f"{name} {text if len(text) <= WIDE else f'{text[:WIDE]}...'}" for name, text in pairs)


def _nodes(nodes: Sequence[int], topology: Topology) -> str:
    ranks = [node for node in nodes if node < topology.num_ranks]
    switches = [node for node in nodes if node >= topology.num_ranks]
    groups = ((ranks, "rank", "ranks"), (switches, "switch", "switches"))
    return " and ".join(_counted(group, one, many) for group, one, many in groups if group)


def _counted(nodes: Sequence[int], one: str, many: str) -> str:
    return f"{one} {nodes[0]}" if len(nodes) == 1 else f"the {len(nodes)} {many} {ranges(nodes)}"


def _share(share: str | int) -> str:
    exact = Fraction(share)
    return "all of M" if exact == 1 else f"{exact} M" if exact > 1 else f"{exact} of M"


def _rate(bandwidth: str | int) -> str:
    return throughput(float(Fraction(bandwidth) / GIGA))


def execute(arguments: argparse.Namespace) -> int:
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


def _print_bounds(text: str, arguments: argparse.Namespace) -> None:
    """Print the bounds on one topology. In text, those of linear programs come after the others."""
    topology = parse_topology(text)
    what = parse_collective(arguments, topology)
    problem = topology, what, parse_amount(arguments, what)
    found: dict[str, Bound] = {}
    document, stopped = _find(found, each_bound(*problem), problem)
    programs = _programs(what, problem[-1]) if arguments.lp and not stopped else ()
    if not arguments.json:
        _print(document, topology)
    if programs:
        before = document
        _announce(programs)
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
    say(f"tutti: note: --lp: {lacking} need --size, such as --size 1MB; without it, {rest}", sys.stderr)
    return alone


def _announce(programs: Sequence[str]) -> None:
    limit = f"at most {duration(ASKED_SECONDS * MICRO)} each"
    say(f"tutti: linear programs for {', '.join(programs)}, {limit}; Ctrl-C keeps what is found", sys.stderr)


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
    held, lines = True, read_text(path).splitlines()
    if not lines:
        raise InputError(f"{path} is empty; tutti bound --json writes a line for each topology")
    for number, line in enumerate(lines, start=1):
        where = f"{path}, line {number}"
        try:
            document = json.loads(line)
            text = str(document["topology"])
            bounds = [_bound(entry) for entry in document["bounds"]]
            stated = [
                {name: entry[name] for name in ("time_us", "holds_for")} for entry in document["bounds"]
            ]
            largest = {"kind": current_kind(document["best"]["kind"]), "time_us": document["best"]["time_us"]}
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
        each = True
        for bound, said in zip(bounds, stated, strict=True):
            try:
                bound.check(topology, what)
                time = None if size is None else float(bound.time(size) * MICRO)
                _compare(f"{bound.kind} bound", said, {"time_us": time, "holds_for": bound.scope})
            except (BoundError, InputError, TypeError, ValueError) as error:
                each = False
                say(complaint(f"no: {text}, {what}: {error}"))
            else:
                at = (
                    ""
                    if time is None
                    else f", {duration(time)} at {format_size(Fraction(document['size_bytes']))}"
                )
                say(f"proven: {text}, {what}: {bound.kind} {bound.value} {bound.unit}{at}")
        if each:
            try:
                _check_best(largest, bounds, size)
            except BoundError as error:
                each = False
                say(complaint(f"no: {text}, {what}: {error}"))
        held = held and each
    return 0 if held else 1


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
        off = value * _ROUNDED if close else 0
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
    rows = [
        [
            bound["kind"],
            f"{Fraction(bound['exact'])} {bound['unit']}",
            *([] if size is None else [duration(bound["time_us"])]),
            bound["holds_for"],
            sentence(bound["kind"], bound["certificate"], topology),
        ]
        for bound in document["bounds"]
    ]
    print_table(title, ["bound", "exact", *([] if size is None else ["time"]), "holds for", "proof"], rows)
    narrow = [bound["kind"] for bound in document["bounds"] if bound["holds_for"] != ANY_SCHEDULE]
    for kind in narrow:
        say(f"{kind}: other schedules may be faster; gaps are to {best}, the largest bound on any schedule")
