"""Contiguity and exact scheduling (TACCL, Appendix B.3): which neighbours on a link travel as one message.

The orders on links are those of the heuristic ordering. The program has a send and a start of every chunk on
every link of its path. As in the paper, *start* is the time from which the chunk is at the end of the link::

    minimize time;  time ≥ start;  send[c, l] ≥ start[c, src]                               (1) to (4)
    is_together[c, o] → send[c] = send[o]                                                   (16)
    lat[c] = α + β Σ_o is_together[c, o]                                                    (17)

    start[c] = send[c] + lat[c]                                                             (18)
    not is_together[c, o] → send[o] ≥ send[c] + lat[c]   o after c on the link              (19)
    send[o] ≥ send[c] + lat[c]                           o after c on a port of a switch    (20), (21)

Sets of the program::

    TRANSFERS     o           A chunk on a link; here c and o are transfers.
    JOINABLE      o           Of these, those on links that may join chunks.
    FOLLOWING     o           Of these, those that follow another, c, on their link.
    DEPENDENCIES  (c, o)      Transfer o waits for c.
    NEIGHBOURS    (p, c, o)   Transfer o follows c on port p.

Chunks that are together are neighbours in the order. So one binary for each pair of neighbours suffices:
joined[o] = is_together[c, o] for the o that follows c. Any two are together if all neighbours in between are.
Let size[o] count the chunks of o's message up to o. By the names in the code::

    duration                                    minimize time                                            (1)
    the_end_is_after_every_arrival[o]           time ≥ start[o]                                          (2)
    a_chunk_is_sent_when_it_is_held[c, o]       send[o] ≥ start[c]                                       (4)

    chunks_together_are_sent_together[o]        send[o] ≤ send[c] + M (1 − joined[o])                    (16)
    orders_are_kept[o]                          send[o] ≥ send[c]                                        (16)
    the_size_of_a_message_counts_on[o]          size[o] ≥ size[c] + 1 − n (1 − joined[o])                (17)

    chunks_together_arrive_together[o]          start[c] ≥ start[o] − M (1 − joined[o])                  (17)
    a_message_takes_its_latency[o]              start[o] ≥ send[o] + α + β size[o]                       (18)

    a_port_is_held_by_one_message[p, c, o]                                                   (19), (20), (21)
                        send[o] + enter[o] ≥ send[c] + enter[c] + α_p + β_p size[c] − M joined[o]

In the last, joined is 0 for neighbours on a port that are of two links. It says α_p + β_p size where the
paper has lat, for that is how long port p is held. All times lie between 0 and the time U of the order
without messages of several chunks, and no side of a constraint exceeds U, so M = U.

The paper inverts the order of combining collectives. A rank that adds one part of a chunk at a time also
needs::

    a_rank_reduces_one_part_of_a_chunk_at_a_time[c, o]  send[o] + when it is received ≥ start[c]

`SchedulingModel.add_valid_inequalities` adds inequalities that follow from these. For the transfers from a to
b in the queue of a port, they say how much joining can save at most::

    a_port_has_time_for_its_messages[p, a, b]
                        time ≥ head[a] + Σ_{a ≤ o ≤ b} (β_p + α_p (1 − joined[o])) + tail[b]

Here head and tail are the least times before a enters the port and after b leaves it.

Only links between hosts join chunks, as in the paper, unless asked otherwise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyomo.environ as pyo

from tutti.models.solvers import CompiledModel, SolverResult, Start, compile_model, solve
from tutti.models.taccl.ordering import TimedMessages, timed
from tutti.models.taccl.solving import StageLimits, mip_options, slack, stats_of, takes_start, unsolved
from tutti.models.taccl.transfers import Contiguity, RoutedTransfers
from tutti.topologies.kernels import now


class PortTime(NamedTuple):
    """A message's time from its start until it enters a port, and its time on it: α_p, and β_p a chunk."""

    enter: float
    alpha: float
    beta: float


class Latency(NamedTuple):
    """The time that a message takes: α, and β a chunk."""

    alpha: float
    beta: float


class Span(NamedTuple):
    """A run of a port's queue, and the head of its first transfer plus the tail of its last."""

    port: int
    queue: list[int]
    free: float


