"""Linear program (A.1) at scale: solved on the orbits of the network's automorphisms, proven from both sides.

The group of the network is found (`topologies.graphs.symmetry`), the problem reduced to its orbits
(`models.all_to_all.reduction`), and solved by column generation where the link orbits are few, else by the
first-order method. Both end in lengths, constant on the link orbits, that prove the lower bound, and in a
flow of the representatives: the upper bound is the congestion of its average over the group.

**Paths of a few sources become those of all** by their images. Let Y be a flow that a group G leaves as it
is, and H a subgroup with the same orbits of sources. The source h(s) then gets the images under h of the
paths of s, for every h in H, each divided by the number of elements that fix s. *The loads are right for any
paths of the representatives.* What they load on an orbit O of links is spread evenly over it by H. So the
load of a link is (sum over s of weight_s load_s(O)) / |O|. H is as small as possible (`just_enough`). Often
only its identity fixes a source, and each path has one image at each source. Otherwise each source may take
the image under one element alone, if the paths add up to the averaged flow: under all elements that map s to
the source that flow has the same image.

**Few demands are split.** Minimize θ over shares x of each pair's paths,

    sum over p of load_p(O) x_p ≤ θ capacity(O)     for every link orbit O
    sum over p of a pair's paths of x_p = 1         for every pair,

in units in which the given shares have θ = 1. A basic solution has at most as many positive shares as there
are rows, so at most as many pairs are split as there are orbits. Large numbers of paths are solved in blocks.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tutti.models.all_to_all.certificate import Interval, SourceFlow, largest_ratio, upper_bound
from tutti.models.all_to_all.columns import ColumnGeneration
from tutti.models.all_to_all.demand import Demand
from tutti.models.all_to_all.first_order import PrimalDual
from tutti.models.all_to_all.paths import PathFlow, decompose
from tutti.models.all_to_all.reduction import (
    MOST_ELEMENTS,
    ReducedProblem,
    averaged,
    symmetries,
    without_cycles,
)
from tutti.models.all_to_all.rounding import rounded_shares
from tutti.models.solvers import CompiledModel, Effort, HighsOptions, solve
from tutti.models.solvers.options import LEAST_SECONDS
from tutti.models.solvers.outcome import SAME
from tutti.topologies.exact import FloatArray, Int32Array, Int64Array, frozen, offsets_of
from tutti.topologies.graphs.symmetry import AutomorphismGroup, orbits_of
from tutti.topologies.kernels import now

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST_ORBITS = 64
"""Most link orbits for which columns are generated. With more, the master program takes longer than the
first-order method."""

SHORT_SEARCH = 10**8
"""Links that a search for automorphisms may look at where only a bound is wanted. With a larger value large
networks have better bounds, and take longer."""

BLOCK = 4000
"""About the number of paths in one program of shares. If there are more, the loads of the others are fixed
while a block is solved. With a larger value fewer demands are split, and a program takes longer."""


@dataclass(frozen=True, eq=False)
class OrbitOptimum:
    """An optimum found on the orbits, with its proof from below.

    Parameters
    ----------
    problem
        The problem on the orbits.
    interval
        The proven bounds of the least time, s/B of M.
    lengths
        int64, shape (links,): lengths on the whole network that prove ``interval.lower``.
    flow
        A flow of the representatives; ``interval.upper`` is the congestion of its average over the group.
    stats
        The effort: ``build_s``, ``solve_s``, ``variables``, ``constraints``, ``solver``, ``solver_gap``,
        ``sources``, ``orbits`` and ``rounds``.
    """

    problem: ReducedProblem
    interval: Interval
    lengths: Int64Array
    flow: SourceFlow
    stats: dict[str, Any]


def solve_by_orbits(
    demand: Demand, tolerance: float = 1e-4, time_limit: float | None = None, *, by: str | None = None
) -> OrbitOptimum:
    """Return the optimum of linear program (A.1) to within a proven relative gap.

    Parameters
    ----------
    demand
        The network, and what each rank sends to each other.
    tolerance
        The gap at which to stop. The result may have a smaller one, or 0 if the optimum is a simple fraction.
    time_limit
        Seconds of solving, after which the gap stays as it is; None for no limit.
    by
        ``"columns"`` or ``"first_order"``; None leaves it to the number of link orbits.

    Raises
    ------
    NoSchedule
        If the time ends before anything is proven.

    Examples
    --------
    >>> from tutti.topologies import torus
    >>> solved = solve_by_orbits(Demand.uniform(torus(4, 4, bandwidth=1)))
    >>> str(solved.interval.upper), solved.interval.exact
    ('1/2', True)
    """
    begin = now()
    return _solved(ReducedProblem(symmetries(demand), demand), begin, tolerance, time_limit, by)


def paths_by_orbits(
    demand: Demand, tolerance: float = 1e-4, time_limit: float | None = None
) -> tuple[OrbitOptimum, PathFlow]:
    """Return the optimum as `solve_by_orbits` does, and paths of all sources whose time is its upper bound.

    The flow is averaged over a subgroup that is small enough to be listed. No symmetry is used if the average
    does not fit 64 bits. Paths are found for the representatives and mapped to the other sources.
    """
    begin = now()
    until = None if time_limit is None else begin + time_limit
    group = symmetries(demand).limited(MOST_ELEMENTS)
    solved = _solved(ReducedProblem(group, demand), begin, tolerance, _left(until), None)
    paths = _paths(solved)
    if paths is None:
        problem = ReducedProblem(group.limited(1), demand)
        solved = _solved(problem, now(), tolerance, _left(until), "first_order")
        paths = decompose(solved.flow)
    interval = Interval(solved.interval.lower, upper_bound(paths))
    stats = {**solved.stats, "solver_gap": float(interval.gap)}
    return replace(solved, interval=interval, stats=stats), paths


def _left(until: float | None) -> float | None:
    """Return the seconds until a moment, at least `LEAST_SECONDS`; None if there is no limit."""
    return None if until is None else max(until - now(), LEAST_SECONDS)


def _paths(solved: OrbitOptimum) -> PathFlow | None:
    """Return paths of all sources, or None if the group is too large or numbers do not fit 64 bits."""
    images, flow = Images.of(solved.problem), averaged(solved.problem, solved.flow)
    if images is None or flow is None:
        return None
    paths = decompose(without_cycles(flow))
    if len(images.nodes) == 1:
        return images.of_all(paths)
    # Other sources get all images of few paths, or one image of each path: whichever makes fewer paths.
    fewer = images.of_all(fewer_paths(images, paths, exact=solved.interval.exact))
    if not images.multiply:
        return fewer
    single = images.of_each(paths)
    if len(single) <= 10 * BLOCK:  # up to two seconds
        identity = Images.of(ReducedProblem(solved.problem.group.limited(1), solved.problem.whole))
        if identity is not None:
            single = fewer_paths(identity, single, exact=solved.interval.exact, block=2 * BLOCK)
    return min(fewer, single, key=len)


def quick_lengths(demand: Demand, most_variables: int, time_limit: float | None = None) -> Int64Array | None:
    """Return lengths (links,) that are optimal or nearly so, if they can be found within seconds; else None.

    Parameters
    ----------
    demand
        The network, and what each rank sends to each other.
    most_variables
        Most variables of the reduced program. A larger one is solved only if there are few link orbits.
    time_limit
        Seconds of solving, after which the lengths are the best so far; None for no limit.

    Raises
    ------
    NoSchedule
        If the time ends before anything is proven.
    """
    begin, group = now(), symmetries(demand, SHORT_SEARCH)
    problem = ReducedProblem(group, demand)
    # Columns soon reach the optimum, where orbits are few or the master takes less than a second.
    if problem.num_orbits <= MOST_ORBITS or len(problem.sources) * problem.num_orbits <= MOST_ORBITS**2:
        return _solved(problem, begin, SAME, time_limit, "columns").lengths
    if len(problem.sources) * demand.topology.num_links <= most_variables:
        return _solved(problem, begin, 1e-5, time_limit, "first_order").lengths
    return None


def _solved(
    problem: ReducedProblem, begin: float, tolerance: float, time_limit: float | None, by: str | None
) -> OrbitOptimum:
    """Return the optimum of a problem whose reduction was begun at `begin`, by one of the two methods."""
    built = now()
    method = by or ("columns" if problem.num_orbits <= MOST_ORBITS else "first_order")
    if method == "columns":
        columns = ColumnGeneration(problem, tolerance, time_limit)
        interval, rounds = columns.run(), columns.rounds
        lengths, flow = columns.lengths, columns.flow()
    else:
        state = PrimalDual(problem)
        interval, rounds = state.run(tolerance, time_limit), state.iterations
        lengths, flow = state.lengths, state.best_flow
    topology, sources, orbits = problem.topology, len(problem.sources), problem.num_orbits
    sizes = sources * topology.num_links + 1, sources * topology.num_nodes + orbits
    stats = Effort("", method, built - begin, now() - built, *sizes).columns
    stats |= {"solver_gap": float(interval.gap), "sources": sources, "orbits": orbits, "rounds": rounds}
    whole = lengths[problem.orbit] // max(1, int(np.gcd.reduce(lengths)))
    return OrbitOptimum(problem, interval, whole, flow, stats)


@dataclass(frozen=True, eq=False)
class Images:
    """A problem on orbits, and the elements of a group that is just large enough for its sources.

    Parameters
    ----------
    problem
        The problem on the orbits of a larger group.
    nodes
        int32, shape (elements, nodes): node v goes to nodes[h, v].
    links
        int32, shape (elements, links): link e goes to links[h, e].
    """

    problem: ReducedProblem
    nodes: Int32Array
    links: Int32Array

    @classmethod
    def of(cls, problem: ReducedProblem, most_elements: int = MOST_ELEMENTS) -> Images | None:
        """Return the images, or None if the group that is just large enough has too many elements."""
        listed = just_enough(problem.group).elements(most_elements)
        return None if listed is None else cls(problem, *listed)

    @cached_property
    def orbit(self) -> Int32Array:
        """int32 (links,): the orbit of each link, numbered from 0."""
        least = orbits_of(self.links, self.problem.topology.num_links)
        return np.unique(least, return_inverse=True)[1].reshape(-1).astype(np.int32)

    @cached_property
    def capacity(self) -> Int64Array:
        """int64 (orbits,): the total bandwidth of each; numerators."""
        capacity = np.zeros(int(self.orbit.max()) + 1, dtype=np.int64)
        np.add.at(capacity, self.orbit, self.problem.topology.bandwidth.numerators)
        return capacity

    @cached_property
    def row_of(self) -> Int32Array:
        """int32 (nodes,): the row in `ReducedProblem.sources` of each representative, -1 for other nodes."""
        row_of = np.full(self.problem.topology.num_nodes, -1, dtype=np.int32)
        row_of[self.problem.sources] = np.arange(len(self.problem.sources))
        return row_of

    def congestion(self, paths: PathFlow) -> Fraction:
        """Return the time of the images of the representatives' paths, exact, in s/B of M."""
        lengths = np.diff(paths.offsets)
        weights = self.problem.weights[self.row_of[paths.source]]
        loads = np.zeros(len(self.capacity), dtype=object)
        carried = np.repeat((paths.amounts.astype(object) * weights), lengths)
        np.add.at(loads, self.orbit[paths.links], carried)
        worst = largest_ratio(loads, self.capacity)
        return worst * self.problem.topology.bandwidth.denominator / paths.denominator

    @property
    def multiply(self) -> bool:
        """Whether an element but the identity fixes a source, whose paths then have several images."""
        return len(self.nodes) > int(self.problem.weights.min())

    def of_each(self, paths: PathFlow) -> PathFlow:
        """Return one image of the representatives' paths for each source, by the first element to reach it.

        The paths must add up to flows that all elements which fix their source leave as they are: then every
        element maps them to the same flow.
        """
        problem, lengths = self.problem, np.diff(paths.offsets)
        row = self.row_of[paths.source]
        amounts: list[Int64Array] = []
        counts: list[Int64Array] = []
        images: list[Int32Array] = []
        for number, source in enumerate(problem.sources.tolist()):
            of_row = row == number
            links = paths.links[np.repeat(of_row, lengths)]
            _, first = np.unique(self.nodes[:, source], return_index=True)
            amounts.append(np.tile(paths.amounts[of_row], len(first)))
            counts.append(np.tile(lengths[of_row], len(first)))
            images.append(self.links[np.ix_(first, links)].reshape(-1))
        return PathFlow(
            problem.whole,
            np.concatenate(amounts),
            paths.denominator,
            offsets_of(np.concatenate(counts)),
            np.concatenate(images),
        )

    def of_all(self, paths: PathFlow) -> PathFlow:
        """Return the paths of all sources: the images of the representatives' paths under all elements."""
        # A source that several elements fix has as many images of each path, and each carries a part of it.
        fixing = [len(self.nodes) // weight for weight in self.problem.weights.tolist()]
        common = math.lcm(*fixing)
        shares = np.array([common // fixed for fixed in fixing], dtype=np.int64)
        amounts = paths.amounts * shares[self.row_of[paths.source]]
        elements = len(self.nodes)
        lengths = np.tile(np.diff(paths.offsets), elements)
        return PathFlow(
            self.problem.whole,
            np.tile(amounts, elements),
            paths.denominator * common,
            offsets_of(lengths),
            self.links[:, paths.links].reshape(-1),
        )


def just_enough(group: AutomorphismGroup) -> AutomorphismGroup:
    """Return a subgroup with the same orbits of nodes: by the first generators that join orbits, in order."""
    kept: list[int] = []
    orbits = np.arange(group.topology.num_nodes, dtype=np.int32)
    for index in range(len(group.nodes)):
        joined = orbits_of(group.nodes[[*kept, index]], group.topology.num_nodes)
        if not np.array_equal(joined, orbits):
            kept.append(index)
            orbits = joined
    return AutomorphismGroup(
        group.topology, frozen(group.nodes[kept], np.int32), frozen(group.links[kept], np.int32)
    )


def fewer_paths(images: Images, paths: PathFlow, *, exact: bool, block: int = BLOCK) -> PathFlow:
    """Return paths of the representatives that take no longer, and split fewer demands where possible.

    Parameters
    ----------
    images
        The images of the paths, by which they reach all sources.
    paths
        The paths of the representatives.
    exact
        Whether their time is the optimum: then it must not grow at all, else by a fraction `SAME` at most.
    block
        About the number of paths for whose shares one program is solved.
    """
    source, target = paths.source, paths.target
    new = (source[1:] != source[:-1]) | (target[1:] != target[:-1])
    pair = offsets_of(new.astype(np.int64))  # the number of each path's ends; those of a pair stand together
    if len(paths) > 50 * BLOCK or len(paths) == pair[-1] + 1:
        return paths
    now = images.congestion(paths)
    for parts, denominator in rounded_shares(_basic_shares(images, paths, pair, block), pair):
        found = _with_shares(paths, np.array(parts, dtype=np.int64), denominator)
        most = now if exact else now * (1 + SAME)
        if len(found) < len(paths) and images.congestion(found) <= most:
            return found
    return paths


def _with_shares(paths: PathFlow, parts: Int64Array, denominator: int) -> PathFlow:
    """Return the paths with these shares of their pair's demand, less those without any."""
    demand, kept = paths.demand, np.flatnonzero(parts)
    lengths = np.diff(paths.offsets)
    amounts = demand.amounts[paths.source, paths.target] * parts
    return replace(
        paths,
        amounts=amounts[kept],
        denominator=demand.denominator * denominator,
        offsets=offsets_of(lengths[kept]),
        links=paths.links[np.repeat(parts > 0, lengths)],
    )


def _basic_shares(images: Images, paths: PathFlow, pair: Int64Array, block: int) -> FloatArray:
    """Return shares, float64 (paths,), that are basic solutions block by block, the others as they are."""
    from scipy.sparse import csc_array, csr_array

    problem, lengths = images.problem, np.diff(paths.offsets)
    moved = paths.demand.amounts[paths.source, paths.target] * problem.weights[images.row_of[paths.source]]
    time = float(images.congestion(paths) / problem.unit)
    orbit = images.orbit[paths.links]
    value = np.repeat(moved.astype(np.float64), lengths) / (images.capacity[orbit] * time)
    which = np.repeat(np.arange(len(paths)), lengths)
    loads = csc_array(csr_array((value, (orbit, which)), shape=(len(images.capacity), len(paths))))
    shares = paths.amounts / np.bincount(pair, weights=paths.amounts)[pair]
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    each = np.searchsorted(starts, np.arange(0, len(paths), block)).clip(max=len(starts) - 1)
    blocks = starts[np.unique(each)]
    for begin, end in itertools.pairwise([*blocks.tolist(), len(paths)]):
        others = loads @ shares - loads[:, begin:end] @ shares[begin:end]
        model = _program(csr_array(loads[:, begin:end]), pair[begin:end] - pair[begin], others)
        result = solve(model, "highs", HighsOptions(method="simplex"))
        if result.values is not None:
            shares[begin:end] = result.values[:-1]
    return shares


def _program(loads: csr_array, pair: Int64Array, others: FloatArray) -> CompiledModel:
    """Return the linear program above for some of the paths, given the loads of the others; θ is last."""
    from scipy.sparse import block_array, csr_array

    orbits, count = loads.shape
    one_each = csr_array((np.ones(count), (pair, np.arange(count))), shape=(int(pair[-1]) + 1, count))
    matrix = csr_array(block_array([[loads, csr_array(-np.ones((orbits, 1)))], [one_each, None]]))
    matrix.sort_indices()
    ones = np.ones(int(pair[-1]) + 1)
    return CompiledModel.of_matrix(
        "paths",
        matrix,
        np.append(np.zeros(count), 1.0),
        np.append(np.full(orbits, -np.inf), ones),
        np.append(-others, ones),
    )
