"""Turns a flow schedule into a list schedule: several rules are tried, and the fastest result is kept.

A reduce-scatter is listed as the allgather whose reverse it is, and takes the same number of ticks. An
allreduce is listed directly.

A message may last a share of the time that has passed, or of the time that is left, whichever is shorter. So
at the beginning data is soon where other links wait for it, in the middle there are few messages and little
α, and at the end the last messages are short (guided self-scheduling: Polychronopoulos, Kuck, IEEE Trans.
Computers 1987). Data that must be sent on many times is cut into smaller messages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tutti.schedules.collective import Kind
from tutti.schedules.cost import congestion
from tutti.schedules.list_scheduling.kernel import DurationLimits, Sending, send
from tutti.schedules.list_scheduling.piece_counts import improved
from tutti.schedules.list_scheduling.pieces import CutFlow, First, edges_of, timed_routes
from tutti.schedules.reversal import reverse
from tutti.schedules.schedule import Clock, Routes, Schedule
from tutti.topologies.errors import Unsupported
from tutti.topologies.exact import FloatArray
from tutti.topologies.kernels import now


class FlowRuleTuning(NamedTuple):
    """Limits on the flows that are scheduled, and on the search for rules."""

    most_cells: int
    """Most nodes times chunks of a flow."""
    most_transfers: int
    """Most edges times pieces of their chunks. With this value a rule takes a few tenths of a second."""
    rounds: int
    """Largest number of rounds in which the neighbours of the best rules are tried. The search ends sooner if
    none is better."""
    pieces: int
    """Pieces in a message of the length that is best for a chain, √(α T). The search begins with this
    number."""
    most_nudges: int
    """Largest number of changes of priorities that are tried."""
    most_work: int
    """Most changes of priorities times transfers, which take a few seconds."""
    nudged: float
    """Fraction of the edges whose priorities one such change moves."""
    close: float
    """The search ends within this factor of the bound by the congestion."""


TUNING = FlowRuleTuning(
    most_cells=2**24,
    most_transfers=2**18,
    rounds=6,
    pieces=8,
    most_nudges=500,
    most_work=2**24,
    nudged=0.05,
    close=1.005,
)


@dataclass(frozen=True)
class Rules:
    """The rules by which a list schedule is made.

    Parameters
    ----------
    pieces
        The approximate number of pieces of M.
    share
        The fraction of the time passed, or left, that a message may last.
    least
        A message may always last this long, in units of the square root of the time times α.
    weight
        The message's share is divided by 1 + weight times the hops to come.
    first
        The order of the pieces that wait for a link.
    filling
        Whether the time passed counts; if not, only the time left does.
    """

    pieces: int
    share: float = 0.2
    least: float = 0.2
    weight: float = 1.0
    first: First = First.FARTHEST
    filling: bool = True

    def neighbours(self) -> Iterator[Rules]:
        """Yield rules that differ slightly from these, in one field each."""
        yield replace(self, share=self.share * 2)
        yield replace(self, share=self.share / 2)
        yield from (replace(self, weight=weight) for weight in (0.0, 1.0, 3.0) if weight != self.weight)
        yield replace(self, least=self.least * 2)
        yield replace(self, least=self.least / 2)
        yield from (replace(self, first=first) for first in First if first != self.first)
        yield replace(self, pieces=self.pieces * 2)
        yield replace(self, pieces=self.pieces // 2)
        yield replace(self, filling=not self.filling)


def can_be_listed(schedule: Schedule) -> bool:
    """Whether `list_schedule` takes it: a flow of one kind, not too large, without empty shards or copies.

    Its routes over several links must be like those through switches: none begins on a link inside another.
    """
    what, count = schedule.collective, schedule.count_or_empty
    edges = int(count.sum()) if len(count) else len(schedule)
    return (
        schedule.clock is Clock.FLOW
        and not what.parts
        and schedule.chunks.copy_of is None
        and 0 < edges <= TUNING.most_transfers
        and schedule.topology.num_nodes * len(schedule.chunks) <= TUNING.most_cells
        and bool((schedule.chunks.size > 0).all())
        and not _begins_inside(schedule.route_table)
    )


def _begins_inside(routes: Routes) -> bool:
    """Whether a link that begins a route is inside another: the end of its use there would be missed."""
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
        A legal flow that `can_be_listed`.
    size
        M in bytes.
    rules
        The rules; None: the best rules found by changing one field after the other.
    seconds
        The time after which no other rules are tried.

    Raises
    ------
    Unsupported
        If it cannot be listed.
    """
    if not can_be_listed(flow):
        raise Unsupported(
            f"list schedule of {flow.collective}: needs a flow that moves 1 to {TUNING.most_transfers} "
            "chunks, none empty, by routes of which none begins inside another"
        )
    kind = flow.collective.kind
    if kind.is_combining and kind is not Kind.ALLREDUCE:
        return reverse(list_schedule(reverse(flow), size, rules, seconds), flow.topology)
    context, until = _Context(flow, size), now() + seconds
    if rules is not None:
        return context.schedule(rules)
    best = context.tried(Rules(context.guess()))
    for _ in range(TUNING.rounds):
        before = best
        best = improved(best, context.neighbours(best.rules, until), context.tried, patience=None)
        if best is before:
            break
    rules = best.rules
    return context.schedule(rules, _nudged(context, rules, until))


