"""Rails between planes, part by part: trees, the pieces that rails bring, and how a plane spreads them."""

from collections import Counter

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.heuristics.rails.plane_schedule import Rail, feed
from tutti.heuristics.rails.planes import (
    STEEPNESS,
    Trees,
    amounts,
    edges_of,
    net_of,
    planes_of,
    spread,
    trees_of,
)
from tutti.topologies.text import parse_topology


def plane_net(text, number=0):
    """Return the network of one division into planes, a byte being a unit."""
    topology = parse_topology(text)
    planes = planes_of(topology)[number]
    return net_of(planes.local, planes.rank.shape[1], topology.alpha.floats, 1 / topology.bandwidth.floats)


# --- trees


@for_each(("slack", "rounds"), [(0, 4), (0, 9), (1, 8), (2, 16)])
@for_each("text", ["rfs:2x4x8", "rfs:4x3x2", "mi250:2", "torus_of_boxes:4,3"])
def test_trees_span_no_farther_than_they_may(text, slack, rounds):
    net = plane_net(text)
    trees = trees_of(net, slack, rounds)
    shortest = hops(net)
    for root, tree in zip(trees.root, trees.route, strict=True):
        for place in range(net.places):
            at, steps = place, 0
            while at != root:
                assert net.target[tree[at]] == at
                at, steps = net.source[tree[at]], steps + 1
            assert steps <= shortest[root, place] + slack
    assert np.bincount(trees.root, trees.share).tolist() == pytest.approx([1.0] * net.places)


@pytest.mark.parametrize("slack", [0, 1])
@pytest.mark.parametrize("text", ["rfs:2x3x2", "torus_of_boxes:3,3"])
def test_trees_grow_by_the_cheapest_route(text, slack):
    """The kernel's plain twin: each tree of each round against the loads of all before it."""
    net, rounds = plane_net(text), 3
    load, found = np.zeros(len(net.seconds)), Counter()
    for root in list(range(net.places)) * rounds:
        price = net.seconds * np.exp(STEEPNESS * load / max(load.max(), 1e-300))
        depth, tree = {root: 0}, [-1] * net.places
        while len(depth) < net.places:
            _, route = min(
                (sum(price[link] for link in links_of(net, route)), route)
                for route, (here, there) in enumerate(zip(net.source, net.target, strict=True))
                if here in depth and there not in depth and depth[here] < hops(net)[root, there] + slack
            )
            depth[net.target[route]], tree[net.target[route]] = depth[net.source[route]] + 1, route
        for link in (link for route in tree if route >= 0 for link in links_of(net, route)):
            load[link] += net.seconds[link]
        found[(root, *tree)] += 1
    trees = trees_of(net, slack, rounds)
    grown = zip(trees.root.tolist(), trees.route.tolist(), trees.share.tolist(), strict=True)
    assert {(root, *tree): share for root, tree, share in grown} == pytest.approx(
        {tree: count / rounds for tree, count in found.items()}
    )


def links_of(net, route):
    return [link for link in (net.first[route], net.second[route]) if link >= 0]


def hops(net):
    """Return distances by Floyd and Warshall."""
    far = np.full((net.places, net.places), net.places)
    far[net.source, net.target] = 1
    np.fill_diagonal(far, 0)
    for middle in range(net.places):
        far = np.minimum(far, far[:, middle : middle + 1] + far[middle])
    return far


def load_of(net, trees):
    """Return the largest load of a link, in seconds for one unit to each place."""
    load = np.zeros(len(net.seconds) + 1)  # the last entry is for missing links
    for share, routes in zip(trees.share, trees.route, strict=True):
        for link in (net.first, net.second):
            np.add.at(load, link[routes[routes >= 0]], share)
    return float((load[:-1] * net.seconds).max())


def test_trees_load_a_ring_of_two_times_a_complete_group_of_four_evenly():
    """A tree with j links of the ring has 7 - j of the group. The 8 ring links so carry j streams each on
    average, the 24 others (7 - j)/3: the largest load is least where j/200 = (7 - j)/300, that is j = 2.8.
    """
    net = plane_net("rfs:2x4x8")
    best = 2.8 / 200e9
    assert best <= load_of(net, trees_of(net, 0, 8)) <= 1.03 * best


def test_a_load_is_the_share_of_all_streams_that_cross_a_link():
    """Two places, a link each way: each carries the whole stream of the other end."""
    net = plane_net("rfs:1x2x2?bandwidth=20GB/s,1GB/s,50GB/s")
    assert load_of(net, trees_of(net, 0, 3)) == pytest.approx(1 / 1e9)


# --- what rails bring


def test_whole_shards_through_a_switch_follow_each_other():
    """Each is α after the one before has left; it takes α on both links and 100 units of 2 s."""
    brought = feed(Rail(4, 100, 2.0, 3.0, True), 0.01, 100)
    assert brought.start.tolist() == [0, 0, 203, 406]
    assert brought.arrive.tolist() == [0, 206, 409, 612]
    assert brought.hop.tolist() == brought.owner.tolist() == [0, 1, 2, 3]


def test_through_a_switch_four_messages_bring_seven_shards():
    """The second starts before the first is there. The third takes two shards of the rank three before, which
    has its own and the one that the first brought. The fourth takes the three that the rank five before has.
    """
    brought = feed(Rail(8, 100, 2.0, 3.0, True), 1.0, 0)
    assert brought.owner.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert brought.hop.tolist() == [0, 1, 2, 3, 3, 5, 5, 5]
    assert brought.start.tolist() == [0, 0, 203, 406, 406, 809, 809, 809]
    assert brought.arrive.tolist() == [0, 206, 409, 812, 812, 1415, 1415, 1415]


