"""Expression trees for networks: a base family, and the expansions of Table 3.3 applied to it.

An expression is frozen and comparable; `topology` builds the network, which keeps the expression, and ``str``
writes it as the papers do, so that `topologies.notation.parse_notation` reads it back as itself.

Source: dissertation, Tables 3.3 and A.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from topologies import families
from topologies.assembly import Values, check_size
from topologies.direct import bidirectional_ring, de_bruijn, directed_circulant, kautz, unidirectional_ring
from topologies.distance_regular import distance_regular, johnson
from topologies.errors import InputError
from topologies.products import cartesian_power, cartesian_product, degree_expansion, line_graph, self_loops
from topologies.searched import diamond, modified_de_bruijn
from topologies.topology import Topology
from topologies.transforms import union_with_transpose

_MOST_LINES = 64
"""Line graphs of line graphs: of degree 2 or more they are larger than any network that is built, and of
degree 1 they change but the labels."""

_HUGE = 64
"""An exponent that is refused for the size of its power, and quickly computed."""

_MANY = 2**64
_SHOWN = 60
"""Characters of an expression in an error."""


@dataclass(frozen=True)
class Base:
    """A network of a family, the leaf of an expression.

    Parameters
    ----------
    family
        One of `BASES`.
    arguments
        Whole numbers; of a circulant n and then the offsets.
    """

    family: str
    arguments: tuple[int, ...] = ()

    def topology(self, bandwidth: Values = None, alpha: Values = None) -> Topology:
        """Return the network, which keeps this expression and is named by it."""
        base = BASES[self.family].build(*self.arguments, bandwidth=bandwidth, alpha=alpha)
        return replace(base, name=str(self), expression=self)

    def __str__(self) -> str:
        """Return it as the papers write it."""
        return BASES[self.family].write(self.arguments)


@dataclass(frozen=True)
class Line:
    """L^n(G), the line graph taken `times` times."""

    of: Expression
    times: int = 1

    def topology(self, bandwidth: Values = None, alpha: Values = None) -> Topology:
        """Return the network, which keeps this expression and is named by it."""
        result = self.of.topology(bandwidth, alpha)
        least = int((result.out_degrees + self_loops(result)).min())
        check_size(str(self), result.num_ranks * least ** min(self.times, _HUGE), 0)
        if self.times > _MOST_LINES:
            raise InputError(f"topology {self}: L^{self.times} is too much; at most L^{_MOST_LINES}")
        for _ in range(self.times):
            result = line_graph(result)
        return replace(result, name=str(self), expression=self)

    def __str__(self) -> str:
        """Return it as the papers write it."""
        return f"L{f'^{self.times}' * (self.times > 1)}({self.of})"


@dataclass(frozen=True)
class Degree:
    """G * n, the degree expansion."""

    of: Expression
    factor: int

    def topology(self, bandwidth: Values = None, alpha: Values = None) -> Topology:
        """Return the network, which keeps this expression and is named by it."""
        result = degree_expansion(self.of.topology(bandwidth, alpha), self.factor)
        return replace(result, name=str(self), expression=self)

    def __str__(self) -> str:
        """Return it as the papers write it."""
        return f"{_within(self.of, Product)} * {self.factor}"


@dataclass(frozen=True)
class Power:
    """G^n, the Cartesian power."""

    of: Expression
    exponent: int

    def topology(self, bandwidth: Values = None, alpha: Values = None) -> Topology:
        """Return the network, which keeps this expression and is named by it."""
        result = cartesian_power(self.of.topology(bandwidth, alpha), self.exponent)
        return replace(result, name=str(self), expression=self)

    def __str__(self) -> str:
        """Return it as the papers write it."""
        return f"{_within(self.of, Product, Degree)}^{self.exponent}"


@dataclass(frozen=True)
class Product:
    """G1 x G2 x ..., the Cartesian product of at least two."""

    factors: tuple[Expression, ...]

    def topology(self, bandwidth: Values = None, alpha: Values = None) -> Topology:
        """Return the network, which keeps this expression and is named by it."""
        factors, ranks = [], 1
        for factor in self.factors:
            factors.append(factor.topology(bandwidth, alpha))
            ranks *= factors[-1].num_ranks
            check_size(str(self), ranks, 0)
        return replace(cartesian_product(*factors), name=str(self), expression=self)

    def __str__(self) -> str:
        """Return it as the papers write it."""
        return " x ".join(_within(factor, Product) for factor in self.factors)


@dataclass(frozen=True)
class Both:
    """Bi(G), G and its transpose together: every link of G and one back (dissertation, A.1.6)."""

    of: Expression

    def topology(self, bandwidth: Values = None, alpha: Values = None) -> Topology:
        """Return the network, which keeps this expression and is named by it."""
        result = union_with_transpose(self.of.topology(bandwidth, alpha))
        return replace(result, name=str(self), expression=self)

    def __str__(self) -> str:
        """Return it as it is read back; the papers have no sign for it."""
        return f"Bi({self.of})"


Expression: TypeAlias = Base | Line | Degree | Power | Product | Both
"""A network in the papers' notation: frozen, comparable, and ``str`` of it is read back as itself."""


