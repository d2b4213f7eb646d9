"""Lets any method do several collectives at the same time, over any groups: each alone, then combined.

If a method does not do a problem directly, the problem is divided (`schedules.together.parts_of`): a mixed
collective into its parts, several groups into one each. A group is then alone on a network, in two variants:
the other ranks are switches, which forward, or they are removed. `together` combines the schedules of all
groups, and the fastest result is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tutti.schedules.collective import Collective
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Routes, Schedule
from tutti.schedules.simulation.pipelining import best_slices
from tutti.schedules.together import parts_of, together
from tutti.topologies.errors import InputError, NoSchedule, TuttiError, Unsupported
from tutti.topologies.exact import Int64Array, frozen
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import among, only_among
from tutti.topologies.units import parse_time

LEAST_SECONDS = 0.01
"""Least time limit in seconds for one of many parts. A larger value may exceed the whole limit."""
OWN, WHOLE = "own", "whole"
"""Names of the networks on which groups are alone: without the other ranks, or with them as switches."""


@dataclass(frozen=True)
class ByGroups(Method):
    """A method that does directly what it can, and everything else by groups.

    Parameters
    ----------
    alone
        The method. The other fields are copied from it, or call it.
    """

    alone: Method = field(kw_only=True)

    def supports(self, problem: Problem, options: Any) -> None:
        """Refuse a problem that the method does neither directly nor by groups."""
        if _at_once(self.alone, problem, options):
            self.alone.supports(problem, options)
            return
        for share, part in parts_of(problem.collective):
            if problem.collective.parts:
                size = None if problem.size is None else problem.size * share
                self.supports(Problem(problem.topology, part, size), options)
            else:
                _refuse_group(self.alone, problem.topology, part, options)

    def kind_of(self, problem: Problem, options: Any) -> str:
        """Return the kind of its answer. Exact parts do not make an exact whole."""
        return self.kind if _at_once(self.alone, problem, options) else "heuristic"


def by_groups(method: Method) -> Method:
    """Return the method, able to do its collectives at the same time over any groups of ranks."""

    def synthesize(problem: Problem, options: Any, rng: np.random.Generator) -> Schedule:
        if _at_once(method, problem, options):
            return method.synthesize(problem, options, rng)
        groups = len(problem.collective.members)
        return _GroupSynthesizer(method, _divided(options, 2 * groups), rng).fastest(problem)

    def size_dependent(problem: Problem, options: Any) -> bool:
        return not _at_once(method, problem, options) or method.size_dependent(problem, options)

    def improve(problem: Problem, schedule: Schedule, options: Any, rng: np.random.Generator) -> Schedule:
        method.supports(problem, options)  # by groups, no given schedule can be improved
        return better(problem, schedule, options, rng)

    def estimate(problem: Problem, options: Any) -> float | None:
        return alone(problem, options) if alone and _at_once(method, problem, options) else None

    alone = method.estimate
    better = method.improve or (lambda problem, schedule, options, rng: schedule)
    own = {each.name: getattr(method, each.name) for each in fields(Method)}
    own |= {"synthesize": synthesize, "size_dependent": size_dependent}
    own |= {"estimate": alone and estimate}
    return ByGroups(**own | {"improve": method.improve and improve}, alone=method)


def limited(options: Any, most: float) -> Any:
    """Return a method's options with its ``time_limit``, if it has one, reduced to at most `most` seconds."""
    if not hasattr(options, "time_limit"):
        return options
    own = options.time_limit
    if isinstance(own, str):
        return replace(options, time_limit=f"{min(float(parse_time(own)), most):.3f}s")
    return replace(options, time_limit=most if own is None else min(own, most))


def _divided(options: Any, parts: int) -> Any:
    """Return a method's options with its time limit, if there is one, divided among `parts` parts."""
    own = getattr(options, "time_limit", None)
    if own is None:
        return options
    seconds = float(parse_time(own)) if isinstance(own, str) else float(own)
    return limited(options, max(seconds / parts, LEAST_SECONDS))


def _at_once(method: Method, problem: Problem, options: Any) -> bool:
    """Whether the method does a problem directly; it must if all ranks take part in one collective."""
    try:
        if problem.collective.groups is not None:
            method.supports(problem, options)
    except Unsupported:
        return False
    return True


