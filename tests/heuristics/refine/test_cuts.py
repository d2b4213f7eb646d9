"""The best cuts: those found by hand, and never worse ones, whatever the messages."""

from fractions import Fraction

import numpy as np
import pytest

from tutti.heuristics.refine.instance import RefineInstance, RoutedNetwork, by_steps
from tutti.heuristics.refine.refinement import AnnealingSearch
from tutti.schedules import Problem, collective
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies.graphs.free_action import free_group
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Link, Topology

MEGABYTE = Fraction(10**6)
ALPHA = Fraction(1, 10**6)


def search(topology, kind, pieces, size):
    what = collective(kind, topology.num_ranks)
    network = RoutedNetwork.of(topology, free_group(topology) if what.root is None else None)
    instance = RefineInstance(Problem(topology, what, size), network, pieces)
    return AnnealingSearch(instance, by_steps(instance, pieces), np.random.default_rng(0))


def of_links(ranks, *links):
    """A network of links with α = 1 us, each a source, a target and MB a us."""
    both = [*links, *((target, source, speed) for source, target, speed in links)]
    return Topology.from_links(
        "by hand", ranks, [Link(source, target, speed * 10**12, ALPHA) for source, target, speed in both]
    )


def test_two_unequal_links():
    """3 MB over 2 and 1 MB/us: halves take 1 + 1.5 us; 2 MB and 1 MB end together, after 1 + 1."""
    found = search(of_links(2, (0, 1, 2), (0, 1, 1)), "broadcast", 2, 3 * MEGABYTE)
    assert found.end == pytest.approx(2.5e-6)
    found.cut(1.0)
    assert found.end == pytest.approx(2e-6)


def test_two_messages_in_turn():
    """4 MB down a path of 1 and then 1/2 MB/us in two messages, of x and 4 - x MB.

    The second leaves the middle when it has come and the first has left, at max(6, 2 + 3x). It takes
    1 + 2 (4 - x): T = max(15 - 2x, 11 + x), which is least, 37/3, for x = 4/3; halves take 13.
    """
    found = search(of_links(3, (0, 1, 1), (1, 2, Fraction(1, 2))), "broadcast", 1, 4 * MEGABYTE)
    assert found.end == pytest.approx(14e-6)
    found = search(of_links(3, (0, 1, 1), (1, 2, Fraction(1, 2))), "broadcast", 2, 4 * MEGABYTE)
    found.plans[-1].begins[:4] = True
    found.cut(1.0)
    assert found.end == pytest.approx(37 / 3 * 1e-6)


@pytest.mark.parametrize("kind", ["allgather", "allreduce", "all-to-all", "broadcast"])
@pytest.mark.parametrize("text", ["ring:5", "mesh:2x3", "switch2d:2x2", "dgx1"])
def test_cuts_are_never_worse(text, kind):
    found = search(parse_topology(text), kind, 2, MEGABYTE)
    found.change(200, 1e-6)
    before = found.end
    found.cut(1.0)
    assert found.end <= before
    schedule = found.instance.schedule(found.plans[-1])
    verify(schedule)
    assert simulate(schedule, MEGABYTE).time == pytest.approx(found.end, rel=1e-9)
