"""The table of an allgather as expansions see it, and the expansions, each with that of its network.

A table has rows (owner, part, link, step), with all shards cut into the same parts. A `turned` table is an
allgather on the transpose of its network. It uses the numbers of the network's own nodes and links, which
transposing keeps. Every expansion commutes with the transpose, so a reduce-scatter is the reverse of the
expansion of a turned table (dissertation, Corollary 1.2). The expansions are

- Line graph (dissertation, Definition 1; Theorems 7 and 10).
- Degree expansion (Definition 2; Theorem 11).
- Cartesian power (Definition 14; Theorem 12).
- Unidirectional to bidirectional (A.1.6): half of every shard goes each way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tutti.schedules.collective import Collective
from tutti.schedules.schedule import Chunks, Clock, Schedule, step_numbers
from tutti.topologies.errors import InputError, NoSchedule, Unsupported
from tutti.topologies.exact import INT64_MAX, Int64Array, entries_of, joined_rows, offsets_of
from tutti.topologies.families.products import cartesian_power, degree_expansion, line_graph, self_loops
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose, union_with_transpose

MOST_ROWS = 10**8
"""Largest number of rows of a table; a row takes about 100 bytes while a table is expanded."""

MOST_CHUNKS = 2**31 - 1
"""Largest number of chunks of a schedule: chunk numbers are int32."""


class ShardRows(NamedTuple):
    """The rows of a `ShardTable`, one array for each of its columns."""

    owner: Int64Array
    first: Int64Array
    number: Int64Array
    link: Int64Array
    step: Int64Array


@dataclass(frozen=True, eq=False)
class ShardTable:
    """The rows of an allgather in the step clock, over single links.

    Parameters
    ----------
    topology
        The network whose nodes and links the rows use.
    turned
        Whether links are used against their direction.
    sizes
        int64, shape (parts,): the parts of every shard, in order; a shard is their sum.
    owner
        int64, shape (rows,): the node whose shard a row moves.
    first, count
        int64, shape (rows,): the run of parts that a row moves.
    link
        int64, shape (rows,): the link that it crosses.
    step
        int64, shape (rows,): from 1.
    """

    topology: Topology
    turned: bool
    sizes: Int64Array
    owner: Int64Array
    first: Int64Array
    count: Int64Array
    link: Int64Array
    step: Int64Array

    def __len__(self) -> int:
        return len(self.owner)

    @property
    def tail(self) -> Int64Array:
        """int64, shape (links,): the node that sends over each link."""
        return (self.topology.target if self.turned else self.topology.source).astype(np.int64)

    @property
    def head(self) -> Int64Array:
        """int64, shape (links,): the node that receives over each link."""
        return (self.topology.source if self.turned else self.topology.target).astype(np.int64)

    @property
    def steps(self) -> int:
        """T_L, in comm steps."""
        return int(self.step.max(initial=0))

    @property
    def rows(self) -> ShardRows:
        """The rows alone."""
        return ShardRows(self.owner, self.first, self.count, self.link, self.step)

    def taken(self, rows: Int64Array) -> ShardTable:
        """Return the table with these rows, in this order."""
        return ShardTable(self.topology, self.turned, self.sizes, *(column[rows] for column in self.rows))


def from_schedule(schedule: Schedule, topology: Topology, turned: bool) -> ShardTable:
    """Return the table of an allgather by steps, whose topology is `topology` or, if turned, its transpose.

    Raises
    ------
    InputError
        If shards are cut differently, or a route has several links.
    """
    table, parts = schedule.chunks, len(schedule.chunks) // topology.num_ranks
    sizes = (
        table.size.reshape(topology.num_ranks, parts) if parts * topology.num_ranks == len(table) else None
    )
    if sizes is None or (sizes != sizes[0]).any() or schedule.routes is not None or schedule.order is None:
        raise InputError(f"{schedule.collective} on {topology.name}: an expansion needs equally cut shards")
    chunk = schedule.chunk.astype(np.int64)
    count = np.ones(len(chunk)) if schedule.count is None else schedule.count
    return ShardTable(
        topology,
        turned,
        sizes[0].astype(np.int64),
        chunk // parts,
        chunk % parts,
        count.astype(np.int64),
        schedule.route.astype(np.int64),
        schedule.order.astype(np.int64),
    )


def to_schedule(table: ShardTable, topology: Topology, what: Collective) -> Schedule:
    """Return the allgather on `topology`, which has the links of the table's, or on its transpose.

    Raises
    ------
    NoSchedule
        If numbers outgrow the types of a schedule.
    """
    parts, ranks = len(table.sizes), topology.num_ranks
    denominator = int(table.sizes.sum()) * ranks
    if denominator > INT64_MAX or parts * ranks > MOST_CHUNKS:
        raise NoSchedule(f"expansion on {topology.name}: {parts} parts a shard are too many for a table")
    sorted_rows = table.taken(np.argsort(table.step, kind="stable"))
    chunks = Chunks(
        np.repeat(np.arange(ranks, dtype=np.int32), parts), np.tile(table.sizes, ranks), denominator
    )
    return Schedule(
        topology=transpose(topology) if table.turned else topology,
        collective=what,
        clock=Clock.STEP,
        chunks=chunks,
        chunk=(sorted_rows.owner * parts + sorted_rows.first).astype(np.int32),
        route=sorted_rows.link.astype(np.int32),
        order=step_numbers(sorted_rows.step),
        count=None if parts == 1 else sorted_rows.count.astype(np.int32),
    )


def refined(table: ShardTable, cuts: int) -> ShardTable:
    """Return the same rows with every shard also cut into `cuts` equal parts.

    Raises
    ------
    NoSchedule
        If sizes do not fit 64 bits.
    """
    whole = int(table.sizes.sum())
    scale = math.lcm(whole, cuts) // whole
    if whole * scale > INT64_MAX:
        raise NoSchedule(f"expansion on {table.topology.name}: the shards would be cut too finely")
    old = offsets_of(table.sizes) * scale
    new = np.union1d(old, np.arange(cuts + 1) * (whole * scale // cuts))
    place = np.searchsorted(new, old)
    return replace(
        table,
        sizes=np.diff(new),
        first=place[table.first],
        count=place[table.first + table.count] - place[table.first],
    )


def equal_parts(table: ShardTable, number: int) -> tuple[Int64Array, Int64Array]:
    """Return the runs of parts (first, count) of each of `number` equal pieces, which must not cut parts."""
    ends = offsets_of(table.sizes)
    place = np.searchsorted(ends, np.arange(number + 1) * (int(ends[-1]) // number))
    return place[:-1], np.diff(place)


def rank_within(group: Int64Array) -> Int64Array:
    """Return how many earlier entries are of the same group, for each entry.

    Examples
    --------
    >>> rank_within(np.array([1, 0, 1, 1])).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(group, kind="stable")
    counts = np.bincount(group)
    result = np.empty(len(group), dtype=np.int64)
    result[order] = np.arange(len(group)) - np.repeat(offsets_of(counts)[:-1], counts)
    return result


