"""CBC and GLPK as programs of their own, which read a model from a file and write their answer to another.

Their time includes writing and reading these files, and the start of the program. A model is passed in
free MPS with 15 digits, as a minimum; its offset is added afterwards. CBC writes 8 digits of each value.
"""

from __future__ import annotations

import importlib.util
import math
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from tutti.models.solvers.backend import Backend
from tutti.models.solvers.compiled import CompiledModel
from tutti.models.solvers.highs import write_model
from tutti.models.solvers.options import LEAST_SECONDS, Feature, Positive, Seed, SolverOptions, Threads
from tutti.models.solvers.outcome import (
    NOTHING,
    Extras,
    Outcome,
    Progress,
    SolutionStatus,
    Termination,
    Trace,
)
from tutti.topologies.errors import InputError
from tutti.topologies.exact import FloatArray
from tutti.topologies.options import Choice
from tutti.topologies.processes import CallEnd, run_program
from tutti.topologies.units import MEGA


class ProgramLimits(NamedTuple):
    """Limits of solvers that run as programs."""

    patience: float
    """Time that a program has to stop by itself after its time limit, as a fraction of the limit, or of 10 s
    if that is more. It is less than the helper process has, so that the log is still read. With a larger
    value more programs end by themselves."""
    cbc_nothing: float
    """CBC gives a larger number for an incumbent or bound that it does not have. A smaller value hides large
    ones."""


PROGRAM_LIMITS = ProgramLimits(patience=0.02, cbc_nothing=1e40)
KILLED = {CallEnd.TIME: Termination.TIME_LIMIT, CallEnd.MEMORY: Termination.MEMORY_LIMIT}
"""The termination of a program that was killed, by what it exceeded."""


@dataclass(frozen=True)
class ProgramBackend(Backend):
    """A solver that is a program.

    Parameters
    ----------
    find
        Returns the program's path; None if it is not installed.
    asks
        Arguments by which it prints its version.
    """

    find: Callable[[], str | None] = field(kw_only=True)
    asks: tuple[str, ...] = ()

    @property
    def installed(self) -> bool:
        """Whether the program can be found."""
        return self.find() is not None

    @property
    def version(self) -> str:
        """The version that the program states; empty if there is no program."""
        place = self.find()
        return "" if place is None else _version(place, self.asks)


@cache
def _version(place: str, asks: tuple[str, ...]) -> str:
    said = subprocess.run([place, *asks], capture_output=True, text=True, check=False, timeout=10).stdout
    found = re.search(r"(?:Version:|Solver|MIP|LP/MIP Solver),? v?(\d[\d.]*)", said)
    return found[1] if found else "unknown"


def _run(
    model: CompiledModel,
    options: SolverOptions,
    trace: Trace | None,
    command: Callable[[Path, Path, float | None], list[str]],
    read: Callable[[CompiledModel, str, str], Outcome],
    traced: Callable[[str], Iterable[Progress]] = lambda log: (),
) -> Outcome:
    """Write the model, run the program and read what it wrote.

    Parameters
    ----------
    command
        Makes the command from the files of the model and of the solution, and the seconds left.
    read
        Makes the outcome from the model, the log's text and the solution file's.
    traced
        Makes the progress from the log's text.
    """
    begin, limit = time.perf_counter(), options.time_limit
    with tempfile.TemporaryDirectory() as folder:
        file, solution, log = (Path(folder, name) for name in ("model.mps", "solution", "log"))
        least = replace(model.bare, maximize=False, cost=model.sign * model.cost, offset=0.0)
        write_model(least, file)
        left = None if limit is None else max(limit - (time.perf_counter() - begin), LEAST_SECONDS)
        latest = None if limit is None or left is None else left + PROGRAM_LIMITS.patience * max(limit, 10.0)
        with log.open("wb") as output:
            how = run_program(command(file, solution, left), output, latest, options.memory_limit)
        text = log.read_text(errors="replace")
        if options.log is not None:
            with Path(options.log).open("a") as kept:
                kept.write(text)
        if trace is not None:
            for progress in traced(text):
                trace(progress)
        if how in KILLED:
            return Outcome(KILLED[how], SolutionStatus.NONE, stopped="killed")
        return read(model, text, solution.read_text() if solution.exists() else "")


