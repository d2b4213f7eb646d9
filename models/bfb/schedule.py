"""The BFB schedule: which interval of which shard goes over which in-link in which step.

In step t node u receives the shards of the sources at t hops: that is subproblem (u, t). Sources with the
same eligible in-links form a class, and equal subproblems form a pattern (`models.bfb.frontiers`). How much
of each class comes over each link is known (`models.bfb.sharing`).

All sources of a class are equivalent. So their shards are laid end to end on a line, each `unit` long, and
the line is cut into one stretch for each link. All but a few sources go whole over one link, and every cut is
a multiple of 1/unit of a shard. The shards of all owners are cut at the same points, those that some pattern
uses. So the chunk table is small, and a row is a run of chunks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tutti.models.bfb.frontiers import Frontiers, Patterns
from tutti.models.bfb.sharing import LinkShares, share_all
from tutti.schedules.collective import Collective
from tutti.schedules.schedule import Chunks, Clock, Schedule, step_numbers
from tutti.topologies.errors import NoSchedule
from tutti.topologies.exact import INT64_MAX, Int32Array, Int64Array, offsets_of
from tutti.topologies.kernels import kernel


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
