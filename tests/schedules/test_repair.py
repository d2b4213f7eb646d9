"""Repair: loads by hand on networks of four, and random failures of random networks, all verified."""

from fractions import Fraction

import numpy as np
import pytest

from tutti.experiments.registry import METHODS
from tutti.schedules import Chunks, Clock, Problem, Schedule, collective
from tutti.schedules.cost import congestion, link_loads
from tutti.schedules.repair import fastest_repair, repaired, rerouted
from tutti.schedules.schedule import Routes
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import InputError, NoSchedule, parse_topology
from tutti.topologies.errors import Disconnected, Unsupported
from tutti.topologies.options import build_options
from tutti.topologies.text import with_words
from tutti.topologies.transforms import linked_pairs

BANDWIDTH = Fraction(50 * 10**9)


def made(network, kind, method, size=10**6, **options):
    how, topology = METHODS[method], parse_topology(network)
    problem = Problem(topology, collective(kind, topology.num_ranks), Fraction(size))
    options = build_options(how, options)
    how.supports(problem, options)
    return how.synthesize(problem, options, np.random.default_rng(0))


def by_hand(network, kind, ways, *, reduce=False):
    """Return a flow of one datum over these links, each given by its ends."""
    topology = parse_topology(network)
    what = collective(kind, topology.num_ranks)
    names = [topology.link_name(link) for link in range(topology.num_links)]
    route = np.array([names.index(way) for way in ways])
    adds = np.ones(len(ways), bool) if reduce else None
    chunks = Chunks.even(what)
    return Schedule(topology, what, Clock.FLOW, chunks, np.zeros(len(ways), int), route, reduce=adds)


def loads(schedule):
    """Return the load of each link that carries data, as a part of M, by the link's name."""
    amounts = zip(link_loads(schedule).tolist(), range(schedule.topology.num_links), strict=True)
    whole = schedule.chunks.denominator
    return {schedule.topology.link_name(link): Fraction(amount, whole) for amount, link in amounts if amount}


def test_a_ring_with_a_link_cut_carries_both_ways_over_the_others():
    """Half of each shard goes in each direction, 3/8 of M on each link; that of the cut links goes round.

    The other links then carry 6/8 of M, which a rank at the cut must receive over its only link anyway.
    """
    schedule, left = made("ring:4", "allgather", "ring"), parse_topology("ring:4?drop_links=0-1")
    assert set(loads(schedule).values()) == {Fraction(3, 8)}
    old = rerouted(schedule, left)
    verify(old)
    assert set(loads(old).values()) == {Fraction(6, 8)}
    assert len(loads(old)) == 6
    assert old.stats["changed"] == 6
    best = repaired(schedule, left)
    verify(best)
    assert congestion(best) == Fraction(6, 8) / BANDWIDTH


def test_a_copy_comes_from_others_that_have_it_and_a_detour_doubles_a_load():
    """Rank 0 sends M to each of three. Without 0-1, 2 and 3 forward half each, or a link would carry 2 M."""
    schedule = by_hand("complete:4", "broadcast", ["0->2", "0->3", "0->1"])
    left = parse_topology("complete:4?drop_links=0-1")
    best, old = repaired(schedule, left), rerouted(schedule, left)
    for one in (best, old):
        verify(one)
        assert one.stats["changed"] == 1
    half = Fraction(1, 2)
    assert loads(best) == {"0->2": 1, "0->3": 1, "2->1": half, "3->1": half}
    assert sorted(loads(old).values()) == [1, 1, 2]


def test_a_contribution_is_added_elsewhere_on_its_way():
    """This is the reverse: rank 1's data for rank 0 go through the sums of 2 and 3, half each."""
    schedule = by_hand("complete:4", "reduce", ["1->0", "2->0", "3->0"], reduce=True)
    best = repaired(schedule, parse_topology("complete:4?drop_links=0-1"))
    verify(best)
    half = Fraction(1, 2)
    assert loads(best) == {"2->0": 1, "3->0": 1, "1->2": half, "1->3": half}


