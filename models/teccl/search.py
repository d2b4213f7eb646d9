"""The earliest finish, from the lower bound upward; and the paper's reward for a given number of epochs.

The paper's objective, the sum of reads over epochs, each over k + 1, is not the finishing time: it gives up
the last chunk for earlier others. So the default asks for each K in turn whether all demands can be met by
epoch K, from the project's lower bounds on: an infeasible K is the proof that K + 1 is the least. What can be
done in K epochs can be done in more, so with a gap allowed the search begins above the bound, and it ends
below the finish of a schedule that is known (`models.teccl.starts`). Or one program minimizes the finish: it
has the epochs of the known schedule, which is where branch and cut begins, or as many as chunks need that
all take shortest routes.

For larger instances there are rounds of few epochs (`by_rounds`), each bringing chunks closer to their ends,
as in TE-CCL's A* technique (section 5): a round is a program of W epochs whose reward is that of the reads,
and less for chunks that have come nearer to ranks that wait for them; what is still under way when a round
ends is there, and its link free, when it arrives. As W is at least the longest message, a chunk can always
come nearer, so the rounds come to an end. The last ones, in which all that is left could be done in W epochs,
ask for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyomo.environ as pyo

from tutti.models.solvers import (
    Effort,
    Feature,
    SolutionStatus,
    SolverResult,
    Start,
    Termination,
    compile_model,
    find_backend,
    solve,
)
from tutti.models.solvers.options import LEAST_SECONDS
from tutti.models.solvers.outcome import least_whole
from tutti.models.solvers.registry import VARIABLES_A_SECOND
from tutti.models.teccl.epochs import Epochs, Transfer, by_epoch, finish_of, needed
from tutti.models.teccl.program import EpochState, TecclProgram
from tutti.models.teccl.starts import shortest
from tutti.topologies.errors import NoSchedule
from tutti.topologies.kernels import now

MOST_TRANSFERS = 10**6
"""Transfers of the largest program: more would take gigabytes."""
NOT_NEEDED = "none: the start meets the bound"
"""Stands for the solver where nothing had to be solved."""


@dataclass(frozen=True)
class EpochLimits:
    """How programs are solved.

    Parameters
    ----------
    solver
        A back-end for mixed-integer programs.
    seconds
        The time of all solves together.
    gap
        At which to stop, of the finish (or of the reward).
    seed
        The solver's.
    buffers
        Whether ranks store and forward.
    cuts
        Whether the project's lower bounds are used.
    """

    solver: str
    seconds: float
    gap: float
    seed: int
    buffers: bool
    cuts: bool

    def least(self, epochs: Epochs) -> int:
        """Return the epochs to begin with: as many as the bounds say, or the longest route."""
        return epochs.least if self.cuts else epochs.farthest

    def enough(self, finish: int, least: int) -> bool:
        """Return whether a schedule is within the gap of what is proven."""
        return finish - least <= self.gap * finish

    def program(self, epochs: Epochs, horizon: int, state: EpochState | None = None) -> TecclProgram:
        """Return the program in which all demands are met by an epoch."""
        state = EpochState.start(epochs) if state is None else state
        return TecclProgram(epochs, state, horizon, buffers=self.buffers, cuts=self.cuts)

    def options(self, seconds: float, gap: float | None = None) -> Any:
        """Return a back-end's options."""
        backend: Any = find_backend(self.solver, {Feature.MILP})
        return backend.options(
            time_limit=max(seconds, LEAST_SECONDS), seed=self.seed, relative_gap=gap or None
        )


@dataclass(frozen=True)
class Goal:
    """What is asked of a program.

    Parameters
    ----------
    closer
        The most reward, with this term (`TecclProgram.add_reward`); None: not asked for.
    least
        The earliest finish, which is at least this; None: not asked for. Neither: any feasible point.
    start
        Transfers that are a feasible point.
    """

    closer: float | None = None
    least: int | None = None
    start: list[Transfer] | None = None

    def add_to(self, program: TecclProgram) -> None:
        """Add the objective."""
        if self.closer is not None:
            program.add_reward(self.closer)
        elif self.least is not None:
            program.add_finish(self.least)
        else:
            program.m.nothing = pyo.Objective(expr=0.0)


ANY = Goal()


@dataclass(frozen=True)
class EpochSchedule:
    """A schedule in epochs.

    Parameters
    ----------
    transfers
        By epoch.
    finish
        K, the last epoch's number: all has arrived when it ends.
    proven
        No schedule in these epochs finishes earlier.
    cost
        What it took to find.
    stats
        More columns of a result row.
    """

    transfers: list[Transfer]
    finish: int
    proven: int
    cost: Effort
    stats: Mapping[str, Any] = field(default_factory=dict)


