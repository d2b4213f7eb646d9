"""The portfolio `best`: many methods on one problem, the fastest verified schedule at its size.

Methods are tried one after the other, the quick ones first, as long as time is left: those that make steps,
then trees and matching, then the exact ones. One that does not handle the problem, or finds nothing, is
passed over; what each did is kept in ``stats["tried"]``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from experiments.pipelining import best_slices
from models.bounds import best_bound
from schedules.method import Method, Problem
from schedules.schedule import Schedule
from schedules.verify import verify
from topologies.errors import InputError, NoSchedule, Unsupported, suggestion
from topologies.units import parse_time

DEFAULT_SECONDS = "60s"
LEAST_SECONDS = 0.1
"""A method with a time limit of its own gets so much in any case."""
ORDER = (
    *("torus_rings", "shifted_ring", "ring", "recursive_doubling", "rhd", "swing", "bruck", "direct", "dbt"),
    *(
        "nccl_like",
        "bfb",
        "postal",
        "rails",
        "expansion",
        "blueconnect",
        "themis",
        "ccube",
        "allreduce_trees",
        "forestcoll",
        "listed",
        "multitree",
    ),
    *("mcf", "tacos", "blink", "allreduce_lp", "tto", "taccl"),
)
"""Quick ones and those that are often best first."""
VARIANTS: Mapping[str, Sequence[Mapping[str, Any]]] = {"swing": ({"version": "latency"},)}
"""Options besides a method's defaults that are tried after them."""
ROUNDING = 1e-9
"""A time this close (relatively) to the proven bound meets it."""


@dataclass(frozen=True)
class BestOptions:
    """Options of the portfolio.

    Parameters
    ----------
    time_limit
        A time with its unit; when it is over, no other method is begun.
    methods
        Which are tried, in this order; empty: all that are sensible.

    Raises
    ------
    InputError
        If the time is none, or a method is not a name.
    """

    time_limit: str = DEFAULT_SECONDS
    methods: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the values."""
        if parse_time(self.time_limit) <= 0:
            raise InputError(
                f"best option time_limit is {self.time_limit!r}; it must be positive, such as 60s"
            )
        if isinstance(self.methods, str) or not all(isinstance(name, str) for name in self.methods):
            raise InputError(f"best option methods is {self.methods!r}; it must be a list of names")
        object.__setattr__(self, "methods", tuple(self.methods))


@dataclass(frozen=True)
class Entry:
    """A method with the options that are not its defaults."""

    method: Method
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The method's name and these options."""
        return " ".join([self.method.name, *(f"{name}={value}" for name, value in self.given.items())])


@dataclass(frozen=True)
class Tried:
    """What became of one method: simulated seconds (infinite: no schedule), seconds it took, and why."""

    method: str
    seconds: float
    took: float
    why: str = ""


def portfolio(methods: Mapping[str, Method]) -> Method:
    """Return the method `best` over these methods."""

    def synthesize(problem: Problem, options: BestOptions, rng: np.random.Generator) -> Schedule:
        return fastest(problem, _chosen(methods, options), float(parse_time(options.time_limit)), rng)

    return Method(
        name="best",
        kind="heuristic",
        synthesize=synthesize,
        options=BestOptions,
        size_dependent=lambda problem, options: True,
        seeded=True,
        summary="the fastest schedule of all sensible methods within a time budget",
    )


def fastest(problem: Problem, entries: Sequence[Entry], budget: float, rng: np.random.Generator) -> Schedule:
    """Return the schedule of least simulated time at the problem's size, verified.

    Parameters
    ----------
    problem
        With a size.
    entries
        In the order in which they are tried, until one meets the proven bound.
    budget
        Seconds, after which none is begun; the first is always tried.

    Raises
    ------
    NoSchedule
        If no method found one.
    """
    began = time.monotonic()
    size = problem.size or Fraction(1)
    least = float(best_bound(problem.topology, problem.collective, size).time(size)) * (1 + ROUNDING)
    best: Schedule | None = None
    fastest_so_far = math.inf
    tried: list[Tried] = []
    for entry in entries:
        left = budget - (time.monotonic() - began)
        if tried and (left < 0 or fastest_so_far <= least):
            why = "no time left" if fastest_so_far > least else "the proven bound is met"
            tried.append(Tried(entry.label, math.inf, 0.0, why))
            continue
        attempt, schedule = _attempt(problem, entry, rng, max(left, LEAST_SECONDS))
        if schedule is not None and attempt.seconds < fastest_so_far:
            fastest_so_far = attempt.seconds
            best = schedule.replace(stats={**schedule.stats, "algorithm": entry.label})
        tried.append(attempt)
    if best is None:
        reasons = "; ".join(f"{one.method}: {one.why}" for one in tried)
        raise NoSchedule(f"best: no method has a schedule of this ({reasons})")
    return best.replace(stats={**best.stats, "tried": tuple(tried)})


def _attempt(
    problem: Problem, entry: Entry, rng: np.random.Generator, left: float
) -> tuple[Tried, Schedule | None]:
    """Return what became of a method in the seconds left, and its schedule if it has one."""
    began = time.monotonic()
    method, label = entry.method, entry.label
    options = _limited(method.options(**entry.given), left)
    try:
        method.supports(problem, options)
        schedule = method.synthesize(problem, options, rng)
    except (Unsupported, NoSchedule, InputError) as error:  # the last: numbers that outgrow a method
        return Tried(label, math.inf, time.monotonic() - began, str(error)), None
    verify(schedule)
    _, seconds = best_slices(schedule, problem.size or Fraction(1))
    return Tried(label, seconds, time.monotonic() - began), schedule


def _limited(options: Any, left: float) -> Any:
    """Return a method's options with its own ``time_limit``, if it has one, not beyond the seconds left."""
    if not hasattr(options, "time_limit"):
        return options
    own = options.time_limit
    if isinstance(own, str):
        return replace(options, time_limit=f"{min(float(parse_time(own)), left):.3f}s")
    return replace(options, time_limit=left if own is None else min(own, left))


def _chosen(methods: Mapping[str, Method], options: BestOptions) -> list[Entry]:
    """Return the methods to try, in order, each with its variants."""
    names = options.methods or [name for name in ORDER if name in methods]
    unknown = next((name for name in names if name not in methods), None)
    if unknown is not None:
        raise InputError(f"best option methods: unknown method '{unknown}'{suggestion(unknown, methods)}")
    return [Entry(methods[name], given) for name in names for given in ({}, *VARIANTS.get(name, ()))]