@dataclass(frozen=True, eq=False)
class SchedulingModel:
    """The model of the contiguity and exact scheduling stage for an order, which is kept.

    Times are floats, on each link and port in the sequence of the transfers.

    Parameters
    ----------
    timed
        Times of the transfers, in which each is a message of its own.
    contiguity
        The rule by which links may join chunks.
    slack
        The amount by which U exceeds the time of the order.
    """

    timed: TimedMessages
    contiguity: Contiguity
    slack: float

    @property
    def transfers(self) -> RoutedTransfers:
        """The transfers that are scheduled."""
        return self.timed.transfers

    @cached_property
    def sequence(self) -> tuple[int, ...]:
        """The transfers by their starts."""
        return tuple(transfer for message in self.timed.messages for transfer in message)

    @cached_property
    def unit(self) -> float:
        """Ticks of one unit of time: U / 1000, so that numbers are neither large nor small."""
        return max(1.0, self.timed.end / 1000)

    def joinable(self, link: int) -> bool:
        """Whether a link may join chunks."""
        if self.contiguity == Contiguity.BETWEEN:
            return self.transfers.logical.links[link].between
        return self.contiguity == Contiguity.ALL

    @cached_property
    def follows(self) -> dict[int, int]:
        """The transfer before each on a link that may join chunks."""
        return {
            after: before
            for link, queue in self._queues(lambda transfer: [self.transfers.link[transfer]]).items()
            if self.joinable(link)
            for before, after in pairwise(queue)
        }

    def _queues(self, keys: Callable[[int], Iterable[Any]]) -> dict[Any, list[int]]:
        """Return the transfers in order by each of their keys."""
        queues: defaultdict[Any, list[int]] = defaultdict(list)
        for transfer in self.sequence:
            for key in keys(transfer):
                queues[key].append(transfer)
        return queues

    def _by_port(self) -> dict[int, list[int]]:
        transfers = self.transfers
        return self._queues(lambda o: [use.port for use in transfers.message(transfers.link[o]).uses])

    def neighbours(self) -> Iterator[tuple[int, int, int]]:
        """Yield (port, transfer, next transfer) along every port."""
        for port, queue in self._by_port().items():
            for before, after in pairwise(queue):
                yield port, before, after

    def spans(self) -> Iterator[Span]:
        """Yield the runs of ports' queues that may bind.

        They are the ends of a port's queue from each transfer that comes later than the port can be done with
        those before it, and the beginnings that the same rule finds in reverse.
        """
        transfers = self.transfers
        for port, queue in self._by_port().items():
            uses = [self.use(o, port) for o in queue]
            entered = [
                transfers.until_now[o] / self.unit + use.enter for o, use in zip(queue, uses, strict=True)
            ]
            left = [transfers.from_now[o] / self.unit - sum(use) for o, use in zip(queue, uses, strict=True)]
            each = [use.beta for use in uses]
            for i in _records(entered, each):
                yield Span(port, queue[i:], entered[i] + left[-1])
            for i in _records(left[::-1], each[::-1]):
                yield Span(port, queue[: len(queue) - i], entered[0] + left[len(queue) - 1 - i])

    def received_apart(self) -> Iterator[tuple[int, int]]:
        """Yield transfers that must arrive at a rank one after the other, as both are added to one chunk."""
        if self.transfers.reduces and not self.transfers.together:
            for queue in self._queues(
                lambda transfer: [(self.transfers.at(transfer), self.transfers.chunk[transfer])]
            ).values():
                yield from pairwise(queue)

    def use(self, transfer: int, port: int) -> PortTime:
        """Return when a transfer enters a port, and for how long it holds it: α_p and β_p by two messages."""
        messages = (self.transfers.message(self.transfers.link[transfer], chunks) for chunks in (1, 2))
        one, two = (next(use for use in message.uses if use.port == port) for message in messages)
        beta = (two.hold - one.hold) / self.unit
        return PortTime(one.enter / self.unit, one.hold / self.unit - beta, beta)

    def lasting(self, transfer: int) -> Latency:
        """Return α and β of a transfer's message: the times of one and of two chunks give both."""
        link = self.transfers.link[transfer]
        one, two = (self.transfers.message(link, chunks).arrival / self.unit for chunks in (1, 2))
        return Latency(2 * one - two, two - one)

    @cached_property
    def m(self) -> Any:
        """The Pyomo model."""
        return pyo.ConcreteModel(name="taccl scheduling")

    def build(self) -> Any:
        """Return the model with all constraints."""
        self.add_variables()
        self.add_times()
        self.add_messages()
        self.add_ports()
        self.add_valid_inequalities()
        return self.m

    @property
    def big(self) -> float:
        """U, which is M: a little more than the time that is known to be reached."""
        return self.timed.end / self.unit + self.slack

    def size(self, transfer: int) -> Any:
        """Return the chunks of a transfer's message up to it."""
        return self.m.size[transfer] if transfer in self.m.size else 1  # noqa: SIM401 Pyomo has no get

    def add_variables(self) -> None:
        """Add a variable for each transfer, and the objective (1)."""
        m = self.m
        joinable = [o for o in self.sequence if self.joinable(self.transfers.link[o])]
        m.TRANSFERS = pyo.Set(initialize=self.sequence)
        m.JOINABLE = pyo.Set(initialize=joinable)
        m.FOLLOWING = pyo.Set(initialize=list(self.follows))
        m.time = pyo.Var(bounds=(0, self.big))
        m.send = pyo.Var(m.TRANSFERS, bounds=(0, self.big))
        m.start = pyo.Var(m.TRANSFERS, bounds=(0, self.big))
        m.size = pyo.Var(m.JOINABLE, bounds=(1, max(1, len(joinable))))
        m.joined = pyo.Var(m.FOLLOWING, domain=pyo.Binary)
        m.duration = pyo.Objective(expr=m.time)

    def add_times(self) -> None:
        """Add (2), (4) and, with (17), (18)."""
        m, transfers = self.m, self.transfers
        waits = [(before, o) for o in self.sequence for before in transfers.before[o]]
        m.DEPENDENCIES = pyo.Set(dimen=2, initialize=waits)

        @m.Constraint(m.TRANSFERS, doc="(2): time >= start[o]")
        def the_end_is_after_every_arrival(m: Any, o: int) -> Any:
            return pyo.Constraint.Skip if transfers.after[o] else m.time >= m.start[o]

        @m.Constraint(m.DEPENDENCIES, doc="(4): send[o] >= start[c]")
        def a_chunk_is_sent_when_it_is_held(m: Any, before: int, o: int) -> Any:
            return m.send[o] >= m.start[before]

        @m.Constraint(m.TRANSFERS, doc="(18): start[o] >= send[o] + alpha + beta size[o]")
        def a_message_takes_its_latency(m: Any, o: int) -> Any:
            alpha, beta = self.lasting(o)
            return m.start[o] >= m.send[o] + alpha + beta * self.size(o)

    def add_messages(self) -> None:
        """Add (16) and (17)."""
        m, follows, most = self.m, self.follows, len(self.m.size)

        @m.Constraint(m.FOLLOWING, doc="(17): size[o] >= size[c] + 1 - n (1 - joined[o])")
        def the_size_of_a_message_counts_on(m: Any, o: int) -> Any:
            return m.size[o] >= m.size[follows[o]] + 1 - most * (1 - m.joined[o])

        @m.Constraint(m.FOLLOWING, doc="(17): start[c] >= start[o] - M (1 - joined[o])")
        def chunks_together_arrive_together(m: Any, o: int) -> Any:
            return m.start[follows[o]] >= m.start[o] - self.big * (1 - m.joined[o])

        @m.Constraint(m.FOLLOWING, doc="(16): send[o] <= send[c] + M (1 - joined[o])")
        def chunks_together_are_sent_together(m: Any, o: int) -> Any:
            return m.send[o] <= m.send[follows[o]] + self.big * (1 - m.joined[o])

        @m.Constraint(m.FOLLOWING, doc="(16): send[o] >= send[c]")
        def orders_are_kept(m: Any, o: int) -> Any:
            return m.send[o] >= m.send[follows[o]]

    def add_ports(self) -> None:
        """Add (19), (20) and (21), and that a rank receives parts of a chunk one after the other."""
        m = self.m
        m.NEIGHBOURS = pyo.Set(dimen=3, initialize=list(self.neighbours()))
        m.RECEIVED_APART = pyo.Set(dimen=2, initialize=list(self.received_apart()))

        @m.Constraint(m.NEIGHBOURS, doc="(19), (20), (21): o enters port p when c has left it")
        def a_port_is_held_by_one_message(m: Any, port: int, c: int, o: int) -> Any:
            enter, alpha, beta = self.use(c, port)
            joined = self.big * m.joined[o] if self.follows.get(o) == c else 0
            held = alpha + beta * self.size(c)
            return m.send[o] + self.use(o, port).enter >= m.send[c] + enter + held - joined

        @m.Constraint(m.RECEIVED_APART, doc="section 5.3: o is received when c has arrived")
        def a_rank_reduces_one_part_of_a_chunk_at_a_time(m: Any, c: int, o: int) -> Any:
            received = self.transfers.message(self.transfers.link[o]).received_from / self.unit
            return m.send[o] + received >= m.start[c]

    # What is added to the paper's model.

    def add_valid_inequalities(self) -> None:
        """Add the least time that a port needs for a run of its queue if joining saves all it can."""
        m = self.m
        spans = {(span.port, span.queue[0], span.queue[-1]): span for span in self.spans()}
        m.SPANS = pyo.Set(dimen=3, initialize=list(spans))

        @m.Constraint(m.SPANS, doc="added: time >= head[a] + sum of what o holds port p + tail[b]")
        def a_port_has_time_for_its_messages(m: Any, port: int, a: int, b: int) -> Any:
            held = 0.0
            for o in spans[port, a, b].queue:
                _, alpha, beta = self.use(o, port)
                held += beta + (alpha * (1 - m.joined[o]) if o in self.follows else alpha)
            return m.time >= spans[port, a, b].free + held


