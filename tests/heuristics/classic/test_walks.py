"""Allreduce by walks: its steps and loads, counted by hand, and the networks that have such walks."""

from fractions import Fraction

import pytest

import tutti
from tests.schedules.builders import step_loads
from tutti.experiments.registry import METHODS
from tutti.heuristics.classic.walks import METHOD, WalksOptions
from tutti.schedules import Problem
from tutti.schedules.collective import collective
from tutti.schedules.programs.interpreter import judge
from tutti.schedules.programs.lowering import lower
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import Link, Topology
from tutti.topologies.errors import Unsupported
from tutti.topologies.graphs.shortest_paths import diameter
from tutti.topologies.text import parse_topology


def made(network, size=None, *, radius=None, **keys):
    topology = parse_topology(network) if isinstance(network, str) else network
    problem = Problem(topology, collective("allreduce", topology.num_ranks, **keys), size)
    schedule = METHOD.synthesize(problem, WalksOptions(hub_radius=radius), None)
    verify(schedule)
    return schedule


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        ("complete:5", [1]),  # I + A = J
        ("debruijn:2,4", [1] * 4),  # 16 = 2^4 ranks: A^4 = J, with its loops
        ("gen_kautz:2,8", [1] * 3),
        ("kautz:2,1", [1] * 2),  # 6 = 2^2 + 2 ranks: A^2 + A = J
        ("L(K_4)", [1] * 2),  # 12 = 3 · 4 ranks, a Kautz graph as well
        ("hypercube:2", [Fraction(1, 2)] * 2),  # one link of each in a step; half of it over the other
        ("hypercube:3", [Fraction(1, 3)] * 3),
        ("torus:3x3", [Fraction(1, 2)] * 2),
        # A half along rows first, half of that each way round; in step 3 all parts are on the rings of six.
        ("torus:4x6", [Fraction(1, quarters) for quarters in (4, 4, 2, 4, 4)]),
    ],
)
def test_in_as_many_steps_as_the_network_is_wide(network, expected):
    assert step_loads(made(network)) == expected


@pytest.mark.parametrize(
    ("network", "radius", "expected"),
    [
        # de Bruijn, d = 4, D = 3: d^-1 .. d^-j to fewer ranks each, D - j steps with d^-j, and back.
        ("debruijn:4,3", 1, [Fraction(1, 4)] * 4),
        ("gen_kautz:4,64", 1, [Fraction(1, 4)] * 4),
        ("debruijn:4,3", 2, [Fraction(1, n) for n in (4, 16, 16, 16, 4)]),
        ("debruijn:4,3", 3, [Fraction(1, n) for n in (4, 16, 64, 64, 16, 4)]),
        ("debruijn:2,4", 1, [Fraction(1, 2)] * 5),
        ("complete:5", 1, [Fraction(1, 5)] * 2),
        ("complete:5", 9, [Fraction(1, 5)] * 2),  # no more than its one step is saved
    ],
)
def test_parts_of_the_vector_go_to_fewer_roots(network, radius, expected):
    assert step_loads(made(network, radius=radius)) == expected


@pytest.mark.parametrize("radius", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "network", ["kautz:2,2", "L(K_{3,3})", "L(K_4)", "hypercube:3", "torus:4x6", "ring:6", "dgx1"]
)
def test_with_any_radius_all_get_all(network, radius):
    schedule = made(network, radius=radius)  # verified
    assert diameter(schedule.topology) <= schedule.order.max() <= diameter(schedule.topology) + radius + 2


def test_the_larger_the_vector_the_fewer_the_roots():
    # α 0.5 µs, 50 GB/s, d = 4, D = 3: 1 KB takes 0.02 µs, 32 KB 0.64 µs. Times are Σ α + load, as above.
    seconds = {
        size: simulate(made("debruijn:4,3", size), size).time * 1e6 for size in (1000, 32_000, 4_000_000)
    }
    assert seconds[1000] == pytest.approx(3 * 0.52)
    assert seconds[32_000] == pytest.approx(4 * 0.5 + 0.64)
    assert seconds[4_000_000] == pytest.approx(6 * 0.5 + 80 * 2 * (1 / 4 + 1 / 16 + 1 / 64))


def test_in_bipartite_line_graphs_one_step_takes_one_link_of_each():
    # 18 = 2 · 3 · 3 ranks: all links in two steps, and in one a link of each, which leads to the other half.
    assert sorted(step_loads(made("L(K_{3,3})")))[0] == Fraction(1, 3)
    assert sum(step_loads(made("L(K_{3,3})"))) == Fraction(7, 3)


@pytest.mark.parametrize("size", [6, 8, 10, 14])
def test_on_an_even_ring_each_rank_gets_one_message_of_each_shard_in_a_step(size):
    schedule = made(f"ring:{size}")
    assert len(schedule) == size // 2 * size * size
    assert step_loads(schedule) == [Fraction(1, 2)] * (size // 2)


def test_what_a_rank_has_is_not_sent_to_it():
    # 4 = 2^2 ranks, by hand: x has links to 2x and 2x + 1 mod 4, and 0 and 3 loops, which are left out. After
    # step 1 ranks 0 and 1 have the same, 0 + 2, and so have 2 and 3: then 0 sends 1 nothing, nor 3 sends 2.
    schedule = made("debruijn:2,2")
    assert (schedule.order == 1).sum() == 4 * 6
    assert (schedule.order == 2).sum() == 4 * 4
    assert not ((schedule.source == 0) & (schedule.target == 1) & (schedule.order == 2)).any()


@pytest.mark.parametrize("network", ["debruijn:2,3", "kautz:2,1", "L(K_{3,3})", "hypercube:3", "ring:8"])
@pytest.mark.parametrize("radius", [0, 1])
def test_programs_do_the_same(network, radius):
    schedule = made(network, radius=radius)
    for in_place in (False, True):
        assert judge(lower(schedule, in_place=in_place, units=4)).races_checked


@pytest.mark.parametrize(("network", "most"), [("gen_kautz:4,64", 3.6), ("L(K_{4,4})", 2.7), ("L(K_8)", 3.8)])
def test_small_vectors_are_near_the_bound(network, most):
    # A vector over a link takes 4 % of α at 1 KB.
    schedule = made(network)
    bound = tutti.bound(schedule.topology, schedule.collective, "1KB").seconds
    assert simulate(schedule, 1000).time <= (1 + most / 100) * float(bound)


def test_parallel_links_are_one_where_one_is_taken():
    pair = Topology.from_links("pair", 2, [Link(0, 1), Link(0, 1), Link(1, 0), Link(1, 0)])
    assert step_loads(made(pair)) == [Fraction(1, 2)]


def test_shards_may_be_uneven():
    assert step_loads(made("complete:3", shards=[3, 0, 2])) == [1]


@pytest.mark.parametrize("network", ["ring:5", "uniring:4", "dragonfly:2x3", "mesh:3x3", "torus:4x5"])
def test_other_networks_have_no_such_walks(network):
    with pytest.raises(
        Unsupported, match=r"^de_bruijn_allreduce needs steps along all links, or one of each rank"
    ):
        made(network)


def test_what_it_refuses():
    with pytest.raises(
        Unsupported, match=r"^de_bruijn_allreduce makes 10485760 transfers of this, or more; at most"
    ):
        made("hypercube:10")
    assert METHODS["de_bruijn_allreduce"] is METHOD
