"""Linear program (A.1) as sparse matrices, written down directly: what the method solves.

The model is that of `models.all_to_all.lp`, where it stands as the paper has it. Columns are y[s, e], source
by source, then f; a flow back into its own source serves nothing and has no column. Rows are the links, then
for each source all other nodes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from models.all_to_all.demand import Demand
from models.solvers.compiled import CompiledModel
from topologies.exact import BoolArray, FloatArray, Int32Array, Int64Array, offsets_of


@dataclass(frozen=True, eq=False)
class FlowMatrices:
    """The matrices of (A.1), and the way back from their columns and rows.

    Parameters
    ----------
    demand
        The problem.
    model
        Maximize f; bandwidths in units of the largest, demands in units of the largest.
    used
        bool, shape (sources, links): which y have a column.
    """

    demand: Demand
    model: CompiledModel
    used: BoolArray

    def flows(self, values: FloatArray) -> FloatArray:
        """Return y / f, shape (sources, links): what nearly delivers the demands, in units of the largest."""
        flows = np.zeros(self.used.shape)
        flows[self.used] = np.maximum(values[:-1], 0.0) / values[-1]
        return flows

    def lengths(self, duals: FloatArray) -> FloatArray:
        """Return the duals of the links as lengths, none negative: float64, shape (links,)."""
        return np.maximum(duals[: self.used.shape[1]], 0.0)


def flow_matrices(demand: Demand) -> FlowMatrices:
    """Return linear program (A.1) of these demands; the sources are its commodities."""
    begin = time.perf_counter()
    topology = demand.topology
    used = topology.target[None, :] != demand.sources[:, None]
    number = np.cumsum(used.ravel(), dtype=np.int32).reshape(used.shape) - 1
    columns = int(number[-1, -1]) + 2
    links, nodes = _link_rows(used, number), _node_rows(demand, used, number)
    rows = offsets_of(np.concatenate([links.counts, nodes.counts]))
    upper = np.zeros(len(rows) - 1)
    upper[: topology.num_links] = topology.bandwidth.floats / topology.bandwidth.floats.max()
    cost = np.zeros(columns)
    cost[-1] = 1.0
    model = CompiledModel.of_matrix(
        "all-to-all",
        csr_array(
            (
                np.concatenate([links.value, nodes.value]),
                np.concatenate([links.index, nodes.index]),
                rows,
            ),
            shape=(len(upper), columns),
        ),
        cost,
        (-np.inf, upper),
        maximize=True,
        begin=begin,
    )
    return FlowMatrices(demand, model, used)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of a matrix: entries in each, their columns and values."""

    counts: Int64Array
    index: Int32Array
    value: FloatArray


def _link_rows(used: BoolArray, number: Int32Array) -> _Rows:
    """Return, for each link e, the sum over s of y[s, e]: (A.1), first line."""
    index = number.T[used.T]
    return _Rows(used.sum(axis=0), index, np.ones(len(index)))


def _node_rows(demand: Demand, used: BoolArray, number: Int32Array) -> _Rows:
    """Return, for each s and u but s, d[s, u] f + (y[s] out of u) - (y[s] into u): (A.1), second line.

    All sources share one pattern, the links at each node and then f; a mask takes out what a source lacks.
    """
    topology, sources = demand.topology, demand.sources
    every = np.arange(topology.num_nodes)
    node = np.concatenate([topology.source, topology.target, every])
    link = np.concatenate([np.tile(np.arange(topology.num_links), 2), np.full(len(every), -1)])
    sign = np.repeat([1.0, -1.0, 0.0], [topology.num_links, topology.num_links, len(every)])
    order = np.argsort(node, kind="stable")
    node, link, sign = node[order], link[order], sign[order]
    is_f = link < 0
    needed = np.zeros((len(sources), topology.num_nodes))
    needed[:, : topology.num_ranks] = demand.amounts[sources] / demand.amounts.max()
    value = np.where(is_f, needed[:, node], sign)
    index = np.where(is_f, number[-1, -1] + 1, number[:, link])
    kept = np.where(is_f, value != 0.0, used[:, link]) & (node != sources[:, None])
    first = np.searchsorted(node, every)
    counts = np.add.reduceat(kept, first, axis=1, dtype=np.int64)
    return _Rows(counts[every != sources[:, None]], index[kept], value[kept])
