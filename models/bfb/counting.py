"""The exact workloads U of BFB's linear programs without solving these: (3.1) by counting, and (A.12).

The subproblem (u, t) is to share divisible jobs (the sources at distance t) evenly among processors (the
in-links of u), each job on its eligible processors only. By LP duality (Theorem 19 is the balanced case)

    U = max over nonempty sets S of in-links of  (sources whose eligible in-links all lie in S) / |S|,

a rational whose denominator is at most the in-degree. Newton's method raises a guess to the ratio of a
violated set, found by a flow, until the flow (`models.bfb.schedule`) places everything.

On a vertex-transitive network U_{u,t} is the same at all nodes u, and

    T_B = (d / N) · sum over t of U_{0,t}                                                   (3.2)

in M/B: d + 1 breadth-first searches instead of N (`transitive_cost`). Whether a network is vertex-transitive
is for the caller to know (`topologies.graphs.symmetry` finds it out).

**Unequal links**, linear program (A.12), with no α paid on links that carry nothing (`times`). Subproblem (u,
t) is to bring the shards at distance t to u, each over its eligible in-links, so that the last in-link is
done as early as possible. In-link w needs α_w and then s_w = (M/N) / B_w a shard, so within U it brings
max(0, (U - α_w) / s_w): where U <= α_w nothing, and then nothing is paid for it. By Hall's theorem

    U = max over sets J of sources of the least U_J with
        |J| <= sum over w in N(J) of max(0, (U_J - α_w) / s_w)

with N(J) the links that some source in J may use. U_J has a closed form: the links that are in use by then
are the first few by α, and on them U_J = (|J| + sum of α_w / s_w) / (sum of 1 / s_w). U rises from the U_J of
all sources to that of a set that does not fit, found by a flow (`models.bfb.schedule`), until everything fits
(Newton's method). All numbers are rationals, so the result is the optimum itself.

With P equal chunks a shard, a link brings floor(P (U - α_w) / s_w) chunks. U_J is then the first moment at
which these are enough. Since flows in whole numbers suffice, that optimum is exact, too.

Sources: dissertation 3.6.1, A.5.2 for chunks, and A.5.3. `models.bfb.model` has the programs themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tutti.models.bfb.frontiers import Frontiers, Patterns, distinct_patterns, frontiers
from tutti.models.bfb.schedule import TOO_FINE, LinkShares, share
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import INT64_MAX, BoolArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.shortest_paths import hop_distances
from tutti.topologies.graphs.symmetry import link_kinds
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose


@dataclass(frozen=True, eq=False)
class SubproblemOptima:
    """U of every subproblem.

    Parameters
    ----------
    topology
        The network.
    steps
        D(G).
    of_job
        int32, shape (N * steps,): the row of `values` of subproblem (u, t), at ``u * steps + t - 1``.
    values
        U, exact; 0 where no source is at that distance.
    """

    topology: Topology
    steps: int
    of_job: Int32Array
    values: tuple[Fraction, ...]

    def __getitem__(self, job: tuple[int, int]) -> Fraction:
        """Return U of (u, t), t from 1."""
        u, t = job
        return self.values[self.of_job[u * self.steps + t - 1]]

    @property
    def peaks(self) -> tuple[Fraction, ...]:
        """The largest U of each step, over all u."""
        ratios = [value.as_integer_ratio() for value in self.values]  # few differ; fractions compare slowly
        ascending = sorted(dict(zip(ratios, self.values, strict=True)).values())
        place = {value.as_integer_ratio(): i for i, value in enumerate(ascending)}
        of_value = np.array([place[ratio] for ratio in ratios], dtype=np.int64)
        largest = of_value[self.of_job.reshape(-1, self.steps)].max(axis=0)
        return tuple(ascending[i] for i in largest)

    @property
    def total(self) -> Fraction:
        """The sum of `peaks`."""
        return sum(self.peaks, Fraction(0))


class Workloads(SubproblemOptima):
    """U of every subproblem, in shards a link."""

    @property
    def tb(self) -> Fraction | None:
        """T_B of equation (3.2) in units of M/B; None where the network has no degree."""
        degree = self.topology.degree
        return None if degree is None else Fraction(degree, self.topology.num_ranks) * self.total


def workloads(topology: Topology) -> Workloads:
    """Return U of every subproblem (u, t) of a switch-free topology with equal links.

    Examples
    --------
    >>> from tutti.topologies.text import parse_topology
    >>> work = workloads(parse_topology("torus:4x4"))
    >>> [str(u) for u in work.peaks], str(work.tb)
    (['1', '3/2', '1', '1/4'], '15/16')
    """
    work = frontiers(topology)
    patterns = distinct_patterns(work)
    return Workloads(topology, work.steps, patterns.of_job, solve_patterns(patterns))


def transitive_cost(topology: Topology) -> tuple[int, Fraction]:
    """Return (T_L in steps, T_B in M/B) of the optimal BFB allgather of a vertex-transitive network.

    Raises
    ------
    InputError
        If the network has no degree, or too large a one.

    Examples
    --------
    >>> from tutti.topologies.text import parse_topology
    >>> transitive_cost(parse_topology("torus:4x4"))
    (4, Fraction(15, 16))
    """
    values = transitive_workloads(topology)
    degree = topology.degree
    if degree is None:
        raise InputError(f"{topology.name} is not regular, so not vertex-transitive")
    return len(values), Fraction(degree, topology.num_ranks) * sum(values, Fraction(0))


def transitive_workloads(topology: Topology) -> tuple[Fraction, ...]:
    """Return U_{0,t} for every step t, in shards a link.

    Raises
    ------
    InputError
        If node 0 has too many in-links.
    """
    links = topology.in_links[1][: topology.in_degrees[0]]
    if len(links) > (most := np.iinfo(np.int64).bits - 2):  # a mask holds them
        raise InputError(f"{topology.name} has {len(links)} in-links a node; at most {most}")
    neighbours = topology.source[links].astype(np.int64)
    hops = hop_distances(transpose(topology), np.concatenate([[0], neighbours]))
    eligible = (hops[1:] + 1 == hops[0]).T @ (1 << np.arange(len(links), dtype=np.int64))
    return solve_patterns(_patterns(hops[0, 1:].astype(np.int64), eligible[1:], len(links)))


def _patterns(hops: Int64Array, eligible: Int64Array, num_links: int) -> Patterns:
    """Return a pattern for each step, with the classes of the sources at that distance."""
    keys, sizes = np.unique(np.stack([hops, eligible]), axis=1, return_counts=True)
    steps = int(hops.max())
    bits = (keys[1][:, None] >> np.arange(num_links)) & 1
    return Patterns(
        of_job=np.arange(steps, dtype=np.int32),
        offsets=np.searchsorted(keys[0], np.arange(1, steps + 2)).astype(np.int64),
        size=sizes.astype(np.int64),
        starts=offsets_of(bits.sum(axis=1)),
        link=np.nonzero(bits)[1].astype(np.int32),
        num_links=num_links,
    )


def solve_patterns(patterns: Patterns) -> tuple[Fraction, ...]:
    """Return U of each pattern."""
    return tuple(Fraction(top, bottom) for top, bottom in _by_newton(patterns).tolist())


@kernel
def _by_newton(p: Patterns) -> Int64Array:
    """Return (numerator, denominator) of U, shape (patterns, 2).

    The ratio of any set of classes is a lower bound; a set that does not fit within it has a larger one.
    """
    ratios = np.zeros((len(p.offsets) - 1, 2), np.int64)
    flow = np.zeros(len(p.link), np.int64)
    for pattern in range(len(ratios)):
        ratios[pattern, 1] = 1
        tight = np.ones(p.offsets[pattern + 1] - p.offsets[pattern], np.bool_)
        while tight.any():
            begin = p.offsets[pattern]
            sources = 0
            used = np.zeros(p.num_links, np.bool_)
            for i in range(len(tight)):
                if tight[i]:
                    sources += p.size[begin + i]
                    for entry in range(p.starts[begin + i], p.starts[begin + i + 1]):
                        used[p.link[entry]] = True
            ratios[pattern, 0], ratios[pattern, 1] = sources, used.sum()
            tight = share(p, pattern, ratios[pattern, 1], np.full(p.num_links, ratios[pattern, 0]), flow)
    return ratios


@dataclass(frozen=True)
class LinkTime:
    """The times of a link, in seconds, exact: α, and the time of each shard."""

    alpha: Fraction
    shard: Fraction

    def brings(self, until: Fraction) -> Fraction:
        """Return how many shards it brings until then."""
        return max(Fraction(0), (until - self.alpha) / self.shard)


@dataclass(frozen=True, eq=False)
class SubproblemTimes(SubproblemOptima):
    """U of every subproblem, in seconds, and how to reach it; `total` is what the allgather takes at most.

    Parameters
    ----------
    topology, steps, of_job, values
        As of `SubproblemOptima`.
    size
        M in bytes.
    patterns
        The distinct subproblems; those on different links are kept apart.
    shares
        The amount that each class brings over each of its links by then.
    """

    size: Fraction
    patterns: Patterns
    shares: LinkShares


def times(work: Frontiers, size: Fraction, chunks: int | None = None) -> SubproblemTimes:
    """Return U of every subproblem (u, t), for M = `size` bytes.

    Parameters
    ----------
    work
        The subproblems of a switch-free network.
    size
        M in bytes, exact, above 0.
    chunks
        P, to bring equal chunks whole; None: shards may be cut anywhere.

    Raises
    ------
    NoSchedule
        If the parts of a shard do not fit 64 bits.

    Examples
    --------
    >>> from tutti.models.bfb.frontiers import frontiers
    >>> from tutti.topologies.text import parse_topology
    >>> uneven = frontiers(parse_topology("torus:3x3?bandwidth=2GB/s,1GB/s&alpha=0us"))
    >>> [str(u * 10**6) for u in times(uneven, Fraction(9000)).peaks]  # in step 2, 4 KB at 2 · (2 + 1) GB/s
    ['1', '2/3']
    """
    topology, patterns = work.topology, distinct_patterns(work)
    offsets, links = topology.in_links
    position = np.arange(topology.num_links) - np.repeat(offsets[:-1], np.diff(offsets))
    kinds = np.full((topology.num_ranks, patterns.num_links), -1, dtype=np.int64)
    kinds[topology.target[links], position] = link_kinds(topology)[links]
    distinct, of_node = np.unique(kinds, axis=0, return_inverse=True)
    node_class = np.repeat(of_node.reshape(-1), work.steps)
    keys, of_job = np.unique(patterns.of_job * len(distinct) + node_class, return_inverse=True)
    chosen, node_of = np.divmod(keys, len(distinct))
    patterns, kinds = _taken(patterns, chosen, of_job.reshape(-1).astype(np.int32)), distinct[node_of]
    _, first = np.unique(link_kinds(work.topology), return_index=True)
    examples = [work.topology.link(int(link)) for link in first]  # of each kind, with α and a shard of M/N
    shard = size / work.topology.num_ranks
    costs = [LinkTime(link.alpha, shard / link.bandwidth) for link in examples]
    solver = _Solver(patterns, kinds, costs, chunks)
    solved = [solver.solve(pattern) for pattern in range(len(kinds))]
    units = np.array([unit for _, unit in solved], dtype=np.int64)
    values = tuple(value for value, _ in solved)
    shares = LinkShares(units, solver.flow)
    return SubproblemTimes(topology, work.steps, patterns.of_job, values, size, patterns, shares)


def least_time(amount: int, links: Sequence[LinkTime]) -> Fraction:
    """Return the earliest time by which the links together have brought `amount` shards.

    Examples
    --------
    >>> fast, late = LinkTime(Fraction(1), Fraction(1)), LinkTime(Fraction(3), Fraction(1))
    >>> [str(least_time(n, [fast, late])) for n in (1, 2, 3)]
    ['2', '3', '7/2']
    """
    spent, rate = Fraction(amount), Fraction(0)
    until = None
    for link in sorted(links, key=lambda link: link.alpha):
        if until is not None and until <= link.alpha:
            break
        spent, rate = spent + link.alpha / link.shard, rate + 1 / link.shard
        until = spent / rate
    return Fraction(0) if until is None else until


def least_time_in_chunks(amount: int, links: Sequence[LinkTime], chunks: int) -> Fraction:
    """Return the earliest time for `amount` shards in whole chunks, of which a shard has `chunks`."""
    until = least_time(amount, links)
    brought = [math.floor(link.brings(until) * chunks) for link in links]
    while sum(brought) < amount * chunks:
        done = [link.alpha + (n + 1) * link.shard / chunks for link, n in zip(links, brought, strict=True)]
        until = min(done)
        brought = [n + (end == until) for n, end in zip(brought, done, strict=True)]
    return until


def _taken(patterns: Patterns, chosen: Int64Array, of_job: Int32Array) -> Patterns:
    classes = _ranges(patterns.offsets, chosen)
    entries = _ranges(patterns.starts, classes)
    return Patterns(
        of_job,
        offsets_of(np.diff(patterns.offsets)[chosen]),
        patterns.size[classes],
        offsets_of(np.diff(patterns.starts)[classes]),
        patterns.link[entries],
        patterns.num_links,
    )


def _ranges(offsets: Int64Array, chosen: Int64Array) -> Int64Array:
    """Return the numbers in offsets[i] .. offsets[i + 1] - 1 for each chosen i in turn."""
    lengths = np.diff(offsets)[chosen]
    within = np.arange(lengths.sum()) - np.repeat(offsets_of(lengths)[:-1], lengths)
    return np.repeat(offsets[chosen], lengths) + within


class _Solver:
    """Newton's method on one pattern after the other; `flow` collects the amounts."""

    def __init__(
        self, patterns: Patterns, kinds: Int64Array, costs: Sequence[LinkTime], chunks: int | None
    ) -> None:
        self.patterns, self.kinds, self.costs, self.chunks = patterns, kinds, costs, chunks
        self.flow = np.zeros(len(patterns.link), np.int64)

    def solve(self, pattern: int) -> tuple[Fraction, int]:
        """Return U and the parts of a shard in which the flow counts."""
        begin, end = self.patterns.offsets[pattern], self.patterns.offsets[pattern + 1]
        value, unit = Fraction(0), self.chunks or 1
        overfull = np.ones(end - begin, np.bool_)
        while overfull.any():
            value = self._least(pattern, int(begin), overfull)
            unit, capacity = self._capacities(pattern, value)
            overfull = share(self.patterns, pattern, unit, capacity, self.flow)
        return value, unit

    def _least(self, pattern: int, begin: int, chosen: BoolArray) -> Fraction:
        """Return U_J of the chosen classes."""
        p, classes = self.patterns, begin + np.flatnonzero(chosen)
        used = np.unique(p.link[_ranges(p.starts, classes)])
        links = [self.costs[kind] for kind in self.kinds[pattern, used]]
        amount = int(p.size[classes].sum())
        if self.chunks is None:
            return least_time(amount, links)
        return least_time_in_chunks(amount, links, self.chunks)

    def _capacities(self, pattern: int, until: Fraction) -> tuple[int, Int64Array]:
        """Return a unit in which all capacities within U are whole, and these, cut off at the whole need."""
        brought = [self.costs[k].brings(until) if k >= 0 else Fraction(0) for k in self.kinds[pattern]]
        unit = self.chunks or math.lcm(*(amount.denominator for amount in brought))
        p = self.patterns
        everything = int(p.size[p.offsets[pattern] : p.offsets[pattern + 1]].sum()) * unit
        if everything > INT64_MAX:
            raise NoSchedule(f"bfb: {TOO_FINE}")
        whole = [min(math.floor(amount * unit), everything) for amount in brought]
        return unit, np.array(whole, dtype=np.int64)
