"""From a solver's floats to integers: shares of a whole that sum to it, for each of several owners."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from topologies.exact import FloatArray, IntArray

FINE = 1 << 36
"""What shares are rounded to, unless small fractions do."""

SMALL = 10**4
"""Denominators up to this are tried: where they are the optimum's, both bounds meet."""


def rounded_shares(shares: FloatArray, owners: IntArray) -> Iterator[tuple[list[int], int]]:
    """Yield integers near `shares`, and what they sum to for each owner: simple fractions first, then fine.

    Parameters
    ----------
    shares
        float64, shape (columns,): nearly summing to 1 for each owner.
    owners
        int64, shape (columns,): whose share each is.
    """
    exact = {share: Fraction(share).limit_denominator(SMALL) for share in np.maximum(shares, 0.0).tolist()}
    common = math.lcm(*{simple.denominator for simple in exact.values()})
    if common <= FINE:
        simple = [int(exact[share] * common) for share in np.maximum(shares, 0.0).tolist()]
        yield _completed(simple, owners, common), common
    yield _completed([int(share * FINE) for share in np.maximum(shares, 0.0).tolist()], owners, FINE), FINE


def _completed(shares: list[int], owners: IntArray, denominator: int) -> list[int]:
    """Return the shares with each owner's largest changed so that they add up to the denominator."""
    totals: dict[int, int] = {}
    largest: dict[int, int] = {}
    for index, owner in enumerate(owners.tolist()):
        totals[owner] = totals.get(owner, 0) + shares[index]
        if owner not in largest or shares[index] > shares[largest[owner]]:
            largest[owner] = index
    for owner, total in totals.items():
        shares[largest[owner]] += denominator - total
    return shares
