"""The method ``windowed_mcf``: an all-to-all in few messages a link, whose times and paths fit each other.

The search begins with steps: in each all links send one message, and there are as many steps as the network's
diameter, or some more. If the method is given a schedule, the order of its messages is tried too. Links that
symmetries take to each other send at the same times. With fewer symmetries, some of these can wait while
others send.

The search among orders of events (`searched`) is simulated annealing. Each order is judged by its linear
program (`models.all_to_all.message_program`). Events move, pairs of them are added or dropped, the first or
last data of classes take a message less or more, and a class of links copies another. Kirkpatrick, Gelatt,
Vecchi, doi 10.1126/science.220.4598.671.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from tutti.models.all_to_all.message_program import MessageFlowProgram, MessageOrder, TimedFlow
from tutti.models.all_to_all.paths import chunks_of_paths
from tutti.models.all_to_all.rounding import rounded_shares
from tutti.models.solvers.outcome import SAME, TOLERANCE
from tutti.schedules.capabilities import Capabilities, Groups, Switches
from tutti.schedules.collective import Kind
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Clock, Schedule
from tutti.schedules.simulation.simulate import simulate, watch
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import FloatArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.free_action import free_group
from tutti.topologies.graphs.symmetry import automorphisms, drawn_subgroup
from tutti.topologies.kernels import now
from tutti.topologies.options import Duration, Options, Whole
from tutti.topologies.progress import tell
from tutti.topologies.topology import Topology
from tutti.topologies.units import duration, parse_time

MOST_PAIRS = 2**22
"""Most ranks times links times symmetries; programs of this size take seconds. With a larger value the
method accepts more networks."""


@dataclass(frozen=True)
class MessageFlowOptions(Options):
    """Options of windowed_mcf.

    Parameters
    ----------
    time_limit
        A time with its unit, for the search.
    index
        The factor by which the schedule has fewer symmetries than it could have: 1 for all.

    Raises
    ------
    InputError
        If the time is no duration, or the index less than 1.
    """

    OWNER: ClassVar[str] = "windowed_mcf"

    time_limit: Annotated[str, Duration("20s")] = "10s"
    index: Annotated[int, Whole(1)] = 1


class EventChances(NamedTuple):
    """Probabilities of the changes of an order. `moved`, `dropped` and `added` include those before them."""

    heat: float
    """Relative increase of the time that the search accepts at first with probability 1 / e. A larger value
    accepts more."""
    moved: float
    """Probability that events are moved, given that the change may be anywhere in the order."""
    dropped: float
    """Probability that events are moved or a message is dropped."""
    added: float
    """Probability that events are moved or a message is dropped or added. Otherwise a class copies
    another."""
    anywhere: float
    """Largest probability that the change may be anywhere; it is less with more than one kind of links by
    `MessageFlowProgram.apart`. Otherwise the first or the last messages are joined or cut."""


CHANCES = EventChances(heat=2e-4, moved=0.75, dropped=0.85, added=0.93, anywhere=0.7)
MANY, FAR = (1, 1, 2, 3, 5), (1, 1, 2, 3, 4, 6, 8, 12)
"""Numbers of events that move in a change, and of places by which each moves; one of each is drawn. Larger
values make larger changes."""

Found = tuple[list[int], TimedFlow]
"""An order of events and its solution."""


def searched(
    program: MessageFlowProgram, starts: Sequence[list[int]], until: float, rng: np.random.Generator
) -> Found | None:
    """Return the order that ends soonest, of those found until a moment; None if no start has a solution.

    Parameters
    ----------
    program
        The network.
    starts
        Orders, as `MessageFlowProgram.solved` takes them.
    until
        The moment at which to stop, by `topologies.kernels.now`.
    rng
        Chooses among changes.
    """
    begun, orders = now(), iter(starts)
    first = next(_solutions(program, orders, until), None)
    if first is None:
        return None
    before = until - (now() - begun)  # when the last program starts: it takes about as long as the first
    best = min([first, *_solutions(program, orders, before, few=False)], key=_end)
    best = _annealed(program, best, before, rng)
    last = None if best is first else program.solved(best[0], until - now())
    return best if last is None else (best[0], last)


def _solutions(
    program: MessageFlowProgram, orders: Iterator[list[int]], until: float, *, few: bool = True
) -> Iterator[Found]:
    """Yield those orders that have a solution, until a moment."""
    for order in orders:
        left = until - now()
        solved = program.solved(order, left, few=few) if left > 0 else None
        if solved is not None:
            yield order, solved


def _end(found: Found) -> float:
    return float(found[1].time[-1])


def _annealed(program: MessageFlowProgram, start: Found, until: float, rng: np.random.Generator) -> Found:
    """Return the best of a start and all that is found until a moment."""
    best, current, began = start, (_sorted(*start), start[1]), now()
    while (left := until - now()) > 0:
        events = _changed(current[0], program.apart, rng)
        solved = program.solved(events, left, few=False) if events else None
        if solved is None:
            continue
        heat = CHANCES.heat * _end(best) * left / (until - began)
        if rng.random() < np.exp(min(0.0, (_end(current) - solved.time[-1]) / heat)):
            current = _sorted(events, solved), solved
        if solved.time[-1] < _end(best) * (1 - SAME):
            best = events, solved
            tell(f"windowed_mcf: {duration(_end(best) * 1e6)}")
    return best


def _sorted(events: list[int], solved: TimedFlow) -> list[int]:
    """Return the events in order of time. Ends precede starts of the same time, so data may move on then."""
    starts = np.ones(len(events), dtype=np.bool_)
    starts[MessageOrder.of(events).end] = False
    time = np.round(solved.time / solved.time[-1], 6)
    return [events[place] for place in np.lexsort((starts, time))]


def _changed(events: list[int], apart: Int64Array, rng: np.random.Generator) -> list[int]:
    """Return the events in another order, with messages more or less, or with a class that copies another."""
    found, chance, kinds = list(events), rng.random(), apart.shape[1]
    if rng.random() > min(CHANCES.anywhere, 1 / np.unique(apart, axis=1).shape[1]):
        _cut_otherwise(found, apart, rng)
        return found
    if chance < CHANCES.moved:
        for _ in range(rng.choice(MANY)):
            place = int(rng.integers(len(found)))
            kind = found.pop(place)
            found.insert(max(0, place + int(rng.choice((-1, 1)) * rng.choice(FAR))), kind)
    elif chance < CHANCES.dropped:
        kind = found[rng.integers(len(found))]
        places = [place for place, other in enumerate(found) if other == kind]
        first = int(rng.integers(len(places) - 1))
        for place in reversed(places[first : first + 2]):
            del found[place]
    elif chance < CHANCES.added:
        kind = int(rng.integers(kinds))
        for _ in range(2):
            found.insert(int(rng.integers(len(found) + 1)), kind)
    else:
        one, other = rng.integers(kinds, size=2).tolist()
        if one != other:
            others = [kind for kind in found if kind != other]
            found = [twin for kind in others for twin in ((one, other) if kind == one else (kind,))]
    return found


def _cut_otherwise(events: list[int], apart: Int64Array, rng: np.random.Generator) -> None:
    """Join the first two messages of some classes, or the last two, or cut the first or the last.

    With probability 1/2 these are all classes with the distances (`apart`) of one that is drawn, else that
    class alone. With probability 1/2, classes with the two distances swapped change too, at their other end.
    """
    kind, joins, where = int(rng.integers(apart.shape[1])), rng.random() < 1 / 2, rng.random()
    alike, mirrored = (
        np.flatnonzero((side == apart[:, [kind]]).all(axis=0)).tolist() for side in (apart, apart[::-1])
    )
    ways = [alike if rng.random() < 1 / 2 else [kind], mirrored if rng.random() < 1 / 2 else []]
    for way, kinds in zip(rng.permutation((1, -1)), ways, strict=True):
        for kind in kinds:
            places = [place for place, other in enumerate(events) if other == kind][::way]
            if places and not joins:
                begin, end = sorted(places[:2])
                at = begin + 1 + int((where if way > 0 else 1 - where) * (end - begin - 1))
                events[at:at] = [kind, kind]
            elif len(places) > 2:
                for place in sorted(places[1:3], reverse=True):
                    del events[place]


Hop = tuple[int, int]
"""A message and a link."""


class Path(NamedTuple):
    """The part of a pair's shard that takes some hops."""

    source: int
    target: int
    share: float
    hops: list[Hop]


