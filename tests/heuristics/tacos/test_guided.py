"""TACOS past ranks that do not want a chunk: gather, scatter, all-to-all and groups."""

from fractions import Fraction

import numpy as np
import pytest

from tests.heuristics.tacos.synthesis import GB, Twin, tacos
from tests.sweep import for_each
from tutti.heuristics.tacos import guided
from tutti.heuristics.tacos.network import time_expanded
from tutti.schedules import KINDS, Chunks, collective
from tutti.schedules.verify import verify
from tutti.topologies.text import parse_topology

NETWORKS = [
    "ring:2",
    "complete:5",
    "torus:3x4",
    "gen_kautz:2,7",  # one-way links
    "mesh:3x3?drop_nodes=4",  # a failure
    "mesh:2x3?bandwidth=50GB/s,20GB/s&alpha=1us",
]


def rounds(schedule):
    return int(schedule.order.max()) + 1


def hops(topology):
    """Return the number of links between ranks, by relaxation until nothing changes."""
    far = topology.num_nodes
    table = {(a, b): 0 if a == b else far for a in range(far) for b in range(far)}
    ends = list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    for _ in range(far):
        for a, b in ends:
            for c in range(far):
                table[a, c] = min(table[a, c], 1 + table[b, c])
    return table


@for_each("chunks", [1, 3])
@pytest.mark.parametrize("kind", ["gather", "scatter", "all-to-all"])
@for_each("text", NETWORKS)
def test_what_one_rank_wants_is_brought_there(text, kind, chunks):
    verify(tacos(text, kind, chunks=chunks))


@pytest.mark.parametrize("kind", KINDS)
@for_each(
    ("text", "groups"),
    [
        ("mesh:3x4", [[0, 11], [3, 8]]),  # corners: all goes through ranks of neither group, or of both
        ("mesh:4x4", [[0, 5, 10, 15], [3, 6, 9, 12]]),
        ("torus:3x3?bandwidth=50GB/s,10GB/s", [[0, 4, 8], [2, 3, 7]]),
        ("gen_kautz:2,7", [[0, 3, 5, 6]]),
        ("ring:4", [[0, 1, 2, 3]]),
    ],
)
def test_groups_of_ranks_do_their_own(text, groups, kind):
    verify(tacos(text, kind, groups=groups, chunks=2))


def test_ranks_outside_the_groups_forward():
    schedule = tacos("mesh:3x3", "allgather", groups=[[0, 8]])
    assert set(schedule.target.tolist()) - {0, 8}


@pytest.mark.parametrize("kind", ["gather", "scatter", "all-to-all"])
def test_a_chunk_for_one_rank_goes_once_over_a_shortest_route(kind):
    topology = parse_topology("mesh:3x4")
    far = hops(topology)
    items = collective(kind, 12).items
    expected = sum(far[a, b] for a, b in zip(items.start.tolist(), items.end.tolist(), strict=True))
    assert len(tacos("mesh:3x4", kind)) == expected


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("complete:6", 1),
        ("ring:5", 3),  # 2 (1 + 2) hops a rank over 2 links
        ("gen_kautz:4,20", 9),  # 8.5 hops a link
    ],
)
def test_all_to_all_needs_no_more_rounds_than_hops_a_link(text, least):
    schedule = tacos(text, "all-to-all", restarts=20)
    verify(schedule)
    assert rounds(schedule) == least


@for_each(
    ("text", "root", "least"),
    [("mesh:4x4", 0, 8), ("complete:5", 2, 1), ("ring:7", 3, 3), ("torus:3x3", 0, 2), ("torus:4x4", 5, 4)],
)
@pytest.mark.parametrize("kind", ["gather", "scatter"])
def test_the_root_s_links_bound_gather_and_scatter(text, root, least, kind):
    """15 shards over a corner's 2 links take 8 rounds, over 4 links 4."""
    schedule = tacos(text, kind, root=root, restarts=30)
    verify(schedule)
    assert rounds(schedule) == least


def test_the_groups_of_two_rows_keep_within_them():
    """Each row pair of a 4x4 mesh is a 2x4 mesh, whose corners receive 7 shards over 2 links, 3 with help."""
    schedule = tacos("mesh:4x4", "allgather", groups=[list(range(8)), list(range(8, 16))], restarts=20)
    verify(schedule)
    assert rounds(schedule) <= 4


