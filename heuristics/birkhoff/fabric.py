"""The links inside hosts and those between them, and how long each takes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tutti.topologies.components import components
from tutti.topologies.exact import BoolArray, FloatArray, Int32Array, Int64Array
from tutti.topologies.graphs.grid_structure import Hosts
from tutti.topologies.graphs.shortest_paths import shortest_routes
from tutti.topologies.topology import Topology


class Fabric(NamedTuple):
    """A network of hosts.

    Parameters
    ----------
    inside, outside
        bool, shape (links,): the links inside hosts, and the others; None where they do not join all ranks of
        each host, or all ranks.
    lengths, links
        Of the routes from each rank of a host to the others, over links inside if they join them.
    speed
        Bytes/s of each link.
    host_speed
        Bytes/s of the slowest host, to or from others.
    alpha
        The largest, in seconds.
    """

    inside: BoolArray | None
    outside: BoolArray | None
    lengths: Int64Array
    links: Int32Array
    speed: FloatArray
    host_speed: float
    alpha: float

    @classmethod
    def of(cls, topology: Topology, hosts: Hosts) -> Fabric:
        """Return that of a network."""
        ends, speed = np.stack([topology.source, topology.target]), topology.bandwidth.floats
        host = hosts.of[ends]
        within = (host[0] == host[1]) & (host[0] >= 0)
        near, far = (
            components(topology.num_nodes, *ends[:, links], strong=True)[1][hosts.ranks]
            for links in (within, ~within)
        )
        inside = within if (near == near[:, :1]).all() else None
        apart = ~np.eye(hosts.ranks.shape[1], dtype=np.bool_)
        first, second = np.broadcast_arrays(hosts.ranks[:, :, None], hosts.ranks[:, None, :])
        offsets, links = shortest_routes(topology, first[:, apart].ravel(), second[:, apart].ravel(), inside)
        host_speed = min(
            float(np.bincount(of[mask], speed[mask], len(hosts.ranks)).min())
            for of, mask in zip(host, (host >= 0) & ~within, strict=True)
        )
        alpha = float(topology.alpha.floats.max())
        outside = ~within if (far == far[0, 0]).all() else None
        return cls(inside, outside, np.diff(offsets), links, speed, host_speed, alpha)

    def busy(self, moved: FloatArray) -> FloatArray:
        """Return how long each link takes for what ranks move inside their hosts.

        Parameters
        ----------
        moved
            Shape (hosts, g, g), what each sends to each; in units of what a host sends to others in a second.
        """
        apart = ~np.eye(moved.shape[1], dtype=np.bool_)
        loads = np.bincount(self.links, np.repeat(moved[:, apart].ravel(), self.lengths), len(self.speed))
        return loads * self.host_speed / self.speed
