"""Orders of sends by one rule, and the times they lead to: the inner loops of the heuristic ordering."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numba import njit

from topologies.exact import Int64Array

NOWHERE = -1


class Work(NamedTuple):
    """Jobs as arrays.

    Parameters
    ----------
    kind
        int64 (jobs,): rows of the tables below.
    place
        int64 (jobs,): where each is added to what is there; `NOWHERE` if nothing else may be added meanwhile.
    arrival
        int64 (kinds,): ticks from the start until the data is there.
    first
        int64 (kinds + 1,): the ports of kind k are entries first[k] to first[k + 1] - 1 of the next three.
    port, enter, hold
        int64.
    after_first, after
        int64, CSR: the jobs that wait for each.
    waits
        int64 (jobs,): for how many jobs each waits.
    """

    kind: Int64Array
    place: Int64Array
    arrival: Int64Array
    first: Int64Array
    port: Int64Array
    enter: Int64Array
    hold: Int64Array
    after_first: Int64Array
    after: Int64Array
    waits: Int64Array


@njit(cache=True)
def _soonest(work: Work, ports: Int64Array, places: Int64Array, job: int, ready: int, backwards: bool) -> int:
    """Return when a job can start whose data is there at `ready`."""
    kind = work.kind[job]
    now, arrival = ready, work.arrival[kind]
    for use in range(work.first[kind], work.first[kind + 1]):
        lead = arrival - work.enter[use] - work.hold[use] if backwards else work.enter[use]
        now = max(now, ports[work.port[use]] - lead)
    if work.place[job] != NOWHERE:
        received = 0 if backwards else work.enter[work.first[kind + 1] - 1]
        now = max(now, places[work.place[job]] - received)
    return now


@njit(cache=True)
def _take(work: Work, ports: Int64Array, places: Int64Array, job: int, now: int, backwards: bool) -> int:
    """Note that a job starts, and return its end."""
    kind = work.kind[job]
    arrival = work.arrival[kind]
    for use in range(work.first[kind], work.first[kind + 1]):
        lead = arrival - work.enter[use] - work.hold[use] if backwards else work.enter[use]
        ports[work.port[use]] = now + lead + work.hold[use]
    if work.place[job] != NOWHERE:
        spent = work.enter[work.first[kind + 1] - 1] if backwards else 0
        places[work.place[job]] = now + arrival - spent
    return now + arrival


@njit(cache=True)
def choose(work: Work, rank: Int64Array, sizes: tuple[int, int], backwards: bool) -> Int64Array:
    """Return when each job starts if always one that can soonest is chosen, of those the lowest in rank.

    Invariant: a job leaves the queue for good at the earliest moment at which any job in it can start.
    Backwards, `work.after` and `work.waits` are those of the reverse, and starts count back from the end.
    """
    jobs = len(rank)
    ports, places = np.zeros(sizes[0], np.int64), np.zeros(sizes[1], np.int64)
    ready, waits = np.zeros(jobs, np.int64), work.waits.copy()
    start = np.zeros(jobs, np.int64)
    queue = [(np.int64(0), rank[job], np.int64(job)) for job in range(jobs) if waits[job] == 0]
    heapq.heapify(queue)
    while len(queue) > 0:
        moment, place, job = heapq.heappop(queue)
        now = _soonest(work, ports, places, job, ready[job], backwards)
        if now > moment:
            heapq.heappush(queue, (now, place, job))
            continue
        end = _take(work, ports, places, job, now, backwards)
        start[job] = -end if backwards else now
        for index in range(work.after_first[job], work.after_first[job + 1]):
            later = work.after[index]
            ready[later] = max(ready[later], end)
            waits[later] -= 1
            if waits[later] == 0:
                heapq.heappush(queue, (ready[later], rank[later], later))
    return start


@njit(cache=True)
def earliest(work: Work, order: Int64Array, sizes: tuple[int, int]) -> tuple[Int64Array, int]:
    """Return when each job starts, taken in turn as early as data and ports allow, and when all is there."""
    ports, places = np.zeros(sizes[0], np.int64), np.zeros(sizes[1], np.int64)
    ready, start = np.zeros(len(order), np.int64), np.zeros(len(order), np.int64)
    latest = 0
    for job in order:
        now = _soonest(work, ports, places, job, ready[job], False)
        end = _take(work, ports, places, job, now, False)
        for index in range(work.after_first[job], work.after_first[job + 1]):
            later = work.after[index]
            ready[later] = max(ready[later], end)
        start[job] = now
        latest = max(latest, end)
    return start, latest
