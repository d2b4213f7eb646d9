"""Multicast and aggregation in the network, as post-processing."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.models.forestcoll.multicast import TrafficTotals, multicast
from tutti.schedules import Chunks, Clock, Routes, Schedule, collective
from tutti.schedules.cost import congestion, link_loads
from tutti.schedules.reversal import reverse
from tutti.schedules.verify import verify
from tutti.topologies import InputError, Link, Topology
from tutti.topologies.transforms import transpose


def star(n: int, **able) -> Topology:
    """n ranks round switch n: link 2i from rank i, link 2i + 1 to it."""
    links = [link for i in range(n) for link in (Link(i, n), Link(n, i))]
    return Topology.from_links("star", n, links, num_switches=1, **able)


def allgather_over_star(topology: Topology) -> Schedule:
    """Every rank sends its shard to each other."""
    n = topology.num_ranks
    routes = [[2 * i, 2 * j + 1] for i in range(n) for j in range(n) if i != j]
    what = collective("allgather", n)
    return Schedule(
        topology,
        what,
        Clock.FLOW,
        Chunks.even(what),
        np.repeat(np.arange(n), n - 1),
        np.arange(len(routes)),
        routes=Routes.of(routes),
    )


def routes_of(schedule: Schedule) -> list[list[int]]:
    table = schedule.route_table
    return [table.links[table.offsets[r] : table.offsets[r + 1]].tolist() for r in schedule.route]


def test_a_rank_sends_its_shard_to_a_switch_once():
    topology = star(4, multicast=[4])
    schedule = multicast(allgather_over_star(topology))
    verify(schedule)
    assert routes_of(schedule)[:4] == [[0], [3], [5], [7]]
    assert link_loads(schedule).tolist() == [1, 3] * 4
    assert TrafficTotals.of(schedule).columns() == {
        "rank_egress": 0.25,
        "rank_ingress": 0.75,
        "link_traffic": 4.0,
    }
    assert TrafficTotals.of(allgather_over_star(topology)).columns("_unicast") == {
        "rank_egress_unicast": 0.75,
        "rank_ingress_unicast": 0.75,
        "link_traffic_unicast": 6.0,
    }


def test_ranks_receive_as_much_as_before_so_the_congestion_stays():
    topology = star(4, multicast=[4])
    before = allgather_over_star(topology)
    assert congestion(multicast(before)) == congestion(before) == Fraction(3, 4) / topology.bandwidth[0]


def test_a_network_without_able_switches_is_left_alone():
    schedule = allgather_over_star(star(3))
    assert multicast(schedule) is schedule


def test_run_backwards_it_aggregates():
    topology = star(4, aggregate=[4])
    schedule = reverse(
        multicast(allgather_over_star(transpose_of(topology))), transpose(transpose_of(topology))
    )
    verify(schedule)
    assert schedule.collective.kind == "reduce-scatter"
    assert schedule.reduce.all()
    assert sorted(link_loads(schedule).tolist()) == [1] * 4 + [3] * 4


def transpose_of(topology: Topology) -> Topology:
    """Return the same star with multicast, whose transpose aggregates."""
    return replace(topology, multicast=topology.aggregate, aggregate=frozenset())


def test_a_transfer_that_no_other_joins_stays_whole():
    topology = star(2, multicast=[2])
    schedule = multicast(allgather_over_star(topology))
    assert routes_of(schedule) == [[0, 3], [2, 1]]


# Two boxes of two ranks (0, 1 | 2, 3) with a switch each (4, 5), and switch 6 that joins all ranks.
BOXES = [(r, 4 + r // 2) for r in range(4)] + [(r, 6) for r in range(4)]
INTO = {pair: 2 * i for i, pair in enumerate(BOXES)}
OUT = {pair: 2 * i + 1 for i, pair in enumerate(BOXES)}


def boxes(*able: int) -> Topology:
    links = [link for rank, switch in BOXES for link in (Link(rank, switch), Link(switch, rank))]
    return Topology.from_links("boxes", 4, links, num_switches=3, multicast=able)


def hop(a: int, switch: int, b: int) -> list[int]:
    return [INTO[a, switch], OUT[b, switch]]


def broadcast(topology: Topology, routes: list[list[int]], **columns) -> Schedule:
    what = collective("broadcast", 4, root=0)
    zeros = np.zeros(len(routes), dtype=int)
    table = {"chunk": zeros, "chunks": Chunks.even(what), **columns}
    return Schedule(
        topology, what, Clock.FLOW, route=np.arange(len(routes)), routes=Routes.of(routes), **table
    )


def test_as_in_figure_4_8_what_the_box_has_is_not_sent_to_its_switch_again():
    """Two ranks get it over switch 6, to which rank 0 sends it once; rank 2 passes it on in its box."""
    tree = [hop(0, 6, 2), hop(0, 6, 1), hop(2, 5, 3)]
    schedule = multicast(broadcast(boxes(4, 5, 6), tree))
    verify(schedule)
    assert routes_of(schedule) == [[INTO[0, 6]], [OUT[2, 6]], [OUT[1, 6]], hop(2, 5, 3)]


def test_a_transfer_of_another_rank_starts_at_the_switch_too():
    """Rank 1 sends over switch 6 what rank 0 has sent there."""
    tree = [hop(0, 4, 1), hop(0, 6, 2), hop(1, 6, 3)]
    schedule = multicast(broadcast(boxes(6), tree))
    verify(schedule)
    assert routes_of(schedule) == [hop(0, 4, 1), [INTO[0, 6]], [OUT[2, 6]], [OUT[3, 6]]]


def test_only_switches_that_can_are_used():
    tree = [hop(0, 4, 1), hop(0, 6, 2), hop(1, 6, 3)]
    schedule = broadcast(boxes(4), tree)
    assert routes_of(multicast(schedule)) == tree


def test_a_run_is_cut_where_only_some_of_its_chunks_are_at_the_switch():
    """Chunks 0-1 pass switch 6 to rank 2, chunks 0-3 to rank 3; 2-3 reach rank 2 over box 2's switch."""
    what = collective("broadcast", 4, root=0)
    tree = [hop(0, 4, 1), hop(0, 6, 2), hop(0, 6, 3), hop(3, 5, 2)]
    schedule = broadcast(
        boxes(6),
        tree,
        chunks=Chunks.even(what, 4),
        chunk=np.array([0, 0, 0, 2]),
        count=np.array([4, 2, 4, 2]),
    )
    verify(schedule)
    cut = multicast(schedule)
    verify(cut)
    assert routes_of(cut) == [
        hop(0, 4, 1),
        [INTO[0, 6]],
        [OUT[2, 6]],
        [OUT[3, 6]],
        hop(0, 6, 3),
        hop(3, 5, 2),
    ]
    assert cut.chunk.tolist() == [0, 0, 0, 0, 2, 2]
    assert cut.count.tolist() == [4, 2, 2, 2, 2, 2]


