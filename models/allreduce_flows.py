"""The allreduce linear program (B.5) with its max-flows written out, as matrices.

    maximize    sum over v of x[v]
    subject to  c^BC[a] + c^RE[a] <= b'[a]                           for every arc a between ranks
                f[u, a] <= c^BC[a],   g[u, a] <= c^RE[a]             for every rank u and arc a
                f[u] out of v - f[u] into v = x[v]                   for ranks u != v
                g[u] into v - g[u] out of v = x[v]                   for ranks u != v
                all variables >= 0

f[u] brings x[v] from every v to u, as the out-trees rooted at v do, and g[u] the other way for the in-trees;
that such flows exist for every u is the condition of (B.5) on max-flows. A link between ranks is an arc with
b' its bandwidth. Where switches join ranks there is an arc for each pair, and b'[α, β] is what a flow y[α]
over switches brings from α to β:

    b'[α, β] = sum of y[α] over the links from switches into β
    y[α] into w = y[α] out of w                                      for every rank α and switch w
    sum over α of y[α, e] <= b[e]                                    for every link e that touches a switch

(Dissertation, section B.7.) `models.allreduce_lp` solves the same program by cuts, faster, and proves it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array

from models.solvers.compiled import CompiledModel
from topologies.exact import FloatArray, Int64Array
from topologies.topology import Topology

Columns = npt.NDArray[np.integer]


@dataclass
class _Rows:
    """Rows in the making: each call adds a family."""

    count: int = 0
    entries: list[tuple[Columns, Columns, FloatArray]] = field(default_factory=list)
    lower: list[FloatArray] = field(default_factory=list)
    upper: list[FloatArray] = field(default_factory=list)

    def add(self, parts: Iterable[tuple[Columns, Columns, float]], limit: FloatArray, equal: bool) -> None:
        """Add rows: parts are row (within the family), column and coefficient; at most or equal `limit`."""
        for row, column, value in parts:
            self.entries.append((self.count + row, column, np.full(len(row), value)))
        self.count += len(limit)
        self.lower.append(limit if equal else np.full(len(limit), -np.inf))
        self.upper.append(limit)


@dataclass(frozen=True, eq=False)
class _Layout:
    """Arcs between ranks, and where the columns of each family begin."""

    topology: Topology
    direct: Int64Array
    tail: Int64Array
    head: Int64Array

    @property
    def ranks(self) -> int:
        return self.topology.num_ranks

    @property
    def arcs(self) -> int:
        return len(self.tail)

    def broadcast(self, arc: Columns) -> Columns:
        return self.ranks + arc

    def reduction(self, arc: Columns) -> Columns:
        return self.ranks + self.arcs + arc

    def flow(self, kind: int, u: Columns, arc: Columns) -> Columns:
        """Columns of f (kind 0) and g (kind 1)."""
        return self.ranks + 2 * self.arcs + (kind * self.ranks + u) * self.arcs + arc

    def switched(self, origin: Columns, link: Columns) -> Columns:
        return self.ranks + 2 * self.arcs * (1 + self.ranks) + origin * self.topology.num_links + link

    @property
    def columns(self) -> int:
        switched = self.ranks * self.topology.num_links if self.topology.num_switches else 0
        return self.ranks + 2 * self.arcs * (1 + self.ranks) + switched


def allreduce_matrices(topology: Topology) -> CompiledModel:
    """Return the program; bandwidths in units of the largest.

    Examples
    --------
    >>> from models.solvers import solve
    >>> from topologies.text import parse_topology
    >>> round(solve(allreduce_matrices(parse_topology("mesh:3x3"))).objective, 9)
    1.5
    """
    begin = time.perf_counter()
    layout, rows = _layout(topology), _Rows()
    _add_capacities(layout, rows)
    _add_flows(layout, rows)
    row, column, value = (np.concatenate(parts) for parts in zip(*rows.entries, strict=True))
    matrix = coo_array((value, (row, column)), shape=(rows.count, layout.columns)).tocsr()
    return CompiledModel.of_matrix(
        "allreduce",
        matrix,
        np.arange(layout.columns) < layout.ranks,
        (np.concatenate(rows.lower), np.concatenate(rows.upper)),
        maximize=True,
        begin=begin,
    )


def _layout(topology: Topology) -> _Layout:
    ranks = topology.num_ranks
    direct = np.flatnonzero((topology.source < ranks) & (topology.target < ranks))
    tail, head = topology.source[direct].astype(np.int64), topology.target[direct].astype(np.int64)
    if topology.num_switches:
        more_tail, more_head = np.nonzero(~np.eye(ranks, dtype=np.bool_))
        tail, head = np.concatenate([tail, more_tail]), np.concatenate([head, more_head])
    return _Layout(topology, direct, tail, head)


def _add_capacities(layout: _Layout, rows: _Rows) -> None:
    """Add the rows that share the bandwidth between broadcast and reduction."""
    topology, arc = layout.topology, np.arange(layout.arcs)
    bandwidth = topology.bandwidth.floats / topology.bandwidth.floats.max()
    shared = [(arc, layout.broadcast(arc), 1.0), (arc, layout.reduction(arc), 1.0)]
    limit = np.zeros(layout.arcs)
    limit[: len(layout.direct)] = bandwidth[layout.direct]
    if not topology.num_switches:
        rows.add(shared, limit, equal=False)
        return
    for link in np.flatnonzero((topology.source >= layout.ranks) & (topology.target < layout.ranks)):
        into = arc[len(layout.direct) :][layout.head[len(layout.direct) :] == topology.target[link]]
        shared.append((into, layout.switched(layout.tail[into], np.full(len(into), link)), -1.0))
    rows.add(shared, limit, equal=False)
    _add_switches(layout, rows, bandwidth)


def _add_switches(layout: _Layout, rows: _Rows, bandwidth: FloatArray) -> None:
    """Add that switches pass on what they get, and that the links they have suffice for all."""
    topology, ranks, switches = layout.topology, layout.ranks, layout.topology.num_switches
    links = np.flatnonzero((topology.source >= ranks) | (topology.target >= ranks))
    origin, link = (part.ravel() for part in np.meshgrid(np.arange(ranks), links, indexing="ij"))
    source, target = topology.source[link], topology.target[link]
    usable = ((source >= ranks) | (source == origin)) & (target != origin)
    origin, link, source, target = origin[usable], link[usable], source[usable], target[usable]
    into, out_of = target >= ranks, source >= ranks
    column = layout.switched(origin, link)
    passed = [
        (origin[into] * switches + target[into] - ranks, column[into], 1.0),
        (origin[out_of] * switches + source[out_of] - ranks, column[out_of], -1.0),
    ]
    rows.add(passed, np.zeros(ranks * switches), equal=True)
    rows.add([(np.searchsorted(links, link), column, 1.0)], bandwidth[links], equal=False)


def _add_flows(layout: _Layout, rows: _Rows) -> None:
    """Add f within c^BC, g within c^RE, and what both bring."""
    ranks, arcs = layout.ranks, layout.arcs
    u, arc = (part.ravel() for part in np.meshgrid(np.arange(ranks), np.arange(arcs), indexing="ij"))
    place = np.arange(ranks * arcs)
    number = np.cumsum(~np.eye(ranks, dtype=np.bool_)).reshape(ranks, ranks) - 1
    pair_u, pair_v = np.nonzero(~np.eye(ranks, dtype=np.bool_))
    for kind, capacity in enumerate((layout.broadcast, layout.reduction)):
        column = layout.flow(kind, u, arc)
        rows.add([(place, column, 1.0), (place, capacity(arc), -1.0)], np.zeros(ranks * arcs), equal=False)
        starts, ends = (layout.tail, layout.head) if kind == 0 else (layout.head, layout.tail)
        leaves, enters = starts[arc] != u, ends[arc] != u
        brought = [
            (number[u, starts[arc]][leaves], column[leaves], 1.0),
            (number[u, ends[arc]][enters], column[enters], -1.0),
            (np.arange(len(pair_u)), pair_v, -1.0),
        ]
        rows.add(brought, np.zeros(len(pair_u)), equal=True)
