"""The earliest finish, from the lower bound upward; and the paper's reward for a given number of epochs.

The paper's objective is not the finishing time. It is the sum of reads over epochs k, each over k + 1, and it
may delay the last chunk to bring others earlier. So the default (`earliest_finish`) asks for each K in turn
whether all demands can be met by epoch K, beginning at the project's lower bounds. An infeasible K proves
that at least K + 1 epochs are needed. A schedule of K epochs is also one of more, so with a gap allowed the
search begins above the bound. It ends below the finish of a known schedule (`models.teccl.starts`).

Instead, one program can minimize the finish (`least_finish`). Its horizon is the finish of the known
schedule, from which branch and cut starts, or the epochs that chunks need if all take shortest routes.

Larger instances are solved in rounds of few epochs (`by_rounds`), each of which brings chunks closer to their
ends, as in TE-CCL's A* technique (section 5). A round is a program of W epochs. Its reward is that of the
reads, and a smaller one for chunks that have come nearer to ranks that wait for them. A chunk that is under
way when a round ends is at its target from its arrival on, and its links are free once it has left them. As W
is at least the longest message, a chunk can always come nearer, so the rounds come to an end. Once no missing
chunk is more than W epochs from its end, a round first asks for all demands within W epochs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from operator import methodcaller
from typing import Any

import pyomo.environ as pyo

from tutti.models.solvers import (
    Effort,
    SolutionStatus,
    SolverResult,
    Start,
    Termination,
    compile_model,
    solve,
)
from tutti.models.solvers.registry import VARIABLES_A_SECOND
from tutti.models.teccl.epochs import Epochs, Transfer, by_epoch, finish_of, needed, shortest
from tutti.models.teccl.program import EpochState, TecclProgram
from tutti.models.time_expanded import HorizonAnswer, HorizonLimits, HorizonResult, HorizonSearch
from tutti.topologies.errors import NoSchedule
from tutti.topologies.kernels import now

MOST_TRANSFERS = 10**6
"""Largest number of transfers of a program. More would take gigabytes."""
NOT_NEEDED = "none: the start meets the bound"
"""Stands for the solver where nothing had to be solved."""


@dataclass(frozen=True)
class EpochLimits(HorizonLimits):
    """The limits and options of solving programs.

    Parameters
    ----------
    buffers
        Whether ranks store and forward.
    cuts
        Whether the project's lower bounds are used.
    """

    buffers: bool = True
    cuts: bool = True

    def program(self, epochs: Epochs, horizon: int, state: EpochState | None = None) -> TecclProgram:
        """Return the program in which all demands are met by an epoch."""
        state = EpochState.start(epochs) if state is None else state
        return TecclProgram(epochs, state, horizon, buffers=self.buffers, cuts=self.cuts)


Objective = Callable[[TecclProgram], None]
"""Adds the objective of a program."""
EpochSchedule = HorizonResult[list[Transfer]]
"""Transfers by epoch, and the last epoch's number: everything has arrived when it ends."""


def earliest_finish(
    epochs: Epochs, limits: EpochLimits, most: int = 0, start: list[Transfer] | None = None
) -> EpochSchedule:
    """Return the schedule that meets all demands in the fewest epochs.

    Each number of epochs has half of the time that is left. If it is undecided then, the next number is
    tried, and the optimum is not proven. If a start is known, only better schedules are asked for, and the
    start is the answer if none is found.

    Parameters
    ----------
    epochs, limits
        The instance, and how to solve.
    most
        Largest number of epochs; 0: no limit.
    start
        Transfers that meet all demands.

    Raises
    ------
    NoSchedule
        If there is none in this number of epochs, or none was found in time.
    """
    cost, search = Effort(solver=NOT_NEEDED), _begun(epochs, limits, start)

    def ask(horizon: int) -> HorizonAnswer[list[Transfer]]:
        left = search.left
        if start is None and left <= 0:
            raise none(epochs, f"found none in {limits.seconds:g} s; give it more time or a window")
        program = limits.program(epochs, horizon)
        # If the program is too large for the time left, the start is the answer, which ends the search.
        if start is not None and (left <= 0 or program.size > _most_transfers(left)):
            return HorizonAnswer(start, search.ticks)
        return _answer(program, solved(program, limits, left / 2, cost))

    # A schedule of h epochs is within the gap of a bound p if h - p <= gap h.
    horizon = int(search.proven / (1 - limits.gap))
    search.grow(ask, min(horizon, most or horizon), most or math.inf, past_unknown=True)
    why = f"found none in {most} epochs in {limits.seconds:g} s; give it more time"
    if search.proven > most:
        why = f"there is none in {most} epochs, at least {search.proven} are needed"
    return search.result(cost.columns, none(epochs, why))


