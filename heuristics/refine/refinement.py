"""A search from several plans, within a time: the most promising goes on, hot at first and then cooler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from heuristics.refine.instance import KINDS, Instance, Planned
from heuristics.refine.plan import play, room
from heuristics.refine.roads import Network
from heuristics.refine.search import anneal, copy
from heuristics.refine.starts import by_steps, of_schedule
from schedules.collective import Kind
from schedules.compose import compose_allreduce
from schedules.method import Problem
from schedules.reversal import reverse
from schedules.schedule import Schedule
from topologies.errors import Unsupported
from topologies.kernels import now
from topologies.progress import tell
from topologies.units import duration

HOT, COOLING = 2e-2, 1e-2
"""Of the end: what it may be later by at first, and of that at last."""
ENOUGH = 5000
"""Changes for each transfer; with fewer it is cooler from the beginning."""
RACE = 0.2
"""Of the time, for all starts together."""
HALVES = 0.4
"""Of the time, for the halves of an allreduce, before both are changed together."""
STRETCH = 0.1
"""Seconds of search between two looks at the clock."""
PIECES, SLOTS = 3, 2**11
"""Parcels of an item, if no more transfers than that follow."""
MOST_PIECES, MOST_SLOTS = 16, 2**18
"""Parcels of an item, and transfers of all: schedules with more are no starts."""


def refined(
    problem: Problem, starts: Sequence[Schedule], seconds: float, rng: np.random.Generator
) -> Schedule:
    """Return the schedule of least time that a search finds, in the time clock.

    Parameters
    ----------
    problem
        With a size; all ranks take part, each item has some bytes.
    starts
        Legal schedules of it, with which the search may begin, besides shortest ways in steps.
    seconds
        For how long it searches.
    rng
        Where its random numbers come from.

    Raises
    ------
    Unsupported
        If there are too many transfers.
    """
    what = problem.collective
    network = Network.of(problem.topology, symmetric=what.plain and what.root is None)
    return _refined(network, problem, starts, seconds, rng)


def _refined(
    network: Network, problem: Problem, starts: Sequence[Schedule], seconds: float, rng: np.random.Generator
) -> Schedule:
    """Return what `refined` does, on its network."""
    what = problem.collective
    if what.kind not in KINDS:
        back = network.reversed()
        turned = Problem(back.topology, what.reverse, problem.size)
        backwards = [reverse(start, back.topology) for start in starts]
        return reverse(_refined(back, turned, backwards, seconds, rng), problem.topology)
    if what.kind is Kind.ALLREDUCE:
        halves = (what.with_kind(kind) for kind in (Kind.REDUCE_SCATTER, Kind.ALLGATHER))
        first, second = (
            _refined(network, replace(problem, collective=half), [], HALVES * seconds / 2, rng)
            for half in halves
        )
        starts, seconds = [*starts, compose_allreduce(first, second)], (1 - HALVES) * seconds
    single = Instance(problem, network, 1)
    slots = len(single.items) * single.parcels.slots
    if slots > MOST_SLOTS:
        raise Unsupported(f"refine: {slots} transfers; at most {MOST_SLOTS} can be searched")
    counts = [int(np.bincount(start.chunks.item[start.chunks.size > 0]).max()) for start in starts]
    fit = [count for count in counts if count <= min(MOST_PIECES, MOST_SLOTS // slots)]
    instance = Instance(problem, network, max(1, min(PIECES, SLOTS // slots), *fit))
    return instance.schedule(_search(instance, starts, seconds, rng).plan)


def _search(
    instance: Instance, starts: Sequence[Schedule], seconds: float, rng: np.random.Generator
) -> Planned:
    """Return the best plan that is found."""
    until = now() + seconds
    followed = [of_schedule(instance, start) for start in starts]
    begun = [plan for plan in followed if plan is not None] or [by_steps(instance, 1)]
    searches = [Search(instance, start, rng) for start in begun]
    if len(searches) > 1:
        for search in searches:
            search.run(RACE * seconds / len(searches))
    best = min(searches, key=lambda search: search.end)
    best.run(until - now())
    return Planned(best.parcels, best.plans[-1])


class Search:
    """A plan as it changes, room for another, and the best so far."""

    def __init__(self, instance: Instance, start: Planned, rng: np.random.Generator) -> None:
        self.instance, self.parcels, self.rng = instance, start.parcels, rng
        self.plans = [start.plan, instance.empty(), instance.empty()]
        links, slots = int(instance.roads.link.max()) + 1, len(start.plan.slot)
        cells = len(start.parcels.root) * start.parcels.cells
        self.times = room(slots, cells, links), room(slots, cells, links)
        self.ends = np.array([play(instance.roads, self.parcels.of, start.plan, self.times[0])[0]])
        copy(start.plan, self.plans[-1])
        self.rounds = 0

    @property
    def end(self) -> float:
        """When the best plan ends, in seconds."""
        return float(self.ends[0])

    def change(self, rounds: int, heat: float) -> None:
        """Try some changes; an end that is `heat` seconds later is accepted once in e times."""
        self.rounds += rounds
        plan, trial, best = self.plans
        roads, plans = self.instance.roads, (plan, trial, best)
        if anneal(roads, self.parcels, plans, self.times, self.rng, self.ends, rounds, heat):
            self.plans = [trial, plan, best]

    def run(self, seconds: float) -> None:
        """Search from the best plan for so long, the hotter at first the more can be tried."""
        copy(self.plans[-1], self.plans[0])
        began, rounds, hot = now(), 16, 0.0
        while (passed := now() - began) < seconds:
            self.change(rounds, self.end * hot * COOLING ** (passed / seconds))
            took = max(now() - began - passed, 1e-6)
            tries = rounds / took * seconds / int(self.plans[0].length[0])
            hot = HOT * min(1.0, tries / ENOUGH)
            rounds = max(1, int(rounds * min(4.0, STRETCH / took)))
            tell(f"refine: {duration(self.end * 1e6)}")
