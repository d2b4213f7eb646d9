"""Allgathers dimension by dimension: what the hierarchical algorithms on grids share.

In phase j of an order of the dimensions every rank spreads all that it has over its line of dimension j. A
shard of rank y so reaches rank x in the phase of the last dimension of the order in which x and y differ.

On a line of d ranks all d blocks spread in parallel. On a *ring* they go round in d - 1 steps, one way. On a
*path* each goes towards both ends in d - 1 steps. On a *complete* line each goes straight to all in one step.
Through a *switch* they spread by doubling where d is a power of two, otherwise straight, too.

Three methods use this.

- *Torus rings*, the traditional torus schedule: a ring in each dimension, one dimension after the other.
  Every shard is cut into 2k parts for k dimensions: one for each rotation of the order of dimensions and each
  direction of the rings (dissertation, section 3.6 and Table 3.4: the sum of d_i - 1 steps). If all sides are
  equal, each link carries one part in each step, and the schedule is bandwidth-optimal. Sack and Gropp
  describe it in Collective algorithms for multiported torus networks (ACM TOPC 1(2), 2015).
- *BlueConnect* is an allreduce that reduces along each dimension and then gathers back (Cho, Finkler,
  Serrano, Kung, Hunter: BlueConnect: Decomposing all-reduce for deep learning on heterogeneous
  network hierarchy, IBM Journal of Research and Development 63(6), 2019). The innermost dimension, the first
  one or the inside of a machine, reduces first, when there is most data, and gathers last. All chunks take
  the same order and follow each other through the dimensions (as in TACOS, section VI-B.3); on rings half of
  each goes each way.
- *Themis* is BlueConnect whose chunks take different orders of dimensions, so that all dimensions have equal
  loads (Rashidi, Won, Srinivasan, Sridharan, Krishna: Themis: A Network Bandwidth-Aware Collective Scheduling
  Policy for Distributed Training of DL Models, ISCA 2022). Chunks are placed one after the other. Reducing D
  bytes a rank over a line of d ranks that each send at rate B takes (d - 1)/d · D/B and leaves D/d. A chunk
  reduces first, when it is largest, along the dimension with the least load so far, and last along the one
  with the most; it gathers in the opposite order. Loads are exact. Dimensions of equal load go in
  BlueConnect's order, the innermost first. The paper's fixed delay of a dimension is left out, and so is its
  threshold below which loads count as equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Annotated

import numpy as np

from tutti.heuristics.classic.butterfly import doubling, xor_partners
from tutti.heuristics.classic.steps import StepTransfers, check_allgathers, schedule_of_steps
from tutti.heuristics.hosts import HostOptions, with_note_on_hosts
from tutti.schedules.capabilities import Capabilities, Groups, Shape
from tutti.schedules.compose import BY_ALLGATHER, from_allgather, seconds_by_allgathers
from tutti.schedules.method import Method, NoOptions, Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.exact import Int64Array
from tutti.topologies.graphs.grid_structure import Grid, LineKind, grid_of, hosts_of
from tutti.topologies.options import Whole
from tutti.topologies.topology import Topology


@dataclass(frozen=True)
class ShardPart:
    """The route of one part of every shard.

    Parameters
    ----------
    order
        The dimensions in the order in which it is spread.
    direction
        The direction in which it goes round rings, 1 or -1.
    """

    order: tuple[int, ...]
    direction: int = 1


def both_directions(grid: Grid, orders: Sequence[tuple[int, ...]]) -> list[ShardPart]:
    """Return a part in each direction for each order if there are rings, one for each order otherwise."""
    directions = (1, -1) if LineKind.RING in grid.lines else (1,)
    return [ShardPart(order, direction) for order in orders for direction in directions]


def line_transfers(line: LineKind, size: int, direction: int = 1) -> StepTransfers:
    """Return the allgather of a line: senders, receivers and chunks are coordinates on it.

    Examples
    --------
    >>> rows = line_transfers(LineKind.PATH, 3)
    >>> list(zip(*(column.tolist() for column in rows)))
    [(1, 0, 1, 0), (2, 1, 2, 0), (1, 1, 0, 1), (1, 1, 2, 1), (2, 1, 0, 2), (1, 2, 1, 2)]
    """
    at = np.arange(size)
    if line is LineKind.RING:
        step = np.arange(1, size)[:, None]
        return StepTransfers.of(step, at, (at + direction) % size, (at - direction * (step - 1)) % size)
    if line is LineKind.SWITCH and size & (size - 1) == 0:
        return doubling(xor_partners(size))
    owner, target = np.nonzero(~np.eye(size, dtype=np.bool_))
    if line is LineKind.PATH:  # each block moves one rank on, towards both ends, in each step
        return StepTransfers.of(np.abs(target - owner), target - np.sign(target - owner), target, owner)
    return StepTransfers.of(1, owner, target, owner)


def spread(grid: Grid, part: ShardPart) -> StepTransfers:
    """Return the allgather of whole shards by the part's order; chunks are owners, steps follow from 1."""
    lines = zip(grid.lines, grid.shape, strict=True)
    return spread_over(grid, part.order, [line_transfers(*line, part.direction) for line in lines])


