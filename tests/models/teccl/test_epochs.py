"""Epochs: durations, capacities and holds by hand."""

from fractions import Fraction

import pytest

from tests.models.teccl.cases import METHOD, SIZE, made_on, network, problem
from tutti.models.teccl import Epochs
from tutti.models.time_expanded import ChunkInstance, routes_of
from tutti.schedules import Problem, collective
from tutti.schedules.schedule import Routes
from tutti.topologies import Topology, Unsupported
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Link


def test_routes_are_links_or_pass_switches():
    """Two machines of two ranks: within one over its own switch or the network, else over the network."""
    topology = parse_topology("dgx_a100:2?ranks=2+2")
    routes = routes_of(topology)
    ends = sorted(routes.ends)
    near = [(0, 1), (1, 0), (2, 3), (3, 2)]
    far = [(a, b) for a in range(4) for b in range(4) if a // 2 != b // 2]
    assert ends == sorted([*near, *near, *far])
    for links, (a, b) in zip(routes.links, routes.ends, strict=True):
        nodes = [a, *topology.target[list(links)].tolist()]
        assert nodes[1:-1] == topology.source[list(links[1:])].tolist()
        assert all(node >= 4 for node in nodes[1:-1])
        assert nodes[-1] == b
    assert not Routes.of(routes.links).are_links
    assert Routes.of(routes_of(parse_topology("ring:4")).links).are_links


def test_routes_through_too_many_switches_are_not_supported():
    topology = parse_topology("dgx_a100:32")
    task = Problem(topology, collective("allgather", topology.num_ranks), Fraction(SIZE))
    with pytest.raises(Unsupported, match=r"^teccl: dgx_a100:32 has over 16384 routes through switches$"):
        METHOD.supports(task, METHOD.options())


@pytest.mark.parametrize("kind", ["broadcast", "allreduce"])
def test_links_to_a_switch_that_no_way_passes_do_not_shift_the_others(kind):
    """Both ranks are joined directly, so nothing goes over the switch, whose links come first."""
    where = network(2, [(0, 2, 1, 1), (2, 1, 1, 1), (0, 1, 1, 1), (1, 0, 1, 1)], num_switches=1)
    schedule = made_on(where, kind)
    table = schedule.route_table
    assert set(table.links[table.offsets[schedule.route]].tolist()) <= {2, 3}


def test_a_slow_link_is_held_for_several_epochs_and_carries_more_in_long_ones():
    """A chunk takes 1 us at 100 GB/s, 2.5 us at 40; α 0. In epochs of 2.5 us: 2 and 1 chunks."""
    task = problem("mesh:2x2?bandwidth=100GB/s,40GB/s&alpha=0us", size=400000)
    fast, slow = (
        Epochs(ChunkInstance(task.topology, task.collective, 1), task.size, x) for x in ("fastest", "slowest")
    )
    assert (fast.tick, slow.tick) == (Fraction(1, 10**6), Fraction(5, 2 * 10**6))
    assert {(d, n) for d, n in zip(fast.lasts, fast.carries, strict=True)} == {(1, 1), (3, 1)}
    assert {(d, n) for d, n in zip(slow.lasts, slow.carries, strict=True)} == {(1, 2), (1, 1)}


def test_links_of_a_route_are_held_as_the_time_clock_has_it():
    """α is 1 us and chunks take 2 us: 4 epochs of 1 us; the second link is held from 1 to 4."""
    links = [Link(0, 2, Fraction(10**9), Fraction(1, 10**6)), Link(2, 1, Fraction(10**9), Fraction(1, 10**6))]
    back = [Link(1, 2, Fraction(10**9), Fraction(1, 10**6)), Link(2, 0, Fraction(10**9), Fraction(1, 10**6))]
    topology = Topology.from_links("pair", 2, [*links, *back], num_switches=1)
    instance = ChunkInstance(topology, collective("allgather", 2), 1, switches=True)
    for backwards in (False, True):
        epochs = Epochs(instance, Fraction(4000), Fraction(1, 10**6), backwards)
        way = epochs.routes.number[0, 1]
        assert (epochs.lasts[way], epochs.carries[way]) == (4, 1)
        assert epochs.holds[way] == [(0, 0, 3), (1, 1, 4)]
