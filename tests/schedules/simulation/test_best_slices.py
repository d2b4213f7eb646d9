"""The number of slices of a flow: the best of the powers of two, within a budget."""

from fractions import Fraction

import numpy as np
import pytest

from tutti.schedules import Chunks, Clock, Schedule, collective
from tutti.schedules.simulation import simulate as simulator
from tutti.schedules.simulation.simulate import SimulationOptions, best_slices, simulate
from tutti.topologies import Link, Topology

SECOND, BYTES_A_SECOND = Fraction(1), Fraction(100)


def path(ranks: int) -> Topology:
    """Return a path with links of 100 B/s and 1 s in both directions."""
    ends = [pair for i in range(ranks - 1) for pair in ((i, i + 1), (i + 1, i))]
    links = [Link(a, b, BYTES_A_SECOND, SECOND) for a, b in ends]
    return Topology.from_links("path", ranks, links)


def broadcast(ranks: int, clock: Clock = Clock.FLOW) -> Schedule:
    """Return the broadcast from one end of a path to the other."""
    what = collective("broadcast", ranks, root=0)
    hops = ranks - 1
    order = None if clock is Clock.FLOW else np.arange(1, ranks)
    return Schedule(path(ranks), what, clock, Chunks.even(what), [0] * hops, np.arange(0, 2 * hops, 2), order)


def expected(hops: int, size: int, slices: int) -> float:
    """Return the time of s slices over h hops: (h + s - 1) times 1 s + b / (100 B/s)."""
    return (hops + slices - 1) * (1 + size / slices / 100)


@pytest.mark.parametrize(("size", "slices"), [(10, 1), (400, 4), (6400, 16), (102400, 64)])
def test_more_slices_are_picked_for_more_data(size, slices):
    """The slices minimize (4 + s - 1) (1 + M / 100 s) over powers of two, near s = sqrt(3 M / 100)."""
    found, time = best_slices(broadcast(5), Fraction(size))
    assert found == slices
    assert found == min((2**i for i in range(12)), key=lambda s: expected(4, size, s))
    assert time == pytest.approx(expected(4, size, slices), rel=1e-12)


def test_the_pick_is_never_slower_than_one_slice():
    schedule, size = broadcast(9), Fraction(10**6)
    _, time = best_slices(schedule, size)
    assert time < simulate(schedule, size).time / 4


def test_the_search_stays_within_its_budget():
    """4 slices over 8 hops are 32 hops to simulate."""
    schedule, size = broadcast(9), Fraction(10**6)
    assert best_slices(schedule, size, most_hops=32)[0] == 4
    assert best_slices(schedule, size, most_hops=31)[0] == 2
    assert best_slices(schedule, size, most_hops=0) == (1, simulate(schedule, size).time)


def test_the_time_is_that_of_a_simulation_with_so_many_slices():
    schedule, size = broadcast(4), Fraction(5000)
    slices, time = best_slices(schedule, size)
    assert time == simulate(schedule, size, SimulationOptions(slices=slices)).time


def test_without_latency_the_search_ends_where_little_is_gained(monkeypatch):
    """Two hops in s slices take (1 + 1/s) M / B: 2^11 slices gain a thousandth over 2^9, 2^13 gain less."""
    monkeypatch.setattr(simulator, "SLICING", simulator.SLICING._replace(gain=1e-3))
    ends = [(0, 1), (1, 2), (2, 0)]
    topology = Topology.from_links("path", 3, [Link(a, b, BYTES_A_SECOND, Fraction(0)) for a, b in ends])
    schedule = broadcast(3).replace(topology=topology, route=np.arange(2))
    assert best_slices(schedule, Fraction(10**6))[0] == 2**11


def test_other_clocks_are_not_sliced():
    schedule, size = broadcast(5, Clock.STEP), Fraction(6400)
    assert best_slices(schedule, size) == (1, simulate(schedule, size).time)