def check_rows(name: str, rows: int) -> None:
    """Refuse a table of too many rows.

    Raises
    ------
    NoSchedule
        If there are more than `MOST_ROWS`.
    """
    if rows > MOST_ROWS:
        raise NoSchedule(f"expansion on {name}: {rows} transfers; at most {MOST_ROWS}")


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
    link_between = _LinksBetween(grown, table.turned)
    links = np.arange(grown.num_links)
    tails = (grown.target if table.turned else grown.source).astype(np.int64)
    whole, first_step = np.full(len(links), len(table.sizes)), np.ones(len(links), np.int64)
    first_hop = ShardRows(tails, np.zeros(len(links), np.int64), whole, links, first_step)
    nodes = table.topology.num_ranks
    into, out = np.argsort(head, kind="stable"), np.argsort(tail, kind="stable")
    ins, outs = (np.bincount(ends, minlength=nodes) for ends in (head, tail))
    receiver = table.head[table.link]
    check_rows(f"L({table.topology.name})", int((ins[table.owner] * outs[receiver]).sum()))
    rows, number = entries_of(ins[table.owner] * outs[receiver])
    among_in, among_out = np.divmod(number, outs[receiver[rows]])
    owner = into[offsets_of(ins)[table.owner[rows]] + among_in]
    target = out[offsets_of(outs)[receiver[rows]] + among_out]
    kept = owner != target
    rows, owner, target = rows[kept], owner[kept], target[kept]
    link, step = link_between(table.link[rows], target), table.step[rows] + 1
    onward = ShardRows(owner, table.first[rows], table.count[rows], link, step)
    return ShardTable(grown, table.turned, table.sizes, *joined_rows([first_hop, onward]))


