r"""Spanning out-trees within capacities: Algorithm 4 (dissertation B.5.3, after Bérczi and Frank), exact.

A row is a bundle of m_i equal out-trees that have reached the ranks R_i so far. All rows can be completed
within the remaining capacities g if and only if every proper set S of ranks lets enough out (Theorem 29):

.. math::

    g(S, \bar S) \ge p(S) = \sum \{m_i : R_i \subseteq S\}.                   \qquad (B.2)

Row 1 grows by an arc (x, y) out of R_1. The number of its trees that can take the arc is at most

.. math::

    \mu = \min\{g(x, y),\; m_1,\; F - \sum_{i \ne 1} m_i\}                    \qquad (B.4)

where F is a max-flow from x to y in which x also feeds a node s_i by m_i for each other row, and s_i feeds
every rank of R_i (Theorem 32). If μ < m_1, the row splits: μ trees take the arc, and the others become a new
row. Complete rows drop out of the sums, since no proper S contains all ranks.

Two facts save flows. While a row grows, its μ of an arc never rises: R_1 ⊄ S holds for more sets S, and g
only falls. So an arc with μ = 0 is out for this row and for those that split off it. And the minimum cut S
that showed it keeps every other arc from S to its complement at 0 as well. The reference, by max-flows of a
back-end, does without the second fact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tutti.topologies.errors import InputError
from tutti.topologies.exact import BoolArray, Int32Array, Int64Array
from tutti.topologies.graphs.max_flow import MaxFlowMaker, arc_slots, push_flow
from tutti.topologies.kernels import kernel
from tutti.topologies.trees.forest import Forest, LogicalNetwork, sustains, trees_by_root


def pack_trees(
    network: LogicalNetwork,
    k: int,
    weights: Iterable[Fraction | int] | None = None,
    max_flow: MaxFlowMaker | None = None,
) -> Forest:
    """Return k spanning out-trees from every rank within the capacities (k·w_r from rank r, with weights).

    Parameters
    ----------
    network
        Ranks and arcs; the capacities of a pair's arcs add up.
    k, weights
        Trees by root, see `topologies.trees.forest.trees_by_root`.
    max_flow
        A back-end, to find each μ by (B.4) as it is printed; None for a kernel. Both give the same trees.

    Returns
    -------
    Forest
        The trees, sorted by root.

    Raises
    ------
    InputError
        If there are no such trees.

    Examples
    --------
    >>> import numpy as np
    >>> ring = LogicalNetwork(3, [0, 1, 2], [1, 2, 0], [2, 2, 2], [0, 1, 2, 3], [0, 1, 2])
    >>> pack_trees(ring, 1).parent.tolist()
    [[-1, 0, 1], [2, -1, 1], [2, 0, -1]]
    """
    return pack_counts(network, trees_by_root(network.num_ranks, k, weights), max_flow)


def pack_counts(
    network: LogicalNetwork, trees: npt.ArrayLike, max_flow: MaxFlowMaker | None = None
) -> Forest:
    """Return `trees`[r] spanning out-trees from each rank r; else as `pack_trees`.

    Parameters
    ----------
    network, max_flow
        As `pack_trees`.
    trees
        The number of trees of each root, not negative, shape (ranks,).

    Raises
    ------
    InputError
        If there are no such trees.
    """
    counts = np.asarray(trees, dtype=np.int64)
    tails, heads, capacity = network.pairs
    if not sustains(network.num_ranks, tails, heads, capacity, counts):
        raise InputError(
            f"tree packing: {int(counts.sum())} spanning trees do not fit the capacities; "
            "1/x* and k must be those of this network"
        )
    packing = _Packing(network.num_ranks, tails, heads, capacity.copy(), counts.copy(), max_flow)
    for root in np.flatnonzero(counts).tolist():
        packing.complete(root)
    return packing.forest()


@dataclass(eq=False)
class _PackingRow:
    """Equal trees that grow together: a row of Algorithm 4, whose R are the ranks with a height."""

    root: int
    weight: int
    parent: Int32Array
    height: Int32Array  # hops from the root, -1 for ranks that are not reached
    dead: BoolArray  # arcs with μ = 0


@dataclass(eq=False)
class _Packing:
    """The remaining capacities, the rows that wait and the rows that are complete."""

    num_ranks: int
    tails: Int32Array
    heads: Int32Array
    capacity: Int64Array
    fresh: Int64Array  # m of the roots not yet begun, whose R is the root alone
    max_flow: MaxFlowMaker | None
    waiting: list[_PackingRow] = field(default_factory=list)
    rows: list[_PackingRow] = field(default_factory=list)

    def complete(self, root: int) -> None:
        """Grow all trees of a root; the row that split off last comes first."""
        none = np.full(self.num_ranks, -1, dtype=np.int32)
        height = none.copy()
        height[root] = 0
        dead = np.zeros(len(self.tails), dtype=np.bool_)
        self.waiting.append(_PackingRow(root, int(self.fresh[root]), none, height, dead))
        self.fresh[root] = 0
        while self.waiting:
            row = self.waiting.pop()
            while (row.height < 0).any():
                others, state = self._others(), (row.parent, row.height, row.dead)
                if self.max_flow is None:
                    arrays = (self.tails, self.heads, self.capacity, *others)
                    amount, arc = _extend(*arrays, row.weight, *state)
                else:
                    amount, arc = self._printed(self.max_flow, row, *others)
                if arc < 0:
                    raise InputError("tree packing: no arc is left that a tree could take")
                # Algorithm 4: where μ < m, the m - μ trees that cannot take the arc become a separate row.
                if amount < row.weight:
                    state = (row.parent.copy(), row.height.copy(), row.dead.copy())
                    self.waiting.append(_PackingRow(row.root, row.weight - int(amount), *state))
                    row.weight = int(amount)
                _take(self.tails, self.heads, self.capacity, row.weight, row.parent, row.height, arc)
            self.rows.append(row)

    def _printed(
        self, max_flow: MaxFlowMaker, row: _PackingRow, tails: Int32Array, heads: Int32Array, more: Int64Array
    ) -> tuple[int, int]:
        """Return μ of the next arc (x, y) and the arc as `_extend` does, by (B.4): x feeds every s_i."""
        feeds, ends = tails == self.num_ranks, np.concatenate([self.heads, heads])
        nodes = self.num_ranks + 1 + len(self.waiting)
        capacity = np.concatenate([self.capacity, more])
        own = (self.tails, self.heads, self.capacity, row.weight, row.height, row.dead)
        while (arc := int(_candidate(*own))) >= 0:
            x, y = int(self.tails[arc]), int(self.heads[arc])
            begins = np.concatenate([self.tails, np.where(feeds, x, tails)])
            excess = max_flow(nodes, begins, ends, capacity).solve(x, y) - int(more[feeds].sum())
            amount = min(int(self.capacity[arc]), row.weight, excess)
            if amount > 0:
                return amount, arc
            row.dead[arc] = True
        return 0, -1

    def _others(self) -> tuple[Int32Array, Int32Array, Int64Array]:
        """Return the arcs of s and the s_i: from node `num_ranks` to roots, and to and from later nodes."""
        roots = np.flatnonzero(self.fresh)
        tails, heads = [np.full(len(roots), self.num_ranks)], [roots]
        capacity = [self.fresh[roots]]
        for number, row in enumerate(self.waiting, start=self.num_ranks + 1):
            reached = np.flatnonzero(row.height >= 0)
            tails += [np.array([self.num_ranks]), np.full(len(reached), number)]
            heads += [np.array([number]), reached]
            capacity += [np.array([row.weight]), np.full(len(reached), row.weight)]
        ends = [np.concatenate(part).astype(np.int32) for part in (tails, heads)]
        return ends[0], ends[1], np.concatenate(capacity).astype(np.int64)

    def forest(self) -> Forest:
        rows = sorted(self.rows, key=lambda row: (row.root, int(row.height.max())))
        return Forest(
            root=np.array([row.root for row in rows], dtype=np.int32),
            weight=np.array([row.weight for row in rows], dtype=np.int64),
            parent=np.array([row.parent for row in rows], dtype=np.int32).reshape(-1, self.num_ranks),
        )


@kernel
def _take(tails, heads, capacity, weight, parent, height, arc):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Let a row take an arc."""
    capacity[arc] -= weight
    parent[heads[arc]] = tails[arc]
    height[heads[arc]] = height[tails[arc]] + 1


