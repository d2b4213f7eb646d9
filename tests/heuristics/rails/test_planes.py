"""Rails between planes: legal on products of a rail and a network, when the plan says, and near the bound."""

import functools
import math
from fractions import Fraction

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.heuristics.rails import METHOD
from tutti.heuristics.rails.plane_schedule import PlanParameters, PlanSearch, schedule_of_planes
from tutti.heuristics.rails.planes import planes_of
from tutti.models.bounds import best_bound
from tutti.schedules import Problem, collective
from tutti.schedules.message_durations import messages
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import Unsupported
from tutti.topologies.text import parse_topology

GIGABYTE = 10**9
ALPHA = 0.5e-6
KINDS = ["allgather", "reduce-scatter", "allreduce"]
NETWORKS = [
    "rfs:2x2x2",  # the least with three dimensions
    "rfs:2x3x3",
    "rfs:3x4x2",
    "rfs:1x4x4",  # planes are complete
    "rfs:4x1x3?bandwidth=20GB/s,1GB/s,50GB/s&alpha=0us,0us,2us",  # planes are rings, and slow
    "rfs:2x3x4?bandwidth=5GB/s,100GB/s,200GB/s",  # rails are links; planes have a switch
    "torus_of_boxes:3,3",  # rails are links, machines have a switch
    "mi250:2",  # all rails on one switch, parallel links inside
    "K(4) x K(3)",
]


@functools.cache
def rails(text, kind="allgather", size=GIGABYTE):
    topology = parse_topology(text)
    problem = Problem(topology, collective(kind, topology.num_ranks), Fraction(size))
    METHOD.supports(problem, METHOD.options())
    return METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))


def gap(schedule, size):
    bound = best_bound(schedule.topology, schedule.collective, Fraction(size))
    return simulate(schedule, size).time / float(bound.time(Fraction(size))) - 1


# --- the whole


@for_each("text", NETWORKS)
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_legal_and_not_below_the_bound(text, kind):
    schedule = rails(text, kind, 10**6)
    verify(schedule)
    assert gap(schedule, 10**6) >= -1e-9


@pytest.mark.parametrize("size", [1, 77, 1000, 123_457, 32_000_000, Fraction(10**9, 7), 999_999_937])
def test_any_size_is_legal(size):
    for text in ("rfs:2x3x4", "rfs:2x2x3?alpha=0us", "torus_of_boxes:2,2"):
        verify(rails(text, size=size))


@pytest.mark.parametrize(
    ("text", "kind"),
    [*(("rfs:2x4x8", kind) for kind in KINDS), ("rfs:3x3x4", "reduce-scatter"), ("rfs:1x4x8", "allreduce")],
)
def test_a_gigabyte_is_within_a_percent_of_the_bound(text, kind):
    schedule = rails(text, kind)
    verify(schedule)
    assert 0 <= gap(schedule, GIGABYTE) <= 0.01


def planned(text, number, patience):
    """Return plan, its end, the schedule and its simulation, of 10 MB on a division into planes."""
    topology = parse_topology(text)
    planes, size = planes_of(topology)[number], 10**7
    search = PlanSearch(topology, planes, Fraction(size, topology.num_ranks), 1000)
    choice = PlanParameters(0.3, 4.0, (1, 4), patience)
    plan, what = search.played(choice)[0], collective("allgather", topology.num_ranks)
    schedule = schedule_of_planes(Problem(topology, what), planes, plan)
    verify(schedule)
    return plan, search.end(choice), schedule, simulate(schedule, size)


@for_each("number", [0, -1])
@for_each("text", NETWORKS)
def test_every_message_starts_when_the_plan_says(text, number):
    """The simulator is the second opinion: it knows no plan, only what waits for what on which link."""
    plan, end, schedule, simulated = planned(text, number, 0.0)
    brought = np.unique(np.stack([plan.feed.start, plan.feed.hop]), axis=1)[0, 1:]
    ranks = schedule.topology.num_ranks
    planes = ranks // len(np.unique(plan.trees.root))
    expected = np.concatenate([np.repeat(brought, ranks), np.repeat(plan.spread.start, planes)])
    assert len(messages(schedule)) == len(expected)
    assert np.sort(simulated.start) == pytest.approx(np.sort(expected), abs=1e-11)
    assert simulated.time == pytest.approx(end, rel=1e-9)


@pytest.mark.parametrize("text", NETWORKS)
def test_with_patience_there_are_fewer_messages_and_none_is_late(text):
    """If a link waited in vain, the simulator sends without the wait."""
    hasty, patient = (planned(text, 0, patience) for patience in (0.0, 5.0))
    assert len(patient[0].spread.route) < len(hasty[0].spread.route)
    assert patient[3].time <= patient[1] * (1 + 1e-9)


