"""SCCL's search: the fewest rounds of S steps, whether R rounds will do, and the Pareto frontier of both.

SCCL asks a solver whether R rounds will do: `in_rounds`. So does `fewest_rounds` first, with the R that the
lower bounds allow: an answer is optimal, and R + 1 is the next. What is undecided in time goes to the program
that minimizes R, with the R ruled out as a bound.

Both begin with a *breadth-first* schedule of the fewest steps: every chunk comes to a rank in the step
that is its distance. Each step is then an assignment of its own: the chunks that come to a rank in step s
go to the rank's links from ranks at distance s - 1, as few as can be to the busiest one, found by
augmenting paths. It is BFB (dissertation, section 3.5) for whole chunks, and where its rounds are the
lower bound no program has to be solved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyomo.environ as pyo

from tutti.models.sccl.instance import ScclInstance
from tutti.models.sccl.program import MOST_PLACES, build, crossings, places
from tutti.models.solvers import (
    Effort,
    Feature,
    SolutionStatus,
    SolverResult,
    Termination,
    find_backend,
    solve,
)
from tutti.models.solvers.options import LEAST_SECONDS
from tutti.models.solvers.outcome import SAME, least_whole
from tutti.models.solvers.registry import seconds_for
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import Int64Array
from tutti.topologies.kernels import now

BREADTH_FIRST = "none: breadth first meets the bound"
"""Stands for the solver where nothing had to be solved."""
WITHIN = "none: breadth first has no more rounds"
TOO_LARGE = "none: the program takes longer to write than is given"


@dataclass(frozen=True)
class Answer:
    """What is known of S steps.

    Parameters
    ----------
    steps, rounds
        S, and the R of the schedule found.
    proven
        No schedule of S steps has fewer rounds.
    rows
        int64, shape (4, transfers): step from 1, link, chunk (in `ScclInstance.item`), in order of step.
    stats
        Columns of a result row.
    """

    steps: int
    rounds: int
    proven: int
    rows: Int64Array
    stats: dict[str, Any]

    @property
    def optimal(self) -> bool:
        """Whether the schedule has as few rounds as can be."""
        return self.rounds == self.proven


@dataclass(frozen=True)
class StepLimits:
    """How the program is solved.

    Parameters
    ----------
    solver, seconds, seed
        A back-end for mixed-integer programs, its time limit and seed.
    start
        Whether to begin with a breadth-first schedule, which is the answer where it meets the lower bound.
    """

    solver: str = "cp-sat"
    seconds: float | None = None
    seed: int = 0
    start: bool = True


def fewest_rounds(instance: ScclInstance, steps: int, limits: StepLimits = StepLimits()) -> Answer:
    """Return the schedule of S steps with the fewest rounds.

    Parameters
    ----------
    instance
        What is asked.
    steps
        S.
    limits
        How to solve.

    Raises
    ------
    NoSchedule
        If there is none (S is less than the longest route), or none was found in time.
    """
    what = _described(instance, steps)
    proven = max(instance.least_rounds, steps)
    known = _begun(instance, steps, limits)
    most = min((_rounds(instance, rows, steps) for rows in known), default=None)
    if most == proven:
        return _answer(instance, steps, proven, known, {"solver": BREADTH_FIRST})
    if known and _too_large(instance, steps, limits):
        return _answer(instance, steps, proven, known, {"solver": TOO_LARGE})
    if _too_large(instance, steps, limits):
        raise _none_in_time(what, limits)
    search = _ScclSearch(instance, steps, limits)
    proven, result = search.fewest(proven, most)
    if result is not None and result.status is not SolutionStatus.NONE:
        known.insert(0, search.rows(result))
    if not known:
        raise _none_in_time(what, limits)
    return _answer(instance, steps, proven, known, search.effort.columns)


def in_rounds(instance: ScclInstance, steps: int, rounds: int, limits: StepLimits = StepLimits()) -> Answer:
    """Return a schedule of S steps and at most R rounds: SCCL's own question.

    Parameters
    ----------
    instance
        What is asked, C included.
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
    proven = max(instance.least_rounds, steps)
    if rounds < proven:
        why = f"the lower bounds are {proven}" if proven > steps else "each step has one at least"
        raise NoSchedule(f"sccl: no {what}: {why}")
    known = _begun(instance, steps, limits)
    if any(_rounds(instance, rows, steps) <= rounds for rows in known):
        return _answer(instance, steps, proven, known, {"solver": WITHIN})
    if _too_large(instance, steps, limits):
        raise _none_in_time(what, limits)
    search = _ScclSearch(instance, steps, limits)
    result = search.exactly(rounds, 1)
    if result.termination is Termination.INFEASIBLE:
        raise NoSchedule(f"sccl: no {what}: {limits.solver} has proven it")
    if result.status is SolutionStatus.NONE:
        limit = "" if limits.seconds is None else f" in {limits.seconds:g} s"
        raise NoSchedule(f"sccl: {limits.solver} found no {what}{limit}, nor that there is none")
    return _answer(instance, steps, proven, [search.rows(result)], search.effort.columns)


def _answer(
    instance: ScclInstance, steps: int, proven: int, found: Sequence[Int64Array], stats: dict[str, Any]
) -> Answer:
    """Return the one of fewest rounds, the first of several."""
    rounds, rows = min(((_rounds(instance, each, steps), each) for each in found), key=lambda pair: pair[0])
    return Answer(steps, rounds, proven, rows, {**stats, "solver_gap": (rounds - proven) / rounds})


