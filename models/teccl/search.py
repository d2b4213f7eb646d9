"""The earliest finish, from the lower bound upward; and the paper's reward for a given number of epochs.

The paper's objective, the sum of reads over epochs, each over k + 1, is not the finishing time: it gives up
the last chunk for earlier others. So the default asks for each K in turn whether all demands can be met by
epoch K, from the project's lower bounds on: an infeasible K is the proof that K + 1 is the least. What can be
done in K epochs can be done in more, so with a gap allowed the search begins above the bound.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyomo.environ as pyo

from models.solvers import Feature, SolutionStatus, SolverResult, Termination, find_backend, solve
from models.teccl.epochs import Epochs
from models.teccl.program import Program, Send, State
from topologies.errors import NoSchedule

HALF = 0.5
GAP_DIGITS = 12
"""A reward is a sum of floats: beyond these digits is rounding."""


@dataclass(frozen=True)
class Limits:
    """How programs are solved.

    Parameters
    ----------
    solver
        A back-end for mixed-integer programs.
    seconds
        Of all solves together.
    gap
        At which to stop, of the finish (or of the reward).
    seed
        Of the solver.
    buffers
        Whether ranks store and forward.
    """

    solver: str = "highs"
    seconds: float = 60.0
    gap: float = 0.0
    seed: int = 0
    buffers: bool = True

    def options(self, seconds: float, gap: float | None = None) -> Any:
        """Return a back-end's options."""
        backend: Any = find_backend(self.solver, {Feature.MILP})
        return backend.options(time_limit=max(seconds, 0.01), seed=self.seed, relative_gap=gap or None)


@dataclass
class Cost:
    """What all solves took together, and how large the largest was."""

    build_s: float = 0.0
    solve_s: float = 0.0
    variables: int = 0
    constraints: int = 0
    solver: str = ""

    def add(self, result: SolverResult, build_s: float) -> None:
        """Count one more."""
        self.build_s += build_s + result.compile_s
        self.solve_s += result.solve_s
        self.variables = max(self.variables, result.columns)
        self.constraints = max(self.constraints, result.rows)
        self.solver = f"{result.solver} {result.version}"


@dataclass(frozen=True)
class Found:
    """A schedule in epochs.

    Parameters
    ----------
    sends
        (link, chunk, epoch), by epoch.
    finish
        K, the last epoch's number: all has arrived when it ends.
    proven
        No schedule in these epochs finishes earlier.
    cost
        Of finding it.
    stats
        More columns of a result row.
    """

    sends: list[Send]
    finish: int
    proven: int
    cost: Cost
    stats: Mapping[str, Any] = field(default_factory=dict)


def earliest_finish(epochs: Epochs, limits: Limits, most: int = 0) -> Found:
    """Return the schedule that meets all demands in the fewest epochs.

    Each number of epochs has half of the time that is left; one that is undecided then is left behind
    unproven.

    Parameters
    ----------
    epochs, limits
        The instance, and how to solve.
    most
        Epochs allowed; 0: as many as it takes.

    Raises
    ------
    NoSchedule
        If there is none in so many epochs, or none was found in time.
    """
    cost, begin = Cost(), time.perf_counter()
    proven, finish = epochs.least, int(epochs.least / (1 - limits.gap))
    finish = min(finish, most) if most else finish
    while finish >= proven:
        left = limits.seconds - (time.perf_counter() - begin)
        if left <= 0:
            raise none(epochs, f"found none in {limits.seconds:g} s; give it more time or a window")
        program = Program(epochs, State.start(epochs), finish, buffers=limits.buffers)
        result = solved(program, limits, left / 2, cost)
        if result.status is not SolutionStatus.NONE:
            sends = pruned(epochs, sends_of(program, result))
            ended = finish_of(epochs, sends)
            return Found(sends, ended, min(proven, ended), cost)
        if result.termination is Termination.INFEASIBLE and proven <= finish:
            proven = finish + 1
        if most and finish >= most:
            break
        finish += 1
    if proven > most:
        raise none(epochs, f"there is none in {most} epochs, at least {proven} are needed")
    raise none(epochs, f"found none in {most} epochs in {limits.seconds:g} s; give it more time")


def most_reward(epochs: Epochs, limits: Limits, horizon: int) -> Found:
    """Return the schedule of at most K epochs with the largest reward: the paper's objective.

    Raises
    ------
    NoSchedule
        If there is none in so many epochs, or none was found in time.
    """
    cost = Cost()
    program = Program(epochs, State.start(epochs), horizon, buffers=limits.buffers)
    if horizon < epochs.least:
        raise none(epochs, f"there is none in {horizon} epochs, at least {epochs.least} are needed")
    result = solved(program, limits, limits.seconds, cost, closer=0.0)
    if result.termination is Termination.INFEASIBLE:
        raise none(epochs, f"there is none in {horizon} epochs")
    if result.status is SolutionStatus.NONE:
        raise none(epochs, f"found none in {limits.seconds:g} s; give it more time")
    sends = pruned(epochs, sends_of(program, result))
    ended = finish_of(epochs, sends)
    return Found(
        sends, ended, min(epochs.least, ended), cost, {"solver_gap": round(result.gap or 0.0, GAP_DIGITS)}
    )


def solved(
    program: Program, limits: Limits, seconds: float, cost: Cost, closer: float | None = None
) -> SolverResult:
    """Return the answer to a program.

    Parameters
    ----------
    program
        Not built yet.
    limits, seconds
        How to solve, and for how long.
    cost
        Is told.
    closer
        None: any feasible point will do. Else the most reward, with this term (`Program.add_reward`).
    """
    begin = time.perf_counter()
    model = program.build()
    if closer is None:
        model.nothing = pyo.Objective(expr=0.0)
    else:
        program.add_reward(closer)
    built = time.perf_counter() - begin
    result = solve(model, limits.solver, limits.options(seconds, None if closer is None else limits.gap))
    cost.add(result, built)
    return result


def sends_of(program: Program, result: SolverResult) -> list[Send]:
    """Return what a solution sends, by epoch."""
    found = [send for send in program.sends if result.value(program.m.F[send]) > HALF]
    return sorted(found, key=lambda send: (send[2], send[0], send[1]))


def pruned(epochs: Epochs, sends: list[Send]) -> list[Send]:
    """Return the sends without those whose chunk no rank needs that gets it so."""
    needed = set(epochs.wanted)
    kept = []
    for link, chunk, epoch in sorted(sends, key=lambda send: send[2], reverse=True):
        a, b = epochs.ends[link]
        if (chunk, b) in needed:
            needed.add((chunk, a))
            kept.append((link, chunk, epoch))
    return sorted(kept, key=lambda send: (send[2], send[0], send[1]))


def finish_of(epochs: Epochs, sends: list[Send]) -> int:
    """Return the epoch in which the last send has arrived."""
    return max((k + epochs.lasts[e] for e, _, k in sends), default=0)


def none(epochs: Epochs, why: str) -> NoSchedule:
    """Return the error that says why."""
    what, where = epochs.instance.collective.kind, epochs.instance.topology.name
    return NoSchedule(f"teccl: {what} of {epochs.instance.chunks} chunks a shard on {where}: {why}")
