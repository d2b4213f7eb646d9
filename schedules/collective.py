"""Collectives: which rank holds which datum before, and which ranks must hold it after.

Every collective is a list of *items*. An item is a datum with a share of M, the ranks where it starts, and
the ranks where it must end. Only four shapes occur, because a start (and an end) is either one rank or every
rank of a group:

==============  =========  =======  ==============================================
kind            start      end      item
==============  =========  =======  ==============================================
allgather       owner      all      a rank's shard
broadcast       root       all      the root's buffer
gather          owner      root     a rank's shard
scatter         root       owner    the part of the root's buffer meant for a rank
all-to-all      owner      for      what one rank sends to another (or to itself)
reduce-scatter  all        owner    the part that a rank ends with
reduce          all        root     the whole buffer
allreduce       all        all      one N-th of the buffer
==============  =========  =======  ==============================================

If every rank is a start, each contributes its own operand and the item *combines*: the end must hold the sum
of all contributions, each once.

In an all-to-all with a *matrix* (all-to-all-v) the items are its non-zero entries, in units of its largest
row: M is the most that one rank sends, including what it keeps.

Several collectives of one kind can run at the same time over disjoint groups of the ranks. Several of
different kinds, or over groups that share ranks, are one *mixed* collective of *parts* (`concurrent`); its
items are those of its parts. Each part has a *weight*, its own M over that of the whole: M is that of the
part that moves most.

Groups may be a text by dimensions of the ranks, as jobs name them, such as
``tp=8:allreduce@64MB,dp=4:reduce-scatter@1GB``. The sizes of the dimensions multiply to N, and the first
varies fastest: ranks 0 to 7 are the first group of ``tp`` here, and ranks 0, 8, 16 and 24 the first of
``dp``. One size may be ``*``, which is the remaining factor of N. Each dimension states its collective and
the bytes; a dimension with ``none``, or of size 1, does nothing.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from tutti.schedules.byte_matrix import ByteMatrix, byte_matrix
from tutti.topologies.errors import InputError, suggestion
from tutti.topologies.exact import BoolArray, Int32Array, Rationals, frozen
from tutti.topologies.units import parse_size

EVERYONE = -1
"""The entry of `Items.start` and `Items.end` for every rank of the item's group."""

MANY_RANKS = 8
"""Least number of ranks whose groups along a dimension are not listed: ``4 by 8`` is 4 ranks, 8 apart."""


class Kind(StrEnum):
    """The collectives, spelt as on the command line."""

    ALLGATHER = "allgather"
    REDUCE_SCATTER = "reduce-scatter"
    ALLREDUCE = "allreduce"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    ALL_TO_ALL = "all-to-all"
    GATHER = "gather"
    SCATTER = "scatter"
    MIXED = "mixed"
    """Several of the others at the same time; it is the kind of `concurrent` collectives only."""

    @property
    def rooted(self) -> bool:
        """Whether one rank is the root."""
        return self in (Kind.BROADCAST, Kind.REDUCE, Kind.GATHER, Kind.SCATTER)

    @property
    def is_combining(self) -> bool:
        """Whether data is reduced on the way."""
        return self in (Kind.REDUCE_SCATTER, Kind.ALLREDUCE, Kind.REDUCE)

    @property
    def reverse(self) -> Kind:
        """The collective that a schedule does if all its transfers run backwards (Theorem 1)."""
        return _REVERSE.get(self, self)


_PAIRS = {
    Kind.ALLGATHER: Kind.REDUCE_SCATTER,
    Kind.BROADCAST: Kind.REDUCE,
    Kind.GATHER: Kind.SCATTER,
}
_REVERSE = _PAIRS | {b: a for a, b in _PAIRS.items()}

KINDS = tuple(kind for kind in Kind if kind is not Kind.MIXED)
"""The kinds of a single collective."""


@dataclass(frozen=True, eq=False)
class Items:
    """The data of a collective, one row each (arrays of one length).

    Parameters
    ----------
    group
        int32: the row of `Collective.groups`.
    owner
        int32: the rank whose datum the item is.
    dest
        int32: in all-to-all the rank that the item is for; otherwise -1. (Column ``for`` of a schedule file.)
    start, end
        int32: the rank where the item starts (must end), or `EVERYONE`.
    share
        The item's size in units of M, exact.
    """

    group: Int32Array
    owner: Int32Array
    dest: Int32Array
    start: Int32Array
    end: Int32Array
    share: Rationals

    def __len__(self) -> int:
        return len(self.owner)

    @property
    def combines(self) -> BoolArray:
        """Whether each item is a sum of contributions: it starts at every rank of its group."""
        return self.start == EVERYONE


