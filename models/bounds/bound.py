"""A lower bound on time and its certificate, and where a search over times by linear programs goes next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from tutti.models.bounds.check import PROOFS, Proof, current_kind, proven
from tutti.schedules.collective import Collective
from tutti.schedules.method import Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.errors import InputError, TuttiError
from tutti.topologies.topology import Topology

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
