"""The method `list_scheduling`: trees of other methods, their pieces placed in time for the size asked.

Trees that meet the bottleneck cut carry no more than the bound, but as flows their slices wait for each other
on links. Here each link's order and the size of every message are chosen (`schedules.list_scheduling`). An
allreduce is listed as it is, and as a reduce-scatter and then an allgather; the shortest is kept. Where none
is near to what its links carry, trees are made together with their times (`models.forestcoll.epochs`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from tutti.experiments.methods.calling import CallingOptions
from tutti.models.forestcoll.epochs import planned_schedule
from tutti.schedules.capabilities import Capabilities
from tutti.schedules.collective import KINDS, Collective, Kind
from tutti.schedules.compose import compose_allreduce
from tutti.schedules.cost import congestion
from tutti.schedules.list_scheduling import can_be_listed, list_schedule
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.simulate import simulate
from tutti.topologies.errors import InputError, NoSchedule, Unsupported
from tutti.topologies.kernels import now
from tutti.topologies.options import Duration, Names

TREES = ("forestcoll", "allreduce_trees", "allreduce_lp")
"""Methods whose flows are tried by default."""
_AS_FLOWS: Mapping[str, Mapping[str, Any]] = {
    "allreduce_trees": {"timed": False},
    "allreduce_lp": {"by": "cuts", "time_limit": 10.0, "timed": False},
    "forestcoll": {"search": "newton"},
}
"""Options with which methods make flows, for all sizes, soon."""


class TreesInEpochs(NamedTuple):
    """Numbers that decide when trees in epochs are tried beside the list schedules."""

    near: float
    """Trees in epochs are not tried if a list schedule takes at most this many times as long as its links
    need. A larger value tries them less often."""
    far: float
    """They are not tried either if it takes more than this many times as long, as α is then most of the time
    and they have few long messages. A larger value tries them more often."""
    lists_part: float
    """Fraction of the time limit for list schedules, which come first. With a larger value trees in epochs
    get less."""


Listed = tuple[float, Schedule, tuple[Schedule, ...]]
"""The simulated time of a list schedule, the schedule, and its flows."""
EPOCHS = TreesInEpochs(near=1.005, far=1.5, lists_part=0.4)


@dataclass(frozen=True)
class ListedOptions(CallingOptions):
    """Options of the list schedules.

    Parameters
    ----------
    base_methods
        Methods whose flows are tried, one after the other.
    time_limit
        A time with its unit; when it is over, nothing else is begun.
    """

    OWNER: ClassVar[str] = "list_scheduling"

    base_methods: Annotated[tuple[str, ...], Names(1)] = TREES
    time_limit: Annotated[str, Duration("20s")] = "30s"


def listed(methods: Mapping[str, Method]) -> Method:
    """Return the method `list_scheduling` over the flows of these methods."""

    def check(problem: Problem, options: ListedOptions) -> None:
        reasons = [method.refusal(problem, own) for method, own in _chosen(methods, options)]
        if all(reasons):  # no method makes it
            raise Unsupported("list_scheduling: " + "; ".join(reasons))

    return Method(
        name="list_scheduling",
        kind="heuristic",
        synthesize=partial(_shortest, methods),
        options=ListedOptions,
        capabilities=Capabilities(KINDS, further="what a method of its option base_methods needs"),
        check=check,
        size_dependent=lambda problem, options: True,
        seeded=True,
        summary="trees of other methods, with the order and the size of every link's messages chosen",
    )


def _chosen(methods: Mapping[str, Method], options: ListedOptions) -> list[tuple[Method, Any]]:
    """Return the methods and their options."""
    return [(method, method.options(**_AS_FLOWS.get(method.name, {}))) for method in options.chosen(methods)]


def _shortest(
    methods: Mapping[str, Method], problem: Problem, options: ListedOptions, rng: np.random.Generator
) -> Schedule:
    """Return the list schedule of least simulated time.

    Raises
    ------
    NoSchedule
        If no method made a flow that can be listed.
    """
    size, began, budget = problem.size or Fraction(1), now(), options.seconds
    until, lists = began + budget, list[Listed]()
    for flows in _flows(problem, _chosen(methods, options), rng):
        left = began + EPOCHS.lists_part * budget - now()
        if lists and left <= 0:
            break
        lists.append((*_listed(flows, size, max(left, 0) / 2), flows))
    found = [(seconds, schedule) for seconds, schedule, _ in lists]
    first = min(lists, key=lambda each: each[0], default=None)
    # the least seconds that links need for flows that do as trees in epochs do: half by half
    halved = [flows for _, _, flows in lists if len(flows) == len(_halves(problem))]
    needed = min((float(sum(map(congestion, flows)) * size) for flows in halved), default=math.inf)
    if first is None or EPOCHS.near < first[0] / needed < EPOCHS.far:
        with suppress(Unsupported, NoSchedule, InputError):  # the last: messages longer than 64 bits of ticks
            found.append(_timed([planned_schedule(problem, until - now(), rng)], size))
        left = until - now()  # where there are none, the nearest list has it
        if first is not None and left > EPOCHS.lists_part * budget:
            found.append(_listed(first[2], size, left))
    if not found:
        what = f"{problem.collective} on {problem.topology.name}"
        raise NoSchedule(f"list_scheduling: no flow of {what} can be listed")
    return min(found, key=lambda each: each[0])[1]


def _listed(flows: Sequence[Schedule], size: Fraction, seconds: float) -> tuple[float, Schedule]:
    """Return the simulated time of the flows' list schedules one after the other, and these."""
    return _timed([list_schedule(flow, size, seconds=seconds / len(flows)) for flow in flows], size)


def _timed(parts: Sequence[Schedule], size: Fraction) -> tuple[float, Schedule]:
    """Return the schedule of these parts, one after the other, and its simulated time."""
    schedule = parts[0] if len(parts) == 1 else compose_allreduce(parts[0], parts[1])
    return simulate(schedule, size).time, schedule


def _halves(problem: Problem) -> list[Collective]:
    """Return the collectives that one after the other do what is asked."""
    what = problem.collective
    if what.kind is not Kind.ALLREDUCE or what.parts:
        return [what]
    return [what.with_kind(kind) for kind in (Kind.REDUCE_SCATTER, Kind.ALLGATHER)]


def _flows(
    problem: Problem, methods: Sequence[tuple[Method, Any]], rng: np.random.Generator
) -> Iterator[tuple[Schedule, ...]]:
    """Yield flows of each method: one, or a reduce-scatter and an allgather for an allreduce."""
    halves, whole = _halves(problem), [problem.collective]
    for method, options in methods:
        for parts in [whole] if halves == whole else [halves, whole]:
            flows: list[Schedule] = []
            with suppress(Unsupported, NoSchedule, InputError):  # the last: numbers that outgrow a method
                for part in parts:
                    asked = replace(problem, collective=part)
                    method.supports(asked, options)
                    flows.append(method.synthesize(asked, options, rng))
                    if not can_be_listed(flows[-1]):
                        break
                else:
                    yield tuple(flows)
