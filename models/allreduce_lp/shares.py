"""Capacities and roots in whole numbers, and what their trees achieve: the primal side, exact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from models.allreduce_lp.arcs import Arcs
from models.allreduce_lp.cuts import BROADCAST, REDUCE, Half, throughput
from topologies.errors import InputError
from topologies.exact import INT64_MAX, BoolArray, Int32Array, Int64Array

_MOST = INT64_MAX >> 2


@dataclass(frozen=True, eq=False)
class Shares:
    """A solution of (B.5) in whole numbers, up to scale.

    Parameters
    ----------
    tails, heads
        int32, shape (arcs,).
    roots
        int64, shape (ranks,): x.
    capacity
        int64, shape (2, arcs): c^BC and c^RE.
    theta
        The largest θ for which trees of weights θ x fit, exact.
    rate
        Σ θ x when no link carries more than its bandwidth: B/s.
    broken
        Of each half a set that keeps θ from more.
    """

    tails: Int32Array
    heads: Int32Array
    roots: Int64Array
    capacity: Int64Array
    theta: Fraction
    rate: Fraction
    broken: tuple[tuple[int, BoolArray], ...]

    @property
    def value(self) -> Fraction:
        """T / M of the trees, s/B."""
        return 1 / self.rate


def shares_of(arcs: Arcs, whole: Sequence[int]) -> Shares:
    """Return the shares with these values of x, and of c^BC and c^RE of each arc in turn.

    Raises
    ------
    InputError
        If max-flows in 64 bits can't hold them.
    """
    if sum(whole) > _MOST:
        raise InputError("the solution's common denominator does not fit 64 bits")
    ends, (roots, capacity) = (arcs.tails, arcs.heads), _split(arcs, whole)
    found = {half: throughput(part) for half, part in enumerate(_halves(*ends, roots, capacity))}
    theta = min(ratio for ratio, _ in found.values())
    overload = _overload(arcs, capacity.sum(axis=0))
    rate = theta * int(roots.sum()) / overload if overload else Fraction(0)  # all may have been rounded away
    broken = tuple((half, inside) for half, (_, inside) in found.items() if inside is not None)
    return Shares(*ends, roots, capacity, theta, rate, broken)


def even_shares(arcs: Arcs) -> Shares:
    """Return shares that always have a rate: equal roots, and each link divided evenly among its arcs.

    Whole numbers stand for shares of the largest bandwidth in 2^20ths, at least one.
    """
    topology = arcs.topology
    uses = np.bincount([link for route in arcs.routes for link in route], minlength=topology.num_links)
    part = topology.bandwidth.floats / topology.bandwidth.floats.max() / np.maximum(uses, 1) * 2**20
    units = [max(1, int(min(part[list(route)]))) for route in arcs.routes]
    return shares_of(arcs, [*[1] * topology.num_ranks, *np.repeat(units, 2).tolist()])


def halves(shares: Shares) -> Iterator[Half]:
    """Yield the broadcast's network and the reduction's, this one turned round."""
    return _halves(shares.tails, shares.heads, shares.roots, shares.capacity)


def halves_of(arcs: Arcs, whole: Sequence[int]) -> Iterator[Half]:
    """Yield the same for values as `shares_of` takes them."""
    return _halves(arcs.tails, arcs.heads, *_split(arcs, whole))


def _split(arcs: Arcs, whole: Sequence[int]) -> tuple[Int64Array, Int64Array]:
    values, ranks = np.array(whole, dtype=np.int64), arcs.topology.num_ranks
    return values[:ranks], np.stack([values[ranks::2], values[ranks + 1 :: 2]])


def _halves(tails: Int32Array, heads: Int32Array, roots: Int64Array, capacity: Int64Array) -> Iterator[Half]:
    yield Half(tails, heads, capacity[BROADCAST], roots)
    yield Half(heads, tails, capacity[REDUCE], roots)


def _overload(arcs: Arcs, capacity: Int64Array) -> Fraction:
    """Return the largest ratio of a link's capacity in both halves to its bandwidth."""
    bandwidth = arcs.topology.bandwidth
    load = np.zeros(arcs.topology.num_links, dtype=np.int64)
    lengths = [len(route) for route in arcs.routes]
    np.add.at(load, [link for route in arcs.routes for link in route], np.repeat(capacity, lengths))
    ratios = zip(load.tolist(), bandwidth.numerators.tolist(), strict=True)
    return max(Fraction(amount, b) for amount, b in ratios) * bandwidth.denominator