def _words(options: Mapping[str, Any], mark: str) -> list[str]:
    """Return options of a command with their values; None is the program's own."""
    return [
        word for name, value in options.items() if value is not None for word in (mark + name, str(value))
    ]


def _found(
    model: CompiledModel, termination: Termination, values: FloatArray, bound: float | None, **more: Any
) -> Outcome:
    """Return an outcome with values; a bound is of the minimum without its offset."""
    objective = float(model.cost @ values + model.offset)
    known = None if bound is None else model.sign * bound + model.offset
    proven = objective if termination is Termination.OPTIMAL else known
    return Outcome.found(termination, objective, proven, values, **more)


@dataclass(frozen=True, kw_only=True)
class CbcOptions(SolverOptions):
    """Options of CBC's program (``cbc -?``).

    Parameters
    ----------
    relative_gap
        Relative gap at which branch and cut stops (``ratioGap``); None for CBC's 0.
    threads
        At least 1.
    seed
        Seed of its random choices (``randomCbcSeed``).

    The others are those of `SolverOptions`; `iteration_limit` is ``maxNodes``, and the tolerance is that of
    rows, reduced costs and whole numbers.
    """

    OWNER: ClassVar[str] = "cbc"

    relative_gap: Positive = None
    threads: Threads = 1
    seed: Seed = 0


CBC_TERMINATIONS = {
    "Optimal": Termination.OPTIMAL,
    "Infeasible": Termination.INFEASIBLE,
    "Integer infeasible": Termination.INFEASIBLE,
    "Unbounded": Termination.UNBOUNDED,
    "Stopped on time": Termination.TIME_LIMIT,
    "Stopped on nodes": Termination.ITERATION_LIMIT,
    "Stopped on iterations": Termination.ITERATION_LIMIT,
    "Stopped on user event": Termination.INTERRUPTED,
    "Stopped on difficulties": Termination.ERROR,
}
"""The termination that the beginning of a solution's first line means."""
CBC_LINE = re.compile(
    r"^Cbc00(?:(?:04|12|16)I Integer solution of (\S+) found|10I After .* on tree, (\S+) best solution, "
    r"best possible (\S+)) .*?\(?([\d.]+) seconds\)",
    re.MULTILINE,
)
NO_VALUES = (Termination.INFEASIBLE, Termination.UNBOUNDED, Termination.ERROR)
"""Ends after which values in CBC's solution mean nothing."""


def run_cbc(model: CompiledModel, options: CbcOptions, extras: Extras = NOTHING) -> Outcome:
    """Write the model for CBC, run it and read its answer; its log is the source of a trace."""
    native = {
        "ratioGap": options.relative_gap,
        "maxNodes": options.iteration_limit,
        "threads": options.threads if options.threads > 1 else None,
        "randomCbcSeed": options.seed,
        "primalTolerance": options.tolerance,
        "dualTolerance": options.tolerance,
        "integerTolerance": options.tolerance,
        "presolve": None if options.presolve else "off",
        "preprocess": None if options.presolve else "off",
        "timeMode": "elapsed",
    }

    def command(file: Path, to: Path, left: float | None) -> list[str]:
        limit = {} if left is None else {"sec": f"{left:.2f}"}
        words = _words({**limit, **native}, "-")
        return [str(find_cbc()), str(file), *words, "-solve", "-solution", str(to)]

    traced = partial(cbc_trace, sign=model.sign, offset=model.offset)
    return _run(model, options, extras.trace, command, _cbc, traced)


