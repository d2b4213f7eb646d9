"""The search for a number of pieces, even cuts, and transfers along trees by definition."""

from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest

from tutti.schedules import Problem, collective
from tutti.schedules.list_scheduling.kernel import TimedRoutes, send
from tutti.schedules.list_scheduling.pieces import (
    FINE,
    TreePairs,
    TreePipeline,
    cut,
    forward_backward,
    improved,
    tree_transfers,
)
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies.text import parse_topology

SEEDS = range(40)


def random_parents(rng, ranks, root):
    parent, order = np.full(ranks, -1, np.int32), [root, *rng.permutation(np.delete(np.arange(ranks), root))]
    for place in range(1, ranks):
        parent[order[place]] = order[rng.integers(place)]
    return parent


def random_pieces(seed):
    """Return pairs of trees over a complete graph, with pieces, amounts and priorities."""
    rng = np.random.default_rng(seed)
    ranks, pairs, pieces = (int(rng.integers(2, 6)), int(rng.integers(1, 4)), int(rng.integers(1, 5)))
    root = rng.integers(0, ranks, pairs).astype(np.int32)
    up, down = (np.stack([random_parents(rng, ranks, r) for r in root]) for _ in range(2))
    rank = np.arange(ranks)
    links = np.where(up >= 0, rank * ranks + up, -1), np.where(down >= 0, down * ranks + rank, -1)
    trees = TreePairs(up, down, links[0].astype(np.int32), links[1].astype(np.int32), root)
    return trees, rng.integers(0, pairs, pieces), rng.integers(1, 5, (2, pieces, ranks)), rng


def waits_for(trees, pair):
    """Return, for each (direction, piece, rank) that moves, those that must end before."""
    waits = {}
    for piece, which in enumerate(pair):
        up, down, root = trees.up[which], trees.down[which], trees.root[which]
        for rank in range(len(up)):
            if up[rank] >= 0:
                waits[0, piece, rank] = [(0, piece, c) for c in range(len(up)) if up[c] == rank]
            if down[rank] >= 0:
                above = [(0, piece, c) for c in range(len(up)) if up[c] == root]
                waits[1, piece, rank] = above if down[rank] == root else [(1, piece, int(down[rank]))]
    return waits


def number_of(trees, pair, by_direction):
    """Return the number of (direction, piece, rank)."""
    numbers = np.arange(2 * len(pair) * trees.up.shape[1])
    if by_direction:
        return numbers.reshape(2, len(pair), -1)
    return numbers.reshape(len(pair), 2, -1).transpose(1, 0, 2)


def predecessors(transfers):
    """Return for each transfer those that it waits for, directly or through a join."""
    before = [set() for _ in transfers.route]
    for t in range(len(before)):
        for after in transfers.follower[transfers.first[t] : transfers.first[t + 1]].tolist():
            before[after].add(t)
    return [{b for t in each for b in ({t} if transfers.route[t] >= 0 else before[t])} for each in before]


def test_transfers_wait_for_those_from_below_and_then_for_those_from_above():
    for seed in SEEDS:
        trees, pair, amount, _ = random_pieces(seed)
        for by_direction in (True, False):
            given = amount if by_direction else amount.transpose(1, 0, 2)
            transfers = tree_transfers(trees, pair, given, by_direction=by_direction)
            number, found = number_of(trees, pair, by_direction), predecessors(transfers)
            waits = waits_for(trees, pair)
            for key, before in waits.items():
                assert found[number[key]] == {int(number[b]) for b in before}, (seed, key)
                assert transfers.amount[number[key]] == amount[key], (seed, key)
            assert (transfers.route >= 0).sum() == len(waits), seed


def test_pieces_that_are_only_broadcast_wait_for_nothing_at_the_root():
    for seed in SEEDS:
        trees, pair, amount, _ = random_pieces(seed)
        nowhere = np.full_like(trees.up, -1)
        transfers = tree_transfers(trees._replace(up=nowhere), pair, amount, by_direction=True)
        routes = TimedRoutes.single_links(trees.up.shape[1] ** 2)
        found = send(transfers, routes, np.zeros(amount.size, np.int64))
        assert len(found.sending.transfer) == (trees.down[pair] >= 0).sum(), seed


