"""A flow schedule made a list schedule, by trying rules.

A reduce-scatter is listed as the allgather that it is the reverse of, and is as long as that in ticks. An
allreduce is listed as it is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from schedules.collective import Kind
from schedules.cost import congestion
from schedules.listing.kernel import Jobs, Limits, Net, Sent, send
from schedules.listing.pieces import Cut, Edges, edges_of, net_of
from schedules.listing.rules import Rules
from schedules.reverse import reverse
from schedules.schedule import Clock, Routes, Schedule
from topologies.errors import Unsupported
from topologies.exact import FloatArray

MOST_CELLS = 2**24
"""Nodes times chunks, and edges."""
MOST_JOBS = 2**18
"""Edges times pieces of their chunks: a few tenths of a second for each rule."""
ROUNDS = 6
"""So often at most the neighbours of the best rules are tried."""
PIECES = 8
"""In a message of the best length of a chain, √(α T), at first."""


def can_be_listed(schedule: Schedule) -> bool:
    """Whether `list_schedule` takes it: a flow of one kind, not too large, no shard empty.

    Its routes over several links must be as those through switches: none begins on a link inside another.
    """
    what, count = schedule.collective, schedule.count_or_empty
    edges = int(count.sum()) if len(count) else len(schedule)
    return (
        schedule.clock is Clock.FLOW
        and not what.parts
        and 0 < edges <= MOST_JOBS
        and schedule.topology.num_nodes * len(schedule.chunks) <= MOST_CELLS
        and bool((schedule.chunks.size > 0).all())
        and not _begins_inside(schedule.route_table)
    )


def _begins_inside(routes: Routes) -> bool:
    """Whether a link that begins a route is inside another: then it is free when nobody is told of it."""
    entrance = np.zeros(len(routes.links), dtype=bool)
    entrance[routes.offsets[:-1]] = True
    return len(np.intersect1d(routes.links[entrance], routes.links[~entrance])) > 0


def list_schedule(
    flow: Schedule, size: Fraction, rules: Rules | None = None, seconds: float = math.inf
) -> Schedule:
    """Return a time-clock schedule of the same transfers in pieces, made for M = `size` bytes.

    Parameters
    ----------
    flow
        What `can_be_listed`, legal.
    size
        M in bytes.
    rules
        How; None: the best found by changing one thing after the other.
    seconds
        After so many no other rules are tried.

    Raises
    ------
    Unsupported
        If it cannot be listed.
    """
    if not can_be_listed(flow):
        raise Unsupported(
            f"list schedule of {flow.collective}: needs a flow that moves 1 to {MOST_JOBS} chunks, "
            "none empty, by routes of which none begins inside another"
        )
    kind = flow.collective.kind
    if kind.is_combining and kind is not Kind.ALLREDUCE:
        return reverse(list_schedule(reverse(flow), size, rules, seconds), flow.topology)
    workshop, until = _Workshop(flow, size), time.monotonic() + seconds
    if rules is not None:
        return workshop.cut(rules.pieces)[0].scheduled(*workshop.sent(rules))
    rules = _searched(workshop, until)
    nudge = _nudged(workshop, rules, until)
    return workshop.cut(rules.pieces)[0].scheduled(*workshop.sent(rules, nudge))


MOST_NUDGES, MOST_WORK = 500, 2**24
"""Changes of priorities that are tried, and these times jobs: a few seconds' worth."""
NUDGED = 0.05
"""Share of the edges whose priorities are changed at once."""
CLOSE = 1.005
"""So near to the bound by the congestion no more is tried."""


class _Workshop:
    """What list schedules of one flow have in common, and how long each is."""

    def __init__(self, flow: Schedule, size: Fraction) -> None:
        self.flow, self.size = flow, size
        self.edges: Edges = edges_of(flow)
        self.net: Net = net_of(flow)
        self.bound = float(congestion(flow) * size)
        self.least = math.sqrt(self.bound * float(flow.topology.alpha.floats.max()))
        self._cuts: dict[int, tuple[Cut, Jobs]] = {}
        self._ends: dict[Rules, float] = {}

    def cut(self, pieces: int) -> tuple[Cut, Jobs]:
        """Return the flow in about so many pieces of M."""
        if pieces not in self._cuts:
            cut = Cut.of(self.flow, self.edges, self.size, pieces)
            self._cuts[pieces] = cut, cut.jobs
        return self._cuts[pieces]

    def sent(self, rules: Rules, nudge: FloatArray | None = None) -> tuple[Sent, float]:
        """Return the messages, and when all is done; `nudge`, shape (edges,), is added to the priorities."""
        cut, jobs = self.cut(rules.pieces)
        limits = Limits(self.bound, rules.share, rules.least * self.least, float(rules.weight), rules.filling)
        priority = cut.priority(rules.first)
        if nudge is not None:
            priority += np.repeat(nudge, np.diff(jobs.first))
        return send(jobs, self.net, priority, limits)

    def end(self, rules: Rules) -> float:
        """Return when all is done."""
        if rules not in self._ends:
            self._ends[rules] = self.sent(rules)[1]
        return self._ends[rules]

    def guess(self) -> int:
        """Return a number of pieces, a power of two, of which there are not too many jobs."""
        byte = 1 / float(np.median(self.flow.topology.bandwidth.floats))
        most = PIECES * float(self.size) * byte / self.least if self.least > 0 else float(MOST_JOBS)
        pieces = 2 ** max(0, round(math.log2(max(most, 1.0))))
        while pieces > 1 and not self.feasible(Rules(pieces)):
            pieces //= 2
        return pieces

    def feasible(self, rules: Rules) -> bool:
        """Whether there are not too many jobs."""
        return rules.pieces >= 1 and int(self.cut(rules.pieces)[1].first[-1]) <= MOST_JOBS


def _searched(workshop: _Workshop, until: float) -> Rules:
    """Return the best rules found: neighbours of the best so far, as long as one is better."""
    best = Rules(workshop.guess())
    workshop.end(best)
    for _ in range(ROUNDS):
        before = best
        for rules in _candidates(workshop, before):
            if time.monotonic() > until:
                return best
            if workshop.end(rules) < workshop.end(best):
                best = rules
        if best == before:
            break
    return best


def _candidates(workshop: _Workshop, best: Rules) -> Iterator[Rules]:
    return (rules for rules in best.neighbours() if workshop.feasible(rules))


def _nudged(workshop: _Workshop, rules: Rules, until: float) -> FloatArray:
    """Return what to add to the edges' priorities: changes of a few at random that did not make it longer."""
    edges, jobs = len(workshop.edges.row), int(workshop.cut(rules.pieces)[1].first[-1])
    best, least, rng = np.zeros(edges), workshop.end(rules), np.random.default_rng(0)
    for _ in range(min(MOST_NUDGES, MOST_WORK // jobs)):
        if time.monotonic() > until or least <= CLOSE * workshop.bound:
            break
        chosen = rng.random(edges) < NUDGED
        nudge = best + np.where(chosen, rng.normal(size=edges), 0.0)
        end = workshop.sent(rules, nudge)[1]
        if end <= least:
            best, least = nudge, end
    return best
