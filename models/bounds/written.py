"""Checks the bounds in lines of ``tutti bound --json`` again, from their certificates alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from tutti.models.bounds.bound import SECONDS_PER_BYTE, Bound, BoundError
from tutti.models.bounds.check import current_kind
from tutti.models.bounds.report import best_document
from tutti.schedules.files.document import read_collective
from tutti.topologies.errors import InputError
from tutti.topologies.exact import ROUNDING
from tutti.topologies.text import parse_topology
from tutti.topologies.units import GIGA, MICRO, duration, exact_number, format_size


def check_line(line: str, where: str, network: str | None = None) -> Iterator[tuple[bool, str]]:
    """Recompute the certificates in a line; yield for each whether it proves its bound, and a sentence.

    Parameters
    ----------
    line
        A line that ``tutti bound --json`` wrote.
    where
        The file and the line's number, for messages.
    network
        Text of a network that replaces the one that the line names.

    Raises
    ------
    InputError
        If it is no such line, or the network is not valid.
    """
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
    topology = parse_topology(network or text)
    what = read_collective(problem, topology, where)
    faults = 0
    for bound, said in zip(bounds, stated, strict=True):
        try:
            bound.check(topology, what)
            time = None if size is None else float(bound.time(size) * MICRO)
            _compare(f"{bound.kind} bound", said, {"time_us": time, "holds_for": bound.scope})
        except (BoundError, InputError, TypeError, ValueError) as error:
            faults += 1
            yield False, f"no: {text}, {what}: {error}"
        else:
            at = "" if time is None else f", {duration(time)} at {format_size(size or 0)}"
            yield True, f"proven: {text}, {what}: {bound.kind} {bound.value} {bound.unit}{at}"
    if not faults:
        try:
            _check_best(largest, bounds, size)
        except BoundError as error:
            yield False, f"no: {text}, {what}: {error}"


def _check_best(stated: Mapping[str, Any], bounds: Sequence[Bound], size: Fraction | None) -> None:
    """Raise `BoundError` if the line's best bound is not the largest bound on any schedule."""
    if not any(bound.binds_all for bound in bounds):
        raise BoundError("the best bound: none of these holds for any schedule")
    best = best_document(bounds, size)
    _compare("the best", stated, {**best.pop("best"), **best})


def _compare(of: str, stated: Mapping[str, Any], proven: Mapping[str, Any]) -> None:
    """Raise `BoundError` for the first value in a line that differs from the proven one."""
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