def earliest_finish(
    epochs: Epochs, limits: EpochLimits, most: int = 0, start: list[Transfer] | None = None
) -> EpochSchedule:
    """Return the schedule that meets all demands in the fewest epochs.

    Each number of epochs has half of the time that is left; one that is undecided then is left behind
    unproven. Where a start is known, no schedule is asked for that is no better, and it is the answer if
    nothing else is found.

    Parameters
    ----------
    epochs, limits
        The instance, and how to solve.
    most
        Epochs allowed; 0: as many as it takes.
    start
        Transfers that meet all demands.

    Raises
    ------
    NoSchedule
        If there is none in so many epochs, or none was found in time.
    """
    cost, begin = Effort(solver=NOT_NEEDED), now()
    proven = limits.least(epochs)
    finish = int(proven / (1 - limits.gap))
    finish = min(finish, most) if most else finish
    while finish >= proven:
        left = limits.seconds - (now() - begin)
        if start is not None and (finish >= finish_of(epochs, start) or left <= 0):
            return _found(epochs, start, proven, cost)
        if left <= 0:
            raise none(epochs, f"found none in {limits.seconds:g} s; give it more time or a window")
        program = limits.program(epochs, finish)
        if start is not None and program.size > _most_transfers(left):
            return _found(epochs, start, proven, cost)
        result = solved(program, limits, left / 2, cost)
        if result.status is not SolutionStatus.NONE:
            return _found(epochs, needed(epochs, transfers_of(program, result)), proven, cost)
        if result.termination is Termination.INFEASIBLE and proven <= finish:
            proven = finish + 1
        if most and finish >= most:
            break
        finish += 1
    if proven > most:
        raise none(epochs, f"there is none in {most} epochs, at least {proven} are needed")
    raise none(epochs, f"found none in {most} epochs in {limits.seconds:g} s; give it more time")


def least_finish(
    epochs: Epochs, limits: EpochLimits, most: int = 0, start: list[Transfer] | None = None
) -> EpochSchedule:
    """Return the schedule that meets all demands in the fewest epochs, by one program.

    Parameters and errors are those of `earliest_finish`.
    """
    cost, least = Effort(solver=NOT_NEEDED), limits.least(epochs)
    if start is not None and limits.enough(finish_of(epochs, start), least):
        return _found(epochs, start, least, cost)
    horizon = finish_of(epochs, shortest(epochs) if start is None else start)
    horizon = min(horizon, most) if most else horizon
    if horizon < least:
        raise none(epochs, f"there is none in {horizon} epochs, at least {least} are needed")
    program = limits.program(epochs, horizon)
    if start is not None and program.size > _most_transfers(limits.seconds):
        return _found(epochs, start, least, cost)
    result = solved(program, limits, limits.seconds, cost, Goal(least=least, start=start))
    if result.termination is Termination.INFEASIBLE:
        raise none(epochs, f"there is none in {horizon} epochs")
    proven = least if result.bound is None else max(least, least_whole(result.bound))
    if result.status is not SolutionStatus.NONE:
        start = needed(epochs, transfers_of(program, result))
    if start is None:
        raise none(epochs, f"found none in {limits.seconds:g} s; give it more time")
    return _found(epochs, start, proven, cost)


def most_reward(
    epochs: Epochs, limits: EpochLimits, horizon: int, start: list[Transfer] | None = None
) -> EpochSchedule:
    """Return the schedule of at most K epochs with the largest reward: the paper's objective.

    Raises
    ------
    NoSchedule
        If there is none in so many epochs, or none was found in time.
    """
    cost = Effort(solver=NOT_NEEDED)
    if horizon < limits.least(epochs):
        least = limits.least(epochs)
        raise none(epochs, f"there is none in {horizon} epochs, at least {least} are needed")
    program = limits.program(epochs, horizon)
    result = solved(program, limits, limits.seconds, cost, Goal(closer=0.0, start=start))
    if result.termination is Termination.INFEASIBLE:
        raise none(epochs, f"there is none in {horizon} epochs")
    if result.status is SolutionStatus.NONE:
        raise none(epochs, f"found none in {limits.seconds:g} s; give it more time")
    found = _found(epochs, needed(epochs, transfers_of(program, result)), limits.least(epochs), cost)
    return replace(found, stats={"solver_gap": round(result.gap or 0.0, 12)})


def _found(epochs: Epochs, transfers: list[Transfer], proven: int, cost: Effort) -> EpochSchedule:
    ended = finish_of(epochs, transfers)
    return EpochSchedule(transfers, ended, min(proven, ended), cost)