def in_time(kind, rows, *, reduce=False, chunks=1):
    """Return a schedule on complete:4 for M = 1 MB; a row is a microsecond, a chunk and a link."""
    topology, what = parse_topology("complete:4"), collective(kind, 4)
    names = [topology.link_name(link) for link in range(topology.num_links)]
    start, chunk, route = zip(*((s, c, names.index(way)) for s, c, way in rows), strict=True)
    adds = np.ones(len(rows), bool) if reduce else None
    columns = {"order": np.array(start), "reduce": adds, "tick": Fraction(1, 10**6), "size": Fraction(10**6)}
    cut = Chunks.even(what, chunks)
    schedule = Schedule(topology, what, Clock.TIME, cut, np.array(chunk), np.array(route), **columns)
    verify(schedule)
    return schedule


def test_a_message_that_goes_the_way_of_another_waits_for_what_it_carries():
    """Rank 1 receives rank 2's second half while it sends the first, so 1->2 has two messages."""
    rows = [
        (0, 0, "0->1"),
        (0, 0, "0->3"),
        (11, 0, "1->2"),
        (11, 1, "0->1"),
        (11, 1, "0->2"),
        (11, 1, "0->3"),
    ]
    schedule = in_time("broadcast", rows, chunks=2)
    best = repaired(schedule, parse_topology("complete:4?drop_links=0-2,2-3"))
    verify(best)
    assert loads(best) == {"0->1": 1, "0->3": 1, "1->2": 1}


def test_sums_that_depend_on_when_messages_start_are_refused():
    """Ranks exchange their data at distance one and then two, which is legal because no rank must wait."""
    rows = [
        (25 * turn, shard, f"{rank}->{rank ^ apart}")
        for turn, apart in enumerate((1, 2))
        for rank in range(4)
        for shard in range(4)
    ]
    schedule = in_time("allreduce", rows, reduce=True)
    for function in (repaired, rerouted):
        with pytest.raises(Unsupported, match="a repair of a schedule in the time clock with messages"):
            function(schedule, parse_topology("complete:4?drop_links=0-3"))


def test_what_hangs_below_a_rank_is_no_source_for_it():
    """Rank 2 is nearer to 1 than 3 is, but has the datum only from 1; so 1 gets it from 3."""
    schedule = by_hand("ring:4", "broadcast", ["0->3", "0->1", "1->2"])
    best = repaired(schedule, parse_topology("ring:4?drop_links=0>1"))
    verify(best)
    assert loads(best) == {"0->3": 1, "1->2": 1, "3->2": 1, "2->1": 1}


def test_what_a_slow_link_keeps_is_what_the_norm_has_it_keep():
    """Link 0->1 is at half speed: (2a)^8 + b^8 + c^8 is least if it has none, others two quarters each."""
    schedule = by_hand("complete:4", "broadcast", ["0->2", "0->3", "0->1"])
    best = repaired(schedule, parse_topology("complete:4?degrade=0-1:0.5"))
    verify(best)
    assert congestion(best) == 1 / BANDWIDTH
    assert congestion(rerouted(schedule, best.topology)) == 2 / BANDWIDTH


def test_what_crosses_no_failing_link_stays():
    schedule = made("torus:4x4", "allgather", "bfb")
    for text in ("torus:4x4?drop_links=0-1", "torus:4x4?degrade=0-1:0.9"):
        best = repaired(schedule, parse_topology(text))
        verify(best)
        kept = lambda one: {  # noqa: E731 (said once)
            (item, one.topology.labels[a], one.topology.labels[b], step)
            for item, a, b, step in zip(
                one.chunks.item[one.chunk], one.source, one.target, one.order, strict=True
            )
        }
        cut = {("0", "1"), ("1", "0")}
        assert {row for row in kept(schedule) if row[1:3] not in cut} <= kept(best)


@pytest.mark.parametrize("size", [10**3, 10**9])
def test_a_repair_for_a_size_is_no_slower_than_what_nobody_repaired(size):
    schedule, left = (
        made("dgx_h100:2", "allgather", "forestcoll"),
        parse_topology("dgx_h100:2?drop_links=3-ib"),
    )
    best, old = fastest_repair(schedule, left, Fraction(size)), rerouted(schedule, left)
    verify(best)
    assert simulate(best, size).time <= simulate(old, size).time
    assert best.stats["changed"] == old.stats["changed"]