def test_distances_are_those_of_the_cheapest_routes():
    topology = parse_topology("mesh:3x4?bandwidth=100GB/s,30GB/s&alpha=1us")
    network, tick = time_expanded(topology, GB / 12, 10**4)
    found = guided.distances_to(topology, network)
    cost = [topology.alpha[link] + GB / 12 / topology.bandwidth[link] for link in range(topology.num_links)]
    for target in range(12):
        exact = {node: Fraction(0) if node == target else Fraction(10**9) for node in range(12)}
        for _ in range(12):
            for link in range(topology.num_links):
                a, b = int(topology.source[link]), int(topology.target[link])
                exact[a] = min(exact[a], cost[link] + exact[b])
        assert [int(found[target, node]) * tick for node in range(12)] == [exact[n] for n in range(12)]


class GuidedTwin(Twin):
    """The same matching between links of one cost on Python sets, with distances in links."""

    def __init__(self, network, start, ends, seed):
        super().__init__(network, start, None, False, seed)
        self.far = {(a, b): 0 if a == b else len(self.nodes) for a in self.nodes for b in self.nodes}
        for _ in self.nodes:
            for a, b in self.links:
                for c in self.nodes:
                    self.far[a, c] = min(self.far[a, c], 1 + self.far[b, c])
        self.ends = ends
        self.gap = {(c, e): self.far[s, e] for c, s in enumerate(start) for e in ends[c]}

    def match_links(self, todo):
        self.random.shuffle(todo)
        for link in todo:
            source, target = self.links[link]
            chunk = self.choose(source, target)
            if chunk is None:
                self.starved.add(link)
                continue
            for end in self.ends[chunk]:
                self.gap[chunk, end] = min(self.gap[chunk, end], self.far[target, end])
            if len(self.ends[chunk]) == 1:
                self.have[source].discard(chunk)
            self.send(link, chunk)

    def choose(self, source, target):
        found, widest, ties = None, 0, 0
        for chunk in sorted(self.have[source] & self.want[target]):
            gaps = [self.gap[chunk, end] for end in self.ends[chunk]]
            nearer = [self.far[target, end] for end in self.ends[chunk]]
            gap = max((g for g, n in zip(gaps, nearer, strict=True) if n < g), default=0)
            if gap == 0 or gap < widest:
                continue
            ties = ties + 1 if gap == widest else 1
            widest = gap
            if self.random.below(ties) == 0:
                found = chunk
        return found

    def pruned(self, sent):
        needed = {(chunk, end) for chunk, ends in enumerate(self.ends) for end in ends}
        kept = []
        for chunk, link, now in reversed(sent):
            source, target = self.links[link]
            if (chunk, target) in needed:
                needed.add((chunk, source))
                kept.append((chunk, link, now))
        return kept[::-1]


@pytest.mark.parametrize(
    ("text", "kind", "groups"),
    [
        ("mesh:3x3", "all-to-all", None),
        ("torus:3x4", "gather", None),
        ("gen_kautz:2,7", "all-to-all", None),
        ("mesh:4x4", "allgather", [[0, 5, 10, 15], [1, 2, 7, 12]]),
        ("torus:4x4", "broadcast", [[0, 5, 10, 15, 3], [1, 2, 7, 12, 6]]),
    ],
)
def test_the_kernel_makes_the_choices_of_its_twin(text, kind, groups):
    topology = parse_topology(text)
    network, _ = time_expanded(topology, GB, 10**4)
    what = collective(kind, topology.num_ranks, groups=groups)
    goals = guided.goals_of(what, Chunks.even(what))
    ends = [goals.node[a:b].tolist() for a, b in zip(goals.first, goals.first[1:], strict=False)]
    distance = guided.distances_to(topology, network)
    for seed in (0, 7):
        made = guided.synthesize(network, goals, distance, np.uint64(seed))
        twin = GuidedTwin(network, goals.start.tolist(), ends, seed)
        expected = twin.pruned(twin.run())
        assert list(zip(*(column.tolist() for column in made), strict=True)) == expected, seed


def test_groups_may_have_several_sizes():
    verify(tacos("ring:5", groups=[[0, 1], [2, 3, 4]]))
