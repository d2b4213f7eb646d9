"""The topology finder, and expansions of schedules."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from expansions import METHOD, predict
from expansions.finder import Candidate, Finder
from expansions.prediction import measured
from experiments.bench.measurement import Measurement, at_most, exactly, timed
from schedules.collective import collective
from schedules.cost import step_cost
from schedules.method import Problem
from schedules.schedule import Schedule
from schedules.verify import verify
from topologies.families.expressions import parse_notation
from topologies.text import parse_topology

EXPANDED = ["L^3(C(16,{3,4}))", "L^2(Diamond^2)", "L(DBJMod(2,4)^2)"]
"""Of 1,024 nodes, in the dissertation's Table 3.4."""


def bench_finder() -> Iterator[Measurement]:
    """The frontier of 1,024 nodes of degree 4, and the schedules of the dissertation's."""
    front, seconds = timed(_frontier)
    yield at_most("finder", "1,024 nodes, degree 4", "frontier, s", seconds, 10.0)
    yield Measurement("finder", "1,024 nodes, degree 4", "networks", len(front))
    for text in EXPANDED:
        schedule, seconds = timed(_verified, text)
        cost = predict(parse_notation(text))
        yield exactly("finder", text, "T_L, steps", step_cost(schedule).tl_steps, cost.tl)
        yield exactly("finder", text, "T_B, M/B", step_cost(schedule).tb, cost.tb)
        yield Measurement("finder", text, "verified schedule, s", seconds)


def _frontier() -> list[Candidate]:
    measured.cache_clear()
    return Finder().find(1024, 4)


def _verified(text: str) -> Schedule:
    topology = parse_topology(text)
    problem = Problem(topology, collective("allgather", topology.num_ranks))
    schedule = METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))
    verify(schedule)
    return schedule
