"""The task of a study of schedules: one synthesis (the best of some seeds), verified, and its rows."""

from __future__ import annotations

import gc
import hashlib
import math
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tutti.experiments.registry import find_method
from tutti.experiments.runner.judge import Cost, ProvenBound, notes, time_columns
from tutti.experiments.runner.study import JUDGE, SYNTHESIZE, Row, Task, TaskOutcome, Workplace
from tutti.models.bounds import own_bounds
from tutti.models.solvers.outcome import Progress, Trace
from tutti.models.solvers.solving import watching
from tutti.schedules.collective import Collective
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.simulate import best_slices
from tutti.schedules.verify import verify_answer
from tutti.topologies.errors import InputError, Interrupted, TuttiError
from tutti.topologies.kernels import COMPILATION, counted
from tutti.topologies.options import build_options, options_text
from tutti.topologies.processes import peak_memory, reset_peak_memory
from tutti.topologies.topology import Topology
from tutti.topologies.units import MICRO

MOST_SEEDS = 25
"""Most seeds of a part of a task. With a larger value there are fewer parts, and fewer workers share a
task."""
SUMMED = ("seeds", "synth_s", "verify_s")
"""Columns that are summed over all parts. The peak of memory is the largest; all others are those of the
best part."""


class Stopwatch:
    """Seconds spent inside the ``with`` block, less those that only the first call of something takes.

    Attributes
    ----------
    seconds, compiling
        The two parts. In the second one, kernels were compiled or loaded, modules were imported, and solvers'
        processes started.
    """

    def __init__(self) -> None:
        self.seconds = self.compiling = 0.0

    def __enter__(self) -> Stopwatch:
        self._imports = counted()
        self._imports.__enter__()
        self._start, self._compiled = time.perf_counter(), COMPILATION.seconds
        return self

    def __exit__(self, *error: object) -> None:
        self.compiling = COMPILATION.seconds - self._compiled
        self.seconds = max(time.perf_counter() - self._start - self.compiling, 0.0)
        self._imports.__exit__(None, None, None)


class ProgramCourses:
    """Incumbents and bounds of the mixed-integer programs that a method solves, over its seconds."""

    def __init__(self) -> None:
        self.began, self.courses = time.perf_counter(), list[list[str]]()

    def __call__(self) -> Trace:
        """Return what is given the incumbents and bounds of the next program."""
        before = began = time.perf_counter() - self.began
        course = list[str]()
        self.courses.append(course)

        def note(now: Progress) -> None:
            nonlocal before
            values = [now.incumbent, now.bound]
            if values != [None, None]:
                before = max(before, began + now.seconds)  # a solver's own clock may be a little behind
                texts = ("-" if value is None else f"{value:.9g}" for value in values)
                course.append(f"{before:.6g} {' '.join(texts)}")

        return note

    def kept_by(self, schedule: Schedule) -> Schedule:
        """Return a schedule that has them in its statistics, as the column ``program_course``."""
        course = " | ".join(map("; ".join, self.courses))
        return schedule.replace(stats={**schedule.stats, "program_course": course}) if course else schedule


@dataclass(frozen=True)
class Synthesized:
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
    course
        Of several seeds: the seconds and the time in microseconds of each, as the column ``course`` has them.
    """

    schedule: Schedule
    seed: int | None
    seeds: int
    synth_s: float
    verify_s: float
    course: str = ""


def synthesize_best(
    method: Method,
    problem: Problem,
    options: Any,
    seeds: Sequence[int],
    size: Fraction,
    notify: Callable[[str], None] = lambda stage: None,
) -> Synthesized:
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
    Interrupted
        If it was stopped when there was a schedule: with the best so far, as it would have been returned.
    """
    synth_s = verify_s = 0.0
    best, least, stop = None, math.inf, None
    course: list[str] = []
    notify(SYNTHESIZE)
    method.supports(problem, options)
    for count, seed in enumerate(seeds, 1):
        with Stopwatch() as watch:
            try:
                schedule, spent = _synthesize_once(method, problem, options, seed, notify)
            except KeyboardInterrupt as error:
                schedule, spent, stop = getattr(error, "found", None), None, error
        seconds = watch.seconds if spent is None else spent
        synth_s += seconds
        if stop is None or schedule is not None:
            notify(JUDGE)
            with Stopwatch() as verification:
                made = verify_answer(schedule, problem, method.name)
            verify_s += verification.seconds
            time = best_slices(made, size)[1] if len(seeds) > 1 else 0.0
            course.append(f"{seconds:.6g} {time * MICRO:.9g}")
            if best is None or time < least:
                best, least = Synthesized(made, seed if method.seeded else None, 0, 0.0, 0.0), time
        if stop is not None:
            if best is None:
                raise stop
            tried = count - (schedule is None)
            raise Interrupted(replace(best, seeds=tried, synth_s=synth_s, verify_s=verify_s)) from stop
    if best is None:
        raise TuttiError(f"{method.name}: no seed given; at least one is needed")
    tries = "; ".join(course) if len(seeds) > 1 else ""
    return replace(best, seeds=len(seeds), synth_s=synth_s, verify_s=verify_s, course=tries)


