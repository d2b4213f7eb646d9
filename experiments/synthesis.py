"""From a problem to a verified schedule: the best of several seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from experiments.measure import Stopwatch
from schedules.method import Method, Problem
from schedules.schedule import Schedule
from schedules.simulate import simulate
from schedules.verify import verify
from topologies.errors import TuttiError

SYNTHESIZE, JUDGE = "synthesize", "judge"
"""The stages that are told; a time limit counts the first."""
SHORT_SECONDS = 1.0
"""A synthesis that took less is done again if compilation disturbed it."""


@dataclass(frozen=True)
class Made:
    """A verified schedule and what it took.

    Parameters
    ----------
    schedule
        The best one.
    seed
        That made it; None for a method without randomness.
    seeds
        How many were tried.
    synth_s, verify_s
        Seconds of synthesis and of verification over all seeds, compilation left out.
    """

    schedule: Schedule
    seed: int | None
    seeds: int
    synth_s: float
    verify_s: float


def _silent(stage: str) -> None:
    """Tell nobody."""


def synthesize_best(
    method: Method,
    problem: Problem,
    options: Any,
    seeds: Sequence[int],
    size: Fraction,
    notify: Callable[[str], None] = _silent,
) -> Made:
    """Return the schedule of least simulated time at `size` (bytes), the first of equal ones.

    Every candidate is verified before it is compared.

    Raises
    ------
    Unsupported
        If the method does not handle the problem; nothing is built then.
    NoSchedule
        If it finds no schedule.
    VerificationError
        If a schedule is not legal.
    """
    synth_s = verify_s = 0.0
    best: tuple[float, int, Schedule] | None = None
    notify(SYNTHESIZE)
    method.supports(problem, options)
    for seed in seeds:
        schedule, seconds = _synthesize(method, problem, options, seed, notify)
        synth_s += seconds
        notify(JUDGE)
        with Stopwatch() as verification:
            _check(method, problem, schedule)
        verify_s += verification.seconds
        time = simulate(schedule, size).time if len(seeds) > 1 else 0.0
        if best is None or time < best[0]:
            best = (time, seed, schedule)
    if best is None:
        raise TuttiError(f"{method.name}: no seed given; at least one is needed")
    kept = best[1] if method.seeded else None
    return Made(best[2], kept, len(seeds), synth_s, verify_s)


def _synthesize(
    method: Method, problem: Problem, options: Any, seed: int, notify: Callable[[str], None]
) -> tuple[Schedule, float]:
    """Return a schedule and the seconds that it took.

    The first time in a process, kernels are compiled or loaded, and that falls into the method's own times
    too (``build_s``, ``solve_s``); a short synthesis is done again then.
    """
    for attempt in ("first", "again"):
        notify(SYNTHESIZE)
        with Stopwatch() as watch:
            schedule = method.synthesize(problem, options, np.random.default_rng(seed))
        if attempt == "again" or not watch.compiling or watch.seconds > SHORT_SECONDS:
            break
    return schedule, watch.seconds


def _check(method: Method, problem: Problem, schedule: Schedule) -> None:
    if schedule.collective != problem.collective or schedule.topology != problem.topology:
        raise TuttiError(f"{method.name} answered another problem: {schedule.collective} on another network")
    verify(schedule)
