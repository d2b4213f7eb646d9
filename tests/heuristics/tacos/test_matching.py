"""The matching with the most links: against brute force and networkx, at every moment of whole schedules."""

from collections import defaultdict
from itertools import combinations, permutations

import networkx as nx
import numpy as np
import pytest

from tests.heuristics.tacos.synthesis import GB, tacos
from tests.sweep import for_each
from tutti.heuristics.tacos import matching

NETWORKS = [
    "ring:2",
    "complete:6",
    "torus:3x4",
    "gen_kautz:3,11",  # one-way links
    "mesh:3x3?drop_nodes=8",
    "mesh:3x3?bandwidth=50GB/s,20GB/s&alpha=1us",
    "torus:3x4?bandwidth=100GB/s,7GB/s&alpha=3us",
]


def bids(lists, priority):
    """Return what link j bids, `lists[j]`, as the kernel reads it."""
    flat = [chunk for chunks in lists for chunk in chunks]
    return matching.Bids(
        np.cumsum([0, *map(len, lists)]),
        np.array(flat, np.int64),
        np.array([priority[chunk] for chunk in flat], np.int64),
    )


def random_lists(rng):
    links, chunks = rng.integers(1, 5), rng.integers(1, 6)
    return [
        sorted(rng.choice(chunks, rng.integers(0, min(links, chunks) + 1), replace=False).tolist())
        for _ in range(links)
    ]


def best_by_brute_force(lists, priority):
    """Return (links matched, priorities of the chunks in order, links) of the best of all matchings."""
    links, chunks = len(lists), sorted({chunk for own in lists for chunk in own})
    for size in range(min(links, len(chunks)), 0, -1):
        found = [
            (sorted(priority[chunk] for chunk in taken), list(able))
            for taken in combinations(chunks, size)
            for able in combinations(range(links), size)
            if any(
                all(c in lists[j] for c, j in zip(taken, some, strict=True)) for some in permutations(able)
            )
        ]
        if found:
            return size, *min(found)
    return 0, [], []


def test_a_matching_has_the_most_links_the_rarest_chunks_and_the_first_links():
    for seed in range(300):
        rng = np.random.default_rng(seed)
        lists, priority = random_lists(rng), rng.permutation(6).tolist()
        chosen = matching.most_links(bids(lists, priority)).tolist()
        used = [j for j, chunk in enumerate(chosen) if chunk >= 0]
        taken = [chosen[j] for j in used]
        assert all(chosen[j] in lists[j] for j in used), seed
        assert len(set(taken)) == len(taken), seed
        found = len(used), sorted(priority[c] for c in taken), used
        assert found == best_by_brute_force(lists, priority), seed


def test_as_many_links_are_matched_as_networkx_matches():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        lists = [rng.choice(30, rng.integers(0, 8), replace=False).tolist() for _ in range(25)]
        chosen = matching.most_links(bids(lists, list(range(30))))
        graph = nx.Graph([(("link", j), chunk) for j, own in enumerate(lists) for chunk in own])
        links = [("link", j) for j, own in enumerate(lists) if own]
        assert (chosen >= 0).sum() == len(nx.bipartite.maximum_matching(graph, links)) // 2, seed


def test_a_chunk_that_comes_late_moves_others_aside():
    """Link 0 could bring either; unless it brings 1, link 1 stays idle."""
    assert matching.most_links(bids([[0, 1], [0]], [0, 1])).tolist() == [1, 0]


def test_of_equal_matchings_the_first_links_are_taken():
    assert matching.most_links(bids([[0], [0], [0]], [0])).tolist() == [0, -1, -1]


def synthesize(text, **options):
    return tacos(text, chunk_rule="maximum", **options)


def most_of_receivers(schedule, free, have, want):
    """Return how many free links a matching with (receiver, chunk) pairs uses at most."""
    graph = nx.Graph()
    ends = zip(schedule.topology.source.tolist(), schedule.topology.target.tolist(), strict=True)
    for link, (a, b) in enumerate(ends):
        if link in free:
            graph.add_edges_from((("link", link), (b, chunk)) for chunk in have[a] & want[b])
    links = [node for node in graph if node[0] == "link"]
    return len(nx.bipartite.maximum_matching(graph, links)) // 2


@for_each("chunks", [1, 2])
@for_each("text", NETWORKS)
def test_at_every_moment_no_more_links_could_be_used(text, chunks):
    """Sets replay what each link carries, and which nodes have and want which chunks."""
    schedule = synthesize(text, chunks=chunks, wait_for_faster_link=False)
    topology, owner = schedule.topology, schedule.collective.items.owner[schedule.chunks.item]
    have = [{c for c, o in enumerate(owner) if o == node} for node in range(topology.num_ranks)]
    want = [set(range(len(owner))) - own for own in have]
    starts = defaultdict(list)
    for chunk, link, start in zip(schedule.chunk, schedule.route, schedule.order.tolist(), strict=True):
        starts[start].append((int(chunk), int(link)))
    flying = {}
    duration = [
        (topology.alpha[link] + GB / len(owner) / topology.bandwidth[link]) / schedule.tick
        for link in range(topology.num_links)
    ]
    for now in sorted({0, *starts, *(s + duration[link] for s, rows in starts.items() for _, link in rows)}):
        for link in [link for link, (end, _) in flying.items() if end <= now]:
            have[topology.target[link]].add(flying.pop(link)[1])
        free = set(range(topology.num_links)) - set(flying)
        assert len(starts[now]) == most_of_receivers(schedule, free, have, want)
        for chunk, link in starts[now]:
            want[topology.target[link]].discard(chunk)
            flying[link] = (now + duration[link], chunk)
    assert not any(want)


@pytest.mark.parametrize(("text", "least"), [("torus:5x5", 6), ("torus:8x8", 16), ("mesh:5x5", 12)])
def test_the_bound_on_rounds_is_met(text, least):
    """ceil((n^2 - 1) / 4) on tori, and over the 2 links of a mesh's corner."""
    assert int(synthesize(text).order.max()) + 1 == least
