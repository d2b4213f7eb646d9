"""Finite fields GF(q) of prime-power order, as tables of sums and products.

The elements are numbered 0..q-1: number a_0 + a_1·p + a_2·p² + ... is the polynomial a_0 + a_1·t + a_2·t² +
... over Z_p, q = p^k, modulo the first irreducible monic polynomial of degree k. So 0 and 1 are the zero and
one of the field, and for a prime q the numbers are the integers modulo q.

They are used to build projective planes, generalized polygons and Slim Fly networks.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from tutti.topologies.errors import InputError
from tutti.topologies.exact import Int64Array

MAX_ORDER = 256
"""Largest order of a field. A network built from a larger one would be too large."""


@dataclass(frozen=True, eq=False)
class FiniteField:
    """GF(q) with its tables.

    Parameters
    ----------
    order
        q = p^k.
    plus, times
        int64, shape (q, q): the sum and the product of two elements.
    """

    order: int
    plus: Int64Array
    times: Int64Array

    @cached_property
    def negative(self) -> Int64Array:
        """The additive inverse of each element, shape (q,)."""
        return np.argmin(self.plus, axis=1)

    @cached_property
    def inverse(self) -> Int64Array:
        """The multiplicative inverse of each element, shape (q,); of 0: 0."""
        return np.argmax(self.times == 1, axis=1)

    @cached_property
    def powers(self) -> Int64Array:
        """The powers ξ^0, ξ^1, ..., ξ^(q-2) of the first primitive element ξ, shape (q - 1,)."""
        cycles = (self._cycle(element) for element in range(1, self.order))
        return np.array(next(cycle for cycle in cycles if len(cycle) == self.order - 1))

    def _cycle(self, element: int) -> list[int]:
        """Return 1, the element, its square, ... until 1 comes again."""
        cycle = [1]
        while (following := int(self.times[cycle[-1], element])) != 1:
            cycle.append(following)
        return cycle

    def minus(self, left: Int64Array, right: Int64Array) -> Int64Array:
        """Return the differences of two arrays of elements, which broadcast."""
        return self.plus[left, self.negative[right]]

    def dot(self, left: Int64Array, right: Int64Array) -> Int64Array:
        """Return the sums of products over the last axis of two arrays, which broadcast."""
        terms = self.times[left, right]
        total = np.zeros(terms.shape[:-1], dtype=np.int64)
        for index in range(terms.shape[-1]):
            total = self.plus[total, terms[..., index]]
        return total


def prime_power(order: int) -> tuple[int, int] | None:
    """Return (p, k) with order = p^k and p prime, or None.

    Examples
    --------
    >>> prime_power(27), prime_power(12)
    ((3, 3), None)
    """
    prime = next((p for p in range(2, order + 1) if order % p == 0), None)
    if prime is None:
        return None
    exponent = 0
    while order % prime == 0:
        order, exponent = order // prime, exponent + 1
    return (prime, exponent) if order == 1 else None


def check_prime_power(name: str, order: int) -> None:
    """Refuse an order that no finite field has, or that is too large; `name` is the network in the error.

    Raises
    ------
    InputError
        If `order` is no prime power or is above `MAX_ORDER`.
    """
    if order > MAX_ORDER:
        raise InputError(f"topology {name}: q = {order} is too large; at most {MAX_ORDER}")
    if prime_power(order) is None:
        raise InputError(f"topology {name}: q = {order} is not a prime power (2, 3, 4, 5, 7, 8, 9, 11, ...)")


@lru_cache(maxsize=16)
def finite_field(order: int) -> FiniteField:
    """Return GF(q).

    Raises
    ------
    InputError
        If `order` is no prime power or is above `MAX_ORDER`.

    Examples
    --------
    >>> finite_field(4).times.tolist()
    [[0, 0, 0, 0], [0, 1, 2, 3], [0, 2, 3, 1], [0, 3, 1, 2]]
    """
    check_prime_power(f"over GF({order})", order)
    prime, exponent = prime_power(order) or (0, 0)
    weights = prime ** np.arange(exponent)
    digits = np.arange(order)[:, None] // weights % prime
    plus = (digits[:, None] + digits[None]) % prime @ weights
    # A monic polynomial is irreducible if, modulo it, no product of elements other than 0 is 0.
    moduli = (np.array(low[::-1]) for low in itertools.product(range(prime), repeat=exponent))
    tables = (_products(digits, prime, modulus) @ weights for modulus in moduli)
    return FiniteField(order, plus, next(times for times in tables if times[1:, 1:].all()))


def _products(digits: Int64Array, prime: int, low: Int64Array) -> Int64Array:
    """Return the coefficients of all products, (q, q, k): t·f is shifted f less its top times the modulus.

    The modulus is monic, with these coefficients below its top, the constant one first.
    """
    order, exponent = digits.shape
    total = np.zeros((order, order, exponent), dtype=np.int64)
    shifted = digits.copy()  # coefficients of t^i times each element
    for power in range(exponent):
        total += digits[None, :, power, None] * shifted[:, None]
        top = shifted[:, -1:].copy()
        shifted = np.concatenate([np.zeros_like(top), shifted[:, :-1]], axis=1) - top * low
        shifted %= prime
    return total % prime