class _Flow(NamedTuple):
    """Data of a rank that no path has yet, as parts of shards, shape (messages, links); and links into nodes.

    Messages have their start and end, as events; `latest` has them all, the last to end first.
    """

    start: list[int]
    end: list[int]
    latest: list[int]
    left: FloatArray
    into: list[list[int]]
    tail: list[int]


def synthesize(problem: Problem, options: MessageFlowOptions, rng: np.random.Generator) -> Schedule:
    """Return the fastest schedule found, in the step clock.

    Raises
    ------
    NoSchedule
        If no order was found in time by which all data arrive.
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    program = _program(problem, options, rng)
    made = _fastest(problem, program, list(_steps(program)), options, rng)
    if made is None:
        raise NoSchedule(f"windowed_mcf found no schedule in {options.time_limit}; give it more time")
    return made


def improve(
    problem: Problem, start: Schedule, options: MessageFlowOptions, rng: np.random.Generator
) -> Schedule:
    """Return the faster one of a schedule and of what is found from steps and from its messages' order."""
    program, size = _program(problem, options, rng), problem.size or Fraction(1)
    _, holding = watch(start, size)
    events = list[tuple[int, int, int]]()
    for kind, link in enumerate(program.examples.tolist()):
        for begins, times in enumerate((holding.end, holding.begin)):
            moments = np.rint(times[holding.link == link] / (SAME * holding.end.max())).astype(np.int64)
            events += [(moment, begins, kind) for moment in moments.tolist()]
    orders = [*_steps(program), [kind for _, _, kind in sorted(events)]]
    made = _fastest(problem, program, orders, options, rng)
    return min([start, *([made] if made else [])], key=lambda schedule: simulate(schedule, size).time)


