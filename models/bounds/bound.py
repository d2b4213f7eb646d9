"""A lower bound on time, its certificate, and the sentence that says what this proves.

`Bound` is what finders of all kinds return. `sentence` has the words for people, one sentence for each kind
of proof. `secant` gives the next time that a search with linear programs tries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tutti.models.bounds.bottleneck_cut import exit_bandwidth
from tutti.models.bounds.certificate import Certificate
from tutti.models.bounds.check import PROOFS, Proof, current_kind, proven
from tutti.schedules.collective import Collective
from tutti.schedules.method import Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.errors import InputError, TuttiError
from tutti.topologies.exact import json_number
from tutti.topologies.graphs.grid_structure import runs
from tutti.topologies.topology import Topology
from tutti.topologies.units import GIGA, MICRO, duration, format_time, short, throughput

SECONDS = "s"
SECONDS_PER_BYTE = "s/B"
PER_BYTE = ("cut", "degree", "partition", "mcf", "lp")
"""The kinds whose bounds are in seconds per byte of M; the others are in seconds."""
UNITS = {kind: (SECONDS_PER_BYTE,) if kind in PER_BYTE else (SECONDS,) for kind in PROOFS}
"""The units that values of each kind may have; kinds of plug-ins, which are added later, may have either."""
ANY_SCHEDULE = "any schedule"
"""The ``scope`` of a certificate whose bound holds for all schedules; bounds without a scope do, too."""


ASKED_SECONDS = 600.0
"""Largest number of seconds for each kind of bound by linear programs that the user asks for (``--lp``).
A larger value lets large networks have bounds that are nearer to the optimum of the program."""
STEP = 1.2
"""Factor from the first time to the second, and beyond times for which there is no maximum."""


class BoundError(TuttiError):
    """A certificate that does not prove its bound."""


@dataclass(frozen=True)
class Bound:
    """A lower bound on the time of schedules, with its certificate.

    `tutti.bound` returns the largest one, as a `LowerBound` whose ``proof`` it is.

    Parameters
    ----------
    kind
        ``cut``, ``degree``, ``partition``, ``mcf``, ``lp`` (bandwidth), ``distance``, ``combined``,
        ``cut_gossip``, ``broadcast_growth``, ``message_count``, ``first_hop``, ``unicast_price``,
        ``multicast_price``, ``path_price``, ``partition_latency``, or the name of a `BoundKind`. A name of an
        earlier version becomes that of today (`models.bounds.check.OLD_NAMES`).
    value
        Exact, in `unit`.
    unit
        ``"s/B"``: seconds per byte of M; ``"s"``: seconds (at the size in the certificate, if it has one).
    certificate
        The facts from which the bound follows (``docs/proofs.md`` says how), ready for JSON: node numbers,
        bandwidths in bytes/s, shares in units of M, times in seconds. A number is an integer or a text
        ``"p/q"``.

    Examples
    --------
    >>> import tutti
    >>> proof = tutti.bound("mesh:2x1", "allgather", "1GB").proof
    >>> proof.kind, proof.value, proof.unit  # α = 0.5 us, and 0.5 GB at 50 GB/s
    ('combined', Fraction(20001, 2000000), 's')
    """

    kind: str
    value: Fraction
    unit: str
    certificate: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Replace the name that a kind had in an earlier version."""
        object.__setattr__(self, "kind", current_kind(self.kind))

    @property
    def scope(self) -> str:
        """The schedules for which it holds: any schedule, or those over trees."""
        return str(self.certificate.get("scope", ANY_SCHEDULE))

    @property
    def binds_all(self) -> bool:
        """Whether it holds for any schedule."""
        return self.scope == ANY_SCHEDULE

    def time(self, size: Fraction | int) -> Fraction:
        """Return the bound in seconds when M is `size` bytes.

        Raises
        ------
        InputError
            If it was made for another size.
        """
        if self.unit == SECONDS_PER_BYTE:
            return self.value * size
        made_for = self.certificate.get("size_bytes")
        if made_for is not None and Fraction(made_for) != size:
            raise InputError(f"{self.kind} bound holds for {made_for} bytes, not for {size}; find it again")
        return self.value

    def check(self, topology: Topology, collective: Collective) -> None:
        """Recompute the value from the certificate alone, exactly.

        Raises
        ------
        BoundError
            If the certificate does not prove the value.
        """
        try:
            value = proven(self.kind, self.certificate, topology, collective)
        except (KeyError, TypeError, ValueError, LookupError, ArithmeticError) as error:
            what = f"{type(error).__name__} {error}"
            raise BoundError(f"{self.kind} bound: no certificate for {topology.name}: {what}") from error
        _hold_to(self, value)