def _records(values: list[float], each: list[float]) -> Iterator[int]:
    """Yield the places whose value is larger than the time at which all places before them have ended.

    A place begins at its value or, if that is later, at the end of the place before, and lasts its `each`.
    """
    so_far = -1.0
    for place, value in enumerate(values):
        if value > so_far:
            yield place
        so_far = max(so_far, value) + each[place]


def exactly_scheduled(
    first: TimedMessages, contiguity: Contiguity, limits: StageLimits
) -> tuple[TimedMessages, dict[str, Any]]:
    """Return the times with messages of several chunks where they save time, and the solver's columns.

    If no link may join chunks, the given times are already the earliest ones of the order.
    """
    model = SchedulingModel(first, contiguity, slack(limits))
    if not model.follows:
        return first, {}
    begin = now()
    # A transfer takes 0.3 to 0.6 ms to be built and handed over (measured on tori and DGX-2).
    if limits.deadline.left < len(model.sequence) * 4e-4:
        return first, unsolved(0.0)
    compiled = compile_model(model.build())
    start = _start(model, compiled) if takes_start(limits) else None
    build_s = now() - begin
    if limits.deadline.over:
        return first, unsolved(build_s)
    result = solve(compiled, limits.solver, mip_options(limits), start=start)
    stats = stats_of(result, build_s)
    if result.values is None:
        return first, stats
    found = timed(model.transfers, _messages(model, result))
    return min(first, found, key=lambda times: times.end), stats


