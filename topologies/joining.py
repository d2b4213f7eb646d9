"""Arcs as switches go: an arc into a switch and one out of it are joined into one, whose route is both's."""

from __future__ import annotations

import numpy as np
from numba import njit

from topologies.exact import Int32Array, Int64Array
from topologies.forest import LogicalNetwork
from topologies.sharing import Bundles, Shares, pair_up
from topologies.topology import Topology


class JoinedArcs:
    """Arcs that touch a switch and, put aside, those that no longer do; a joined arc is two older ones."""

    def __init__(self, topology: Topology, capacity: Int64Array) -> None:
        self.target = topology.target
        self.num_ranks, self.links = topology.num_ranks, len(topology.source)
        self.parts: list[Int64Array] = []
        self.count = self.links
        self._done: list[tuple[Int64Array, Int32Array, Int32Array, Int64Array]] = []
        empty = np.empty(0, dtype=np.int64)
        self.name, self.tail, self.head = empty, empty.astype(np.int32), empty.astype(np.int32)
        self.capacity = empty
        self._add(np.arange(self.links), topology.source, topology.target, capacity)

    def take(self, switch: int) -> tuple[Int64Array, Int64Array]:
        """Return the positions of the arcs into and out of a switch."""
        return np.flatnonzero(self.head == switch), np.flatnonzero(self.tail == switch)

    def join(
        self,
        ins: Int64Array,
        row: Int64Array,
        outs: Int64Array,
        column: Int64Array,
        shares: Shares,
    ) -> None:
        """Replace arcs by joined ones: `shares` are units from tail (by row) to head (by column)."""
        by_row, by_column = np.argsort(row, kind="stable"), np.argsort(column, kind="stable")
        first = np.searchsorted(row[by_row], np.arange(row.max() + 2))
        last = np.searchsorted(column[by_column], np.arange(column.max() + 2))
        left, right = self.capacity[ins][by_row], self.capacity[outs][by_column]
        one, two, units = pair_up(shares, Bundles(first, left), Bundles(last, right))
        one, two = ins[by_row][one], outs[by_column][two]
        name = self.count + np.arange(len(one))
        self.count += len(one)
        self.parts.append(np.stack([self.name[one], self.name[two]]))
        tail, head = self.tail[one], self.head[two]
        used = np.union1d(ins, outs)
        self.name, self.capacity = np.delete(self.name, used), np.delete(self.capacity, used)
        self.tail, self.head = np.delete(self.tail, used), np.delete(self.head, used)
        self._add(name, tail, head, units)

    def _add(self, name: Int64Array, tail: Int32Array, head: Int32Array, capacity: Int64Array) -> None:
        live = capacity > 0
        open_ = live & ((tail >= self.num_ranks) | (head >= self.num_ranks))
        done = live & ~open_
        self._done.append((name[done], tail[done], head[done], capacity[done]))
        self.name, self.capacity = (
            np.append(self.name, name[open_]),
            np.append(self.capacity, capacity[open_]),
        )
        self.tail, self.head = np.append(self.tail, tail[open_]), np.append(self.head, head[open_])

    def network(self) -> LogicalNetwork:
        """Return the arcs between ranks with their routes, by tail and head."""
        name, tail, head, capacity = (np.concatenate(column) for column in zip(*self._done, strict=True))
        order = np.lexsort((name, head, tail))
        parts = np.concatenate([np.empty((2, 0), dtype=np.int64), *self.parts], axis=1)
        offsets, links = _routes(name[order], np.ascontiguousarray(parts), self.target)
        return LogicalNetwork(
            self.num_ranks, tail[order], head[order], capacity[order], offsets, links.astype(np.int32)
        )


@njit(cache=True)
def _routes(names: Int64Array, parts: Int64Array, target: Int32Array) -> tuple[Int64Array, Int64Array]:
    """Return each arc's links in CSR form, unfolding joined arcs (links + i is parts[:, i]).

    A route that comes back to a switch is cut short there, so that none visits a node twice.
    """
    links = len(target)
    offsets = np.zeros(len(names) + 1, dtype=np.int64)
    flat = [np.int64(0) for _ in range(0)]
    stack = [np.int64(0) for _ in range(0)]
    for i in range(len(names)):
        stack.append(names[i])
        while len(stack):
            name = stack.pop()
            if name < links:
                keep = offsets[i]
                while keep < len(flat) and target[flat[keep]] != target[name]:
                    keep += 1
                if keep == len(flat):
                    flat.append(name)
                while len(flat) > keep + 1:
                    flat.pop()
            else:
                stack.append(parts[1, name - links])
                stack.append(parts[0, name - links])
        offsets[i + 1] = len(flat)
    return offsets, np.array(flat)
