"""From timed messages to the schedule's table: pieces of chunks on lanes, in the time clock."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from models.taccl.jobs import Jobs
from models.taccl.ordering import Timed
from schedules.method import Problem
from schedules.reverse import normal_order
from schedules.schedule import Chunks, Clock, Routes, Schedule
from topologies.exact import Int64Array, offsets_of


def schedule_of(
    problem: Problem, times: Timed, per_item: int, number: Int64Array, reduces: Sequence[bool]
) -> Schedule:
    """Return the schedule of timed messages.

    Parameters
    ----------
    problem
        With a size.
    times
        The messages.
    per_item
        Chunks a shard.
    number
        int64: the number of each of the jobs' chunks among all.
    reduces
        Of each job, whether it adds.
    """
    jobs = times.jobs
    pieces = math.lcm(*(len(jobs.logical.links[link].lanes) for link in set(jobs.link)))
    routes, first = _routes(jobs)
    rows = [
        (
            start,
            int(number[jobs.chunk[job]]) * pieces + lane * pieces // lanes,
            pieces // lanes,
            first[k] + lane,
            reduces[job],
        )
        for message, start in zip(times.messages, times.start, strict=True)
        for job in message
        for k, lanes in [(jobs.link[job], len(jobs.logical.links[jobs.link[job]].lanes))]
        for lane in range(lanes)
    ]
    order, chunk, counts, route, adds = (np.array(column) for column in zip(*rows, strict=True))
    return normal_order(
        Schedule(
            topology=problem.topology,
            collective=problem.collective,
            clock=Clock.TIME,
            chunks=Chunks.even(problem.collective, per_item * pieces),
            chunk=chunk.astype(np.int32),
            route=route.astype(np.int32),
            order=order.astype(np.int64),
            count=None if pieces == 1 else counts.astype(np.int32),
            reduce=adds.astype(np.bool_) if problem.collective.is_combining else None,
            routes=routes,
            tick=jobs.tick,
            size=problem.size,
        )
    )


def _routes(jobs: Jobs) -> tuple[Routes, list[int]]:
    """Return the routes of all lanes, and where those of each logical link begin."""
    lanes = [list(lane) for link in jobs.logical.links for lane in link.lanes]
    return Routes.of(lanes), offsets_of([len(link.lanes) for link in jobs.logical.links]).tolist()
