"""Whole trees of an optimum: how many of each root and arc, and lower ones that are as good."""

from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.models.allreduce.oracles import random_network
from tutti.models.allreduce import ALLREDUCE_LP as METHOD
from tutti.models.allreduce import AllreduceLpOptions, allreduce_optimum
from tutti.models.allreduce.trees import rounded_plan
from tutti.schedules import Problem, Schedule, collective
from tutti.schedules.cost import congestion
from tutti.schedules.verify import verify
from tutti.topologies import Topology
from tutti.topologies.text import parse_topology

GB = 10**9


def make(topology: Topology, what=None, **options) -> Schedule:
    problem = Problem(topology, what or collective("allreduce", topology.num_ranks))
    return METHOD.synthesize(problem, AllreduceLpOptions(**options), np.random.default_rng(0))


def _carries(half, density, roots):
    units = np.array([int(density * int(c)) for c in half.capacity])
    return all(
        units[inside[half.tails] & ~inside[half.heads]].sum() >= roots[inside].sum()
        for inside in map(np.array, product([False, True], repeat=len(roots)))
        if not inside.all()
    )


def test_roots_add_up_and_capacities_are_the_least_rounded_ones_that_carry_them():
    """Every U below, at which fewer trees fit on some arc, leaves a set without enough: by all sets."""
    for seed in range(6):
        topology = random_network(seed)
        shares = allreduce_optimum(topology).shares
        plan = rounded_plan(shares, 7)
        assert plan.roots.sum() == 7
        for half, capacity in zip(shares.halves, plan.capacity, strict=True):
            levels = {Fraction(j, int(c)) for c in half.capacity if c for j in range(1, 40)}
            fits = [u for u in sorted(levels) if _carries(half, u, plan.roots)]
            assert [int(fits[0] * int(c)) for c in half.capacity] == capacity.tolist()


@pytest.mark.parametrize(
    ("text", "hops"),
    [
        ("mesh:6x6", 20),  # a spine and the columns on it are 10 high from any root, up and down
        ("hypercube:4", 8),  # no root is nearer to all than 4 hops, and as high trees do
        ("dgx_a100:2", 4),  # into the other box and there to all, at best: 2 hops up, 2 down
    ],
)
def test_low_trees_are_taken_where_they_are_as_good(text, hops):
    topology = parse_topology(text)
    own, low = make(topology, shallow_trees=False), make(topology)
    verify(low)
    assert low.stats["height"] <= hops < own.stats["height"]
    assert congestion(low) == congestion(own) == low.claims["congestion"]


def test_trees_that_are_lower_but_slower_are_not_taken():
    """ForestColl's are 2 hops each way, but a third slower (docs/allreduce.md, "The smallest example")."""
    triangle = parse_topology(str(Path(__file__).parents[3] / "configs/networks/triangle.json"))
    assert congestion(make(triangle)) * GB == Fraction(1, 100)
