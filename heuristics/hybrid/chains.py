"""Chains: an allreduce digit by digit.

The number of a rank is written in *digits*: one or several for each dimension of the network. In an
*exchange* of a digit, of radix r, each rank sends to the r - 1 others that differ from it in this digit only.
A digit is either *summed*: all send all that they have added up (of radix 2 a step of recursive doubling).
Or it is *scattered*: each gets a part of that and adds it up (recursive halving), with which it goes on; at
last all parts are gathered, in the opposite order. Where a digit is *folded* to f < r, only the ranks whose
digit is less than f get parts, and the others rest until these are gathered.

To scatter some digits and sum the others is the hybrid of Barnett, Littlefield, Payne, van de Geijn (Global
combine algorithms for 2-D meshes with wormhole routing, JPDC 24, 1995); radices above 2 are in Ruefenacht,
Bull, Booth (Generalisation of recursive doubling for AllReduce, Parallel Computing 69, 2017).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tutti.topologies.exact import BoolArray, Int64Array


class Chain(NamedTuple):
    """What a part of the vector does.

    Parameters
    ----------
    radices
        Of all digits.
    order
        The digits in the order in which they are added up.
    scattered
        So many of the first of these are scattered.
    folds
        Of each digit: to how many of its values it is scattered.

    Examples
    --------
    Halving in pairs of neighbours, doubling between the pairs:

    >>> Chain((2, 2), (1, 0), 1, (2, 2)).length
    3
    """

    radices: tuple[int, ...]
    order: tuple[int, ...]
    scattered: int
    folds: tuple[int, ...]

    @property
    def length(self) -> int:
        """How many exchanges there are."""
        return len(self.order) + self.scattered

    @property
    def transfers(self) -> int:
        """How many transfers of an item there are, of as many items as ranks."""
        ranks = int(np.prod(self.radices, dtype=object))
        rows, holders = 0, ranks
        for place, digit in enumerate(self.order):
            radix = self.radices[digit]
            if place < self.scattered:
                rows += 2 * ranks * holders // radix * (radix - 1)
                holders = holders // radix
            else:
                rows += ranks * holders * (radix - 1)
        return rows


class Exchange(NamedTuple):
    """Transfers, int64 of one length: sender, receiver and the item of which rank; and whether they add."""

    source: Int64Array
    target: Int64Array
    item: Int64Array
    adds: bool


def exchanges(chain: Chain, ranks: Int64Array) -> list[Exchange]:
    """Return the exchanges of a chain, one after the other.

    Parameters
    ----------
    chain
        Of digits whose radices have the product N.
    ranks
        int64, shape (N,): the rank at each place, the first digit the most significant.
    """
    digits = np.empty((len(chain.radices), len(ranks)), dtype=np.int64)
    digits[:, ranks] = np.unravel_index(np.arange(len(ranks)), chain.radices)
    found = list(_added_up(chain, ranks, digits))
    gathered = [one._replace(source=one.target, target=one.source, adds=False) for one in found]
    return found + gathered[: chain.scattered][::-1]


def _added_up(chain: Chain, ranks: Int64Array, digits: Int64Array) -> Iterator[Exchange]:
    # has[u, i]: whether rank u has a sum of item i that goes on
    has: BoolArray = np.ones((len(ranks), len(ranks)), dtype=np.bool_)
    for place, digit in enumerate(chain.order):
        targets = list(_others(chain.radices, ranks, digits, digit))
        part = digits[digit] % chain.folds[digit]
        scatters = place < chain.scattered
        rows = [
            (target, *np.nonzero(has & (part == digits[digit][target][:, None]) if scatters else has))
            for target in targets
        ]
        if scatters:
            has = has & (part == digits[digit][:, None])
        source, item = (np.concatenate([row[column] for row in rows]) for column in (1, 2))
        yield Exchange(source, np.concatenate([row[0][row[1]] for row in rows]), item, True)


def _others(
    radices: tuple[int, ...], ranks: Int64Array, digits: Int64Array, digit: int
) -> Iterator[Int64Array]:
    """Yield for each rank the one whose digit is greater by 1, 2, ..., cyclically."""
    for offset in range(1, radices[digit]):
        moved = digits.copy()
        moved[digit] = (moved[digit] + offset) % radices[digit]
        yield ranks[np.ravel_multi_index(tuple(moved), radices)]
