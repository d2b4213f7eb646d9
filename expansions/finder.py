"""The topology finder: all Pareto-efficient networks of N nodes and degree d (dissertation, section 3.5.4).

It works bottom-up over the sizes and degrees from which (N, d) can be reached:

    (N, d)  from  bases | L(N/d, d) | (N/n, d/n) * n | (m, d/n)^n with m^n = N | (N1, d1) x (N2, d2)

and, where every link must have one back, instead of L from Bi(N, d/2) of bases and of reverse-symmetric
networks (A.1.6). The bases are those of Table A.3.

At every (N, d) a candidate is dropped if another is no worse in T_L and T_B and has all of the properties by
which the first can grow. Costs are predicted (`expansions.prediction`). Only products that Theorem 13 makes
BW-optimal are formed, and of these one of least T_L is enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from tutti.expansions.prediction import Prediction, factors_of, kautz_loops, predict
from tutti.expansions.reversal import is_reversible
from tutti.expansions.searched import SEARCHED
from tutti.schedules.cost import moore_optimal_steps
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.families.algebraic import distance_regular_graphs
from tutti.topologies.families.circulants import least_offsets
from tutti.topologies.families.expressions import Base, Both, Degree, Expression, LineGraph, Power, Product
from tutti.topologies.graphs.shortest_paths import diameter

MOST_SEARCHED = 256
"""Largest N for which circulants of more than two offsets are searched for, which takes a second each."""

MOST_OFFSETS = 16
"""Largest number of offsets of a circulant that is searched for."""


def bases(nodes: int, degree: int) -> Iterator[Base]:
    """Yield the base graphs of this size and degree, those of more symmetry first.

    Hamming graphs, tori and hypercubes are powers and products of these, Kautz graphs line graphs.
    """
    if nodes == degree + 1:
        yield Base("complete", (nodes,))
    if nodes == 2 * degree and degree > 1:
        yield Base("complete_bipartite", (degree,))
    if nodes == degree + 2:
        yield Base("directed_circulant", (degree,))
    if nodes in distance_regular_graphs(degree):
        yield Base("distance_regular", (degree, nodes))
    yield from (base for base, size in _searched() if size == (nodes, degree))
    yield from _circulants(nodes, degree)
    if nodes > 1:
        yield Base("uniring", (degree, nodes))
    yield from _general(nodes, degree)


@cache
def _searched() -> list[tuple[Base, tuple[int, int]]]:
    built = ((base, base.topology()) for base in SEARCHED)
    return [(base, (topology.num_ranks, topology.degree or 0)) for base, topology in built]


def _circulants(nodes: int, degree: int) -> Iterator[Base]:
    if degree % 2:
        return
    if nodes > 2:
        yield Base("biring", (degree, nodes))
    few = degree == 4 or (nodes <= MOST_SEARCHED and degree <= 2 * MOST_OFFSETS)
    if degree >= 4 and nodes > degree + 1 and few:
        yield Base("circulant", (nodes, *least_offsets(nodes, degree // 2)))


def _general(nodes: int, degree: int) -> Iterator[Base]:
    if degree < 2:
        return
    if nodes > degree + 1:
        yield Base("gen_kautz", (degree, nodes))
    power, size = 1, degree
    while size < nodes:
        power, size = power + 1, size * degree
    if size == nodes and power > 1:
        yield Base("debruijn", (degree, power))


MOST_NODES = 10**5
"""Largest N that is searched: the cost of a generalized Kautz graph takes N² steps, half a minute."""

MOST_DEGREE = 128
"""Largest d that is searched."""

MOST_COUNTED = 10_000
"""Largest N at which BFB is counted from all nodes, which takes N² numbers."""


@dataclass(frozen=True)
class Candidate:
    """A network and what its schedule costs."""

    expression: Expression
    cost: Prediction

    @property
    def traits(self) -> tuple[bool, ...]:
        """The properties that decide how it can grow and with which guarantees; True is better."""
        cost = self.cost
        return (
            cost.multiplies,
            not cost.loops,
            cost.exact,
            cost.bfb and cost.two_neighbours,
            cost.bidirectional,
        )

    def beats(self, other: Candidate) -> bool:
        """Whether this one makes the other unnecessary."""
        return (
            self.cost.tl <= other.cost.tl
            and self.cost.tb <= other.cost.tb
            and all(mine >= theirs for mine, theirs in zip(self.traits, other.traits, strict=True))
        )


@dataclass
class Finder:
    """A search that remembers what it has found for smaller networks.

    Parameters
    ----------
    bidirectional
        Whether every link must have one back.
    most_hops
        The largest diameter of the networks that are returned; None: any.
    reversible
        Whether a network must be made of reverse-symmetric bases (`expansions.reversal`).
    """

    bidirectional: bool = False
    most_hops: int | None = None
    reversible: bool = False
    _found: dict[tuple[int, int, bool], list[Candidate]] = field(default_factory=dict)
    _best: dict[tuple[int, int], Expression | None] = field(default_factory=dict)
    _one_way: Finder | None = None

    def find(self, nodes: int, degree: int) -> list[Candidate]:
        """Return the Pareto frontier, by increasing T_L and decreasing T_B.

        Raises
        ------
        InputError
            If the numbers are out of range.
        NoSchedule
            If there is no such network; the message names the nearest sizes.
        """
        _check(nodes, degree, self.most_hops)
        found = self.candidates(nodes, degree)
        if self.most_hops is not None:
            found = [c for c in found if diameter(c.expression.topology()) <= self.most_hops]
        front = frontier(found)
        if not front:
            raise NoSchedule(f"no topology of {nodes} nodes and degree {degree}{self._limits(nodes, degree)}")
        return front

    def _limits(self, nodes: int, degree: int) -> str:
        both = " with links both ways" * self.bidirectional
        if self.most_hops is not None:
            least = moore_optimal_steps(nodes, degree)
            return f"{both} of diameter at most {self.most_hops}; no network has less than {least}"
        near = ", ".join(map(str, self._nearest(nodes, degree))) or "none"
        return f"{both}; nearest N with one: {near}"

    def _nearest(self, nodes: int, degree: int) -> list[int]:
        below = (n for n in range(nodes - 1, 1, -1) if self.candidates(n, degree))
        above = (n for n in range(nodes + 1, 2 * nodes + degree + 3) if self.candidates(n, degree))
        return [n for n in (next(below, None), next(above, None)) if n is not None]

    def candidates(self, nodes: int, degree: int, *, factors: bool = False) -> list[Candidate]:
        """Return the candidates that no other beats; with `factors`, only those that Theorem 13 admits."""
        key = (nodes, degree, factors)
        if key not in self._found:
            self._found[key] = []  # a network is never made of itself
            kept: list[Candidate] = []
            made = self._factors(nodes, degree) if factors else self._expressions(nodes, degree)
            for expression in filter(self._admits, made):
                new = Candidate(expression, predict(expression))
                if (self.bidirectional and not new.cost.bidirectional) or (
                    factors and not new.cost.multiplies
                ):
                    continue
                if not any(old.beats(new) for old in kept):
                    kept = [*(old for old in kept if not new.beats(old)), new]
            self._found[key] = kept
        return self._found[key]

    def _admits(self, expression: Expression) -> bool:
        """Whether an expression may be used; expansions of reverse-symmetric bases are reverse-symmetric."""
        return not (self.reversible and isinstance(expression, Base)) or is_reversible(expression)

    def _expressions(self, nodes: int, degree: int) -> Iterator[Expression]:
        yield from bases(nodes, degree)
        yield from self._powers(nodes, degree)
        yield from self._products(nodes, degree)
        yield from self._copies(nodes, degree)
        if nodes % degree == 0 and degree > 1 and not self.bidirectional:
            yield from (_line(c.expression) for c in self.candidates(nodes // degree, degree))
        if self.bidirectional:
            yield from self._both_ways(nodes, degree)

    def _factors(self, nodes: int, degree: int) -> Iterator[Expression]:
        """Yield what may be a factor. L(G) has a T_B of at least 1; G * n, G^n and Bi(G) are not BFB."""
        yield from (
            base
            for base in bases(nodes, degree)
            if base.family != "gen_kautz" or not kautz_loops(*base.arguments)
        )
        yield from self._products(nodes, degree)

    def _both_ways(self, nodes: int, degree: int) -> Iterator[Expression]:
        if degree % 2 == 0:
            self._one_way = self._one_way or Finder(reversible=True)
            yield from (Both(c.expression) for c in self._one_way.candidates(nodes, degree // 2))
            counted = bases(nodes, degree // 2) if nodes <= MOST_COUNTED else ()
            yield from (Both(base) for base in counted if not is_reversible(base))

    def _copies(self, nodes: int, degree: int) -> Iterator[Expression]:
        for n in _divisors(math.gcd(nodes, degree)):
            for candidate in self.candidates(nodes // n, degree // n):
                if not candidate.cost.loops:
                    yield Degree(candidate.expression, n)

    def _powers(self, nodes: int, degree: int) -> Iterator[Expression]:
        for n in _divisors(degree):
            root = round(nodes ** (1 / n))  # exact for all N that are searched
            if root > 1 and root**n == nodes:
                for candidate in self.candidates(root, degree // n):
                    if not isinstance(candidate.expression, Power):
                        yield Power(candidate.expression, n)

    def _products(self, nodes: int, degree: int) -> Iterator[Expression]:
        for left in _divisors(nodes):
            if left == nodes:
                continue
            for share in range(1, degree):
                sizes = (left, share), (nodes // left, degree - share)
                one = self._factor(*sizes[0])
                other = one and self._factor(*sizes[1])
                if one and other and sizes[0] < sizes[1]:
                    yield _multiplied(one, other)

    def _factor(self, nodes: int, degree: int) -> Expression | None:
        """Return the factor of least T_L among those that Theorem 13 admits."""
        key = nodes, degree
        if key not in self._best:
            best = min(self.candidates(*key, factors=True), key=lambda c: c.cost.tl, default=None)
            self._best[key] = None if best is None else best.expression
        return self._best[key]


def frontier(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates that no other beats in T_L and T_B; of equals, the first."""
    best: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda c: (c.cost.tl, c.cost.tb, not c.cost.exact)):
        if not best or candidate.cost.tb < best[-1].cost.tb:
            best.append(candidate)
    return best


def _check(nodes: int, degree: int, most_hops: int | None) -> None:
    if not 2 <= nodes <= MOST_NODES:
        raise InputError(f"{nodes} nodes; the finder searches 2 to {MOST_NODES}")
    if not 1 <= degree <= MOST_DEGREE:
        raise InputError(f"degree {degree}; the finder searches 1 to {MOST_DEGREE}")
    if most_hops is not None and most_hops < 1:
        raise InputError(f"a diameter of at most {most_hops}; it must be at least 1")


@cache
def _divisors(number: int) -> list[int]:
    """Return the divisors above 1."""
    return [n for n in range(2, number + 1) if number % n == 0]


def _line(of: Expression) -> LineGraph:
    return LineGraph(of.of, of.times + 1) if isinstance(of, LineGraph) else LineGraph(of)


def _multiplied(*parts: Expression) -> Expression:
    """Return the product, with equal factors combined into powers."""
    factors = [part for whole in parts for part in factors_of(whole)]
    distinct = sorted(set(factors), key=lambda part: (-factors.count(part), str(part)))
    grouped = [p if factors.count(p) == 1 else Power(p, factors.count(p)) for p in distinct]
    return grouped[0] if len(grouped) == 1 else Product(tuple(grouped))
