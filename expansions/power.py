"""Cartesian power of a schedule (dissertation, Definition 14; Theorem 12)."""

from __future__ import annotations

import numpy as np

from expansions.shard_table import ShardTable, check_rows, rank_within
from topologies.exact import Int64Array, offsets_of
from topologies.products import cartesian_power


def expand_power(table: ShardTable, exponent: int) -> ShardTable:
    """Return the allgather on G^n: n times the steps, T_B · N/(N - 1) · (N^n - 1)/N^n.

    A^(1) gathers along one dimension after the other, by A_G in each: in phase j a node passes on the shards
    of all nodes that differ from it in the dimensions before. A^(i) is A^(1) with the dimensions rotated by
    i - 1 places. Each does one n-th of every shard, so that at every time all dimensions are in use.

    Raises
    ------
    InputError
        As `topologies.products.cartesian_power`.
    NoSchedule
        If the table would be too large.
    """
    base, n = table.topology, exponent
    grown = cartesian_power(base, n)
    size = base.num_ranks
    check_rows(grown.name, len(table) * n * sum(size ** (n - 1 + j) for j in range(n)))
    dimensions = _Dimensions(table, n)
    parts = [_phase(table, dimensions, shift, phase) for shift in range(n) for phase in range(n)]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return ShardTable(grown, table.turned, np.tile(table.sizes, n), **columns)


class _Dimensions:
    """Nodes and links of G^n by coordinates, as `topologies.products.cartesian_product` numbers them."""

    def __init__(self, table: ShardTable, n: int) -> None:
        base = table.topology
        self.n, self.size = n, base.num_ranks
        self.source = base.source.astype(np.int64)
        self.rank = rank_within(self.source)
        self.degrees = np.bincount(base.source, minlength=self.size)
        total = np.zeros(1, dtype=np.int64)
        for _ in range(n):
            total = np.add.outer(total, self.degrees).reshape(-1)
        self.first = offsets_of(total)

    def node(self, coordinates: list[Int64Array]) -> Int64Array:
        """Return the nodes with these coordinates, the last varying fastest."""
        number = coordinates[0]
        for coordinate in coordinates[1:]:
            number = number * self.size + coordinate
        return number

    def link(self, coordinates: list[Int64Array], dimension: int, link: Int64Array) -> Int64Array:
        """Return the links along a dimension, which copy `link`, of nodes with these other coordinates."""
        ends = [*coordinates]
        ends[dimension] = self.source[link]
        before = sum((self.degrees[ends[d]] for d in range(dimension)), np.zeros(len(link), np.int64))
        return self.first[self.node(ends)] + before + self.rank[link]


def _phase(table: ShardTable, dimensions: _Dimensions, shift: int, phase: int) -> dict[str, Int64Array]:
    """Return the rows of A^(shift + 1) along its dimension number `phase`."""
    n, size = dimensions.n, dimensions.size
    shape = (len(table), *(size,) * (n - 1 + phase))
    row, *free = (axis.reshape(-1) for axis in np.indices(shape))
    owners, holders, later = free[:phase], free[phase : 2 * phase], free[2 * phase :]
    placed = [(place + shift) % n for place in range(n)]  # coordinate p of A^(1) stands at p + shift
    at_owner, at_holder = [row] * n, [row] * n
    for place, owner, holder in zip(
        placed,
        [*owners, table.owner[row], *later],
        [*holders, row, *later],
        strict=True,
    ):
        at_owner[place], at_holder[place] = owner, holder
    return {
        "owner": dimensions.node(at_owner),
        "first": table.first[row] + shift * len(table.sizes),
        "count": table.count[row],
        "link": dimensions.link(at_holder, placed[phase], table.link[row]),
        "step": table.step[row] + phase * table.steps,
    }
