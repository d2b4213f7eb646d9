"""A search from several plans within a time limit; the most promising plan is annealed longest.

A search is simulated annealing: a message, a route or a cut is changed, and kept if the end is not too late.
Most changes are made on the critical path: the chain of messages, up to the last one, that wait for each
other or for their link.

Source: Kirkpatrick, Gelatt, Vecchi, Optimization by simulated annealing, Science 1983; critical paths as
neighbourhoods: van Laarhoven, Aarts, Lenstra, Job shop scheduling by simulated annealing, Oper. Res. 1992.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from tutti.heuristics.refine.instance import (
    KINDS,
    Planned,
    RefineInstance,
    RoutedNetwork,
    by_steps,
    of_schedule,
)
from tutti.heuristics.refine.moves import change, drop, end_of
from tutti.heuristics.refine.plan import (
    NEVER,
    TUNING,
    Parcels,
    Roads,
    SequenceTimes,
    TransferSequence,
    play,
    room,
)
from tutti.schedules.collective import Kind
from tutti.schedules.compose import compose_allreduce
from tutti.schedules.method import Problem
from tutti.schedules.reversal import reverse
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.simulate import simulate
from tutti.topologies.errors import Unsupported
from tutti.topologies.exact import FloatArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.free_action import free_group
from tutti.topologies.graphs.symmetry import automorphisms
from tutti.topologies.kernels import assign, kernel, now
from tutti.topologies.progress import tell
from tutti.topologies.units import duration

Maker = Callable[[Problem, float], Sequence[Schedule]]
"""Makes first schedules of a problem until a moment."""


def refined(
    problem: Problem, starts: Sequence[Schedule], seconds: float, rng: np.random.Generator, make: Maker
) -> Schedule:
    """Return the schedule of least time that a search finds, in the time clock.

    Parameters
    ----------
    problem
        The problem, with a size; all ranks take part, and each item has some bytes.
    starts
        Legal schedules of it, from which the search may begin, in addition to shortest paths in steps.
    seconds
        Seconds of the search.
    rng
        Source of random numbers.
    make
        Makes the starts for the halves of an allreduce.

    Raises
    ------
    Unsupported
        If there are too many transfers.
    """
    return _refined(_network(problem), problem, starts, seconds, rng, make)


def _network(problem: Problem) -> RoutedNetwork:
    """Return the network with symmetries that fix no rank or, if many transfers are left, with any."""
    topology, what = problem.topology, problem.collective
    if not what.plain or what.root is not None:
        return RoutedNetwork.of(topology)
    network = RoutedNetwork.of(topology, free_group(topology))
    slots = _slots(problem, network)
    if slots < TUNING.slots:
        return network
    all_ = RoutedNetwork.of(topology, automorphisms(topology).some_elements(TUNING.most_elements))
    return all_ if _slots(problem, all_) < slots else network


def _refined(
    network: RoutedNetwork,
    problem: Problem,
    starts: Sequence[Schedule],
    seconds: float,
    rng: np.random.Generator,
    make: Maker,
) -> Schedule:
    """Return the result of `refined`, on its network."""
    until = now() + seconds
    what = problem.collective
    if what.kind not in KINDS:
        back = network.reversed()
        turned = Problem(back.topology, what.reverse, problem.size)
        backwards = [reverse(start, back.topology) for start in starts]
        return reverse(_refined(back, turned, backwards, seconds, rng, make), problem.topology)
    if what.kind is Kind.ALLREDUCE:
        halves = []
        for part, kind in ((TUNING.halves / 2, Kind.REDUCE_SCATTER), (TUNING.halves, Kind.ALLGATHER)):
            half = replace(problem, collective=what.with_kind(kind))
            end = until - (1 - part) * seconds
            begin = make(half, end)
            halves.append(_refined(network, half, begin, end - now(), rng, make))
        starts = [*starts, compose_allreduce(halves[0], halves[1])]
        seconds = until - now()
    searches = list(_searches(network, problem, starts, rng))
    searches[0].run(TUNING.fresh * seconds)
    best = _raced(searches, TUNING.fresh * (until - now()))
    best.run(until - now())
    return best.instance.schedule(best.plans[-1])


def _searches(
    network: RoutedNetwork, problem: Problem, starts: Sequence[Schedule], rng: np.random.Generator
) -> Iterator[AnnealingSearch]:
    """Yield a search from shortest paths in steps, and from each start without copies that is a plan.

    If a start is less symmetric than the network, it takes longer once it is made symmetric. Then there is
    also a search from the start as it is, without symmetries.
    """
    slots = _slots(problem, network)
    if slots > TUNING.most_slots:
        raise Unsupported(f"local_search: {slots} transfers; at most {TUNING.most_slots} can be searched")
    instance = RefineInstance(problem, network, max(1, min(TUNING.pieces, TUNING.slots // slots)))
    yield AnnealingSearch(instance, by_steps(instance, 1), rng)
    for start in starts:
        if start.chunks.copy_of is not None:
            continue
        pieces = int(np.bincount(start.chunks.item[start.chunks.size > 0]).max())
        time = simulate(start, instance.size).time
        for on in (network, network.alone):
            if pieces > TUNING.most_pieces or pieces * _slots(problem, on) > TUNING.most_slots:
                break
            own = RefineInstance(problem, on, max(pieces, instance.pieces if on is network else 1))
            followed = of_schedule(own, start)
            if followed is None:
                break
            search = AnnealingSearch(own, followed, rng)
            yield search
            if search.end <= time * (1 + 1e-6):  # sizes of parcels are rounded
                break


def _slots(problem: Problem, network: RoutedNetwork) -> int:
    """Return the number of transfers if no item is cut."""
    whole = RefineInstance(problem, network, 1)
    return len(whole.items) * whole.parcels.slots


def _raced(searches: list[AnnealingSearch], seconds: float) -> AnnealingSearch:
    """Return the search that runs longest: all run for a while, then the better half of them, and so on."""
    stages = max(1, (len(searches) - 1).bit_length())
    while len(searches) > 1:
        for search in searches:
            search.run(seconds / stages / len(searches))
        searches = sorted(searches, key=lambda search: search.end)[: (len(searches) + 1) // 2]
    return searches[0]


class AnnealingSearch:
    """A plan that changes, a copy, and the best plan so far."""

    def __init__(self, instance: RefineInstance, start: Planned, rng: np.random.Generator) -> None:
        self.instance, self.parcels, self.rng = instance, start.parcels, rng
        self.plans = [start.plan, instance.empty(), instance.empty()]
        links, slots = int(instance.roads.link.max()) + 1, len(start.plan.slot)
        cells = len(start.parcels.root) * start.parcels.cells
        self.times = room(slots, cells, links), room(slots, cells, links)
        self.ends = np.array([play(instance.roads, self.parcels.of, start.plan, self.times[0], NEVER)[0]])
        copy(start.plan, self.plans[-1])

    @property
    def end(self) -> float:
        """The end of the best plan, in seconds."""
        return float(self.ends[0])

    def change(self, rounds: int, heat: float) -> None:
        """Try some changes; an end that is `heat` seconds later is accepted once in e times."""
        # The kernel exchanges the first two plans at each change that it keeps.
        plan, trial, best = self.plans
        roads, plans = self.instance.roads, (plan, trial, best)
        if anneal(roads, self.parcels, plans, self.times, self.rng, self.ends, rounds, heat):
            self.plans = [trial, plan, best]

    def cut(self, seconds: float) -> None:
        """Move the cuts of the best plan to where it ends soonest, and continue from there."""
        plan, roads, of = self.plans[0], self.instance.roads, self.parcels.of
        copy(self.plans[-1], plan)
        sort(plan)
        play(roads, of, plan, self.times[0], NEVER)
        if int(plan.length[0]) > TUNING.most_cut:
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
        """Search from the best plan for `seconds`. The more changes can be tried, the hotter is the start."""
        copy(self.plans[-1], self.plans[0])
        began = now()
        self.change(TUNING.trial, 0.0)
        pace = TUNING.trial / max(now() - began, 1e-6)
        hot = TUNING.hot * min(1.0, pace * seconds / int(self.plans[0].length[0]) / TUNING.enough)
        for cut in range(1, TUNING.cuts + 1):
            while (passed := now() - began) < seconds * cut / TUNING.cuts:
                self.change(
                    int(pace * TUNING.stretch) + 1, self.end * hot * TUNING.cooling ** (passed / seconds)
                )
                tell(f"refine: {duration(self.end * 1e6)}")
            self.cut(max(TUNING.cut_part * seconds, TUNING.shortest))


def best_cuts(
    roads: Roads, parcels: Parcels, plan: TransferSequence, end: float, seconds: float
) -> Int64Array | None:
    """Return the sizes of parcels with which a plan's messages end soonest.

    With a plan's messages, their routes and their order fixed, all constraints on its times are linear:

        minimize T.
        begin(m, l) >= begin(k, l) + α(l) + load(k) / b(l)                          k before m on link l.
        start(m) >= start(k) + latency(k) + load(k) / b(k)                          k brings what m carries.
        T >= start(m) + latency(m) + load(m) / b(m)                                 each message m.
        begin(m, l) = start(m) + enter(m, l) + lag(m, l) load(m);  b(m) is the least on m's route.
        load(m) = the sizes of the parcels in m;  the parcels of an item sum to it.

    Here k and m are messages, and loads are in units. All cuts between parcels move together, while a search
    moves one at a time.

    Parameters
    ----------
    roads, parcels
        The problem.
    plan
        The plan, in the order of its messages' starts.
    end
        Its present end, in seconds.
    seconds
        Time limit of the program.

    Returns
    -------
    int64 array of shape (parcels,), or None
        Units, rounded; the parcels of an item keep their sum. None: no solution in time.
    """
    from scipy.optimize import linprog  # slow to import
    from scipy.sparse import coo_array, diags_array, hstack

    length, sizes = int(plan.length[0]), len(plan.size)
    slot = plan.slot[:length]
    message = np.cumsum(plan.begins[:length]) - 1
    kind = roads.kind[plan.route[slot[plan.begins[:length]]]]
    count = len(kind)
    own = np.repeat(np.arange(len(parcels.item) - 1), np.diff(parcels.item))
    total = np.bincount(own, plan.size).astype(np.int64)
    unit = float(total.max())

    # Each row is start[first] - start[then] + rate load[first] - late load[then] <= -wait: pairs on a link,
    # then pairs of bringer and carrier, then each message and T. Times are over `end` and loads over `unit`.
    every = np.arange(count)
    link_pairs = _in_turn(roads, kind)
    data = _brought(plan, slot, message, count)
    first = np.concatenate([link_pairs[0], data // count, every])
    then = np.concatenate([link_pairs[1], data % count, np.full(count, count)])  # the last is T
    wait = np.concatenate([link_pairs[2], roads.latency[kind[data // count]], roads.latency[kind]]) / end
    rate = (
        np.concatenate([link_pairs[3], roads.slowest[kind[data // count]], roads.slowest[kind]]) * unit / end
    )
    late = np.concatenate([link_pairs[4], np.zeros(len(data) + count)]) * unit / end

    rows = np.arange(len(first))
    ones = np.ones(len(rows))
    order = coo_array((ones, (rows, first)), (len(rows), count + 1))
    order = order - coo_array((ones, (rows, then)), (len(rows), count + 1))
    load = coo_array((np.ones(length), (message, parcels.of[slot])), (count, sizes)).tocsr()
    bytes_of = diags_array(rate) @ load[first] - diags_array(late) @ load[np.minimum(then, count - 1)]
    whole = coo_array((np.ones(sizes), (own, count + 1 + np.arange(sizes))), (len(total), count + 1 + sizes))
    found = linprog(
        np.eye(1, count + 1 + sizes, count)[0],
        A_ub=hstack([order, bytes_of]).tocsr(),
        b_ub=-wait,
        A_eq=whole.tocsr(),
        b_eq=total / unit,
        bounds=[(0, None)] * (count + 1) + [(0, None if size else 0) for size in plan.size],
        method="highs",
        options={"time_limit": seconds},
    )
    return None if found.x is None else _rounded(found.x[count + 1 :], own, total)


def _in_turn(
    roads: Roads, kind: Int32Array
) -> tuple[Int64Array, Int64Array, FloatArray, FloatArray, FloatArray]:
    """Return pairs of messages that follow each other on a link, and the seconds between their starts.

    The seconds are a constant, plus some for each unit of the first, less some for each unit of the second.
    """
    # Invariant of the plan: messages are numbered by their starts, so a stable sort keeps a link's order.
    hops = np.diff(roads.first)[kind]
    message = np.repeat(np.arange(len(kind)), hops)
    hop = roads.first[kind][message] + np.arange(len(message)) - offsets_of(hops)[message]
    order = np.argsort(roads.link[hop], kind="stable")
    message, hop = message[order], hop[order]
    same = np.flatnonzero(np.diff(roads.link[hop]) == 0)
    before, after = hop[same], hop[same + 1]
    held = roads.enter[before] + roads.alpha[before] - roads.enter[after]
    rate = roads.lag[before] + roads.byte[before]
    return message[same], message[same + 1], held, rate, roads.lag[after]


def _brought(plan: TransferSequence, slot: Int32Array, message: Int64Array, count: int) -> Int64Array:
    """Return pairs of messages, as first · count + second: the first brings data that the second carries."""
    goal = plan.goal[slot]
    # A transfer waits for all transfers that end in the cell where it begins.
    order = np.argsort(goal, kind="stable")
    low = np.searchsorted(goal[order], plan.origin[slot], "left")
    high = np.searchsorted(goal[order], plan.origin[slot], "right")
    taker = np.repeat(np.arange(len(slot)), high - low)
    bringer = order[np.arange(len(taker)) - offsets_of(high - low)[taker] + low[taker]]
    return np.unique(message[bringer] * count + message[taker])


def _rounded(size: FloatArray, own: Int64Array, total: Int64Array) -> Int64Array:
    """Return sizes as whole units that sum to each item's size."""
    size = np.maximum(size, 0)
    share = np.cumsum(size) - np.concatenate([[0.0], np.cumsum(np.bincount(own, size))])[own]
    upto = np.rint(share / np.bincount(own, size)[own] * total[own]).astype(np.int64)
    first = np.concatenate([[True], np.diff(own) != 0])
    return np.where(first, upto, upto - np.concatenate([[0], upto[:-1]]))


