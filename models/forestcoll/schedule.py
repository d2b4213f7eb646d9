"""Transfers for trees: every tree edge is laid over the links of its arcs, within their capacities.

A root's shard is cut into as many unit chunks as it has trees, and every tree moves its own run of them
(dissertation B.5.1). An edge of a tree becomes a transfer over an arc of its pair, or several where no arc
has room for the whole run. Where consecutive trees have an edge in common, it is one edge with all their runs
(`models.forestcoll.runs`). As no arc carries more trees than its capacity, no link of bandwidth
b carries more than U·b of them. Unit chunks that always travel together are one chunk in the table.

The transfers of one shard are sorted by their distance from the root, then by how much of the tree is below
them, longest first, then by the destination's distance behind the root in the order of ranks. Transfers that
wait for the same link are served in this order, so that long branches start early and the roots do not all
begin with the same rank.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tutti.models.forestcoll.runs import levels, runs
from tutti.schedules.collective import Collective, Kind
from tutti.schedules.schedule import Chunks, Clock, Routes, Schedule
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import INT64_MAX, Int32Array, Int64Array, frozen, offsets_of
from tutti.topologies.graphs.heaps import stable_pass
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Topology
from tutti.topologies.trees.forest import Forest, LogicalNetwork


class _Trees(NamedTuple):
    """A forest as the kernel takes it: the trees of item i are first[i] to first[i + 1] - 1.

    Tree t moves the unit chunks unit[t] to unit[t] + weight[t] - 1 of its item.
    """

    first: Int64Array
    root: Int32Array
    unit: Int64Array
    weight: Int64Array
    parent: Int32Array


class _ArcsByPair(NamedTuple):
    """Arcs by pair of ranks: those of (u, v) are arc[first[u * n + v] : first[u * n + v + 1]]."""

    first: Int64Array
    arc: Int32Array
    room: Int64Array


def forest_schedule(
    topology: Topology, what: Collective, network: LogicalNetwork, forest: Forest, k: int
) -> Schedule:
    """Return the flow schedule that sends every shard down the trees of its owner.

    Parameters
    ----------
    topology
        The physical network.
    what
        An allgather or a broadcast in one group; rank r of `network` is the group's member r.
    network
        Arcs between ranks; no arc carries more trees than its capacity.
    forest
        Spanning out-trees whose weights, root by root, are in proportion to the shards. A root without
        trees is one whose shard is empty: it is sent along shortest paths, as no load.
    k
        The number of trees that a unit of weight has.

    Raises
    ------
    InputError
        If the weights do not fit the shards, or the trees do not fit the network.
    NoSchedule
        If the table would be too large.

    Notes
    -----
    Time and memory are linear in the rows of the table, apart from one number for each pair of ranks.
    """
    trees, units = _trees(what, network, forest, k)
    _check_size(topology, trees, network, units)
    size = sum(units.tolist())
    pair = network.tails.astype(np.int64) * network.num_ranks + network.heads
    arcs = np.argsort(pair, kind="stable").astype(np.int32)
    first = offsets_of(np.bincount(pair, minlength=network.num_ranks**2))
    pairs = _ArcsByPair(first, arcs, network.capacity[arcs].copy())
    chunk, count, arc, item, length, fault = _lay(trees, units, pairs)
    if fault[0] >= 0:
        tail, head = (topology.labels[what.members[0][rank]] for rank in fault)
        raise InputError(f"the trees need more capacity from {tail} to {head} than the network has")
    return Schedule(
        topology=topology,
        collective=what,
        clock=Clock.FLOW,
        chunks=Chunks(item, length, size),
        chunk=chunk,
        route=arc,
        count=None if (count == 1).all() else count,
        routes=Routes(network.offsets, network.links),
    )


def _trees(what: Collective, network: LogicalNetwork, forest: Forest, k: int) -> tuple[_Trees, Int64Array]:
    """Return the trees by item, and how many unit trees each item has: 0 if its shard is empty."""
    items, ranks = what.items, network.num_ranks
    if len(what.members) != 1 or len(what.members[0]) != ranks:
        raise InputError(f"{what} is not one group of {ranks} ranks")
    roots = (
        np.array([what.root], np.int32) if what.kind is Kind.BROADCAST else np.arange(ranks, dtype=np.int32)
    )
    per_root = np.zeros(ranks, dtype=np.int64)
    np.add.at(per_root, forest.root, forest.weight)
    units = per_root[roots]
    total, shares = sum(units.tolist()), items.share
    if (
        sum(per_root.tolist()) != total
        or total % k
        or any(count != share * total for count, share in zip(units.tolist(), shares, strict=True))
    ):
        raise InputError(f"the trees' weights are not in proportion to the shards of {what}")
    empty = np.flatnonzero(units == 0)
    rows = np.concatenate([forest.root, roots[empty]])
    order = np.argsort(rows, kind="stable")
    parent = forest.parent
    if len(empty):
        ghosts = np.stack([_nearest_parents(network, int(root)) for root in roots[empty]])
        parent = np.concatenate([parent, ghosts])[order]
    weight = np.concatenate([forest.weight, np.zeros(len(empty), dtype=np.int64)])[order]
    first = np.append(np.searchsorted(rows[order], roots), len(rows)).astype(np.int64)
    before = np.cumsum(weight) - weight
    unit = before - np.repeat(before[first[:-1]], np.diff(first))
    return _Trees(
        first, frozen(rows[order], np.int32), unit, frozen(weight, np.int64), frozen(parent, np.int32)
    ), units


def _nearest_parents(network: LogicalNetwork, root: int) -> Int32Array:
    """Return a tree of fewest hops from the root, as parents."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    ends = (network.tails, network.heads)
    graph = csr_array((np.ones(len(ends[0]), dtype=np.int32), ends), shape=(network.num_ranks,) * 2)
    _, parent = breadth_first_order(graph, root)
    return np.maximum(parent, -1).astype(np.int32)


