"""The portfolio `best`: many methods on one problem, the fastest verified schedule at its size.

Methods are tried one after the other, the quick ones first, as long as time is left: those that make steps,
then trees and matching, then the exact ones. One that does not handle the problem, or finds nothing, is
passed over; what each did is kept in ``stats["tried"]``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from experiments.pipelining import best_slices
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


def fastest(problem: Problem, methods: Sequence[Method], budget: float, rng: np.random.Generator) -> Schedule:
    """Return the schedule of least simulated time at the problem's size, verified.

    Parameters
    ----------
    problem
        With a size.
    methods
        In the order in which they are tried.
    budget
        Seconds, after which none is begun; the first is always tried.

    Raises
    ------
    NoSchedule
        If no method found one.
    """
    best: Schedule | None = None
    tried: list[Tried] = []
    began = time.monotonic()
    for method in methods:
        if tried and time.monotonic() - began > budget:
            tried.append(Tried(method.name, math.inf, 0.0, "no time left"))
            continue
        left = budget - (time.monotonic() - began)
        attempt, schedule = _attempt(problem, method, rng, max(left, LEAST_SECONDS))
        if schedule is not None and attempt.seconds < min((one.seconds for one in tried), default=math.inf):
            best = schedule.replace(stats={**schedule.stats, "algorithm": method.name})
        tried.append(attempt)
    if best is None:
        reasons = "; ".join(f"{one.method}: {one.why}" for one in tried)
        raise NoSchedule(f"best: no method has a schedule of this ({reasons})")
    return best.replace(stats={**best.stats, "tried": tuple(tried)})


def _attempt(
    problem: Problem, method: Method, rng: np.random.Generator, left: float
) -> tuple[Tried, Schedule | None]:
    """Return what became of a method in the seconds left, and its schedule if it has one."""
    began = time.monotonic()
    options = _limited(method.options(), left)
    try:
        method.supports(problem, options)
        schedule = method.synthesize(problem, options, rng)
    except (Unsupported, NoSchedule) as error:
        return Tried(method.name, math.inf, time.monotonic() - began, str(error)), None
    verify(schedule)
    _, seconds = best_slices(schedule, problem.size or Fraction(1))
    return Tried(method.name, seconds, time.monotonic() - began), schedule


def _limited(options: Any, left: float) -> Any:
    """Return a method's options with its own ``time_limit``, if it has one, not beyond the seconds left."""
    if not hasattr(options, "time_limit"):
        return options
    own = options.time_limit
    if isinstance(own, str):
        return replace(options, time_limit=f"{min(float(parse_time(own)), left):.3f}s")
    return replace(options, time_limit=left if own is None else min(own, left))


def _chosen(methods: Mapping[str, Method], options: BestOptions) -> list[Method]:
    """Return the methods to try, in order."""
    names = options.methods or [name for name in ORDER if name in methods]
    unknown = next((name for name in names if name not in methods), None)
    if unknown is not None:
        raise InputError(f"best option methods: unknown method '{unknown}'{suggestion(unknown, methods)}")
    return [methods[name] for name in names]
