"""Instances and schedules that the tests of SCCL share."""

from fractions import Fraction
from itertools import product

import numpy as np

from tutti.models.sccl.method import METHOD
from tutti.models.time_expanded import ChunkInstance
from tutti.schedules import Problem, collective
from tutti.schedules.verify import verify
from tutti.topologies.text import parse_topology


def instance(text, chunks=1, kind="allgather", **details):
    topology = parse_topology(text)
    return ChunkInstance(topology, collective(kind, topology.num_ranks, **details), chunks)


def made(text, kind="allgather", size=None, details=None, **options):
    topology = parse_topology(text)
    what = collective(kind, topology.num_ranks, **(details or {}))
    problem, chosen = (
        Problem(topology, what, None if size is None else Fraction(size)),
        METHOD.options(**options),
    )
    METHOD.supports(problem, chosen)
    schedule = METHOD.synthesize(problem, chosen, np.random.default_rng(0))
    verify(schedule)
    return schedule


def brute_force(task, steps, most):
    """The fewest rounds by search over states (who has which chunk), step by step; for tiny networks."""
    ends = list(zip(task.topology.source.tolist(), task.topology.target.tolist(), strict=True))
    begin, goal = (
        frozenset((c, n) for c, item in enumerate(task.item) for n in np.flatnonzero(table[item]))
        for table in (task.holders, task.wanters)
    )
    reached = {begin: 0}
    for _ in range(steps):
        following = {}
        for state, rounds in reached.items():
            for width in range(1, most - rounds + 1):
                for after in outcomes(state, ends, task, width):
                    if following.get(after, most + 1) > rounds + width:
                        following[after] = rounds + width
        reached = following
    return min((rounds for state, rounds in reached.items() if goal <= state), default=None)


def outcomes(state, ends, task, width):
    """All states after one step in which every link carries as much as it can of what its end lacks."""
    choices = []
    for e, (a, b) in enumerate(ends):
        useful = [c for c in range(len(task.item)) if (c, a) in state and (c, b) not in state]
        size = min(len(useful), width * int(task.capacity[e]))
        choices.append([frozenset((c, b) for c in some) for some in subsets(useful, size)])
    return {state.union(*together) for together in product(*choices)}


def subsets(values, size):
    if size == 0:
        return [()]
    return [(v, *rest) for i, v in enumerate(values) for rest in subsets(values[i + 1 :], size - 1)]
