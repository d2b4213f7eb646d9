"""List scheduling of pieces that trees reduce and broadcast: which message a link sends next.

A piece is reduced over its tree and broadcast over it. An event is what an edge (child, parent) does of that:
upwards it waits for the events from the child's own children, downwards for the one into the parent, at the
root for all that comes up. Each holds one link; a link that is free sends at once the first of those that are
ready, by priority, then by number.

Turned around in time a schedule is one again, with upwards and downwards exchanged. So the same kernel makes
a schedule from its end: with the priorities of the one before, each pass closes gaps that the last one left
(justification, as of project schedules with scarce resources: Valls, Ballestin, Quintanilla 2005).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from topologies.exact import INT64_MAX, BoolArray, Int32Array, Int64Array
from topologies.heap import pop_event, push_event


class Hung(NamedTuple):
    """Trees, and the links of their edges; shape (trees, nodes), children in CSR form.

    Child c of a node v in tree t stands in child[t, first[t, v] : first[t, v + 1]]; up is the link to the
    parent, down the one back.
    """

    parent: Int32Array
    first: Int64Array
    child: Int32Array
    up: Int32Array
    down: Int32Array


class Events(NamedTuple):
    """Each piece's tree; ticks and priorities (the least first), up and down: int64 (2, pieces, nodes)."""

    tree: Int64Array
    ticks: Int64Array
    priority: Int64Array


def hung(parent: Int32Array, link_of: dict[tuple[int, int], int]) -> Hung:
    """Return the tables of trees.

    Parameters
    ----------
    parent
        int32, shape (trees, nodes); -1 at the root.
    link_of
        The link that joins two nodes.
    """
    trees, nodes = parent.shape
    child = np.argsort(parent, axis=1, kind="stable")[:, 1:].astype(np.int32)
    above = np.take_along_axis(parent, child, axis=1)
    first = np.stack([np.searchsorted(row, np.arange(nodes + 1)) for row in above]).astype(np.int64)
    up, down = np.full((2, trees, nodes), -1, dtype=np.int32)
    for tree, node in zip(*np.nonzero(parent >= 0), strict=True):
        pair = int(node), int(parent[tree, node])
        up[tree, node], down[tree, node] = link_of[pair], link_of[pair[::-1]]
    return Hung(np.array(parent), first, child, up, down)


def list_schedule(trees: Hung, events: Events, num_links: int, passes: int) -> Int64Array:
    """Return when each event starts in the shortest schedule found, in ticks: int64 (2, pieces, nodes).

    Parameters
    ----------
    trees
        What `hung` returns.
    events
        All events; those of the roots are not used.
    num_links
        The links are 0 to `num_links` - 1.
    passes
        How often a schedule is made forwards, and from its end.

    Examples
    --------
    >>> trees = hung(np.array([[-1, 0]], dtype=np.int32), {(0, 1): 0, (1, 0): 1})
    >>> ticks = np.full((2, 2, 2), 3)
    >>> events = Events(np.array([0, 0]), ticks, np.zeros_like(ticks))
    >>> list_schedule(trees, events, 2, 1)[:, :, 1]
    array([[0, 3],
           [3, 6]])
    """
    turned = trees._replace(up=trees.down, down=trees.up)
    moves = trees.parent[events.tree] >= 0
    best, least, priority = np.zeros_like(events.ticks), INT64_MAX, events.priority
    for _ in range(passes):
        start = _listed(trees, events.tree, events.ticks, priority, num_links)
        finish = start + events.ticks
        if (last := int(finish[:, moves].max(initial=0))) < least:
            best, least = start, last
        back = _listed(turned, events.tree, events.ticks[::-1].copy(), -finish[::-1], num_links)
        finish = (back + events.ticks[::-1])[::-1]
        last = int(finish[:, moves].max(initial=0))
        priority = last - finish
        if last < least:
            best, least = priority, last
    return best