def solved(
    program: TecclProgram, limits: EpochLimits, seconds: float, cost: Effort, goal: Goal = ANY
) -> SolverResult:
    """Return the answer to a program.

    Parameters
    ----------
    program
        Not built yet.
    limits, seconds
        How to solve, and for how long.
    cost
        Counts what the answer took.
    goal
        The objective, and a start.

    Raises
    ------
    NoSchedule
        If the program would be too large, or takes longer to build than there is time.
    """
    begin = now()
    if program.size > _most_transfers(seconds):
        why = f"in {program.horizon} epochs there are {program.size} transfers to decide"
        if program.size <= MOST_TRANSFERS:
            why += f", too many for {seconds:.3g} s"
        raise none(program.epochs, f"{why}; give it a window, longer epochs or more time")
    model: Any = program.build()
    goal.add_to(program)
    start = None
    if goal.start is not None:
        model = compile_model(model)
        start = Start(values=program.point(goal.start, model.variables))
    built = now() - begin
    options = limits.options(seconds - built, None if goal == ANY else limits.gap)
    result = solve(model, limits.solver, options, start=start)
    largest = max(cost.variables, result.columns), max(cost.constraints, result.rows)
    cost.add(result, built + result.compile_s)
    cost.variables, cost.constraints = largest
    return result


def _most_transfers(seconds: float) -> int:
    """Return of how many transfers a program may be, if it is to be built in so many seconds."""
    return min(MOST_TRANSFERS, int(max(seconds, 1.0) * VARIABLES_A_SECOND))  # measured: 26,000 on tori


def transfers_of(program: TecclProgram, result: SolverResult) -> list[Transfer]:
    """Return what a solution sends, by epoch."""
    sent = program.m.F.items()
    return sorted((Transfer(*place) for place, f in sent if result.is_one(f)), key=by_epoch)


def none(epochs: Epochs, why: str) -> NoSchedule:
    """Return the error that says why."""
    what, where = epochs.instance.collective.kind, epochs.instance.topology.name
    return NoSchedule(f"teccl: {what} of {epochs.instance.chunks} chunks a shard on {where}: {why}")


def by_rounds(epochs: Epochs, limits: EpochLimits, window: int) -> EpochSchedule:
    """Return a schedule made round by round.

    Parameters
    ----------
    epochs, limits
        The instance, and how to solve; the seconds are shared by the rounds that there must be at least.
    window
        W; the longest message if that is more.

    Raises
    ------
    NoSchedule
        If a round brings nothing closer in its time.
    """
    window = max(window, *epochs.lasts)
    cost, until = Effort(solver=NOT_NEEDED), now() + limits.seconds
    state, passed, sent = EpochState.start(epochs), 0, list[Transfer]()
    while True:
        program = TecclProgram(epochs, state, 0)
        farthest = max((int(program.earliest[c, n]) for c, n in program.missing), default=0)
        if farthest == 0:
            break
        task = _Round(
            epochs,
            limits,
            state,
            window,
            max(until - now(), 0.0) / (2 + (farthest - 1) // window),
        )
        found = _last(task, cost) if farthest <= window else None
        transfers = _nearer(task, cost) if found is None else found
        if not transfers:
            why = f"in {limits.seconds:g} s a round of {window} epochs brought nothing closer"
            raise none(epochs, f"{why}; give it more time")
        sent += [Transfer(e, c, k + passed) for e, c, k in transfers]
        state, passed = state.after(epochs, transfers, window), passed + window
    kept = needed(epochs, sent)
    ended = finish_of(epochs, kept)
    return EpochSchedule(kept, ended, min(epochs.least, ended), cost)


@dataclass(frozen=True, eq=False)
class _Round:
    """What a round begins with, its W epochs, and how long it may take."""

    epochs: Epochs
    limits: EpochLimits
    state: EpochState
    window: int
    seconds: float


def _last(task: _Round, cost: Effort) -> list[Transfer] | None:
    """Return transfers that meet all demands within the window as early as can be; None if there are none."""
    horizon, best = task.window, None
    until = now() + task.seconds
    while horizon > 0 and now() < until:
        program = task.limits.program(task.epochs, horizon, task.state)
        result = solved(program, task.limits, until - now(), cost)
        if result.status is SolutionStatus.NONE:
            break
        best = transfers_of(program, result)
        horizon = finish_of(task.epochs, best) - 1
    return best


def _nearer(task: _Round, cost: Effort) -> list[Transfer]:
    """Return the transfers of most reward, but for 2 %, which take longest and say little of the finish.

    To be nearer weighs half as much as a whole demand that is met in the round's last epoch.
    """
    program = TecclProgram(task.epochs, task.state, task.window, whole=False, buffers=task.limits.buffers)
    near = replace(task.limits, gap=max(task.limits.gap, 0.02))
    result = solved(program, near, task.seconds, cost, Goal(closer=0.5))
    return [] if result.status is SolutionStatus.NONE else transfers_of(program, result)