def test_a_chain_of_switches_is_entered_at_the_last_that_holds_it():
    """Ranks 0 and 1 are at switch 4, ranks 2 and 3 at switch 5."""
    ends = [(0, 4), (1, 4), (2, 5), (3, 5), (4, 5)]
    links = [link for a, b in ends for link in (Link(a, b), Link(b, a))]
    topology = Topology.from_links("chain", 4, links, num_switches=2, multicast=[4, 5])
    tree = [[0, 8, 5], [0, 3], [0, 8, 7]]
    schedule = multicast(broadcast(topology, tree))
    verify(schedule)
    assert routes_of(schedule) == [[0], [8], [5], [3], [7]]


def test_other_schedules_are_refused():
    schedule = reverse(allgather_over_star(star(3)))
    with pytest.raises(InputError, match="multicast: reduce-scatter in the flow clock is no flow of copies"):
        multicast(schedule)


@given(st.integers(3, 6), st.randoms(use_true_random=False))
def test_random_broadcast_trees_stay_legal_and_only_lose_traffic(n, random):
    """Ranks joined by two switches, of which one or both can multicast."""
    switches = [n, n + 1]
    links, at = [], {}
    for rank in range(n):
        for switch in switches:
            at[rank, switch] = len(links)
            links += [Link(rank, switch), Link(switch, rank)]
    able = random.choice([[n], [n + 1], switches])
    topology = Topology.from_links("two", n, links, num_switches=2, multicast=able)
    what = collective("broadcast", n, root=0)
    routes, first, count = [], [], []
    for begin, length in ((0, 2), (2, 1), (3, 3)):
        reached = [0]
        for rank in random.sample(range(1, n), n - 1):
            switch = random.choice(switches)
            routes.append([at[random.choice(reached), switch], at[rank, switch] + 1])
            first.append(begin)
            count.append(length)
            reached.append(rank)
    chunks = Chunks.even(what, 6)
    rows = {"chunk": first, "count": count, "route": range(len(routes))}
    schedule = Schedule(topology, what, Clock.FLOW, chunks, routes=Routes.of(routes), **rows)
    verify(schedule)
    cut = multicast(schedule)
    verify(cut)
    loads, before = link_loads(cut), link_loads(schedule)
    down = topology.target < n
    assert (loads <= before).all()
    assert (loads[down] == before[down]).all()
    for switch in able:
        assert loads[topology.target == switch].sum() <= 6
