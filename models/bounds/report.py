"""All bounds of a problem, the best of them, and the lines of ``tutti bound --json``, written and read again.

Some kinds are found by methods' folders, or by linear programs. `ELSEWHERE` names them, and they are
imported when they are first asked for, so that nothing here depends on those methods.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from pkgutil import resolve_name
from typing import Any

import numpy as np

from tutti.models.bounds.bandwidth import (
    cut_bound,
    declared_hosts,
    degree_bound,
    partition_bounds,
    partition_latency_bound,
)
from tutti.models.bounds.bound import ASKED_SECONDS, SECONDS_PER_BYTE, Bound, BoundError, BoundKind
from tutti.models.bounds.certificate import strengthened
from tutti.models.bounds.check import PROOFS, current_kind
from tutti.models.bounds.cut_gossip import cut_gossip_bound
from tutti.models.bounds.latency import (
    broadcast_growth_bound,
    combined_bound,
    distance_bound,
    first_hop_bound,
)
from tutti.models.bounds.message_count import message_count_bound
from tutti.models.bounds.spreading import AlphaDistances, forwarding
from tutti.models.bounds.traffic import Traffic
from tutti.schedules.collective import Collective, Kind
from tutti.schedules.files.document import collective_document, read_collective
from tutti.topologies.errors import InputError
from tutti.topologies.exact import ROUNDING, json_number
from tutti.topologies.progress import tell
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Topology
from tutti.topologies.units import GIGA, MICRO, duration, exact_number, format_size

ELSEWHERE = {
    "mcf": "tutti.models.all_to_all.optimum:mcf_bound",
    "lp": "tutti.models.allreduce.optimum:lp_bound",
    "unicast_price": "tutti.models.all_to_all.unicast_price:unicast_price_bound",
    "multicast_price": "tutti.models.bounds.multicast_price:multicast_price_bound",
    "path_price": "tutti.models.bounds.path_price:path_price_bound",
}
"""For each kind of bounds that is found by a method or a program: the module, and the function in it that
returns the bound or None. A new kind is a line here, and a module for its check beside
`models.bounds.check`."""

PROGRAMS = ("multicast_price", "path_price")
"""Kinds by linear programs that take seconds to minutes."""

FURTHER: dict[str, BoundKind] = {}
"""Kinds of bounds of plug-ins, by name."""


def add_kind(kind: BoundKind) -> None:
    """Add a kind of bounds to those that `lower_bounds` returns and that are checked."""
    FURTHER[kind.name] = kind
    PROOFS[kind.name] = kind.prove


@cache
def _finder(kind: str) -> Callable[..., Bound | None]:
    """Return the function that finds the bound of a kind in `ELSEWHERE`; imports its module."""
    function: Callable[..., Bound | None] = resolve_name(ELSEWHERE[kind])
    return function


def lower_bounds(
    topology: Topology,
    collective: Collective,
    size: Fraction | int | None = None,
    *,
    lp: bool = False,
    time_limit: float | None = None,
) -> list[Bound]:
    """Return the lower bounds on the time of a collective: one of each kind that applies.

    Parameters
    ----------
    topology, collective
        The problem. Groups count together: the data of all of them crosses a cut.
    size
        M, bytes, exact. Without it only the bandwidth bounds are returned.
    lp
        Whether the bound ``mcf`` is that of the linear program on any network, however long it takes;
        otherwise this is so on small and on symmetric networks (`models.all_to_all.optimum`). It also asks
        for ``multicast_price`` and ``path_price``, which take up to minutes.
    time_limit
        See `each_bound`.

    Returns
    -------
    list of Bound
        ``cut``, ``degree``, for allreduce ``partition``, for all-to-all ``mcf``. With a size also
        ``distance``, ``combined``, ``first_hop``, for allreduce ``partition_latency``, where switches only
        forward ``broadcast_growth`` and ``cut_gossip``, for all-to-all ``unicast_price``, and
        ``message_count`` where one or all ranks need everything and α matters. With `lp` also ``path_price``
        and, from one rank to all, to one rank from all, or for allreduce, ``multicast_price``. Also the kinds
        of `FURTHER`.

    Raises
    ------
    InputError
        If the collective is for another number of ranks, or the size is not positive.
    BoundError
        If the certificate of a plug-in's bound does not prove it.
    """
    found = {bound.kind: bound for bound in each_bound(topology, collective, size, time_limit)}
    if lp:
        found |= {bound.kind: bound for bound in program_bounds(topology, collective, size, found.values())}
    return list(found.values())


def each_bound(
    topology: Topology,
    collective: Collective,
    size: Fraction | int | None = None,
    time_limit: float | None = None,
    known: Iterable[Bound] = (),
) -> Iterator[Bound]:
    """Yield the bounds that `lower_bounds` returns without `lp` as they are found, the slow ones last.

    The search for ``mcf`` stops after `time_limit` seconds with the best value so far; None is no limit.
    The largest ``cut`` and ``mcf`` bounds in `known` are yielded, and not found a second time.
    """
    if collective.num_ranks != topology.num_ranks:
        raise InputError(
            f"{collective.kind} over {collective.num_ranks} ranks on {topology.name}, "
            f"which has {topology.num_ranks} ranks"
        )
    if size is not None and size <= 0:
        raise InputError(f"size {size} bytes; it must be positive")

    traffic = Traffic.of(collective)
    before = {bound.kind: bound for bound in sorted(known, key=lambda bound: bound.value)}
    cut = before.get("cut") or cut_bound(topology, traffic)
    partitions = partition_bounds(topology, traffic)
    exact = None if size is None else Fraction(size)
    bounds = [cut, degree_bound(topology, traffic), *partitions[:1]]
    yield from bounds
    further = (kind.bound(topology, collective, exact) for kind in FURTHER.values())
    flow = before.get("mcf") or _finder("mcf")(topology, collective, time_limit=time_limit)
    for bound in itertools.chain([flow], further):
        if bound:
            bounds.append(bound)
            yield bound
    if exact is None:
        return
    inside = np.zeros(topology.num_nodes, dtype=bool)
    inside[[*cut.certificate["ranks"], *cut.certificate["switches"]]] = True
    distances, cuts = AlphaDistances(topology), [inside, ~inside, *declared_hosts(topology)]
    growth = partial(broadcast_growth_bound, traffic=traffic, distances=distances)
    grown = _with_able(growth, topology)
    # Able switches are tried for cut_gossip only if they make broadcast_growth larger.
    able = grown is not None and "able" in grown.certificate
    gossip = partial(cut_gossip_bound, traffic=traffic, distances=distances, size=exact, cuts=cuts)
    latencies = (
        distance_bound(topology, traffic, distances),
        combined_bound(topology, traffic, distances, exact, inside),
        grown,
        first_hop_bound(topology, traffic, exact),
        partition_latency_bound(topology, traffic, partitions, exact),
    )
    least = max(bound.time(exact) for bound in (*bounds, *latencies) if bound)
    yield from (bound for bound in latencies if bound)
    # Each of these yields a bound only if it is larger than all before.
    steps: Sequence[Callable[[Fraction], Bound | None]] = (
        partial(message_count_bound, topology, traffic, distances, exact, cuts=cuts),
        partial(_finder("unicast_price"), topology, collective, exact),
        partial(_with_able, gossip, topology, able=able),
    )
    for step in steps:
        more = step(least)
        if more:
            least = max(least, more.value)
            yield more


def program_bounds(
    topology: Topology, collective: Collective, size: Fraction | int | None, known: Iterable[Bound]
) -> Iterator[Bound]:
    """Yield the bounds of linear programs that exceed those of `each_bound`, as they are found.

    Parameters
    ----------
    topology, collective, size
        As `lower_bounds`.
    known
        The bounds that `each_bound` yielded; those of the same kind are larger here.
    """
    bounds = list(known)
    if collective.kind is Kind.ALL_TO_ALL:
        tell(f"mcf: ends within {ASKED_SECONDS:g} s")
    flow = _finder("mcf")(topology, collective, asked=True)
    if flow and all(flow.value > bound.value for bound in bounds if bound.kind == flow.kind):
        bounds.append(flow)
        yield flow
    if size is None:
        return
    exact = Fraction(size)
    least = max(bound.time(exact) for bound in bounds)
    for kind in PROGRAMS:
        tell(f"{kind} over {duration(float(least * MICRO))}")
        more = _finder(kind)(topology, collective, exact, least)
        if more:
            least = max(least, more.value)
            yield more


def _with_able(
    find: Callable[..., Bound | None], topology: Topology, *least: Fraction, able: bool = True
) -> Bound | None:
    """Return the bound of a network; if `able`, the larger of two.

    The other is of the network in which switches inside hosts can multicast and aggregate. It holds for the
    real network too, and its certificate names these switches (``able``). There is none if no switch inside a
    host only forwards, or no other switch does.
    """
    found, only = [find(topology, *least)], forwarding(topology)
    inner = only & (topology.hosts >= 0) if topology.hosts is not None else only & False
    if able and inner.any() and not (inner == only).all():
        switches = np.flatnonzero(inner).tolist()
        more = find(strengthened(topology, switches), *least)
        found.append(more and replace(more, certificate={**more.certificate, "able": switches}))
    return max((bound for bound in found if bound), key=lambda bound: bound.value, default=None)


def best_bound(
    topology: Topology,
    collective: Collective,
    size: Fraction | int | None = None,
    time_limit: float | None = None,
    known: Sequence[Bound] = (),
) -> Bound:
    """Return the largest lower bound at this size; without a size, the largest bandwidth bound.

    `each_bound` explains the time limit and `known`.
    """
    return _best([*each_bound(topology, collective, size, time_limit, known), *known], size)


def bound_document(
    topology: Topology,
    collective: Collective,
    size: Fraction | int | None = None,
    bounds: Sequence[Bound] | None = None,
    *,
    lp: bool = False,
) -> dict[str, Any]:
    """Return the content of a line of ``tutti bound --json``.

    Parameters
    ----------
    topology, collective, size
        As `lower_bounds`.
    bounds
        The result of `lower_bounds`, if it is known.
    lp
        Whether an allreduce gets the bound ``lp`` on any network; otherwise it does on small ones
        (`models.allreduce.optimum`). That bound holds for tree schedules only, so it is never the best,
        unless the partition bound is as large. For an all-to-all, `lp` asks for ``mcf`` by the linear
        program.

    Returns
    -------
    dict
        Bandwidth bounds are given in s/GB of M (10^9 bytes); without a size ``time_us`` is None and
        ``algbw_gbps`` the limit for large M.
    """
    found = list(bounds) if bounds is not None else lower_bounds(topology, collective, size, lp=lp)
    partition = next((bound for bound in found if bound.kind == "partition"), None)
    trees = _finder("lp")(topology, collective, partition, asked=lp)
    return {
        "topology": topology.name,
        "collective": str(collective),
        "problem": collective_document(collective),
        "size_bytes": None if size is None else json_number(Fraction(size)),
        "bounds": [_entry(bound, size) for bound in [*found, *([trees] if trees else [])]],
        **best_document(found, size),
    }


def best_document(bounds: Sequence[Bound], size: Fraction | int | None) -> dict[str, Any]:
    """Return the keys of `bound_document` that say which bound on any schedule is the largest."""
    best = _best([bound for bound in bounds if bound.binds_all], size)
    rate = best.value if size is None else best.time(size) / size
    return {
        "best": {"kind": best.kind, "time_us": _time_us(best, size)},
        "algbw_gbps": float(1 / rate / GIGA) if rate else None,
    }


def _best(bounds: Sequence[Bound], size: Fraction | int | None) -> Bound:
    return max(bounds, key=lambda bound: bound.value if size is None else bound.time(size))


def _time_us(bound: Bound, size: Fraction | int | None) -> float | None:
    return None if size is None else float(bound.time(size) * MICRO)


def _entry(bound: Bound, size: Fraction | int | None) -> dict[str, Any]:
    per_byte = bound.unit == SECONDS_PER_BYTE
    exact = bound.value * GIGA if per_byte else bound.value
    return {
        "kind": bound.kind,
        "time_us": _time_us(bound, size),
        "exact": f"{exact.numerator}/{exact.denominator}",
        "unit": "s/GB" if per_byte else bound.unit,
        "holds_for": bound.scope,
        "certificate": dict(bound.certificate),
    }


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
            time = _time_us(bound, size)
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