def _synthesize_once(
    method: Method, problem: Problem, options: Any, seed: int, notify: Callable[[str], None]
) -> tuple[Any, float]:
    """Return what a method makes, which is not verified yet, and the seconds that it took.

    The first synthesis of a process compiles or loads kernels and imports modules. That time is also in the
    method's own times (``build_s``, ``solve_s``), so a short synthesis is repeated. A method that tried
    others until its time was over is not repeated: it would continue with those for which it had no time.
    """
    for attempt in ("first", "again"):
        notify(SYNTHESIZE)
        courses = ProgramCourses()
        with Stopwatch() as watch, watching(courses):
            schedule = method.synthesize(problem, options, np.random.default_rng(seed))
        tried = getattr(schedule, "stats", {}).get("tried")  # not verified yet: it may be anything
        # Seconds: a second always, and up to three where compiling took as long.
        short = watch.seconds <= max(1.0, min(watch.compiling, 3.0)) and not tried
        if attempt == "again" or not watch.compiling or not short:
            break
        gc.collect()  # else the garbage collector looks through what was imported while the clock runs
    return courses.kept_by(schedule), watch.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisTask(Task):
    """One synthesis.

    Parameters
    ----------
    topology
        Its text.
    collective
        What to do on it.
    method, options
        The method's name, and the options given to it.
    known
        Columns of its rows that are known without running it: ``nodes``, ``switches`` and ``links`` of the
        network, ``kind`` and ``exact_for`` of the answer, and a ``note``.
    seeded, seeds
        Whether the method is random, and the seeds tried, the best of which is kept.
    sizes
        M in bytes of each row; more than one only where the schedule is the same for all.
    network
        The hash of the network itself: where it runs, a file may be another one. Empty: any will do.
    """

    topology: str
    collective: Collective
    method: str
    options: Mapping[str, Any]
    known: Mapping[str, Any]
    seeded: bool
    seeds: tuple[int, ...]
    sizes: tuple[int, ...]
    network: str = ""

    def __str__(self) -> str:
        options = options_text(self.options)
        seed = "" if self.seed is None else f" seed={self.seed}"
        if self.is_part:
            seed = f" seeds={self.seeds[0]}..{self.seeds[-1]} of {self.all_seeds}"
        return f"{self.topology} {self.collective} {self.method}{' ' if options else ''}{options}{seed}"

    @property
    def all_seeds(self) -> int:
        """The number of seeds that are tried for its rows, by other tasks too."""
        return sum(self.around) + len(self.seeds)

    @property
    def seed(self) -> int | None:
        """The seed, where only one is tried and it matters."""
        return self.seeds[0] if self.seeded and self.all_seeds == 1 else None

    @property
    def names(self) -> tuple[str, ...]:
        """Topology, collective and method."""
        return self.topology, str(self.collective), self.method

    @property
    def num_rows(self) -> int:
        """The number of rows: one a size."""
        return len(self.sizes)

    @property
    def bound_keys(self) -> tuple[str, ...]:
        """Texts of all that the bounds of its rows depend on, in the order of its sizes."""
        return tuple(f"{self.topology}\t{self.collective}\t{size}" for size in self.sizes)

    def rows(self, status: str, message: str = "") -> list[Row]:
        """Return a row for each size with what is known without running it."""
        known = {**self.known, "topology": self.topology, "method": self.method, "seed": self.seed}
        known |= {"collective": str(self.collective), "options": options_text(self.options)}
        known |= {"status": status, "message": message}
        return [{**known, "size_bytes": size} for size in self.sizes]

    def run(self, place: Workplace) -> TaskOutcome:
        """Synthesize, verify, judge and keep.

        Raises
        ------
        DiskError
            If a schedule can't be written.
        """
        reset_peak_memory()
        known, topology = set(place.bounds), place.topology(self.topology)
        if self.network and topology_digest(topology) != self.network:
            raise InputError(f"{self.topology} is another network where the row runs; give it the same file")
        result = self.best_on(topology, max(self.sizes), place)
        rows = _judge(self, result, place.bounds)
        new = {key: bound for key, bound in place.bounds.items() if key not in known}
        if place.keep is not None:
            digest = place.keep(result.schedule)
            rows = [{**row, "schedule": digest} for row in rows]
        return TaskOutcome("ok", rows, new)

    def best_on(self, topology: Topology, size: int, place: Workplace) -> Synthesized:
        """Return its method's schedule on a network at a size in bytes; raises as `synthesize_best`."""
        method, exact = find_method(self.method, place.methods), Fraction(size)
        options = build_options(method, self.options)
        problem = method.sized(Problem(topology, self.collective), options, exact)
        return synthesize_best(method, problem, options, self.seeds, exact, place.notify)

    @property
    def parts(self) -> Sequence[SynthesisTask]:
        """Tasks of at most `MOST_SEEDS` seeds each.

        They depend on nothing but its seeds, so that a row is the same wherever its parts ran.
        """
        count = len(self.seeds)
        firsts = range(0, count if count > MOST_SEEDS else 0, MOST_SEEDS)
        return [
            replace(self, seeds=seeds, key=f"{self.key}-{at}", around=(at, count - at - len(seeds)))
            for at, seeds in ((first, self.seeds[first : first + MOST_SEEDS]) for first in firsts)
        ] or (self,)

    def combined(self, outcomes: Sequence[TaskOutcome]) -> TaskOutcome:
        """Return what became of it: what would have, had its seeds been tried one after the other.

        The first part without a schedule ends the row, as one synthesis would have. Else the schedule is the
        fastest at the largest size, the first of equal ones.
        """
        if lost := next((outcome for outcome in outcomes if outcome.status != "ok"), None):
            return replace(lost, rows=self.rows(lost.status, lost.rows[0]["message"]))
        largest = self.sizes.index(max(self.sizes))
        best = min(outcomes, key=lambda outcome: outcome.rows[largest]["time_us"])
        firsts = [outcome.rows[0] for outcome in outcomes]
        every = {name: sum(row[name] for row in firsts) for name in SUMMED}
        every["peak_rss_mb"] = max(row["peak_rss_mb"] for row in firsts)
        bounds = {key: bound for outcome in outcomes for key, bound in outcome.bounds.items()}
        rows, ends = [row | every for row in best.rows], [outcome.rows[largest] for outcome in outcomes]
        courses = (end.get("course") or f"{end['synth_s']:.6g} {end['time_us']:.9g}" for end in ends)
        rows[largest]["course"] = "; ".join(courses)
        return TaskOutcome("ok", rows, bounds)

    def stopped(self, stops: int) -> str:
        """Return what is said if a synthesis exceeds the time limit after `stops` that did not."""
        number, every = self.around[0] + stops + 1, self.all_seeds
        return f"{Task.stopped(self, stops)}{f' (synthesis {number} of {every})' if every > 1 else ''}"