class _TriedRules(NamedTuple):
    """Rules, and the seconds of the list schedule that they give."""

    rules: Rules
    seconds: float


class _Context:
    """The common data of the list schedules of one flow, and the time of each."""

    def __init__(self, flow: Schedule, size: Fraction) -> None:
        self.flow, self.size = flow, size
        self.edges = edges_of(flow)
        self.routes = timed_routes(flow)
        self.bound = float(congestion(flow) * size)
        self.least = math.sqrt(self.bound * float(flow.topology.alpha.floats.max()))
        self._cuts: dict[int, CutFlow] = {}
        self._tried: dict[Rules, _TriedRules] = {}

    def cut(self, pieces: int) -> CutFlow:
        """Return the flow with M cut into about this many pieces."""
        if pieces not in self._cuts:
            self._cuts[pieces] = CutFlow.of(self.flow, self.edges, self.size, pieces)
        return self._cuts[pieces]

    def sent(self, rules: Rules, nudge: FloatArray | None = None) -> tuple[Sending, float]:
        """Return the messages and the last arrival; `nudge`, shape (edges,), is added to the priorities."""
        cut = self.cut(rules.pieces)
        least, weight = rules.least * self.least, float(rules.weight)
        limits = DurationLimits(self.bound, rules.share, least, weight, rules.filling, cut.hops)
        priority = cut.priority(rules.first)
        if nudge is not None:
            priority += np.repeat(nudge, np.diff(cut.first))
        found = send(cut.transfers, self.routes, priority, 0, limits)
        return found.sending, float(found.end)

    def schedule(self, rules: Rules, nudge: FloatArray | None = None) -> Schedule:
        """Return the list schedule by some rules."""
        return self.cut(rules.pieces).scheduled(*self.sent(rules, nudge))

    def tried(self, rules: Rules) -> _TriedRules:
        """Return the rules with the time of their list schedule."""
        if rules not in self._tried:
            self._tried[rules] = _TriedRules(rules, self.sent(rules)[1])
        return self._tried[rules]

    def guess(self) -> int:
        """Return a number of pieces, a power of two, for which there are not too many transfers."""
        byte = 1 / float(np.median(self.flow.topology.bandwidth.floats))
        most = (
            TUNING.pieces * float(self.size) * byte / self.least
            if self.least > 0
            else float(TUNING.most_transfers)
        )
        pieces = 2 ** max(0, round(math.log2(max(most, 1.0))))
        while pieces > 1 and not self.feasible(Rules(pieces)):
            pieces //= 2
        return pieces

    def feasible(self, rules: Rules) -> bool:
        """Whether there are not too many transfers."""
        return rules.pieces >= 1 and int(self.cut(rules.pieces).first[-1]) <= TUNING.most_transfers

    def neighbours(self, rules: Rules, until: float) -> Iterator[Rules]:
        """Yield the feasible rules that differ slightly, until the time has ended."""
        for other in rules.neighbours():
            if self.feasible(other):
                if now() > until:
                    return
                yield other


def _nudged(context: _Context, rules: Rules, until: float) -> FloatArray:
    """Return changes of the edges' priorities: random changes of a few that did not increase the time."""
    edges, transfers = len(context.edges.row), int(context.cut(rules.pieces).first[-1])
    best, least, rng = np.zeros(edges), context.tried(rules).seconds, np.random.default_rng(0)
    for _ in range(min(TUNING.most_nudges, TUNING.most_work // transfers)):
        if now() > until or least <= TUNING.close * context.bound:
            break
        chosen = rng.random(edges) < TUNING.nudged
        nudge = best + np.where(chosen, rng.normal(size=edges), 0.0)
        end = context.sent(rules, nudge)[1]
        if end <= least:
            best, least = nudge, end
    return best