def check_growth(expression: Expression) -> None:
    """Refuse expansions of expansions that would become too large, before any is built but the bases.

    A network of one expansion is checked when it is built.

    Raises
    ------
    InputError
        If there are more nodes than `topologies.assembly` allows.
    """
    if any(not isinstance(part, Base) for part in _parts(expression)):
        check_size(_shortened(str(expression)), _least_size(expression)[0], 0)


def _parts(expression: Expression) -> tuple[Expression, ...]:
    """Return what an expansion is of."""
    if isinstance(expression, Product):
        return expression.factors
    return () if isinstance(expression, Base) else (expression.of,)


def _least_size(expression: Expression) -> tuple[int, int]:
    """Return the number of nodes and a degree that all nodes have at least, self-loops counted.

    Numbers stop growing beyond `_MANY`.
    """
    if isinstance(expression, Base):
        base = expression.topology()
        return base.num_ranks, int((base.out_degrees + self_loops(base)).min())
    sizes = [_least_size(part) for part in _parts(expression)]
    nodes, degree = sizes[0]
    match expression:
        case Line(times=times):
            nodes *= degree ** min(times, _HUGE)
        case Degree(factor=factor):
            nodes, degree = nodes * factor, degree * factor
        case Power(exponent=exponent):
            nodes, degree = nodes ** min(exponent, _HUGE), degree * exponent
        case Product():
            nodes, degree = math.prod(n for n, _ in sizes), sum(d for _, d in sizes)
    return min(nodes, _MANY), min(degree, _MANY)


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _within(part: Expression, *looser: type) -> str:
    """Return an operand, in parentheses if it binds less tightly than the operator."""
    torus = isinstance(part, Base) and part.family == "torus"  # it is written with a space
    return f"({part})" if torus or isinstance(part, looser) else str(part)


@dataclass(frozen=True)
class _Form:
    """How a family of bases is built and written."""

    build: Callable[..., Topology]
    write: Callable[[tuple[int, ...]], str]


def _called(symbol: str) -> Callable[[tuple[int, ...]], str]:
    return lambda arguments: f"{symbol}({','.join(map(str, arguments))})"


def _circulant_text(arguments: tuple[int, ...]) -> str:
    return f"C({arguments[0]},{{{','.join(map(str, arguments[1:]))}}})"


BASES: Mapping[str, _Form] = {
    "complete": _Form(families.complete, lambda a: f"K_{a[0]}"),
    "complete_bipartite": _Form(families.complete_bipartite, lambda a: f"K_{{{a[0]},{a[0]}}}"),
    "kautz": _Form(kautz, _called("K")),
    "hamming": _Form(families.hamming, _called("H")),
    "johnson": _Form(johnson, _called("J")),
    "gen_kautz": _Form(families.gen_kautz, lambda a: f"Pi_{{{a[0]},{a[1]}}}"),
    "circulant": _Form(families.circulant, _circulant_text),
    "directed_circulant": _Form(directed_circulant, _called("DiCirculant")),
    "biring": _Form(bidirectional_ring, _called("BiRing")),
    "uniring": _Form(unidirectional_ring, _called("UniRing")),
    "debruijn": _Form(de_bruijn, _called("DBJ")),
    "modified_debruijn": _Form(modified_de_bruijn, _called("DBJMod")),
    "diamond": _Form(diamond, lambda a: "Diamond"),
    "distance_regular": _Form(distance_regular, _called("DistReg")),
    "torus": _Form(families.torus, lambda a: f"{'x'.join(map(str, a))} torus"),
}
"""The families of bases, by the name that `Base.family` has."""
