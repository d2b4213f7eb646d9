"""The decomposition for larger instances: rounds of few epochs, each bringing chunks closer to their ends.

As TE-CCL's A* technique (section 5): each round is a program of W epochs whose reward is that of the reads,
and less for chunks that have come nearer to ranks that wait for them; what is still under way when a round
ends is there, and its link free, when it arrives. As W is at least the longest message, a chunk can always
come nearer, so the rounds come to an end. The last ones, in which all that is left could be done in W epochs,
ask for that.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from models.solvers import SolutionStatus
from models.teccl.epochs import Epochs, Transfer, finish_of, needed
from models.teccl.program import EpochProgram, EpochState
from models.teccl.search import EpochLimits, EpochSchedule, Goal, SolveCost, none, solved, transfers_of

CLOSER = 0.5
"""Weight of being nearer, of a whole demand met in the round's last epoch."""
ENOUGH = 0.02
"""Gap at which a round's reward is good enough: the last percent costs most and says little of the finish."""


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
    cost, until = SolveCost(), time.perf_counter() + limits.seconds
    state, passed, sent = EpochState.start(epochs), 0, list[Transfer]()
    while True:
        farthest = _epochs_left(epochs, state)
        if farthest == 0:
            break
        task = _Round(
            epochs,
            limits,
            state,
            window,
            max(until - time.perf_counter(), 0.0) / (2 + (farthest - 1) // window),
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


def _epochs_left(epochs: Epochs, state: EpochState) -> int:
    """Return the epochs that the farthest chunk still needs."""
    program = EpochProgram(epochs, state, 0)
    return max((int(program.earliest[c, n]) for c, n in program.missing), default=0)


def _last(task: _Round, cost: SolveCost) -> list[Transfer] | None:
    """Return transfers that meet all demands within the window as early as can be; None if there are none."""
    horizon, best = task.window, None
    until = time.perf_counter() + task.seconds
    while horizon > 0 and time.perf_counter() < until:
        program = task.limits.program(task.epochs, horizon, task.state)
        result = solved(program, task.limits, until - time.perf_counter(), cost)
        if result.status is SolutionStatus.NONE:
            break
        best = transfers_of(program, result)
        horizon = finish_of(task.epochs, best) - 1
    return best


def _nearer(task: _Round, cost: SolveCost) -> list[Transfer]:
    """Return the transfers of most reward."""
    program = EpochProgram(task.epochs, task.state, task.window, whole=False, buffers=task.limits.buffers)
    near = replace(task.limits, gap=max(task.limits.gap, ENOUGH))
    result = solved(program, near, task.seconds, cost, Goal(closer=CLOSER))
    return [] if result.status is SolutionStatus.NONE else transfers_of(program, result)
