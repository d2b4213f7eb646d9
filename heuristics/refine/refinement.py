"""A search from several plans, within a time: the most promising goes on, hot at first and then cooler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from tutti.heuristics.refine.cuts import best_cuts
from tutti.heuristics.refine.instance import KINDS, Instance, Planned
from tutti.heuristics.refine.moves import drop
from tutti.heuristics.refine.plan import NEVER, play, room
from tutti.heuristics.refine.roads import Network
from tutti.heuristics.refine.search import anneal, copy, sort
from tutti.heuristics.refine.starts import by_steps, of_schedule
from tutti.schedules.collective import Kind
from tutti.schedules.compose import compose_allreduce
from tutti.schedules.method import Problem
from tutti.schedules.reversal import reverse
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.simulate import simulate
from tutti.topologies.errors import Unsupported
from tutti.topologies.graphs.free_action import free_group
from tutti.topologies.graphs.symmetry import automorphisms
from tutti.topologies.kernels import now
from tutti.topologies.progress import tell
from tutti.topologies.units import duration

HOT, COOLING = 2e-2, 1e-2
"""Of the end: what it may be later by at first, and of that at last."""
ENOUGH = 2000
"""Changes for each transfer; with fewer it is cooler from the beginning."""
TRIAL = 64
"""Changes by which the search's pace is measured."""
FRESH = 0.6
"""Of the time, for a search from shortest ways: it has the fewest parcels, so that it can be hottest."""
RACE = 0.6
"""Of the time left, for all starts together."""
HALVES = 0.7
"""Of the time, for the halves of an allreduce, before both are changed together."""
CUTS, MOST_CUT = 4, 2**13
"""Times in a search at which the best plan is cut by a linear program, and transfers of it at most."""
CUT_PART = 0.1
"""Of the search's time, for one of these."""
SHORTEST = 1e-2
"""Seconds for one, at least."""
STRETCH = 0.1
"""Seconds of search between two looks at the clock."""
PIECES, SLOTS = 4, 2**10
"""Parcels of an item, if no more transfers than that follow."""
MOST_PIECES, MOST_SLOTS = 2**7, 2**18
"""Parcels of an item, and transfers of all: schedules with more are no starts."""
MOST_ELEMENTS = 2**10
"""Of a group of symmetries."""
ROUNDING = 1 + 1e-6
"""Of times: sizes of parcels are rounded."""


Maker = Callable[[Problem, float], Sequence[Schedule]]
"""Makes schedules of a problem, to begin with, until a moment."""