def _hold_to(bound: Bound, value: Fraction) -> None:
    units = UNITS.get(bound.kind, (SECONDS_PER_BYTE, SECONDS))
    if bound.unit not in units:
        raise BoundError(f"{bound.kind} bound: its unit is {' or '.join(units)}, not {bound.unit}")
    if value != bound.value:
        raise BoundError(
            f"{bound.kind} bound: the certificate proves {value} {bound.unit}, not {bound.value}"
        )


@dataclass(frozen=True)
class BoundKind:
    """A kind of bounds of a plug-in: the function that finds one, and the proof of its certificates.

    Parameters
    ----------
    name
        The `Bound.kind` of the bounds that it finds.
    find
        ``(topology, collective, size) -> Bound | None``, on any schedule; `size` is M in bytes, or None where
        only a bound in s/B is wanted. It returns None where it does not apply.
    prove
        ``(certificate, topology, collective) -> Fraction``: the value, recomputed from the certificate by
        code that `find` does not call, as the ``check_*`` modules do. It checks each bound right after
        `find`.
    """

    name: str
    find: Callable[[Topology, Collective, Fraction | None], Bound | None]
    prove: Proof

    def bound(self, topology: Topology, collective: Collective, size: Fraction | None) -> Bound | None:
        """Return what is found, checked; None where it does not apply to the problem or the size.

        Raises
        ------
        BoundError
            If it is no bound of this kind with an exact value, or its certificate does not prove it.
        """
        found = self.find(topology, collective, size)
        if found is None:
            return None
        whole = isinstance(found, Bound) and found.kind == self.name and isinstance(found.value, Fraction)
        if not (whole and isinstance(found.certificate, Mapping) and isinstance(found.unit, str)):
            raise BoundError(
                f"{self.name} bound: find returned {found!r}; it must return None, or a Bound of kind "
                f"'{self.name}' whose value is a Fraction, whose unit a text and whose certificate a mapping"
            )
        _hold_to(found, self.prove(found.certificate, topology, collective))
        timed = found.unit == SECONDS
        return found if found.binds_all and not (timed and size is None) else None


class FoundBounds(NamedTuple):
    """Bounds that `models.bounds.each_bound` found while a method ran; ``stats["found"]`` of its schedule.

    Parameters
    ----------
    problem
        The problem that they hold for. A changed schedule may keep its statistics, but not the problem.
    bounds
        The bounds, at the problem's size.
    complete
        Whether these are all that `each_bound` finds at this size.
    """

    problem: Problem
    bounds: tuple[Bound, ...]
    complete: bool


def own_bounds(schedule: Schedule) -> list[Bound]:
    """Return the bounds on any schedule that were proven while a schedule was made.

    The bounds that its method proved stand in ``stats["bounds"]``; each is checked by its certificate, and
    bounds on tree schedules only are left out. Those in ``stats["found"]`` are returned if they hold at every
    size.

    Raises
    ------
    BoundError, InputError
        If a certificate does not prove its bound.
    """
    bounds = [bound for bound in schedule.stats.get("bounds", ()) if bound.binds_all]
    for bound in bounds:
        bound.check(schedule.topology, schedule.collective)
    found = found_bounds(schedule)
    return bounds + [bound for bound in found.bounds if bound.unit == SECONDS_PER_BYTE] if found else bounds


def found_bounds(schedule: Schedule) -> FoundBounds | None:
    """Return ``stats["found"]`` if there is one and it holds for the schedule's network and collective."""
    found: FoundBounds | None = schedule.stats.get("found")
    where, what = schedule.topology, schedule.collective
    return found if found and found.problem == Problem(where, what, found.problem.size) else None


