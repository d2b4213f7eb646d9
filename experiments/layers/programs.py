"""The data of a network that four programs of the papers need, and the model of a program.

A module ``by_LAYER`` has a function for each program. It takes a `Network` and returns a `Built`, which
solves the model, and changes its data by the layer's own means. Data are the capacities of all links.

The programs, over nodes u, links e from source to target, and capacities b::

    flow        (A.1)   maximize f, where y[s, e] carries what source s sends
    allreduce   (B.5)   maximize the sum of x, where trees share the links (without switches)
    bfb         (3.1)   minimize the sum over steps of the load U[t], for all nodes together
    sends       SCCL-like over the time-expanded network: binary, in a given number of steps

The first three are those of `models.all_to_all.model`, `models.allreduce.model` and `solver_study.instances`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tutti.topologies.exact import FloatArray, Int64Array
from tutti.topologies.graphs.shortest_paths import hop_distances
from tutti.topologies.topology import Topology

HIGHS: Mapping[str, Any] = {
    "output_flag": False,
    "threads": 1,
    "random_seed": 0,
    "primal_feasibility_tolerance": 1e-7,
    "dual_feasibility_tolerance": 1e-7,
    "mip_rel_gap": 1e-6,
    "time_limit": 120.0,
}
"""HiGHS's options in every layer."""


class Built(NamedTuple):
    """A model that is built: `solve` returns its optimum, and `change` sets other capacities."""

    solve: Callable[[], float]
    change: Callable[[FloatArray], None]
    size: tuple[int, int, int] | None = None
    """Rows, columns and nonzeros, where the layer says them."""

    def again(self, b: FloatArray) -> float:
        """Return the optimum with other capacities."""
        self.change(b)
        return self.solve()


class Network(NamedTuple):
    """A network without switches, as programs read it.

    Parameters
    ----------
    topology
        The network itself.
    source, target
        The ends of each link.
    out_of, into
        The links out of each node, and into it.
    b
        The capacities of the links over the largest.
    hops
        int64, shape (nodes, nodes): the hops from each node to each.
    eligible
        Rows (v, e): the target of link e is a hop farther from v than its source.
    steps
        The steps of the program `sends`: one more than degrees and the diameter allow.
    """

    topology: Topology
    nodes: int
    links: int
    source: list[int]
    target: list[int]
    out_of: Sequence[Sequence[int]]
    into: Sequence[Sequence[int]]
    b: FloatArray
    hops: Int64Array
    eligible: Int64Array
    steps: int

    @classmethod
    def of(cls, topology: Topology) -> Network:
        """Return it; all is computed here."""
        nodes, source, target = topology.num_nodes, topology.source.tolist(), topology.target.tolist()
        at = [[e for e, u in enumerate(ends) if u == v] for ends in (source, target) for v in range(nodes)]
        out_of, into = at[:nodes], at[nodes:]
        floats, hops = topology.bandwidth.floats, hop_distances(topology).astype(np.int64)
        eligible = np.argwhere(hops[:, target] == hops[:, source] + 1)
        steps = 1 + max(int(hops.max()), *(-(-(nodes - 1) // len(links)) for links in into))
        b = floats / floats.max()
        return cls(topology, nodes, len(source), source, target, out_of, into, b, hops, eligible, steps)

    @property
    def loads(self) -> tuple[Int64Array, Int64Array]:
        """The pairs of a link and a step of `bfb` as whole numbers, and the place of each eligible row's."""
        v, e = self.eligible.T
        step = self.hops[v, np.array(self.target)[e]] - 1
        return np.unique(e * self.hops.max() + step, return_inverse=True)

    @property
    def arrival(self) -> Int64Array:
        """For each eligible row the place of its node v and the target of e, of all such pairs."""
        v, e = self.eligible.T
        return np.unique(v * self.nodes + np.array(self.target)[e], return_inverse=True)[1]

    @property
    def held(self) -> tuple[FloatArray, FloatArray]:
        """Least and largest values of `sends`: who holds what when, shape (nodes, nodes, steps + 1)."""
        lower, upper = (np.full((self.nodes, self.nodes, self.steps + 1), side) for side in (0.0, 1.0))
        lower[:, :, -1] = 1.0
        lower[:, :, 0] = upper[:, :, 0] = np.eye(self.nodes)
        return lower, upper
