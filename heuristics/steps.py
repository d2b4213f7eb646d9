"""What the plain step schedules share: shortest routes, and saying what they don't do."""

from __future__ import annotations

import numpy.typing as npt

from schedules.compose import BY_ALLGATHER
from schedules.method import Method, Problem
from schedules.schedule import Routes
from topologies.routes import shortest_routes
from topologies.topology import Topology


def routes_between(topology: Topology, sources: npt.ArrayLike, targets: npt.ArrayLike) -> Routes:
    """Return the shortest route of each pair of nodes, as a route table."""
    return Routes(*shortest_routes(topology, sources, targets))


def supports_allgathers(method: Method, problem: Problem) -> None:
    """Raise `Unsupported` unless the problem is made of allgathers of all ranks."""
    method.check_kind(problem.collective, BY_ALLGATHER)
    method.check_one_group(problem.collective)
