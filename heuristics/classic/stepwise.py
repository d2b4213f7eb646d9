"""All-to-all along shortest paths, in few steps: all that a link sends in a step is one message.

The choice left is which of its shortest paths each datum takes, and when. For small sizes a schedule has as
many steps as the network's diameter, the fewest that there can be, and the loads of each step are evened out.
A link that is busy for L in a step costs t (2 L + t) for a datum that takes t, so that the sum of the squares
falls. All paths are chosen again a few times, one after the other. For large sizes only a link's load in all
steps together counts, and steps bring about equal amounts: the data with the farthest to go first, up to a
quota, the rest in later steps. Of a few quotas the fastest at the size is taken. In between, where that is
far above both the α's and the load, links send messages that last several steps
(`heuristics.classic.windows`).

Where symmetries of the network take ranks to others (on a torus all are equivalent), paths are chosen for the
data of one of them. Loads are counted by classes of links, and the paths of the other ranks are images of
these.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from tutti.heuristics.classic import windows
from tutti.heuristics.classic.steps import MOST_ROWS
from tutti.heuristics.classic.windows import WindowNetwork
from tutti.schedules.capabilities import Capabilities, Switches
from tutti.schedules.collective import Kind
from tutti.schedules.method import Method, Problem
from tutti.schedules.pacing import CUTS, Hops, busiest, last_end, quotas, steps
from tutti.schedules.schedule import Chunks, Clock, Schedule
from tutti.topologies.exact import NONE, FloatArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.free_action import free_group
from tutti.topologies.graphs.heaps import stable_pass
from tutti.topologies.graphs.shortest_paths import hop_distances
from tutti.topologies.kernels import kernel, leaf
from tutti.topologies.options import Options, Whole


class ShortestPathTuning(NamedTuple):
    """Parameters for how finely data is cut, and when windows are searched for."""

    few_transfers: int
    """Largest number of transfers of a schedule whose data is cut. A datum has the largest number of parts in
    `CUTS` within this limit."""
    rounds: int
    """Number of times that all paths are chosen in schedules of up to `few_transfers`."""
    rounds_of_many: int
    """The same in larger schedules."""
    few_in_windows: int
    """The limit in place of `few_transfers` where windows are searched for."""
    aims: tuple[float, ...]
    """Times for which windows are searched, as multiples of the best time so far."""
    worthwhile: float
    """Windows are searched for if the best time is more than this multiple of that of the α's alone, or of
    the load alone."""


TUNING = ShortestPathTuning(
    few_transfers=2**19, rounds=10, rounds_of_many=3, few_in_windows=2**17, aims=(0.95, 0.9), worthwhile=1.05
)


@dataclass(frozen=True)
class StepwiseOptions(Options):
    """Options of shortest_path_all_to_all.

    Parameters
    ----------
    chunks
        Chunks of a datum, each with its own path; by default 12, 4 or 1, fewer on larger networks.
    reroutes
        Number of times that all paths are chosen; by default 10, or 3 if there are many.
    min_steps
        Whether to use the fewest possible steps; by default the number that is fastest at the size.
    search_effort
        Effort of the search for messages over several steps, in millions of visited places. 10 takes about a
        second at most, and 0 turns the search off.
    """

    OWNER: ClassVar[str] = "shortest_path_all_to_all"
    chunks: Annotated[int | None, Whole(1, 1024)] = None
    reroutes: Annotated[int | None, Whole(1, 100)] = None
    min_steps: bool = False
    search_effort: Annotated[int, Whole(0, 10**6)] = 10


class _HopSteps(NamedTuple):
    """The place of each datum's hops among all hops; the link and the step of each hop."""

    begin: Int64Array
    path: Int64Array
    step: Int64Array


