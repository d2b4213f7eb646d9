"""The networks of a training job: how long a communication takes by the schedules that methods make."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from tutti.experiments.registry import find_method
from tutti.experiments.runner.tasks import synthesize_best
from tutti.experiments.training.workload import SEND, Communication, Formula
from tutti.models.bounds import best_bound
from tutti.schedules.byte_matrix import ByteMatrix
from tutti.schedules.collective import collective
from tutti.schedules.method import Problem
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.simulate import best_slices
from tutti.topologies.graphs.shortest_paths import shortest_routes
from tutti.topologies.options import build_options
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Topology

SIZES_APART = 4
"""A method whose schedule depends on the size makes one for each power of this; other sizes use the nearest.
With a larger value there are fewer schedules, made for sizes that are less near."""
BOUND = "bound"
"""Stands for a method: every collective takes as long as is proven."""
_network = cache(parse_topology)


@cache
def least_time(network: str, kind: str, size: Fraction, matrix: ByteMatrix | None = None) -> float:
    """Return the largest lower bound that is proven, in seconds; for what a stage sends, the time."""
    topology = _network(network)
    if kind == SEND:
        return sending(topology, size)
    what = collective(kind, topology.num_ranks, matrix=matrix)
    return float(best_bound(topology, what, size).time(size))


@dataclass
class Scheduled:
    """A network of the project's, on which a method makes the schedules.

    One group has it for itself: its ranks are all ranks of the network. Other groups that share its links are
    not simulated.

    Parameters
    ----------
    name
        The text of the topology.
    method, others
        The names of the method, and of those of some kinds of collectives.
    options
        Options of `method`.
    """

    name: str
    method: str
    others: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    _schedules: dict[Any, Schedule] = field(default_factory=dict, repr=False)

    @property
    def ranks(self) -> int:
        """The number of ranks of the network."""
        return _network(self.name).num_ranks

    def time(self, what: Communication) -> float:
        """Return the simulated seconds of the method's schedule; a method that is none is the bound."""
        name = self.others.get(what.kind, self.method)
        if what.kind == SEND or name == BOUND:
            return self.bound(what)
        method, size = find_method(name), rounded(what.size)
        own = self.options if method.name == self.method else {}
        options = build_options(method, {**method.quick, **own})
        asked = collective(what.kind, self.ranks, matrix=what.matrix)
        problem = method.sized(Problem(_network(self.name), asked), options, size)
        if (key := (what.kind, problem.size, what.matrix)) not in self._schedules:
            self._schedules[key] = synthesize_best(method, problem, options, (0,), size).schedule
        return best_slices(self._schedules[key], what.size)[1]

    def bound(self, what: Communication) -> float:
        """Return `least_time` of a collective."""
        return least_time(self.name, what.kind, what.size, what.matrix)


def rounded(size: Fraction) -> Fraction:
    """Return the nearest power of `SIZES_APART`, in bytes.

    Examples
    --------
    >>> [int(rounded(Fraction(size))) for size in (1, 1000, 3000, 10**6)]
    [1, 1024, 4096, 1048576]
    """
    return Fraction(SIZES_APART) ** round(math.log(size, SIZES_APART))


def sending(topology: Topology, size: Fraction) -> float:
    """Return the most seconds that a message from a rank to the next takes, when it is the only one.

    It takes a route of fewest links; switches and ranks on it pass on what arrives, so that its α add up and
    its slowest link counts.
    """
    ranks = np.arange(topology.num_ranks)
    offsets, links = shortest_routes(topology, ranks[:-1], ranks[1:])

    def seconds(start: int, end: int) -> float:
        route, alpha = links[start:end].tolist(), topology.alpha
        slowest = min(topology.bandwidth[link] for link in route)
        return float(sum(alpha[link] for link in route) + size / slowest)

    return max(map(seconds, offsets[:-1].tolist(), offsets[1:].tolist()))


Network = Scheduled | Formula
"""The network of a group's collectives. It has a name, a number of ranks (None: any), times and bounds."""
