"""A first schedule for the exact search: every free link sends what its end lacks, best of many tries.

A link that is free takes the chunk that fewest ranks have (ties at random), or all that it can as one
message; what is on its way already is not sent again. Events are links becoming free, earliest first.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from topologies.exact import Int64Array

if TYPE_CHECKING:
    from models.optimum.clocked import Clocked

TRIES = 200
Row = tuple[int, int, int]
"""Start, link, chunk."""


def best_greedy(clocked: Clocked, seed: int = 0, tries: int = TRIES) -> tuple[list[Row], int]:
    """Return the rows and the ticks of the shortest schedule of so many tries."""
    rng = np.random.default_rng(seed)
    best: tuple[list[Row], int] | None = None
    for attempt in range(tries):
        rows, ticks = _greedy(clocked, rng, whole=attempt % 2 == 1)
        if best is None or ticks < best[1]:
            best = rows, ticks
        if best[1] <= clocked.least:
            break
    return best if best is not None else ([], clocked.horizon)


def _greedy(clocked: Clocked, rng: np.random.Generator, *, whole: bool) -> tuple[list[Row], int]:
    instance = clocked.instance
    items = instance.item
    held = np.where(instance.holders[items], 0, clocked.horizon).astype(np.int64)
    coming = instance.holders[items].copy()
    earliest = clocked.earliest[items] / clocked.least
    weights = np.array([1.0, -instance.topology.num_ranks * rng.random(), 2 * rng.random()])
    missing = int((instance.wanters[items] & ~coming).sum())
    free = [(0, float(rng.random()), link) for link in range(len(clocked.ends))]
    rows: list[Row] = []
    while missing and free:
        now, _, link = heapq.heappop(free)
        a, b = clocked.ends[link]
        ready = np.flatnonzero((held[:, a] <= now) & ~coming[:, b])
        if not len(ready):
            later = _next_arrival(held[:, a], coming[:, b], now)
            if later < clocked.horizon:
                heapq.heappush(free, (later, float(rng.random()), link))
            elif not coming[:, b].all():
                coming_in = held[(held > now) & (held < clocked.horizon)]  # nothing changes before
                later = int(coming_in.min()) if len(coming_in) else now + 1 + clocked.alpha[link]
                heapq.heappush(free, (later, float(rng.random()), link))
            continue
        value = weights @ np.stack([coming[ready].sum(axis=1), earliest[ready, b], rng.random(len(ready))])
        chosen = ready if whole else ready[[int(np.argmin(value))]]
        end = now + clocked.alpha[link] + clocked.move[link] * len(chosen)
        missing -= int(instance.wanters[items[chosen], b].sum())
        coming[chosen, b], held[chosen, b] = True, end
        rows += [(now, link, int(c)) for c in chosen]
        heapq.heappush(free, (end, float(rng.random()), link))
    return rows, int(held[instance.wanters[items]].max())


def replayed(clocked: Clocked, messages: list[tuple[int, list[int]]]) -> tuple[list[Row], int]:
    """Return the rows and the ticks of messages (link, chunks), each as early as its link and chunks allow.

    Parameters
    ----------
    clocked
        The instance.
    messages
        In an order in which every chunk comes before it goes on.
    """
    at = np.where(clocked.instance.holders[clocked.instance.item], 0, clocked.horizon).astype(np.int64)
    free = [0] * len(clocked.ends)
    rows: list[Row] = []
    for link, chunks in messages:
        a, b = clocked.ends[link]
        start = max(free[link], int(at[chunks, a].max()))
        free[link] = start + clocked.alpha[link] + clocked.move[link] * len(chunks)
        at[chunks, b] = free[link]
        rows += [(start, link, c) for c in chunks]
    return rows, max(free)


def _next_arrival(at_source: Int64Array, coming: np.ndarray, now: int) -> int:
    """Return when the next chunk that the end lacks comes to the source; never if none is on its way."""
    waiting = at_source[~coming & (at_source > now)]
    return int(waiting.min()) if len(waiting) else int(np.iinfo(np.int64).max)