def _cbc(model: CompiledModel, log: str, solution: str) -> Outcome:
    head, *lines = solution.splitlines() or [""]
    words = head.partition(" - ")[0]
    why = next((name for name in CBC_TERMINATIONS if words.startswith(name)), "")
    termination = CBC_TERMINATIONS.get(why, Termination.ERROR)

    def stated(name: str) -> float | None:
        found = re.search(rf"^{name}: +(\S+)", log, re.MULTILINE)
        return float(found[1]) if found else None

    counts = {"nodes": stated("Enumerated nodes"), "iterations": stated("Total iterations")}
    more: dict[str, Any] = {name: int(count) for name, count in counts.items() if count is not None}
    if termination in NO_VALUES or "no integer" in head:
        return Outcome(termination, SolutionStatus.NONE, **more)
    values = np.zeros(model.num_columns)
    for line in lines:  # of columns that are not 0; ** marks one that breaks a bound
        _, name, value, _ = line.replace("**", "").split()
        values[int(name[1:])] = float(value)
    return _found(model, termination, values, stated("Lower bound"), **more)


def cbc_trace(log: str, sign: float, offset: float) -> Iterator[Progress]:
    """Yield the progress in a log of CBC for a minimum, in order: sign times it, plus the offset.

    Examples
    --------
    >>> text = "Cbc0010I After 9 nodes, 3 on tree, 7 best solution, best possible 5 (0.25 seconds)"
    >>> list(cbc_trace(text, -1.0, 1.0))
    [Progress(seconds=0.25, incumbent=-6.0, bound=-4.0)]
    """
    incumbent: float | None = None
    bound: float | None = None
    for found, best, possible, seconds in CBC_LINE.findall(log):
        if abs(float(found or best)) < PROGRAM_LIMITS.cbc_nothing:
            incumbent = sign * float(found or best) + offset
        if possible and abs(float(possible)) < PROGRAM_LIMITS.cbc_nothing:
            bound = sign * float(possible) + offset
        yield Progress(float(seconds), incumbent, bound)


@cache
def find_cbc() -> str | None:
    """Return where CBC's program is: on the path, or in PuLP's wheel."""
    place, pulp = shutil.which("cbc"), importlib.util.find_spec("pulp")
    if place is not None or pulp is None or pulp.origin is None:
        return place
    system = {"Linux": "linux", "Darwin": "osx", "Windows": "win"}.get(platform.system(), "")
    machine = "arm64" if platform.machine() in ("arm64", "aarch64") else "i64"
    return next(map(str, Path(pulp.origin).parent.glob(f"solverdir/cbc/{system}/{machine}/cbc*")), None)


CBC = ProgramBackend(
    name="cbc",
    package="pulp",
    distribution="pulp",
    features=frozenset({Feature.MILP, Feature.SEED, Feature.THREADS}),
    options=CbcOptions,
    run=run_cbc,
    install="pip install pulp, whose wheel has its program, or apt install coinor-cbc",
    modules=("highspy",),
    tolerance=1e-7,
    find=find_cbc,
    asks=("-quit",),
)


@dataclass(frozen=True, kw_only=True)
class GlpkOptions(SolverOptions):
    """Options of GLPK's program (``glpsol --help``): it has one thread, no seed and fixed tolerances.

    Parameters
    ----------
    method
        ``"simplex"`` or ``"ipm"``, for linear programs.
    relative_gap
        Relative gap at which branch and bound stops (``--mipgap``); None for GLPK's 0.

    The others are those of `SolverOptions`; the time limit is rounded up to whole seconds.
    """

    OWNER: ClassVar[str] = "glpk"
    ALGORITHMS: ClassVar = {"ipm": Feature.IPM}

    method: Annotated[str, Choice(("simplex", "ipm"))] = "simplex"
    relative_gap: Positive = None

    def __post_init__(self) -> None:
        """Refuse options that the program does not have."""
        super().__post_init__()
        for name in ("tolerance", "iteration_limit"):
            if getattr(self, name) is not None:
                raise InputError(f"glpk has no option {name}: its program glpsol can't set it")


