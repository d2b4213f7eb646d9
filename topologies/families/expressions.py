"""The papers' notation for networks, such as ``L^3(C(16,{3,4}))``, and the trees that it is read into.

An expression is frozen and comparable. `topology` builds its network, which keeps the expression. ``str``
writes it in the papers' notation, which `parse_notation` reads back as an equal expression. A *base* is a
family of Table A.3; the expansions of Table 3.3 apply to any expression G:

=====================  =====================================  ==========================================
base                   written                                also
=====================  =====================================  ==========================================
complete               ``K_5``                                ``K(5)``, ``K_{5}``
complete bipartite     ``K_{4,4}``
Kautz                  ``K(2,3)``
Hamming, Johnson       ``H(2,3)``, ``J(4,2)``
generalized Kautz      ``Pi_{4,64}``                          ``Π_{4,64}``, ``Pi(4,64)``
circulant              ``C(16,{3,4})``
directed circulant     ``DiCirculant(4)``
rings                  ``BiRing(2,8)``, ``UniRing(1,4)``
de Bruijn              ``DBJ(4,4)``
modified de Bruijn     ``DBJMod(2,4)``
diamond                ``Diamond``
distance-regular       ``DistReg(4,32)``
torus                  ``32x32 torus``
line graph             ``L(G)``, ``L^3(G)``                   see `topologies.families.products.line_graph`
degree expansion       ``G * 2``
Cartesian power        ``G^2``
Cartesian product      ``G x G``                              ``G × G``, ``G □ G``
with links back        ``Bi(G)``                              no sign in the papers; dissertation, A.1.6
=====================  =====================================  ==========================================

``^`` binds tightest, then ``*``, then ``x``; parentheses group. A semicolon may stand for a comma.

Source: dissertation, Tables 3.3, 3.4 and A.1 to A.3.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from tutti.topologies.assembly import HUGE, Values, check_size
from tutti.topologies.errors import InputError, shortened, suggestion
from tutti.topologies.families import grids
from tutti.topologies.families.algebraic import distance_regular, johnson
from tutti.topologies.families.direct import (
    bidirectional_ring,
    de_bruijn,
    diamond,
    directed_circulant,
    kautz,
    modified_de_bruijn,
    unidirectional_ring,
)
from tutti.topologies.families.products import (
    cartesian_power,
    cartesian_product,
    degree_expansion,
    line_graph,
    self_loops,
)
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import union_with_transpose


class ExpressionLimits(NamedTuple):
    """Limits on an expression that is read. Longer ones are refused."""

    lines: int
    """Largest exponent of L. With degree 2 or more, a larger one gives a network that is too large to build;
    with degree 1, only labels change."""
    length: int
    """Most characters of a text. Chains of operators then stay below Python's recursion limit."""
    depth: int
    """Most levels of parentheses."""
    digits: int
    """Most digits of a number."""
    context: int
    """Characters that an error message shows before and after the place of the error."""


LIMITS = ExpressionLimits(lines=64, length=500, depth=40, digits=9, context=40)

_MANY = 2**64


@dataclass(frozen=True)
class Base:
    """A network of a family, the leaf of an expression.

    Parameters
    ----------
    family
        One of `BASES`.
    arguments
        Whole numbers; for a circulant, n and then the offsets.
    """

    family: str
    arguments: tuple[int, ...] = ()

    def topology(self, bandwidth: Values = None, alpha: Values = None) -> Topology:
        """Return the network, which keeps this expression and is named by it."""
        base = BASES[self.family].build(*self.arguments, bandwidth=bandwidth, alpha=alpha)
        return replace(base, name=str(self), expression=self)

    def __str__(self) -> str:
        """Return the expression in the papers' notation."""
        form = BASES[self.family]
        if form.write is not None:
            return form.write(self.arguments)
        return f"{form.symbol}({','.join(map(str, self.arguments))})"