def _too_large(instance: ScclInstance, steps: int, limits: StepLimits) -> bool:
    """Whether the program would take longer to write than it may, but a second; `build` refuses larger ones.

    Measured: 21,000 to 24,000 variables x a second on tori.
    """
    if limits.seconds is None or places(instance, steps) > MOST_PLACES:
        return False
    return seconds_for(crossings(instance, steps)) > max(1.0, limits.seconds)


def _none_in_time(what: str, limits: StepLimits) -> NoSchedule:
    limit = "" if limits.seconds is None else f" in {limits.seconds:g} s"
    return NoSchedule(f"sccl: {limits.solver} found no {what}{limit}; give it more time or fewer chunks")


def _described(instance: ScclInstance, steps: int, rounds: int = 0) -> str:
    """Return what is asked, in words; raises where S is less than the longest route."""
    kind, network = instance.collective.kind, instance.topology.name
    many = f"{steps} steps and {rounds} rounds" if rounds else f"{steps} steps"
    what = f"{kind} of {instance.chunks} chunks a shard in {many} on {network}"
    if steps < instance.least_steps:
        raise NoSchedule(f"sccl: no {what}: a chunk must go over {instance.least_steps} links")
    return what


def _begun(instance: ScclInstance, steps: int, limits: StepLimits) -> list[Int64Array]:
    """Return the breadth-first schedule, where it is asked for and there is one of these steps."""
    first = breadth_first(instance) if limits.start and steps == instance.least_steps else None
    return [] if first is None else [first]


class _ScclSearch:
    """The questions asked of one model, and what they took together."""

    def __init__(self, instance: ScclInstance, steps: int, limits: StepLimits) -> None:
        begin = now()
        self.until = None if limits.seconds is None else begin + limits.seconds
        self.instance, self.limits = instance, limits
        self.model = build(instance, steps)
        self.effort = Effort(build_s=now() - begin)

    def fewest(self, proven: int, most: int | None) -> tuple[int, SolverResult | None]:
        """Return what is proven at last, and the last answer; None if `most` is proven to be the least."""
        result = None
        while most is None or proven < most:
            result = self.exactly(proven)
            if result.termination is not Termination.INFEASIBLE:
                break
            proven, result = proven + 1, None
        if result is not None and result.status is SolutionStatus.NONE:
            result = self.least(proven)
            if result.bound is not None:
                proven = max(proven, least_whole(result.bound))
        return proven, result

    def rows(self, result: SolverResult) -> Int64Array:
        """Return the transfers of an answer that are of use: step, link and chunk, in order of step."""
        moved = [(s, e, c) for (e, c, s), x in self.model.x.items() if result.is_one(x)]
        rows = np.array(sorted(moved), dtype=np.int64).reshape(-1, 3).T
        _, link, chunk = rows
        topology = self.instance.topology
        return rows[:, self.instance.useful(chunk, topology.source[link], topology.target[link])]

    def exactly(self, rounds: int, share: int = 2) -> SolverResult:
        """Ask for any schedule of at most so many rounds, in 1/`share` of the time that is left."""
        total = pyo.quicksum(self.model.rounds.values())
        self._ask(pyo.Constraint(expr=total <= rounds, doc="C6"), pyo.Objective(expr=0.0))
        return self._solved(share)

    def least(self, rounds: int) -> SolverResult:
        """Ask for the schedule of fewest rounds, at least so many."""
        total = pyo.quicksum(self.model.rounds.values())
        self._ask(pyo.Constraint(expr=total >= rounds, doc="C6"), pyo.Objective(expr=total))
        return self._solved(1)

    def _ask(self, total_rounds: pyo.Constraint, objective: pyo.Objective) -> None:
        """Put another C6 and another objective in place of the last ones."""
        for name, component in (("total_rounds", total_rounds), ("objective", objective)):
            self.model.del_component(name)
            self.model.add_component(name, component)

    def _solved(self, share: int) -> SolverResult:
        solver = self.limits.solver
        backend: Any = find_backend(solver, {Feature.MILP})
        left = None if self.until is None else max(self.until - now(), LEAST_SECONDS) / share
        options = backend.options(time_limit=left, seed=self.limits.seed, relative_gap=SAME)
        result = solve(self.model, solver, options)
        self.effort.add(result, result.compile_s)
        return result


def _rounds(instance: ScclInstance, rows: Int64Array, steps: int) -> int:
    """Return R of these transfers: in each step what the busiest link needs, at least 1."""
    step, link, _ = rows
    loads = np.zeros((steps + 1, instance.topology.num_links), dtype=np.int64)
    np.add.at(loads, (step, link), 1)
    needed = -(-loads // instance.capacity)
    if not len(step):
        raise InputError("sccl: nothing is to be moved")
    return int(np.maximum(needed[1:].max(axis=1), 1).sum())


def breadth_first(instance: ScclInstance) -> Int64Array | None:
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


@dataclass(frozen=True)
class FrontierPoint:
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
    instance: ScclInstance, ask: Callable[[ScclInstance, int], Answer], most_steps: int | None = None
) -> Iterator[FrontierPoint]:
    """Yield the schedules of more and more steps that each have fewer rounds than all before.

    It begins at the least number of steps that any schedule has (the longest route of a chunk) and ends when
    the rounds are as few as the bandwidth allows, at `most_steps`, or after the first number of steps for
    which none is found in time. Between the points there is nothing better: each answer is the fewest rounds
    of its steps, where it is proven.

    Parameters
    ----------
    instance
        What is asked, C included.
    ask
        As `fewest_rounds`.
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
            yield FrontierPoint(instance.chunks, answer)
        if least <= max(instance.least_rounds, steps):
            return
        steps += 1
