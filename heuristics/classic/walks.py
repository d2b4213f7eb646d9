"""Allreduce by walks: in each step every rank sends all that it has, and replaces it by what arrives.

After t steps a rank has a sum over all walks of t links that end at it. In a de Bruijn graph, or a
generalized Kautz graph of d^D ranks, one walk of D links leads from each rank to each; networks leave out its
loops, and there a rank keeps what it has. So in D steps, the diameter, each rank has the sum of all. This
takes one vector over a link in each step, where in-trees to N roots need many.

In other networks ranks also add, in some steps, what arrives to what they have. Kautz graphs and line graphs
of complete graphs need one such step: (I + A) A^(D-1) = J, where A says which ranks are joined and J is all
ones. In L(K_{m,m}) it uses one link of each rank only. On an even ring pairs exchange what they have, now to
one side and now to the other, and in between every second rank replaces what it has by what arrives. So in
its pair one has the sums from one side and the other has the rest, until they add these. In networks of
several dimensions the dimensions follow each other, which is recursive doubling in hypercubes. If a step
takes one link of each rank, parts of the vector take different links, and the dimensions in all rotations of
their order.

Larger vectors are cut in more parts, each of which only some ranks add up, its *roots*: those that one rank
reaches in all steps but the first few, `radius` of them. Data that leads to no root is not sent; the roots
send the sum to the others. With radius 1 a de Bruijn graph of degree d sends 1/d of the vector over each link
in each of D + 1 steps, and with radius D it is a reduce-scatter and an allgather.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from tutti.schedules.capabilities import Capabilities, Groups, Switches
from tutti.schedules.collective import Kind
from tutti.schedules.intervals import PartTransfers, in_parts, sums_sent, take_sums
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.exact import BoolArray, FloatArray, Int32Array, Int64Array, joined_rows, offsets_of
from tutti.topologies.graphs.grid_structure import Grid, LineKind, grid_of
from tutti.topologies.graphs.shortest_paths import diameter, hop_distances
from tutti.topologies.options import Options, Whole
from tutti.topologies.topology import Link, Topology

MOST_TRANSFERS = 2**22


@dataclass(frozen=True)
class WalksOptions(Options):
    """Options of de_bruijn_allreduce.

    Parameters
    ----------
    hub_radius
        The ranks that a rank reaches in all but this many steps add up a part of the vector. With 0 these are
        all ranks. By default the best for the size.
    """

    OWNER: ClassVar[str] = "de_bruijn_allreduce"
    hub_radius: Annotated[int | None, Whole(0)] = None


class _WalkStep(NamedTuple):
    """The links that are used, and the ranks that add what arrives to what they have."""

    links: Int64Array
    adds: BoolArray

    def matrix(self, topology: Topology) -> FloatArray:
        """Return M[v, u]: how many times the old data of rank u is in the new data of rank v."""
        matrix = np.diag(self.adds.astype(np.float64))
        np.add.at(matrix, (topology.target[self.links], topology.source[self.links]), 1)
        return matrix


def synthesize(problem: Problem, options: WalksOptions, rng: np.random.Generator) -> Schedule:
    """Return a schedule in the step clock; with radius 0 its steps are the network's diameter.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    topology = problem.topology
    walks = _walks(topology)
    most = len(walks[0])
    radii = range(most + 1) if options.hub_radius is None else [min(options.hub_radius, most)]
    choices = [_parts(topology, walks, radius) for radius in radii]
    fastest = min(choices, key=lambda parts: _seconds(problem, parts))
    return in_parts(topology, problem.collective, fastest)


def _seconds(problem: Problem, parts: Sequence[PartTransfers]) -> float:
    """Return the sum over steps of α and the largest load over bandwidth, for parts of equal size."""
    topology, size = problem.topology, float(problem.size or 0)
    rows = joined_rows(parts)
    load = np.zeros((int(rows.step.max()) + 1, topology.num_links))
    np.add.at(load, (rows.step, rows.link), size / len(parts))
    used = np.zeros_like(load)
    used[rows.step, rows.link] = 1
    return float((used * topology.alpha.floats + load / topology.bandwidth.floats).max(axis=1).sum())


