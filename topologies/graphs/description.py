"""Describes a network: its hosts, links, tiers and symmetries."""

from __future__ import annotations

from typing import Any

import numpy as np

from tutti.topologies.exact import Int64Array, json_number
from tutti.topologies.graphs.grid_structure import Hosts, UnevenHosts, grid_of, hosts_of, uneven_hosts
from tutti.topologies.graphs.symmetry import automorphisms
from tutti.topologies.topology import Topology


def description(topology: Topology) -> dict[str, Any]:
    """Return hosts, tiers of links, classes and orbits of ranks, ready for JSON.

    Bandwidths are in bytes/s and α in seconds, exact. The keys are those of ``tutti topology --json``.
    """
    equal = hosts_of(topology, infer=True)
    grid = grid_of(topology, equal)
    hosts = uneven_hosts(topology) or equal
    members = () if isinstance(hosts, str) else hosts.ranks if isinstance(hosts, Hosts) else hosts.members
    tier, tiers = _tiers(topology, hosts)
    orbits = automorphisms(topology).node_orbits[: topology.num_ranks]
    return {
        "topology": topology.name,
        "ranks": topology.num_ranks,
        "switches": topology.num_switches,
        "links": topology.num_links,
        "multicast": sorted(topology.multicast),
        "aggregate": sorted(topology.aggregate),
        "dimensions": None if grid is None or grid.hosts is not None else str(grid),
        "notation": None if topology.expression is None else str(topology.expression),
        "hosts": [ranks.tolist() for ranks in members] or None,
        "hosts_inferred": isinstance(hosts, Hosts) and hosts.inferred,
        "no_hosts": hosts if isinstance(hosts, str) else None,
        "tiers": tiers,
        "ranks_by_links": _by_links(topology, tier),
        "orbits": [np.flatnonzero(orbits == least).tolist() for least in np.unique(orbits)],
        "notes": list(topology.notes),
    }


def _tiers(topology: Topology, hosts: Hosts | UnevenHosts | str) -> tuple[Int64Array, list[dict[str, Any]]]:
    """Return the tier of each link, and the list of tiers, the fastest first."""
    values = np.stack([-topology.bandwidth.numerators, topology.alpha.numerators])
    _, first, tier = np.unique(values, axis=1, return_index=True, return_inverse=True)
    tier = tier.reshape(-1)
    home = np.full(topology.num_nodes, -1) if isinstance(hosts, str) else hosts.of
    inside = (home[topology.source] == home[topology.target]) & (home[topology.source] >= 0)
    switched = np.maximum(topology.source, topology.target) >= topology.num_ranks
    return tier, [
        {
            "bandwidth": json_number(topology.bandwidth[link]),
            "alpha": json_number(topology.alpha[link]),
            "links": int((tier == number).sum()),
            "between_ranks": int(((tier == number) & ~switched).sum()),
            "inside_hosts": int(((tier == number) & inside).sum()),
        }
        for number, link in enumerate(first)
    ]


def _by_links(topology: Topology, tier: Int64Array) -> list[dict[str, Any]]:
    """Return the classes of ranks with equal numbers of links of each tier, end kind and direction."""
    ranks, count = topology.num_ranks, int(tier.max()) + 1
    ways = []
    for own, far in ((topology.source, topology.target), (topology.target, topology.source)):
        kind = (own.astype(np.int64) * 2 + (far >= ranks)) * count + tier
        ways.append(np.bincount(kind[own < ranks], minlength=ranks * 2 * count).reshape(ranks, 2, count))
    table = np.stack(ways, axis=1)  # axes: rank; out, in; to a rank, to a switch; tier
    _, first, which = np.unique(table.reshape(ranks, -1), axis=0, return_index=True, return_inverse=True)
    return [
        {
            "ranks": np.flatnonzero(which.reshape(-1) == kind).tolist(),
            "out": _links(table[first[kind], 0]),
            "in": _links(table[first[kind], 1]),
            "egress": json_number(topology.egress[first[kind]]),
            "ingress": json_number(topology.ingress[first[kind]]),
        }
        for kind in np.argsort(first)
    ]


def _links(table: Int64Array) -> list[dict[str, Any]]:
    """Return a table (to a rank, to a switch; tier) of numbers of links as a list of its entries."""
    return [
        {"tier": int(tier), "to": ("rank", "switch")[where], "links": int(table[where, tier])}
        for tier, where in np.argwhere(table.T)
    ]