@dataclass(frozen=True)
class LineGraph:
    """L^n(G), the line graph taken `times` times."""

    of: Expression
    times: int = 1

    def topology(self, bandwidth: Values = None, alpha: Values = None) -> Topology:
        """Return the network, which keeps this expression and is named by it."""
        result = self.of.topology(bandwidth, alpha)
        least = int((result.out_degrees + self_loops(result)).min())
        check_size(str(self), result.num_ranks * least ** min(self.times, HUGE), 0)
        if self.times > LIMITS.lines:
            raise InputError(f"topology {self}: L^{self.times} is too much; at most L^{LIMITS.lines}")
        for _ in range(self.times):
            result = line_graph(result)
        return replace(result, name=str(self), expression=self)

    def __str__(self) -> str:
        """Return the expression in the papers' notation."""
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
        """Return the expression in the papers' notation."""
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
        """Return the expression in the papers' notation."""
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
        """Return the expression in the papers' notation."""
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
        """Return the text that is read back; the papers have no sign for it."""
        return f"Bi({self.of})"


Expression: TypeAlias = Base | LineGraph | Degree | Power | Product | Both
"""A network in the papers' notation: frozen, comparable, and its ``str`` is read back as an equal one."""


def check_growth(expression: Expression) -> None:
    """Refuse expansions of expansions that would become too large; only the bases are built for that.

    A network of one expansion is checked when it is built.

    Raises
    ------
    InputError
        If there are more nodes than `topologies.assembly` allows.
    """
    if any(not isinstance(part, Base) for part in _parts(expression)):
        check_size(shortened(str(expression), 60), _least_size(expression)[0], 0)


def _parts(expression: Expression) -> tuple[Expression, ...]:
    """Return the operands of an expansion; a base has none."""
    if isinstance(expression, Product):
        return expression.factors
    return () if isinstance(expression, Base) else (expression.of,)


def _least_size(expression: Expression) -> tuple[int, int]:
    """Return lower bounds on the number of nodes and on each node's degree, self-loops counted.

    Numbers stop growing beyond `_MANY`.
    """
    if isinstance(expression, Base):
        base = expression.topology()
        return base.num_ranks, int((base.out_degrees + self_loops(base)).min())
    sizes = [_least_size(part) for part in _parts(expression)]
    nodes, degree = sizes[0]
    match expression:
        case LineGraph(times=times):
            nodes *= degree ** min(times, HUGE)
        case Degree(factor=factor):
            nodes, degree = nodes * factor, degree * factor
        case Power(exponent=exponent):
            nodes, degree = nodes ** min(exponent, HUGE), degree * exponent
        case Product():
            nodes, degree = math.prod(n for n, _ in sizes), sum(d for _, d in sizes)
    return min(nodes, _MANY), min(degree, _MANY)


def _within(part: Expression, *looser: type) -> str:
    """Return an operand, in parentheses if it binds less tightly than the operator."""
    torus = isinstance(part, Base) and part.family == "torus"  # it is written with a space
    return f"({part})" if torus or isinstance(part, looser) else str(part)


class _Form(NamedTuple):
    """A family of bases.

    A base of a fixed `number` of arguments is written ``symbol(a, b)``; one of another form has a function
    that writes its text, and no `number`.
    """

    build: Callable[..., Topology]
    symbol: str
    number: int | None = None
    write: Callable[[tuple[int, ...]], str] | None = None


BASES: Mapping[str, _Form] = {
    "complete": _Form(grids.complete, "K", write=lambda a: f"K_{a[0]}"),
    "complete_bipartite": _Form(grids.complete_bipartite, "K", write=lambda a: f"K_{{{a[0]},{a[0]}}}"),
    "kautz": _Form(kautz, "K", write=lambda a: f"K({a[0]},{a[1]})"),
    "hamming": _Form(grids.hamming, "H", 2),
    "johnson": _Form(johnson, "J", 2),
    "gen_kautz": _Form(grids.gen_kautz, "Pi", 2, lambda a: f"Pi_{{{a[0]},{a[1]}}}"),
    "circulant": _Form(grids.circulant, "C", write=lambda a: f"C({a[0]},{{{','.join(map(str, a[1:]))}}})"),
    "directed_circulant": _Form(directed_circulant, "DiCirculant", 1),
    "biring": _Form(bidirectional_ring, "BiRing", 2),
    "uniring": _Form(unidirectional_ring, "UniRing", 2),
    "debruijn": _Form(de_bruijn, "DBJ", 2),
    "modified_debruijn": _Form(modified_de_bruijn, "DBJMod", 2),
    "diamond": _Form(diamond, "Diamond", write=lambda a: "Diamond"),
    "distance_regular": _Form(distance_regular, "DistReg", 2),
    "torus": _Form(grids.torus, "torus", write=lambda a: f"{'x'.join(map(str, a))} torus"),
}
"""The families of bases, by the name that `Base.family` has."""

