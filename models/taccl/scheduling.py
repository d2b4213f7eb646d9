"""Contiguity and exact scheduling (TACCL, Appendix B.3): which neighbours on a link travel as one message.

Orders are those of the heuristic ordering. With send and start of every chunk on every link of its path::

    minimize time;  time ≥ start;  send[c, l] ≥ start[c, src]                               (1) to (4)
    is_together[c, o] → send[c] = send[o]                                                   (16)
    lat[c] = α + β Σ_o is_together[c, o]                                                    (17)
    start[c] = send[c] + lat[c]                                                             (18)
    not is_together[c, o] → send[o] ≥ send[c] + lat[c]   o after c on the link              (19)
    send[o] ≥ send[c] + lat[c]                           o after c on a port of a switch    (20), (21)

Chunks that are together are neighbours in the order, so one binary for each pair of neighbours says it all:
joined[o] = is_together[c, o] for the o that follows c, and is_together of any two is that of all neighbours
in between. Let size[o] count the chunks of o's message up to o. Then (16) to (19) are, for neighbours c, o::

    size[o] ≥ 1;  size[o] ≥ size[c] + 1 − n (1 − joined[o])
    start[c] ≥ send[c] + α + β size[c];  start[c] ≥ start[o] − M (1 − joined[o])
    send[c] ≤ send[o] ≤ send[c] + M (1 − joined[o])
    send[o] + enter[o] ≥ send[c] + enter[c] + α_p + β_p size[c] − M joined[o]            port p of the link

the last with joined = 0 for neighbours on a port that are of two links. It says α_p + β_p size where the
paper has lat, for that is how long port p is held. All times lie between 0 and the time U of the order
without messages of several chunks, and no side of a constraint exceeds that, so M = U. What follows from
these for the jobs from a to b on a port is added, as it tells the solver what joining can save at most::

    time ≥ head[a] + Σ_{a ≤ o ≤ b} (β_p + α_p (1 − joined[o])) + tail[b]

with head and tail the least times before a enters the port and after b leaves it.

Only links between nodes join chunks, as in the paper, unless asked otherwise.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyomo.environ as pyo

from models.solvers import CompiledModel, SolverResult, Start, compile_model, solve
from models.taccl.jobs import Jobs
from models.taccl.milp import HALF, Limits, mip_options, slack, stats_of, takes_start, unsolved
from models.taccl.options import Contiguity
from models.taccl.ordering import Timed, timed


@dataclass(frozen=True, eq=False)
class Order:
    """What the model takes from an order: who follows whom where, in floats.

    Parameters
    ----------
    timed
        Every job a message of its own.
    contiguity
        Which links may join chunks.
    """

    timed: Timed
    contiguity: Contiguity

    @property
    def jobs(self) -> Jobs:
        """The sends."""
        return self.timed.jobs

    @cached_property
    def sequence(self) -> tuple[int, ...]:
        """The jobs by their starts."""
        return tuple(job for message in self.timed.messages for job in message)

    @cached_property
    def unit(self) -> float:
        """Ticks of one unit of time: U / 1000, so that numbers are neither large nor small."""
        return max(1.0, self.timed.end / 1000)

    def joinable(self, link: int) -> bool:
        """Whether a link may join chunks."""
        if self.contiguity == Contiguity.BETWEEN:
            return self.jobs.logical.links[link].between
        return self.contiguity == Contiguity.ALL

    @cached_property
    def follows(self) -> dict[int, int]:
        """The job before each on a link that may join chunks."""
        return {
            after: before
            for link, queue in self._queues(lambda job: [self.jobs.link[job]]).items()
            if self.joinable(link)
            for before, after in pairwise(queue)
        }

    def _queues(self, keys: Any) -> dict[Any, list[int]]:
        queues: defaultdict[Any, list[int]] = defaultdict(list)
        for job in self.sequence:
            for key in keys(job):
                queues[key].append(job)
        return queues

    def _by_port(self) -> dict[int, list[int]]:
        return self._queues(lambda job: [use[0] for use in self.jobs.message(self.jobs.link[job]).uses])

    def neighbours(self) -> Iterator[tuple[int, int, int]]:
        """Yield (port, job, next job) along every port."""
        for port, queue in self._by_port().items():
            for before, after in pairwise(queue):
                yield port, before, after

    def spans(self) -> Iterator[tuple[int, list[int], float]]:
        """Yield (port, jobs in order, head of the first + tail of the last) that may bind.

        They are the ends of a port's queue from a job on that comes late, and its beginnings up to a job with
        much to follow.
        """
        jobs = self.jobs
        for port, queue in self._by_port().items():
            entered = [jobs.until_now[job] / self.unit + self.use(job, port)[0] for job in queue]
            left = [(jobs.from_now[job]) / self.unit - sum(self.use(job, port)) for job in queue]
            each = [self.use(job, port)[2] for job in queue]
            for i in _records(entered, each):
                yield port, queue[i:], entered[i] + left[-1]
            for i in _records(left[::-1], each[::-1]):
                yield port, queue[: len(queue) - i], entered[0] + left[len(queue) - 1 - i]

    def received_apart(self) -> Iterator[tuple[int, int]]:
        """Yield jobs whose arrivals at one rank follow each other, as both are added to one chunk."""
        if self.jobs.reduces and not self.jobs.together:
            for queue in self._queues(lambda job: [(self.jobs.at(job), self.jobs.chunk[job])]).values():
                yield from pairwise(queue)

    def use(self, job: int, port: int) -> tuple[float, float, float]:
        """Return when a job enters a port, and for how long it holds it: a constant, and more per chunk."""
        one, two = (self._times(job, port, chunks) for chunks in (1, 2))
        each = two[1] - one[1]
        return one[0], one[1] - each, each

    def lasting(self, job: int) -> tuple[float, float]:
        """Return lat of a job's message: α, and β per chunk."""
        link = self.jobs.link[job]
        one, two = (self.jobs.message(link, chunks).arrival / self.unit for chunks in (1, 2))
        return 2 * one - two, two - one

    def _times(self, job: int, port: int, chunks: int) -> tuple[float, float]:
        message = self.jobs.message(self.jobs.link[job], chunks)
        enter, hold = next((enter, hold) for at, enter, hold in message.uses if at == port)
        return enter / self.unit, hold / self.unit


