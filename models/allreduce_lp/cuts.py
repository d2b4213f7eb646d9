r"""Linear program (B.5) by its cuts: what max-flows of at least Σx mean, and the cuts that say otherwise.

F(s, t; G) ≥ Σ x for all ranks t if and only if, by max-flow and min-cut, every set S of ranks but the whole
one lets out what starts in it, and likewise for the in-trees takes in what ends in it:

.. math::

    c^{BC}(δ^+(S)) \ge x(S), \qquad c^{RE}(δ^-(S)) \ge x(S).        \qquad (1)

So (B.5) is a program in x, c^BC and c^RE alone, with a row for each set. Few sets matter; they are found by
max-flow where a solution breaks (1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from topologies.exact import INT64_MAX, BoolArray, Int32Array, Int64Array
from topologies.maxflow import DinicNetwork
from topologies.topology import Topology

BROADCAST, REDUCE = 0, 1
"""Which half of (1) a cut belongs to."""


@dataclass
class Cuts:
    """Sets S of ranks, each with its half of (1); they can become more.

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
        """Return the cuts around each rank and each of these parts, both halves, inside and outside."""
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
    """One half of a solution in integers: a network of ranks joined to s.

    Parameters
    ----------
    tails, heads, capacity
        The arcs, for in-trees turned round.
    roots
        int64, shape (ranks,): x.
    """

    tails: Int32Array
    heads: Int32Array
    capacity: Int64Array
    roots: Int64Array

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


def broken_cuts(half: Half, tolerance: int) -> list[BoolArray]:
    """Return for each rank a set without it that lets out less than starts in it, by more than the tolerance.

    Of the sets that let out the least, it is the largest.
    """
    source, total = len(half.roots), int(half.roots.sum())
    network = half.network()
    short = (sink for sink in range(source) if network.solve(source, sink) < total - tolerance)
    return [network.cut()[:source] for _ in short]


def throughput(half: Half) -> tuple[Fraction, BoolArray | None]:
    """Return the largest θ such that (1) holds with θ x for x, exactly, and a set that keeps it from more.

    From cut to cut, as `models.bounds.bottleneck_cut` does: the ratio falls from that of the worst set around
    or without a single rank.
    """
    ranks = np.arange(len(half.roots))
    total = int(half.roots.sum())
    best: tuple[Fraction, BoolArray | None] = (Fraction(INT64_MAX), None)
    for rank in ranks:
        for inside in (ranks == rank, ranks != rank):
            best = _less(half, inside, best)
    while best[0]:
        worse = _worse(half, total, best[0])
        if worse is None:
            return best
        best = _less(half, worse, best)
    return best


def _less(
    half: Half, inside: BoolArray, best: tuple[Fraction, BoolArray | None]
) -> tuple[Fraction, BoolArray | None]:
    roots = int(half.roots[inside].sum())
    if not roots:
        return best
    ratio = Fraction(half.exit(inside), roots)
    return (ratio, inside) if ratio < best[0] else best


def _worse(half: Half, total: int, ratio: Fraction) -> BoolArray | None:
    """Return a set whose ratio is less, or None."""
    source = len(half.roots)
    network = half.network(ratio.denominator, ratio.numerator)
    network.absorb(source)
    needed = total * ratio.numerator
    for sink in range(source):
        if network.grow(sink, needed) < needed:
            return network.cut()[:source]
        network.absorb(sink)
    return None
