"""Random networks for bounds on time, and schedules beside them."""

from fractions import Fraction

import numpy as np

from tutti.experiments.registry import METHODS
from tutti.schedules.simulation.simulate import simulate
from tutti.topologies import Link, Topology
from tutti.topologies.errors import NoSchedule, Unsupported

MICRO = Fraction(1, 10**6)


def network_of(seed):
    """A random network with switches, whose links have bandwidths and α's of their own or all the same."""
    rng = np.random.default_rng(seed)
    ranks, switches, alike = int(rng.integers(3, 7)), int(rng.integers(0, 2)), rng.integers(2)
    cycle = rng.permutation(ranks + switches)
    ends = [*zip(cycle, np.roll(cycle, -1), strict=True), *rng.integers(0, len(cycle), (6, 2))]
    links = [
        Link(
            int(a), int(b), Fraction(10**9 * (1 + way % 3 * (1 - alike))), MICRO * (1 + way % 2 * (1 - alike))
        )
        for tail, head in ends
        for way, (a, b) in enumerate(((tail, head), (head, tail)), int(rng.integers(6)))
        if a != b
    ]
    return Topology.from_links(f"random {seed}", ranks, links, num_switches=switches)


def times_of(names, problem, size, seed):
    """Yield the name and the time of each of these methods that makes a schedule."""
    for name in names:
        method = METHODS[name]
        try:
            method.supports(problem, method.options())
            schedule = method.synthesize(problem, method.options(), np.random.default_rng(seed))
        except (Unsupported, NoSchedule):
            continue
        yield name, simulate(schedule, size).time
