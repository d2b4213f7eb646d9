"""Problems and verified schedules that the tests of the optimum share."""

from fractions import Fraction

import numpy as np

from experiments.registry import METHODS
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
    """Least seconds over all orders in which links send single chunks or bundles, for very few sends.

    Every schedule is an order of sends (link, chunks) by their starts, each as early as its link and its
    chunks allow, to ranks that must have the chunks or may pass them on.
    """
    items, where = task.collective.items, task.topology
    ends = list(zip(where.source.tolist(), where.target.tolist(), strict=True))
    alpha = list(where.alpha)
    takes = [task.size * items.share[0] / bandwidth for bandwidth in where.bandwidth]
    held, left = {}, set()
    for c, (start, end, group) in enumerate(zip(items.start, items.end, items.group, strict=True)):
        held[c, int(start)] = Fraction(0)
        left |= {(c, n) for n in (task.collective.members[group] if end < 0 else (int(end),))}
    best = [Fraction(1)]

    def extend(held, free, left, since, now):
        if not left:
            best[0] = min(best[0], now)
            return
        moving = sorted({c for c, _ in left})
        for link, (a, b) in enumerate(ends):
            able = [c for c in moving if (c, a) in held and (c, b) not in held]
            for mask in range(1, 1 << len(able)):
                some = [c for i, c in enumerate(able) if mask >> i & 1]
                start = max([free[link], *(held[c, a] for c in some)])
                end = start + alpha[link] + takes[link] * len(some)
                if start >= since and end < best[0]:
                    places = {(c, b): end for c in some}
                    until = max(now, end) if left & places.keys() else now
                    extend(held | places, free | {link: end}, left - places.keys(), start, until)

    none = Fraction(0)
    extend(held, dict.fromkeys(range(len(ends)), none), left - held.keys(), none, none)
    return best[0]
