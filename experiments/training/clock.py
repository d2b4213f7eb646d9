"""How long a collective takes: by a method's verified schedule, by a proven bound, or by a formula."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from tutti.experiments.registry import find_method
from tutti.experiments.runner.tasks import synthesize_best
from tutti.experiments.training.workload import SEND, Communication, Formula
from tutti.models.bounds import best_bound
from tutti.schedules.collective import collective
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.pipelining import best_slices
from tutti.topologies.graphs.shortest_paths import shortest_routes
from tutti.topologies.options import build_options
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Topology

SIZES_APART = 4
"""A method that is told the size makes a schedule for each power of this; others' sizes use the nearest."""
BOUND = "bound"
"""Stands for a method: every collective takes as long as is proven."""


@dataclass
class Scheduled:
    """A network of the project's, on which a method makes the schedules.

    One group has it for itself: its ranks are all ranks of the network. Other groups that share its links are
    not simulated.

    Parameters
    ----------
    text
        Of the topology.
    methods
        The name of the method of each kind of collective; None: of the others.
    options
        Of the method for the others.
    """

    text: str
    methods: Mapping[str | None, str]
    options: Mapping[str, Any] = field(default_factory=dict)
    _schedules: dict[Any, Schedule] = field(default_factory=dict, repr=False)
    _times: dict[Communication, float] = field(default_factory=dict, repr=False)
    _bounds: dict[Communication, float] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """Its text."""
        return self.text

    @property
    def ranks(self) -> int:
        """All of the network."""
        return self.topology.num_ranks

    @cached_property
    def topology(self) -> Topology:
        """The network."""
        return parse_topology(self.text)

    def time(self, what: Communication) -> float:
        """Return the simulated seconds of the method's schedule; a method that is none is the bound."""
        name = self.methods.get(what.kind, self.methods[None])
        if what.kind == SEND or name == BOUND:
            return self.bound(what)
        if what not in self._times:
            self._times[what] = best_slices(self._schedule(what, find_method(name)), what.size)[1]
        return self._times[what]

    def bound(self, what: Communication) -> float:
        """Return the largest lower bound that is proven; of what a stage sends, the time."""
        if what not in self._bounds:
            if what.kind == SEND:
                self._bounds[what] = sending(self.topology, what.size)
            else:
                problem = collective(what.kind, self.topology.num_ranks)
                self._bounds[what] = float(best_bound(self.topology, problem, what.size).time(what.size))
        return self._bounds[what]

    def _schedule(self, what: Communication, method: Method) -> Schedule:
        problem = Problem(self.topology, collective(what.kind, self.topology.num_ranks))
        given = {**method.quick, **(self.options if method.name == self.methods[None] else {})}
        options = build_options(method, given)
        size = rounded(what.size)
        dependent = method.size_dependent(problem, options)
        key = (what.kind, size if dependent else None)
        if key not in self._schedules:
            asked = Problem(self.topology, problem.collective, size) if dependent else problem
            made = synthesize_best(method, asked, options, (0,), size)
            self._schedules[key] = made.schedule
        return self._schedules[key]


def rounded(size: Fraction) -> Fraction:
    """Return the nearest power of `SIZES_APART`, in bytes.

    Examples
    --------
    >>> [int(rounded(Fraction(size))) for size in (1, 1000, 3000, 10**6)]
    [1, 1024, 4096, 1048576]
    """
    return Fraction(SIZES_APART) ** round(math.log(size, SIZES_APART))


def sending(topology: Topology, size: Fraction) -> float:
    """Return the most seconds that a message from a rank to the next takes, each on its way alone.

    It takes a route of fewest links; switches and ranks on it pass on what arrives, so that its α add up and
    its slowest link counts.
    """
    ranks = np.arange(topology.num_ranks)
    offsets, links = shortest_routes(topology, ranks[:-1], ranks[1:])
    routes = (links[start:end].tolist() for start, end in pairwise(offsets.tolist()))
    return max(
        float(
            sum(topology.alpha[link] for link in route)
            + size / min(topology.bandwidth[link] for link in route)
        )
        for route in routes
    )


Network = Scheduled | Formula
"""What a group's collectives run on: it has a name, a number of ranks or None for any, times and bounds."""