def _check_size(topology: Topology, trees: _Trees, network: LogicalNetwork, units: Int64Array) -> None:
    """Refuse too many rows. Every edge has one, and one more for each arc that is filled up."""
    edges = len(trees.root) * (network.num_ranks - 1) + len(network.tails)
    most = np.iinfo(np.int32).max  # rows and chunks have numbers of 32 bits
    if edges > most or max(units.tolist()) > most or sum(units.tolist()) > INT64_MAX:
        raise NoSchedule(
            f"forestcoll on {topology.name}: {len(trees.root)} different trees, of {max(units.tolist())} "
            "chunks a shard, are too many for a table; fix the number of trees, such as --option trees=4"
        )


@kernel
def _lay(
    trees: _Trees, units: Int64Array, pairs: _ArcsByPair
) -> tuple[Any, Any, Any, Any, Any, tuple[int, int]]:
    """Return the rows (chunk, count, arc), the chunks (item, size), and a pair without room or (-1, -1)."""
    ranks = trees.parent.shape[1]
    most = len(trees.root) * (ranks - 1) + len(pairs.arc)
    chunk, count, arc = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int32)
    item = np.empty(len(trees.root) + len(pairs.arc), np.int32)
    size = np.empty(len(item), np.int64)
    starts = np.zeros(units.max() + 2, np.int32)
    rows = chunks = 0
    for which in range(len(units)):
        begin = rows
        starts[:] = 0
        depth, below = _shapes(trees, trees.first[which], trees.first[which + 1])
        parent = trees.parent[trees.first[which] : trees.first[which + 1]]
        first = runs(parent, depth)
        for edge in _in_order(first, levels(parent, first), below, trees.root[trees.first[which]]):
            tree, head = trees.first[which] + edge // ranks, edge % ranks
            tail, unit, rest = trees.parent[tree, head], trees.unit[tree], trees.weight[tree]
            for other in range(edge // ranks + 1, len(depth)):
                if first[other, head] != edge // ranks:
                    break
                rest += trees.weight[trees.first[which] + other]
            pair = tail * ranks + head
            # A run takes the roomiest arc of its pair, and what does not fit takes the next one.
            while True:
                place = -1  # the arc with the most room
                for other in range(pairs.first[pair], pairs.first[pair + 1]):
                    if place < 0 or pairs.room[other] > pairs.room[place]:
                        place = other
                if place < 0 or (rest > 0 and pairs.room[place] == 0):
                    return chunk[:0], count[:0], arc[:0], item[:0], size[:0], (tail, head)
                part = min(rest, pairs.room[place])
                pairs.room[place] -= part
                chunk[rows], count[rows], arc[rows] = unit, max(part, 1), pairs.arc[place]
                starts[unit] = 1
                rows, unit, rest = rows + 1, unit + part, rest - part
                if rest == 0:
                    break
        own = chunk[begin:rows], count[begin:rows]
        chunks = _merge(units[which], starts, own, (item, size), chunks, which)
    return chunk[:rows].copy(), count[:rows].copy(), arc[:rows].copy(), item[:chunks], size[:chunks], (-1, -1)


@kernel
def _shapes(trees: _Trees, begin: int, end: int) -> tuple[Any, Any]:
    """Return for each tree of an item and each rank its depth and what is below it, as `_measure`."""
    depth = np.empty((end - begin, trees.parent.shape[1]), np.int64)
    below = np.zeros(depth.shape, np.int64)
    for tree in range(begin, end):
        _measure(trees.parent[tree], trees.root[tree], depth[tree - begin], below[tree - begin])
    return depth, below


@kernel
def _in_order(first: Int64Array, level: Int64Array, below: Int64Array, root: int) -> Int64Array:
    """Return the edges of an item's trees in the order of the table; edge t * n + v enters v in tree t.

    An edge that trees have in common is listed once, at its first tree, with the longest way down of any.
    """
    count, ranks = 0, first.shape[1]
    edges = np.empty(first.size, np.int64)
    for turn in range(1, ranks):
        head = (root + turn) % ranks
        for tree in range(len(first)):
            begin = first[tree, head]
            if begin == tree:
                edges[count] = tree * ranks + head
                count += 1
            elif begin >= 0:
                below[begin, head] = max(below[begin, head], below[tree, head])
    tall = below.max()
    edges = stable_pass(edges[:count], tall - below.ravel(), tall + 1)
    return stable_pass(edges, level.ravel(), level.max() + 1)


@kernel
def _measure(parent: Int32Array, root: int, depth: Int64Array, below: Int64Array) -> None:
    """Set the hops of each rank from the root (0 outside the tree), and of the longest way down from it."""
    depth[:] = -1
    depth[root] = 0
    way = np.empty(len(parent), np.int64)
    for rank in range(len(parent)):
        node, steps = rank, 0
        while depth[node] < 0 and parent[node] >= 0 and steps < len(parent):
            way[steps] = node
            steps += 1
            node = parent[node]
        at = depth[node]
        if at < 0:
            continue
        # Back along the walk, which stopped at a node of known depth.
        for step in range(steps - 1, -1, -1):
            at += 1
            depth[way[step]] = at
    for rank in range(len(parent)):
        node, length = rank, 0
        while depth[node] > 0:
            node, length = parent[node], length + 1
            if below[node] >= length:
                break
            below[node] = length
    for rank in range(len(parent)):
        depth[rank] = max(depth[rank], 0)


@kernel
def _merge(units: int, starts: Int32Array, rows: Any, table: Any, chunks: int, which: int) -> int:
    """Write the chunks of an item, one for each start of a run; count them in its rows, from unit chunks.

    `rows` are their chunks and counts, `table` the item and size of each chunk. Returns how many chunks there
    are so far. An empty item has one chunk of size 0.
    """
    (chunk, count), (item, size) = rows, table
    starts[0] = 1
    end = max(units, 1)
    last = 0
    number = chunks
    for unit in range(end):
        if starts[unit]:
            if number > chunks:
                size[number - 1] = unit - last
            item[number] = which
            last = unit
            number += 1
        # From here on `starts` has the chunk of each unit.
        starts[unit] = number - 1
    size[number - 1] = units - last
    starts[end] = number
    for row in range(len(chunk)):
        begin = chunk[row]
        chunk[row] = starts[begin]
        count[row] = starts[begin + count[row]] - chunk[row]
    return number