def least_finish(
    epochs: Epochs, limits: EpochLimits, most: int = 0, start: list[Transfer] | None = None
) -> EpochSchedule:
    """Return the schedule that meets all demands in the fewest epochs, by one program.

    Parameters and errors are those of `earliest_finish`.
    """
    cost, search = Effort(solver=NOT_NEEDED), _begun(epochs, limits, start)
    undecided = none(epochs, f"found none in {limits.seconds:g} s; give it more time")
    if search.met:
        return search.result(cost.columns, undecided)
    horizon = finish_of(epochs, shortest(epochs) if start is None else start)
    program = _program_within(epochs, limits, min(horizon, most or horizon))
    if start is None or program.size <= _most_transfers(limits.seconds):
        finish = methodcaller("add_finish", search.proven)
        result = _decided(program, limits, cost, finish, start)
        search.learn(_answer(program, result), program.horizon)
    return search.result(cost.columns, undecided)


def most_reward(
    epochs: Epochs, limits: EpochLimits, horizon: int, start: list[Transfer] | None = None
) -> EpochSchedule:
    """Return the schedule of at most K epochs with the largest reward: the paper's objective.

    Raises
    ------
    NoSchedule
        If there is none in this number of epochs, or none was found in time.
    """
    cost, program = Effort(solver=NOT_NEEDED), _program_within(epochs, limits, horizon)
    result = _decided(program, limits, cost, TecclProgram.add_reward, start)
    if result.status is SolutionStatus.NONE:
        raise none(epochs, f"found none in {limits.seconds:g} s; give it more time")
    transfers = needed(epochs, transfers_of(program, result))
    finish = finish_of(epochs, transfers)
    stats = {**cost.columns, "solver_gap": round(result.gap or 0.0, 12)}
    return EpochSchedule(transfers, finish, min(epochs.begin(cuts=limits.cuts), finish), stats)


def _begun(
    epochs: Epochs, limits: EpochLimits, start: list[Transfer] | None
) -> HorizonSearch[list[Transfer]]:
    """Return a search that knows the start, if there is one."""
    search = HorizonSearch[list[Transfer]](limits)
    search.proven = epochs.begin(cuts=limits.cuts)
    if start is not None:
        search.offer(start, finish_of(epochs, start))
    return search


def _program_within(epochs: Epochs, limits: EpochLimits, horizon: int) -> TecclProgram:
    """Return the program of `horizon` epochs; raises if these are too few."""
    least = epochs.begin(cuts=limits.cuts)
    if horizon < least:
        raise none(epochs, f"there is none in {horizon} epochs, at least {least} are needed")
    return limits.program(epochs, horizon)


def _decided(
    program: TecclProgram,
    limits: EpochLimits,
    cost: Effort,
    objective: Objective,
    start: list[Transfer] | None,
) -> SolverResult:
    """Return the answer to a program in all of the time; raises if there is no schedule."""
    result = solved(program, limits, limits.seconds, cost, objective, start)
    if result.termination is Termination.INFEASIBLE:
        raise none(program.epochs, f"there is none in {program.horizon} epochs")
    return result


def _answer(program: TecclProgram, result: SolverResult) -> HorizonAnswer[list[Transfer]]:
    """Return what a result says of the program's horizon, with the transfers that are needed."""
    epochs = program.epochs
    return HorizonAnswer.of(
        result, lambda: needed(epochs, transfers_of(program, result)), partial(finish_of, epochs)
    )


