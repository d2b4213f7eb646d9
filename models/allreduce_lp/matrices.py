"""Linear program (B.5) as sparse matrices, written down directly.

The model is that of `models.allreduce_lp.model`, where it stands as the paper has it. Columns are x, c_bc,
c_re, f_s, f, g_s, g and, with switches, b and h, in the order of their indices; rows are that file's
constraints in its order.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import coo_array

from models.allreduce_lp.model import tree_pairs
from models.solvers.compiled import CompiledModel
from topologies.exact import Int64Array
from topologies.topology import Topology


def allreduce_matrices(topology: Topology) -> CompiledModel:
    """Return linear program (B.5) of a network."""
    begin = time.perf_counter()
    ends = np.array(tree_pairs(topology)).T
    columns = _columns(topology, ends.shape[1])
    rows = _Rows()
    _flow_rows(rows, columns, ends)
    _capacity_rows(rows, columns)
    if topology.num_switches:
        _indirection_rows(rows, columns, topology, ends)
    else:
        shared = rows.block(
            topology.num_links, upper=topology.bandwidth.floats / topology.bandwidth.floats.max()
        )
        rows.put(shared, columns["c_re"], 1.0)
        rows.put(shared, columns["c_bc"], 1.0)
    count = sum(block.size for block in columns.values())
    return rows.model(count, np.isin(np.arange(count), columns["x"]), begin)


def _columns(topology: Topology, arcs: int) -> dict[str, Int64Array]:
    """Return the column of each variable, in the shape of its indices."""
    n, links = topology.num_ranks, topology.num_links
    shapes: dict[str, tuple[int, ...]] = {"x": (n,), "c_bc": (arcs,), "c_re": (arcs,)}
    shapes |= {"f_s": (n, n), "f": (n, arcs), "g_s": (n, n), "g": (n, arcs)}
    if topology.num_switches:
        shapes |= {"b": (arcs,), "h": (n, links)}
    columns, first = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        columns[name] = np.arange(first, first + size).reshape(shape)
        first += size
    return columns


@dataclass
class _Rows:
    """Entries row by row, and what the rows are at least and at most."""

    lower: list[np.ndarray] = field(default_factory=list)
    upper: list[np.ndarray] = field(default_factory=list)
    entries: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)
    count: int = 0

    def block(self, *shape: int, lower: object = -np.inf, upper: object = np.inf) -> Int64Array:
        """Begin rows of this shape; return their numbers."""
        size = int(np.prod(shape))
        self.lower.append(np.broadcast_to(np.asarray(lower, dtype=float), (size,)))
        self.upper.append(np.broadcast_to(np.asarray(upper, dtype=float), (size,)))
        self.count += size
        return np.arange(self.count - size, self.count).reshape(shape)

    def put(self, rows: Int64Array, columns: Int64Array, value: float) -> None:
        """Add entries; rows and columns are broadcast together."""
        row, column = np.broadcast_arrays(rows, columns)
        self.entries.append((row.ravel(), column.ravel(), np.full(row.size, value)))

    def model(self, columns: int, cost: np.ndarray, begin: float) -> CompiledModel:
        """Return the program: maximize cost, no column negative."""
        row, column, value = (np.concatenate(part) for part in zip(*self.entries, strict=True))
        matrix = coo_array((value, (row, column)), shape=(self.count, columns)).tocsr()
        return CompiledModel.of_matrix(
            "allreduce",
            matrix,
            cost,
            (np.concatenate(self.lower), np.concatenate(self.upper)),
            maximize=True,
            begin=begin,
        )


def _flow_rows(rows: _Rows, columns: dict[str, Int64Array], ends: Int64Array) -> None:
    """Add (B.5), first two lines: the flows to t and from it are conserved and large enough."""
    n, (tails, heads) = len(columns["x"]), ends
    arrives = rows.block(n, n, lower=0.0)
    rows.put(arrives, columns["f_s"], 1.0)
    rows.put(arrives[:, heads], columns["f"], 1.0)
    rows.put(arrives[:, tails], columns["f"], -1.0)
    rows.put(np.diag(arrives)[:, None], columns["x"][None, :], -1.0)
    conserved = np.full((n, n), -1)
    others = ~np.eye(n, dtype=bool)
    conserved[others] = rows.block(n * (n - 1), lower=0.0)
    for at, column, value in (
        (conserved, columns["g_s"], -1.0),
        (conserved[:, tails], columns["g"], -1.0),
        (conserved[:, heads], columns["g"], 1.0),
    ):
        rows.put(at[at >= 0], column[at >= 0], value)
    whole = rows.block(n, lower=0.0)
    rows.put(whole[:, None], columns["g_s"], 1.0)
    rows.put(whole[:, None], columns["x"][None, :], -1.0)


def _capacity_rows(rows: _Rows, columns: dict[str, Int64Array]) -> None:
    """Add the "w.r.t." of (B.5): what the flows may use."""
    for flow, capacity in (("f_s", "x"), ("f", "c_bc"), ("g_s", "x"), ("g", "c_re")):
        within = rows.block(*columns[flow].shape, upper=0.0)
        rows.put(within, columns[flow], 1.0)
        rows.put(within, columns[capacity][None, :], -1.0)


def _indirection_rows(
    rows: _Rows, columns: dict[str, Int64Array], topology: Topology, ends: Int64Array
) -> None:
    """Add b' in the place of b, and the flow that carries it over the switches."""
    n, (alpha, beta) = topology.num_ranks, ends
    shared = rows.block(len(alpha), upper=0.0)
    for name, value in (("c_re", 1.0), ("c_bc", 1.0), ("b", -1.0)):
        rows.put(shared, columns[name], value)
    flow = np.full((n, topology.num_nodes), -1)
    others = np.arange(topology.num_nodes)[None, :] != np.arange(n)[:, None]
    flow[others] = rows.block(int(others.sum()), lower=0.0)
    for at, value in ((flow[:, topology.target], 1.0), (flow[:, topology.source], -1.0)):
        rows.put(at[at >= 0], columns["h"][at >= 0], value)
    rows.put(flow[alpha, beta], columns["b"], -1.0)
    limits = topology.bandwidth.floats / topology.bandwidth.floats.max()
    within = rows.block(topology.num_links, upper=limits)
    rows.put(within[None, :], columns["h"], 1.0)