def synthesize(problem: Problem, options: StepwiseOptions, rng: np.random.Generator) -> Schedule:
    """Return a schedule: without a size, in as many steps as the largest distance of two that exchange data.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    data = _Data.of(problem, options, TUNING.few_transfers)
    plan = data.plan(data.paths(by_step=True))
    if problem.size is None or options.min_steps or not len(data.chunk):
        return data.schedule(problem, plan)
    even = data.plan(data.paths(by_step=False))
    best, plan = min(((data.end(plan), plan) for plan in (plan, even)), key=lambda one: one[0])
    hops = data.along(even)
    for quota, shortest in quotas(hops, data.alpha, data.unit):
        if shortest <= best:
            step = steps(hops, quota)
            end = last_end(hops, step, data.alpha, data.unit)
            plan, best = (even._replace(step=step), end) if end < best else (plan, best)
    least = max(busiest(hops) * data.unit, float(data.alpha.min()) * np.diff(data.begin).max())
    if options.search_effort and best > TUNING.worthwhile * least:
        coarse = _Data.of(problem, options, TUNING.few_in_windows)
        shorter = coarse.over_windows(best, options.search_effort * 10**6)
        if shorter is not None:
            return coarse.schedule(problem, shorter)
    return data.schedule(problem, plan)


@dataclass(frozen=True, eq=False)
class _Data:
    """The data to move: chunks in the order in which paths are chosen, one of each class of equivalent ones.

    Parameters
    ----------
    network
        The links.
    alpha
        α of each class of links, in seconds.
    nodes, links
        int32, shape (elements, nodes) and (elements, links): images under the symmetries.
    chunks, chunk
        The table of chunks, and those that move, in order.
    ends
        int64, shape (2, data): the start and end of each.
    begin
        The place of each datum's links among those of all.
    far
        Hops between all nodes.
    rounds
        Number of times that paths are chosen.
    unit
        Seconds for an amount and a slowness of 1.
    """

    network: WindowNetwork
    alpha: FloatArray
    nodes: Int32Array
    links: Int32Array
    chunks: Chunks
    chunk: Int64Array
    ends: Int64Array
    begin: Int64Array
    far: Int32Array
    rounds: int
    unit: float

    @classmethod
    def of(cls, problem: Problem, options: StepwiseOptions, few: int) -> _Data:
        topology, what = problem.topology, problem.collective
        far = hop_distances(topology)
        cut, transfers = _cut(problem, far, options, few)
        chunks = Chunks.even(what, cut)
        # Permutations of nodes and links that take the problem to itself, the identity first.
        if what.kind is Kind.ALL_TO_ALL and what.plain:
            nodes, links = free_group(topology)
        else:
            nodes, links = (
                np.arange(size, dtype=np.int32)[None] for size in (topology.num_nodes, topology.num_links)
            )
        source, target = what.items.start[chunks.item], what.items.end[chunks.item]
        hops = far[source, target]
        # Far ones first: they have the most choice. Among equal ones, turn by turn, those equally far round.
        order = np.lexsort((source, (target - source) % topology.num_ranks, -hops))
        order = order[(hops[order] > 0) & (nodes.min(axis=0)[source[order]] == source[order])]
        examples, kind = np.unique(links.min(axis=0), return_inverse=True)
        slowness = 1 / topology.bandwidth.numerators[examples].astype(np.float64)
        return cls(
            WindowNetwork(
                topology.out_links, topology.source, topology.target, kind.astype(np.int32), slowness
            ),
            topology.alpha.floats[examples],
            nodes,
            links,
            chunks,
            order,
            np.stack([source[order], target[order]]).astype(np.int64),
            offsets_of(hops[order]),
            far,
            options.reroutes
            or (TUNING.rounds if transfers <= TUNING.few_transfers else TUNING.rounds_of_many),
            float((problem.size or 0) * topology.bandwidth.denominator / chunks.denominator),
        )

    @property
    def size(self) -> FloatArray:
        """The size of each datum, over the chunks' denominator."""
        return self.chunks.size[self.chunk].astype(np.float64)

    def plan(self, path: Int64Array) -> _HopSteps:
        """Return these paths, each hop in the step of its number: nothing waits."""
        number = np.arange(self.begin[-1]) - np.repeat(self.begin[:-1], np.diff(self.begin)) + 1
        return _HopSteps(self.begin, path, number)

    def end(self, plan: _HopSteps) -> float:
        """Return when the last message of a plan arrives, in seconds."""
        return last_end(self.along(plan), plan.step, self.alpha, self.unit)

    def paths(self, *, by_step: bool) -> Int64Array:
        """Return the links of all data, their loads evened out in each step or in all together."""
        path, nodes = np.empty(self.begin[-1], dtype=np.int64), len(self.far)
        node = np.full((3, nodes), NONE, dtype=np.int64)
        search = _LeastCostSearch(
            self.network,
            np.ascontiguousarray(self.far.T),
            np.zeros((self.far.max() + 1 if by_step else 1, len(self.network.slowness))),
            np.empty(nodes),
            *node,
        )
        _choose(search, self.ends, self.size, self.begin, path, self.rounds)
        return path

    def over_windows(self, best: float, effort: int) -> _HopSteps | None:
        """Return a plan with messages that last several steps, or None if none takes less than the best.

        Half the effort is for a few short searches, the rest for two long ones like the best of them.
        """
        fewest = int(np.diff(self.begin).max())
        kinds = list(product((fewest, fewest + 1), (False, True)))
        plan, chosen = None, kinds[0]
        for kind in kinds:
            made = self._searched(*kind, TUNING.aims[0] * best, effort // (2 * len(kinds)))
            if made is not None and self.end(made) < best:
                plan, chosen, best = made, kind, self.end(made)
        for aim in TUNING.aims if plan else ():
            made = self._searched(*chosen, aim * best, effort // 4)
            if made is not None and self.end(made) < best:
                plan, best = made, self.end(made)
        return plan

    def _searched(self, count: int, round_about: bool, time: float, effort: int) -> _HopSteps | None:
        """Return a plan over windows of `count` steps, which together last for `time`."""
        if windows.TUNING.rounds * self.begin[-1] > effort:
            return None
        network = self.network._replace(slowness=self.network.slowness * self.unit)
        data = windows.WindowData(
            self.ends, self.size, self.far, np.ascontiguousarray(self.far.T), round_about
        )
        found = windows.data_paths(network, data, self.alpha, count, time / count, effort)
        if found is None:
            return None
        taken = np.arange(count) < found.hops[:, None]
        link, step = found.link[taken].astype(np.int64), found.step[taken].astype(np.int64)
        return _HopSteps(offsets_of(found.hops), link, step + 1)

    def along(self, plan: _HopSteps) -> Hops:
        """Return the paths of a plan as hops over classes of links."""
        kind = self.network.kind[plan.path]
        return Hops.over_links(plan.begin, kind, self.size, self.network.slowness)

    def schedule(self, problem: Problem, plan: _HopSteps) -> Schedule:
        """Return the schedule that moves each datum, and its images, over its links in these steps."""
        begin, path, step = plan
        datum = np.repeat(np.arange(len(self.chunk)), np.diff(begin))
        by_chunk = np.argsort(self.chunk)
        hops = np.diff(begin)[by_chunk]
        row = np.arange(len(path)) + np.repeat(begin[by_chunk] - offsets_of(hops)[:-1], hops)
        place = step * self.links.shape[1] + path
        row = stable_pass(row, place, int(place.max(initial=0)) + 1)
        parts = np.split(row, np.flatnonzero(np.diff(step[row])) + 1)
        items, ranks = problem.collective.items, problem.topology.num_ranks
        item_of = np.zeros((ranks, ranks), dtype=np.int64)
        item_of[items.start, items.end] = np.arange(len(items))
        item = self.chunks.item[self.chunk]
        piece = self.chunk - self.chunks.first[item]
        own = item_of[self.nodes[:, self.ends[0]], self.nodes[:, self.ends[1]]]
        chunk = (self.chunks.first[own] + piece).astype(np.int32)
        return problem.schedule(
            Clock.STEP,
            self.chunks,
            np.concatenate([chunk[:, datum[part]].ravel() for part in parts]),
            np.concatenate([self.links[:, path[part]].ravel() for part in parts]),
            np.repeat(step[row], len(self.links)),
        )


def _cut(problem: Problem, far: Int32Array, options: StepwiseOptions, few: int) -> tuple[int, int]:
    """Return the number of chunks of each datum, and of transfers that these make."""
    items = problem.collective.items
    hops = int(far[items.start, items.end].sum(dtype=np.int64))
    cut = options.chunks or next((cut for cut in CUTS if cut * hops <= few), 1)
    return cut, cut * hops


class _LeastCostSearch(NamedTuple):
    """The network, and arrays for searches of shortest paths of least cost.

    Parameters
    ----------
    network
        The links.
    left
        int32, shape (nodes, nodes): left[t, v] is the number of hops from node v to node t.
    load
        float64, shape (steps, classes of links), or (1, classes) where only all steps together count.
    cost, by, mark
        For each node the least cost to it, the link that it comes over, and the search that found it.
    front
        The nodes that were found.
    """

    network: WindowNetwork
    left: Int32Array
    load: FloatArray
    cost: FloatArray
    by: Int64Array
    mark: Int64Array
    front: Int64Array


@kernel
def _choose(
    search: _LeastCostSearch,
    ends: Int64Array,
    size: FloatArray,
    begin: Int64Array,
    path: Int64Array,
    rounds: int,
) -> None:
    """Write into path[begin[d] : begin[d + 1]] the links of each datum d, from ends[0, d] to ends[1, d]."""
    for turn in range(rounds):
        for datum in range(len(size)):
            links = path[begin[datum] : begin[datum + 1]]
            if turn > 0:
                _count(search, links, -size[datum])
            node = ends[1, datum]
            _find(search, ends[0, datum], node, len(links), size[datum], turn * len(size) + datum)
            for hop in range(len(links) - 1, -1, -1):
                links[hop] = search.by[node]
                node = search.network.source[links[hop]]
            _count(search, links, size[datum])


@leaf
def _count(search: _LeastCostSearch, links: Int64Array, size: float) -> None:
    """Add a datum to the loads along its path, or remove it if its size is below 0."""
    for hop in range(len(links)):
        kind = search.network.kind[links[hop]]
        search.load[min(hop, len(search.load) - 1), kind] += size * search.network.slowness[kind]


@leaf
def _find(search: _LeastCostSearch, source: int, goal: int, far: int, size: float, mark: int) -> None:
    """Find the cheapest shortest path between nodes, of `far` links."""
    network, left, load, cost, by, marks, front = search
    cost[source], front[0] = 0.0, source
    begin, end = 0, 1
    for step in range(far):
        found = end
        for place in range(begin, end):
            node = front[place]
            for at in range(network.out.offsets[node], network.out.offsets[node + 1]):
                link = network.out.links[at]
                other = network.target[link]
                if left[goal, other] != far - step - 1:
                    continue
                kind = network.kind[link]
                time = size * network.slowness[kind]
                dearer = cost[node] + time * (2 * load[min(step, len(load) - 1), kind] + time)
                if marks[other] != mark:
                    marks[other], front[found] = mark, other
                    found += 1
                elif dearer >= cost[other]:
                    continue
                cost[other], by[other] = dearer, link
        begin, end = end, found


def check(problem: Problem, options: StepwiseOptions) -> None:
    """Raise `Unsupported` for too many transfers."""
    _, rows = _cut(problem, hop_distances(problem.topology), options, TUNING.few_transfers)
    if rows > MOST_ROWS:
        raise METHOD.unsupported(f"makes {rows} transfers of this; at most {MOST_ROWS}")


def estimate(problem: Problem, options: StepwiseOptions) -> float | None:
    """Return the seconds of an all-to-all of all ranks that loads all links evenly.

    T_L is the diameter, as a link sends one message a step. T_B is at least the sum of all distances over the
    sum of all bandwidths, and equal to it where shortest paths can spread evenly.
    """
    topology, what = problem.topology, problem.collective
    if what.kind is not Kind.ALL_TO_ALL or what.groups is not None:
        return None
    hops, size = hop_distances(topology), float(problem.size or 0) / topology.num_ranks
    load = hops.sum() * size / topology.bandwidth.floats.sum()
    return float(hops.max() * topology.alpha.floats.mean() + load)


METHOD = Method(
    name="shortest_path_all_to_all",
    kind="heuristic",
    synthesize=synthesize,
    options=StepwiseOptions,
    size_dependent=lambda problem, options: not options.min_steps,
    capabilities=Capabilities((Kind.ALL_TO_ALL, Kind.GATHER, Kind.SCATTER), switches=Switches.NONE),
    check=check,
    estimate=estimate,
    summary="all-to-all, gather, scatter along shortest paths in few steps",
)