@dataclass(frozen=True)
class Collective:
    """A collective over all ranks of a network, or over groups of them at the same time.

    `tutti.collective` makes one of a name and a network.

    Parameters
    ----------
    kind
        The kind of collective.
    num_ranks
        N, the number of ranks of the whole network.
    root
        The root of a rooted collective, otherwise None. With groups: the root's position in each group.
    shards
        Relative sizes of the shards, one for each member of a group in order; None for equal ones. Broadcast
        and reduce, whose datum is the whole buffer, take none.
    groups
        Disjoint tuples of ranks. Each does the collective on its own M; None for one group of all ranks.
    parts
        For a mixed collective only: the collectives that it consists of, which may share ranks. Its own
        groups are theirs.
    weights
        For a mixed collective only: relative sizes of its parts, in units of the largest; None for equal
        ones.
    matrix
        For an all-to-all only: the bytes that each member of a group sends to each, in order; None for equal
        amounts.

    Raises
    ------
    InputError
        If the parameters do not fit each other.

    Examples
    --------
    >>> pairs = Collective("allreduce", 4, groups=((0, 1), (2, 3)))
    >>> pairs.members, pairs.is_combining
    (((0, 1), (2, 3)), True)
    """

    kind: Kind
    num_ranks: int
    root: int | None = None
    shards: tuple[Fraction, ...] | None = None
    groups: tuple[tuple[int, ...], ...] | None = None
    parts: tuple[Collective, ...] = ()
    weights: tuple[Fraction, ...] | None = None
    matrix: ByteMatrix | None = None

    def __post_init__(self) -> None:
        """Check that the parameters fit."""
        object.__setattr__(self, "kind", Kind.MIXED if self.parts else parse_kind(self.kind))
        _check_weights(self)
        if self.parts:
            _check_parts(self)
            object.__setattr__(self, "groups", tuple(group for part in self.parts for group in part.members))
            if self.weights is not None:  # in units of the largest; none if all are equal
                exact = tuple(weight / max(self.weights) for weight in self.weights)
                object.__setattr__(self, "weights", exact if len(set(exact)) > 1 else None)
        else:
            _check_groups(self)
        sizes = {len(members) for members in self.members}
        _check_root(self, min(sizes))
        _check_shards(self, sizes)
        _check_matrix(self, sizes)

    @property
    def is_combining(self) -> bool:
        """Whether data is reduced on the way."""
        return self.kind.is_combining or any(part.is_combining for part in self.parts)

    @property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """The ranks of each group; one group of all ranks if none are given."""
        return self.groups if self.groups is not None else (tuple(range(self.num_ranks)),)

    @property
    def shares_ranks(self) -> bool:
        """Whether a rank is in several groups."""
        ranks = [rank for group in self.members for rank in group]
        return len(set(ranks)) < len(ranks)

    @property
    def part_weights(self) -> tuple[Fraction, ...]:
        """The M of each part over that of the whole."""
        return self.weights or (Fraction(1),) * len(self.parts)

    @property
    def plain(self) -> bool:
        """Whether all ranks take part in one collective with equal shards."""
        return self.groups is None and self.shards is None and self.matrix is None

    @property
    def own_size(self) -> int | None:
        """M in bytes, if the matrix is in bytes."""
        return None if self.matrix is None or self.matrix.relative else self.matrix.largest_row

    @property
    def bus_factor(self) -> Fraction | None:
        """The ratio of busbw to algbw (nccl-tests): the part of M that the busiest rank must send or receive.

        With this factor, busbw can be compared with a link's bandwidth. For a matrix it is the largest row or
        column without the bytes that ranks keep. It is None for groups of different sizes.

        Examples
        --------
        >>> collective("allreduce", 8).bus_factor
        Fraction(7, 4)
        """
        sizes = {len(group) for group in self.members}
        if len(sizes) > 1 or self.kind is Kind.MIXED:
            return None
        if self.matrix is not None:
            return Fraction(self.matrix.busiest, self.matrix.largest_row)
        share = 1 - Fraction(1, sizes.pop())
        if self.kind is Kind.ALLREDUCE:
            return 2 * share
        return Fraction(1) if self.kind in (Kind.BROADCAST, Kind.REDUCE) else share

    @property
    def reverse(self) -> Collective:
        """The collective that a schedule of this one does when it is run backwards (dissertation, Theorem 1).

        With a matrix, its M is the largest column.
        """
        if self.parts:
            weighted = zip(self.part_weights, self.parts, strict=True)
            weights = [weight / part.unit_of_reverse for weight, part in weighted]
            return concurrent([part.reverse for part in self.parts], weights)
        matrix = None if self.matrix is None else self.matrix.transposed
        return Collective(
            self.kind.reverse, self.num_ranks, self.root, self.shards, self.groups, matrix=matrix
        )

    @property
    def unit_of_reverse(self) -> Fraction:
        """M over the M of the reverse: with a matrix the largest row over the largest column, otherwise 1."""
        if self.matrix is None:
            return Fraction(1)
        return Fraction(self.matrix.largest_row, self.matrix.transposed.largest_row)

    def with_kind(self, kind: Kind) -> Collective:
        """Return a collective of another unrooted kind with the same groups and shards."""
        return Collective(kind, self.num_ranks, None, self.shards, self.groups)

    def with_group(self, number: int) -> Collective:
        """Return the same collective in one of its groups."""
        return replace(self, groups=(self.members[number],))

    @cached_property
    def items(self) -> Items:
        """All data, in order of group, owner's position and, in an all-to-all, destination's position."""
        if self.parts:
            return _joined_items(self.parts, self.part_weights)
        if self.matrix is not None:
            return self._matrix_items(self.matrix)
        groups = [np.array(members, dtype=np.int32) for members in self.members]
        parts = [self._group_items(number, members) for number, members in enumerate(groups)]
        group, owner, dest, start, end = (
            frozen(np.concatenate(column), np.int32) for column in zip(*(p[:5] for p in parts), strict=True)
        )
        shares = [self._shares(len(members)) for members in groups]
        base = np.cumsum([0, *map(len, shares)])
        which = np.concatenate([base[number] + part[5] for number, part in enumerate(parts)])
        exact = Rationals.of(share for group_shares in shares for share in group_shares)
        return Items(group, owner, dest, start, end, exact.take(which))

    @property
    def num_items(self) -> int:
        """The number of items, computed without listing them."""
        if self.parts:
            return sum(part.num_items for part in self.parts)
        if self.matrix is not None:
            return len(self.members) * int(np.count_nonzero(self.matrix.amounts))
        if self.kind in (Kind.BROADCAST, Kind.REDUCE):
            return len(self.members)
        power = 2 if self.kind is Kind.ALL_TO_ALL else 1
        return sum(len(group) ** power for group in self.members)

    def _matrix_items(self, matrix: ByteMatrix) -> Items:
        """Return the items of an all-to-all-v: none for entries that are 0."""
        sender, receiver = np.nonzero(matrix.amounts)
        members = np.array(self.members, dtype=np.int32)
        owner, dest = members[:, sender].ravel(), members[:, receiver].ravel()
        group = np.repeat(np.arange(len(members), dtype=np.int32), len(sender))
        amounts = np.tile(matrix.amounts[sender, receiver], len(members))
        share = Rationals(frozen(amounts, np.int64), matrix.largest_row).reduced
        owner, dest, group = (frozen(column, np.int32) for column in (owner, dest, group))
        return Items(group, owner, dest, owner, dest, share)

    def _group_items(self, group: int, members: Int32Array) -> tuple[Int32Array, ...]:
        """Return the columns of `Items` for one group, the last as positions in its list of shares."""
        size = len(members)
        everyone = np.full(size, EVERYONE, dtype=np.int32)
        nobody = np.full(size, -1, dtype=np.int32)
        position = np.arange(size, dtype=np.int32)
        root = members[[self.root or 0]]
        at_root = np.full(size, root[0], dtype=np.int32)
        if self.kind is Kind.ALL_TO_ALL:
            owner, dest = np.repeat(members, size), np.tile(members, size)
            columns = (owner, dest, owner, dest, np.tile(position, size))
        elif self.kind in (Kind.BROADCAST, Kind.REDUCE):
            start, end = (root, everyone[:1]) if self.kind is Kind.BROADCAST else (everyone[:1], root)
            columns = (root, nobody[:1], start, end, position[:1])
        else:
            start, end = {
                Kind.ALLGATHER: (members, everyone),
                Kind.REDUCE_SCATTER: (everyone, members),
                Kind.ALLREDUCE: (everyone, everyone),
                Kind.GATHER: (members, at_root),
                Kind.SCATTER: (at_root, members),
            }[self.kind]
            columns = (members, nobody, start, end, position)
        return (np.full(len(columns[0]), group, dtype=np.int32), *columns)

    def _shares(self, size: int) -> list[Fraction]:
        if self.kind in (Kind.BROADCAST, Kind.REDUCE):
            return [Fraction(1)]
        weights = self.shards or (Fraction(1),) * size
        total = sum(weights, Fraction(0))
        return [Fraction(weight) / total for weight in weights]

    def __str__(self) -> str:
        if self.parts:
            weighted = zip(self.part_weights, self.parts, strict=True)
            return f"mixed({' + '.join(f'{part}' if w == 1 else f'{w} {part}' for w, part in weighted)})"
        extra = [f"root={self.root}"] if self.root else []
        extra += [f"shards={','.join(map(str, self.shards))}"] if self.shards else []
        extra += [f"matrix={self.matrix}"] if self.matrix else []
        extra += [f"groups={_group_text(self.groups, self.num_ranks)}"] if self.groups else []
        return f"{self.kind}({'; '.join(extra)})" if extra else str(self.kind)


