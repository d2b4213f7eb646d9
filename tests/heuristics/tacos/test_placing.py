"""Pieces along trees: event by event against a plain twin, passes that only improve, detours."""

from itertools import pairwise

import numpy as np
import pytest

from heuristics.tacos.hops import place
from heuristics.tacos.placing import THOROUGH, Effort, _no_detours, improved
from heuristics.tacos.ways import DOWN, UP, Trees, Ways
from tests.sweep import for_each

ONCE = Effort(passes=0, detours=0)


def ways_of(routes, hold, alpha=0):
    """Routes over links that hold a piece for hold[link] ticks, each entered `alpha` after the one before."""
    offsets = np.cumsum([0, *(len(route) for route in routes)])
    links = np.array([link for route in routes for link in route], np.int32)
    delay = np.array([hop * alpha for route in routes for hop in range(len(route))])
    holds = np.array(hold)[links].astype(np.int64)
    lasts = [alpha * (len(route) - 1) + max(hold[link] for link in route) for route in routes]
    return Ways(offsets.astype(np.int64), links, delay, holds, np.array(lasts))


def random_tree(rng, ranks, root):
    """Parents of a random tree."""
    order = [root, *rng.permutation([rank for rank in range(ranks) if rank != root]).tolist()]
    parent = np.full(ranks, -1, np.int32)
    for before, rank in enumerate(order[1:], start=1):
        parent[rank] = order[rng.integers(before)]
    return parent


def random_case(seed, directions):
    """Pieces on a star: route r = (a, b) goes up link a and down link `ranks` + b."""
    rng = np.random.default_rng(seed)
    ranks, pieces = int(rng.integers(2, 6)), int(rng.integers(1, 5))
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    number = {pair: route for route, pair in enumerate(pairs)}
    hold = rng.integers(4, 9, 2 * ranks).tolist()
    ways = ways_of([[a, ranks + b] for a, b in pairs], hold, alpha=int(rng.integers(3)))
    root = rng.integers(ranks, size=pieces).astype(np.int32)
    parent = np.full((2, pieces, ranks), -1, np.int32)
    way = np.full_like(parent, -1)
    for direction in directions:
        for piece in range(pieces):
            parent[direction, piece] = random_tree(rng, ranks, int(root[piece]))
            for node, above in enumerate(parent[direction, piece].tolist()):
                if above >= 0:
                    pair = (node, above) if direction == UP else (above, node)
                    way[direction, piece, node] = number[pair]
    priority = rng.permutation(way.size).reshape(way.shape)
    return ways, Trees.of(root, parent, way), priority, np.array(pairs, np.int32).T


def waits_for(trees, hop):
    """Return the hops that one waits for."""
    direction, piece, node = hop
    up = [(UP, piece, int(child)) for child in np.flatnonzero(trees.parent[UP, piece] == node)]
    if direction == UP:
        return up
    above = int(trees.parent[DOWN, piece, node])
    if above != trees.root[piece]:
        return [(DOWN, piece, above)]
    return [(UP, piece, int(child)) for child in np.flatnonzero(trees.parent[UP, piece] == above)]


def by_hand(ways, trees, priority):
    """Whenever something changes, start the hops that can, by priority."""
    todo = {tuple(int(i) for i in hop) for hop in zip(*np.nonzero(trees.way >= 0), strict=True)}
    start, end, free, now = {}, {}, {}, 0

    def links(hop):
        route = trees.way[hop]
        places = range(ways.offsets[route], ways.offsets[route + 1])
        return [(int(ways.links[i]), int(ways.delay[i]), int(ways.hold[i])) for i in places]

    while todo:
        ready = [hop for hop in todo if all(end.get(other, np.inf) <= now for other in waits_for(trees, hop))]
        for hop in sorted(ready, key=lambda hop: priority[hop]):
            if all(free.get(link, 0) <= now + delay for link, delay, _ in links(hop)):
                start[hop], end[hop] = now, now + int(ways.lasts[trees.way[hop]])
                free |= {link: now + delay + hold for link, delay, hold in links(hop)}
                todo.discard(hop)
        now += 1
    return start


