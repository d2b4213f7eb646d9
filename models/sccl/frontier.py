"""SCCL's Pareto frontier: from the lower bounds upward, the fewest rounds of each number of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from models.sccl.instance import Instance
from models.sccl.program import Answer
from topologies.errors import NoSchedule


@dataclass(frozen=True)
class Point:
    """A schedule of S steps, R rounds and C chunks: S α and R/C shards over the slowest link.

    Parameters
    ----------
    chunks
        C.
    answer
        The schedule, with what is proven of it.
    """

    chunks: int
    answer: Answer

    @property
    def shards(self) -> Fraction:
        """R/C: shards that the slowest link could move meanwhile."""
        return Fraction(self.answer.rounds, self.chunks)


def frontier(
    instance: Instance, ask: Callable[[Instance, int], Answer], most_steps: int | None = None
) -> Iterator[Point]:
    """Yield the schedules of more and more steps that each have fewer rounds than all before.

    It begins at the least number of steps that any schedule has (the longest way of a chunk) and ends when
    the rounds are as few as the bandwidth allows, at `most_steps`, or after the first number of steps for
    which none is found in time. Between the points there is nothing better: each answer is the fewest rounds
    of its steps, where it is proven.

    Parameters
    ----------
    instance
        What is asked, C included.
    ask
        As `models.sccl.program.fewest_rounds`.
    most_steps
        Where to end; None: no limit.

    Raises
    ------
    NoSchedule
        If there is none of the least number of steps in time.
    """
    steps, least = instance.least_steps, None
    while most_steps is None or steps <= most_steps:
        try:
            answer = ask(instance, steps)
        except NoSchedule:
            if least is None:
                raise
            return  # what was found before stays
        if least is None or answer.rounds < least:
            least = answer.rounds
            yield Point(instance.chunks, answer)
        if least <= max(instance.least_rounds, steps):
            return
        steps += 1
