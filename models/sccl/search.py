"""SCCL's search: the fewest rounds of S steps, whether R rounds suffice, and the Pareto frontier of both.

SCCL asks a solver whether R rounds suffice: `in_rounds`. `fewest_rounds` does so first, with the R that the
lower bounds allow; a schedule is then optimal, and else R + 1 is the next. If that is undecided in time, a
program minimizes R, with the R that are ruled out as a bound.

Both begin with a *breadth-first* schedule of the fewest steps: every chunk comes to a rank in the step that
is its distance. Each step is then an assignment of its own. The chunks that come to a rank in step s go over
its links from ranks at distance s - 1. Augmenting paths make the load of the busiest link as small as
possible. This is BFB (dissertation, section 3.5) for whole chunks, and where its rounds are the lower bound
no program has to be solved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyomo.environ as pyo

from tutti.models.sccl.program import MOST_PLACES, build, crossings, places
from tutti.models.solvers import Effort, SolverResult, solve
from tutti.models.solvers.outcome import SAME
from tutti.models.solvers.registry import seconds_for
from tutti.models.time_expanded import (
    ChunkInstance,
    HorizonAnswer,
    HorizonLimits,
    HorizonResult,
    HorizonSearch,
)
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import Int64Array
from tutti.topologies.kernels import now

BREADTH_FIRST = "none: breadth first meets the bound"
"""Stands for the solver where nothing had to be solved."""
WITHIN = "none: breadth first has no more rounds"
TOO_LARGE = "none: the program takes longer to write than is given"


@dataclass(frozen=True)
class StepLimits(HorizonLimits):
    """The limits and options of solving the program.

    Parameters
    ----------
    start
        Whether to begin with a breadth-first schedule, which is the answer where it meets the lower bound.
    """

    start: bool = True


Rounds = HorizonResult[Int64Array]
"""The schedule of some steps with the fewest rounds: int64 rows, shape (4, transfers), in order of step.