@kernel
def copy(plan: TransferSequence, to: TransferSequence) -> None:
    """Copy a plan into another's arrays."""
    length = plan.length[0]
    to.length[0] = length
    for i in range(length):
        to.slot[i], to.begins[i], to.start[i] = plan.slot[i], plan.begins[i], plan.start[i]
    for i in range(len(plan.route)):
        to.route[i], to.origin[i], to.goal[i] = plan.route[i], plan.origin[i], plan.goal[i]
    assign(to.size, plan.size)


@kernel
def sort(plan: TransferSequence) -> None:
    """Put the messages in the order of their starts; those that start together stay as they stand."""
    slot, begins, start = plan.slot, plan.begins, plan.start
    for place in range(1, plan.length[0]):
        a, b, c = slot[place], begins[place], start[place]
        at = place
        while at > 0 and start[at - 1] > c:
            slot[at], begins[at], start[at] = slot[at - 1], begins[at - 1], start[at - 1]
            at -= 1
        slot[at], begins[at], start[at] = a, b, c


@kernel
def _chosen(
    rng: np.random.Generator, plan: TransferSequence, last: int, waits: Int32Array, path: Int32Array
) -> int:
    """Return a place to change: on the critical path, or anywhere."""
    length = plan.length[0]
    if rng.random() < TUNING.critical:
        count, at = 0, last
        while at >= 0:
            path[count] = at
            count += 1
            at = waits[at]
        head = path[int(rng.random() * count)]
        return head + int(rng.random() * (end_of(plan, head) - head))
    return int(rng.random() * length)