def _records(values: list[float], each: list[float]) -> Iterator[int]:
    """Yield the places whose value exceeds what those before them lead to."""
    so_far = -1.0
    for place, value in enumerate(values):
        if value > so_far:
            yield place
        so_far = max(so_far, value) + each[place]


@dataclass(frozen=True, eq=False)
class SchedulingModel:
    """The model of the contiguity and exact scheduling stage, with its data.

    Parameters
    ----------
    order
        Who follows whom.
    m
        The Pyomo model.
    slack
        By which U exceeds the time of the order.
    """

    order: Order
    m: Any
    slack: float

    @classmethod
    def of(cls, order: Order, slack: float) -> SchedulingModel:
        """Return the model of an order."""
        model = cls(order, pyo.ConcreteModel(name="taccl scheduling"), slack)
        model.add_variables()
        model.add_times()
        model.add_messages()
        model.add_ports()
        return model

    @property
    def big(self) -> float:
        """U, which is M; a little more than the known time."""
        return self.order.timed.end / self.order.unit + self.slack

    def size(self, job: int) -> Any:
        """Return the chunks of a job's message up to it."""
        return self.m.size[job] if self.order.joinable(self.order.jobs.link[job]) else 1

    def add_variables(self) -> None:
        """Add a variable for each job, and the objective (1)."""
        m, order = self.m, self.order
        joinable = [job for job in order.sequence if order.joinable(order.jobs.link[job])]
        m.JOBS = pyo.Set(initialize=order.sequence)
        m.FOLLOWING = pyo.Set(initialize=list(order.follows))
        m.time = pyo.Var(bounds=(0, self.big))
        m.send = pyo.Var(m.JOBS, bounds=(0, self.big))
        m.start = pyo.Var(m.JOBS, bounds=(0, self.big))
        m.size = pyo.Var(joinable, bounds=(1, len(joinable)))
        m.joined = pyo.Var(m.FOLLOWING, domain=pyo.Binary)
        m.duration = pyo.Objective(expr=m.time)

    def add_times(self) -> None:
        """Add (2), (4) and, with (17), (18)."""
        m, order, jobs = self.m, self.order, self.order.jobs

        @m.Constraint(m.JOBS)
        def the_end_is_after_every_arrival(m: Any, o: int) -> Any:
            return pyo.Constraint.Skip if jobs.after[o] else m.time >= m.start[o]

        @m.Constraint([(before, o) for o in order.sequence for before in jobs.before[o]])
        def a_chunk_is_sent_when_it_is_held(m: Any, before: int, o: int) -> Any:
            return m.send[o] >= m.start[before]

        @m.Constraint(m.JOBS)
        def a_message_takes_its_latency(m: Any, o: int) -> Any:
            alpha, beta = order.lasting(o)
            return m.start[o] >= m.send[o] + alpha + beta * self.size(o)

    def add_messages(self) -> None:
        """Add (16) and (17)."""
        m, follows, most = self.m, self.order.follows, len(self.m.size)

        @m.Constraint(m.FOLLOWING)
        def the_size_of_a_message_counts_on(m: Any, o: int) -> Any:
            return m.size[o] >= m.size[follows[o]] + 1 - most * (1 - m.joined[o])

        @m.Constraint(m.FOLLOWING)
        def chunks_together_arrive_together(m: Any, o: int) -> Any:
            return m.start[follows[o]] >= m.start[o] - self.big * (1 - m.joined[o])

        @m.Constraint(m.FOLLOWING)
        def chunks_together_are_sent_together(m: Any, o: int) -> Any:
            return m.send[o] <= m.send[follows[o]] + self.big * (1 - m.joined[o])

        @m.Constraint(m.FOLLOWING)
        def orders_are_kept(m: Any, o: int) -> Any:
            return m.send[o] >= m.send[follows[o]]

    def add_ports(self) -> None:
        """Add (19), (20) and (21), what follows from them, and that parts of a chunk are received apart."""
        m, order = self.m, self.order

        @m.Constraint(list(order.neighbours()))
        def a_port_is_held_by_one_message(m: Any, port: int, c: int, o: int) -> Any:
            enter, alone, each = order.use(c, port)
            joined = self.big * m.joined[o] if order.follows.get(o) == c else 0
            held = alone + each * self.size(c)
            return m.send[o] + order.use(o, port)[0] >= m.send[c] + enter + held - joined

        @m.Constraint(list(order.received_apart()))
        def a_rank_reduces_one_part_of_a_chunk_at_a_time(m: Any, c: int, o: int) -> Any:
            received = order.jobs.message(order.jobs.link[o]).received_from / order.unit
            return m.send[o] + received >= m.start[c]

        m.ports_have_time = pyo.ConstraintList()
        for port, queue, free in order.spans():
            held = 0.0
            for o in queue:
                _, alone, each = order.use(o, port)
                held += each + (alone * (1 - m.joined[o]) if o in order.follows else alone)
            m.ports_have_time.add(m.time >= free + held)