def spread_over(grid: Grid, order: Sequence[int], lines: Sequence[StepTransfers]) -> StepTransfers:
    """Return the allgather by an order of dimensions, given that of a line of each; steps follow from 1."""
    phases, before = [], 0
    for place, dimension in enumerate(order):
        phases.append(_phase(grid, order[: place + 1], lines[dimension], before))
        before += int(lines[dimension].step.max())
    return StepTransfers.joined(phases)


def _phase(grid: Grid, order: Sequence[int], line: StepTransfers, before: int) -> StepTransfers:
    """Return what moves in the phase of the last dimension of `order`, spread along the others already.

    Axes: a row of the line, the owner's coordinates (but along the line), the holder's in earlier dimensions.
    """
    k, along = len(grid.shape), order[-1]
    axes = 1 + 2 * k

    def axis(values: Int64Array, place: int) -> Int64Array:
        return values.reshape([-1 if i == place else 1 for i in range(axes)])

    owner = [axis(np.arange(size), 1 + i) for i, size in enumerate(grid.shape)]
    holder = [axis(np.arange(size), 1 + k + i) for i, size in enumerate(grid.shape)]
    at = [holder[i] if i in order[:-1] else owner[i] for i in range(k)]
    ends = (line.chunk, line.source, line.target)
    of, source, target = (axis(end, 0) for end in ends)

    def rank(coordinates: list[Int64Array], here: Int64Array) -> Int64Array:
        return grid.rank_at([here if i == along else x for i, x in enumerate(coordinates)])

    return StepTransfers.of(before + axis(line.step, 0), rank(at, source), rank(at, target), rank(owner, of))


def chunked_spread(problem: Problem, travel: Sequence[Sequence[StepTransfers]]) -> Schedule:
    """Return the allgather of equal chunks of every shard, each in equal parts, in the step clock.

    Chunk c of C makes its t-th step in step (t - 1) C + c of the schedule: a rank sends its chunks one after
    the other, and all chunks are on their way together.

    Parameters
    ----------
    problem
        An allgather.
    travel
        For each chunk the allgather of each of its parts, as many parts for each; chunks are owners.
    """
    parts = len(travel[0])
    rows = []
    for number, chunk in enumerate(travel):
        for i, whole in enumerate(chunk):
            step = (whole.step - 1) * len(travel) + number + 1
            rows.append(whole._replace(step=step, chunk=(whole.chunk * len(travel) + number) * parts + i))
    return schedule_of_steps(problem, StepTransfers.joined(rows), len(travel) * parts)


@dataclass(frozen=True)
class ByDimensionOptions(HostOptions):
    """Options of the algorithms that send chunks through dimensions.

    Parameters
    ----------
    chunks
        The number of equal chunks of each shard, which follow each other.
    infer_hosts
        Whether hosts that the network does not name are inferred if its links make them plain, on networks
        whose lines do not make two dimensions.

    Raises
    ------
    InputError
        If `chunks` is no positive integer or `infer_hosts` neither true nor false.
    """

    chunks: Annotated[int, Whole(1, words="it must be an integer of at least 1")] = 4


