"""Pieces along trees: event by event against a plain twin, passes that only improve, detours."""

from itertools import pairwise

import numpy as np
import pytest

from heuristics.tacos.detours import THOROUGH, Detours, Effort, HeldRoutes, RoutedTrees, improved, place
from schedules.list_scheduling.trees import broadcast_transfers

ONCE = Effort(passes=0, detours=0)
SEEDS = range(24)


def held_routes(routes, pairs, hold, alpha=0):
    """Routes over links that hold a piece for hold[link] ticks, each entered `alpha` after the one before."""
    offsets = np.cumsum([0, *(len(route) for route in routes)])
    links = np.array([link for route in routes for link in route], np.int32)
    delay = np.array([place * alpha for route in routes for place in range(len(route))])
    holds = np.array(hold)[links].astype(np.int64)
    lasts = [alpha * (len(route) - 1) + max(hold[link] for link in route) for route in routes]
    ends = np.array(pairs, np.int32).T.copy()
    return HeldRoutes(offsets.astype(np.int64), links, delay, holds, np.array(lasts), ends[0], ends[1])


def random_tree(rng, ranks, root):
    """Parents of a random tree."""
    order = [root, *rng.permutation([rank for rank in range(ranks) if rank != root]).tolist()]
    parent = np.full(ranks, -1, np.int32)
    for before, rank in enumerate(order[1:], start=1):
        parent[rank] = order[rng.integers(before)]
    return parent


def random_case(seed):
    """Pieces on a star: route r = (a, b) goes up link a and down link `ranks` + b."""
    rng = np.random.default_rng(seed)
    ranks, pieces = int(rng.integers(2, 6)), int(rng.integers(1, 5))
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    hold = rng.integers(4, 9, 2 * ranks).tolist()
    routes = held_routes([[a, ranks + b] for a, b in pairs], pairs, hold, alpha=int(rng.integers(3)))
    parent = np.stack([random_tree(rng, ranks, int(rng.integers(ranks))) for _ in range(pieces)])
    route = [
        [-1 if above < 0 else pairs.index((above, rank)) for rank, above in enumerate(tree)]
        for tree in parent.tolist()
    ]
    priority = rng.permutation(parent.size).reshape(parent.shape)
    return routes, RoutedTrees(parent, np.array(route, np.int32)), priority


def waits_for(trees, backwards):
    """Return for each (piece, rank) that moves those that it waits for: the one above, or those below."""
    moves = [(int(p), int(v)) for p, v in zip(*np.nonzero(trees.route >= 0), strict=True)]
    if backwards:
        return {(p, v): [(q, w) for q, w in moves if q == p and trees.parent[q, w] == v] for p, v in moves}
    above = {(p, v): (p, int(trees.parent[p, v])) for p, v in moves}
    return {each: [up] if up in above else [] for each, up in above.items()}


def by_hand(routes, trees, priority, waits):
    """Whenever something changes, start the transfers that can, by priority."""
    todo, start, end, free, now = set(waits), {}, {}, {}, 0

    def links(transfer):
        route = trees.route[transfer]
        places = range(routes.offsets[route], routes.offsets[route + 1])
        return [(int(routes.links[i]), int(routes.delay[i]), int(routes.hold[i])) for i in places]

    while todo:
        ready = [each for each in todo if all(end.get(other, np.inf) <= now for other in waits[each])]
        for each in sorted(ready, key=lambda each: priority[each]):
            if all(free.get(link, 0) <= now + delay for link, delay, _ in links(each)):
                start[each], end[each] = now, now + int(routes.lasts[trees.route[each]])
                free |= {link: now + delay + hold for link, delay, hold in links(each)}
                todo.discard(each)
        now += 1
    return start


@pytest.mark.parametrize("backwards", [False, True])
def test_transfers_start_when_a_plain_simulation_lets_them(backwards):
    for seed in SEEDS:
        routes, trees, priority = random_case(seed)
        transfers = broadcast_transfers(*trees)
        if backwards:
            routes, transfers = routes.reversed, transfers.reversed
        start, route = place(transfers, routes, priority, Detours.none(trees.parent))
        found = {(int(p), int(v)): int(start[p, v]) for p, v in zip(*np.nonzero(route >= 0), strict=True)}
        assert found == by_hand(routes, trees, priority, waits_for(trees, backwards)), seed
        assert np.array_equal(route, trees.route), seed


def overlaps(routes, start, route):
    """Return whether two transfers hold a link at once."""
    uses = {}
    for each in zip(*np.nonzero(route >= 0), strict=True):
        for i in range(routes.offsets[route[each]], routes.offsets[route[each] + 1]):
            begin = int(start[each] + routes.delay[i])
            uses.setdefault(int(routes.links[i]), []).append((begin, begin + int(routes.hold[i])))
    return any(one[1] > other[0] for times in uses.values() for one, other in pairwise(sorted(times)))


def test_more_passes_and_detours_never_end_later_and_stay_legal():
    for seed in SEEDS:
        routes, trees, priority = random_case(seed)
        first, best = (improved(routes, trees, priority, effort) for effort in (ONCE, THOROUGH))
        parent, route = best.trees
        assert best.end <= first.end, seed
        assert not overlaps(routes, best.start, route), seed
        assert np.array_equal(parent < 0, trees.parent < 0), seed
        for piece, rank in zip(*np.nonzero(route >= 0), strict=True):
            above = parent[piece, rank]
            assert (routes.source[route[piece, rank]], routes.target[route[piece, rank]]) == (above, rank)
            if route[piece, above] >= 0:
                arrival = best.start[piece, above] + routes.lasts[route[piece, above]]
                assert arrival <= best.start[piece, rank], seed


def chain(pieces, ranks):
    """Pieces from rank 0 along a line, over the routes 0, 1, ..."""
    parent = np.tile(np.arange(ranks, dtype=np.int32) - 1, (pieces, 1))
    return RoutedTrees(parent, parent)


@pytest.mark.parametrize(("pieces", "ranks"), [(1, 2), (1, 5), (4, 2), (4, 5)])
def test_pieces_along_a_line_are_a_pipeline(pieces, ranks):
    pairs = [(rank, rank + 1) for rank in range(ranks - 1)]
    routes = held_routes([[link] for link in range(ranks - 1)], pairs, [3] * (ranks - 1))
    made = improved(routes, chain(pieces, ranks), np.zeros((pieces, ranks), np.int64), THOROUGH)
    assert made.end == 3 * (pieces + ranks - 2)


def test_an_idle_link_takes_what_would_come_later_by_the_tree():
    # Both pieces are to go 0 -> 1 -> 2, and the link 0 -> 2 is idle: over it they are there at once.
    routes = held_routes([[0], [1], [2]], [(0, 1), (1, 2), (0, 2)], [1, 1, 1])
    priority = np.zeros((2, 3), np.int64)
    assert improved(routes, chain(2, 3), priority, ONCE).end == 3
    made = improved(routes, chain(2, 3), priority, THOROUGH)
    assert made.end == 2
    assert 2 in made.trees.route
