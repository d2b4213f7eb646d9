"""What four programs of the papers need of a network, and what a model of them can do.

A module ``by_LAYER`` has a function for each program. It takes a `Network` and returns a `Built`: what solves
the model, and what changes its data. Data are the capacities of links. ``again`` sets all of them and solves
once more, by the layer's own means.

The programs, over nodes u, links e from source to target, and capacities b::

    flow        (A.1)   maximize f, where y[s, e] carries what source s sends
    allreduce   (B.5)   maximize the sum of x, where trees share the links (without switches)
    bfb         (3.1)   minimize the sum over steps of the load U[t], for all nodes together
    sends       SCCL-like over the time-expanded network: binary, in a given number of steps

The first three are those of `models.all_to_all.model`, `models.allreduce.model` and `solver_study.programs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
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
    """A model that is built: `solve` returns the optimum, and `again` that of other capacities."""

    solve: Callable[[], float]
    again: Callable[[FloatArray], float]
    size: tuple[int, int, int] | None = None
    """Rows, columns and nonzeros, where the layer says them."""


@dataclass(frozen=True, eq=False)
class Network:
    """What programs need of a network without switches: ends of links, capacities, and hops between nodes."""

    topology: Topology

    @property
    def nodes(self) -> int:
        """N."""
        return self.topology.num_nodes

    @property
    def links(self) -> int:
        """Their number."""
        return self.topology.num_links

    @cached_property
    def source(self) -> list[int]:
        """Of each link."""
        ends: list[int] = self.topology.source.tolist()
        return ends

    @cached_property
    def target(self) -> list[int]:
        """Of each link."""
        ends: list[int] = self.topology.target.tolist()
        return ends

    @cached_property
    def out_of(self) -> list[list[int]]:
        """The links out of each node."""
        return [[e for e in range(self.links) if self.source[e] == u] for u in range(self.nodes)]

    @cached_property
    def into(self) -> list[list[int]]:
        """The links into each node."""
        return [[e for e in range(self.links) if self.target[e] == u] for u in range(self.nodes)]

    @cached_property
    def b(self) -> FloatArray:
        """Capacities, shape (links,), over the largest."""
        floats = self.topology.bandwidth.floats
        return np.asarray(floats / floats.max())

    @cached_property
    def hops(self) -> Int64Array:
        """Shape (nodes, nodes)."""
        return hop_distances(self.topology).astype(np.int64)

    @cached_property
    def eligible(self) -> Int64Array:
        """Rows (v, e): the target of link e is a hop farther from v than its source."""
        pairs = self.hops[:, self.target] == self.hops[:, self.source] + 1
        return np.argwhere(pairs)

    @cached_property
    def steps(self) -> int:
        """Steps of the program `sends`: what degrees and the diameter allow, and one more."""
        slowest = max(-(-(self.nodes - 1) // len(links)) for links in self.into)
        return max(slowest, int(self.hops.max())) + 1