def secant(times: Sequence[float], reciprocals: Sequence[float]) -> float:
    """Return where a falling number reaches 1, by the line through its last two reciprocals.

    It is no less than the first time.

    Examples
    --------
    >>> secant([1.0, 2.0], [0.5, 0.75])
    3.0
    """
    if len(times) > 1 and reciprocals[-1] != reciprocals[-2]:
        slope = (reciprocals[-1] - reciprocals[-2]) / (times[-1] - times[-2])
        return min(max(times[-1] + (1 - reciprocals[-1]) / slope, times[0]), 2 * times[-1])
    return times[-1] * STEP


class MostShown(NamedTuple):
    """Limits on the length of a sentence. Larger values make longer lines."""

    value: int
    """Largest number of characters of a value in a certificate of a kind without a sentence."""
    path: int
    """Largest number of nodes of a path that is written out."""


SHOWN = MostShown(value=40, path=8)


def sentence(kind: str, certificate: Certificate, topology: Topology) -> str:
    """Return the sentence for a certificate; `kind` is that of `models.bounds.Bound`.

    Examples
    --------
    >>> from tutti.topologies.text import parse_topology
    >>> rank = {"node": 0, "direction": "in", "share": "3/4", "bandwidth": 200_000_000_000}
    >>> sentence("degree", rank, parse_topology("ring:4"))
    '3/4 of M must enter rank 0, whose links in carry 200 GB/s'
    """
    if kind in SENTENCES:
        return SENTENCES[kind](certificate, topology)
    texts = {name: str(value) for name, value in certificate.items()}
    cut = {name: text[: SHOWN.value] + "..." * (len(text) > SHOWN.value) for name, text in texts.items()}
    return ", ".join(f"{name} {text}" for name, text in cut.items())


def _crossing(what: Certificate, topology: Topology) -> str:
    """Return what must leave a set of nodes, or enter the others if those are fewer."""
    bandwidth = what.get("exit_bandwidth", what.get("bandwidth"))
    if "ranks" not in what:
        side, inward = [what["node"]], what["direction"] == "in"
    else:
        inside = [*what["ranks"], *what["switches"]]
        outside = sorted(set(range(topology.num_nodes)) - set(inside))
        inward = len(outside) < len(inside)
        side = outside if inward else inside
    verb, way = ("enter", "in") if inward else ("leave", "out")
    exact = Fraction(what["share"])
    share = "all of M" if exact == 1 else f"{exact} M" if exact > 1 else f"{exact} of M"
    return f"{share} must {verb} {_nodes(side, topology)}, whose links {way} carry {_rate(bandwidth)}"


def _far(what: Certificate) -> str:
    """Return how far the data that a combined bound counts has to go."""
    alpha = format_time(Fraction(what["h"]))
    if "node" not in what:
        return f"; every path across has {alpha} of alpha or more"
    inward, over_cut = what["direction"] == "in", "ranks" in what
    ends = f" {'for' if inward else 'from'} rank {what['node']}" if over_cut else ""
    return f",{ends} {'from' if inward else 'to'} {alpha} of alpha or more away"


def _distance(what: Certificate, topology: Topology) -> str:
    path: Sequence[int] = what["path"]
    shown = "-".join(map(str, path)) if len(path) <= SHOWN.path else f"of {len(path) - 1} links"
    ends = f"from rank {what['from']} to {what['to']}"
    return f"{ends} no path has less alpha than {shown}: {format_time(Fraction(what['alpha']))}"


def _message_count(what: Certificate, topology: Topology) -> str:
    needs = "needs can't all have arrived" if _in(what) else "starts with can't all have been delivered"
    which = "some rank can't have data of all others" if what["heard"] else f"what some rank {needs}"
    return f"{which} before {_time(what)}, as a message costs alpha and holds only what its sender had"


def _partition(what: Certificate, topology: Topology) -> str:
    parts: Sequence[Sequence[int]] = what["parts"]
    single = all(len(part) == 1 for part in parts)
    between = f"the {len(parts)} ranks" if single else f"{len(parts)} parts like {_nodes(parts[0], topology)}"
    carry = f"whose links {what['direction']} together carry {_rate(what['capacity'])}"
    return f"2(k - 1) transfers between {between}, {Fraction(what['transfers'])} M in all, {carry}"