def test_two_planes_of_two_by_hand():
    """Own shards cross while the rail's are on their way (2 α + m/v); these then cross, too: α + m/w.

    A kilobyte does not repay a second message, an α of 0.5 us each: m is 250 B, v 50 GB/s, w 100 GB/s.
    """
    expected = 2 * ALPHA + 250 / 50e9 + ALPHA + 250 / 100e9
    assert simulate(rails("rfs:1x2x2", size=1000), 1000).time == pytest.approx(expected, rel=1e-9)


def test_a_reduce_scatter_takes_as_long_and_an_allreduce_twice_as_long():
    whole = simulate(rails("rfs:2x4x8"), GIGABYTE).time
    assert simulate(rails("rfs:2x4x8", "reduce-scatter"), GIGABYTE).time == pytest.approx(whole, rel=1e-9)
    assert simulate(rails("rfs:2x4x8", "allreduce"), GIGABYTE).time == pytest.approx(2 * whole, rel=1e-9)


# --- planes


def test_the_planes_of_a_ring_complete_and_switch_network():
    """Rank (r, f, s) is 12 r + 3 f + s; its hosts are the planes of one s, its rails the switches."""
    by_switch, by_ring, by_complete = planes_of(parse_topology("rfs:2x4x3"))
    assert [planes.switched for planes in (by_switch, by_ring, by_complete)] == [True, False, False]
    ring, group, rail = range(2), range(4), range(3)
    assert by_switch.rank.tolist() == [[12 * r + 3 * f + s for r in ring for f in group] for s in rail]
    assert by_ring.rank.tolist() == [[12 * r + 3 * f + s for f in group for s in rail] for r in ring]
    assert by_complete.rank.tolist() == [[12 * r + 3 * f + s for r in ring for s in rail] for f in group]


@pytest.mark.parametrize("text", NETWORKS)
def test_routes_of_planes_lead_where_they_should(text):
    topology = parse_topology(text)
    for planes in planes_of(topology):
        number, places = planes.rank.shape
        for plane in range(number):
            for shift in range(1, number):
                for place in range(places):
                    way = planes.rail[shift - 1, plane, place]
                    check_way(
                        topology, way, planes.rank[(plane - shift) % number, place], planes.rank[plane, place]
                    )
            for route, way in enumerate(planes.local.links[plane]):
                ends = planes.local.source[route], planes.local.target[route]
                check_way(topology, way, *(planes.rank[plane, end] for end in ends))


def check_way(topology, way, source, target):
    links = [link for link in way if link >= 0]
    assert topology.source[links[0]] == source
    assert topology.target[links[-1]] == target
    assert (topology.target[links[:-1]] == topology.source[links[1:]]).all()


@pytest.mark.parametrize(
    "text",
    [
        "torus:4x4",  # rings of four are no rails
        "rfs:1x1x8",  # one dimension
        "fat_tree:2,4,2",  # switches are linked
        "rfs:2x2x2?drop_links=0-4",  # planes differ
        "dragonfly:4x5",
    ],
)
def test_other_networks_are_no_planes(text):
    assert planes_of(parse_topology(text)) == []


# --- what is refused


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ring:4", "ring:4 has no such planes and does not say which host each rank is in"),
        ("fat_tree:2,4,2", "has no such planes and has ranks without one link each way to a switch inside"),
        ("dgx_a100:1", "has no such planes and does not have two or more machines"),
    ],
)
def test_other_networks_are_unsupported(text, reason):
    with pytest.raises(Unsupported, match=f"rails needs machines .*or planes.*{reason}") as raised:
        rails(text)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["rfs:1x512x2", "rfs:1x128x9", "rfs:4x32x16"])
def test_what_is_too_large_is_refused_soon(text):
    """512 x 511 links in each of 2 planes; 128 x 127 shards move in each of 9; 2,048 ranks."""
    with pytest.raises(Unsupported, match="needs machines"):
        rails(text)


def test_rails_cost_an_alpha_a_message():
    """Each port is held for 7/8 M/8 bytes at 50 GB/s and an α a message, and then it is all but over."""
    schedule = rails("rfs:2x4x8")
    topology = schedule.topology
    busy = simulate(schedule, GIGABYTE).busy
    ports = np.flatnonzero(topology.target >= topology.num_ranks)
    last = simulate(schedule, GIGABYTE).time
    bytes_alone = 7 / 64 / 50
    sent = (busy[ports] - bytes_alone) / ALPHA
    assert sent == pytest.approx(np.full(len(ports), round(sent[0])), abs=1e-3)
    assert math.isclose(busy[ports].max(), busy[ports].min(), rel_tol=1e-9)
    assert 0 < last - busy[ports].max() < 10e-6