@kernel
def _candidate(tails, heads, capacity, weight, height, dead):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Return the arc to try next: of least height, then of most capacity; -1 if there is none.

    Any order is valid. An arc that is too narrow for all trees of the row counts as one hop more: it would
    split the row, and narrow arcs (InfiniBand) are better left to trees that need them.
    """
    best, low, wide = -1, 0, 0
    for arc in range(len(tails)):
        hops, width = height[tails[arc]], capacity[arc]
        if hops < 0 or height[heads[arc]] >= 0 or dead[arc] or width == 0:
            continue
        hops += width < weight
        if best < 0 or hops < low or (hops == low and width > wide):
            best, low, wide = arc, hops, width
    return best


@kernel
def _extend(tails, heads, capacity, more_tails, more_heads, more, weight, parent, height, dead):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Grow a row until it must split; return the number of trees that may take the next arc, and that arc.

    The row has not taken that arc, even if it completes the row; the arc is -1 if there is none.
    """
    ranks = len(height)
    nodes = max(ranks, more_tails.max()) + 1 if len(more_tails) else ranks + 1
    ends = np.concatenate((tails, more_tails)), np.concatenate((heads, more_heads))
    first, other, twin, forward = arc_slots(ends[0], ends[1], nodes)
    residual = np.empty(len(other), dtype=np.int64)
    level = np.empty(nodes, dtype=np.int32)
    sources = np.zeros(nodes, dtype=np.bool_)
    sources[ranks] = True
    rest, missing = more[more_tails == ranks].sum(), (height < 0).sum()
    while True:
        # Invariant: all rows can be completed within `capacity`, that is (B.2) of Theorem 29 holds.
        arc = _candidate(tails, heads, capacity, weight, height, dead)
        if arc < 0:
            return 0, arc
        most = min(capacity[arc], weight)
        tail, head = tails[arc], heads[arc]
        # F of (B.4), at most `rest` + `most`: a max-flow into the head from s and the tail.
        residual[:] = 0
        residual[forward[: len(capacity)]] = capacity
        residual[forward[len(capacity) :]] = more
        sources[tail] = True
        flow = push_flow(first, other, twin, residual, sources, level, np.int64(head), rest + most)
        sources[tail] = False
        amount = min(most, flow - rest)  # μ by (B.4), Theorem 32
        if amount <= 0:
            # Arcs over the minimum cut that showed μ = 0 have μ = 0 as well, for as long as the row grows.
            dead |= (level[tails] < 0) & (level[heads] >= 0)
        elif amount < weight or missing == 1:
            return amount, arc
        else:
            _take(tails, heads, capacity, weight, parent, height, arc)
            missing -= 1