_CALLS = {form.symbol: family for family, form in BASES.items() if form.number}
"""The families of bases that are written ``symbol(a, b)``, by the symbol."""

_SYMBOLS = sorted([*_CALLS, "Bi", "C", "Diamond", "K", "L"])
_TOKEN = re.compile(
    r"\s*(?:(?P<torus>[0-9]+(?:x[0-9]+)+\s*torus\b)|(?P<number>[0-9]+)"
    r"|(?P<word>x(?![a-z])|[A-Za-zΠ]+)|(?P<sign>\S))"
)
_STARTS = re.compile(r"[A-ZΠ(]|[0-9]+(x[0-9]+)+\s*torus")
_PRODUCT = ("x", "×", "□")


def looks_like_notation(text: str) -> bool:
    """Return whether a text can only be the papers' notation: a capital, parenthesis or torus begins it."""
    return _STARTS.match(text) is not None and "/" not in text and "\\" not in text


def parse_notation(text: str) -> Expression:
    """Return the expression that a text in the papers' notation describes.

    Raises
    ------
    InputError
        If it can't be read; one line says where, and what was expected.

    Examples
    --------
    >>> parse_notation("L^3(C(16,{3,4}))")
    LineGraph(of=Base(family='circulant', arguments=(16, 3, 4)), times=3)
    >>> print(parse_notation("BiRing(2;8) × UniRing(1;4)^2"))
    BiRing(2,8) x UniRing(1,4)^2
    """
    if len(text) > LIMITS.length:
        raise InputError(f"{len(text)} characters; at most {LIMITS.length} are read")
    return _ExpressionReader(text).whole()


class _Token(NamedTuple):
    kind: str
    text: str
    place: int