def test_over_links_all_owners_send_at_once():
    """Halves of what is left: 50, 25, 20 (the least) and 5 units."""
    brought = feed(Rail(3, 100, 2.0, 3.0, False), 0.5, 20)
    assert brought.start.tolist() == [0, 0, 0, 103, 103, 156, 156, 199, 199]
    assert brought.arrive.tolist()[1::2] == [103, 156, 199, 212]
    assert brought.size.tolist() == [100, 50, 50, 25, 25, 20, 20, 5, 5]


@pytest.mark.parametrize("switched", [False, True])
def test_every_shard_comes_once_and_no_sender_is_ahead_of_itself(switched):
    for planes in (2, 3, 5, 8):
        for share, least in ((0.1, 3), (0.37, 40), (1.0, 0)):
            brought = feed(Rail(planes, 100, 1.0, 0.5, switched), share, least)
            came = np.zeros((planes, 100))
            came[0] = 1
            had = {(0, unit): 0.0 for unit in range(100)}
            for start, arrive, hop, owner, low, high in list(zip(*brought, strict=True))[1:]:
                came[owner, low:high] += 1
                assert all(had[owner - hop, unit] <= start for unit in range(low, high))
                had |= {(owner, unit): arrive for unit in range(low, high)}
            assert (came == 1).all()
            assert (np.diff(brought.arrive) >= 0).all()


# --- how planes spread it


@pytest.mark.parametrize("text", ["rfs:2x3x2", "rfs:4x1x2", "torus_of_boxes:4,3"])
def test_the_kernel_does_what_its_rule_says(text):
    net = plane_net(text)
    trees = trees_of(net, 1, 4)
    rng = np.random.default_rng(1)
    for _ in range(5):
        arrive = np.concatenate([[0.0], np.sort(rng.integers(1, 9, 6) * 1.37e-7)])
        total = amounts(trees, rng.integers(1, 9000, 7))
        made, end = spread(net, edges_of(net, trees), arrive, total, 0.0)
        expected = by_the_rule(net, trees, arrive, total)
        assert made.route.tolist() == [route for route, _, _ in expected]
        assert made.start.tolist() == pytest.approx([start for _, start, _ in expected])
        assert end == pytest.approx(max(tail for _, _, tail in expected))


def by_the_rule(net, trees, arrive, total):
    """Return (route, start, end) of all messages, from sets of what each place has: slow and plain."""
    has = {(tree, root): {} for tree, root in enumerate(trees.root)}  # piece to when
    sent = {(tree, place): set() for tree, _ in enumerate(trees.root) for place in range(net.places)}
    for tree, root in enumerate(trees.root):
        has[tree, root] = dict(enumerate(arrive))
    free, made = np.zeros(len(net.seconds)), []
    moments = sorted(set(arrive))
    while moments:
        now = moments.pop(0)
        moments = [moment for moment in moments if moment > now + 1e-15]
        for place in range(net.places):
            while (best := next_by_the_rule(place, now, (net, trees, total), (has, sent), free)) is not None:
                route, new = best
                tail = hold(route, now, sum(total[p + 1, t] - total[p, t] for t, p in new), net, free)
                made.append((route, now, tail))
                for tree, piece in new:
                    has.setdefault((tree, net.target[route]), {})[piece] = tail
                    sent[tree, net.target[route]].add(piece)
                moments = sorted({*moments, tail, free[net.first[route]]})
    return made


def next_by_the_rule(place, now, given, state, free):
    net, trees, total = given
    has, sent = state
    found = []
    for route in np.flatnonzero(net.source == place):
        new = [
            (tree, piece)
            for tree in np.flatnonzero((trees.route == route).any(axis=1))
            for piece, when in has.get((tree, place), {}).items()
            if when <= now + 1e-15
            and piece not in sent[tree, net.target[route]]
            and total[piece + 1, tree] > total[piece, tree]
        ]
        if new and free[net.first[route]] <= now + 1e-15:
            waits = now
            if net.second[route] >= 0:
                waits = max(now, free[net.second[route]] - net.alpha[net.first[route]])
            units = sum(total[piece + 1, tree] - total[piece, tree] for tree, piece in new)
            found.append((round(waits, 15), -units, route, new))
    return min(found)[2:] if found else None


def hold(route, now, units, net, free):
    first, second = net.first[route], net.second[route]
    free[first] = now + net.alpha[first] + units * net.seconds[first]
    if second < 0:
        return free[first]
    entered = max(now + net.alpha[first], free[second])
    free[second] = entered + net.alpha[second] + units * net.seconds[second]
    return max(free[first] + net.alpha[second], free[second])


def test_trees_share_pieces_without_loss():
    trees = Trees(np.array([0, 0, 0, 1]), np.array([0.2, 0.5, 0.3, 1.0]), np.full((4, 2), -1))
    assert np.diff(amounts(trees, np.array([10, 1, 7])), axis=0).tolist() == [
        [2, 5, 3, 10],
        [0, 1, 0, 1],  # cut at 0.2 and 0.7, rounded
        [1, 4, 2, 7],  # at 1.4 and 4.9
    ]