def exactly_scheduled(first: Timed, contiguity: Contiguity, limits: Limits) -> tuple[Timed, dict[str, Any]]:
    """Return the times with messages of several chunks where they pay, and what the solver took.

    Where no link may join chunks, the times of an order are the earliest ones, and there is nothing to solve.
    """
    order = Order(first, contiguity)
    if not order.follows:
        return first, {}
    begin = time.perf_counter()
    if limits.deadline.over:
        return first, unsolved(0.0)
    m = SchedulingModel.of(order, slack(limits)).m
    compiled = compile_model(m)
    start = _start(order, m, compiled) if takes_start(limits) else None
    build_s = time.perf_counter() - begin
    result = solve(compiled, limits.solver, mip_options(limits), start=start)
    stats = stats_of(result, build_s)
    if result.values is None:
        return first, stats
    found = timed(order.jobs, _messages(order, m, result))
    return min(first, found, key=lambda times: times.end), stats


def _start(order: Order, m: pyo.ConcreteModel, compiled: CompiledModel) -> Start:
    """Return the values of the order without messages of several chunks."""
    value = {id(m.time): order.timed.end / order.unit}
    value |= {id(m.size[job]): 1.0 for job in m.size}
    value |= {id(m.joined[job]): 0.0 for job in m.FOLLOWING}
    for message, ticks in zip(order.timed.messages, order.timed.start, strict=True):
        for job in message:
            lasts = order.jobs.message(order.jobs.link[job]).arrival
            value[id(m.send[job])] = ticks / order.unit
            value[id(m.start[job])] = (ticks + lasts) / order.unit
    return Start(np.array([value[id(variable)] for variable in compiled.variables]))


def _messages(order: Order, m: pyo.ConcreteModel, result: SolverResult) -> list[tuple[int, ...]]:
    """Return the messages of a solution, by their send times."""
    joined = {o for o in m.FOLLOWING if result.value(m.joined[o]) > HALF}
    of: dict[int, list[int]] = {}
    found: list[list[int]] = []
    for job in order.sequence:
        if job in joined:
            of[job] = of[order.follows[job]]
            of[job].append(job)
        else:
            of[job] = [job]
            found.append(of[job])
    place = {job: i for i, job in enumerate(order.sequence)}
    moment = {job: result.value(m.send[job]) for job in order.sequence}
    found.sort(key=lambda message: (moment[message[0]], place[message[0]]))
    return [tuple(message) for message in found]