def _group_text(groups: tuple[tuple[int, ...], ...], num_ranks: int) -> str:
    """Return the ranks of groups as text; for groups along a dimension of many ranks, size and distance."""
    size, stride = len(groups[0]), groups[0][1] - groups[0][0]
    if num_ranks >= MANY_RANKS and stride > 0 and num_ranks % (size * stride) == 0:
        lines = np.arange(num_ranks).reshape(-1, size, stride).swapaxes(1, 2).reshape(-1, size)
        if groups == tuple(map(tuple, lines.tolist())):
            return f"{size} by {stride}"
    return "|".join(",".join(map(str, group)) for group in groups)


def parse_kind(text: str) -> Kind:
    """Return the collective of that name.

    Raises
    ------
    InputError
        If there is none; the message suggests one.
    """
    if text == Kind.MIXED:
        raise InputError("a mixed collective is made of parts; a config gives them, as parts = [...]")
    if text not in set(KINDS):
        raise InputError(f"unknown collective '{text}'{suggestion(str(text), list(KINDS))}")
    return Kind(text)


def collective(
    kind: str,
    num_ranks: int,
    *,
    root: int | None = None,
    shards: Sequence[Fraction | int] | None = None,
    groups: Sequence[Sequence[int]] | None = None,
    matrix: Any = None,
) -> Collective:
    """Return a collective; the root of a rooted one defaults to rank 0, a matrix is as for `byte_matrix`.

    Raises
    ------
    InputError
        As `Collective`, and for an unknown kind.
    """
    which = parse_kind(kind)
    of_ranks = None if groups is None else tuple(tuple(int(r) for r in g) for g in groups)
    return Collective(
        which,
        num_ranks,
        0 if root is None and which.rooted else root,
        None if shards is None else tuple(Fraction(s) for s in shards),
        of_ranks,
        matrix=None if matrix is None else byte_matrix(matrix, len(of_ranks[0]) if of_ranks else num_ranks),
    )


