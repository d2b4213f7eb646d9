"""A task: one synthesis (the best of some seeds), verified, and the result rows of all its sizes."""

from __future__ import annotations

import gc
import hashlib
import math
import time
import traceback
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from tutti.experiments import plugins
from tutti.experiments.registry import find_method
from tutti.experiments.runner.judge import Cost, ProvenBound, notes, time_columns
from tutti.models.bounds import own_bounds
from tutti.schedules.collective import Collective
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.pipelining import best_slices
from tutti.schedules.verify import VerificationError, verify_answer
from tutti.topologies.errors import InputError, Interrupted, NoSchedule, TuttiError, Unsupported, raised
from tutti.topologies.kernels import COMPILATION, counted
from tutti.topologies.options import build_options, options_text
from tutti.topologies.processes import peak_memory, reset_peak_memory
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Topology
from tutti.topologies.units import MICRO

SYNTHESIZE, JUDGE = "synthesize", "judge"
"""The stages that `notify` is given; a time limit counts the first."""
Row = dict[str, Any]
Bounds = MutableMapping[str, ProvenBound]
STATUS_OF = {Unsupported: "unsupported", NoSchedule: "infeasible"}
"""The outcomes of a method that are answers; everything else raised is a failure."""


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


def _silent(stage: str) -> None:
    """Tell nobody."""