CASES = [
    ("torus:4x4", "allgather", "ring"),
    ("torus:4x4", "allgather", "bfb"),
    ("torus:4x4", "allreduce", "bfb"),
    ("torus:3x4", "allreduce", "forestcoll"),
    ("torus:3x4", "reduce-scatter", "tacos"),
    ("torus:4x4", "allreduce", "tacos"),
    ("hypercube:3", "allreduce", "recursive_doubling"),
    ("hypercube:3", "all-to-all", "direct"),
    ("hypercube:3", "allreduce", "rhd"),
    ("complete_bipartite:3", "allreduce", "de_bruijn_allreduce"),  # sums that are overwritten
    ("dgx_h100:2?ranks=2+2", "reduce", "sharp"),
    ("complete:5", "allreduce", "one_shot_allreduce"),
    ("complete:6", "broadcast", "forestcoll"),
    ("torus:8x8", "allgather", "forestcoll"),  # rows of several chunks, some of which use a failing link
    ("dgx_h100:2", "allgather", "forestcoll"),
    ("dgx_h100:2", "allreduce", "forestcoll"),
    ("dgx_a100:2", "allreduce", "nccl_like"),
]


@pytest.mark.parametrize(("network", "kind", "method"), CASES)
def test_random_failures_leave_right_schedules(network, kind, method):
    schedule, rng = made(network, kind, method), np.random.default_rng(1)
    pairs, tried = linked_pairs(schedule.topology), 0
    labels = schedule.topology.labels
    while tried < 4:
        ends = ["-".join(labels[node] for node in pairs[one]) for one in rng.permutation(len(pairs))[:3]]
        text = with_words(network, "drop_links", ends[: 1 + tried % 2])
        try:
            left = parse_topology(with_words(text, "degrade", [f"{ends[2]}:0.5"]))
            old, best = rerouted(schedule, left), repaired(schedule, left)
        except (Disconnected, NoSchedule):
            continue
        tried += 1
        verify(old)
        verify(best)
        assert best.stats["changed"] >= old.stats["changed"]
        assert best.topology is left


@pytest.mark.parametrize(
    ("network", "left", "error", "text"),
    [
        ("torus:4x4", "torus:4x3", InputError, "topology torus:4x3 has other ranks than torus:4x4"),
        ("ring:4", "complete:4", InputError, "topology complete:4 has a link .* that ring:4 has not"),
        ("dgx_h100:1", "ring:8", InputError, "has a link 0->1 that dgx_h100:1 has not"),
    ],
)
def test_another_network_is_refused_in_a_line(network, left, error, text):
    schedule = made(network, "allgather", "forestcoll")
    for function in (repaired, rerouted):
        with pytest.raises(error, match=text) as raised:
            function(schedule, parse_topology(left))
        assert "\n" not in str(raised.value)


def test_a_switch_that_copies_and_is_gone_is_named():
    network = "dgx_h100:2"
    schedule = made(network, "allgather", "forestcoll")
    ends = [f"{rank}-nvswitch0" for rank in range(8)]
    left = parse_topology(with_words(network, "drop_links", ends))
    for function in (repaired, rerouted):
        with pytest.raises(NoSchedule, match="leaves no way to or from nvswitch0, which copies or adds"):
            function(schedule, left)


def test_a_schedule_in_which_nothing_moves_stays_empty():
    topology, what = parse_topology("ring:4"), collective("all-to-all", 4, matrix=np.diag([5, 0, 0, 0]))
    nothing = np.zeros(0, int)
    schedule = Schedule(topology, what, Clock.FLOW, Chunks.even(what), nothing, nothing)
    left = parse_topology("ring:4?drop_links=1-2")
    for function in (repaired, rerouted):
        verify(function(schedule, left))


def test_routes_of_several_links_go_round_too():
    """Rank 0 reaches 2 over 1 on a ring of four, and over 3 with the same hops if 1-2 fails."""
    topology, what = parse_topology("ring:4"), collective("broadcast", 4)
    names = [topology.link_name(link) for link in range(topology.num_links)]
    ways = [["0->1"], ["0->3"], ["0->1", "1->2"]]
    routes = Routes.of([[names.index(one) for one in way] for way in ways])
    schedule = Schedule(
        topology, what, Clock.FLOW, Chunks.even(what), np.zeros(3, int), np.arange(3), routes=routes
    )
    old = rerouted(schedule, parse_topology("ring:4?drop_links=1-2"))
    verify(old)
    assert loads(old) == {"0->1": 1, "0->3": 2, "3->2": 1}
    best = repaired(schedule, old.topology)
    verify(best)
    assert loads(best) == {"0->1": 1, "0->3": 1, "3->2": 1}
