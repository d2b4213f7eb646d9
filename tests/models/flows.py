"""Random networks with demands, and slow oracles of how long these take."""

from fractions import Fraction
from itertools import product

import networkx as nx
import numpy as np
from scipy.optimize import linprog

from tutti.models.all_to_all import Demand, SourceFlow
from tutti.topologies import Link, Topology, parse_topology
from tutti.topologies.graphs.symmetry import AutomorphismGroup


def random_network(seed, most_ranks=5):
    """Random networks of up to 5 ranks and 2 switches, links over one cycle, parallel and uneven ones too."""
    rng = np.random.default_rng(seed)
    ranks, switches = int(rng.integers(2, most_ranks + 1)), int(rng.integers(0, 3))
    nodes = ranks + switches
    cycle = rng.permutation(nodes)
    ends = [*zip(cycle, np.roll(cycle, -1), strict=True), *rng.integers(0, nodes, (6, 2))]
    links = [Link(int(a), int(b), Fraction(int(rng.integers(1, 9)), 2)) for a, b in ends if a != b]
    return Topology.from_links(f"random {seed}", ranks, links, num_switches=switches)


def random_demand(topology, seed):
    """Demands of 0 to 4 sixths of M, some of them 0."""
    rng = np.random.default_rng(seed)
    amounts = rng.integers(0, 5, (topology.num_ranks,) * 2)
    np.fill_diagonal(amounts, 0)
    amounts[0, 1] = 1
    return Demand(topology, amounts, 6)


def ring_flow():
    """Each rank of a one-way ring of 3 sends 1/3 of M to the next and through it to the one after."""
    topology = parse_topology("uniring:3")
    return SourceFlow(Demand.uniform(topology), np.array([[2, 1, 0], [0, 2, 1], [1, 0, 2]]), 3)


def no_symmetry(topology):
    """The group of the identity alone."""
    nodes, links = np.empty((0, topology.num_nodes), np.int32), np.empty((0, topology.num_links), np.int32)
    return AutomorphismGroup(topology, nodes, links)


def pairwise_time(demand):
    """The least time by an LP of one flow a pair: minimize T, each flow conserving, loads at most T b."""
    topology = demand.topology
    pairs = [(s, t) for s, t in product(range(topology.num_ranks), repeat=2) if demand[s, t]]
    links, nodes = topology.num_links, topology.num_nodes
    columns = len(pairs) * links + 1
    fastest = topology.bandwidth.floats.max()
    loads = np.hstack([*[np.eye(links)] * len(pairs), -topology.bandwidth.floats[:, None] / fastest])
    conserve, supply = np.zeros((len(pairs) * nodes, columns)), np.zeros(len(pairs) * nodes)
    for k, (s, t) in enumerate(pairs):
        for e in range(links):
            conserve[k * nodes + topology.source[e], k * links + e] += 1
            conserve[k * nodes + topology.target[e], k * links + e] -= 1
        supply[[k * nodes + s, k * nodes + t]] = float(demand[s, t]), -float(demand[s, t])
    cost = np.zeros(columns)
    cost[-1] = 1
    found = linprog(cost, A_ub=loads, b_ub=np.zeros(links), A_eq=conserve, b_eq=supply, method="highs")
    assert found.success
    return found.fun / fastest


def slow_bound(demand, lengths):
    """The bound by lengths, from networkx's distances and fractions."""
    topology, graph = demand.topology, nx.MultiDiGraph()
    graph.add_nodes_from(range(topology.num_nodes))
    for a, b, length in zip(topology.source.tolist(), topology.target.tolist(), lengths, strict=True):
        graph.add_edge(a, b, weight=int(length))
    way = dict(nx.all_pairs_dijkstra_path_length(graph))
    ranks = range(topology.num_ranks)
    moved = sum(demand[s, t] * way[s][t] for s, t in product(ranks, ranks) if s != t)
    return moved / sum(b * int(length) for b, length in zip(topology.bandwidth, lengths, strict=True))
