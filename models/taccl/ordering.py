"""Heuristic ordering (TACCL, section 5.1 and Appendix B.2): which send goes first on every link.

Sends are chosen one after the other, always one that can start soonest; among those, the chunk with the
longest path from now on, then with the shortest path until now. Tracked are the times at which ports are free
and chunks are there. The same is done from the ends of the paths backwards, with the two lengths exchanged.
The better of the two is kept (which it is differs between architectures, as the paper says).

The paper stops here. If the time of the routing, which is a lower bound, is not met, priorities are disturbed
at random and the orders tried again, forwards and backwards in turn.

An order is judged by the times that it leads to: every message in turn as early as its data and ports allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.taccl.deadline import Deadline
from models.taccl.jobs import Jobs
from models.taccl.kernel import NOWHERE, Work, choose, earliest
from topologies.exact import FloatArray, Int64Array, offsets_of

NEVER = Deadline()
NOISE = (0.25, 1.0, 4.0)
"""Spread of disturbances, in lengths of a send; taken in turn."""


@dataclass(frozen=True, eq=False)
class Timed:
    """Messages in the order of their starts.

    Parameters
    ----------
    jobs
        The sends.
    messages
        The jobs of each message, in order.
    start
        Ticks, of each message; non-decreasing.
    end
        Ticks until all has arrived.
    """

    jobs: Jobs
    messages: tuple[tuple[int, ...], ...]
    start: tuple[int, ...]
    end: int


def ordered(
    jobs: Jobs, bound: int, tries: int, rng: np.random.Generator, deadline: Deadline = NEVER
) -> Timed:
    """Return the best order found.

    Parameters
    ----------
    jobs
        The sends.
    bound
        Ticks that no order beats: the search ends there.
    tries
        How many disturbed orders are tried at most.
    rng
        Disturbs.
    deadline
        After it no other order is tried.
    """
    search = _Search(jobs)
    start, end = min((search.tried(backwards) for backwards in (False, True)), key=lambda found: found[1])
    unit = max(jobs.message(link).arrival for link in set(jobs.link))
    for turn in range(tries):
        if end <= bound or deadline.over:
            break
        spread = NOISE[turn // 2 % len(NOISE)] * unit
        other, time = search.tried(bool(turn % 2), rng.normal(0.0, spread, len(jobs)))
        if time < end:
            start, end = other, time
    order = np.argsort(start, kind="stable").tolist()
    return Timed(jobs, tuple((job,) for job in order), tuple(int(start[job]) for job in order), end)


class _Search:
    """Orders of one set of jobs."""

    def __init__(self, jobs: Jobs) -> None:
        self.work = {backwards: work_of(jobs, backwards=backwards) for backwards in (False, True)}
        self.sizes = (jobs.logical.topology.num_links, max(0, *self.work[False].place) + 1)
        self.until_now, self.from_now = np.array(jobs.until_now), np.array(jobs.from_now)

    def tried(self, backwards: bool, noise: FloatArray | None = None) -> tuple[Int64Array, int]:
        """Return the starts in ticks, and the end, of the order that one rule gives."""
        lengths = (self.until_now, self.from_now) if backwards else (self.from_now, self.until_now)
        longest = lengths[0] if noise is None else lengths[0] + noise
        rank = np.empty(len(longest), np.int64)
        rank[np.lexsort((lengths[1], -longest))] = np.arange(len(longest))
        chosen = choose(self.work[backwards], rank, self.sizes, backwards)
        start, end = earliest(self.work[False], np.lexsort((rank, chosen)), self.sizes)
        return start, int(end)


def work_of(jobs: Jobs, *, backwards: bool = False) -> Work:
    """Return the jobs as arrays; backwards, each waits for those that wait for it."""
    links = sorted(set(jobs.link))
    messages = [jobs.message(link) for link in links]
    row = {link: kind for kind, link in enumerate(links)}
    uses = [use for message in messages for use in message.uses]
    after = jobs.before if backwards else jobs.after
    before = jobs.after if backwards else jobs.before
    return Work(
        kind=np.array([row[link] for link in jobs.link], np.int64),
        place=_places(jobs),
        arrival=np.array([message.arrival for message in messages], np.int64),
        first=offsets_of([len(message.uses) for message in messages]),
        port=np.array([use[0] for use in uses], np.int64),
        enter=np.array([use[1] for use in uses], np.int64),
        hold=np.array([use[2] for use in uses], np.int64),
        after_first=offsets_of([len(later) for later in after]),
        after=np.array([other for later in after for other in later], np.int64),
        waits=np.array([len(earlier) for earlier in before], np.int64),
    )


def _places(jobs: Jobs) -> Int64Array:
    """Return a number for each pair of rank and chunk that jobs add to; none where they may do so at once."""
    if not jobs.reduces or jobs.together:
        return np.full(len(jobs), NOWHERE, np.int64)
    ranks = jobs.logical.topology.num_ranks
    keys = [jobs.chunk[job] * ranks + jobs.at(job) for job in range(len(jobs))]
    return np.unique(keys, return_inverse=True)[1].reshape(-1).astype(np.int64)


def timed(jobs: Jobs, messages: Sequence[tuple[int, ...]]) -> Timed:
    """Return the messages, taken in turn, each as early as its data and its ports allow.

    Parameters
    ----------
    jobs
        The sends.
    messages
        The jobs that travel together, of one link each; every job once, after those it waits for.
    """
    ports: dict[int, int] = {}
    places: dict[int, int] = {}
    place, ready = _places(jobs).tolist(), [0] * len(jobs)
    starts, latest = [], 0
    for message in messages:
        lasts = jobs.message(jobs.link[message[0]], len(message))
        now = max(ready[job] for job in message)
        now = max([now, *(ports.get(port, 0) - enter for port, enter, _ in lasts.uses)])
        adds = [place[job] for job in message if place[job] != NOWHERE]
        now = max([now, *(places.get(where, 0) - lasts.uses[-1][1] for where in adds)])
        end = now + lasts.arrival
        ports |= {port: now + enter + hold for port, enter, hold in lasts.uses}
        places |= dict.fromkeys(adds, end)
        for later in (later for job in message for later in jobs.after[job]):
            ready[later] = max(ready[later], end)
        starts.append(now)
        latest = max(latest, end)
    order = sorted(range(len(messages)), key=lambda i: (starts[i], i))
    return Timed(jobs, tuple(messages[i] for i in order), tuple(starts[i] for i in order), latest)
