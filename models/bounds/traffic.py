"""The items of a collective, sorted by their shape, so that what crosses a cut is a few array sums.

Starts and ends are one rank or everyone, so there are four shapes: `pairs` (one to one), `spread` (one to
everyone), `collect` (everyone to one) and `both` (everyone to everyone). Nothing here asks which collective
it is. Items without size, and those that start where they end, are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from schedules.collective import EVERYONE, Collective
from topologies.errors import InputError
from topologies.exact import INT64_MAX, BoolArray, Int32Array, Int64Array


@dataclass(frozen=True, eq=False)
class Pairs:
    """Items from one rank to another: int32 ends, int64 shares over the traffic's denominator."""

    start: Int32Array
    end: Int32Array
    share: Int64Array


@dataclass(frozen=True, eq=False)
class Traffic:
    """What a collective moves.

    Parameters
    ----------
    members
        The ranks of each group.
    group
        int32, shape (ranks,): the group of each rank, -1 for none.
    pairs
        Items from one rank to another.
    spread, collect
        int64, shape (ranks,): shares that go from a rank to all of its group, and the reverse.
    both
        int64, shape (groups,): shares that all of the group start and end with.
    denominator
        Of all shares, which are in units of M.
    """

    members: Sequence[Int32Array]
    group: Int32Array
    pairs: Pairs
    spread: Int64Array
    collect: Int64Array
    both: Int64Array
    denominator: int

    @classmethod
    def of(cls, collective: Collective) -> Traffic:
        """Return the traffic of a collective.

        Raises
        ------
        InputError
            If the shares, over their common denominator, do not fit 64 bits.
        """
        items, ranks = collective.items, collective.num_ranks
        share = items.share.reduced
        if float(np.sum(share.numerators, dtype=np.float64)) >= INT64_MAX // 2:
            raise InputError(
                f"{collective.kind}: the shards over their common denominator do not fit 64 bits"
            )
        members = tuple(np.array(group, dtype=np.int32) for group in collective.members)
        group = np.full(ranks, -1, dtype=np.int32)
        for number, ranks_of in enumerate(members):
            group[ranks_of] = number
        from_all, to_all = items.start == EVERYONE, items.end == EVERYONE
        one = ~from_all & ~to_all & (items.start != items.end) & (share.numerators > 0)
        sizes = share.numerators
        return cls(
            members,
            group,
            Pairs(items.start[one], items.end[one], sizes[one]),
            _sums(items.start[~from_all & to_all], sizes[~from_all & to_all], ranks),
            _sums(items.end[from_all & ~to_all], sizes[from_all & ~to_all], ranks),
            _sums(items.group[from_all & to_all], sizes[from_all & to_all], len(members)),
            share.denominator,
        )

    @cached_property
    def reverse(self) -> Traffic:
        """The traffic with all starts and ends exchanged: what moves on the transposed network."""
        pairs = Pairs(self.pairs.end, self.pairs.start, self.pairs.share)
        return replace(self, pairs=pairs, spread=self.collect, collect=self.spread)

    def crossing(self, inside: BoolArray) -> Fraction:
        """Return the share of M that must leave these nodes (a mask over ranks, or over all nodes)."""
        mask = inside[: len(self.group)]
        present = np.array([mask[members].any() for members in self.members])
        complete = np.array([mask[members].all() for members in self.members])
        grouped = self.group >= 0
        leaves = grouped & mask & ~complete[self.group]
        enters = grouped & ~mask & present[self.group]
        moved = mask[self.pairs.start] & ~mask[self.pairs.end]
        total = (
            self.spread[leaves].sum()
            + self.collect[enters].sum()
            + self.both[present & ~complete].sum()
            + self.pairs.share[moved].sum()
        )
        return Fraction(int(total), self.denominator)

    @cached_property
    def leaving(self) -> Int64Array:
        """int64, shape (ranks,): what must leave each rank, over `denominator`."""
        grouped = self.group >= 0
        collected = np.array([self.collect[members].sum() for members in self.members])
        own_group = (collected + self.both)[self.group] - self.collect
        sent = _sums(self.pairs.start, self.pairs.share, len(self.group))
        return sent + self.spread + np.where(grouped, own_group, 0)


def _sums(index: Int32Array, values: Int64Array, length: int) -> Int64Array:
    total = np.zeros(length, dtype=np.int64)
    np.add.at(total, index, values)
    return total