@kernel
def anneal(
    roads: Roads,
    parcels: Parcels,
    plans: tuple[TransferSequence, TransferSequence, TransferSequence],
    times: tuple[SequenceTimes, SequenceTimes],
    rng: np.random.Generator,
    ends: FloatArray,
    rounds: int,
    heat: float,
) -> int:
    """Change the first plan for some rounds; the third becomes the best that was found.

    Parameters
    ----------
    roads, parcels
        The problem.
    plans
        The plan, a copy, and the best so far.
    times
        Arrays for the times of two plans.
    rng
        Source of random numbers.
    ends
        float64, shape (1,): the end of the best plan; it changes.
    rounds
        Changes that are tried.
    heat
        Seconds: an end this much later is accepted once in e times.

    Returns
    -------
    int
        The index, of the first two plans, of the present plan.
    """
    plan, trial, best = plans
    own, spare = times
    sort(plan)
    end, last, mean = play(roads, parcels.of, plan, own, NEVER)
    value, which = end + TUNING.mean * mean, 0
    path = np.empty(len(plan.slot), np.int32)
    for _ in range(rounds):
        copy(plan, trial)
        place = _chosen(rng, plan, last, own.waits, path)
        if not change(rng, roads, parcels, trial, place, own):
            continue
        # Metropolis's rule with its random number drawn first: `play` can stop once the end is too late.
        limit = value - heat * np.log(1 - rng.random())
        end, _, mean = play(roads, parcels.of, trial, spare, limit)
        if end == NEVER or end + TUNING.mean * mean > limit:
            continue
        sort(trial)
        plan, trial, which = trial, plan, 1 - which
        value = end + TUNING.mean * mean
        _, last, _ = play(roads, parcels.of, plan, own, NEVER)  # again: its waits are places in the sequence
        if end < ends[0] * (1 - 1e-12):
            ends[0] = end
            copy(plan, best)
    return which