def _parts(topology: Topology, walks: Sequence[Sequence[_WalkStep]], radius: int) -> list[PartTransfers]:
    """Return the transfers of each of the equal parts of the vector."""
    hops, parts = hop_distances(topology), []
    load = np.zeros((len(hops), topology.num_links))
    for walk in walks:
        reached = np.eye(len(hops), dtype=np.bool_)
        for step in walk[radius:]:
            take_sums(topology, step.links, step.adds, reached)
        for roots in np.unique(reached.T, axis=0):
            steps = [*_toward(topology, walk, roots), *_from(topology, hops[roots].min(axis=0), load)]
            parts.append(sums_sent(topology, steps))
    return parts


def _toward(topology: Topology, walk: Sequence[_WalkStep], roots: BoolArray) -> list[_WalkStep]:
    """Return for each step the links that lead to the roots; if nothing arrives a rank keeps what it has."""
    steps, needed = [], roots
    for step in reversed(walk):
        links = step.links[needed[topology.target[step.links]]]
        adds = step.adds | ~np.isin(np.arange(len(roots)), topology.target[links])
        steps.append(_WalkStep(links, adds))
        needed = needed & step.adds
        needed[topology.source[links]] = True
    return steps[::-1]


def _from(topology: Topology, far: Int32Array, load: FloatArray) -> Iterator[_WalkStep]:
    """Yield steps from the roots to all, over the links that have carried least; `load` grows by them."""
    for hop in range(1, int(far.max()) + 1):
        onward = np.flatnonzero((far[topology.source] == hop - 1) & (far[topology.target] == hop))
        onward = onward[np.argsort(load[hop, onward], kind="stable")]
        links = onward[np.unique(topology.target[onward], return_index=True)[1]]
        load[hop, links] += 1
        yield _WalkStep(links, far != hop)


def _walks(topology: Topology) -> list[list[_WalkStep]]:
    """Return the steps of each part of the vector, none if there are no such steps."""
    grid = grid_of(topology)
    if grid is None or grid.hosts is not None or LineKind.SWITCH in grid.lines:
        return _searched(topology)
    lines = [_along(topology, grid, dimension) for dimension in range(len(grid.shape))]
    if not all(lines):
        return []
    rotations = [lines[first:] + lines[:first] for first in range(len(lines))]
    return [
        [step for line in lines for step in line[variant % len(line)]]
        for lines in rotations
        for variant in range(max(map(len, lines)))
    ]


def _along(topology: Topology, grid: Grid, dimension: int) -> list[list[_WalkStep]]:
    """Return the steps on all lines of a dimension together, in some variants."""
    size, ranks = grid.shape[dimension], topology.num_ranks
    place = np.stack(np.unravel_index(np.arange(ranks), grid.shape))[dimension]
    links = np.flatnonzero(place[topology.source] != place[topology.target])
    source, target = topology.source[links], topology.target[links]
    pairs, of = np.unique(np.stack([place[source], place[target]]), axis=1, return_inverse=True)
    line = Topology.from_links("line", size, [Link(a, b) for a, b in pairs.T.tolist()])
    is_even_ring = grid.lines[dimension] is LineKind.RING and size % 2 == 0
    variants = [_round(line, turn) for turn in range(2)] if is_even_ring else _searched(line)
    _, which, many = np.unique(np.stack([source, target]), axis=1, return_inverse=True, return_counts=True)
    order, number = np.argsort(which, kind="stable"), np.empty(len(links), dtype=np.int64)
    number[order] = np.arange(len(links)) - offsets_of(many)[which[order]]
    return [
        [
            _WalkStep(links[np.isin(of, step.links) & (number == parallel % many[which])], step.adds[place])
            for step in steps
        ]
        for parallel in range(many.max())  # of parallel links one after the other
        for steps in variants
    ]


def _round(ring: Topology, turn: int) -> list[_WalkStep]:
    """Return the steps on an even ring; `turn` says which pairs are first."""
    rank, steps, last = np.arange(ring.num_ranks), [], ring.num_ranks // 2
    for step in range(1, last + 1):
        up = (rank + step + turn) % 2 == 1
        partner = (rank + np.where(up, 1, -1)) % ring.num_ranks
        links = np.flatnonzero(ring.source == partner[ring.target])
        steps.append(_WalkStep(links, up | (step in (1, last))))
    return steps