def concurrent(parts: Sequence[Collective], weights: Sequence[Fraction | int] | None = None) -> Collective:
    """Return the mixed collective that does several at the same time, each over its own groups.

    Parameters
    ----------
    parts
        At least two, over the same number of ranks.
    weights
        The relative size of each; None: all move the same M.

    Examples
    --------
    >>> left, right = collective("broadcast", 4, groups=[[0, 1]]), collective("reduce", 4, groups=[[1, 2]])
    >>> str(concurrent([left, right], [4, 1]))
    'mixed(broadcast(groups=0,1) + 1/4 reduce(groups=1,2))'

    Raises
    ------
    InputError
        If there are fewer than two, if they are over different numbers of ranks, or if the weights are not
        one per part or not positive.
    """
    if len(parts) < 2:
        raise InputError(f"mixed: {len(parts)} part(s); at least 2 are needed")
    exact = None if weights is None else tuple(map(Fraction, weights))
    return Collective(Kind.MIXED, parts[0].num_ranks, parts=tuple(parts), weights=exact)


def _joined_items(parts: Sequence[Collective], weights: Sequence[Fraction]) -> Items:
    """Return the items of all parts, with scaled shares and consecutive numbers of groups."""
    tables = [part.items for part in parts]
    base = np.cumsum([0, *(len(part.members) for part in parts)])

    def column(name: str) -> Int32Array:
        return frozen(np.concatenate([getattr(table, name) for table in tables]), np.int32)

    return Items(
        group=frozen(
            np.concatenate([table.group + first for table, first in zip(tables, base, strict=False)]),
            np.int32,
        ),
        owner=column("owner"),
        dest=column("dest"),
        start=column("start"),
        end=column("end"),
        share=Rationals.of(
            weight * share for table, weight in zip(tables, weights, strict=True) for share in table.share
        ),
    )