def by_dimension(
    name: str, summary: str, orders: Callable[[Topology, Grid, int], Sequence[tuple[int, ...]]]
) -> Method:
    """Return the method whose chunks are reduced dimension by dimension and gathered back, in the step clock.

    Parameters
    ----------
    name, summary
        The method's name and summary, for users.
    orders
        From the network, its dimensions and the number of chunks, the order in which each chunk is reduced.
    """

    def check(problem: Problem, options: ByDimensionOptions) -> None:
        grid = grid_for(method, problem, infer=options.infer_hosts)
        check_allgathers(method, problem, options.chunks * len(both_directions(grid, [()])))

    def synthesize(problem: Problem, options: ByDimensionOptions, rng: np.random.Generator) -> Schedule:
        method.supports(problem, options)
        made = from_allgather(problem, partial(allgather, options=options))
        by_hosts = grid_for(method, problem, infer=options.infer_hosts).hosts is not None
        return with_note_on_hosts(made, options) if by_hosts else made

    def allgather(problem: Problem, options: ByDimensionOptions) -> Schedule:
        grid = grid_for(method, problem, infer=options.infer_hosts)
        reduced = orders(problem.topology, grid, options.chunks)
        parts = [both_directions(grid, [order[::-1]]) for order in reduced]
        return chunked_spread(problem, [[spread(grid, part) for part in chunk] for chunk in parts])

    method = Method(
        name=name,
        kind="heuristic",
        synthesize=synthesize,
        options=ByDimensionOptions,
        capabilities=Capabilities(BY_ALLGATHER, Groups.NONE, shape=Shape.GRID),
        check=check,
        summary=summary,
    )
    return method


def innermost_first(grid: Grid) -> tuple[int, ...]:
    """Return the dimensions in their order; of hosts the inside before the outside.

    Examples
    --------
    >>> from tutti.topologies.text import parse_topology
    >>> boxes, torus = parse_topology("dgx_a100:2"), parse_topology("torus:3x4x5")
    >>> innermost_first(grid_of(boxes)), innermost_first(grid_of(torus))
    ((1, 0), (0, 1, 2))
    """
    order = tuple(range(len(grid.shape)))
    return order if grid.hosts is None else order[::-1]


def line_bandwidths(topology: Topology, grid: Grid) -> list[Fraction]:
    """Return the bandwidth of rank 0 along each dimension, in bytes a second, exact.

    A link counts for the first dimension in which it reaches others, through switches. If a dimension has no
    other link, all links count for it. A link that leads to no other rank counts for none. An end of a path
    sends over one link, which bounds the whole path.
    """
    offsets, links = topology.out_links
    total = [Fraction(0)] * len(grid.shape)
    place = np.argsort(grid.ranks, axis=None)
    for link in links[offsets[0] : offsets[1]].tolist():
        behind = _ranks_behind(topology, int(topology.target[link]))
        farthest = max((place[rank] for rank in behind), default=0)
        reached = np.flatnonzero(np.unravel_index(farthest, grid.shape))
        if len(reached):
            total[reached[0]] += topology.bandwidth[link]
    return [rate or sum(total, Fraction(0)) for rate in total]


def _ranks_behind(topology: Topology, node: int) -> set[int]:
    """Return the node if it is a rank, else the ranks that it reaches through switches."""
    offsets, links = topology.out_links
    found, waiting = {node}, [node]
    for here in waiting:
        if here >= topology.num_ranks:
            onward = set(topology.target[links[offsets[here] : offsets[here + 1]]].tolist()) - found
            found |= onward
            waiting += onward
    return {one for one in found if one < topology.num_ranks}


def grid_for(method: Method, problem: Problem, *, infer: bool = False) -> Grid:
    """Return the dimensions of the network.

    Parameters
    ----------
    method, problem
        The method that asks for them, and its problem.
    infer
        Whether hosts may be inferred.

    Raises
    ------
    Unsupported
        If the network is no grid.
    """
    grid = grid_of(problem.topology, hosts_of(problem.topology, infer=infer))
    if grid is None:
        raise method.unsupported(f"needs {method.capabilities.shape}; {problem.topology.name} is none")
    return grid


