r"""From shares to whole trees: how many each rank roots, and how many each arc carries (B.7, last paragraph).

The exact optimum is met by as many trees as its rationals have common parts. For a given number K of trees
the roots get K x_v / Σx, rounded so that they add up to K (largest remainders first). The arcs get ⌊U·c⌋,
with the smallest U of each half at which the trees fit: that is at least what rounding all down to multiples
of 1/k gives, and trees are never lost. U is found from cut to cut, as in `models.forestcoll.fixed_k`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from models.allreduce_lp.cuts import Half
from models.allreduce_lp.shares import Shares, halves
from topologies.exact import INT64_MAX, BoolArray, Int64Array

FEW = 1000
"""Trees, where none are asked for and the optimum is not known exactly or needs too many."""

_MOST = INT64_MAX >> 8
"""Capacities and trees together; the packing's max-flows need the spare bits."""


@dataclass(frozen=True, eq=False)
class TreePlan:
    """How many trees.

    Parameters
    ----------
    roots
        int64, shape (ranks,): of each rank, as many in-trees as out-trees.
    capacity
        int64, shape (2, arcs): of each half's arcs.
    """

    roots: Int64Array
    capacity: Int64Array


def exact_plan(shares: Shares) -> TreePlan | None:
    """Return the trees that attain the shares exactly; None if θ is not 1 or they do not fit 64 bits."""
    common = int(np.gcd(np.gcd.reduce(shares.roots), np.gcd.reduce(shares.capacity, axis=None)))
    total = sum(shares.roots.tolist()) + sum(shares.capacity.ravel().tolist())
    if shares.theta != 1 or total // common > _MOST:
        return None
    return TreePlan(shares.roots // common, shares.capacity // common)


def rounded_plan(shares: Shares, trees: int) -> TreePlan:
    """Return a plan of so many trees of each half."""
    roots = _apportioned(shares.roots.tolist(), trees)
    rounded = [_fitting(half, roots) for half in halves(shares)]
    return TreePlan(roots, np.stack(rounded))


def _apportioned(x: list[int], trees: int) -> Int64Array:
    """Return whole numbers in proportion to x that add up, by largest remainders."""
    total = sum(x)
    counts = [value * trees // total for value in x]
    last = sorted(range(len(x)), key=lambda v: (-(x[v] * trees % total), v))
    for v in last[: trees - sum(counts)]:
        counts[v] += 1
    return np.array(counts, dtype=np.int64)


def _fitting(half: Half, roots: Int64Array) -> Int64Array:
    """Return ⌊U·c⌋ at the smallest U at which every set lets out as many trees as start in it."""
    total, source = int(roots.sum()), len(roots)
    density = Fraction(0)
    for inside in np.concatenate([np.eye(source, dtype=bool), ~np.eye(source, dtype=bool)]):
        density = _raised(half, inside, int(roots[inside].sum()), density)
    while True:
        capacity = _floors(half, density)
        network = replace(half, capacity=capacity, roots=roots).network()
        network.absorb(source)
        for sink in range(source):
            if network.grow(sink, total) < total:
                inside = network.cut()[:source]
                density = _raised(half, inside, int(roots[inside].sum()), density)
                break
            network.absorb(sink)
        else:
            return capacity


def _floors(half: Half, density: Fraction) -> Int64Array:
    p, q = density.numerator, density.denominator
    return np.array([c * p // q for c in half.capacity.tolist()], dtype=np.int64)


def _raised(half: Half, inside: BoolArray, needed: int, density: Fraction) -> Fraction:
    """Return the smallest U, at least `density`, at which the arcs out of a set carry `needed` trees."""
    exits = half.capacity[inside[half.tails] & ~inside[half.heads]].tolist()
    exits = [capacity for capacity in exits if capacity]
    if not needed:
        return density
    density = max(density, Fraction(needed, sum(exits)))
    while sum(math.floor(density * c) for c in exits) < needed:
        density = min(Fraction(math.floor(density * c) + 1, c) for c in exits)
    return density
