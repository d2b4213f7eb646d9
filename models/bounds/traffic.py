"""The items of a collective, sorted by their shape, so that what crosses a cut is a few array sums.

Starts and ends are one rank or everyone, so there are four shapes: `pairs` (one to one), `spread` (one to
everyone), `collect` (everyone to one) and `both` (everyone to everyone). Nothing here asks which collective
it is. Items without size, and those that start where they end, are left out. A rank may be in several groups
of a mixed collective. Data of a rank in a group is indexed by its *membership*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np

from tutti.schedules.collective import EVERYONE, Collective
from tutti.topologies.errors import InputError
from tutti.topologies.exact import INT64_MAX, BoolArray, Int32Array, Int64Array


@dataclass(frozen=True, eq=False)
class PairItems:
    """Items from one rank to another: int32 ends and groups, int64 shares over the traffic's denominator."""

    start: Int32Array
    end: Int32Array
    share: Int64Array
    group: Int32Array


@dataclass(frozen=True, eq=False)
class Traffic:
    """The data that a collective moves.

    Parameters
    ----------
    members
        The ranks of each group.
    num_ranks
        Number of ranks of the network.
    pairs
        Items from one rank to another.
    spread, collect
        int64, shape (memberships,): shares that go from a rank to all of its group, and the reverse.
    both
        int64, shape (groups,): shares that all of the group start and end with.
    denominator
        Denominator of all shares, which are in units of M.
    """

    members: Sequence[Int32Array]
    num_ranks: int
    pairs: PairItems
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
        items = collective.items
        share = items.share.reduced
        if float(np.sum(share.numerators, dtype=np.float64)) >= INT64_MAX // 2:
            raise InputError(
                f"{collective.kind}: the shards over their common denominator do not fit 64 bits"
            )
        members = tuple(np.array(group, dtype=np.int32) for group in collective.members)
        from_all, to_all = items.start == EVERYONE, items.end == EVERYONE
        one = ~from_all & ~to_all & (items.start != items.end) & (share.numerators > 0)
        sizes, nothing = share.numerators, np.zeros(sum(map(len, members)), np.int64)
        pairs = PairItems(items.start[one], items.end[one], sizes[one], items.group[one])
        both = _sums(items.group[from_all & to_all], sizes[from_all & to_all], len(members))
        table = cls(members, collective.num_ranks, pairs, nothing, nothing, both, share.denominator)

        def sums(end: Int32Array, which: BoolArray) -> Int64Array:
            return _sums(table.membership(items.group[which], end[which]), sizes[which], len(table.rank))

        spread, collect = sums(items.start, ~from_all & to_all), sums(items.end, from_all & ~to_all)
        return replace(table, spread=spread, collect=collect)

    @cached_property
    def rank(self) -> Int32Array:
        """int32, shape (memberships,): the members of each group, one after the other."""
        return np.concatenate(self.members)

    @cached_property
    def group(self) -> Int32Array:
        """int32, shape (memberships,): the group of each."""
        return np.repeat(np.arange(len(self.members), dtype=np.int32), [len(each) for each in self.members])

    @cached_property
    def of_group(self) -> list[slice]:
        """The memberships of each group."""
        offsets = np.cumsum([0, *map(len, self.members)]).tolist()
        return [slice(first, end) for first, end in pairwise(offsets)]

    @cached_property
    def of_rank(self) -> list[Int64Array]:
        """The memberships of each rank."""
        count = np.bincount(self.rank, minlength=self.num_ranks)
        return np.split(np.argsort(self.rank, kind="stable"), np.cumsum(count)[:-1])

    @cached_property
    def lines(self) -> list[list[Int32Array]]:
        """The groups in sets of disjoint ones, and for each set the ranks at one place in its groups.

        Data that moves inside one of them may cross the others. Empty where there is one group.
        """
        if len(self.members) == 1:
            return []
        alike = [groups for groups in self.disjoint_groups if len({len(group) for group in groups}) == 1]
        return [*self.disjoint_groups, *(list(np.stack(groups, axis=1)) for groups in alike)]

    @cached_property
    def disjoint_groups(self) -> list[list[Int32Array]]:
        """The groups in sets of disjoint ones; one set if no rank is in several groups."""
        sets: list[list[Int32Array]] = []
        seen: set[int] = set()
        for group in self.members:
            if not sets or not seen.isdisjoint(group.tolist()):
                sets.append([])
                seen.clear()
            sets[-1].append(group)
            seen.update(group.tolist())
        return sets

    def membership(self, group: Int32Array, rank: Int32Array) -> Int64Array:
        """Return the memberships of ranks in groups, where they are members."""
        key = self.group.astype(np.int64) * self.num_ranks + self.rank
        order = np.argsort(key)
        return order[np.searchsorted(key[order], group.astype(np.int64) * self.num_ranks + rank)]

    @cached_property
    def reverse(self) -> Traffic:
        """The traffic with all starts and ends exchanged: what moves on the transposed network."""
        pairs = PairItems(self.pairs.end, self.pairs.start, self.pairs.share, self.pairs.group)
        return replace(self, pairs=pairs, spread=self.collect, collect=self.spread)

    def crossing(self, inside: BoolArray) -> Fraction:
        """Return the share of M that must leave these nodes (a mask over ranks, or over all nodes)."""
        mask = inside[: self.num_ranks]
        here = mask[self.rank]
        count = np.bincount(self.group, here)
        present, complete = count > 0, count == np.bincount(self.group)
        moved = mask[self.pairs.start] & ~mask[self.pairs.end]
        total = (
            self.spread[here & ~complete[self.group]].sum()
            + self.collect[~here & present[self.group]].sum()
            + self.both[present & ~complete].sum()
            + self.pairs.share[moved].sum()
        )
        return Fraction(int(total), self.denominator)

    @cached_property
    def leaving(self) -> Int64Array:
        """int64, shape (ranks,): what must leave each rank, over `denominator`."""
        of_group = _sums(self.group, self.collect, len(self.members)) + self.both
        own = self.spread + of_group[self.group] - self.collect
        sent = _sums(self.pairs.start, self.pairs.share, self.num_ranks)
        return sent + _sums(self.rank, own, self.num_ranks)


def _sums(index: Int32Array | Int64Array, values: Int64Array, length: int) -> Int64Array:
    total = np.zeros(length, dtype=np.int64)
    np.add.at(total, index, values)
    return total
