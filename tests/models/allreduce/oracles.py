"""Slow oracles of the allreduce LP: all cuts or all trees in dense programs for SciPy."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
from scipy.optimize import linprog

from tutti.topologies import Link, Topology


def random_network(seed):
    """3 to 5 ranks and no switch: a ring and some links, bandwidths 1 to 4 that agree at no node."""
    rng = np.random.default_rng(seed)
    ranks = int(rng.integers(3, 6))
    ring = rng.permutation(ranks)
    pairs = list(zip(ring.tolist(), np.roll(ring, -1).tolist(), strict=True))
    pairs += [tuple(rng.permutation(ranks)[:2].tolist()) for _ in range(int(rng.integers(1, 5)))]
    return Topology.from_links(
        f"random {seed}", ranks, [Link(u, v, Fraction(int(rng.integers(1, 5)))) for u, v in pairs]
    )


def simple_routes(topology, origin, goal):
    """All routes from rank to rank that visit nothing but switches between them, none twice."""
    found = []

    def walk(node, way, seen):
        for link in range(topology.num_links):
            if topology.source[link] != node:
                continue
            head = int(topology.target[link])
            if head == goal:
                found.append([*way, link])
            elif head >= topology.num_ranks and head not in seen:
                walk(head, [*way, link], seen | {head})

    walk(origin, [], set())
    return found


def rate_by_all_cuts(topology):
    """Σx, B/s, with a row for every set of ranks and a column for every route: dense."""
    n, links = topology.num_ranks, topology.num_links
    pairs = [(u, v) for u in range(n) for v in range(n) if u != v]
    routes = [(u, v, way) for u, v in pairs for way in simple_routes(topology, u, v)]
    count = n + 2 * len(routes)
    rows, limits = [], []
    for link in range(links):
        used = np.array([link in way for *_, way in routes], dtype=float)
        rows.append(np.concatenate([np.zeros(n), used, used]))
        limits.append(float(topology.bandwidth[link]))
    for number in range(1, 2**n - 1):
        inside = [(number >> v) & 1 for v in range(n)]
        leaving = np.array([inside[u] and not inside[v] for u, v, _ in routes], dtype=float)
        entering = np.array([inside[v] and not inside[u] for u, v, _ in routes], dtype=float)
        nothing = np.zeros(len(routes))
        rows.append(np.concatenate([inside, -leaving, nothing]))
        rows.append(np.concatenate([inside, nothing, -entering]))
        limits += [0.0, 0.0]
    found = linprog(-(np.arange(count) < n).astype(float), np.array(rows), limits, method="highs-ds")
    return -found.fun


def out_trees(topology):
    """All spanning out-trees of a network without switches, as (root, links)."""
    n = topology.num_ranks
    ends = list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    for root in range(n):
        into = [[e for e, (_, v) in enumerate(ends) if v == rank] for rank in range(n) if rank != root]
        for links in product(*into):
            above = {ends[e][1]: ends[e][0] for e in links}
            reached, grew = {root}, True
            while grew:
                fresh = {v for v, u in above.items() if u in reached} - reached
                reached, grew = reached | fresh, bool(fresh)
            if len(reached) == n:
                yield root, links


def rate_by_all_trees(topology):
    """Σx, B/s, with a column for every out-tree and every in-tree, as much of each root up as down: dense."""
    links = topology.num_links
    turned = Topology.from_links(
        "turned",
        topology.num_ranks,
        [Link(ln.target, ln.source, ln.bandwidth) for ln in map(topology.link, range(links))],
    )
    down, up = list(out_trees(topology)), list(out_trees(turned))
    loads = np.zeros((links, len(down) + len(up)))
    balance = np.zeros((topology.num_ranks, len(down) + len(up)))
    for column, (root, tree) in enumerate([*down, *up]):
        loads[list(tree), column] = 1
        balance[root, column] = 1 if column < len(down) else -1
    gain = -(np.arange(len(down) + len(up)) < len(down)).astype(float)
    limits = [float(b) for b in topology.bandwidth]
    found = linprog(gain, loads, limits, balance, np.zeros(topology.num_ranks), method="highs-ds")
    return -found.fun


def random_symmetric(seed):
    """Random networks of up to 8 ranks, links in both directions, some parallel; bandwidths 1..20 B/s."""
    rng = np.random.default_rng(seed)
    ranks = int(rng.integers(2, 9))
    order = rng.permutation(ranks)
    pairs = [
        *pairwise(order),
        *rng.integers(0, ranks, (int(rng.integers(0, 3 * ranks)), 2)),
    ]
    links = []
    for a, b in pairs:
        width = Fraction(int(rng.integers(1, 21)))
        links += [Link(int(a), int(b), width), Link(int(b), int(a), width)] if a != b else []
    return Topology.from_links(f"random {seed}", ranks, links)
