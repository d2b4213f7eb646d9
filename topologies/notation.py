"""The papers' notation for networks, such as ``L^3(C(16,{3,4}))``, read into an expression tree.

A *base* is a family of Table A.3; the expansions of Table 3.3 apply to any expression G:

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
line graph             ``L(G)``, ``L^3(G)``                   of `topologies.products.line_graph`
degree expansion       ``G * 2``
Cartesian power        ``G^2``
Cartesian product      ``G x G``                              ``G × G``, ``G □ G``
with links back        ``Bi(G)``                              no sign in the papers; dissertation, A.1.6
=====================  =====================================  ==========================================

``^`` binds tightest, then ``*``, then ``x``; parentheses group. A semicolon may stand for a comma.

Source: dissertation, Tables 3.3, 3.4 and A.1 to A.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from topologies.errors import InputError, suggestion
from topologies.expressions import Base, Both, Degree, Expression, Line, Power, Product

_CALLS: Mapping[str, tuple[str, int]] = {
    "H": ("hamming", 2),
    "J": ("johnson", 2),
    "Pi": ("gen_kautz", 2),
    "DiCirculant": ("directed_circulant", 1),
    "BiRing": ("biring", 2),
    "UniRing": ("uniring", 2),
    "DBJ": ("debruijn", 2),
    "DBJMod": ("modified_debruijn", 2),
    "DistReg": ("distance_regular", 2),
}
"""The symbols of bases that are written ``symbol(a, b)``: the family and how many arguments."""

_SYMBOLS = sorted([*_CALLS, "Bi", "C", "Diamond", "K", "L"])
_TOKEN = re.compile(
    r"\s*(?:(?P<torus>[0-9]+(?:x[0-9]+)+\s*torus\b)|(?P<number>[0-9]+)"
    r"|(?P<word>x(?![a-z])|[A-Za-zΠ]+)|(?P<sign>\S))"
)
_STARTS = re.compile(r"[A-ZΠ(]|[0-9]+(x[0-9]+)+\s*torus")
_PRODUCT = ("x", "×", "□")
_LONGEST = 500
"""Characters of a text, so that chains of operators stay short of Python's recursion limit."""
_DEEPEST = 40
"""Levels of parentheses."""
_LARGEST = 9
"""Digits of a number."""
_CONTEXT = 40
"""Characters shown before and after the place of an error."""


def looks_like_notation(text: str) -> bool:
    """Return whether a text can only be meant as the papers' notation: a capital, a parenthesis, a torus."""
    return _STARTS.match(text) is not None and "/" not in text and "\\" not in text


def parse_notation(text: str) -> Expression:
    """Return the expression that a text in the papers' notation is.

    Raises
    ------
    InputError
        If it can't be read, in one line that says where and what was expected.

    Examples
    --------
    >>> parse_notation("L^3(C(16,{3,4}))")
    Line(of=Base(family='circulant', arguments=(16, 3, 4)), times=3)
    >>> print(parse_notation("BiRing(2;8) × UniRing(1;4)^2"))
    BiRing(2,8) x UniRing(1,4)^2
    """
    if len(text) > _LONGEST:
        raise InputError(f"{len(text)} characters; at most {_LONGEST} are read")
    return _Reader(text).whole()


class _Token(NamedTuple):
    kind: str
    text: str
    place: int


class _Reader:
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
            return self.torus()
        if self.token.text == "(":
            return self.parenthesized()
        if self.token.kind != "word" or self.token.text == "x":
            raise self.error("a network such as K_5, C(16,{3,4}) or L(...)")
        if self.token.text not in (*_SYMBOLS, "Π"):
            raise self.error(f"a known symbol{suggestion(self.token.text, _SYMBOLS)}")
        symbol = self.advance().text
        if symbol == "L":
            return self.line()
        if symbol == "Bi":
            return self.both()
        return self.base("Pi" if symbol == "Π" else symbol)

    def torus(self) -> Base:
        """Read ``AxBx... torus``."""
        lengths = re.findall("[0-9]+", self.token.text)
        if max(map(len, lengths)) > _LARGEST:
            raise self.error("whole numbers below 10^9")
        self.advance()
        return Base("torus", tuple(map(int, lengths)))

    def parenthesized(self) -> Expression:
        """Read ``( expression )``."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.error(f"at most {_DEEPEST} levels of parentheses")
        self.expect("(")
        found = self.product()
        self.expect(")")
        self.depth -= 1
        return found

    def line(self) -> Expression:
        """Read what follows L."""
        times = self.positive() if self.taken("^") else 1
        if self.token.text != "(":
            raise self.error("'('")
        return Line(self.parenthesized(), times)

    def both(self) -> Both:
        """Read what follows Bi."""
        if self.token.text != "(":
            raise self.error("'('")
        return Both(self.parenthesized())

    def base(self, symbol: str) -> Base:
        """Read the arguments of a base."""
        if symbol == "Diamond":
            return Base("diamond")
        if symbol == "C":
            return self.circulant()
        subscript, arguments = self.arguments()
        if symbol == "K":
            return self.complete(subscript, arguments)
        family, count = _CALLS[symbol]
        if len(arguments) != count:
            raise self.error(f"{count} argument(s) of {symbol}, not {len(arguments)},", back=1)
        return Base(family, tuple(arguments))

    def complete(self, subscript: bool, arguments: Sequence[int]) -> Base:
        """Tell the three that K means apart: K_m, K_{d,d} and the Kautz network K(d,n)."""
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
        self.comma()
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
        if self.token.kind != "number" or len(self.token.text) > _LARGEST:
            raise self.error("a whole number below 10^9")
        return int(self.advance().text)

    def positive(self) -> int:
        """Read a whole number from 1."""
        if self.token.kind == "number" and not self.token.text.strip("0"):
            raise self.error("a whole number from 1")
        return self.number()

    def comma(self) -> None:
        """Read a comma, or a semicolon that stands for it."""
        if not self.taken(",", ";"):
            raise self.error("','")

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
        shown, mark = self.text[max(place - _CONTEXT, 0) : place], self.text[place : place + _CONTEXT]
        dots = "..." if place > _CONTEXT else ""
        return InputError(
            f"expected {expected} at character {place + 1}: {dots + shown!r} <- here -> {mark or 'the end'!r}"
        )
