"""The exact workloads U of BFB's linear program (3.1), by counting.

The subproblem (u, t) is to share divisible jobs (the sources at distance t) evenly among processors (the
in-links of u), each job on its eligible processors only. By LP duality (Theorem 19 is the balanced case)

    U = max over nonempty sets S of in-links of  (sources whose eligible in-links all lie in S) / |S|,

a rational whose denominator is at most the in-degree. Up to `SUBSET_LINKS` in-links the maximum is taken over
all subsets; above, Newton's method raises a guess to the ratio of a violated set, found by a flow, until the
flow (`models.bfb.sharing`) places everything. Both are exact and agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tutti.models.bfb.frontiers import Patterns, distinct_patterns, frontiers
from tutti.models.bfb.sharing import share
from tutti.topologies.exact import Int32Array, Int64Array
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Topology

SUBSET_LINKS = 10
"""Largest in-degree at which the maximum is taken over all subsets of in-links. The time doubles with each
link."""


@dataclass(frozen=True, eq=False)
class Workloads:
    """U of every subproblem, in shards a link.

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
        return largest_by_step(self.values, self.of_job.reshape(-1, self.steps))

    @property
    def tb(self) -> Fraction | None:
        """T_B of equation (3.2) in units of M/B; None where the network has no degree."""
        if self.topology.degree is None:
            return None
        return Fraction(self.topology.degree, self.topology.num_ranks) * sum(self.peaks, Fraction(0))


def largest_by_step(values: Sequence[Fraction], of_job: Int32Array) -> tuple[Fraction, ...]:
    """Return the largest value of each column of a table that holds numbers of values."""
    ratios = [value.as_integer_ratio() for value in values]  # few differ, and fractions compare slowly
    ascending = sorted(dict(zip(ratios, values, strict=True)).values())
    place = {value.as_integer_ratio(): i for i, value in enumerate(ascending)}
    of_value = np.array([place[ratio] for ratio in ratios], dtype=np.int64)
    return tuple(ascending[i] for i in of_value[of_job].max(axis=0))


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


def solve_patterns(patterns: Patterns) -> tuple[Fraction, ...]:
    """Return U of each pattern, by the algorithm that suits the in-degree."""
    ratios = by_subsets(patterns) if patterns.num_links <= SUBSET_LINKS else by_newton(patterns)
    return tuple(Fraction(top, bottom) for top, bottom in ratios.tolist())


@kernel
def by_subsets(p: Patterns) -> Int64Array:
    """Return (numerator, denominator) of U, shape (patterns, 2)."""
    ratios = np.zeros((len(p.offsets) - 1, 2), np.int64)
    inside = np.empty(1 << p.num_links, np.int64)
    for pattern in range(len(ratios)):
        inside[:] = 0
        for c in range(p.offsets[pattern], p.offsets[pattern + 1]):
            mask = 0
            for entry in range(p.starts[c], p.starts[c + 1]):
                mask |= 1 << p.link[entry]
            inside[mask] += p.size[c]
        ratios[pattern, 0], ratios[pattern, 1] = densest(inside, p.num_links)
    return ratios


@kernel
def densest(inside: Int64Array, num_links: int) -> tuple[int, int]:
    """Return the best (count, size) over subsets, given how many sources have exactly each mask.

    After the subset-sum transform, inside[S] counts the sources whose mask lies in S.
    """
    for i in range(num_links):
        bit = 1 << i
        for mask in range(len(inside)):
            if mask & bit:
                inside[mask] += inside[mask ^ bit]
    top, bottom = 0, 1
    for mask in range(1, len(inside)):
        if inside[mask] * bottom > top:  # else not even |S| = 1 would win
            size = _popcount(mask)
            if inside[mask] * bottom > top * size:
                top, bottom = inside[mask], size
    return top, bottom


@kernel
def _popcount(mask: int) -> int:
    bits = 0
    while mask:
        mask &= mask - 1
        bits += 1
    return bits


@kernel
def by_newton(p: Patterns) -> Int64Array:
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