class _ExpressionReader:
    """A recursive-descent reader: product, then degree expansion, then power, then base or parentheses."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [
            _Token(match.lastgroup or "", match[match.lastgroup or ""], match.start(match.lastgroup or ""))
            for match in _TOKEN.finditer(text)
        ]
        self.tokens.append(_Token("end", "", len(text)))
        self.next = 0
        self.depth = 0

    @property
    def token(self) -> _Token:
        """The next token."""
        return self.tokens[self.next]

    def whole(self) -> Expression:
        """Read everything."""
        found = self.product()
        if self.token.kind != "end":
            raise self.error("an operator (x, *, ^) or the end")
        return found

    def product(self) -> Expression:
        """Read ``term x term x ...``."""
        factors = [self.degree()]
        while self.taken(*_PRODUCT):
            factors.append(self.degree())
        return factors[0] if len(factors) == 1 else Product(tuple(factors))

    def degree(self) -> Expression:
        """Read ``term * n * ...``."""
        found = self.power()
        while self.taken("*"):
            found = Degree(found, self.positive())
        return found

    def power(self) -> Expression:
        """Read ``term^n^...``."""
        found = self.atom()
        while self.taken("^"):
            found = Power(found, self.positive())
        return found

    def atom(self) -> Expression:
        """Read parentheses, a line graph, links back or a base."""
        if self.token.kind == "torus":
            lengths = re.findall("[0-9]+", self.token.text)
            if max(map(len, lengths)) > LIMITS.digits:
                raise self.error("whole numbers below 10^9")
            self.advance()
            return Base("torus", tuple(map(int, lengths)))
        if self.token.text == "(":
            return self.parenthesized()
        if self.token.kind != "word" or self.token.text == "x":
            raise self.error("a network such as K_5, C(16,{3,4}) or L(...)")
        if self.token.text not in (*_SYMBOLS, "Π"):
            raise self.error(f"a known symbol{suggestion(self.token.text, _SYMBOLS)}")
        symbol = self.advance().text
        if symbol == "L":
            times = self.positive() if self.taken("^") else 1
            return LineGraph(self.parenthesized(), times)
        if symbol == "Bi":
            return Both(self.parenthesized())
        return self.base("Pi" if symbol == "Π" else symbol)

    def parenthesized(self) -> Expression:
        """Read ``( expression )``."""
        self.expect("(")
        self.depth += 1
        if self.depth > LIMITS.depth:
            raise self.error(f"at most {LIMITS.depth} levels of parentheses", back=1)
        found = self.product()
        self.expect(")")
        self.depth -= 1
        return found

    def base(self, symbol: str) -> Base:
        """Read the arguments of a base."""
        if symbol == "Diamond":
            return Base("diamond")
        if symbol == "C":
            return self.circulant()
        subscript, arguments = self.arguments()
        if symbol == "K":
            return self.complete(subscript, arguments)
        family = _CALLS[symbol]
        count = BASES[family].number
        if len(arguments) != count:
            raise self.error(f"{count} argument(s) of {symbol}, not {len(arguments)},", back=1)
        return Base(family, tuple(arguments))

    def complete(self, subscript: bool, arguments: Sequence[int]) -> Base:
        """Distinguish the three meanings of K: K_m, K_{d,d} and the Kautz network K(d,n)."""
        if len(arguments) == 1:
            return Base("complete", tuple(arguments))
        if len(arguments) != 2:
            raise self.error("K_m, K_{d,d} or K(d,n)", back=1)
        if not subscript:
            return Base("kautz", tuple(arguments))
        if arguments[0] != arguments[1]:
            raise self.error("two equal sides of K_{d,d}", back=1)
        return Base("complete_bipartite", tuple(arguments[:1]))

    def circulant(self) -> Base:
        """Read ``(n,{a,b,...})``."""
        self.expect("(")
        ranks = self.number()
        if not self.taken(",", ";"):
            raise self.error("','")
        self.expect("{")
        offsets = self.numbers("}")
        self.expect(")")
        return Base("circulant", (ranks, *offsets))

    def arguments(self) -> tuple[bool, list[int]]:
        """Read ``_n``, ``_{a,b}`` or ``(a,b)``; return whether it is a subscript."""
        if self.taken("("):
            return False, self.numbers(")")
        if not self.taken("_"):
            raise self.error("'(' or '_'")
        if self.taken("{"):
            return True, self.numbers("}")
        return True, [self.number()]

    def numbers(self, closing: str) -> list[int]:
        """Read numbers with commas between, and the closing sign."""
        found = [self.number()]
        while self.taken(",", ";"):
            found.append(self.number())
        self.expect(closing)
        return found

    def number(self) -> int:
        """Read a whole number below 10^9."""
        if self.token.kind != "number" or len(self.token.text) > LIMITS.digits:
            raise self.error("a whole number below 10^9")
        return int(self.advance().text)

    def positive(self) -> int:
        """Read a whole number that is at least 1."""
        if self.token.kind == "number" and not self.token.text.strip("0"):
            raise self.error("a whole number from 1")
        return self.number()

    def expect(self, sign: str) -> None:
        """Read this sign."""
        if not self.taken(sign):
            raise self.error(f"'{sign}'")

    def taken(self, *signs: str) -> bool:
        """Read one of these signs if it is next."""
        if self.token.kind != "end" and self.token.text in signs:
            self.next += 1
            return True
        return False

    def advance(self) -> _Token:
        """Read any token."""
        self.next += 1
        return self.tokens[self.next - 1]

    def error(self, expected: str, back: int = 0) -> InputError:
        """Return the error that points to the next token, or to one before it."""
        place = self.tokens[self.next - back].place
        shown, mark = (
            self.text[max(place - LIMITS.context, 0) : place],
            self.text[place : place + LIMITS.context],
        )
        dots = "..." if place > LIMITS.context else ""
        return InputError(
            f"expected {expected} at character {place + 1}: {dots + shown!r} <- here -> {mark or 'the end'!r}"
        )