def _searched(topology: Topology) -> list[list[_WalkStep]]:
    """Return steps for each matching that may be first, or one list of steps with all links, or none."""
    matchings, found = list(_matchings(topology)), []
    for first in range(max(1, len(matchings))):
        steps = _search(topology, matchings[first:] + matchings[:first])
        if not steps:
            return []
        found.append(steps)
        if all(len(step.links) == topology.num_links for step in steps):
            return found
    return found


def _search(topology: Topology, matchings: Sequence[Int64Array]) -> list[_WalkStep]:
    """Return steps after which each rank has each one's contribution once, or none.

    There are as many as the network's diameter; the matchings are tried in this order.
    """
    ranks = topology.num_ranks
    degree = np.bincount(topology.target, minlength=ranks)
    links, everywhere = np.arange(topology.num_links), np.ones(ranks, dtype=np.bool_)
    # Matchings first: they leave the other links to other parts.
    steps = [_WalkStep(one, everywhere) for one in matchings]
    steps += [_WalkStep(links, degree < degree.max()), _WalkStep(links, everywhere)]
    matrices = [step.matrix(topology) for step in steps]
    growth = [matrix.sum(axis=1) for matrix in matrices]
    least, most = (float(choose([choose(one) for one in growth])) for choose in (min, max))

    def after(held: FloatArray, left: int) -> list[_WalkStep] | None:
        """Return the steps that are left, when rank v has held[v, u] times the first data of rank u."""
        number = held.sum(axis=1)
        # A contribution that is in a sum twice stays so; each step adds contributions, but not too many.
        if held.max() > 1 or number.max() * least**left > ranks or number.min() * most**left < ranks:
            return None
        if number.min() == number.max() and ranks % number[0]:  # all end with a multiple of it
            return None
        if left == 0:
            return []
        for step, matrix in zip(steps, matrices, strict=True):
            rest = after(matrix @ held, left - 1)
            if rest is not None:
                return [step, *rest]
        return None

    return after(np.eye(ranks, dtype=np.float64), diameter(topology)) or []


def _matchings(topology: Topology) -> Iterator[Int64Array]:
    """Yield disjoint sets of links of which each rank has one in and one out, as long as there are any."""
    from scipy.sparse import csr_array  # slow to import
    from scipy.sparse.csgraph import maximum_bipartite_matching

    ranks, left = topology.num_ranks, np.arange(topology.num_links)
    pair = topology.source.astype(np.int64) * ranks + topology.target
    while len(left):
        one = left[np.unique(pair[left], return_index=True)[1]]  # of parallel links
        number = csr_array((one + 1, (topology.source[one], topology.target[one])), shape=(ranks, ranks))
        taken = maximum_bipartite_matching(number, perm_type="column")
        if taken.min() < 0:
            return
        matching = np.asarray(number[np.arange(ranks), taken]).ravel() - 1
        yield matching
        left = np.setdiff1d(left, matching)


def check(problem: Problem, options: WalksOptions) -> None:
    """Raise `Unsupported` for networks without such walks, and for too many transfers."""
    topology = problem.topology
    rows = topology.num_ranks**2 * diameter(topology)  # at least: with radius 0, a link of each in each step
    if rows > MOST_TRANSFERS:
        raise METHOD.unsupported(f"makes {rows} transfers of this, or more; at most {MOST_TRANSFERS}")
    if not _walks(topology):
        raise METHOD.unsupported(f"needs {METHOD.capabilities.further}; {topology.name} has none")


METHOD = Method(
    name="de_bruijn_allreduce",
    kind="heuristic",
    synthesize=synthesize,
    options=WalksOptions,
    size_dependent=lambda problem, options: options.hub_radius is None,
    capabilities=Capabilities(
        (Kind.ALLREDUCE,),
        Groups.NONE,
        switches=Switches.NONE,
        further="steps along all links, or one of each rank, that lead from each to each other once",
    ),
    check=check,
    summary="allreduce in as few steps as can be: what arrives over all links becomes what is sent next",
)