GLPK_ANSWERS = {"bas": "ff", "ipt": "o", "mip": "o"}
"""For each kind of solution the status of an optimum."""
GLPK_BOUND = re.compile(r"^\+.*>= +(\S+)", re.MULTILINE)


def run_glpk(model: CompiledModel, options: GlpkOptions, extras: Extras = NOTHING) -> Outcome:
    """Write the model for GLPK, run it and read its answer; its log has no times for a trace."""

    def command(file: Path, to: Path, left: float | None) -> list[str]:
        memory, whole = options.memory_limit, bool(model.integer.any())
        native = {
            "tmlim": None if left is None else math.ceil(left),
            "memlim": None if memory is None else math.ceil(memory / MEGA),
            "mipgap": options.relative_gap if whole else None,
        }
        words = _words(native, "--") + ["--interior"] * (options.method == "ipm" and not whole)
        words += ["--nopresol"] * (not options.presolve)
        return [str(find_glpk()), "--freemps", str(file), "--write", str(to), *words]

    return _run(model, options, None, command, _glpk)


def _glpk(model: CompiledModel, log: str, solution: str) -> Outcome:
    if "memory limit" in log.lower() or "no memory" in log:
        return Outcome(Termination.MEMORY_LIMIT, SolutionStatus.NONE)
    lines = [line.split() for line in solution.splitlines() if line[:1] in ("s", "i", "j")]
    termination = _glpk_termination(lines[0] if lines else [], log)
    kind = lines[0][1] if lines else ""
    feasible = bool(lines) and (lines[0][4] == "f" if kind == "bas" else lines[0][4] in "of")
    if not feasible or termination in (Termination.INFEASIBLE, Termination.UNBOUNDED):
        return Outcome(termination, SolutionStatus.NONE)
    place = 3 if kind == "bas" else 2  # a row or column of a basic solution has its status first
    values = np.array([float(line[place]) for line in lines if line[0] == "j"])
    bounds = [] if kind != "mip" else GLPK_BOUND.findall(log)
    known = next((float(text) for text in reversed(bounds) if re.match(r"-?\d", text)), None)
    duals = None
    if kind != "mip" and termination is Termination.OPTIMAL:
        duals = model.sign * np.array([float(line[place + 1]) for line in lines if line[0] == "i"])
    return _found(model, termination, values, known, duals=duals)


def _glpk_termination(head: list[str], log: str) -> Termination:
    """Return why it stopped, by the first line of its solution and its log."""
    if head and "".join(head[4:-1]) == GLPK_ANSWERS[head[1]]:
        return Termination.OPTIMAL
    if "TIME LIMIT EXCEEDED" in log:
        return Termination.TIME_LIMIT
    if "NO FEASIBLE PRIMAL/DUAL SOLUTION" in log:
        return Termination.INFEASIBLE_OR_UNBOUNDED
    if re.search("NO (PRIMAL |INTEGER )?FEASIBLE SOLUTION", log):
        return Termination.INFEASIBLE
    if "NO DUAL FEASIBLE SOLUTION" in log or "UNBOUNDED" in log:
        return Termination.UNBOUNDED
    return Termination.ERROR


def find_glpk() -> str | None:
    """Return where GLPK's program is."""
    return shutil.which("glpsol")


GLPK = ProgramBackend(
    name="glpk",
    package="",
    distribution="",
    features=frozenset({Feature.LP, Feature.MILP, Feature.SIMPLEX, Feature.IPM, Feature.DUALS}),
    options=GlpkOptions,
    run=run_glpk,
    install="apt install glpk-utils, or another system's package with the program glpsol",
    modules=("highspy",),
    tolerance=1e-6,
    sets_tolerance=False,
    find=find_glpk,
    asks=("--version",),
)