@dataclass(frozen=True, eq=False)
class _GroupTopology:
    """A network whose ranks are one group, in order, and the numbers of its links in the whole network."""

    topology: Topology
    links: Int64Array

    def problem(self, what: Collective, size: Fraction | None) -> Problem:
        """Return the problem of the group's collective on this network."""
        return Problem(self.topology, replace(what, num_ranks=self.topology.num_ranks, groups=None), size)

    def lifted(self, schedule: Schedule, topology: Topology, what: Collective) -> Schedule:
        """Return a schedule made here on the whole network, without its claims, which hold only here."""
        table = schedule.route_table
        return schedule.replace(
            topology=topology,
            collective=what,
            routes=Routes(table.offsets, frozen(self.links[table.links], np.int32)),
            claims={},
            stats={},
        )


def _places(topology: Topology, members: tuple[int, ...]) -> Iterator[tuple[str, _GroupTopology]]:
    if len(members) < topology.num_ranks:
        with suppress(InputError):  # without the other ranks they may be disconnected
            yield OWN, _GroupTopology(*only_among(topology, members))
    yield WHOLE, _GroupTopology(among(topology, members), np.arange(topology.num_links))


def _refuse_group(method: Method, topology: Topology, what: Collective, options: Any) -> None:
    """Refuse a collective of one group that the method does on neither network."""
    refused: Unsupported | None = None
    for _, place in _places(topology, what.members[0]):
        try:
            method.supports(place.problem(what, None), options)
        except Unsupported as error:
            refused = error
        else:
            return
    if refused is not None:
        raise refused


@dataclass(frozen=True)
class _GroupSynthesizer:
    """Makes schedules of parts with a method, and combines them."""

    method: Method
    options: Any
    rng: np.random.Generator

    def fastest(self, problem: Problem) -> Schedule:
        """Return the fastest schedule of a problem that has parts."""
        size = problem.size or Fraction(1)
        return min(self.ways(problem).values(), key=lambda made: best_slices(made, size)[1])

    def ways(self, problem: Problem) -> dict[str, Schedule]:
        """Return the schedules, by the name of the network on which groups were alone."""
        if _at_once(self.method, problem, self.options):
            return {OWN: self.synthesized(problem)}
        return self.mixed(problem) if problem.collective.parts else self.grouped(problem)

    def mixed(self, problem: Problem) -> dict[str, Schedule]:
        """Return schedules of the parts: all on one kind of network, and each on its fastest kind."""
        size, asked = problem.size or Fraction(1), parts_of(problem.collective)
        parts = [self.ways(Problem(problem.topology, part, size * share)) for share, part in asked]
        times = [
            {way: best_slices(made, size * share)[1] for way, made in ways.items()}
            for ways, (share, _) in zip(parts, asked, strict=True)
        ]
        fastest = [min(time, key=time.__getitem__) for time in times]
        chosen = {
            tuple(way if way in time else best for time, best in zip(times, fastest, strict=True))
            for way in {*fastest, OWN, WHOLE}
        } | {tuple(fastest)}
        alone = tuple(min(time.values()) for time in times)
        found = {}
        for ways in sorted(chosen):
            made = together(
                problem.collective, [part[way] for part, way in zip(parts, ways, strict=True)], size
            )
            found[" ".join(ways)] = made.replace(stats={**made.stats, "alone": alone})
        return found

    def grouped(self, problem: Problem) -> dict[str, Schedule]:
        """Return the schedules of several groups on each of their networks.

        Raises
        ------
        TuttiError
            If the method makes none: its last error.
        """
        size, groups = problem.size or Fraction(1), [part for _, part in parts_of(problem.collective)]
        made: dict[str, list[Schedule]] = {OWN: [], WHOLE: []}
        said: TuttiError = NoSchedule(f"{self.method.name} finds no schedule for {problem.collective}")
        for group in groups:
            for way, place in _places(problem.topology, group.members[0]):
                try:
                    self.method.supports(place.problem(group, size), self.options)
                    alone = self.synthesized(place.problem(group, size))
                except (Unsupported, NoSchedule, InputError) as error:
                    said = error
                else:
                    made[way].append(place.lifted(alone, problem.topology, group))
        whole = {way: each for way, each in made.items() if len(each) == len(groups)}
        if not whole:
            raise said
        return {
            way: each[0] if len(each) == 1 else together(problem.collective, each, size)
            for way, each in whole.items()
        }

    def synthesized(self, problem: Problem) -> Schedule:
        """Return the schedule that the method makes directly; it gets the size only if that matters."""
        dependent = self.method.size_dependent(problem, self.options)
        told = problem if dependent else replace(problem, size=None)
        return self.method.synthesize(told, self.options, self.rng)
