"""Playing operations: each on one stream, streams in order, an operation after those that it waits for."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from topologies.errors import InputError

MOST_OPERATIONS = 10**6


class Operation(NamedTuple):
    """Something that holds a stream for a while.

    Parameters
    ----------
    key
        By which others wait for it.
    stream
        What it holds: the compute of a stage, or a network. One at a time, in the order of the list.
    seconds
        For how long.
    after
        Keys of what must have ended before.
    label
        What it is, for those who look at it.
    stage
        Who does it.
    """

    key: Hashable
    stream: Hashable
    seconds: float
    after: tuple[Hashable, ...] = ()
    label: Any = None
    stage: int = 0


def play(operations: Sequence[Operation]) -> dict[Hashable, tuple[float, float]]:
    """Return when each operation starts and ends, in seconds, each as early as can be.

    Parameters
    ----------
    operations
        Those of a stream in its order; they may wait for any others.

    Raises
    ------
    InputError
        If there are too many, or some wait for each other in a circle.

    Examples
    --------
    >>> compute, send = Operation("f", "compute", 2.0), Operation("a", "network", 3.0, ("f",))
    >>> play([compute, send, Operation("g", "compute", 1.0)])
    {'f': (0.0, 2.0), 'a': (2.0, 5.0), 'g': (2.0, 3.0)}
    """
    if len(operations) > MOST_OPERATIONS:
        raise InputError(f"{len(operations)} operations in an iteration; at most {MOST_OPERATIONS}")
    waiting: dict[int, int] = {}
    followers: defaultdict[Hashable, list[int]] = defaultdict(list)
    last: dict[Hashable, Hashable] = {}
    for number, one in enumerate(operations):
        before = {*one.after, last[one.stream]} if one.stream in last else set(one.after)
        last[one.stream] = one.key
        waiting[number] = len(before)
        for key in before:
            followers[key].append(number)
    ready = deque(number for number, count in waiting.items() if not count)
    start = [0.0] * len(operations)
    times: dict[Hashable, tuple[float, float]] = {}
    while ready:
        number = ready.popleft()
        one = operations[number]
        end = start[number] + one.seconds
        times[one.key] = (start[number], end)
        for follower in followers[one.key]:
            start[follower] = max(start[follower], end)
            waiting[follower] -= 1
            if not waiting[follower]:
                ready.append(follower)
    if len(times) < len(operations):
        stuck = next(one.key for one in operations if one.key not in times)
        raise InputError(f"the operations wait for each other in a circle, at {stuck}")
    return times