def synthesize(problem: Problem, options: NoOptions, rng: np.random.Generator) -> Schedule:
    """Return the schedule by dimensions in all rotations, in the step clock.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    TORUS_RINGS.supports(problem, options)
    return from_allgather(problem, _allgather)


def _allgather(problem: Problem) -> Schedule:
    grid = grid_for(TORUS_RINGS, problem)
    k = len(grid.shape)
    parts = both_directions(grid, [tuple((first + i) % k for i in range(k)) for first in range(k)])
    return chunked_spread(problem, [[spread(grid, part) for part in parts]])


def _gathering_seconds(problem: Problem) -> float:
    """Return the seconds of n - 1 steps in each dimension of n ranks, for all rotations of their order.

    Each rotation of the order has its own part of the data. In a step a link carries, for each part that uses
    its dimension then, what its rank has gathered of that part before. On a ring each direction carries half.
    If all links are equal and all dimensions are rings of one size, T_L is the sum of all n - 1, and T_B is
    (N - 1)/N (dissertation, section 3.8.2).
    """
    grid, topology = grid_for(TORUS_RINGS, problem), problem.topology
    k, size = len(grid.shape), float(problem.size or 0) / topology.num_ranks
    place = np.stack(np.unravel_index(np.arange(topology.num_ranks), grid.shape))
    along = (place[:, topology.source] != place[:, topology.target]).argmax(axis=0)
    found = np.zeros((2, len(grid.shape)))
    for row, values in zip(found, (topology.alpha.floats, 1 / topology.bandwidth.floats), strict=True):
        np.maximum.at(row, along, values)
    alpha, slowness = found[0], found[1]
    load = np.zeros((sum(grid.shape) - k, k))
    for first in range(k):
        order = [(first + i) % k for i in range(k)]
        begin, held = 0, 1
        for dimension in order:
            n = grid.shape[dimension]
            ways = 2 if grid.lines[dimension] is LineKind.RING else 1
            load[begin : begin + n - 1, dimension] += held / (ways * k)
            begin, held = begin + n - 1, held * n
    return float((np.where(load > 0, alpha, 0) + load * size * slowness).max(axis=1).sum())


def check(problem: Problem, options: NoOptions) -> None:
    """Raise `Unsupported` for too many transfers."""
    check_allgathers(TORUS_RINGS, problem, 2 * len(grid_for(TORUS_RINGS, problem).shape))


TORUS_RINGS = Method(
    name="torus_rings",
    kind="heuristic",
    synthesize=synthesize,
    capabilities=Capabilities(BY_ALLGATHER, Groups.NONE, shape=Shape.TORUS),
    check=check,
    estimate=lambda problem, options: seconds_by_allgathers(problem, _gathering_seconds),
    summary="the traditional torus schedule: rings dimension by dimension, in all rotations of their order",
)


BLUECONNECT = by_dimension(
    "blueconnect",
    "reduce-scatter dimension by dimension and allgather back, in chunks",
    lambda topology, grid, chunks: [innermost_first(grid)] * chunks,
)


def balanced_orders(
    grid: Grid, bandwidth: list[Fraction], chunks: int, innermost: Sequence[int]
) -> list[tuple[int, ...]]:
    """Return for each chunk the dimensions in the order in which it is reduced.

    Parameters
    ----------
    grid
        The dimensions.
    bandwidth
        Bytes a second that a rank sends along each dimension, exact.
    chunks
        Number of chunks, all of one size.
    innermost
        The dimensions, the innermost first: dimensions with the same load so far go in this order.

    Examples
    --------
    >>> from tutti.topologies.graphs.grid_structure import LineKind
    >>> square = Grid((4, 4), (LineKind.RING, LineKind.RING))
    >>> balanced_orders(square, [Fraction(1), Fraction(1)], 3, (0, 1))
    [(0, 1), (1, 0), (0, 1)]
    """
    load = [Fraction(0)] * len(grid.shape)
    orders = []
    for _ in range(chunks):
        order = tuple(sorted(innermost, key=load.__getitem__))
        data = Fraction(1)
        for dimension in order:
            size = grid.shape[dimension]
            load[dimension] += data * (size - 1) / size / bandwidth[dimension]
            data /= size
        orders.append(order)
    return orders


THEMIS = by_dimension(
    "themis",
    "as blueconnect, each chunk in the order of dimensions that balances their loads",
    lambda topology, grid, chunks: balanced_orders(
        grid, line_bandwidths(topology, grid), chunks, innermost_first(grid)
    ),
)
