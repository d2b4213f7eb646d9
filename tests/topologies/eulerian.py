"""Random Eulerian networks, and slow oracles for trees on them: all cuts, loads link by link."""

from collections import defaultdict
from fractions import Fraction

import networkx as nx
import numpy as np

from tutti.topologies import Link, Topology
from tutti.topologies.text import parse_topology

PLATFORMS = ["dgx_a100:1", "dgx_a100:2", "mi250:1", "mi250:2"]
RATIOS = {  # seconds per byte: 1/x* = N / algbw
    "dgx_a100:1": Fraction(7, 300),
    "dgx_a100:2": Fraction(3, 65),
    "mi250:1": Fraction(7, 150),
    "mi250:2": Fraction(15, 166),
}


def platform(text):
    return parse_topology(text), RATIOS[text] / 10**9


def random_eulerian(seed):
    """Return 2 to 6 ranks and 0 to 3 switches: a cycle through all nodes, up to four more, bandwidths 1 to 4.

    With odd seeds, parallel links are merged, so that the bandwidths along a cycle may all differ.
    """
    rng = np.random.default_rng(seed)
    ranks, switches = int(rng.integers(2, 7)), int(rng.integers(0, 4))
    nodes = ranks + switches
    cycles = [rng.permutation(nodes)]
    cycles += [rng.permutation(nodes)[: rng.integers(2, nodes + 1)] for _ in range(rng.integers(0, 5))]
    links = []
    for cycle in cycles:
        bandwidth = Fraction(int(rng.integers(1, 5)))
        links += [Link(int(a), int(b), bandwidth) for a, b in zip(cycle, np.roll(cycle, -1), strict=True)]
    if seed % 2:
        total = defaultdict(Fraction)
        for link in links:
            total[link.source, link.target] += link.bandwidth
        links = [Link(*ends, bandwidth) for ends, bandwidth in total.items()]
    return Topology.from_links(f"random {seed}", ranks, links, num_switches=switches)


def random_uneven_ranks(seed):
    """Return a random Eulerian network with up to three extra links, whose ends are then unbalanced."""
    rng, base = np.random.default_rng(seed), random_eulerian(seed)
    links = [base.link(link) for link in range(base.num_links)]
    for _ in range(rng.integers(1, 4)):
        a, b = rng.permutation(base.num_ranks)[:2].tolist()
        links.append(Link(a, b, Fraction(int(rng.integers(1, 5)))))
    return Topology.from_links(base.name, base.num_ranks, links, num_switches=base.num_switches)


def node_sets(num_nodes):
    """Return all sets of nodes, one row for each."""
    return (np.arange(2**num_nodes)[:, None] >> np.arange(num_nodes)) & 1 == 1


def worst_ratio(topology, weights=None):
    """Return 1/x* by trying every set of nodes; bandwidths and weights are whole numbers."""
    sets = node_sets(topology.num_nodes)
    weight = np.ones(topology.num_ranks, dtype=int) if weights is None else np.array(weights)
    inside = sets[:, : topology.num_ranks]
    bandwidth = np.array([int(b) for b in topology.bandwidth])
    exits = (sets[:, topology.source] & ~sets[:, topology.target]) @ bandwidth
    cuts = ~inside.all(axis=1) & (inside @ weight > 0)
    return max(Fraction(int(w), int(b)) for w, b in zip((inside @ weight)[cuts], exits[cuts], strict=True))


def link_loads(topology, network, forest):
    """Place every row on arcs with free capacity; return the number of trees over each link."""
    arcs = defaultdict(list)
    for arc, (tail, head) in enumerate(zip(network.tails.tolist(), network.heads.tolist(), strict=True)):
        arcs[tail, head].append(arc)
    room, load = network.capacity.tolist(), [0] * topology.num_links
    for weight, parent in zip(forest.weight.tolist(), forest.parent.tolist(), strict=True):
        for head, tail in enumerate(parent):
            left = weight if tail >= 0 else 0
            for arc in arcs[tail, head]:
                units = min(left, room[arc])
                left, room[arc] = left - units, room[arc] - units
                for link in network.links[network.offsets[arc] : network.offsets[arc + 1]].tolist():
                    load[link] += units
            assert left == 0, "a pair is used more than its arcs carry"
    return load


def congestion(topology, network, forest, k):
    """Return the largest load over bandwidth if one tree moves 1/k of a rank's data."""
    loads = link_loads(topology, network, forest)
    return max(Fraction(load, k) / b for load, b in zip(loads, topology.bandwidth, strict=True))


def routes_are_paths(topology, network):
    """Return whether each arc's links form a path from its tail to its head over distinct switches."""
    for arc in range(len(network.tails)):
        links = network.links[network.offsets[arc] : network.offsets[arc + 1]]
        nodes = [int(topology.source[links[0]]), *topology.target[links].tolist()]
        chained = nodes[1:-1] == topology.source[links[1:]].tolist()
        over_switches = all(node >= topology.num_ranks for node in nodes[1:-1])
        ends = (nodes[0], nodes[-1]) == (network.tails[arc], network.heads[arc])
        if not (chained and over_switches and ends and len(set(nodes)) == len(nodes)):
            return False
    return True


def flows_by_networkx(num_nodes, num_ranks, arcs, trees):
    """Return the max-flow to each rank from a node that is joined to each root by its number of trees."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(num_nodes))
    for tail, head, units in [*arcs, *(("s", rank, count) for rank, count in enumerate(trees))]:
        before = graph.get_edge_data(tail, head, {"capacity": 0})["capacity"]
        graph.add_edge(tail, head, capacity=before + int(units))
    return [nx.maximum_flow_value(graph, "s", rank) for rank in range(num_ranks)]


def relabelled(topology, seed):
    """Return the network with its ranks, switches and links each in another order."""
    rng = np.random.default_rng(seed)
    ranks, switches = topology.num_ranks, topology.num_switches
    place = np.concatenate([rng.permutation(ranks), ranks + rng.permutation(switches)])
    table = [topology.link(int(i)) for i in rng.permutation(topology.num_links)]
    links = [Link(int(place[link.source]), int(place[link.target]), link.bandwidth) for link in table]
    return Topology.from_links(f"{topology.name} relabelled", ranks, links, num_switches=switches)


def rescaled(topology, factor):
    links = [topology.link(i) for i in range(topology.num_links)]
    links = [Link(link.source, link.target, link.bandwidth * factor) for link in links]
    name = f"{topology.name} x {factor}"
    return Topology.from_links(name, topology.num_ranks, links, num_switches=topology.num_switches)


def with_a_link_in_two(topology, link):
    """Return the network with one link replaced by two, of a third and two thirds of its bandwidth."""
    links = [topology.link(i) for i in range(topology.num_links)]
    whole = links.pop(link)
    links += [Link(whole.source, whole.target, whole.bandwidth * Fraction(part, 3)) for part in (1, 2)]
    name = f"{topology.name} split"
    return Topology.from_links(name, topology.num_ranks, links, num_switches=topology.num_switches)


def out_trees(forest, trees):
    """Return whether each row spans and each rank roots `trees` rows, by walking up from every rank."""
    rooted = [0] * forest.parent.shape[1]
    for root, weight, parent in zip(
        forest.root.tolist(), forest.weight.tolist(), forest.parent.tolist(), strict=True
    ):
        rooted[root] += weight
        for rank in range(len(parent)):
            seen = set()
            while rank != root and rank not in seen and rank >= 0:
                seen.add(rank)
                rank = parent[rank]
            if rank != root:
                return False
    return rooted == list(trees)
