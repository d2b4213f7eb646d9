"""Small networks for BFB, its subproblems by relaxation, and the densest set by brute force."""

import itertools
import math
from fractions import Fraction

import numpy as np

from tutti.models.bfb import METHOD, BfbOptions
from tutti.schedules.collective import collective
from tutti.schedules.method import Problem
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Link, Topology

NAMED = [
    "ring:2",
    "ring:5",
    "ring:6",
    "uniring:4",
    "mesh:3x4",
    "mesh:4x1",
    "torus:3x3",
    "torus:2x5",
    "torus:4x4",
    "hypercube:4",
    "complete:5",
    "complete_bipartite:2",
    "complete_bipartite:3",
    "hamming:2,3",
    "circulant:7,2,3",
    "gen_kautz:2,5",
    "gen_kautz:3,10",
    "torus:3x3?drop_nodes=8",
    "torus:4x4?drop_links=0-1",
    "ring:4?links=2",
]


def random_network(seed: int) -> Topology:
    """A strongly connected digraph with irregular degrees and some parallel links."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 8))
    links = [Link(i, (i + 1) % n) for i in range(n)]
    while len(links) < 3 * n:
        u, v = rng.integers(0, n, 2).tolist()
        if u != v:
            links.append(Link(u, v))
    return Topology.from_links(f"random-{seed}", n, links)


NETWORKS = {name: parse_topology(name) for name in NAMED} | {
    f"random-{seed}": random_network(seed) for seed in range(8)
}


def subproblems(topology):
    """Yield (u, t, eligible in-links of each source), from shortest paths found by relaxation."""
    n, links = topology.num_ranks, list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    hops = [[0 if i == j else math.inf for j in range(n)] for i in range(n)]
    for _ in range(n):
        for i, (a, b) in itertools.product(range(n), links):
            hops[i][b] = min(hops[i][b], hops[i][a] + 1)
    for u, t in itertools.product(range(n), range(1, max(map(max, hops)) + 1)):
        into = [(link, a) for link, (a, b) in enumerate(links) if b == u]
        yield (
            u,
            t,
            {v: [link for link, w in into if hops[v][w] == t - 1] for v in range(n) if hops[v][u] == t},
        )


def densest(eligible):
    """The largest (sources whose eligible links all lie in S) / |S|, over all sets S of links."""
    links = sorted({link for choices in eligible.values() for link in choices})
    best = Fraction(0)
    for size in range(1, len(links) + 1):
        for chosen in map(set, itertools.combinations(links, size)):
            best = max(best, Fraction(sum(chosen >= set(c) for c in eligible.values()), size))
    return best


def make(topology, kind="allgather", **options):
    problem = Problem(topology, collective(kind, topology.num_ranks))
    chosen = BfbOptions(**options)
    METHOD.supports(problem, chosen)
    return METHOD.synthesize(problem, chosen, np.random.default_rng(0))
