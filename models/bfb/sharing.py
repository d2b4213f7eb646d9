"""Sharing classes of sources among in-links within their capacities: an integral flow.

A class of n sources supplies n * unit, a link takes at most its `capacity`, and a class may use its eligible
links only. If all capacities are equal and capacity / unit = U, this is a solution of linear program (3.1) in
whole numbers. With unit = P and capacity = ceil(U P) it is one of the integer program (A.11), since a flow
problem with integral capacities has an integral solution. So whole chunks cost nothing beyond the ceiling.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tutti.models.bfb.frontiers import Patterns
from tutti.topologies.exact import BoolArray, Int32Array, Int64Array
from tutti.topologies.graphs.heaps import stable_pass
from tutti.topologies.kernels import kernel


class LinkShares(NamedTuple):
    """The amount of each class that comes over each of its links.

    Parameters
    ----------
    unit
        int64, shape (patterns,): the number of parts of a shard in each pattern.
    flow
        int64, shape (entries,): the number of these parts that each class brings over each of its links.
    """

    unit: Int64Array
    flow: Int64Array


class PatternAssignment(NamedTuple):
    """One pattern while its sources are being placed.

    Parameters
    ----------
    starts, link
        Its classes' entries (eligible in-links), counted from its first.
    left
        int64, one a class: what is not placed yet.
    room
        int64, one a link: what it can still take.
    flow
        int64, one an entry: what was placed.
    """

    starts: Int64Array
    link: Int32Array
    left: Int64Array
    room: Int64Array
    flow: Int64Array


class LinkUsers(NamedTuple):
    """The entries of each link: by_link[ends[l] : ends[l + 1]], and the class of every entry."""

    owner: Int64Array
    by_link: Int64Array
    ends: Int64Array


@kernel
def share(p: Patterns, pattern: int, unit: int, capacity: Int64Array, flow: Int64Array) -> Any:
    """Place one pattern's sources; `flow`, one entry for each of the whole table, receives the amounts.

    `capacity` has one number for each link, shape (num_links,).

    Return which of its classes form a set that needs more than all their links can take: none of them if
    everything is placed. Whole sources go first, so that few are cut; then what is left is placed in parts,
    and at last along augmenting paths.
    """
    begin, end = p.offsets[pattern], p.offsets[pattern + 1]
    base, stop = p.starts[begin], p.starts[end]
    flow[base:stop] = 0
    # The assignment has views of `flow`, so that what is placed is written there.
    s = PatternAssignment(
        p.starts[begin : end + 1] - base,
        p.link[base:stop],
        p.size[begin:end] * unit,
        capacity.copy(),
        flow[base:stop],
    )
    choices = np.empty(len(s.left), np.int64)
    for c in range(len(choices)):
        choices[c] = s.starts[c + 1] - s.starts[c]
    for c in stable_pass(np.arange(len(choices)), choices, len(s.room) + 1):
        while s.left[c] >= unit:
            best = s.starts[c]
            for entry in range(s.starts[c] + 1, s.starts[c + 1]):
                if s.room[s.link[entry]] > s.room[s.link[best]]:
                    best = entry
            if s.room[s.link[best]] < unit:
                break
            _put(s, c, best, unit)
    for c in range(len(s.left)):
        for entry in range(s.starts[c], s.starts[c + 1]):
            _put(s, c, entry, min(s.left[c], s.room[s.link[entry]]))
    overfull = np.zeros(end - begin, np.bool_)
    if s.left.any():
        _augment_all(s, overfull)
    return overfull


@kernel
def _put(s: PatternAssignment, c: int, entry: int, amount: int) -> None:
    s.flow[entry] += amount
    s.left[c] -= amount
    s.room[s.link[entry]] -= amount


@kernel
def _augment_all(s: PatternAssignment, overfull: BoolArray) -> None:
    """Augment until no class can place more; what such a class reaches is overfull (a minimum cut)."""
    owner = np.empty(len(s.link), np.int64)
    for c in range(len(s.left)):
        owner[s.starts[c] : s.starts[c + 1]] = c
    ends = np.zeros(len(s.room) + 1, np.int64)
    for at in s.link:
        ends[at + 1] += 1
    for at in range(len(s.room)):
        ends[at + 1] += ends[at]
    users = LinkUsers(owner, stable_pass(np.arange(len(s.link)), s.link, len(s.room)), ends)
    seen = np.empty(len(s.left), np.bool_)
    for c in range(len(s.left)):
        while s.left[c] > 0:
            if not _augment(s, users, c, seen):
                overfull |= seen
                break


@kernel
def _augment(s: PatternAssignment, users: LinkUsers, start: int, seen: BoolArray) -> bool:
    """Search breadth-first for a link with room and move flow along the path to it.

    A class reaches its links; a link that is full reaches the classes that use it, which may move on.
    """
    into_link = np.full(len(s.room), -1)  # the entry by which a link, or a class, was reached
    into_class = np.full(len(s.left), -1)
    queue = np.empty(len(s.left), np.int64)
    queue[0] = start
    head, tail = 0, 1
    seen[:] = False
    seen[start] = True
    while head < tail:
        c = queue[head]
        head += 1
        for entry in range(s.starts[c], s.starts[c + 1]):
            at = s.link[entry]
            if into_link[at] >= 0:
                continue
            into_link[at] = entry
            if s.room[at] > 0:
                _push(s, users.owner, start, (into_link, into_class), at)
                return True
            for i in range(users.ends[at], users.ends[at + 1]):
                back = users.by_link[i]
                other = users.owner[back]
                if s.flow[back] > 0 and not seen[other]:
                    seen[other] = True
                    into_class[other] = back
                    queue[tail] = other
                    tail += 1
    return False


@kernel
def _push(s: PatternAssignment, owner: Int64Array, start: int, reached: Any, final: int) -> None:
    """Move as much as the path from class `start` to link `final` takes; `reached` is read backwards."""
    into_link, into_class = reached
    amount = min(s.left[start], s.room[final])
    entry = into_link[final]
    while owner[entry] != start:
        back = into_class[owner[entry]]
        amount = min(amount, s.flow[back])
        entry = into_link[s.link[back]]
    # The same path again, now changing it: a class on it gives up what it moves to its next link.
    s.left[start] -= amount
    s.room[final] -= amount
    entry = into_link[final]
    s.flow[entry] += amount
    while owner[entry] != start:
        back = into_class[owner[entry]]
        s.flow[back] -= amount
        entry = into_link[s.link[back]]
        s.flow[entry] += amount


@kernel
def share_all(p: Patterns, unit: Int64Array, capacity: Int64Array) -> tuple[Any, int]:
    """Return the flow on every entry, and the first pattern that does not fit, or -1.

    All links of a pattern have the same capacity.
    """
    flow = np.zeros(len(p.link), np.int64)
    for pattern in range(len(p.offsets) - 1):
        if share(p, pattern, unit[pattern], np.full(p.num_links, capacity[pattern]), flow).any():
            return flow, pattern
    return flow, -1