def _lengths(what: Certificate, topology: Topology) -> str:
    """Return which links are the bottleneck of a flow: those of a cut, or those with a length."""
    count, every = len(what["links"]), topology.num_links
    if "cut" in what:
        inside = [*what["cut"]["ranks"], *what["cut"]["switches"]]
        members = np.isin(np.arange(topology.num_nodes), inside)
        rate = _rate(json_number(exit_bandwidth(topology, members)))
        return f"the links out of {_nodes(inside, topology)} are the bottleneck; they carry {rate}"
    which = f"all {every} links are" if count == every else f"{count} of {every} links are"
    distance, capacity = (Fraction(what[name]) / max(what["lengths"]) for name in ("distance", "capacity"))
    need = f"routes need {short(float(distance))} M of them, and they carry {_rate(capacity)}"
    return f"{which} the bottleneck: weighed by length, {need}"


def _weights(what: Certificate, topology: Topology) -> str:
    """Return what proves the bound of the allreduce LP."""
    unit = max(cut["weight"] for cut in what["cuts"])
    crossed, capacity = (Fraction(what[name]) / unit for name in ("crossed", "capacity"))
    across = f"all data crosses {short(float(crossed))} M, and the links across carry {_rate(capacity)}"
    attained = "attained" if what["attained"] else "not known to be attained"
    everyone = "; the partition bound is as large" if "partition" in what else ""
    return f"of {len(what['cuts'])} weighted cuts {across}; {attained}{everyone}"


SENTENCES: Mapping[str, Callable[[Certificate, Topology], str]] = {
    "cut": _crossing,
    "degree": _crossing,
    "combined": lambda what, topology: _crossing(what, topology) + _far(what),
    "distance": _distance,
    "partition": _partition,
    "mcf": _lengths,
    "lp": _weights,
    "message_count": _message_count,
    "broadcast_growth": lambda what, _: (
        f"rank {what['node']} can't have {'data of' if _in(what) else 'its data at'} all "
        f"{what['needed']} before {format_time(what['ticks'] * Fraction(what['tick']))}, "
        "as a message holds each link for its alpha"
    ),
    "cut_gossip": lambda what, topology: (
        f"{_nodes([*what['ranks'], *what['switches']], topology)} can't have all they need before "
        f"{_time(what)}, as a message holds only what its sender had"
    ),
    "first_hop": lambda what, topology: (
        f"{_nodes([what['node']], topology)} can't have {'' if _in(what) else 'sent '}all before "
        f"{_time(what)}, as a link with more than a neighbour's own pays alpha twice"
    ),
    "unicast_price": lambda what, _: (
        f"not all data can have arrived before {_time(what)}, "
        "as a link that relays data waits for it or pays alpha again"
    ),
    "multicast_price": lambda what, _: (
        f"not all data can have been {'received' if _in(what) else 'reduced'} before {_time(what)}, "
        "by dual prices of a linear program over time"
    ),
    "path_price": lambda what, _: (
        f"no schedule can serve {len(what['pairs'])} pairs of ranks before {_time(what)}, "
        "by dual prices of messages over their whole routes"
    ),
    "partition_latency": lambda what, _: (
        f"transfers between {len(what['parts'])} parts take {_time(what)}, "
        "as a link pays alpha again where these wait"
    ),
}
"""The sentence for a certificate, by the kind of its bound. For any other kind, such as one of a plug-in, the
names and values of the certificate are written out."""


def _in(what: Certificate) -> bool:
    return what["direction"] == "in"


def _time(what: Certificate) -> str:
    """Return the time that a certificate proves, which it gives in seconds or in ticks."""
    if "time" in what:
        exact = Fraction(what["time"])
    else:
        exact = Fraction(int(what["ticks"]), int(what.get("parts", 1))) * Fraction(what["tick"])
    return duration(float(exact * MICRO))


def _nodes(nodes: Sequence[int], topology: Topology) -> str:
    ranks = sorted(node for node in nodes if node < topology.num_ranks)
    switches = sorted(node for node in nodes if node >= topology.num_ranks)
    return " and ".join(
        f"{one} {group[0]}" if len(group) == 1 else f"the {len(group)} {many} [{runs(group)}]"
        for group, one, many in ((ranks, "rank", "ranks"), (switches, "switch", "switches"))
        if group
    )


def _rate(bandwidth: str | int | Fraction) -> str:
    return throughput(float(Fraction(bandwidth) / GIGA))
