"""The exact times of heterogeneous BFB, linear program (A.12), with no α paid on links that carry nothing.

Subproblem (u, t) is to bring the shards at distance t to u, each over its eligible in-links, so that the last
in-link is done as early as possible. In-link w needs α_w and then s_w = (M/N) / B_w a shard, so within U it
brings max(0, (U - α_w) / s_w): where U <= α_w nothing, and then nothing is paid for it. By Hall's theorem

    U = max over sets J of sources of the least U_J with
        |J| <= sum over w in N(J) of max(0, (U_J - α_w) / s_w)

with N(J) the links that some source in J may use. U_J has a closed form: the links that are in use by then
are the first few by α, and on them U_J = (|J| + sum of α_w / s_w) / (sum of 1 / s_w). U rises from the U_J of
all sources to that of a set that does not fit, found by a flow (`models.bfb.sharing`), until everything fits
(Newton's method). All numbers are rationals, so the result is the optimum itself.

With P equal chunks a shard, a link brings floor(P (U - α_w) / s_w) chunks. U_J is then the first moment at
which these are enough. Since flows in whole numbers suffice, that optimum is exact, too.

`models.bfb.model` has the program itself. Source: dissertation, A.5.3 (and A.5.2 for chunks).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tutti.models.bfb.counting import largest_by_step
from tutti.models.bfb.frontiers import Frontiers, Patterns, distinct_patterns
from tutti.models.bfb.schedule import TOO_FINE
from tutti.models.bfb.sharing import LinkShares, share
from tutti.topologies.errors import NoSchedule
from tutti.topologies.exact import INT64_MAX, BoolArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.symmetry import link_kinds
from tutti.topologies.topology import Topology


@dataclass(frozen=True)
class LinkTime:
    """The times of a link, in seconds, exact: α, and the time of each shard."""

    alpha: Fraction
    shard: Fraction

    def brings(self, until: Fraction) -> Fraction:
        """Return how many shards it brings until then."""
        return max(Fraction(0), (until - self.alpha) / self.shard)


@dataclass(frozen=True, eq=False)
class SubproblemTimes:
    """U of every subproblem, in seconds, and how to reach it.

    Parameters
    ----------
    topology, steps, size
        The network, D(G), and M in bytes.
    patterns
        The distinct subproblems; those on different links are kept apart.
    values
        U of each, exact; 0 where no source is at that distance.
    shares
        The amount that each class brings over each of its links by then.
    """

    topology: Topology
    steps: int
    size: Fraction
    patterns: Patterns
    values: tuple[Fraction, ...]
    shares: LinkShares

    def __getitem__(self, job: tuple[int, int]) -> Fraction:
        """Return U of (u, t), t from 1."""
        u, t = job
        return self.values[self.patterns.of_job[u * self.steps + t - 1]]

    @property
    def peaks(self) -> tuple[Fraction, ...]:
        """The largest U of each step, over all u."""
        return largest_by_step(self.values, self.patterns.of_job.reshape(-1, self.steps))

    @property
    def total(self) -> Fraction:
        """The sum of `peaks`: what the allgather takes at most, in seconds."""
        return sum(self.peaks, Fraction(0))


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
    return SubproblemTimes(work.topology, work.steps, size, patterns, values, LinkShares(units, solver.flow))


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