def test_the_best_of_all_passes_is_legal_and_not_longer_than_the_first():
    for seed in SEEDS:
        trees, pair, amount, rng = random_pieces(seed)
        transfers = tree_transfers(trees, pair, amount, by_direction=True)
        routes = TimedRoutes.single_links(trees.up.shape[1] ** 2)
        priority = rng.integers(0, 4, amount.size)
        number = number_of(trees, pair, by_direction=True)
        for room in (0, 6):
            routes = TimedRoutes.single_links(len(routes.alpha), alpha=room and 1, seconds=int(not room))
            start = forward_backward(transfers, routes, priority, 3, room=room)
            over = start + (1 if room else transfers.amount)
            waits = {
                int(number[key]): [int(number[b]) for b in before]
                for key, before in waits_for(trees, pair).items()
            }
            for transfer, before in waits.items():
                assert start[transfer] >= max((over[b] for b in before), default=0), seed
            for on in set(transfers.route[list(waits)].tolist()):
                held = sorted({(int(start[t]), int(over[t])) for t in waits if transfers.route[t] == on})
                assert all(end <= begin for (_, end), (begin, _) in pairwise(held)), seed
            assert max(over[t] for t in waits) <= send(transfers, routes, priority, room).end, seed


def test_no_more_passes_are_made_than_help():
    """The first schedule is the answer if it is as short as possible."""
    trees, pair, amount, rng = random_pieces(1)
    transfers = tree_transfers(trees, pair, amount, by_direction=True)
    routes = TimedRoutes.single_links(trees.up.shape[1] ** 2)
    priority = rng.integers(0, 4, amount.size)
    first = send(transfers, routes, priority)
    both = [forward_backward(transfers, routes, priority, passes, least=first.end) for passes in (1, 9)]
    assert np.array_equal(*both)


@pytest.mark.parametrize("by_direction", [True, False])
def test_a_pipeline_is_legal_and_takes_as_long_as_it_says(by_direction):
    """The last link of a path of three without α waits until a piece has passed the three hops before."""
    pipeline_of = type("Pipeline", (TreePipeline,), {"by_direction": by_direction})
    topology, pieces, size = parse_topology("mesh:3?alpha=0us"), 6, Fraction(3 * 10**6)
    ends = zip(topology.source.tolist(), topology.target.tolist(), strict=True)
    link = {pair: number for number, pair in enumerate(ends)}
    parent = np.array([[1, 2, -1]], np.int32)
    up, down = [link[0, 1], link[1, 2], -1], [link[1, 0], link[2, 1], -1]
    trees = TreePairs(
        parent, parent, *(np.array([each], np.int32) for each in (up, down)), np.array([2], np.int32)
    )
    pipeline = pipeline_of(Problem(topology, collective("allreduce", 3), size), trees, 3)
    parts = cut(np.array([1]), np.array([pieces]), 3, FINE)

    def due(least, hop):
        return np.zeros_like(pipeline.links(parts), np.int64) + pipeline.each(parts.place)

    made = pipeline.one_by_one(parts, due, 2, (pieces, 0))
    schedule = pipeline.table(made)
    verify(schedule)
    assert simulate(schedule, size).time == pytest.approx(float(made.seconds), rel=1e-5)
    # Then it sends all pieces, one after the other.
    assert float(made.seconds) == pytest.approx(
        float(size / topology.bandwidth[0]) * (1 + 3 / pieces), rel=1e-5
    )


class Took(NamedTuple):
    """The time of a candidate."""

    seconds: int
    candidate: int


def test_the_search_ends_after_so_many_that_do_not_help():
    times = {1: 9, 2: 7, 3: 8, 4: 6, 5: 6, 6: 7, 7: 1}
    for patience, best, last in ((1, 2, 3), (2, 4, 6), (None, 7, 7)):
        tried = []

        def attempt(candidate, tried=tried):
            tried.append(candidate)
            return Took(times[candidate], candidate)

        found = improved(Took(9, 0), range(1, 8), attempt, patience=patience)
        assert found.candidate == best if patience != 1 else found.candidate == 0
        assert tried[-1] == (last if patience != 1 else 1)


def test_what_cannot_help_is_not_tried():
    found = improved(
        Took(5, 0), [4, 6, 3], lambda each: Took(each, each), floor=lambda each: each, patience=None
    )
    assert found.candidate == 3


def test_pieces_follow_each_other_and_differ_by_one_unit_at_most():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        weight, counts = rng.integers(1, 20, 5), rng.integers(1, 30, 5)
        for finest in (1, 10**9):
            pieces = cut(weight, counts, int(weight.sum()), finest)
            assert pieces.begin[0] == 0, seed
            assert pieces.end[-1] == pieces.units, seed
            assert (pieces.begin[1:] == pieces.end[:-1]).all(), seed
            for part, number in enumerate(counts.tolist()):
                own = pieces.part == part
                size = (pieces.end - pieces.begin)[own]
                assert pieces.place[own].tolist() == list(range(number)), seed
                assert sum(size.tolist()) * int(weight.sum()) == pieces.units * int(weight[part]), seed
                assert size.max() - size.min() <= (finest == 1), seed
            assert finest > 1 or pieces.units in (int(weight.sum()), int(weight.sum()) * FINE), seed
