"""Line graph expansion of a schedule (dissertation, Definition 1; Theorem 7, 10)."""

from __future__ import annotations

import numpy as np

from expansions.shard_table import ShardTable, check_rows, spread
from topologies.exact import Int64Array, offsets_of
from topologies.products import line_graph, self_loops
from topologies.topology import Topology


def expand_line(table: ShardTable) -> ShardTable:
    """Return A_{L(G)}: one step more, T_B larger by at most M/(B N).

    1. Step 1: every node vu of L(G) gets the whole shards of its in-neighbours v'v.
    2. Where A_G sends part C of v's shard from u to w in step t, node uw sends C of the shard of every node
       v'v to every node ww', but to its owner, in step t + 1.
    """
    base = table.topology
    grown = line_graph(base)
    loops = np.repeat(np.arange(base.num_ranks), self_loops(base))
    tail, head = np.concatenate([table.tail, loops]), np.concatenate([table.head, loops])
    link_between = _Links(grown, table.turned)
    result = ShardTable(grown, table.turned, table.sizes, *(np.empty(0, np.int64) for _ in range(5)))
    first_hop = _first_hop(result, len(table.sizes))
    rows, owner, target = _pairs(table, tail, head)
    columns = {
        "owner": owner,
        "first": table.first[rows],
        "count": table.count[rows],
        "link": link_between(table.link[rows], target),
        "step": table.step[rows] + 1,
    }
    joined = {name: np.concatenate([first_hop[name], values]) for name, values in columns.items()}
    return ShardTable(grown, table.turned, table.sizes, **joined)


class _Links:
    """The link of L(G) from one node to another; no two links join the same two nodes."""

    def __init__(self, grown: Topology, turned: bool) -> None:
        self.nodes, self.turned = grown.num_ranks, turned
        self.keys = grown.source.astype(np.int64) * grown.num_ranks + grown.target  # ascending

    def __call__(self, sender: Int64Array, receiver: Int64Array) -> Int64Array:
        ends = (receiver, sender) if self.turned else (sender, receiver)
        return np.searchsorted(self.keys, ends[0] * self.nodes + ends[1])


def _first_hop(grown: ShardTable, parts: int) -> dict[str, Int64Array]:
    links = grown.topology.num_links
    return {
        "owner": grown.tail,
        "first": np.zeros(links, np.int64),
        "count": np.full(links, parts),
        "link": np.arange(links),
        "step": np.ones(links, np.int64),
    }


def _pairs(
    table: ShardTable, tail: Int64Array, head: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return rows of the table with each node v'v that enters the owner and ww' that leaves the receiver."""
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
    return rows[kept], owner[kept], target[kept]
