"""The BFB schedule: how much of which shard goes over which in-link in which step, and as which interval.

In step t node u receives the shards of the sources at t hops: that is subproblem (u, t). Sources with the
same eligible in-links form a class, and equal subproblems form a pattern (`models.bfb.frontiers`).

`share` divides the classes of a pattern among in-links within their capacities: an integral flow. A class of
n sources supplies n * unit, a link takes at most its `capacity`, and a class may use its eligible links only.
If all capacities are equal and capacity / unit = U, this is a solution of linear program (3.1) in whole
numbers. With unit = P and capacity = ceil(U P) it is one of the integer program (A.11), since a flow problem
with integral capacities has an integral solution. So whole chunks cost nothing beyond the ceiling.

`build_schedule` lays the shares out. All sources of a class are equivalent. So their shards are laid end to
end on a line, each `unit` long, and the line is cut into one stretch for each link. All but a few sources go
whole over one link, and every cut is a multiple of 1/unit of a shard. The shards of all owners are cut at the
same points, those that some pattern uses. So the chunk table is small, and a row is a run of chunks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tutti.models.bfb.frontiers import Frontiers, Patterns
from tutti.schedules.collective import Collective
from tutti.schedules.schedule import Chunks, Clock, Schedule, step_numbers
from tutti.topologies.errors import NoSchedule
from tutti.topologies.exact import INT64_MAX, BoolArray, Int32Array, Int64Array, offsets_of
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


class PatternRows(NamedTuple):
    """The rows of each pattern, with sources and links by position (a kernel's argument).

    Parameters
    ----------
    offsets
        int64, shape (patterns + 1,): pattern p has rows offsets[p]..offsets[p + 1] - 1.
    position
        int32: the source, by its position in the subproblem.
    link
        int32: the in-link of u, by its position.
    first, length
        int32: the run of chunks of the shard.
    sizes
        int64: the sizes of a shard's chunks, in `denominator`-ths of the shard.
    denominator
        The sum of the sizes.
    """

    offsets: Int64Array
    position: Int32Array
    link: Int32Array
    first: Int32Array
    length: Int32Array
    sizes: Int64Array
    denominator: int


def build_schedule(
    work: Frontiers,
    patterns: Patterns,
    values: Sequence[Fraction],
    what: Collective,
    chunks: int | None = None,
) -> Schedule:
    """Return the allgather in which no in-link of u carries more than U in step t.

    Parameters
    ----------
    work, patterns
        The subproblems by node and step, and the distinct ones.
    values
        U of each pattern, in shards a link, exact.
    what
        The allgather, of all ranks with equal shards.
    chunks
        P: every shard is cut into P equal chunks. The schedule then solves the integer program (A.11), in
        which no link carries more than ceil(U P) chunks. None: cuts where the linear program's optimum needs
        them.

    Raises
    ------
    NoSchedule
        If the cuts' common denominator, or the table, is too large.
    """
    units = np.array([chunks or value.denominator for value in values], dtype=np.int64)
    limits = [math.ceil(value * (chunks or value.denominator)) for value in values]
    flow, unfit = share_all(patterns, units, np.array(limits, dtype=np.int64))
    if unfit >= 0:
        raise NoSchedule(f"bfb: workload {values[unfit]} of pattern {unfit} is below the optimum")
    return schedule_of_shares(work, patterns, LinkShares(units, flow), what, chunks)


def schedule_of_shares(
    work: Frontiers, patterns: Patterns, shares: LinkShares, what: Collective, chunks: int | None = None
) -> Schedule:
    """Return the allgather in which every class's sources come over its links as `shares` says.

    Parameters
    ----------
    work, patterns
        The subproblems by node and step, and the distinct ones.
    shares
        The amount of each class that comes over each of its links.
    what, chunks
        As for `build_schedule`.

    Raises
    ------
    NoSchedule
        If the cuts' common denominator, or the table, is too large.
    """
    layout = _lay_out(patterns, shares, chunks)
    n, pieces = work.topology.num_ranks, len(layout.sizes)
    denominator = layout.denominator * n
    if denominator > INT64_MAX or pieces * n > np.iinfo(np.int32).max:
        raise NoSchedule(f"bfb on {work.topology.name}: {TOO_FINE}")
    # Rows are in the order of steps, then of nodes: `place` is the first row of each subproblem.
    per_job = np.diff(layout.offsets)[patterns.of_job].reshape(n, work.steps)
    place = offsets_of(per_job.T.ravel())[:-1]
    first = work.offsets[work.jobs[:-1]].reshape(n, work.steps)
    jobs = patterns.of_job.reshape(n, work.steps), place.reshape(work.steps, n), first
    chunk, route, count = _emit(layout, jobs, work.sources, work.topology.in_links)
    order = np.repeat(step_numbers(np.arange(1, work.steps + 1)), per_job.sum(axis=0))
    table = Chunks(np.repeat(np.arange(n, dtype=np.int32), pieces), np.tile(layout.sizes, n), denominator)
    runs = None if pieces == 1 else count
    return Schedule(work.topology, what, Clock.STEP, table, chunk, route, order, runs)


TOO_FINE = "the shards would be cut too finely for 64-bit sizes; ask for equal chunks (option chunks)"
"""The error message where there is no schedule."""


def _lay_out(patterns: Patterns, shares: LinkShares, chunks: int | None) -> PatternRows:
    """Divide every pattern's sources among its links."""
    rows, position, link, begin, end = _cut(patterns, shares.unit, shares.flow)
    unit = np.repeat(shares.unit, np.diff(rows))
    # Only sources that are cut need a common denominator; whole ones go from 0 to the end of any.
    whole = (begin == 0) & (end == unit)
    scale = chunks or math.lcm(*np.unique(unit[~whole]).tolist())
    if scale > INT64_MAX:
        raise NoSchedule(f"bfb: {TOO_FINE}")
    begin, end = np.where(whole, 0, begin * (scale // unit)), np.where(whole, scale, end * (scale // unit))
    cuts = np.arange(scale + 1) if chunks else np.unique(np.concatenate([[0, scale], begin, end]))
    first = np.searchsorted(cuts, begin).astype(np.int32)
    length = np.searchsorted(cuts, end).astype(np.int32) - first
    return PatternRows(rows, position, link, first, length, np.diff(cuts), scale)


@kernel
def _cut(p: Patterns, units: Int64Array, flow: Int64Array) -> tuple[Any, Any, Any, Any, Any]:
    """Return the rows of each pattern: offsets, then position of the source, in-link, begin and end of each.

    The kernel runs twice: once to count the rows, once to write them.
    """
    offsets = np.zeros(len(p.offsets), np.int64)
    for pattern in range(len(units)):
        nothing = np.empty((4, 0), np.int64)
        offsets[pattern + 1] = _cut_pattern(p, pattern, units[pattern], flow, offsets[pattern], nothing)
    rows = np.empty((4, offsets[-1]), np.int64)
    for pattern in range(len(units)):
        _cut_pattern(p, pattern, units[pattern], flow, offsets[pattern], rows)
    return offsets, rows[0].astype(np.int32), rows[1].astype(np.int32), rows[2], rows[3]


@kernel
def _cut_pattern(p: Patterns, pattern: int, unit: int, flow: Int64Array, row: int, rows: Int64Array) -> int:
    """Lay each class on a line and cut it; write rows from `row` on if there is space, return the next.

    Links that take a fraction of a source come before those that take whole ones, so that these stay whole.
    """
    at = 0  # on the line of all sources of the pattern
    for c in range(p.offsets[pattern], p.offsets[pattern + 1]):
        for fractional in (True, False):
            for entry in range(p.starts[c], p.starts[c + 1]):
                # The flows of fractional links add up to whole sources, so the next link begins at one.
                if (flow[entry] % unit > 0) != fractional:
                    continue
                row = _cut_stretch(at, at + flow[entry], unit, p.link[entry], row, rows)
                at += flow[entry]
    return row


@kernel
def _cut_stretch(at: int, stop: int, unit: int, link: int, row: int, rows: Int64Array) -> int:
    """Write the rows of a link that has stretch at..stop-1 of the line, one a source; return the next row."""
    while at < stop:
        source = at // unit
        upto = min(stop, (source + 1) * unit)
        if row < rows.shape[1]:
            rows[0, row], rows[1, row] = source, link
            rows[2, row], rows[3, row] = at - source * unit, upto - source * unit
        at = upto
        row += 1
    return row


@kernel
def _emit(layout: PatternRows, jobs: Any, sources: Int32Array, links: Any) -> tuple[Any, Any, Any]:
    """Write the rows (chunk, route, count) of each subproblem where they belong: by step, then node.

    `jobs` are the pattern (nodes, steps), the place (steps, nodes) and the first source of each subproblem,
    `links` those into each node.
    """
    (of_job, place, first_source), (in_offsets, in_links) = jobs, links
    nodes, steps = of_job.shape
    pieces = len(layout.sizes)
    last = of_job[nodes - 1, steps - 1]
    total = place[steps - 1, nodes - 1] + layout.offsets[last + 1] - layout.offsets[last]
    chunk, route, count = np.empty(total, np.int32), np.empty(total, np.int32), np.empty(total, np.int32)
    for u in range(nodes):
        for t in range(steps):
            at, pattern = place[t, u], of_job[u, t]
            # Subproblems of a pattern differ in their sources and links alone, which have the same positions.
            for row in range(layout.offsets[pattern], layout.offsets[pattern + 1]):
                chunk[at] = sources[first_source[u, t] + layout.position[row]] * pieces + layout.first[row]
                route[at] = in_links[in_offsets[u] + layout.link[row]]
                count[at] = layout.length[row]
                at += 1
    return chunk, route, count
