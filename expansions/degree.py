"""Degree expansion of a schedule (dissertation, Definition 2; Theorem 11)."""

from __future__ import annotations

import numpy as np

from expansions.shard_table import ShardTable, check_rows, equal_parts, rank_within, refined
from topologies.errors import Unsupported
from topologies.exact import Int64Array, offsets_of
from topologies.products import degree_expansion
from topologies.topology import Topology


def expand_degree(table: ShardTable, factor: int) -> ShardTable:
    """Return A_{G * n}: one step more, T_B larger by M/B (n - 1)/(n N).

    1. Where A_G sends a part of v's shard from u to w, copy u_j sends it of v_j's shard to every copy w_i.
    2. In a last step, node u_j gets the shards of the other copies u_i, in equal parts from its
       in-neighbours.

    Raises
    ------
    InputError
        As `topologies.products.degree_expansion`.
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
    copied = {
        "owner": fine.owner[row] * n + j,
        "first": fine.first[row],
        "count": fine.count[row],
        "link": _link(fine, n, fine.link[row], j, i),
        "step": fine.step[row],
    }
    last = _between_copies(fine, n)
    columns = {name: np.concatenate([copied[name], last[name]]) for name in copied}
    return ShardTable(grown, table.turned, fine.sizes, **columns)


def _between_copies(table: ShardTable, n: int) -> dict[str, Int64Array]:
    """Return the last step: over each link into u_j its part of the shard of every u_i but u_j."""
    links = np.arange(table.topology.num_links)
    link, a, j, i = (axis.reshape(-1) for axis in np.indices((len(links), n, n, n)))
    other = i != j
    link, a, j, i = link[other], a[other], j[other], i[other]
    in_neighbour = rank_within(table.head)[link] * n + a
    first, count = equal_parts(table, n * int(np.bincount(table.head).max()))
    return {
        "owner": table.head[link] * n + i,
        "first": first[in_neighbour],
        "count": count[in_neighbour],
        "link": _link(table, n, link, a, j),
        "step": np.full(len(link), table.steps + 1),
    }


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
