"""The decomposition for larger instances: rounds of few epochs, each bringing chunks closer to their ends.

As TE-CCL's A* technique (section 5): each round is a program of W epochs whose reward is that of the reads,
and less for chunks that have come nearer to ranks that wait for them; what is still on its way when a round
ends is there, and its link free, when it arrives. As W is at least the longest send, a chunk can always come
nearer, so the rounds come to an end. The last ones, in which all that is left could be done in W epochs, ask
for that.
"""

from __future__ import annotations

import time
from dataclasses import replace

from models.solvers import SolutionStatus
from models.teccl.epochs import Epochs
from models.teccl.program import Program, Send, State
from models.teccl.search import Cost, Found, Goal, Limits, finish_of, none, pruned, sends_of, solved

CLOSER = 0.5
"""Weight of being nearer, of a whole demand met in the round's last epoch."""
ENOUGH = 0.02
"""Gap at which a round's reward is good enough: the last percent costs most and says little of the finish."""


def by_rounds(epochs: Epochs, limits: Limits, window: int) -> Found:
    """Return a schedule made round by round.

    Parameters
    ----------
    epochs, limits
        The instance, and how to solve; the seconds are shared by the rounds that there must be at least.
    window
        W; the longest send if that is more.

    Raises
    ------
    NoSchedule
        If a round brings nothing closer in its time.
    """
    window = max(window, *epochs.lasts)
    cost, until = Cost(), time.perf_counter() + limits.seconds
    state, passed, sent = State.start(epochs), 0, []
    while True:
        way = _longest_way(epochs, state)
        if way == 0:
            break
        seconds = max(until - time.perf_counter(), 0.0) / (2 + (way - 1) // window)
        found = _last(epochs, limits, state, (window, seconds), cost) if way <= window else None
        sends = _nearer(epochs, limits, state, (window, seconds), cost) if found is None else found
        if not sends:
            why = f"in {limits.seconds:g} s a round of {window} epochs brought nothing closer"
            raise none(epochs, f"{why}; give it more time")
        sent += [(e, c, k + passed) for e, c, k in sends]
        state, passed = state.after(epochs, sends, window), passed + window
    kept = pruned(epochs, sent)
    ended = finish_of(epochs, kept)
    return Found(kept, ended, min(epochs.least, ended), cost)


def _longest_way(epochs: Epochs, state: State) -> int:
    """Return the epochs that the farthest chunk still needs."""
    program = Program(epochs, state, 0)
    return max((int(program.earliest[c, n]) for c, n in program.missing), default=0)


def _last(
    epochs: Epochs, limits: Limits, state: State, room: tuple[int, float], cost: Cost
) -> list[Send] | None:
    """Return sends that meet all demands within the window, as early as can be; None if there are none."""
    horizon, seconds = room
    best: list[Send] | None = None
    until = time.perf_counter() + seconds
    while horizon > 0 and time.perf_counter() < until:
        program = limits.program(epochs, horizon, state)
        result = solved(program, limits, until - time.perf_counter(), cost)
        if result.status is SolutionStatus.NONE:
            break
        best = sends_of(program, result)
        horizon = finish_of(epochs, best) - 1
    return best


def _nearer(epochs: Epochs, limits: Limits, state: State, room: tuple[int, float], cost: Cost) -> list[Send]:
    """Return the sends of most reward."""
    program = Program(epochs, state, room[0], whole=False, buffers=limits.buffers)
    near = replace(limits, gap=max(limits.gap, ENOUGH))
    result = solved(program, near, room[1], cost, Goal(closer=CLOSER))
    return [] if result.status is SolutionStatus.NONE else sends_of(program, result)
