"""Epochs: durations, capacities and holds by hand."""

from fractions import Fraction

from models.sccl import Instance
from models.teccl import Epochs
from schedules import collective
from tests.models.teccl.cases import problem
from topologies import Topology
from topologies.topology import Link


def test_a_slow_link_is_held_for_several_epochs_and_carries_more_in_long_ones():
    """By hand: 1 us is a chunk's time at 100 GB/s, 2.5 us at 40; α 0. In epochs of 2.5 us: 2 and 1 chunks."""
    task = problem("mesh:2x2?bandwidth=100GB/s,40GB/s&alpha=0us", size=400000)
    fast, slow = (
        Epochs(Instance(task.topology, task.collective, 1), task.size, x) for x in ("fastest", "slowest")
    )
    assert (fast.epoch, slow.epoch) == (Fraction(1, 10**6), Fraction(5, 2 * 10**6))
    assert {(d, n) for d, n in zip(fast.lasts, fast.carries, strict=True)} == {(1, 1), (3, 1)}
    assert {(d, n) for d, n in zip(slow.lasts, slow.carries, strict=True)} == {(1, 2), (1, 1)}


def test_links_of_a_route_are_held_as_the_time_clock_has_it():
    """By hand: α 1 us, chunks of 2 us, in epochs of 1 us: 4 epochs; the second link from 1 to 4."""
    links = [Link(0, 2, Fraction(10**9), Fraction(1, 10**6)), Link(2, 1, Fraction(10**9), Fraction(1, 10**6))]
    back = [Link(1, 2, Fraction(10**9), Fraction(1, 10**6)), Link(2, 0, Fraction(10**9), Fraction(1, 10**6))]
    topology = Topology.from_links("pair", 2, [*links, *back], num_switches=1)
    instance = Instance(topology, collective("allgather", 2), 1, switches=True)
    for backwards in (False, True):
        epochs = Epochs(instance, Fraction(4000), Fraction(1, 10**6), backwards)
        way = epochs.routes.number[0, 1]
        assert (epochs.lasts[way], epochs.carries[way]) == (4, 1)
        assert epochs.holds[way] == [(0, 0, 3), (1, 1, 4)]