A row has the step from 1, the link, and the chunk (in `ChunkInstance.item`).
"""


def fewest_rounds(instance: ChunkInstance, steps: int, limits: StepLimits = StepLimits()) -> Rounds:
    """Return the schedule of S steps with the fewest rounds.

    Parameters
    ----------
    instance
        Chunks, links and their ends.
    steps
        S.
    limits
        How to solve.

    Raises
    ------
    NoSchedule
        If there is none (S is less than the longest route), or none was found in time.
    """
    none = _none_in_time(_described(instance, steps), limits)
    search = _begun(instance, steps, limits)
    if search.met:
        return search.result({"solver": BREADTH_FIRST}, none)
    if _too_large(instance, steps, limits):
        return search.result({"solver": TOO_LARGE}, none)
    program = _StepProgram(instance, steps, search)
    search.grow(program.within, search.proven)
    if search.ticks > search.proven:
        search.learn(program.least(), math.inf)
    return search.result(program.effort.columns, none)


def in_rounds(instance: ChunkInstance, steps: int, rounds: int, limits: StepLimits = StepLimits()) -> Rounds:
    """Return a schedule of S steps and at most R rounds: SCCL's own question.

    Parameters
    ----------
    instance
        Chunks, links and their ends.
    steps, rounds
        S and R.
    limits
        How to solve.

    Raises
    ------
    NoSchedule
        If there is none, with what proves that, or if that is undecided in time.
    """
    what = _described(instance, steps, rounds)
    none, proven = _none_in_time(what, limits), max(instance.least_rounds, steps)
    if rounds < proven:
        why = f"the lower bounds are {proven}" if proven > steps else "each step has one at least"
        raise NoSchedule(f"sccl: no {what}: {why}")
    search = _begun(instance, steps, limits)
    if search.ticks <= rounds:
        return search.result({"solver": WITHIN}, none)
    if _too_large(instance, steps, limits):
        raise none
    program = _StepProgram(instance, steps, search)
    answer = program.within(rounds, 1)
    if answer.infeasible:
        raise NoSchedule(f"sccl: no {what}: {limits.solver} has proven it")
    if answer.rows is None:
        raise NoSchedule(f"sccl: {limits.solver} found no {what}{_limit(limits)}, nor that there is none")
    search.learn(answer, rounds)
    return search.result(program.effort.columns, none)


def _too_large(instance: ChunkInstance, steps: int, limits: StepLimits) -> bool:
    """Whether the program would take longer to write than there is time, at least a second.

    `build` refuses larger ones. Measured: 21,000 to 24,000 variables x a second on tori.
    """
    if places(instance, steps) > MOST_PLACES:
        return False
    return seconds_for(crossings(instance, steps)) > max(1.0, limits.seconds)


def _limit(limits: StepLimits) -> str:
    return f" in {limits.seconds:g} s" if math.isfinite(limits.seconds) else ""


def _none_in_time(what: str, limits: StepLimits) -> NoSchedule:
    why = f"found no {what}{_limit(limits)}; give it more time or fewer chunks"
    return NoSchedule(f"sccl: {limits.solver} {why}")


def _described(instance: ChunkInstance, steps: int, rounds: int = 0) -> str:
    """Return the task in words; raises if S is less than the longest route."""
    kind, network = instance.collective.kind, instance.topology.name
    many = f"{steps} steps and {rounds} rounds" if rounds else f"{steps} steps"
    what = f"{kind} of {instance.chunks} chunks a shard in {many} on {network}"
    if steps < instance.least_steps:
        raise NoSchedule(f"sccl: no {what}: a chunk must go over {instance.least_steps} links")
    return what


def _begun(instance: ChunkInstance, steps: int, limits: StepLimits) -> HorizonSearch[Int64Array]:
    """Return a search that knows the breadth-first schedule, where that is asked for and has these steps."""
    first = breadth_first(instance) if limits.start and steps == instance.least_steps else None
    search = HorizonSearch[Int64Array](limits, max(instance.least_rounds, steps))
    if first is not None:
        search.offer(first, rounds_of(instance, first, steps))
    return search


class _StepProgram:
    """The calls of a solver for one model, and what they took together."""

    def __init__(self, instance: ChunkInstance, steps: int, search: HorizonSearch[Int64Array]) -> None:
        begin = now()
        self.instance, self.steps, self.search = instance, steps, search
        self.model = build(instance, steps)
        self.effort = Effort(build_s=now() - begin)

    def rows(self, result: SolverResult) -> Int64Array:
        """Return the transfers of an answer that are useful: step, link and chunk, in order of step."""
        moved = [(s, e, c) for (e, c, s), x in self.model.x.items() if result.is_one(x)]
        rows = np.array(sorted(moved), dtype=np.int64).reshape(-1, 3).T
        _, link, chunk = rows
        topology = self.instance.topology
        return rows[:, self.instance.useful(chunk, topology.source[link], topology.target[link])]

    def within(self, rounds: int, share: int = 2) -> HorizonAnswer[Int64Array]:
        """Ask for any schedule of at most `rounds` rounds, in 1/`share` of the time that is left."""
        total = pyo.quicksum(self.model.rounds.values())
        return self._ask(pyo.Constraint(expr=total <= rounds, doc="C6"), pyo.Objective(expr=0.0), share)

    def least(self) -> HorizonAnswer[Int64Array]:
        """Ask for the schedule of fewest rounds, at least as many as are proven."""
        total = pyo.quicksum(self.model.rounds.values())
        proven = pyo.Constraint(expr=total >= self.search.proven, doc="C6")
        return self._ask(proven, pyo.Objective(expr=total), 1)

    def _ask(
        self, total_rounds: pyo.Constraint, objective: pyo.Objective, share: int
    ) -> HorizonAnswer[Int64Array]:
        """Solve with another C6 and another objective in place of the last ones."""
        for name, component in (("total_rounds", total_rounds), ("objective", objective)):
            self.model.del_component(name)
            self.model.add_component(name, component)
        limits = self.search.limits
        result = solve(self.model, limits.solver, limits.options(self.search.left / share, SAME))
        self.effort.add(result, result.compile_s)
        return HorizonAnswer.of(
            result, lambda: self.rows(result), lambda rows: rounds_of(self.instance, rows, self.steps)
        )


def rounds_of(instance: ChunkInstance, rows: Int64Array, steps: int) -> int:
    """Return R of these transfers: the sum over steps of the busiest link's rounds, at least 1 each."""
    step, link, _ = rows
    loads = np.zeros((steps + 1, instance.topology.num_links), dtype=np.int64)
    np.add.at(loads, (step, link), 1)
    needed = -(-loads // instance.capacity)
    if not len(step):
        raise InputError("sccl: nothing is to be moved")
    return int(np.maximum(needed[1:].max(axis=1), 1).sum())


def breadth_first(instance: ChunkInstance) -> Int64Array | None:
    """Return rows (step, link, chunk), shape (3, transfers), of a schedule of `least_steps` steps.

    None where not all ranks must have all that moves, as it would bring chunks to ranks that need none.
    """
    items = np.unique(instance.item)
    if not instance.wanters[items].all():
        return None
    topology = instance.topology
    into: list[list[int]] = [[] for _ in range(topology.num_ranks)]
    for link, target in enumerate(topology.target.tolist()):
        into[target].append(link)
    rows: list[tuple[int, int, int]] = []
    for rank, links in enumerate(into):
        distance = instance.hops[instance.item, rank]
        for step in range(1, int(distance.max()) + 1):
            chunks = np.flatnonzero(distance == step)
            before = instance.hops[instance.item[chunks]][:, topology.source[links]] == step - 1
            choices = [np.flatnonzero(row).tolist() for row in before]
            chosen = assigned(choices, instance.capacity[links].tolist())
            rows += [(step, links[place], int(c)) for c, place in zip(chunks, chosen, strict=True)]
    return np.array(sorted(rows), dtype=np.int64).reshape(-1, 3).T


def assigned(choices: Sequence[Sequence[int]], weights: Sequence[int]) -> list[int]:
    """Return for each chunk one of its links, so that the largest load over weight, rounded up, is least.

    Parameters
    ----------
    choices
        For each chunk the links that it may take; at least one.
    weights
        The links' whole numbers.
    """
    rounds = -(-len(choices) // sum(weights))
    while True:
        held: list[list[int]] = [[] for _ in weights]

        def place(chunk: int, seen: set[int], rounds: int = rounds, held: list[list[int]] = held) -> bool:
            """Find room for one chunk along an augmenting path; whether there is any."""
            for link in choices[chunk]:
                if link in seen:
                    continue
                seen.add(link)
                if len(held[link]) < rounds * weights[link]:
                    held[link].append(chunk)
                    return True
                for i, other in enumerate(held[link]):
                    if place(other, seen):
                        held[link][i] = chunk
                        return True
            return False

        if all(place(chunk, set()) for chunk in range(len(choices))):
            break
        rounds += 1
    link_of = {chunk: link for link, chunks in enumerate(held) for chunk in chunks}
    return [link_of[chunk] for chunk in range(len(choices))]


class FrontierPoint(NamedTuple):
    """A number of steps, and the schedule of these steps with the fewest rounds."""

    steps: int
    answer: Rounds


def frontier(instance: ChunkInstance, ask: Callable[[ChunkInstance, int], Rounds]) -> Iterator[FrontierPoint]:
    """Yield the schedules of rising numbers of steps that each have fewer rounds than all before.

    It begins at the least number of steps that any schedule has, the longest route of a chunk. It ends when
    the rounds are as few as the bandwidth allows, or after the first number of steps for which no schedule is
    found in time. Nothing better lies between the points: each answer is the fewest rounds of its steps,
    where it is proven.

    Parameters
    ----------
    instance
        Chunks, links and their ends.
    ask
        As `fewest_rounds`.

    Raises
    ------
    NoSchedule
        If there is none of the least number of steps in time.
    """
    steps, least = instance.least_steps, math.inf
    while True:
        try:
            answer = ask(instance, steps)
        except NoSchedule:
            if least == math.inf:
                raise
            return  # what was found before stays
        if answer.ticks < least:
            least = answer.ticks
            yield FrontierPoint(steps, answer)
        if least <= max(instance.least_rounds, steps):
            return
        steps += 1
