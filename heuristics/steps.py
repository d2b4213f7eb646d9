"""What the plain step schedules share: shortest routes, step numbers, and saying what they don't do."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from schedules.collective import Kind
from schedules.method import Method, Problem
from schedules.schedule import Routes
from topologies.routes import shortest_routes
from topologies.topology import Topology

BY_ALLGATHER = (Kind.ALLGATHER, Kind.REDUCE_SCATTER, Kind.ALLREDUCE)
"""What a method does that only makes allgathers."""


def routes_between(topology: Topology, sources: npt.ArrayLike, targets: npt.ArrayLike) -> Routes:
    """Return the shortest route of each pair of nodes, as a route table."""
    return Routes(*shortest_routes(topology, sources, targets))


def step_numbers(steps: npt.ArrayLike) -> npt.NDArray[np.unsignedinteger]:
    """Return step numbers in the narrowest type that a schedule keeps."""
    numbers = np.asarray(steps, dtype=np.int64)
    fits = numbers.max(initial=0) <= np.iinfo(np.uint16).max
    return numbers.astype(np.uint16 if fits else np.uint32)


def supports_allgathers(method: Method, problem: Problem) -> None:
    """Raise `Unsupported` unless the problem is made of allgathers of all ranks."""
    what = problem.collective
    if what.kind not in BY_ALLGATHER:
        raise method.unsupported(f"does {', '.join(BY_ALLGATHER)}; not {what.kind}")
    if what.groups is not None:
        raise method.unsupported(f"needs one group of all ranks; this {what.kind} has {len(what.groups)}")
