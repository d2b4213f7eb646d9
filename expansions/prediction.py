"""Predicted costs of expansions, before anything is built (dissertation, Theorems 7 and 10 to 13).

====================  ==============  ==========================================  =================
expression            T_L             T_B in M/B                                  holds
====================  ==============  ==========================================  =================
L(G)                  T_L(G) + 1      T_B(G) + 1/N                                =, else <= (*)
G * n                 T_L(G) + 1      T_B(G) + (n - 1)/(n N)                      =
G^n                   n T_L(G)        T_B(G) N/(N - 1) (N^n - 1)/N^n              =
G1 x G2 x ...         sum of T_L(Gi)  (N - 1)/N if each Gi is simple and optimal  = (Theorem 13)
Bi(G)                 T_L(G)          T_B(G) where G is reverse-symmetric (**)    = (A.1.6)
====================  ==============  ==========================================  =================

(*) Equal where G's schedule is an optimal BFB schedule and every node has two out-neighbours or more
(Theorem 10); else it is an upper bound (Theorem 7). For other products and for bases, BFB is counted on the
network itself, except where Table A.3 states the cost.

(**) If a base has no such symmetry, each step takes the larger of its times on the base and on the transpose.
For other networks without it there is no prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import prod

import numpy as np

from tutti.expansions.reversal import is_reversible
from tutti.expansions.searched import SEARCHED
from tutti.models.bfb.counting import transitive_cost, workloads
from tutti.models.bfb.kautz import has_intervals, kautz_cost, kautz_peaks
from tutti.topologies.errors import Unsupported
from tutti.topologies.families.expressions import Base, Both, Degree, Expression, LineGraph, Power, Product
from tutti.topologies.families.products import self_loops
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose

TRANSITIVE = frozenset(("hamming", "circulant", "directed_circulant", "torus"))
"""Families of bases that are vertex-transitive: the subproblems of one node are those of all nodes."""


def bandwidth_factor(nodes: int) -> Fraction:
    """Return the least T_B in M/B, (N - 1)/N (Theorem 4)."""
    return Fraction(nodes - 1, nodes)


@dataclass(frozen=True)
class Prediction:
    """The cost of the schedule that an expression carries.

    Parameters
    ----------
    nodes, degree
        N and d.
    tl
        T_L in comm steps.
    tb
        T_B in M/B: exact, or an upper bound.
    exact
        Whether T_B is exact.
    bfb
        Whether the schedule is an optimal BFB schedule.
    two_neighbours
        Whether every node has at least two out-neighbours.
    simple
        Whether the network is known to have no parallel links and no self-loops.
    loops
        Whether it has self-loops.
    bidirectional
        Whether every link has one back.
    note
        Why there is no performance bound; usually empty.
    """

    nodes: int
    degree: int
    tl: int
    tb: Fraction
    exact: bool
    bfb: bool
    two_neighbours: bool
    simple: bool
    loops: bool
    bidirectional: bool
    note: str = ""

    @property
    def bandwidth_optimal(self) -> bool:
        """Whether T_B is (N - 1)/N, the least there is (Theorem 4)."""
        return self.tb == bandwidth_factor(self.nodes)

    @property
    def multiplies(self) -> bool:
        """Whether Theorem 13 allows it as a factor: nontrivial, simple, with a BW-optimal BFB schedule."""
        return self.bfb and self.exact and self.simple and self.nodes > 1 and self.bandwidth_optimal


def predict(expression: Expression) -> Prediction:
    """Return the cost of an expression's schedule; only bases and products of different networks are built.

    Raises
    ------
    InputError
        If a part can't be built.
    Unsupported
        If a part is not regular, or a G in Bi(G) is neither a base nor reverse-symmetric.
    """
    match expression:
        case LineGraph(of, times):
            result = predict(of)
            for _ in range(times):
                result = _line(result)
            return result
        case Degree(of, factor):
            return _degree(predict(of), factor)
        case Power(of, exponent):
            return _power(predict(of), exponent)
        case Product():
            return _product(expression)
        case Both(of):
            return _both(of)
        case Base() if expression in SEARCHED:
            topology = expression.topology()
            tl, degree = len(SEARCHED[expression].loads), topology.out_degrees[0]
            return replace(_optimal(topology.num_ranks, int(degree), tl, int(degree), False), bfb=False)
        case Base(family, arguments) if family in KNOWN:
            return KNOWN[family](*arguments)
        case _:
            return measured(expression)


def note_of(expression: Expression) -> str:
    """Return a note on a missing performance bound, with the factors that Theorem 13 excludes, or "".

    Raises
    ------
    InputError
        If a factor can't be built.
    """
    match expression:
        case LineGraph(of) | Degree(of) | Power(of) | Both(of):
            return note_of(of)
        case Product():
            factors = dict.fromkeys(factors_of(expression))
            weak = [str(factor) for factor in factors if not _multiplies(factor)]
            wanted = "Theorem 13 needs simple factors with BW-optimal BFB schedules"
            return f"no performance bound: {wanted}, unlike {', '.join(weak)}" if weak else ""
        case _:
            return ""


def _multiplies(factor: Expression) -> bool:
    """Return whether Theorem 13 allows a factor."""
    try:
        return predict(factor).multiplies
    except Unsupported:  # nothing is known of it
        return False


def factors_of(expression: Expression) -> tuple[Expression, ...]:
    """Return the factors of a product or power; those that are products or powers are split again."""
    match expression:
        case Power(of, exponent):
            return factors_of(of) * exponent
        case Product(factors):
            return tuple(part for factor in factors for part in factors_of(factor))
        case _:
            return (expression,)


@lru_cache(maxsize=65536)
def measured(expression: Base | Product) -> Prediction:
    """Return the cost of BFB on the network itself."""
    topology = expression.topology()
    degree = topology.degree
    if degree is None:
        raise Unsupported(f"expansion needs regular networks; {topology.name} is not")
    tl, tb = _breadth_first_cost(expression, topology)
    pairs = np.unique(np.stack([topology.source, topology.target]), axis=1)
    neighbours = np.bincount(pairs[0], minlength=topology.num_ranks)
    return Prediction(
        nodes=topology.num_ranks,
        degree=degree,
        tl=tl,
        tb=tb,
        exact=True,
        bfb=True,
        two_neighbours=bool((neighbours > 1).all()),
        simple=pairs.shape[1] == topology.num_ranks * degree,
        loops=bool(self_loops(topology).any()),
        bidirectional=_bidirectional(topology),
    )


def _bidirectional(topology: Topology) -> bool:
    """Return whether as many links lead back as forth between any two nodes."""
    size = topology.num_ranks
    forth = np.sort(topology.source.astype(np.int64) * size + topology.target)
    return bool((forth == np.sort(topology.target.astype(np.int64) * size + topology.source)).all())


def _breadth_first_cost(expression: Base | Product, topology: Topology) -> tuple[int, Fraction]:
    """Return T_L and T_B of BFB, by one node if all are equivalent."""
    if isinstance(expression, Base) and expression.family in TRANSITIVE:
        return transitive_cost(topology)
    found = workloads(topology)
    tb = found.tb
    if tb is None:
        raise Unsupported(f"expansion needs links of one bandwidth; {topology.name} has others")
    return found.steps, tb


def _line(base: Prediction) -> Prediction:
    """Return the cost of L(G) (Theorems 7 and 10); a network of degree 1 is a ring, its own line graph."""
    if base.degree == 1:
        return base
    optimal = base.bfb and base.two_neighbours
    return replace(
        base,
        nodes=base.degree * base.nodes,
        tl=base.tl + 1,
        tb=base.tb + Fraction(1, base.nodes),
        exact=base.exact and optimal,
        bfb=optimal,
        two_neighbours=base.degree > 1,
        bidirectional=False,
    )


def _degree(base: Prediction, n: int) -> Prediction:
    """Return the cost of G * n (Theorem 11); G * 1 is G."""
    if n == 1:
        return base
    return replace(
        base,
        nodes=n * base.nodes,
        degree=n * base.degree,
        tl=base.tl + 1,
        tb=base.tb + Fraction(n - 1, n * base.nodes),
        bfb=False,
        two_neighbours=base.two_neighbours or n > 1,
    )


def _power(base: Prediction, n: int) -> Prediction:
    """Return the cost of G^n (Theorem 12)."""
    grown = base.nodes**n
    return replace(
        base,
        nodes=grown,
        degree=n * base.degree,
        tl=n * base.tl,
        tb=base.tb * Fraction(base.nodes, base.nodes - 1) * Fraction(grown - 1, grown),
        bfb=base.bfb and n == 1,
        two_neighbours=base.two_neighbours or n > 1,
    )


def _both(of: Expression) -> Prediction:
    """Return the cost of Bi(G) (A.1.6).

    The schedule no longer follows shortest paths, and a link back may be parallel to another link. Bases need
    no symmetry. A stored schedule loads the links of its base as its twin loads those of the transpose, and
    BFB's cost is counted on both.
    """
    base, tb = predict(of), None
    if of not in SEARCHED and not is_reversible(of):
        if not isinstance(of, Base):
            raise Unsupported(f"Bi({of}): its cost is not known beforehand, as {of} is not reverse-symmetric")
        tb = _either_way(of)
    return replace(
        base,
        tb=base.tb if tb is None else tb,
        degree=2 * base.degree,
        bfb=False,
        two_neighbours=base.nodes > 2,
        simple=False,
        bidirectional=True,
    )


@lru_cache(maxsize=4096)
def _either_way(base: Base) -> Fraction:
    """Return T_B if each step waits for the busiest link of the base and of its transpose."""
    topology = base.topology()
    by_intervals = base.family == "gen_kautz" and has_intervals(*base.arguments)
    forth = kautz_peaks(*base.arguments) if by_intervals else workloads(topology).peaks
    peaks = zip(forth, workloads(transpose(topology)).peaks, strict=True)
    return Fraction(topology.degree or 0, topology.num_ranks) * sum(map(max, peaks))


def _product(expression: Product) -> Prediction:
    """Return the cost of a product: by Theorem 13, its factors split as far as possible, or by counting."""
    note = note_of(expression)
    if note:
        return replace(measured(expression), note=note)
    factors = [predict(factor) for factor in factors_of(expression)]
    nodes, degree = prod(f.nodes for f in factors), sum(f.degree for f in factors)
    both_ways = all(f.bidirectional for f in factors)
    several = len(factors) > 1 or factors[0].two_neighbours
    return replace(
        _optimal(nodes, degree, sum(f.tl for f in factors), degree, both_ways), two_neighbours=several
    )


def _optimal(nodes: int, degree: int, tl: int, neighbours: int, bidirectional: bool) -> Prediction:
    """Return the cost of a base with a BW-optimal BFB schedule and `neighbours` out-neighbours a node."""
    return Prediction(
        nodes=nodes,
        degree=degree,
        tl=tl,
        tb=bandwidth_factor(nodes),
        exact=True,
        bfb=True,
        two_neighbours=neighbours > 1,
        simple=neighbours == degree,
        loops=False,
        bidirectional=bidirectional,
    )


def _de_bruijn(d: int, n: int) -> Prediction:
    """Return the cost of DBJ(d, n), in which one walk of n links leads from every node to every node.

    So no source has more than one eligible link, and of the sources at distance t at most d^(t-1) have a walk
    of t links over a given link. Node 10...0 reaches this number for t < n, over every link: the last digits
    of these sources begin with its only 1, which no longer overlap of the two allows. Node 0...0 reaches it
    for t = n, over the link from 10...0. T_B is d/N times the sum of d^(t-1).
    """
    whole = d**n
    bare = _optimal(whole, d, n, d - 1, n == 1)
    return replace(bare, tb=Fraction(d, d - 1) * Fraction(whole - 1, whole), simple=False, loops=True)


def kautz_loops(d: int, n: int) -> bool:
    """Return whether Π_{d,n} has self-loops: x = -(d x + a) for some a in 1..d, unless d + 1 divides n."""
    return n % (d + 1) > 0


@lru_cache(maxsize=65536)
def _kautz(d: int, n: int) -> Prediction:
    """Return the cost of Π_{d,n}. The d links of a node lead to d nodes where n > d; one may be itself.

    The link from x to -(d x + a) has one back if this b is among 1..d, modulo n: b = d a - (1 - d²) x.
    """
    if n <= d or not has_intervals(d, n):
        return measured(Base("gen_kautz", (d, n)))
    tl, tb = kautz_cost(d, n)
    back = (d * np.arange(1, d + 1) - (1 - d * d) * np.arange(n)[:, None]) % n
    loops = kautz_loops(d, n)
    both = bool(((back >= 1) & (back <= d)).all())
    bare = _optimal(n, d, tl, d - loops, both)
    return replace(bare, tb=tb, simple=not loops, loops=loops)


KNOWN: Mapping[str, Callable[..., Prediction]] = {
    "complete": lambda m: _optimal(m, m - 1, 1, m - 1, True),
    "complete_bipartite": lambda d: _optimal(2 * d, d, 2 if d > 1 else 1, d, True),
    "biring": lambda d, m: _optimal(m, d, m // 2, min(m - 1, 2), True),
    "uniring": lambda d, m: _optimal(m, d, m - 1, 1, m == 2),
    "debruijn": _de_bruijn,
    "gen_kautz": _kautz,
}
"""Bases whose cost Table A.3 states or implies; the tests compare it with BFB's counting."""
