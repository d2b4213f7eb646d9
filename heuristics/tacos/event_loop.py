"""The loop of TACOS (MICRO 2024, Algorithm 2), from arrival to arrival, which all matching rules share.

The time-expanded network is never built: between two arrivals nothing changes, so time jumps from one to the
next. At each event links are matched (Algorithm 1), and then the next arrivals are delivered. If durations of
links differ, only some links deliver at an event (IV-F). If all are equal, all transfers on their way arrive
together, and an event is a round: a time span of the paper.

A *rule*, a named tuple of data, decides how links are matched. Each type of rule has its own compiled loop,
without a branch or an indirect call, in which the rule's kernels stand under the names `match` and `deliver`
(`plays`). There are two states. `event_state` has room for arrivals at any time; the rules of `matching` and
`guided` work on it. `round_state` has half as many bits for a rank and chunk, and no arrivals; the rule of
`round_matching` works on it.

Threads may share the nodes of a round. Each then returns to the interpreter after each step, and continues
when all others have returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import FunctionType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tutti.topologies.exact import Int32Array, Int64Array
from tutti.topologies.kernels import kernel

NEVER = np.int64(2**63 - 1)
"""The time of an arrival that does not come."""

STEP, NOW, LISTED = range(3)
"""Places in a `clock`."""

STEPS = 512
"""Steps after which a single thread returns to the interpreter, where it can be interrupted."""

Matcher = TypeVar("Matcher", bound=Callable[..., None])


class MatchedTransfers(NamedTuple):
    """Transfers by start, shape (transfers,): int32 chunk, int32 link, int64 start in ticks."""

    chunk: Int32Array
    link: Int32Array
    start: Int64Array


def clock(now: int = 0, listed: int = 0) -> Int64Array:
    """Return int64, shape (3,): how far a thread is, here at the beginning.

    The entries are the steps that it has done, two for each event; the time in ticks, `NEVER` at the end; and
    the number of links that may have something to send. They are no field of the states, as the loop over a
    larger state takes twice as long.
    """
    return np.array([0, now, listed])


def match(rule: Any, made: Any, listed: int, now: int) -> None:
    """Send, at an event, the chunks that the rule matches."""
    raise NotImplementedError("each rule's loop has its kernel under this name")


def deliver(made: Any, now: int) -> tuple[int, int]:
    """Deliver the next arrivals; return their time or `NEVER`, and how many links may have data to send."""
    raise NotImplementedError("each state's loop has its kernel under this name")


_LOOPS: dict[type, Callable[..., None]] = {}
"""The loop of each type of rule."""


def _play(rule: Any, made: Any, at: Int64Array, until: int) -> None:
    """Play a thread's part of Algorithm 2 until nothing is on its way, or `until` steps are done.

    Parameters
    ----------
    rule
        The rule that is matched at an event.
    made
        The thread's state.
    at
        Its clock.
    until
        The number of steps.
    """
    while at[STEP] < until and at[NOW] != NEVER:
        if at[STEP] % 2 == 0:
            # Algorithm 2 runs Algorithm 1 on one more time span; here on the links that an event may have
            # changed.
            match(rule, made, at[LISTED], at[NOW])
        else:
            at[NOW], at[LISTED] = deliver(made, at[NOW])
        at[STEP] += 1


def plays(rule_type: type, deliver: Callable[..., Any]) -> Callable[[Matcher], Matcher]:
    """Return a decorator: the decorated kernel matches rules of that type, on the state of `deliver`."""

    def decorate(matcher: Matcher) -> Matcher:
        # Numba finds a compiled loop on disk by the name of its function, and the rule's kernels by theirs.
        names = {**globals(), "match": matcher, "deliver": deliver}
        loop = FunctionType(_play.__code__, names, f"_play_{rule_type.__name__}")
        loop.__qualname__ = loop.__name__
        _LOOPS[rule_type] = kernel(light=2, nogil=True)(loop)
        return matcher

    return decorate


def played(
    rule: Any, states: Sequence[Any], clocks: Sequence[Int64Array], steps: int = STEPS
) -> Iterator[int]:
    """Play a synthesis, given each thread's state and clock, to the end; yield the steps done now and then.

    With several threads it yields after each step, else after each `steps` steps and at the end.
    """
    (first, *states), (at, *clocks) = states, clocks
    with ThreadPoolExecutor(max(1, len(states))) as pool:
        play = _LOOPS[type(rule)]
        while at[NOW] != NEVER:
            end = int(at[STEP]) + (1 if states else steps)
            others = [pool.submit(play, rule, *own, end) for own in zip(states, clocks, strict=True)]
            play(rule, first, at, end)
            for other in others:
                other.result()
            yield int(at[STEP])


def run(rule: Any, states: Sequence[Any], clocks: Sequence[Int64Array]) -> None:
    """Play a synthesis, given each thread's state and clock, to the end."""
    for _ in played(rule, states, clocks):
        pass
