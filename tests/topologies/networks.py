"""Random networks that several tests share."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from tutti.topologies import Link, Topology


def random_multigraph(
    seed: int,
    nodes: int,
    extra: int,
    switches: int,
    drawn: Callable[[np.random.Generator], dict[str, Fraction]],
) -> Topology:
    """Return a cycle through all nodes and a number of other links; the last nodes are switches.

    Parameters
    ----------
    drawn
        Draws the attributes of a link: its bandwidth, its α or both.
    """
    rng = np.random.default_rng(seed)
    pairs = [(i, (i + 1) % nodes) for i in range(nodes)]
    pairs += [tuple(rng.choice(nodes, 2, replace=False).tolist()) for _ in range(extra)]
    links = [Link(a, b, **drawn(rng)) for a, b in pairs]
    return Topology.from_links(f"random {seed}", nodes - switches, links, num_switches=switches)


def cluster_document(host_of, *, tell=False, inside="300GB/s", outside="25GB/s"):
    """Return node-link data of a user's cluster: each GPU on its host's switch, and all on one outside.

    `host_of` is the host of each GPU, 0, 1, ...; if `tell`, nodes have their key ``host``.
    """
    hosts = range(max(host_of) + 1)
    gpus = [{"id": f"gpu{i}", "kind": "compute"} for i in range(len(host_of))]
    switches = [{"id": f"nvswitch{host}", "kind": "switch"} for host in hosts]
    if tell:
        for node, host in zip([*gpus, *switches], [*host_of, *hosts], strict=True):
            node["host"] = f"node-{host}"

    def edge(gpu, switch, bandwidth):
        return {"source": f"gpu{gpu}", "target": switch, "bandwidth": bandwidth, "alpha": "0.5us"}

    near = [edge(gpu, f"nvswitch{host}", inside) for gpu, host in enumerate(host_of)]
    far = [edge(gpu, "ib", outside) for gpu in range(len(host_of))]
    nodes = [*gpus, *switches, {"id": "ib", "kind": "switch"}]
    return {"directed": False, "multigraph": False, "nodes": nodes, "edges": near + far}


IN_ORDER, ACROSS = (0, 0, 0, 0, 1, 1, 1, 1), (0, 1, 0, 1, 0, 1, 0, 1)
"""The hosts of eight ranks: ranks numbered host by host, and alternating between both."""
