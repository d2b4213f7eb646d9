"""The examples of docs/simulator.md, worked out by hand: links of 100 B/s and α = 1 s, messages of 100 B."""

from fractions import Fraction

import numpy as np
import pytest

from tests.schedules.builders import link
from tests.sweep import for_each
from tutti.schedules import Chunks, Clock, Routes, Schedule, collective
from tutti.schedules.simulation.simulate import SimulationOptions, best_slices, simulate, watch
from tutti.schedules.verify import verify
from tutti.topologies import InputError, Topology

SIZE = 100
IN_FLIGHT = SimulationOptions(overlap_alpha=True)
WHOLE = SimulationOptions(store_and_forward=True)
ASTRA = SimulationOptions(overlap_alpha=True, store_and_forward=True)


def flow(topology, rows, routes=None):
    """Return a broadcast from rank 0 as a flow, whose rows each carry all of M over a route."""
    what = collective("broadcast", topology.num_ranks, root=0)
    chunk, route = np.zeros(len(rows), np.int32), np.array(rows, np.int32)
    table = None if routes is None else Routes.of(routes)
    return Schedule(topology, what, Clock.FLOW, Chunks.even(what), chunk, route, routes=table)


def one_after_the_other():
    """Return two messages over one link."""
    return flow(Topology.from_links("pair", 2, [link(0, 1), link(1, 0)]), [0, 0])


def over_two_links():
    """Return one message through a switch."""
    topology = Topology.from_links(
        "star", 2, [link(0, 2), link(2, 1), link(1, 2), link(2, 0)], num_switches=1
    )
    return flow(topology, [0], [[0, 1]])


def two_to_one():
    """Return two ranks that send to a third through a switch, without α; it forwards the first message."""
    links = [
        link(a, b, alpha=Fraction(0)) for a, b in [(0, 4), (1, 4), (4, 2), (2, 3), (3, 4), (4, 0), (4, 1)]
    ]
    topology = Topology.from_links("funnel", 4, links, num_switches=1)
    what = collective("gather", 4, root=3)
    chunks = Chunks.even(what)
    table = Routes.of([[0, 2], [1, 2], [3]])
    return Schedule(
        topology,
        what,
        Clock.FLOW,
        chunks,
        np.array([0, 1, 0], np.int32),
        np.array([0, 1, 2], np.int32),
        routes=table,
    )


@pytest.mark.parametrize(
    ("made", "options", "seconds"),
    [
        (one_after_the_other, SimulationOptions(), 4),  # each holds the link for 1 s + 100 B / (100 B/s)
        (one_after_the_other, IN_FLIGHT, 3),  # the second enters after 1 s and takes 2 s
        (one_after_the_other, ASTRA, 3),
        (over_two_links, SimulationOptions(), 3),  # twice α, once 100 B / (100 B/s)
        (over_two_links, WHOLE, 4),  # twice both
        (over_two_links, ASTRA, 4),
    ],
)
def test_messages_of_a_hundred_bytes(made, options, seconds):
    assert simulate(made(), SIZE, options).time == seconds


def test_two_messages_take_turns():
    """The port to rank 2 has the first message until 1 s, then the second; the first is forwarded until 2 s.

    If they shared the port, both would arrive at 2 s, and the first would be forwarded until 3 s.
    """
    assert simulate(two_to_one(), 4 * SIZE).finish.tolist() == [1, 2, 2]


def star_allgather(steps):
    """An allgather of four ranks on a switch. In step k each sends a shard to the rank steps[k - 1] after."""
    topology = Topology.from_links(
        "star", 4, [link(i, 4) for i in range(4)] + [link(4, i) for i in range(4)], num_switches=1
    )
    what = collective("allgather", 4)
    rows = [((i + step - k) % 4, i, (i + step) % 4) for k, step in enumerate(steps, 1) for i in range(4)]
    chunk, source, target = np.array(rows, np.int32).T
    routes = Routes.of([[i, 4 + j] for i, j in zip(source.tolist(), target.tolist(), strict=True)])
    return Schedule(
        topology,
        what,
        Clock.STEP,
        Chunks.even(what),
        chunk,
        np.arange(12, dtype=np.int32),
        np.repeat(np.arange(1, 4, dtype=np.uint16), 4),
        routes=routes,
    )


@for_each("share", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(7)])
@for_each("size", [4, 400, 40_000])
def test_connections_of_a_port_cost_bandwidth_and_no_alpha(share, size):
    """As TACCL's Figs 4 and 9(d), by hand. A shard takes s seconds on a link.

    Around a ring each port has one connection: 3 (2 + s). With three connections s becomes (1 + 2 share) s,
    and messages follow one another on the port: 3 (1 + s) + 1. Little data goes faster so, much data slower.
    """
    seconds, options = Fraction(size, 400), SimulationOptions(congestion=share)
    ring, direct = star_allgather([1, 1, 1]), star_allgather([1, 2, 3])
    for schedule in (ring, direct):
        verify(schedule)
    around = 3 * (2 + seconds)
    straight = 3 * (1 + seconds * (1 + 2 * share)) + 1
    assert simulate(ring, size, options).time == pytest.approx(float(around), rel=1e-12)
    assert simulate(direct, size, options).time == pytest.approx(float(straight), rel=1e-12)
    busy = watch(direct, size, options)[1]
    assert max(busy.end - busy.begin) == pytest.approx(float(1 + seconds * (1 + 2 * share)), rel=1e-9)
    assert (straight < around) == (3 * seconds * share < 1)


def test_only_ports_of_switches_are_congested():
    """Rank 1 forwards to 2 and to 3: two pairs of ends on the link from 0."""
    links = [link(0, 1), link(1, 2), link(1, 3), link(2, 0), link(3, 0)]
    schedule = flow(Topology.from_links("fork", 4, links), [0, 1], [[0, 1], [0, 2]])
    assert simulate(schedule, SIZE, SimulationOptions(congestion=9)).time == simulate(schedule, SIZE).time


@pytest.mark.parametrize("wrong", [-1, Fraction(-1, 10), 0.5, None, "1"])
def test_a_congestion_is_exact_and_not_negative(wrong):
    with pytest.raises(InputError, match=r"^congestion is .*; it must be a Fraction or an integer, at le"):
        SimulationOptions(congestion=wrong)


def test_slices_are_chosen_under_the_rule_that_is_asked_for():
    """20 000 B over two links in S slices take (S + 1)(1 + 200/S) or, with α in flight, 2 + 200 (S + 1)/S."""
    topology = Topology.from_links("chain", 3, [link(0, 1), link(1, 2), link(2, 1), link(1, 0)])
    schedule = flow(topology, [0, 1])
    for options, times in (
        (SimulationOptions(), {s: (s + 1) * (1 + 200 / s) for s in (1, 8, 16, 32)}),
        (IN_FLIGHT, {s: 2 + 200 * (s + 1) / s for s in (1, 8, 16, 4096)}),
    ):
        slices, seconds = best_slices(schedule, Fraction(20_000), 2**13, options)
        assert times.get(slices, seconds) == pytest.approx(seconds)
        assert seconds <= min(times.values()) * (1 + 1e-9)
