r"""Linear program (B.5) with a row for each cut that matters, in place of a max-flow for each rank.

By max-flow and min-cut, F(s, t; G) ≥ Σ x for all ranks t if and only if every set S of ranks except the whole
one lets out what starts in it. Likewise, for the in-trees, it takes in what ends in it:

.. math::

    c^{BC}(δ^+(S)) \ge x(S), \qquad c^{RE}(δ^-(S)) \ge x(S).        \qquad (1)

So (B.5) is a program in x, c^BC and c^RE alone, with a row for each set. Few sets matter. They are found by
max-flow where a solution violates (1). Over the cuts S and the arcs a that are known so far, `master` is

    maximize    sum over v of x[v]

    subject to  sum over arcs a over e of c^BC[a] + c^RE[a]  <=  b[e]   For every link e  (dual: length l[e]).
                x(S) - c^BC(out of S)  <=  0                            For every cut S  (dual: weight).
                x(S) - c^RE(into S)    <=  0                            For every cut S  (dual: weight).
                x, c^BC, c^RE >= 0

Its columns are x, then c^BC and c^RE of each arc in turn. Its rows are the links, then the cuts in the order
in which they were found, so that both can grow and a basis be kept.

An arc is a direct link, or a route over switches that was found when it was needed. Routes stand for b' of
(B.5): the capacity b'[α, β] that switches provide is carried by routes from α to β over switches alone. A
flow through a third rank γ would be no better than b'[α, γ] and b'[γ, β]: out of a set of ranks with α and
without β goes as much in both cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from tutti.models.all_to_all.rounding import ALIKE
from tutti.models.solvers.compiled import CompiledModel
from tutti.topologies.exact import INT64_MAX, BoolArray, Int32Array, Int64Array
from tutti.topologies.graphs.max_flow import DinicNetwork
from tutti.topologies.graphs.shortest_paths import Length, Route, nearest_first
from tutti.topologies.kernels import now
from tutti.topologies.topology import Topology

if TYPE_CHECKING:
    from scipy.sparse import csr_array

BROADCAST, REDUCE = range(2)
"""The halves of (1) to which a cut belongs."""


@dataclass
class Arcs:
    """Arcs between ranks, each over one route; more can be added.

    Parameters
    ----------
    topology
        The network.
    routes
        The links of each arc, in order.
    """

    topology: Topology
    routes: list[Route] = field(default_factory=list)
    _known: set[Route] = field(default_factory=set)

    @classmethod
    def of(cls, topology: Topology) -> Arcs:
        """Return the direct links, and for each pair that switches join a route that is wide."""
        arcs = cls(topology)
        ranks = topology.num_ranks
        direct = (topology.source < ranks) & (topology.target < ranks)
        for link in np.flatnonzero(direct).tolist():
            arcs.add((link,))
        if topology.num_switches:
            slowness = (1.0 / topology.bandwidth.floats).tolist()
            for _, route in routes_over_switches(topology, slowness):
                arcs.add(route)
        return arcs

    def __len__(self) -> int:
        return len(self.routes)

    def add(self, route: Route) -> bool:
        """Add an arc; return whether it is new."""
        if route in self._known:
            return False
        self._known.add(route)
        self.routes.append(route)
        return True

    @property
    def tails(self) -> Int32Array:
        """int32, shape (arcs,): the rank from which each arc leads."""
        return self.topology.source[[route[0] for route in self.routes]]

    @property
    def heads(self) -> Int32Array:
        """int32, shape (arcs,): the rank to which each arc leads."""
        return self.topology.target[[route[-1] for route in self.routes]]


def routes_over_switches(topology: Topology, lengths: Sequence[Length]) -> Iterator[tuple[Length, Route]]:
    """Yield, for each pair of ranks that switches join, the least length of a route over switches, and one.

    Parameters
    ----------
    topology
        The network.
    lengths
        The length of each link, none negative.
    """
    ranks, heads = topology.num_ranks, topology.target.tolist()
    is_switch = [node >= ranks for node in range(topology.num_nodes)]
    leaving: list[list[int]] = [[] for _ in range(topology.num_nodes)]
    for link, (tail, head) in enumerate(zip(topology.source.tolist(), heads, strict=True)):
        if is_switch[tail] or is_switch[head]:
            leaving[tail].append(link)
    for origin in range(ranks):
        begun = [(lengths[link], heads[link], (link,)) for link in leaving[origin]]
        found = nearest_first(leaving, heads, lengths, begun, forwards=is_switch, by_links=True)
        yield from ((length, route) for length, node, route in found if node < ranks and node != origin)


@dataclass
class Cuts:
    """Sets S of ranks, each with its half of (1); more can be added.

    Parameters
    ----------
    num_ranks
        N.
    half
        `BROADCAST` or `REDUCE`, one a set.
    inside
        bool, shape (ranks,), one a set.
    """

    num_ranks: int
    half: list[int] = field(default_factory=list)
    inside: list[BoolArray] = field(default_factory=list)
    _known: set[tuple[int, bytes]] = field(default_factory=set)

    @classmethod
    def of(cls, topology: Topology, parts: Sequence[Sequence[int]]) -> Cuts:
        """Return the cuts around each rank and each of these parts, for both halves, inside and outside."""
        ranks = topology.num_ranks
        cuts = cls(ranks)
        for part in [*([rank] for rank in range(ranks)), *parts]:
            inside = np.zeros(ranks, dtype=bool)
            inside[[node for node in part if node < ranks]] = True
            for half in (BROADCAST, REDUCE):
                cuts.add(half, inside)
                cuts.add(half, ~inside)
        return cuts

    def __len__(self) -> int:
        return len(self.half)

    def add(self, half: int, inside: BoolArray) -> bool:
        """Add a cut; return whether it is new and no empty or whole set."""
        key = (half, inside.tobytes())
        if key in self._known or not inside.any() or inside.all():
            return False
        self._known.add(key)
        self.half.append(half)
        self.inside.append(inside.copy())
        return True

    def crossing(self, tails: Int32Array, heads: Int32Array) -> BoolArray:
        """Return which arcs count in each cut, shape (cuts, arcs): out of S, or into it."""
        inside = np.array(self.inside)
        out = inside[:, tails] & ~inside[:, heads]
        into = ~inside[:, tails] & inside[:, heads]
        return np.where(np.array(self.half)[:, None] == BROADCAST, out, into)


@dataclass(frozen=True, eq=False)
class Half:
    """One half of a solution in integers, as a flow network of the ranks and s.

    Parameters
    ----------
    tails, heads, capacity
        The arcs; those of in-trees are reversed.
    roots
        int64, shape (ranks,): x.
    """

    tails: Int32Array
    heads: Int32Array
    capacity: Int64Array
    roots: Int64Array

    @classmethod
    def both(cls, arcs: Arcs, whole: Sequence[int]) -> tuple[Half, Half]:
        """Return the broadcast's network and the reduction's, the latter turned round.

        Parameters
        ----------
        arcs
            The arcs.
        whole
            x, then c^BC and c^RE of each arc in turn.
        """
        values, ranks = np.array(whole, dtype=np.int64), arcs.topology.num_ranks
        roots, tails, heads = values[:ranks], arcs.tails, arcs.heads
        return cls(tails, heads, values[ranks::2], roots), cls(heads, tails, values[ranks + 1 :: 2], roots)

    def network(self, arcs_by: int = 1, roots_by: int = 1) -> DinicNetwork:
        """Return the flow network with node N for s, capacities and roots scaled."""
        source, some = len(self.roots), np.flatnonzero(self.roots)
        return DinicNetwork(
            source + 1,
            np.concatenate([self.tails, np.full(len(some), source)]),
            np.concatenate([self.heads, some]),
            [
                *(c * arcs_by for c in self.capacity.tolist()),
                *(r * roots_by for r in self.roots[some].tolist()),
            ],
        )

    def exit(self, inside: BoolArray) -> int:
        """Return the capacity out of a set."""
        return int(self.capacity[inside[self.tails] & ~inside[self.heads]].sum())

    def ratio(self, inside: BoolArray) -> Fraction:
        """Return the capacity out of a set over what starts in it; 2^63 - 1 where nothing does."""
        roots = int(self.roots[inside].sum())
        return Fraction(self.exit(inside), roots) if roots else Fraction(INT64_MAX)


def broken_cuts(half: Half, tolerance: int) -> list[BoolArray]:
    """Return for each rank a set without it that lets out less than starts in it, by more than the tolerance.

    Of the sets that let out the least, it is the largest.
    """
    source, total = len(half.roots), int(half.roots.sum())
    network = half.network()
    short = (sink for sink in range(source) if network.solve(source, sink) < total - tolerance)
    return [network.cut()[:source] for _ in short]


def throughput(half: Half) -> tuple[Fraction, BoolArray | None]:
    """Return the largest θ such that (1) holds with θ x for x, exactly, and a set that allows no more.

    As in `models.bounds.bottleneck_cut`, each cut is replaced by one with a smaller ratio until there is
    none. The first is the worst set of a single rank, or of all but one.
    """
    ranks = np.arange(len(half.roots))
    total = int(half.roots.sum())
    least, keeper = Fraction(INT64_MAX), None
    for inside in (around for rank in ranks for around in (ranks == rank, ranks != rank)):
        ratio = half.ratio(inside)
        if ratio < least:
            least, keeper = ratio, inside
    while least and (worse := _worse(half, total, least)) is not None:
        least, keeper = half.ratio(worse), worse
    return least, keeper


def _worse(half: Half, total: int, ratio: Fraction) -> BoolArray | None:
    """Return a set whose ratio is less, or None."""
    # Scaled so that θ = ratio: s sends θ x, and every rank must be able to receive all of it.
    source = len(half.roots)
    network = half.network(ratio.denominator, ratio.numerator)
    network.absorb(source)
    needed = total * ratio.numerator
    for sink in range(source):
        if network.grow(sink, needed) < needed:
            return network.cut()[:source]
        network.absorb(sink)
    return None


@dataclass(frozen=True, eq=False)
class CutProgram:
    """The program, and its matrix in whole numbers.

    Parameters
    ----------
    model
        Bandwidths in units of `scale`.
    matrix
        A, all entries 0, 1 or -1.
    scale
        A power of two times the `bandwidth` unit, so that doubles hold the quotients exactly.
    bandwidth
        int64, shape (links,): as `whole_bandwidths` returns them.
    """

    model: CompiledModel
    matrix: csr_array
    scale: float
    bandwidth: Int64Array


def whole_bandwidths(topology: Topology) -> Int64Array:
    """Return bandwidths over their greatest common divisor, reduced where no link can be so busy.

    Σx is at most any minimum cut between two ranks, as all of M crosses it in one half or the other. A tree
    uses an arc once in each half, or over switches a link once for each of its N - 1 edges. So a link with
    twice the bandwidth that trees can use is never full, and more of it only reduces the solver's accuracy.
    """
    whole = topology.bandwidth.numerators // np.gcd.reduce(topology.bandwidth.numerators)
    if int(whole.max()) <= int(whole.min()) * ALIKE:
        return whole
    uses = 2 * (topology.num_ranks - 1 if topology.num_switches else 1)
    most = 2 * uses * least_cut(topology, whole)
    return np.minimum(whole, np.int64(min(most, INT64_MAX)))


def least_cut(topology: Topology, capacity: Int64Array) -> int:
    """Return the least capacity out of a set of nodes that has some of the ranks, but not all."""
    network = DinicNetwork(topology.num_nodes, topology.source, topology.target, capacity)
    others = range(1, topology.num_ranks)
    return min(min(network.solve(0, rank), network.solve(rank, 0)) for rank in others)


def master(arcs: Arcs, cuts: Cuts) -> CutProgram:
    """Return the program over these arcs and cuts."""
    begin = now()
    matrix = _matrix(arcs, cuts)
    bandwidth = whole_bandwidths(arcs.topology)
    scale = 2.0 ** round(np.log2(float(bandwidth.mean())))
    rows, columns = matrix.shape
    upper = np.zeros(rows)
    upper[: len(bandwidth)] = bandwidth / scale
    model = CompiledModel.of_matrix(
        "allreduce-cuts",
        matrix,
        np.arange(columns) < arcs.topology.num_ranks,
        -np.inf,
        upper,
        maximize=True,
        begin=begin,
    )
    return CutProgram(model, matrix, scale, bandwidth)


def _matrix(arcs: Arcs, cuts: Cuts) -> csr_array:
    """Return the matrix: columns of x, then of c^BC and c^RE by arc; rows of links, then of cuts."""
    from scipy.sparse import coo_array

    ranks, links = arcs.topology.num_ranks, arcs.topology.num_links
    lengths = np.array([len(route) for route in arcs.routes])
    link = np.array([link for route in arcs.routes for link in route])
    column = ranks + 2 * np.repeat(np.arange(len(lengths)), lengths)
    inside = np.nonzero(np.array(cuts.inside))
    cut, arc = np.nonzero(cuts.crossing(arcs.tails, arcs.heads))
    crossing = ranks + 2 * arc + (np.array(cuts.half)[cut] != BROADCAST)
    rows = np.concatenate([link, link, links + inside[0], links + cut])
    columns = np.concatenate([column, column + 1, inside[1], crossing])
    values = np.repeat([1.0, -1.0], [len(rows) - len(cut), len(cut)])
    shape = (links + len(cuts), ranks + 2 * len(arcs))
    return coo_array((values, (rows, columns)), shape=shape).tocsr()
