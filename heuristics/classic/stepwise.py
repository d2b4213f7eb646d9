"""All-to-all in steps along shortest paths: in each step a link sends all that goes its way as one message.

So a schedule has as many steps as the network's diameter, the fewest that there can be, and each link pays
for one message a step. What is left to choose is which of its shortest paths each datum takes: that of least
cost, where a link that is busy for L in a step costs t (2 L + t) for a datum that takes t, so that the sum of
the squares of all loads falls. All are chosen anew a few times, one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from heuristics.classic.steps import MOST_ROWS
from schedules.capabilities import Capabilities, Switches
from schedules.collective import Kind
from schedules.method import Method, Problem
from schedules.schedule import Chunks, Clock, Schedule, step_numbers
from topologies.exact import FloatArray, Int32Array, Int64Array
from topologies.graphs.shortest_paths import hop_distances
from topologies.kernels import kernel
from topologies.ranges import Options, Whole
from topologies.topology import Incidence

CUTS, FEW_TRANSFERS = (12, 4, 1), 2**18
"""A datum is cut in the most of these parts with which there are few transfers."""


@dataclass(frozen=True)
class StepwiseOptions(Options):
    """How paths are chosen.

    Parameters
    ----------
    chunks
        Of a datum, each with a path of its own; by default 12, 4 or 1, the fewer the larger the network.
    rounds
        How often all paths are chosen.
    """

    OWNER: ClassVar[str] = "stepwise"
    chunks: Annotated[int | None, Whole(1, 1024)] = None
    rounds: Annotated[int, Whole(1, 100)] = 10


class _Network(NamedTuple):
    """The links out of each rank, where links begin and end, and what a unit of size takes on each."""

    out: Incidence
    source: Int32Array
    target: Int32Array
    slowness: FloatArray


def synthesize(problem: Problem, options: StepwiseOptions, rng: np.random.Generator) -> Schedule:
    """Return a schedule of as many steps as the farthest two ranks that exchange data are apart.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    topology, what = problem.topology, problem.collective
    hops = hop_distances(topology)
    chunks = Chunks.even(what, _cut(problem, options))
    source, target = what.items.start[chunks.item], what.items.end[chunks.item]
    far = hops[source, target]
    # Far ones first: they have the most to choose. Among them those that go equally far round, in turn.
    order = np.lexsort((source, (target - source) % topology.num_ranks, -far))
    order = order[(far > 0)[order] & (chunks.size > 0)[order]]
    slowness = 1 / topology.bandwidth.numerators.astype(np.float64)
    network = _Network(topology.out_links, topology.source, topology.target, slowness)
    begin = np.concatenate([[0], np.cumsum(far[order], dtype=np.int64)])
    link = np.empty(begin[-1], dtype=np.int64)
    ends = np.stack([source[order], target[order]]).astype(np.int64)
    _choose(network, hops, ends, chunks.size[order].astype(np.float64), begin, link, options.rounds)
    chunk = np.repeat(order, far[order])
    step = np.arange(len(link)) - np.repeat(begin[:-1], far[order]) + 1
    rows = np.lexsort((chunk, link, step))
    return Schedule(
        topology=topology,
        collective=what,
        clock=Clock.STEP,
        chunks=chunks,
        chunk=chunk[rows].astype(np.int32),
        route=link[rows].astype(np.int32),
        order=step_numbers(step[rows]),
    )


def _cut(problem: Problem, options: StepwiseOptions) -> int:
    """Return in how many chunks each datum is cut."""
    few = (cut for cut in CUTS if cut * _hops_of_all(problem) <= FEW_TRANSFERS)
    return options.chunks or next(few, 1)


def _hops_of_all(problem: Problem) -> int:
    items = problem.collective.items
    return int(hop_distances(problem.topology)[items.start, items.end].sum(dtype=np.int64))


class _Search(NamedTuple):
    """Room for searches: of each node the least cost to it, by which link, and in which search."""

    cost: FloatArray
    by: Int64Array
    mark: Int64Array
    front: Int64Array


@kernel
def _choose(
    network: _Network,
    hops: Int32Array,
    ends: Int64Array,
    size: FloatArray,
    begin: Int64Array,
    path: Int64Array,
    rounds: int,
) -> None:
    """Write into path[begin[d] : begin[d + 1]] the links of each datum d, from ends[0, d] to ends[1, d]."""
    nodes = hops.shape[0]
    load = np.zeros((hops.max() + 1, len(network.target)))
    search = _Search(
        np.empty(nodes),
        np.empty(nodes, dtype=np.int64),
        np.full(nodes, -1, dtype=np.int64),
        np.empty(nodes, dtype=np.int64),
    )
    for turn in range(rounds):
        for datum in range(len(size)):
            first, last, node = begin[datum], begin[datum + 1], ends[1, datum]
            for place in range(first, last if turn > 0 else first):
                load[place - first, path[place]] -= size[datum] * network.slowness[path[place]]
            mark = turn * len(size) + datum
            _find(network, hops[:, node], ends[0, datum], last - first, size[datum], load, search, mark)
            for place in range(last - 1, first - 1, -1):
                path[place] = search.by[node]
                load[place - first, path[place]] += size[datum] * network.slowness[path[place]]
                node = network.source[path[place]]


@kernel
def _find(
    network: _Network,
    left: Int32Array,
    source: int,
    far: int,
    size: float,
    load: FloatArray,
    search: _Search,
    mark: int,
) -> None:
    """Find the cheapest shortest path from `source`; left[v] is how many hops it still is from node v."""
    cost, by, marks, front = search
    cost[source], front[0] = 0.0, source
    begin, end = 0, 1
    for step in range(far):
        found = end
        for place in range(begin, end):
            node = front[place]
            for at in range(network.out.offsets[node], network.out.offsets[node + 1]):
                link = network.out.links[at]
                other = network.target[link]
                if left[other] != far - step - 1:
                    continue
                time = size * network.slowness[link]
                dearer = cost[node] + time * (2 * load[step, link] + time)
                if marks[other] != mark:
                    marks[other], front[found] = mark, other
                    found += 1
                elif dearer >= cost[other]:
                    continue
                cost[other], by[other] = dearer, link
        begin, end = end, found


def check(problem: Problem, options: StepwiseOptions) -> None:
    """Raise `Unsupported` for too many transfers."""
    rows = _hops_of_all(problem) * _cut(problem, options)
    if rows > MOST_ROWS:
        raise METHOD.unsupported(f"makes {rows} transfers of this; at most {MOST_ROWS}")


METHOD = Method(
    name="stepwise",
    kind="heuristic",
    synthesize=synthesize,
    options=StepwiseOptions,
    capabilities=Capabilities((Kind.ALL_TO_ALL, Kind.GATHER, Kind.SCATTER), switches=Switches.NONE),
    check=check,
    summary="all-to-all along shortest paths, one message a link and step",
)
