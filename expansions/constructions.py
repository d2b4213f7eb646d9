"""The expansions of a schedule, each with that of its network.

- Line graph (dissertation, Definition 1; Theorems 7 and 10).
- Degree expansion (Definition 2; Theorem 11).
- Cartesian power (Definition 14; Theorem 12).
- Unidirectional to bidirectional (A.1.6): half of every shard goes each way.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tutti.expansions.shard_table import (
    ShardRows,
    ShardTable,
    check_rows,
    equal_parts,
    rank_within,
    refined,
    spread,
)
from tutti.topologies.errors import InputError, NoSchedule, Unsupported
from tutti.topologies.exact import INT64_MAX, Int64Array, joined_rows, offsets_of
from tutti.topologies.families.products import cartesian_power, degree_expansion, line_graph, self_loops
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import union_with_transpose


def expand_line(table: ShardTable) -> ShardTable:
    """Return A_{L(G)}: one step more, T_B larger by at most M/(B N).

    1. Step 1: every node vu of L(G) gets the whole shards of its in-neighbours v'v.
    2. Let A_G send part C of v's shard from u to w in step t. Then, in step t + 1, node uw sends C of the
       shard of every node v'v to every node ww' except the owner.
    """
    base = table.topology
    grown = line_graph(base)
    loops = np.repeat(np.arange(base.num_ranks), self_loops(base))
    tail, head = np.concatenate([table.tail, loops]), np.concatenate([table.head, loops])
    link_between = _LineGraphLinks(grown, table.turned)
    links = np.arange(grown.num_links)
    tails = (grown.target if table.turned else grown.source).astype(np.int64)
    whole, first_step = np.full(len(links), len(table.sizes)), np.ones(len(links), np.int64)
    first_hop = ShardRows(tails, np.zeros(len(links), np.int64), whole, links, first_step)
    nodes = table.topology.num_ranks
    into, out = np.argsort(head, kind="stable"), np.argsort(tail, kind="stable")
    ins, outs = (np.bincount(ends, minlength=nodes) for ends in (head, tail))
    receiver = table.head[table.link]
    check_rows(f"L({table.topology.name})", int((ins[table.owner] * outs[receiver]).sum()))
    rows, number = spread(ins[table.owner] * outs[receiver])
    among_in, among_out = np.divmod(number, outs[receiver[rows]])
    owner = into[offsets_of(ins)[table.owner[rows]] + among_in]
    target = out[offsets_of(outs)[receiver[rows]] + among_out]
    kept = owner != target
    rows, owner, target = rows[kept], owner[kept], target[kept]
    link, step = link_between(table.link[rows], target), table.step[rows] + 1
    onward = ShardRows(owner, table.first[rows], table.count[rows], link, step)
    return ShardTable(grown, table.turned, table.sizes, *joined_rows([first_hop, onward]))


class _LineGraphLinks:
    """The link of L(G) from one node to another; no two links join the same two nodes."""

    def __init__(self, grown: Topology, turned: bool) -> None:
        self.nodes, self.turned = grown.num_ranks, turned
        self.keys = grown.source.astype(np.int64) * grown.num_ranks + grown.target  # ascending

    def __call__(self, sender: Int64Array, receiver: Int64Array) -> Int64Array:
        ends = (receiver, sender) if self.turned else (sender, receiver)
        return np.searchsorted(self.keys, ends[0] * self.nodes + ends[1])


def expand_degree(table: ShardTable, factor: int) -> ShardTable:
    """Return A_{G * n}: one step more, T_B larger by M/B (n - 1)/(n N).

    1. Where A_G sends a part of v's shard from u to w, copy u_j sends it of v_j's shard to every copy w_i.
    2. In a last step, node u_j gets the shards of the other copies u_i, in equal parts from its
       in-neighbours.

    Raises
    ------
    InputError
        As `topologies.families.products.degree_expansion`.
    NoSchedule
        If the table would be too large.
    Unsupported
        If the network is not regular.
    """
    base, n = table.topology, factor
    grown = degree_expansion(base, n)
    if base.degree is None:
        raise Unsupported(f"expansion * needs a regular network; {base.name} is not")
    check_rows(grown.name, len(table) * n**2 + base.num_links * n**2 * (n - 1))
    fine = refined(table, n * base.degree)
    row, j, i = (axis.reshape(-1) for axis in np.indices((len(fine), n, n)))
    link = _link(fine, n, fine.link[row], j, i)
    copied = ShardRows(fine.owner[row] * n + j, fine.first[row], fine.count[row], link, fine.step[row])
    rows = joined_rows([copied, _between_copies(fine, n)])
    return ShardTable(grown, table.turned, fine.sizes, *rows)


def _between_copies(table: ShardTable, n: int) -> ShardRows:
    """Return the last step: over each link into u_j its part of the shard of every u_i but u_j."""
    links = np.arange(table.topology.num_links)
    link, a, j, i = (axis.reshape(-1) for axis in np.indices((len(links), n, n, n)))
    other = i != j
    link, a, j, i = link[other], a[other], j[other], i[other]
    in_neighbour = rank_within(table.head)[link] * n + a
    first, count = equal_parts(table, n * int(np.bincount(table.head).max()))
    over, step = _link(table, n, link, a, j), np.full(len(link), table.steps + 1)
    return ShardRows(table.head[link] * n + i, first[in_neighbour], count[in_neighbour], over, step)


def _link(
    table: ShardTable, n: int, link: Int64Array, sender: Int64Array, receiver: Int64Array
) -> Int64Array:
    """Return the link of G * n between these copies of the ends of a link of G."""
    base: Topology = table.topology
    tail, head = (receiver, sender) if table.turned else (sender, receiver)
    degrees = np.bincount(base.source, minlength=base.num_ranks)
    source = base.source[link]
    before = offsets_of(degrees)[source] * n**2 + degrees[source] * n * tail
    return before + rank_within(base.source.astype(np.int64))[link] * n + head


def expand_power(table: ShardTable, exponent: int) -> ShardTable:
    """Return the allgather on G^n: n times the steps, T_B · N/(N - 1) · (N^n - 1)/N^n.

    A^(1) gathers along one dimension after the other, by A_G in each: in phase j a node passes on the shards
    of all nodes that differ from it in the dimensions before. A^(i) is A^(1) with the dimensions rotated by
    i - 1 places. Each does one n-th of every shard, so that at every time all dimensions are in use.

    Raises
    ------
    InputError
        As `topologies.families.products.cartesian_power`.
    NoSchedule
        If the table would be too large.
    """
    base, n = table.topology, exponent
    grown = cartesian_power(base, n)
    size = base.num_ranks
    check_rows(grown.name, len(table) * n * sum(size ** (n - 1 + j) for j in range(n)))
    dimensions = _Dimensions(table, n)
    parts = [_phase(table, dimensions, shift, phase) for shift in range(n) for phase in range(n)]
    return ShardTable(grown, table.turned, np.tile(table.sizes, n), *joined_rows(parts))


class _Dimensions:
    """Nodes and links of G^n by coordinates, numbered as by `cartesian_product`."""

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


def _phase(table: ShardTable, dimensions: _Dimensions, shift: int, phase: int) -> ShardRows:
    """Return the rows of A^(shift + 1) along its dimension number `phase`."""
    n, size = dimensions.n, dimensions.size
    shape = (len(table), *(size,) * (n - 1 + phase))
    row, *free = (axis.reshape(-1) for axis in np.indices(shape))
    owners, holders, later = free[:phase], free[phase : 2 * phase], free[2 * phase :]
    placed = [(place + shift) % n for place in range(n)]  # coordinate p of A^(1) stands at p + shift
    at_owner, at_holder = [row] * n, [row] * n
    coordinates = [*owners, table.owner[row], *later], [*holders, row, *later]
    for place, owner, holder in zip(placed, *coordinates, strict=True):
        at_owner[place], at_holder[place] = owner, holder
    return ShardRows(
        dimensions.node(at_owner),
        table.first[row] + shift * len(table.sizes),
        table.count[row],
        dimensions.link(at_holder, placed[phase], table.link[row]),
        table.step[row] + phase * table.steps,
    )


def expand_both_ways(table: ShardTable, back: ShardTable) -> ShardTable:
    """Return the allgather on G and its transpose together: half of every shard by A, half by the other.

    They use disjoint links, so with `back` = g(A) (`expansions.reversal.reflected`) T_L and T_B, in M/B, are
    those of A: half the data, at half the bandwidth a link.

    Parameters
    ----------
    table
        A, on G.
    back
        Any allgather on the transpose of G: the same `topology`, used against the direction of `table`.

    Raises
    ------
    InputError
        If the two are not on one network and its transpose.
    NoSchedule
        If the table would be too large, or sizes do not fit 64 bits.
    """
    if back.topology != table.topology or back.turned == table.turned:
        raise InputError(f"expansion both ways: {back.topology.name} is not the transpose's")
    grown = union_with_transpose(table.topology)
    check_rows(grown.name, len(table) + len(back))
    whole = math.lcm(int(table.sizes.sum()), int(back.sizes.sum()))
    if 2 * whole > INT64_MAX:
        raise NoSchedule(f"expansion on {grown.name}: the shards would be cut too finely")
    halves = [half.sizes * (whole // int(half.sizes.sum())) for half in (table, back)]
    moved = replace(back, first=back.first + len(table.sizes), link=back.link + table.topology.num_links)
    rows = joined_rows([table.rows, moved.rows])
    return ShardTable(grown, table.turned, np.concatenate(halves), *rows)
