"""Playing operations: each on one stream, streams in order, an operation after those that it waits for."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from tutti.topologies.errors import InputError

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


class OperationGraph:
    """Operations in an order in which each stands after all that it waits for.

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
    >>> OperationGraph([compute, send, Operation("g", "compute", 1.0)]).play()
    [(0.0, 2.0), (2.0, 5.0), (2.0, 3.0)]
    """

    def __init__(self, operations: Sequence[Operation]) -> None:
        if len(operations) > MOST_OPERATIONS:
            raise InputError(f"{len(operations)} operations in an iteration; at most {MOST_OPERATIONS}")
        self.operations = operations
        self.before = _before(operations)
        try:
            self.order = list(TopologicalSorter(dict(enumerate(self.before))).static_order())
        except CycleError as error:
            circle = f"a circle, at {operations[min(error.args[1])].key}"
            raise InputError(f"operations wait for each other in {circle}") from error

    def play(self, seconds: Sequence[float] | None = None) -> list[tuple[float, float]]:
        """Return when each operation starts and ends, in seconds, each as early as can be.

        Parameters
        ----------
        seconds
            For how long each holds its stream; None: as long as it says.
        """
        lasts = [one.seconds for one in self.operations] if seconds is None else seconds
        ends = [0.0] * len(lasts)
        starts = [0.0] * len(lasts)
        for number in self.order:
            start = 0.0
            for earlier in self.before[number]:
                start = max(start, ends[earlier])
            starts[number], ends[number] = start, start + lasts[number]
        return list(zip(starts, ends, strict=True))


def _before(operations: Sequence[Operation]) -> list[list[int]]:
    """Return the numbers of those that each waits for, the one before it on its stream among them."""
    numbers = {one.key: number for number, one in enumerate(operations)}
    last: dict[Hashable, int] = {}
    found = []
    for number, one in enumerate(operations):
        earlier = [numbers[key] for key in one.after]
        if one.stream in last:
            earlier.append(last[one.stream])
        last[one.stream] = number
        found.append(earlier)
    return found
