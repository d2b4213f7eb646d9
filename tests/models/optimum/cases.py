"""Problems and verified schedules that the tests of the optimum share."""

from fractions import Fraction
from itertools import count, pairwise, product

import numpy as np

from tutti.experiments.registry import METHODS
from tutti.schedules import Problem, collective
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies.text import parse_topology

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


def exhaustive_over_routes(topology, ratio):
    """Least time of a broadcast of one chunk from rank 0, in α; the chunk takes `ratio` α over any link.

    A message comes to every other rank over a path from any other; all paths and whole starts are tried.
    """
    ranks, nodes = range(topology.num_ranks), range(topology.num_nodes)
    ends = set(zip(topology.source.tolist(), topology.target.tolist(), strict=True))

    def paths(so_far):
        if len(so_far) > 1:
            yield so_far
        yield from (
            path for b in nodes if b not in so_far and (so_far[-1], b) in ends for path in paths((*so_far, b))
        )

    ways = [[path for a in ranks for path in paths((a,)) if path[-1] == b] for b in ranks]

    def possible(chosen, there, held, until):
        """Whether the rest of the chosen paths can be taken; the next of those whose start is there."""
        if not chosen:
            return True
        for path in chosen:
            if path[0] not in there:
                continue
            lasts = len(path) - 1 + ratio
            for start in range(there[path[0]], until - lasts + 1):
                uses = {
                    (link, start + hop + tick)
                    for hop, link in enumerate(pairwise(path))
                    for tick in range(1 + ratio)
                }
                if not uses & held:
                    rest, came = chosen - {path}, {**there, path[-1]: start + lasts}
                    if possible(rest, came, held | uses, until):
                        return True
        return False

    choices = [frozenset(choice) for choice in product(*ways[1:])]
    return next(
        until for until in count(1) if any(possible(choice, {0: 0}, set(), until) for choice in choices)
    )