@njit(cache=True)
def _listed(
    trees: Hung, tree: Int64Array, ticks: Int64Array, priority: Int64Array, num_links: int
) -> Int64Array:
    """Return the starts; invariant: before links send at a moment, all that is over by then has been told."""
    span, key = ticks.copy().reshape(-1), priority.copy().reshape(-1)
    link, left = prepared(trees, tree)
    queues, start = empty_queues(link, num_links), np.zeros(len(span), dtype=np.int64)
    agenda, finish, due = np.empty(num_links, dtype=np.int64), np.zeros(len(span), dtype=np.int64), 0
    busy, freed, free = np.zeros(num_links, dtype=np.bool_), np.empty(num_links, dtype=np.int64), 0
    ready = np.flatnonzero((left == 0) & (link >= 0))
    count, ready, now = len(ready), np.append(ready, np.empty_like(left)), 0
    while True:
        for event in ready[:count]:
            wait(event, link[event], queues, key)
        for place in range(count + free):
            on = link[ready[place]] if place < count else freed[place - count]
            event = _first(on, queues, key, busy)
            if event >= 0:
                start[event], finish[event] = now, now + span[event]
                push_event(agenda, finish, due, event)
                due += 1
        if due == 0:
            return start.reshape(ticks.shape)
        now, count, free = finish[agenda[0]], 0, 0
        while due > 0 and finish[agenda[0]] == now:
            event = pop_event(agenda, finish, due)
            due -= 1
            busy[link[event]] = False
            freed[free] = link[event]
            free += 1
            count = tell(event, (trees, tree), left, ready, count)


@njit(cache=True)
def prepared(trees: Hung, tree: Int64Array) -> tuple[Int32Array, Int64Array]:
    """Return the link of each event (-1: none), and for how many others it waits."""
    pieces, nodes = len(tree), trees.parent.shape[1]
    link = np.empty((2, pieces, nodes), dtype=np.int32)
    left = np.empty((2, pieces, nodes), dtype=np.int64)
    for piece in range(pieces):
        which = tree[piece]
        link[0, piece], link[1, piece] = trees.up[which], trees.down[which]
        left[0, piece] = np.diff(trees.first[which])
        left[1, piece] = 1
    return link.reshape(-1), left.reshape(-1)


@njit(cache=True)
def empty_queues(link: Int32Array, num_links: int) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return room for a heap of events for each link, where each begins, and how many wait: none."""
    base = np.zeros(num_links + 1, dtype=np.int64)
    for on in link:
        if on >= 0:
            base[on + 1] += 1
    base = np.cumsum(base)
    return np.empty(base[-1], dtype=np.int64), base, np.zeros(num_links, dtype=np.int64)


@njit(cache=True)
def wait(event: int, on: int, queues: tuple[Int64Array, Int64Array, Int64Array], key: Int64Array) -> None:
    """Add an event to those that wait for a link."""
    room, base, size = queues
    push_event(room[base[on] : base[on + 1]], key, size[on], event)
    size[on] += 1


@njit(cache=True)
def _first(
    on: int, queues: tuple[Int64Array, Int64Array, Int64Array], key: Int64Array, busy: BoolArray
) -> int:
    """Return what a link sends next, if it is free and something waits, else -1; it is then busy."""
    room, base, size = queues
    if busy[on] or size[on] == 0:
        return -1
    busy[on] = True
    event = pop_event(room[base[on] : base[on + 1]], key, size[on])
    size[on] -= 1
    return event


@njit(cache=True)
def tell(event: int, made: tuple[Hung, Int64Array], left: Int64Array, ready: Int64Array, count: int) -> int:
    """Tell those that wait for an event; those that wait for no more are added to `ready`."""
    trees, tree = made
    pieces, nodes = len(tree), trees.parent.shape[1]
    down, rest = divmod(event, pieces * nodes)
    piece, node = divmod(rest, nodes)
    which, at = tree[piece], piece * nodes
    if down == 0:
        node = trees.parent[which, node]
        left[at + node] -= 1
        if left[at + node] > 0:
            return count
        if trees.parent[which, node] >= 0:
            ready[count] = at + node
            return count + 1
    for child in trees.child[which, trees.first[which, node] : trees.first[which, node + 1]]:
        ready[count] = pieces * nodes + at + child
        count += 1
    return count