class _LinksBetween:
    """The links of a network by their ends, of parallel ones the first or a later one."""

    def __init__(self, topology: Topology, turned: bool) -> None:
        self.nodes, self.turned = topology.num_ranks, turned
        keys = topology.source.astype(np.int64) * topology.num_ranks + topology.target
        self.order = np.argsort(keys, kind="stable")
        self.keys = keys[self.order]

    def __call__(self, sender: Int64Array, receiver: Int64Array, number: Int64Array | int = 0) -> Int64Array:
        tail, head = (receiver, sender) if self.turned else (sender, receiver)
        return self.order[np.searchsorted(self.keys, tail * self.nodes + head) + number]


def _numbers(topology: Topology) -> Int64Array:
    """Return how many earlier links are parallel to each link."""
    ends = np.stack([topology.source, topology.target])
    return rank_within(np.unique(ends, axis=1, return_inverse=True)[1].reshape(-1))


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
    number, links = _numbers(base), _LinksBetween(grown, table.turned)
    row, j, i = (axis.reshape(-1) for axis in np.indices((len(fine), n, n)))
    link = fine.link[row]
    over = links(fine.tail[link] * n + j, fine.head[link] * n + i, number[link])
    copied = ShardRows(fine.owner[row] * n + j, fine.first[row], fine.count[row], over, fine.step[row])
    # The last step: over each link into u_j its part of the shard of every u_i but u_j.
    link, a, j, i = (axis.reshape(-1) for axis in np.indices((base.num_links, n, n, n)))
    other = i != j
    link, a, j, i = link[other], a[other], j[other], i[other]
    over = links(fine.tail[link] * n + a, fine.head[link] * n + j, number[link])
    first, count = equal_parts(fine, n * int(np.bincount(fine.head).max()))
    part = rank_within(fine.head)[link] * n + a  # by in-neighbour
    last = np.full(len(link), fine.steps + 1)
    exchanged = ShardRows(fine.head[link] * n + i, first[part], count[part], over, last)
    return ShardTable(grown, table.turned, fine.sizes, *joined_rows([copied, exchanged]))


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
    number, links = _numbers(base), _LinksBetween(grown, table.turned)

    def phase(shift: int, j: int) -> ShardRows:
        """Return the rows of A^(shift + 1) along its dimension number j."""
        row, *free = (axis.reshape(-1) for axis in np.indices((len(table), *(size,) * (n - 1 + j))))
        owners, holders, later = free[:j], free[j : 2 * j], free[2 * j :]
        link = table.link[row]

        def node(own: Sequence[Int64Array], here: Int64Array) -> Int64Array:
            """Return the nodes with these coordinates in A^(1): `own`, `here` and `later`."""
            coordinates, found = [*own, here, *later], np.zeros(len(row), np.int64)
            for place in range(n):
                found = found * size + coordinates[(place - shift) % n]
            return found

        over = links(node(holders, table.tail[link]), node(holders, table.head[link]), number[link])
        first, step = table.first[row] + shift * len(table.sizes), table.step[row] + j * table.steps
        return ShardRows(node(owners, table.owner[row]), first, table.count[row], over, step)

    rows = joined_rows([phase(shift, j) for shift in range(n) for j in range(n)])
    return ShardTable(grown, table.turned, np.tile(table.sizes, n), *rows)


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
