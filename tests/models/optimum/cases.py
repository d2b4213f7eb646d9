"""Problems and verified schedules that the tests of the optimum share."""

from fractions import Fraction

import numpy as np

from experiments.registry import METHODS
from models.optimum import TimedInstance
from models.sccl import Instance
from schedules import Problem, collective
from schedules.simulation.simulate import simulate
from schedules.verify import verify
from topologies.text import parse_topology

METHOD = METHODS["optimum"]
ALPHA = 0.5e-6
B = 50e9


def problem(text, size, kind="allgather", **details):
    topology = parse_topology(text)
    return Problem(topology, collective(kind, topology.num_ranks, **details), Fraction(size))


def made(task, **options):
    chosen = METHOD.options(**options)
    METHOD.supports(task, chosen)
    schedule = METHOD.synthesize(task, chosen, np.random.default_rng(0))
    verify(schedule)
    return schedule


def seconds(schedule, size):
    return simulate(schedule, Fraction(size)).time


def exhaustive(task):
    """Least ticks over all orders in which links send single chunks or bundles, for very few sends.

    Every schedule is an order of sends (link, chunks), each as early as its link and its chunks allow.
    """
    timed = TimedInstance(Instance(task.topology, task.collective, 1), task.size)
    instance = timed.instance
    wanted = [
        (c, n)
        for c, item in enumerate(instance.item)
        for n in range(task.topology.num_ranks)
        if instance.wanters[item, n] and not instance.holders[item, n]
    ]
    best = [timed.horizon]

    def extend(held, free, left, now):
        if not left:
            best[0] = min(best[0], now)
            return
        for link, (a, b) in enumerate(timed.ends):
            able = [c for c in range(len(instance.item)) if (c, a) in held and (c, b) in left]
            for mask in range(1, 1 << len(able)):
                some = [c for i, c in enumerate(able) if mask >> i & 1]
                start = max([free[link], *(held[c, a] for c in some)])
                end = start + timed.alpha[link] + timed.move[link] * len(some)
                if end < best[0]:
                    places = {(c, b) for c in some}
                    extend(
                        {**held, **dict.fromkeys(places, end)},
                        {**free, link: end},
                        left - places,
                        max(now, end),
                    )

    held = {
        (c, n): 0
        for c, item in enumerate(instance.item)
        for n in range(task.topology.num_ranks)
        if instance.holders[item, n]
    }
    extend(held, dict.fromkeys(range(len(timed.ends)), 0), frozenset(wanted), 0)
    return best[0] * timed.tick
