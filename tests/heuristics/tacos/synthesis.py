"""What the tests of TACOS share: how a schedule is made, and the generator of its random numbers."""

from fractions import Fraction

import numpy as np

from tutti.heuristics.tacos import METHOD, TacosOptions
from tutti.schedules import Problem, collective
from tutti.topologies.text import parse_topology

GB = Fraction(10**9)
MASK = 2**64 - 1


def tacos(topology, kind="allgather", *, size=GB, seed=0, root=None, groups=None, **options):
    """Return a schedule, given a network or its text, and a collective or its kind."""
    if isinstance(topology, str):
        topology = parse_topology(topology)
    if isinstance(kind, str):
        kind = collective(kind, topology.num_ranks, root=root, groups=groups)
    problem = Problem(topology, kind, None if size is None else Fraction(size))
    METHOD.supports(problem, TacosOptions(**options))
    return METHOD.synthesize(problem, TacosOptions(**options), np.random.default_rng(seed))


def mixed(word):
    """The output function of SplitMix64 (doi 10.1145/2660193.2660195) with Python's integers."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def below(word, bound):
    """Return a number below a bound from the high half of a random word."""
    return (word >> 32) * bound >> 32


class SplitMix:
    """The whole generator."""

    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        return below(mixed(self.state), bound)

    def shuffle(self, values):
        for last in range(len(values) - 1, 0, -1):
            other = self.below(last + 1)
            values[last], values[other] = values[other], values[last]

    def choice(self, elements):
        ordered = sorted(elements)
        return ordered[self.below(len(ordered)) if len(ordered) > 1 else 0]