def _program(problem: Problem, options: MessageFlowOptions, rng: np.random.Generator) -> MessageFlowProgram:
    """Return the program under a free group that takes each rank to every other, or under a large group."""
    topology, shard = problem.topology, float((problem.size or 1) * problem.collective.items.share[0])
    alike = free_group(topology)
    if len(alike[0]) < topology.num_ranks:
        most = max(1, MOST_PAIRS // (topology.num_ranks * topology.num_links))
        alike = max(alike, automorphisms(topology).some_elements(most), key=lambda group: len(group[0]))
    return MessageFlowProgram(topology, *_fewer(topology, alike, options.index, rng), shard)


def _fewer(
    topology: Topology, alike: tuple[Int32Array, Int32Array], index: int, rng: np.random.Generator
) -> tuple[Int32Array, Int32Array]:
    """Return a random subgroup of an index."""
    if index == 1:
        return alike
    for _ in range(2**10):
        fewer = drawn_subgroup(topology, alike, rng)
        if len(fewer[0]) * index == len(alike[0]):
            return fewer
    raise InputError(f"windowed_mcf: index {index}; none was found of the {len(alike[0])} symmetries")


def _steps(program: MessageFlowProgram) -> Iterator[list[int]]:
    """Yield orders in steps: up to 2 more than the network's diameter, also long first and last messages."""
    ways = product((0, 1, 2), (0, None, 1, 2))
    orders = (tuple(program.in_steps(program.width + longer, more)) for longer, more in ways)
    yield from map(list, dict.fromkeys(orders))


def _fastest(
    problem: Problem,
    program: MessageFlowProgram,
    orders: list[list[int]],
    options: MessageFlowOptions,
    rng: np.random.Generator,
) -> Schedule | None:
    found = searched(program, orders, now() + float(parse_time(options.time_limit)), rng)
    return None if found is None else _schedule(problem, program, *found)


def _schedule(
    problem: Problem, program: MessageFlowProgram, events: list[int], timed: TimedFlow
) -> Schedule | None:
    """Return the schedule of a solution: the paths of one rank of each orbit, and their images."""
    ranks, order = problem.topology.num_ranks, MessageOrder.of(events)
    found = [path for source in program.sources for path in _paths(program, order, timed, source)]
    source, target, share = (np.array(column) for column in list(zip(*found, strict=True))[:3])
    pairs, pair = np.unique(source * ranks + target, return_inverse=True)
    given = np.bincount(pair, share)
    if len(pairs) < len(program.sources) * (ranks - 1) or (given < 1 - np.sqrt(TOLERANCE)).any():
        return None  # the program was not solved well enough
    rounded, whole = next(rounded_shares(share / given[pair], pair))
    kept, parts = np.flatnonzero(rounded), np.array(rounded)
    found, source, target, parts = [found[i] for i in kept], source[kept], target[kept], parts[kept]
    images = [program.sources[path.source] for path in found]
    upto, element = offsets_of([len(image) for image in images]), np.concatenate(images)
    path = np.repeat(np.arange(len(found)), np.diff(upto))
    ends = program.nodes[element[:, None], np.stack([source, target], axis=1)[path]]
    shards = problem.collective.items.share.reduced  # all are equal
    amounts, denominator = shards.numerators[0] * parts[path], shards.denominator * whole
    chunks, chunk, _ = chunks_of_paths(problem.collective, ends, amounts, denominator)
    hops = [(message, link, number) for number, one in enumerate(found) for message, link in one.hops]
    message, link, number = np.array(sorted(hops)).T
    copies = np.concatenate([np.arange(*upto[one : one + 2]) for one in number.tolist()])
    often = np.diff(upto)[number]
    route = program.links[element[copies], np.repeat(link, often)]
    return problem.schedule(Clock.STEP, chunks, chunk[copies], route, np.repeat(message + 1, often))


def _paths(program: MessageFlowProgram, order: MessageOrder, timed: TimedFlow, source: int) -> Iterator[Path]:
    """Yield paths of all data of a rank.

    They are found from their ends, at each node over the last message of what is left. So data that leave a
    node earlier still find what arrived earlier.
    """
    topology = program.topology
    left = np.zeros((len(order.kind), topology.num_links))
    for message, (kind, flow) in enumerate(zip(order.kind.tolist(), timed.flow, strict=True)):
        taken = np.flatnonzero((program.kind == kind) & (program.pair[source] >= 0))
        left[message, taken] = flow[np.searchsorted(program.ends[kind].pairs, program.pair[source, taken])]
    into = [np.flatnonzero(topology.target == node).tolist() for node in range(topology.num_nodes)]
    latest = np.argsort(-order.end).tolist()
    flow_left = _Flow(order.start.tolist(), order.end.tolist(), latest, left, into, topology.source.tolist())
    for target in range(topology.num_ranks):
        needed = float(target != source)
        while needed > TOLERANCE:
            hops = _back(flow_left, source, target)
            if not hops:
                break
            way = tuple(np.array(hops).T)
            share = min(needed, float(left[way].min()))
            left[way] -= share
            needed -= share
            tails = [flow_left.tail[link] for _, link in hops]
            yield Path(source, target, share, _straight(hops, tails, target))


def _back(flow: _Flow, source: int, node: int) -> list[Hop]:
    """Return messages and links of a path on which data are left; none if there is no path."""
    hops: list[Hop] = []
    until = 2 * len(flow.end)
    while node != source:
        came = (
            (message, link)
            for message in flow.latest
            if flow.end[message] < until
            for link in flow.into[node]
        )
        hop = next((hop for hop in came if flow.left[hop] > TOLERANCE), None)
        if hop is None:
            return []
        hops.append(hop)
        node, until = flow.tail[hop[1]], flow.start[hop[0]]
    return hops[::-1]


def _straight(hops: Sequence[Hop], tails: Sequence[int], target: int) -> list[Hop]:
    """Return hops without those that lead back to a node of the data's path: there they wait instead."""
    end = tails.index(target) if target in tails else len(hops)
    kept, place = list[Hop](), 0
    while place < end:
        place = max(later for later in range(place, end) if tails[later] == tails[place])
        kept.append(hops[place])
        place += 1
    return kept


def check(problem: Problem, options: MessageFlowOptions) -> None:
    """Raise `Unsupported` where shards differ, or a program would be too large."""
    topology = problem.topology
    if not problem.collective.plain:
        raise METHOD.unsupported("needs equal shards from each rank to each")
    program = _program(problem, options, np.random.default_rng(0))
    pairs = topology.num_ranks * topology.num_links * len(program.nodes)
    if pairs > MOST_PAIRS or program.columns(program.width) > 2**17:
        raise METHOD.unsupported(f"would solve too large a linear program on {topology.name}")


METHOD = Method(
    name="windowed_mcf",
    kind="heuristic",
    synthesize=synthesize,
    improve=improve,
    options=MessageFlowOptions,
    capabilities=Capabilities((Kind.ALL_TO_ALL,), Groups.NONE, uneven_shards=False, switches=Switches.NONE),
    check=check,
    size_dependent=lambda problem, options: True,
    seeded=True,
    quick={"time_limit": "5s"},
    summary="all-to-all in few messages a link: their times and all paths by one linear program",
)