def synthesize_best(
    method: Method,
    problem: Problem,
    options: Any,
    seeds: Sequence[int],
    size: Fraction,
    notify: Callable[[str], None] = _silent,
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
    best, least = None, math.inf
    course: list[str] = []
    notify(SYNTHESIZE)
    method.supports(problem, options)
    for count, seed in enumerate(seeds, 1):
        schedule, seconds, stop = _until_stopped(method, problem, options, seed, notify)
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
    told = "; ".join(course) if len(seeds) > 1 else ""
    return replace(best, seeds=len(seeds), synth_s=synth_s, verify_s=verify_s, course=told)


def _until_stopped(
    method: Method, problem: Problem, options: Any, seed: int, notify: Callable[[str], None]
) -> tuple[Schedule | None, float, KeyboardInterrupt | None]:
    """Return a schedule if there is one, the seconds that it took, and Ctrl-C if that stopped it."""
    with Stopwatch() as watch:
        try:
            return *_synthesize_once(method, problem, options, seed, notify), None
        except KeyboardInterrupt as error:
            stop = error
    return (stop.found if isinstance(stop, Interrupted) else None), watch.seconds, stop


def _synthesize_once(
    method: Method, problem: Problem, options: Any, seed: int, notify: Callable[[str], None]
) -> tuple[Schedule, float]:
    """Return a schedule and the seconds that it took.

    The first synthesis of a process compiles or loads kernels and imports modules. That time is also in the
    method's own times (``build_s``, ``solve_s``), so a short synthesis is repeated. A method that tried
    others until its time was over is not repeated: it would continue with those for which it had no time.
    """
    for attempt in ("first", "again"):
        notify(SYNTHESIZE)
        with Stopwatch() as watch:
            schedule = method.synthesize(problem, options, np.random.default_rng(seed))
        tried = getattr(schedule, "stats", {}).get("tried")  # not verified yet: it may be anything
        # Seconds: a second always, and up to three where compiling took as long.
        short = watch.seconds <= max(1.0, min(watch.compiling, 3.0)) and not tried
        if attempt == "again" or not watch.compiling or not short:
            break
        gc.collect()  # else the garbage collector looks through what was imported while the clock runs
    return schedule, watch.seconds


@dataclass(frozen=True, slots=True)
class Task:
    """One synthesis.

    Parameters
    ----------
    topology
        Its text.
    nodes, switches, links
        What it has, for the rows of a task that never finishes.
    collective
        What to do on it.
    method, kind, options
        How: the method's name, its kind, and the options given to it.
    seeded, seeds
        Whether the method is random, and the seeds tried, the best of which is kept.
    sizes
        M in bytes of each row; more than one only where the schedule is the same for all.
    size_dependent
        Whether the method is told the size.
    key
        A hash of all that determines the result.
    note
        What is said beside its rows, besides what the schedule says.
    network
        The hash of the network itself: where it runs, a file may be another one. Empty: any will do.
    exact_for
        The sense in which its answer is optimal, if its kind is exact.
    time_limit, memory
        Seconds of each synthesis, and bytes that it may take; None for no limit.
    before, after
        How many seeds of the same rows other tasks try, of smaller and of larger number
        (`experiments.runner.run.Parts`).
    """

    topology: str
    nodes: int
    switches: int
    links: int
    collective: Collective
    method: str
    kind: str
    options: Mapping[str, Any]
    seeded: bool
    seeds: tuple[int, ...]
    sizes: tuple[int, ...]
    size_dependent: bool
    key: str
    note: str = field(default="", kw_only=True)
    network: str = field(default="", kw_only=True)
    exact_for: str = field(default="", kw_only=True)
    time_limit: float | None = field(default=None, kw_only=True)
    memory: float | None = field(default=None, kw_only=True)
    before: int = field(default=0, kw_only=True)
    after: int = field(default=0, kw_only=True)

    def __str__(self) -> str:
        options = options_text(self.options)
        seed = "" if self.seed is None else f" seed={self.seed}"
        if self.is_part:
            seed = f" seeds={self.seeds[0]}..{self.seeds[-1]} of {self.all_seeds}"
        return f"{self.topology} {self.collective} {self.method}{' ' if options else ''}{options}{seed}"

    @property
    def is_part(self) -> bool:
        """Whether other tasks try seeds of the same rows."""
        return self.before + self.after > 0

    @property
    def all_seeds(self) -> int:
        """How many seeds are tried for its rows, by other tasks too."""
        return self.before + len(self.seeds) + self.after

    @property
    def seed(self) -> int | None:
        """The seed, where only one is tried and it matters."""
        return self.seeds[0] if self.seeded and self.all_seeds == 1 else None

    @property
    def names(self) -> tuple[str, ...]:
        """What it is picked by, besides the whole text."""
        return self.topology, str(self.collective), self.method

    def rows(self, status: str, message: str = "") -> list[Row]:
        """Return a row for each size with what is known without running it."""
        as_they_are = ("topology", "nodes", "switches", "links", "method", "kind", "seed", "note")
        known = {name: getattr(self, name) for name in as_they_are}
        known |= {"collective": str(self.collective), "exact_for": self.exact_for or None}
        known |= {"options": options_text(self.options), "status": status, "message": message}
        return [{**known, "size_bytes": size} for size in self.sizes]

    def bound_key(self, size: int) -> str:
        """Return what the bound of a row depends on, as text."""
        return f"{self.topology}\t{self.collective}\t{size}"


@dataclass(frozen=True)
class TaskOutcome:
    """What became of a task.

    Parameters
    ----------
    status
        Of all its rows: ok, unsupported, timeout, infeasible or failed.
    rows
        One a size.
    bounds
        Those computed for it, by `Task.bound_key`.
    trace
        Where it failed, for developers.
    files
        Schedules that are still to be kept: the content of a file by its name.
    """

    status: str
    rows: list[Row]
    bounds: Mapping[str, ProvenBound] = field(default_factory=dict)
    trace: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)


def topology_digest(topology: Topology) -> str:
    """Return a hash of the network itself, whatever its text."""
    digest = hashlib.sha256(repr((topology.num_ranks, topology.labels)).encode())
    for values in (topology.source, topology.target):
        digest.update(np.ascontiguousarray(values).tobytes())
    for exact in (topology.bandwidth.reduced, topology.alpha.reduced):
        digest.update(f"/{exact.denominator}".encode() + exact.numerators.tobytes())
    digest.update(repr((sorted(topology.multicast), sorted(topology.aggregate))).encode())
    return digest.hexdigest()


_parsed = lru_cache(maxsize=4)(parse_topology)


@dataclass(frozen=True)
class Workplace:
    """What a worker needs to perform tasks.

    Parameters
    ----------
    methods
        By name.
    keep
        Keeps a schedule and returns its content hash; None keeps none.
    bounds
        Computed before, here or by other workers.
    notify
        Is given each stage, `SYNTHESIZE` or `JUDGE`.
    topology
        Returns the network of a task's text.
    """

    methods: Mapping[str, Method]
    keep: Callable[[Schedule], str] | None
    bounds: Bounds
    notify: Callable[[str], None] = _silent
    topology: Callable[[str], Topology] = _parsed


