"""The method `local_search`: schedules of other methods, improved by local search in time for the size asked.

Where α and bytes cost about the same, links should carry few messages, none of which waits long. The search
(`heuristics.refine`) begins with what quick methods make, or with any schedule that it is given, and changes
messages, routes and cuts one at a time. Nothing slower than what it began with is returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, ClassVar

import numpy as np

from tutti.experiments.methods.calling import CallingOptions
from tutti.heuristics.refine import Maker, refined
from tutti.schedules.capabilities import Capabilities, Groups
from tutti.schedules.collective import KINDS
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.simulate import best_slices
from tutti.topologies.errors import InputError, NoSchedule, Unsupported
from tutti.topologies.kernels import now
from tutti.topologies.options import Names

QUICK = ("bfb", "torus_rings", "shortest_path_all_to_all", "rails", "min_latency")
"""Methods whose schedules are improved by default."""
MOST_ITEMS = 2**16
"""Most shards, or pairs of ranks in an all-to-all. With more, the search has no time to change each of
them."""


@dataclass(frozen=True)
class RefinedOptions(CallingOptions):
    """Options of the local search, `time_limit` being for the starts and the search.

    Parameters
    ----------
    base_methods
        Methods whose schedules it begins with.
    """

    OWNER: ClassVar[str] = "local_search"

    base_methods: Annotated[tuple[str, ...], Names(1)] = QUICK


def refinement(methods: Mapping[str, Method]) -> Method:
    """Return the method `local_search` over the schedules of these methods."""

    def synthesize(problem: Problem, options: RefinedOptions, rng: np.random.Generator) -> Schedule:
        until, make = now() + options.seconds, maker(options, rng)
        return _fastest(problem, make(problem, until), until - now(), rng, make)

    def improve(
        problem: Problem, start: Schedule, options: RefinedOptions, rng: np.random.Generator
    ) -> Schedule:
        return _fastest(problem, [start], options.seconds, rng, maker(options, rng))

    def maker(options: RefinedOptions, rng: np.random.Generator) -> Maker:
        chosen = options.chosen(methods)
        return lambda problem, until: list(_made(problem, chosen, until, rng))

    return Method(
        name="local_search",
        kind="heuristic",
        synthesize=synthesize,
        improve=improve,
        options=RefinedOptions,
        capabilities=Capabilities(KINDS, groups=Groups.NONE),
        check=lambda problem, options: _check(problem, options.chosen(methods)),
        size_dependent=lambda problem, options: True,
        seeded=True,
        quick={"time_limit": "5s"},
        summary="schedules of other methods, improved in time: fewer messages, on other links, cut elsewhere",
    )


def _check(problem: Problem, methods: Sequence[Method]) -> None:
    """Refuse too many items, and shards without a byte, which need not go anywhere."""
    if len(items := problem.collective.items) > MOST_ITEMS:
        raise Unsupported(f"local_search needs at most {MOST_ITEMS} items; this has {len(items)}")
    if not all(share > 0 for share in items.share):
        raise Unsupported(f"local_search needs bytes in every shard; this is {problem.collective}")


def _made(
    problem: Problem, methods: Sequence[Method], until: float, rng: np.random.Generator
) -> Iterator[Schedule]:
    """Yield what the methods make; when half of the time has elapsed, no other is begun."""
    enough = (now() + until) / 2
    for method in methods:
        options = method.options(**method.fast)
        if getattr(options, "time_limit", "") is None:
            options = replace(options, time_limit=max(enough - now(), 1e-3))
        try:
            method.supports(problem, options)
            if now() > enough:
                return
            yield method.synthesize(problem, options, rng)
        except (Unsupported, NoSchedule, InputError):  # the last: numbers that outgrow a method
            continue


def _fastest(
    problem: Problem, starts: Sequence[Schedule], seconds: float, rng: np.random.Generator, make: Maker
) -> Schedule:
    """Return the fastest of some schedules and of what the search makes of them."""
    size, found = problem.size or Fraction(1), list(starts)
    with suppress(*([Unsupported] if starts else [])):
        found.append(refined(problem, starts, seconds, rng, make))
    return min(found, key=lambda schedule: best_slices(schedule, size)[1])
