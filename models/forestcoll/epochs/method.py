"""Collectives by trees in epochs: allgather, its mirror reduce-scatter, and both in turn, allreduce."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from models.forestcoll.epochs.lines import links_between
from models.forestcoll.epochs.plan import planned
from models.forestcoll.epochs.table import schedule_of
from schedules.collective import Kind, collective
from schedules.compose import compose_allreduce
from schedules.method import Problem
from schedules.reverse import reverse
from schedules.schedule import Schedule
from topologies.errors import Unsupported
from topologies.topology import Topology
from topologies.transforms import transpose

KINDS = (Kind.ALLGATHER, Kind.REDUCE_SCATTER, Kind.ALLREDUCE)


def planned_schedule(problem: Problem, seconds: float, rng: np.random.Generator) -> Schedule:
    """Return a time-clock schedule by trees made for the size together with the times of their edges.

    Parameters
    ----------
    problem
        An allgather, a reduce-scatter or an allreduce of all ranks, with equal shards, and its size.
    seconds
        After so many it goes no further.
    rng
        For what is drawn.

    Raises
    ------
    Unsupported
        If it is another collective, or the network is not as `models.forestcoll.epochs.lines` needs it.
    NoSchedule
        If no tree is found.
    InputError
        If a message lasts more ticks than 64 bits hold.
    """
    what, network, size = problem.collective, problem.topology, problem.size or Fraction(1)
    if what.kind not in KINDS or not what.plain:
        raise Unsupported(
            f"trees in epochs: {what}; allgather, reduce-scatter or allreduce of all ranks, equal shards"
        )
    gather = collective(Kind.ALLGATHER, network.num_ranks)
    if what.kind is Kind.ALLGATHER:
        return schedule_of(planned(network, size, seconds, rng), gather, size)
    turned = transpose(network)
    if what.kind is Kind.REDUCE_SCATTER:
        return reverse(schedule_of(planned(turned, size, seconds, rng), gather, size), network)
    if _alike(network, turned):
        plan = planned(network, size, seconds, rng)
        other = replace(plan, lines=replace(plan.lines, topology=turned, links=links_between(turned)))
    else:
        plan, other = (planned(each, size, seconds / 2, rng) for each in (network, turned))
    scattered = reverse(schedule_of(other, gather, size), network)
    return compose_allreduce(scattered, schedule_of(plan, gather, size))


def _alike(one: Topology, other: Topology) -> bool:
    """Whether two networks have the same lines, so that one's plan is the other's."""
    kinds = [{ends: _kinds(each, ids) for ends, ids in links_between(each).items()} for each in (one, other)]
    return kinds[0] == kinds[1]


def _kinds(network: Topology, links: list[int]) -> list[tuple[Fraction, Fraction]]:
    return [(network.bandwidth[link], network.alpha[link]) for link in links]