def refined(
    problem: Problem, starts: Sequence[Schedule], seconds: float, rng: np.random.Generator, make: Maker
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
    make
        Where the halves of an allreduce have their starts from.

    Raises
    ------
    Unsupported
        If there are too many transfers.
    """
    return _refined(_network(problem), problem, starts, seconds, rng, make)


def _network(problem: Problem) -> Network:
    """Return the network with symmetries that keep no rank; if that leaves many transfers, with all."""
    topology, what = problem.topology, problem.collective
    if not what.plain or what.root is not None:
        return Network.of(topology)
    network = Network.of(topology, free_group(topology))
    slots = _slots(problem, network)
    if slots < SLOTS:
        return network
    all_ = Network.of(topology, automorphisms(topology).some_elements(MOST_ELEMENTS))
    return all_ if _slots(problem, all_) < slots else network


def _refined(
    network: Network,
    problem: Problem,
    starts: Sequence[Schedule],
    seconds: float,
    rng: np.random.Generator,
    make: Maker,
) -> Schedule:
    """Return what `refined` does, on its network."""
    until = now() + seconds
    what = problem.collective
    if what.kind not in KINDS:
        back = network.reversed()
        turned = Problem(back.topology, what.reverse, problem.size)
        backwards = [reverse(start, back.topology) for start in starts]
        return reverse(_refined(back, turned, backwards, seconds, rng, make), problem.topology)
    if what.kind is Kind.ALLREDUCE:
        halves = []
        for part, kind in ((HALVES / 2, Kind.REDUCE_SCATTER), (HALVES, Kind.ALLGATHER)):
            half = replace(problem, collective=what.with_kind(kind))
            over = until - (1 - part) * seconds
            begin = make(half, over)
            halves.append(_refined(network, half, begin, over - now(), rng, make))
        starts = [*starts, compose_allreduce(halves[0], halves[1])]
        seconds = until - now()
    searches = list(_searches(network, problem, starts, rng))
    searches[0].run(FRESH * seconds)
    best = _raced(searches, RACE * (until - now()))
    best.run(until - now())
    return best.instance.schedule(best.plans[-1])


def _searches(
    network: Network, problem: Problem, starts: Sequence[Schedule], rng: np.random.Generator
) -> Iterator[Search]:
    """Yield a search from shortest ways in steps, and from each start that is one of plans, without copies.

    A start that is not as symmetric as the network takes longer when it is made so: then it is also taken as
    it is.
    """
    slots = _slots(problem, network)
    if slots > MOST_SLOTS:
        raise Unsupported(f"local_search: {slots} transfers; at most {MOST_SLOTS} can be searched")
    instance = Instance(problem, network, max(1, min(PIECES, SLOTS // slots)))
    yield Search(instance, by_steps(instance, 1), rng)
    for start in starts:
        if start.chunks.copy_of is not None:
            continue
        pieces = int(np.bincount(start.chunks.item[start.chunks.size > 0]).max())
        time = simulate(start, instance.size).time
        for on in (network, network.alone):
            if pieces > MOST_PIECES or pieces * _slots(problem, on) > MOST_SLOTS:
                break
            own = Instance(problem, on, max(pieces, instance.pieces if on is network else 1))
            followed = of_schedule(own, start)
            if followed is None:
                break
            search = Search(own, followed, rng)
            yield search
            if search.end <= time * ROUNDING:
                break


def _slots(problem: Problem, network: Network) -> int:
    """Return how many transfers there are if no item is cut."""
    whole = Instance(problem, network, 1)
    return len(whole.items) * whole.parcels.slots


def _raced(searches: list[Search], seconds: float) -> Search:
    """Return the search that goes on: all run for a while, then the better half of them, and so on."""
    stages = max(1, (len(searches) - 1).bit_length())
    while len(searches) > 1:
        for search in searches:
            search.run(seconds / stages / len(searches))
        searches = sorted(searches, key=lambda search: search.end)[: (len(searches) + 1) // 2]
    return searches[0]


class Search:
    """A plan as it changes, room for another, and the best so far."""

    def __init__(self, instance: Instance, start: Planned, rng: np.random.Generator) -> None:
        self.instance, self.parcels, self.rng = instance, start.parcels, rng
        self.plans = [start.plan, instance.empty(), instance.empty()]
        links, slots = int(instance.roads.link.max()) + 1, len(start.plan.slot)
        cells = len(start.parcels.root) * start.parcels.cells
        self.times = room(slots, cells, links), room(slots, cells, links)
        self.ends = np.array([play(instance.roads, self.parcels.of, start.plan, self.times[0], NEVER)[0]])
        copy(start.plan, self.plans[-1])

    @property
    def end(self) -> float:
        """When the best plan ends, in seconds."""
        return float(self.ends[0])

    def change(self, rounds: int, heat: float) -> None:
        """Try some changes; an end that is `heat` seconds later is accepted once in e times."""
        plan, trial, best = self.plans
        roads, plans = self.instance.roads, (plan, trial, best)
        if anneal(roads, self.parcels, plans, self.times, self.rng, self.ends, rounds, heat):
            self.plans = [trial, plan, best]

    def cut(self, seconds: float) -> None:
        """Move the cuts of the best plan to where it ends soonest, and go on from there."""
        plan, roads, of = self.plans[0], self.instance.roads, self.parcels.of
        copy(self.plans[-1], plan)
        sort(plan)
        play(roads, of, plan, self.times[0], NEVER)
        if int(plan.length[0]) > MOST_CUT:
            return
        size = best_cuts(roads, self.parcels, plan, self.end, seconds)
        if size is None:
            return
        plan.size[:] = size
        for parcel in np.flatnonzero(size == 0):
            drop(self.parcels, plan, parcel, 0)
        end = play(roads, of, plan, self.times[0], NEVER)[0]
        if end < self.end:
            self.ends[0] = end
            copy(plan, self.plans[-1])
        else:
            copy(self.plans[-1], plan)

    def run(self, seconds: float) -> None:
        """Search from the best plan for so long, the hotter at first the more can be tried."""
        copy(self.plans[-1], self.plans[0])
        began = now()
        self.change(TRIAL, 0.0)
        pace = TRIAL / max(now() - began, 1e-6)
        hot = HOT * min(1.0, pace * seconds / int(self.plans[0].length[0]) / ENOUGH)
        for cut in range(1, CUTS + 1):
            while (passed := now() - began) < seconds * cut / CUTS:
                self.change(int(pace * STRETCH) + 1, self.end * hot * COOLING ** (passed / seconds))
                tell(f"refine: {duration(self.end * 1e6)}")
            self.cut(max(CUT_PART * seconds, SHORTEST))
