"""The search: proven optima of small networks are found, also in reverse; what is too large is refused."""

from fractions import Fraction

import numpy as np
import pytest

from tutti.heuristics.refine import refined
from tutti.schedules import Problem, collective
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import Unsupported
from tutti.topologies.text import parse_topology

OPTIMA = {"ring:4": 2.5, "ring:5": 2.6, "torus:3x3": 17 / 9, "mesh:2x3": 19 / 6, "complete:4": 1.5}
"""us, of allgathers of 200 KB: proven with 1 to 4 pieces a shard by the constraint program of `optimum`."""


def found(text, kind, size=200_000, seconds=0.2, **given):
    topology = parse_topology(text)
    problem = Problem(topology, collective(kind, topology.num_ranks, **given), Fraction(size))
    schedule = refined(problem, [], seconds, np.random.default_rng(0), lambda half, until: [])
    verify(schedule)
    return simulate(schedule, problem.size).time * 1e6


@pytest.mark.parametrize("text", OPTIMA)
@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter"])
def test_proven_optima_are_found(text, kind):
    assert found(text, kind) == pytest.approx(OPTIMA[text], rel=1e-3)


@pytest.mark.parametrize("kind", ["broadcast", "reduce", "gather", "scatter"])
def test_rooted_collectives(kind):
    """The link between two ranks takes α and the bytes, and for a shard half of them."""
    part = 1 if kind in ("broadcast", "reduce") else 2
    assert found("mesh:2x1", kind, seconds=0.02) == pytest.approx(0.5 + 4 / part)


def test_uneven_shards():
    """Rank 0's shard has three quarters of 200 KB, 3 us a link; the other goes meanwhile."""
    assert found("mesh:2x1", "allgather", seconds=0.02, shards=[3, 1]) == pytest.approx(3.5)


def test_too_large_networks_are_refused():
    with pytest.raises(Unsupported, match=r"local_search: [0-9]+ transfers; at most"):
        found("mesh:43x43", "allgather")