def _check_weights(c: Collective) -> None:
    if c.weights is None:
        return
    if len(c.weights) != len(c.parts):
        raise InputError(f"{c.kind}: {len(c.weights)} weights for {len(c.parts)} parts; give one each")
    if min(c.weights) <= 0:
        raise InputError(f"{c.kind}: weight {min(c.weights)}; it must be positive")


def _check_parts(c: Collective) -> None:
    if (c.root, c.shards, c.matrix) != (None, None, None):
        raise InputError("mixed takes no root, shards or matrix; its parts do")
    for part in c.parts:
        if part.parts:
            raise InputError("mixed: a part is mixed itself; give its parts instead")
        if part.num_ranks != c.num_ranks:
            raise InputError(
                f"mixed: a part is over {part.num_ranks} ranks; the others are over {c.num_ranks}"
            )


def _check_groups(c: Collective) -> None:
    seen: set[int] = set()
    if not c.members:
        raise InputError(f"{c.kind}: groups is empty; give at least one group, or leave it out")
    for number, group in enumerate(c.members):
        if len(group) < 2:
            raise InputError(f"{c.kind}: group {number} has {len(group)} rank(s); it needs at least 2")
        for rank in group:
            if not 0 <= rank < c.num_ranks:
                raise InputError(f"{c.kind}: rank {rank} in group {number}; ranks are 0..{c.num_ranks - 1}")
            if rank in seen:
                raise InputError(f"{c.kind}: rank {rank} occurs twice in the groups; groups must be disjoint")
            seen.add(rank)


def _check_root(c: Collective, size: int) -> None:
    if c.kind.rooted != (c.root is not None):
        needs = "needs a root" if c.kind.rooted else "takes no root"
        raise InputError(f"{c.kind} {needs}; rooted are broadcast, reduce, gather, scatter")
    if c.root is not None and c.root not in range(size):
        raise InputError(f"{c.kind}: root {c.root}; allowed: 0..{size - 1}")


def _check_shards(c: Collective, sizes: set[int]) -> None:
    if c.shards is None:
        return
    if c.kind in (Kind.BROADCAST, Kind.REDUCE):
        raise InputError(f"{c.kind} takes no shards: its datum is the root's whole buffer")
    if sizes != {len(c.shards)}:
        raise InputError(f"{c.kind}: {len(c.shards)} shards for {sorted(sizes)} ranks; give one each")
    if min(c.shards) < 0 or sum(c.shards) == 0:
        raise InputError(f"{c.kind}: shard sizes must not be negative, nor all zero")


def _check_matrix(c: Collective, sizes: set[int]) -> None:
    if c.matrix is None:
        return
    if c.kind is not Kind.ALL_TO_ALL or c.shards is not None:
        what = "has shards; the matrix says all sizes" if c.shards is not None else "is no all-to-all"
        raise InputError(f"{c.kind} with matrix {c.matrix}: it {what}")
    if sizes != {len(c.matrix.amounts)}:
        size = len(c.matrix.amounts)
        raise InputError(
            f"{c.kind}: matrix {c.matrix} is {size} x {size}, for groups of {sorted(sizes)} ranks"
        )


IDLE, REST = "none", "*"
"""The collective of a dimension that does nothing, and the size that is the remaining factor of N."""
_DIMENSION = re.compile(r"\s*([^=:@\s]+)\s*=\s*([1-9][0-9]{0,8}|\*)\s*(?::([^@]*))?(?:@(.+))?")