@for_each("directions", [(DOWN,), (UP,), (UP, DOWN)])
@for_each("seed", range(12))
def test_hops_start_when_a_plain_simulation_lets_them(seed, directions):
    ways, trees, priority, _ = random_case(seed, directions)
    start, way = place(ways, trees, priority, ways.num_links, _no_detours())
    assert {hop: int(start[hop]) for hop in zip(*map(tuple, np.nonzero(way >= 0)), strict=True)} == by_hand(
        ways, trees, priority
    )
    assert np.array_equal(way, trees.way)


def overlaps(ways, start, way):
    """Return whether two hops hold a link at once."""
    uses = {}
    for hop in zip(*np.nonzero(way >= 0), strict=True):
        for i in range(ways.offsets[way[hop]], ways.offsets[way[hop] + 1]):
            begin = int(start[hop] + ways.delay[i])
            uses.setdefault(int(ways.links[i]), []).append((begin, begin + int(ways.hold[i])))
    return any(one[1] > other[0] for times in uses.values() for one, other in pairwise(sorted(times)))


@for_each("seed", range(12))
def test_more_passes_and_detours_never_end_later_and_stay_legal(seed):
    ways, trees, priority, ends = random_case(seed, (DOWN,))
    first = improved(ways, trees, priority, tuple(ends), ONCE)
    best = improved(ways, trees, priority, tuple(ends), THOROUGH)
    assert best.end <= first.end
    assert not overlaps(ways, best.start, best.trees.way)
    for piece, node in zip(*np.nonzero(best.trees.way[DOWN] >= 0), strict=True):
        above = best.trees.parent[DOWN, piece, node]
        route = best.trees.way[DOWN, piece, node]
        assert ends[:, route].tolist() == [above, node]
        if above != trees.root[piece]:
            arrival = best.start[DOWN, piece, above] + ways.lasts[best.trees.way[DOWN, piece, above]]
            assert arrival <= best.start[DOWN, piece, node]


def chain(pieces, ranks, hold=3):
    """Pieces from rank 0 along a line of links."""
    parent = np.full((2, pieces, ranks), -1, np.int32)
    parent[DOWN] = np.arange(ranks) - 1
    way = np.full_like(parent, -1)
    way[DOWN, :, 1:] = np.arange(ranks - 1)
    ways = ways_of([[link] for link in range(ranks - 1)], [hold] * (ranks - 1))
    return ways, Trees.of(np.zeros(pieces, np.int32), parent, way)


@pytest.mark.parametrize(("pieces", "ranks"), [(1, 2), (1, 5), (4, 2), (4, 5)])
def test_pieces_along_a_line_are_a_pipeline(pieces, ranks):
    ways, trees = chain(pieces, ranks)
    ends = np.arange(ranks - 1, dtype=np.int32), np.arange(1, ranks, dtype=np.int32)
    made = improved(ways, trees, np.zeros(trees.way.shape, np.int64), ends, THOROUGH)
    assert made.end == 3 * (pieces + ranks - 2)


def test_an_idle_link_takes_what_would_come_later_by_the_tree():
    # Both pieces are to go 0 -> 1 -> 2, and the link 0 -> 2 is idle: over it they are there at once.
    ways, trees = chain(2, 3, hold=1)
    ways = ways_of([[0], [1], [2]], [1, 1, 1])
    ends = np.array([0, 1, 0], np.int32), np.array([1, 2, 2], np.int32)
    priority = np.zeros(trees.way.shape, np.int64)
    assert improved(ways, trees, priority, ends, ONCE).end == 3
    made = improved(ways, trees, priority, ends, THOROUGH)
    assert made.end == 2
    assert 2 in made.trees.way[DOWN]
