"""As NCCL chooses: for allreduce a ring or double binary trees, as the size has it; else the ring.

NCCL estimates each algorithm's time from tables of latency and bandwidth; here both schedules are made and
the time of each is simulated. Its rings follow the wiring; here ranks go round in their order.
"""

from __future__ import annotations

import numpy as np

from heuristics.double_binary_tree import METHOD as TREE
from heuristics.ring import METHOD as RING
from heuristics.steps import supports_allgathers
from schedules.collective import Kind
from schedules.method import Method, NoOptions, Problem
from schedules.schedule import Schedule
from schedules.simulate import simulate


def synthesize(problem: Problem, options: NoOptions, rng: np.random.Generator) -> Schedule:
    """Return the faster one; ``stats["algorithm"]`` says which.

    Raises
    ------
    Unsupported
        As `supports`.
    """
    supports(problem, options)
    methods = (
        [RING, TREE] if problem.collective.kind is Kind.ALLREDUCE and problem.size is not None else [RING]
    )
    made = [method.synthesize(problem, method.options(), rng) for method in methods]
    best = 0 if problem.size is None else int(np.argmin([simulate(one, problem.size).time for one in made]))
    return made[best].replace(stats={**made[best].stats, "algorithm": methods[best].name})


def supports(problem: Problem, options: NoOptions) -> None:
    """Raise `Unsupported` for collectives over groups and those that are not made of allgathers."""
    supports_allgathers(METHOD, problem)


METHOD = Method(
    name="nccl_like",
    kind="heuristic",
    synthesize=synthesize,
    supports=supports,
    size_dependent=lambda problem, options: problem.collective.kind is Kind.ALLREDUCE,
    summary="ring or double binary trees, whichever is faster at the size, as NCCL chooses",
)