def _start(model: SchedulingModel, compiled: CompiledModel) -> Start:
    """Return the values of the order without messages of several chunks."""
    m, first, unit = model.m, model.timed, model.unit
    value = {id(m.time): first.end / unit}
    value |= {id(size): 1.0 for size in m.size.values()}
    value |= {id(joined): 0.0 for joined in m.joined.values()}
    for (transfer,), ticks in zip(first.messages, first.start, strict=True):
        value[id(m.send[transfer])] = ticks / unit
        value[id(m.start[transfer])] = (ticks + first.transfers.lasts(transfer)) / unit
    return Start(np.array([value[id(variable)] for variable in compiled.variables]))


def _messages(model: SchedulingModel, result: SolverResult) -> list[tuple[int, ...]]:
    """Return the messages of a solution, by their send times."""
    of: dict[int, list[int]] = {}
    found: list[list[int]] = []
    for transfer in model.sequence:
        if transfer in model.follows and result.is_one(model.m.joined[transfer]):
            of[transfer] = of[model.follows[transfer]]
            of[transfer].append(transfer)
        else:
            of[transfer] = [transfer]
            found.append(of[transfer])
    # The first transfers are in the order of the sequence, which the sort keeps for equal times.
    found.sort(key=lambda message: result.value(model.m.send[message[0]]))
    return [tuple(message) for message in found]
