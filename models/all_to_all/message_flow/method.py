"""The method ``windowed_mcf``: an all-to-all in few messages a link, whose times and paths fit each other.

The search begins with steps: in each all links send one message, and there are as many steps as the network's
diameter, or some more. If the method is given a schedule, the order of its messages is tried too. Links that
symmetries take to each other send at the same times. With fewer symmetries, some of these can wait while
others send.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from tutti.models.all_to_all.message_flow.program import MessageFlowProgram, MessageOrder, TimedFlow
from tutti.models.all_to_all.message_flow.search import searched
from tutti.models.all_to_all.rounding import rounded_shares
from tutti.models.solvers.outcome import SAME, TOLERANCE
from tutti.schedules.capabilities import Capabilities, Groups, Switches
from tutti.schedules.collective import Kind
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Chunks, Clock, Schedule
from tutti.schedules.simulation.simulate import simulate, watch
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import FloatArray, Int32Array, Int64Array, IntArray, offsets_of
from tutti.topologies.graphs.free_action import free_group
from tutti.topologies.graphs.symmetry import automorphisms, drawn_subgroup
from tutti.topologies.kernels import now
from tutti.topologies.options import Duration, Options, Whole
from tutti.topologies.topology import Topology
from tutti.topologies.units import parse_time

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
    chunks, chunk = _chunks(problem, ends, parts[path], whole)
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


def _chunks(problem: Problem, ends: IntArray, parts: Int64Array, whole: int) -> tuple[Chunks, Int32Array]:
    """Return a table with a chunk for each path, and which these are.

    Parameters
    ----------
    problem
        The problem.
    ends
        Shape (paths, 2).
    parts
        Shape (paths,): numerators of each path's share, over `whole`.
    whole
        The sum of the parts of a pair.
    """
    items, ranks = problem.collective.items, problem.topology.num_ranks
    item_of = np.zeros((ranks, ranks), dtype=np.int64)
    item_of[items.start, items.end] = np.arange(len(items))
    item = np.concatenate([item_of[ends[:, 0], ends[:, 1]], item_of.diagonal()])
    place = np.argsort(item, kind="stable")
    share = items.share.reduced
    size = share.numerators[item] * np.concatenate([parts, np.full(ranks, whole)])
    chunk = np.argsort(place)[: len(ends)].astype(np.int32)
    return Chunks(item[place], size[place], share.denominator * whole), chunk


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
