"""The choice of messages for data: no datum has a better choice, by brute force."""

import itertools

import numpy as np
import pytest

from tutti.heuristics.rounds.loads import MessageEvents, _choose_paths, _choose_trees
from tutti.heuristics.rounds.slots import RoundMessages
from tutti.schedules.schedule import Routes
from tutti.topologies import Link, Topology

ENDS = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 3), (2, 1), (3, 0)]
STARTS = [0, 0, 1, 1, 1, 2, 2, 3]
SLOWNESS = [1, 2, 1, 3, 1, 1, 1, 1]


@pytest.fixture
def spans():
    """Messages of 1 s over a link each, which leave after 0, ..., 3 s."""
    links = [Link(*ends, 1 / slow, 1) for ends, slow in zip(ENDS, SLOWNESS, strict=True)]
    network = Topology.from_links("messages", 4, links)
    starts = np.array(STARTS)
    return MessageEvents.of(
        network, Routes.direct(8), RoundMessages(np.arange(8), starts, starts + 1, starts)
    )


def cost(size, ways):
    loads = np.ones(8)
    for amount, way in zip(size, ways, strict=True):
        loads[list(way)] += amount * np.array(SLOWNESS)[list(way)]
    return (loads**2).sum()


def chosen(rows):
    return [tuple(sorted(int(message) for message in row if message >= 0)) for row in rows]


def test_no_datum_has_a_better_path(spans):
    """Two data from 0 to 3, over 1 or 2 or both."""
    size, path = np.array([2.0, 3.0]), np.full((2, 4), -1, dtype=np.int32)
    _choose_paths(spans, np.zeros(2, np.int32), np.full(2, 3, np.int32), size, 4, path)
    ways = [(0, 3), (0, 2, 5), (1, 4), (1, 5)]
    one, other = chosen(path)
    least = cost(size, (one, other))
    assert {one, other} <= set(ways)
    assert least == min(cost(size, (way, other)) for way in ways)
    assert least == min(cost(size, (one, way)) for way in ways)


def is_tree(way):
    """Whether a datum of rank 0 gets to 1, 2 and 3 so, each by one message that left after it was there."""
    arrival = {0: 0}
    for message in sorted(way, key=lambda number: STARTS[number]):
        source, target = ENDS[message]
        if target in arrival or arrival.get(source, 9) > STARTS[message]:
            return False
        arrival[target] = STARTS[message] + 1
    return set(arrival) == {0, 1, 2, 3}


def test_no_node_gets_a_datum_better_by_another_message(spans):
    size, via = np.array([2.0, 3.0]), np.full((2, 4), -1, dtype=np.int32)
    _choose_trees(spans, np.zeros(2, np.int32), np.ones((4, 4), np.bool_), size, 4, via)
    trees = [way for way in itertools.combinations(range(8), 3) if is_tree(way)]
    one, other = chosen(via)
    least = cost(size, (one, other))
    assert {one, other} <= set(trees)
    for datum, way in enumerate((one, other)):
        alike = [tree for tree in trees if len(set(tree) & set(way)) == 2]
        pairs = [(tree, other) if datum == 0 else (one, tree) for tree in alike]
        assert least <= min(cost(size, pair) for pair in pairs)


def test_who_does_not_want_a_datum_gets_it_to_pass_it_on(spans):
    """A datum from 0 to 3 goes over 1 or over 2, and to no other rank."""
    wanted, via = np.eye(4, dtype=np.bool_), np.full((1, 4), -1, dtype=np.int32)
    wanted[3, 0] = True
    _choose_trees(spans, np.zeros(1, np.int32), wanted, np.ones(1), 4, via)
    assert chosen(via)[0] in {(0, 3), (0, 2, 5), (1, 4), (1, 5)}


def test_switches_get_only_what_they_pass_on():
    """Rank 0 sends to 1 directly, and to the switch 2, which has no use for it."""
    links = [Link(0, 1), Link(1, 0), Link(0, 2), Link(2, 1)]
    network = Topology.from_links("star", 2, links, num_switches=1, multicast=[2])
    starts = np.array([0, 0, 0, 1])
    spans = MessageEvents.of(
        network, Routes.direct(4), RoundMessages(np.arange(4), starts, starts + 1, starts)
    )
    via = np.full((1, 3), -1, dtype=np.int32)
    _choose_trees(spans, np.zeros(1, np.int32), np.ones((2, 2), np.bool_), np.ones(1), 2, via)
    assert via.tolist() == [[-1, 0, -1]]
