"""Exact numbers in arrays: rationals over one common denominator."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tutti.topologies.errors import InputError

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
NONE = -1
"""The entry of an index array that stands for no element."""
ROUNDING = 1e-9
"""Largest relative difference of two floats that count as equal. A larger value finds fewer faults."""

BoolArray = npt.NDArray[np.bool_]
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
IntArray = npt.NDArray[np.integer]
FloatArray = npt.NDArray[np.float64]
Columns = TypeVar("Columns", bound="tuple[npt.NDArray[Any], ...]")
"""A named tuple of arrays, whose first axis is the rows."""


def frozen(array: npt.ArrayLike, dtype: npt.DTypeLike) -> Any:
    """Return `array` as a contiguous, read-only array of `dtype`."""
    result = np.ascontiguousarray(array, dtype=dtype)
    if result.flags.writeable and (result is array or result.base is not None):
        result = result.copy()
    result.flags.writeable = False
    return result


def joined_rows(parts: Sequence[Columns]) -> Columns:
    """Return named tuples of columns as one: each column's arrays, one after the other."""
    return type(parts[0])(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def rows_at(columns: Columns, rows: IntArray | BoolArray | tuple[Any, ...]) -> Columns:
    """Return a named tuple of columns with these rows alone, in their order: each column's array, indexed."""
    return type(columns)(*(column[rows] for column in columns))


def offsets_of(lengths: npt.ArrayLike) -> Int64Array:
    """Return the CSR offsets of rows of these lengths: 0 and the running totals, int64 (rows + 1,)."""
    counts = np.asarray(lengths)
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def entries_of(lengths: npt.ArrayLike) -> tuple[Int64Array, Int64Array]:
    """Return the row of each entry in rows of these lengths, and its place in the row.

    Examples
    --------
    >>> [column.tolist() for column in entries_of([2, 0, 3])]
    [[0, 0, 2, 2, 2], [0, 1, 0, 1, 2]]
    """
    counts = np.asarray(lengths)
    row = np.repeat(np.arange(len(counts)), counts)
    return row, np.arange(len(row)) - offsets_of(counts)[row]


def summed_pairs(
    count: int, tails: IntArray, heads: IntArray, amounts: Int64Array
) -> tuple[Int32Array, Int32Array, Int64Array]:
    """Return the tails, the heads and the summed amounts of pairs of 0..count-1, each once, by tail and head.

    Examples
    --------
    >>> [
    ...     part.tolist()
    ...     for part in summed_pairs(3, np.array([2, 0, 2]), np.array([1, 1, 1]), np.array([1, 2, 3]))
    ... ]
    [[0, 2], [1, 1], [2, 4]]
    """
    keys, place = np.unique(tails.astype(np.int64) * count + heads, return_inverse=True)
    totals = np.zeros(len(keys), dtype=np.int64)
    np.add.at(totals, place, amounts)
    one, other = np.divmod(keys, count)
    return one.astype(np.int32), other.astype(np.int32), totals


def common_divisor(values: Iterable[Fraction]) -> Fraction:
    """Return the greatest number of which all these positive ones are whole multiples.

    Examples
    --------
    >>> common_divisor([Fraction(1, 2), Fraction(1, 3)])
    Fraction(1, 6)
    """
    exact = list(values)
    denominator = math.lcm(*(value.denominator for value in exact))
    return Fraction(math.gcd(*(int(value * denominator) for value in exact)), denominator)


def json_number(value: Fraction) -> int | str:
    """Return an exact number as a JSON value: an integer if it is whole, else the text ``"p/q"``."""
    return value.numerator if value.denominator == 1 else str(value)


@dataclass(frozen=True, eq=False)
class Rationals:
    """An immutable vector of exact rationals: ``numerators / denominator``.

    Parameters
    ----------
    numerators
        int64, shape (n,).
    denominator
        A positive integer common to all.
    """

    numerators: Int64Array
    denominator: int

    @classmethod
    def of(cls, values: Iterable[Fraction | int]) -> Rationals:
        """Return the vector of `values`, over their least common denominator.

        Raises
        ------
        InputError
            If a numerator does not fit 64 bits.
        """
        exact = [Fraction(value) for value in values]
        denominator = math.lcm(*{value.denominator for value in exact})
        scaled = [value.numerator * (denominator // value.denominator) for value in exact]
        if any(abs(numerator) > INT64_MAX for numerator in scaled):
            raise InputError("values too far apart: over their common denominator they do not fit 64 bits")
        return cls(frozen(scaled, np.int64), denominator)

    def __len__(self) -> int:
        return len(self.numerators)

    def __getitem__(self, index: int | np.integer) -> Fraction:
        return Fraction(int(self.numerators[index]), self.denominator)

    def __iter__(self) -> Iterator[Fraction]:
        return (Fraction(int(n), self.denominator) for n in self.numerators)

    def __eq__(self, other: object) -> bool:
        """Compare by value."""
        if not isinstance(other, Rationals) or len(self) != len(other):
            return NotImplemented if not isinstance(other, Rationals) else False
        mine, theirs = self.reduced, other.reduced
        same = mine.denominator == theirs.denominator
        return same and np.array_equal(mine.numerators, theirs.numerators)

    __hash__ = None  # type: ignore[assignment]

    def take(self, index: npt.ArrayLike) -> Rationals:
        """Return the entries at `index` (integers or a mask)."""
        return Rationals(frozen(self.numerators[np.asarray(index)], np.int64), self.denominator)

    @cached_property
    def reduced(self) -> Rationals:
        """The same vector over its least denominator."""
        common = math.gcd(self.denominator, int(np.gcd.reduce(self.numerators, initial=0)))
        if common <= 1:
            return self
        return Rationals(frozen(self.numerators // common, np.int64), self.denominator // common)

    @cached_property
    def floats(self) -> FloatArray:
        """Nearest doubles, for simulation and reports."""
        values = self.numerators / float(self.denominator)
        values.flags.writeable = False
        return values

    @property
    def uniform(self) -> bool:
        """Whether all entries are equal (true of an empty vector)."""
        return len(self) == 0 or bool((self.numerators == self.numerators[0]).all())