@dataclass(frozen=True)
class Dimension:
    """A dimension: its size (0: the rest of N), its groups' collective, and their bytes (None: not given)."""

    name: str
    size: int
    kind: str
    bytes: Fraction | None


def is_dimensions(text: str) -> bool:
    """Whether a text gives groups by dimensions instead of lists of ranks."""
    return "=" in text


def asked_collective(
    kind: str, num_ranks: int, groups: list[list[int]] | str | None, **how: Any
) -> tuple[Collective, Fraction | None]:
    """Return a collective, whose groups may be a text by dimensions, and M in bytes where it says it itself.

    Raises
    ------
    InputError
        If they do not fit each other.
    """
    if isinstance(groups, str):
        if any(given is not None for given in how.values()):
            raise InputError("groups by dimensions take no root, shards and matrix")
        return grouped(groups, num_ranks, kind)
    what = collective(kind, num_ranks, groups=groups, **how)
    if how.get("shards") is not None:
        _ = what.items  # refuses here what is too far apart to be exact
    return what, None if what.own_size is None else Fraction(what.own_size)


def grouped(text: str, num_ranks: int, kind: str) -> tuple[Collective, Fraction | None]:
    """Return the collectives that dimensions do together, and M in bytes, their largest, if they give it.

    Parameters
    ----------
    text
        Dimensions, separated by commas: a name, ``=``, a size; then ``:`` and a collective, and ``@`` and its
        bytes, which may both be left out.
    num_ranks
        The number of ranks, N.
    kind
        The collective of dimensions that do not state one.

    Raises
    ------
    InputError
        If it is no such text, a name or ``*`` occurs twice, the sizes do not multiply to N, a collective is
        unknown, or only some give bytes.

    Examples
    --------
    >>> what, size = grouped("tp=4:allreduce@1MB,dp=*:allgather@4MB", 8, "")
    >>> str(what), int(size)
    ('mixed(1/4 allreduce(groups=4 by 1) + allgather(groups=2 by 4))', 4000000)
    """
    where = f"groups '{text}'"
    dimensions = _whole([_dimension(word, where, kind) for word in text.split(",")], num_ranks, where)
    ranks = np.arange(num_ranks).reshape([each.size for each in reversed(dimensions)])
    doing: list[tuple[Dimension, Any]] = []
    for place, each in enumerate(reversed(dimensions)):  # ranks vary fastest along the first dimension
        if each.size > 1 and each.kind != IDLE:
            doing.insert(0, (each, np.moveaxis(ranks, place, -1).reshape(-1, each.size)))
    if not doing:
        raise InputError(f"{where}: no dimension of more than one rank does anything")
    sizes = [each.bytes for each, _ in doing if each.bytes is not None]
    if sizes and len(sizes) < len(doing):
        raise InputError(f"{where}: only some dimensions give bytes; give them for all or none")
    parts = [collective(each.kind, num_ranks, groups=groups.tolist()) for each, groups in doing]
    return concurrent(parts, sizes or None) if len(parts) > 1 else parts[0], max(sizes, default=None)


def _dimension(word: str, where: str, kind: str) -> Dimension:
    found = _DIMENSION.fullmatch(word)
    if found is None:
        raise InputError(f"{where}: '{word}' is no dimension; write tp=8 or tp=8:allreduce@64MB")
    name, size, own, amount = found.groups()
    if (own or kind) != IDLE:
        parse_kind(own or kind)
    return Dimension(
        name, 0 if size == REST else int(size), own or kind, None if amount is None else parse_size(amount)
    )


def _whole(dimensions: Sequence[Dimension], num_ranks: int, where: str) -> list[Dimension]:
    """Return the dimensions with their sizes, which multiply to N."""
    words = Counter([*(each.name for each in dimensions), *(REST for each in dimensions if not each.size)])
    word, count = words.most_common(1)[0]
    if count > 1:
        raise InputError(f"{where}: '{word}' occurs {count} times; once is allowed")
    known = math.prod(each.size or 1 for each in dimensions)
    left = num_ranks // known if words[REST] else 1
    if known * left != num_ranks:
        raise InputError(f"{where}: the sizes multiply to {known}, for {num_ranks} ranks")
    return [replace(each, size=each.size or left) for each in dimensions]
