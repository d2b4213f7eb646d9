"""Machines of G ranks on one switch, with an adapter each: which links are which."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topologies.exact import Int64Array
from topologies.topology import Topology


@dataclass(frozen=True, eq=False)
class Machines:
    """B machines of G ranks; rank (b, g) reaches the others of its machine over one switch by its *port*.

    By its *adapter* it reaches (b', g) of every other machine, over a switch too.

    Parameters
    ----------
    rank
        int64, shape (B, G).
    port, adapter
        int64, shape (2, ranks): each rank's link to the switch, and that from it.
    """

    rank: Int64Array
    port: Int64Array
    adapter: Int64Array


def machines(topology: Topology) -> Machines | str:
    """Return the machines of a network, or why it is not made of such: a clause that begins with a verb."""
    ranks, hosts = topology.num_ranks, topology.hosts
    if hosts is None or (hosts[:ranks] < 0).any():
        return "tells no machine of every rank"
    size = np.unique(hosts[:ranks], return_counts=True)[1]
    if len(size) < 2 or size[0] < 2 or (size != size[0]).any():
        return "has no two or more machines of equally many ranks, at least two"
    links = _links(topology)
    if links is None:
        return (
            "has ranks without one link each way to a switch inside their machine and one to a switch outside"
        )
    rank = np.argsort(hosts[:ranks], kind="stable").reshape(len(size), -1)
    found = Machines(rank, *links)
    return _unlike(topology, found) or found


def _links(topology: Topology) -> tuple[Int64Array, Int64Array] | None:
    """Return each rank's link to and from its machine's switch, and to and from the one outside."""
    ranks, hosts = topology.num_ranks, topology.hosts
    if hosts is None:
        return None
    inner: list[Int64Array] = []
    outer: list[Int64Array] = []
    for near, far in ((topology.source, topology.target), (topology.target, topology.source)):
        own = np.flatnonzero(near < ranks)
        if (far[own] < ranks).any():
            return None
        inside = hosts[near[own]] == hosts[far[own]]
        for chosen, found in ((own[inside], inner), (own[~inside], outer)):
            chosen = chosen[np.argsort(near[chosen], kind="stable")]
            if not np.array_equal(near[chosen], np.arange(ranks)):
                return None
            found.append(chosen.astype(np.int64))
    return np.stack(inner), np.stack(outer)


def _unlike(topology: Topology, found: Machines) -> str:
    """Return what is not alike: who is on which switch, bandwidths, α; empty if all is."""
    at_port = topology.target[found.port[0]], topology.source[found.port[1]]
    at_adapter = topology.target[found.adapter[0]], topology.source[found.adapter[1]]
    if any((end[found.rank] != at_port[0][found.rank[:, :1]]).any() for end in at_port):
        return "has machines with several switches"
    if any((end[found.rank] != at_adapter[0][found.rank[:1]]).any() for end in at_adapter):
        return "has adapters that join no ranks of one place in all machines"
    for kind, links in (("ports", found.port), ("adapters", found.adapter)):
        for values in (topology.bandwidth.numerators, topology.alpha.numerators):
            if (values[links] != values[links[0, 0]]).any():
                return f"has {kind} of unlike bandwidth or alpha"
    return ""
