"""The types that a method speaks: a problem goes in, a schedule comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from tutti.schedules.capabilities import EVERYTHING, Capabilities
from tutti.schedules.collective import Collective
from tutti.schedules.schedule import Chunks, Clock, Schedule, step_numbers
from tutti.topologies.errors import Unsupported
from tutti.topologies.exact import INT64_MAX
from tutti.topologies.options import Whole
from tutti.topologies.topology import Topology

SEED_COUNT = Whole(1, 10**6)
"""Allowed numbers of seeds for one row. A larger number is probably a mistake."""
SEED = Whole(0, INT64_MAX)
"""Allowed values of a single seed: results keep it in a column of int64."""


@dataclass(frozen=True)
class Problem:
    """A collective on a network, with a size if the answer depends on it.

    Parameters
    ----------
    topology, collective
        The network and what to do on it.
    size
        M in bytes, exact; None if the method's schedule does not depend on it.
    """

    topology: Topology
    collective: Collective
    size: Fraction | None = None

    def schedule(
        self, clock: Clock, chunks: Chunks, chunk: Any, route: Any, order: Any = None, **further: Any
    ) -> Schedule:
        """Return a schedule of the collective on the network.

        Parameters
        ----------
        clock, chunks, chunk, route, order, further
            As in `schedules.schedule.Schedule`; columns of integers may be of any type that holds them.
        """
        if further.get("count") is not None:
            further["count"] = further["count"].astype(np.int32, copy=False)
        return Schedule(
            topology=self.topology,
            collective=self.collective,
            clock=clock,
            chunks=chunks,
            chunk=chunk.astype(np.int32, copy=False),
            route=route.astype(np.int32, copy=False),
            order=step_numbers(order) if clock is Clock.STEP else order,
            **further,
        )


@dataclass(frozen=True)
class NoOptions:
    """The options of methods that have none."""


@dataclass(frozen=True)
class Method:
    """A method that makes schedules, as stored in the registry.

    Parameters
    ----------
    name
        The name on the command line.
    kind
        ``"exact"``, ``"heuristic"`` or ``"expansion"``.
    synthesize
        ``(problem, options, rng) -> Schedule``; raises `NoSchedule` if it finds none.
    options
        A frozen dataclass that checks itself (raising `InputError`); its fields are the options.
    capabilities
        Its collectives and networks; `supports`, ``tutti list methods`` and the tests use it.
    check
        ``(problem, options) -> None``; raises `Unsupported` for a problem that the capabilities allow but
        that only the method itself can refuse.
    size_dependent
        ``(problem, options) -> bool``: whether the schedule depends on the size.
    seeded
        Whether the schedule depends on the seed.
    improve
        ``(problem, schedule, options, rng) -> Schedule``, no slower, if it can improve any schedule.
    fast
        Options that select its fast algorithm if it also has a model; methods that call it use them.
    quick
        Options for an answer in seconds, used at a prompt or in a notebook if the user gives none.
    estimate
        ``(problem, options) -> float | None``: the seconds that its schedule will take at the problem's size,
        T_L α + T_B M/B in closed form, computed in milliseconds. It is asked only for problems that it
        supports. None if the method, or this problem, has no such form.
    summary
        One line for ``tutti list methods``.
    exact_for
        The sense in which an exact method's answers are optimal, such as ``"bytes"``: a text, or a function
        of the options. In any other sense another schedule may be better.
    """

    name: str
    kind: Literal["exact", "heuristic", "expansion"]
    synthesize: Callable[[Problem, Any, np.random.Generator], Schedule]
    options: type = NoOptions
    capabilities: Capabilities = EVERYTHING
    check: Callable[[Problem, Any], None] = lambda problem, options: None
    size_dependent: Callable[[Problem, Any], bool] = lambda problem, options: False
    seeded: bool = False
    improve: Callable[[Problem, Schedule, Any, np.random.Generator], Schedule] | None = None
    fast: Mapping[str, Any] = field(default_factory=dict)
    quick: Mapping[str, Any] = field(default_factory=dict)
    estimate: Callable[[Problem, Any], float | None] | None = None
    summary: str = ""
    exact_for: str | Callable[[Any], str] = ""

    def exactness(self, options: Any, problem: Problem | None = None) -> str:
        """Return the sense in which its answers, or that to a problem, are optimal; empty if unproven."""
        if (self.kind if problem is None else self.kind_of(problem, options)) != "exact":
            return ""
        return self.exact_for if isinstance(self.exact_for, str) else self.exact_for(options)

    def supports(self, problem: Problem, options: Any) -> None:
        """Refuse what the method does not handle, before anything is built.

        Raises
        ------
        Unsupported
            If its capabilities do not cover the problem, or from its `check`.
        """
        refusal = self.capabilities.refusal(problem.topology, problem.collective)
        if refusal is not None:
            raise self.unsupported(refusal)
        self.check(problem, options)

    def refusal(self, problem: Problem, options: Any) -> str:
        """Return why the method does not handle a problem; empty if it does."""
        try:
            self.supports(problem, options)
        except Unsupported as error:
            return str(error)
        return ""

    def sized(self, problem: Problem, options: Any, size: Fraction) -> Problem:
        """Return a problem without a size with this one (bytes) if the method's schedule depends on it."""
        return replace(problem, size=size) if self.size_dependent(problem, options) else problem

    def kind_of(self, problem: Problem, options: Any) -> str:
        """Return the kind of its answer to a problem."""
        return self.kind

    def unsupported(self, reason: str) -> Unsupported:
        """Return the error that says why this method does not handle a problem."""
        return Unsupported(f"{self.name} {reason}")


def first_seeds(method: Method, count: int, name: str = "seeds") -> range:
    """Return the seeds 0 to `count` - 1, or only 0 for a method without randomness.

    Raises
    ------
    InputError
        If the count is out of range; the message calls it `name`.
    """
    SEED_COUNT.check("", name, count)
    return range(count if method.seeded else 1)


def only_seed(method: Method, seed: int, name: str = "seed") -> range:
    """Return one seed, as `first_seeds` returns several; 0 for a method without randomness.

    Raises
    ------
    InputError
        If the seed is out of range; the message calls it `name`.
    """
    SEED.check("", name, seed)
    return range(seed, seed + 1) if method.seeded else range(1)


def chunks_a_shard(options: Any) -> str:
    """Return `Method.exact_for` of a method whose program has ``options.chunks`` chunks a shard.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> chunks_a_shard(SimpleNamespace(chunks=1)), chunks_a_shard(SimpleNamespace(chunks=2))
    ('1 chunk a shard', '2 chunks a shard')
    """
    return f"{options.chunks} chunk{'s' * (options.chunks > 1)} a shard"
