r"""Rounds of alike messages: which pieces each link sends together, and when.

Where all links are alike, messages of one size keep step: none waits for the end of one that began a little
later. So the pieces go in rounds, each one hop a round. In a round a link sends the first pieces that are
ready, by priority, then by number, up to a given amount, in one message: pieces may be small, so that a link
soon has something to send and the last ones soon are through, and messages few enough for α. The moments at
which messages start then follow from that order alone.

As in `listing`, the same is done from the end of a schedule, by the priorities of the one before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from models.allreduce.listing import Hung, empty_queues, prepared, tell, wait
from topologies.exact import Int32Array, Int64Array, offsets_of
from topologies.heap import pop_event


class Load(NamedTuple):
    """Each piece's tree, and its amount; what a link takes in a round, one piece at least."""

    tree: Int64Array
    amount: Int64Array
    room: int


class Batches(NamedTuple):
    """Events in the order of their messages; message i has those at first[i] : first[i + 1], on link[i].

    Events are places in an array (2, pieces, nodes); messages stand by rounds.
    """

    event: Int64Array
    first: Int64Array
    link: Int64Array
    amount: Int64Array


def in_rounds(trees: Hung, load: Load, priority: Int64Array, num_links: int, passes: int) -> Int64Array:
    """Return the round of each event, in the fewest rounds found: int64 (2, pieces, nodes).

    Parameters
    ----------
    trees
        What `listing.hung` returns.
    load
        The pieces.
    priority
        int64, shape (2, pieces, nodes), the least first.
    num_links
        The links are 0 to `num_links` - 1.
    passes
        How often rounds are made forwards, and from their end.

    Examples
    --------
    >>> from models.allreduce.listing import hung
    >>> trees = hung(np.array([[-1, 0]], dtype=np.int32), {(0, 1): 0, (1, 0): 1})
    >>> pieces = Load(np.array([0, 0]), np.array([3, 3]), 3)
    >>> in_rounds(trees, pieces, np.zeros((2, 2, 2), dtype=np.int64), 2, 1)[:, :, 1]
    array([[0, 1],
           [1, 2]])
    """
    turned = trees._replace(up=trees.down, down=trees.up)
    moves = moving(trees, load.tree) >= 0
    best = None
    for _ in range(passes):
        there = _rounds(trees, load, priority, num_links)
        back = _rounds(turned, load, -there[::-1], num_links)[::-1]
        priority = int(back[moves].max(initial=0)) - back
        for found in (there, priority):
            if best is None or found[moves].max(initial=0) < best[moves].max(initial=0):
                best = found
    return np.zeros_like(priority) if best is None else best


def moving(trees: Hung, tree: Int64Array) -> Int32Array:
    """Return the link of each event, -1 at roots: int32 (2, pieces, nodes)."""
    return np.stack([trees.up[tree], trees.down[tree]])


def batches(trees: Hung, load: Load, rounds: Int64Array, num_links: int) -> Batches:
    """Return the messages: the events of one link in one round."""
    link = moving(trees, load.tree).ravel()
    event = np.flatnonzero(link >= 0)
    key = rounds.ravel()[event] * num_links + link[event]
    order = np.argsort(key, kind="stable")
    event, key = event[order], key[order]
    first = np.append(np.flatnonzero(np.diff(key, prepend=-1)), len(key))
    before = offsets_of(load.amount[event // trees.parent.shape[1] % len(load.tree)])
    return Batches(event, first, key[first[:-1]] % num_links, np.diff(before[first]))


@njit(cache=True)
def starts(trees: Hung, tree: Int64Array, made: Batches, ticks: Int64Array) -> tuple[Int64Array, int]:
    """Return when each event begins, (2, pieces, nodes), and the end, if messages last so many ticks.

    Invariant: what a message waits for is in messages before it, so it is known when it may begin.
    """
    pieces, nodes = len(tree), trees.parent.shape[1]
    start = np.zeros(2 * pieces * nodes, dtype=np.int64)
    free = np.zeros(made.link.max() + 1, dtype=np.int64)
    for message in range(len(ticks)):
        events = made.event[made.first[message] : made.first[message + 1]]
        link = made.link[message]
        begin = free[link]
        for event in events:
            begin = max(begin, start[event])
        free[link] = begin + ticks[message]
        for event in events:
            start[event] = begin
            _delay(event, (trees, tree), start, free[link])
    return start.reshape((2, pieces, nodes)), free.max()


@njit(cache=True)
def _delay(event: int, made: tuple[Hung, Int64Array], start: Int64Array, over: int) -> None:
    """Let no event that waits for this one begin before it is over."""
    trees, tree = made
    pieces, nodes = len(tree), trees.parent.shape[1]
    down, rest = divmod(event, pieces * nodes)
    piece, node = divmod(rest, nodes)
    which, at = tree[piece], piece * nodes
    if down == 0:
        node = trees.parent[which, node]
        if trees.parent[which, node] >= 0:
            start[at + node] = max(start[at + node], over)
            return
    for child in trees.child[which, trees.first[which, node] : trees.first[which, node + 1]]:
        after = pieces * nodes + at + child
        start[after] = max(start[after], over)


@njit(cache=True)
def _rounds(trees: Hung, load: Load, priority: Int64Array, num_links: int) -> Int64Array:
    """Return the rounds; invariant: before links send, all that went in earlier rounds has been told."""
    key = priority.copy().reshape(-1)
    link, left = prepared(trees, load.tree)
    waiting = empty_queues(link, num_links)
    room, base, size = waiting
    found, sent = np.zeros(len(key), dtype=np.int64), np.empty(len(key), dtype=np.int64)
    ready = np.flatnonzero((left == 0) & (link >= 0))
    count, ready, now = len(ready), np.append(ready, np.empty_like(left)), 0
    while count > 0 or size.any():
        for event in ready[:count]:
            wait(event, link[event], waiting, key)
        done = 0
        for on in range(num_links):
            amount = 0
            while size[on] > 0:
                heap = room[base[on] : base[on + 1]]
                more = load.amount[heap[0] // trees.parent.shape[1] % len(load.tree)]
                if amount > 0 and load.room < amount + more:
                    break
                sent[done] = pop_event(heap, key, size[on])
                found[sent[done]] = now
                size[on], amount, done = size[on] - 1, amount + more, done + 1
        count, now = 0, now + 1
        for event in sent[:done]:
            count = tell(event, (trees, load.tree), left, ready, count)
    return found.reshape(priority.shape)