def topology_digest(topology: Topology) -> str:
    """Return a hash of the network itself, whatever its text."""
    digest = hashlib.sha256(repr((topology.num_ranks, topology.labels)).encode())
    for values in (topology.source, topology.target):
        digest.update(np.ascontiguousarray(values).tobytes())
    for exact in (topology.bandwidth.reduced, topology.alpha.reduced):
        digest.update(f"/{exact.denominator}".encode() + exact.numerators.tobytes())
    digest.update(repr((sorted(topology.multicast), sorted(topology.aggregate))).encode())
    return digest.hexdigest()


def _judge(task: SynthesisTask, result: Synthesized, bounds: MutableMapping[str, ProvenBound]) -> list[Row]:
    """Return the rows of a verified schedule."""
    cost = Cost.of(result.schedule)
    constant = {**cost.columns(), "verified": True}
    constant |= {name: getattr(result, name) for name in ("seed", "seeds", "synth_s", "verify_s")}
    own, rows = own_bounds(result.schedule), []
    for row, key in zip(task.rows("ok"), task.bound_keys, strict=True):
        size = Fraction(row["size_bytes"])
        if key not in bounds:
            with Stopwatch() as watch:
                found = ProvenBound.of(result.schedule.topology, result.schedule.collective, size)
            bounds[key] = replace(found, computed_s=watch.seconds)
        bound = bounds[key].or_better(own, size)
        with Stopwatch() as watch:
            measured = time_columns(result.schedule, size, bound)
        note = "; ".join(filter(None, [row["note"], notes(result.schedule, size)]))
        measured |= {"global_bytes": cost.global_bytes(size), "simulate_s": watch.seconds}
        measured |= {"bound_s": bound.computed_s}
        if result.course and size == max(task.sizes):
            measured["course"] = result.course
        rows.append({**row, **constant, **measured, "note": note})
    return [{**row, "peak_rss_mb": peak_memory()} for row in rows]