def perform(task: Task, place: Workplace) -> TaskOutcome:
    """Run a task; whatever the method raises becomes its rows.

    Raises
    ------
    OSError
        If a schedule can't be written.
    """
    method = find_method(task.method, place.methods)
    reset_peak_memory()
    known = set(place.bounds)
    try:
        topology = place.topology(task.topology)
        if task.network and topology_digest(topology) != task.network:
            raise InputError(f"{task.topology} is another network where the row runs; give it the same file")
        largest = Fraction(max(task.sizes))
        problem = Problem(topology, task.collective, largest if task.size_dependent else None)
        options = build_options(method, task.options)
        result = synthesize_best(method, problem, options, task.seeds, largest, place.notify)
        rows = _judge(task, result, place.bounds)
    except (Unsupported, NoSchedule) as outcome:
        return TaskOutcome(status_of(outcome), task.rows(status_of(outcome), str(outcome)))
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 (a method's fault is a row)
        return failure(task, _one_line(error), traceback.format_exc())
    new = {key: bound for key, bound in place.bounds.items() if key not in known}
    if place.keep is not None:
        digest = place.keep(result.schedule)
        rows = [{**row, "schedule": digest} for row in rows]
    return TaskOutcome("ok", rows, new)


def status_of(answer: TuttiError) -> str:
    """Return the status of a method's answer that is no schedule."""
    return next(status for kind, status in STATUS_OF.items() if isinstance(answer, kind))


def guarded(
    task: Task,
    work: Callable[[], TaskOutcome],
    answers: tuple[type[TuttiError], ...] = (Unsupported, NoSchedule),
) -> TaskOutcome:
    """Return what some work gives; what it raises becomes the task's rows: one of `answers`, or a failure."""
    try:
        return work()
    except answers as answer:
        return TaskOutcome(status_of(answer), task.rows(status_of(answer), str(answer)))
    except TuttiError as error:
        return failure(task, str(error), traceback.format_exc())
    except Exception as error:  # noqa: BLE001 (a fault in one task is its row)
        return failure(task, raised(error), traceback.format_exc())


def failure(task: Task, message: str, trace: str = "") -> TaskOutcome:
    """Return the outcome of a task that did not finish through a fault."""
    return TaskOutcome("failed", task.rows("failed", message), {}, trace)


def _judge(task: Task, result: Synthesized, bounds: Bounds) -> list[Row]:
    """Return the rows of a verified schedule."""
    cost = Cost(result.schedule)
    constant = {**cost.columns(), "verified": True}
    constant |= {name: getattr(result, name) for name in ("seed", "seeds", "synth_s", "verify_s")}
    own, rows = own_bounds(result.schedule), []
    for row in task.rows("ok"):
        size, key = Fraction(row["size_bytes"]), task.bound_key(row["size_bytes"])
        if key not in bounds:
            with Stopwatch() as watch:
                found = ProvenBound.of(result.schedule.topology, result.schedule.collective, size)
            bounds[key] = replace(found, computed_s=watch.seconds)
        bound = bounds[key].or_better(own, size)
        with Stopwatch() as watch:
            measured = time_columns(result.schedule, size, bound)
        note = "; ".join(filter(None, [task.note, notes(result.schedule, size)]))
        measured |= {"global_bytes": cost.global_bytes(size), "simulate_s": watch.seconds}
        measured |= {"bound_s": bound.computed_s}
        if result.course and size == max(task.sizes):
            measured["course"] = result.course
        rows.append({**row, **constant, **measured, "note": note})
    return [{**row, "peak_rss_mb": peak_memory()} for row in rows]


def _one_line(error: BaseException) -> str:
    """Return an error as one line: tutti's own as they are, any other with its place, and whose it is."""
    if isinstance(error, VerificationError):
        return f"illegal schedule: {error}"
    if isinstance(error, TuttiError):
        return str(error)
    return plugins.blame(error) or raised(error)