def solved(
    program: TecclProgram,
    limits: EpochLimits,
    seconds: float,
    cost: Effort,
    objective: Objective | None = None,
    start: list[Transfer] | None = None,
) -> SolverResult:
    """Return the answer to a program.

    Parameters
    ----------
    program
        Not built yet.
    limits, seconds
        The limits and options, and the seconds of this solve.
    cost
        The effort of this solve is added to it.
    objective
        None: any feasible point.
    start
        Transfers that are a feasible point.

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
    if objective is None:
        program.m.nothing = pyo.Objective(expr=0.0)
    else:
        objective(program)
    point = None
    if start is not None:
        model = compile_model(model)
        point = Start(values=program.point(start, model.variables))
    built = now() - begin
    options = limits.options(seconds - built, limits.gap or None if objective else None)
    result = solve(model, limits.solver, options, start=point)
    largest = max(cost.variables, result.columns), max(cost.constraints, result.rows)
    cost.add(result, built + result.compile_s)
    cost.variables, cost.constraints = largest
    return result


def _most_transfers(seconds: float) -> int:
    """Return the largest number of transfers of a program that is built within these seconds."""
    return min(MOST_TRANSFERS, int(max(seconds, 1.0) * VARIABLES_A_SECOND))  # measured: 26,000 on tori


def transfers_of(program: TecclProgram, result: SolverResult) -> list[Transfer]:
    """Return the transfers of a solution, by epoch."""
    sent = program.m.F.items()
    return sorted((Transfer(*place) for place, f in sent if result.is_one(f)), key=by_epoch)


def none(epochs: Epochs, why: str) -> NoSchedule:
    """Return an error that says why there is no schedule."""
    what, where = epochs.instance.collective.kind, epochs.instance.topology.name
    return NoSchedule(f"teccl: {what} of {epochs.instance.chunks} chunks a shard on {where}: {why}")


def by_rounds(epochs: Epochs, limits: EpochLimits, window: int) -> EpochSchedule:
    """Return a schedule made round by round.

    Parameters
    ----------
    epochs, limits
        The instance, and how to solve; the seconds are shared by the least number of rounds.
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
        # At least ceil(farthest / window) more rounds are needed; one more share is kept in reserve.
        seconds = max(until - now(), 0.0) / (2 + (farthest - 1) // window)
        program = TecclProgram(epochs, state, window, whole=False, buffers=limits.buffers)
        limited = replace(limits, seconds=seconds)
        found = _last(program, limited, cost) if farthest <= window else None
        transfers = _nearer(program, limited, cost) if found is None else found
        if not transfers:
            why = f"in {limits.seconds:g} s a round of {window} epochs brought nothing closer"
            raise none(epochs, f"{why}; give it more time")
        sent += [Transfer(e, c, k + passed) for e, c, k in transfers]
        state, passed = state.after(epochs, transfers, window), passed + window
    kept = needed(epochs, sent)
    ended = finish_of(epochs, kept)
    return EpochSchedule(kept, ended, min(epochs.least, ended), cost.columns)


def _last(task: TecclProgram, limits: EpochLimits, cost: Effort) -> list[Transfer] | None:
    """Return transfers that meet all demands within the window, as early as possible, or None."""
    horizon, best = task.horizon, None
    until = now() + limits.seconds
    while horizon > 0 and now() < until:
        program = limits.program(task.epochs, horizon, task.state)
        result = solved(program, limits, until - now(), cost)
        if result.status is SolutionStatus.NONE:
            break
        best = transfers_of(program, result)
        horizon = finish_of(task.epochs, best) - 1
    return best


def _nearer(program: TecclProgram, limits: EpochLimits, cost: Effort) -> list[Transfer]:
    """Return transfers whose reward is within 2 % of the largest, or of the allowed gap if that is wider.

    The last 2 % take longest to close and say little of the finish. A chunk that has come as near as possible
    counts half as much as a demand that is met in the round's last epoch.
    """
    near = replace(limits, gap=max(limits.gap, 0.02))
    result = solved(program, near, limits.seconds, cost, methodcaller("add_reward", 0.5))
    return [] if result.status is SolutionStatus.NONE else transfers_of(program, result)
