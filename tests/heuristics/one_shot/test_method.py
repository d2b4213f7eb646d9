"""Allreduce in one shot and in more steps: its steps and loads, counted by hand."""

from fractions import Fraction

import pytest

import tutti
from tests.schedules.builders import step_loads
from tests.schedules.programs.runs import outcome
from tutti.experiments.registry import METHODS
from tutti.heuristics.one_shot import METHOD, OneShotOptions
from tutti.heuristics.one_shot.roots import TUNING
from tutti.schedules import Problem
from tutti.schedules.collective import collective
from tutti.schedules.files.schedule_file import content_hash
from tutti.schedules.programs.lowering import lower
from tutti.schedules.programs.raising import to_schedule
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import Link, Topology
from tutti.topologies.errors import Unsupported
from tutti.topologies.graphs.shortest_paths import diameter
from tutti.topologies.text import parse_topology


def made(network, size=None, *, radius=None, shards=None):
    topology = parse_topology(network) if isinstance(network, str) else network
    what = collective("allreduce", topology.num_ranks, shards=shards)
    schedule = METHOD.synthesize(Problem(topology, what, size), OneShotOptions(hub_radius=radius), None)
    verify(schedule)
    return schedule


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        ("complete:5", [1]),  # everybody's own to all
        ("ring:5", [1, 1]),  # each way: first for the rank behind the next one, then for that
        ("uniring:4", [1, 1, 1]),
        ("mesh:3", [1, 1]),  # the ends' own to the other end; then for the middle, and from it to the ends
        ("torus:3x3", [Fraction(1, 2)] * 2),  # half goes along rows first, half along columns
        ("ring:4", [Fraction(1, 2)] * 2),  # pairs, then pairs of pairs: half of it the other way round
        ("hypercube:3", [Fraction(1, 3)] * 3),
    ],
)
def test_in_one_shot_links_carry_sums_of_all(network, expected):
    assert step_loads(made(network, radius=0)) == expected


@pytest.mark.parametrize(
    ("network", "radius", "expected"),
    [
        ("complete:4", 1, [Fraction(1, 4)] * 2),
        ("ring:5", 2, [Fraction(1, 5)] * 4),  # a link brings one shard for each distance
    ],
)
def test_with_one_root_a_shard_it_is_reduce_scatter_and_allgather(network, radius, expected):
    schedule = made(network, radius=radius)
    assert step_loads(schedule) == expected
    assert schedule.chunks.copy_of is None


def test_between_the_two_every_rank_has_a_root_near_it():
    # Ring of 6, by hand: a root and the one opposite reach all in one hop. Each item has both as roots,
    # three hops deep; then both tell the two next to them: a rank is a root of two items, and sends both.
    schedule = made("ring:6", radius=1)
    assert int(schedule.order.max()) == 4
    assert step_loads(schedule)[3] == Fraction(2, 6)
    assert (schedule.chunks.copy_of[:3] == [-1, 0, 0]).all()
    assert len(schedule.chunks) == 18


@pytest.mark.parametrize(
    "network", ["mesh:3x4", "torus:4x5", "dgx1", "gen_kautz:2,9", "dragonfly:2x3", "circulant:12,2,3"]
)
@pytest.mark.parametrize("radius", [0, 1, 2])
def test_steps_are_the_diameter_and_the_radius(network, radius):
    topology = parse_topology(network)
    steps = int(made(network, radius=radius).order.max())
    dimensions = 2 if network[0] in "mt" or network == "dgx1" else 1
    assert steps <= diameter(topology) + (radius + (radius > 0)) * (dimensions + 1)
    if radius == 0:
        assert steps == diameter(topology)


@pytest.mark.parametrize(
    ("network", "size", "expected"),
    [
        # α is 0.5 µs, a link has 50 GB/s: 32 KB take 0.64 µs, 1 MB 20 µs.
        # Two neighbours gather in three steps, exchange in one and tell in three: a shard a step each way.
        ("ring:8", 10**6, [Fraction(1, 8)] * 7),
        # A quarter of the vector begins in each dimension: three halve it, in one pairs exchange an eighth.
        ("hypercube:4", 10**6, [Fraction(1, 4 * n) for n in (2, 4, 8, 8, 8, 4, 2)]),
        # To the middle and back: 4 (0.5 + 0.64) µs in one piece, 5 (0.5 + 0.32) in two, 6 · 0.71 in three.
        ("mesh:5", 32_000, [Fraction(1, 2)] * 5),
        ("complete:8", 10**6, [Fraction(1, 8)] * 2),
    ],
)
def test_roots_gather_exchange_and_spread(network, size, expected):
    schedule = made(network, size)
    assert step_loads(schedule) == expected
    assert schedule.chunks.copy_of is None  # what all exchange in one step needs no copies


@pytest.mark.parametrize("network", ["mesh:4x4", "mesh:5x5", "mesh:3x3x3"])
def test_dimensions_take_turns_so_that_every_step_uses_many_links(network):
    # A corner sends all it has in the first of as many steps as the mesh is wide, over a link for each
    # dimension, and gets all in the last. In between less is left: the corner's neighbour in a row was in
    # the first step too, so half of what it sends in the second goes along the row as in a mesh of lines.
    loads, wide = step_loads(made(network, 1000)), diameter(parse_topology(network))
    k = network.count("x") + 1
    assert len(loads) == wide
    assert loads[0] == loads[-1] == Fraction(1, k)
    assert max(loads[1:-1], default=0) <= Fraction(3, 5 * k)


def test_without_alpha_pieces_have_an_end():
    # Any number of them would be faster yet: the more, the nearer to a pipeline.
    links = [Link(a, b, bandwidth=10**9) for a, b in ((0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2))]
    assert len(made(Topology.from_links("a path", 4, links), 10**6)) <= 2 * 4 * 3 * 2**10


def test_a_terabyte_is_in_few_pieces_and_near_the_bound():
    """All of M leaves the rank at the end over 50 GB/s: 20 s; five roots take four sums and copies each."""
    schedule = made("mesh:5", 10**12)
    assert len(schedule) <= 2 * 5 * 4 * 2**10
    assert 20 <= simulate(schedule, 10**12).time <= 20 * 1.005


@pytest.mark.parametrize("network", ["mesh:5", "mesh:5?alpha=0.1us"])
def test_up_to_a_gigabyte_the_most_pieces_change_nothing(network, monkeypatch):
    bounded = content_hash(made(network, 10**9))
    monkeypatch.setattr("tutti.heuristics.one_shot.method.TUNING", TUNING._replace(most_pieces=2**19))
    assert content_hash(made(network, 10**9)) == bounded


def test_the_larger_the_vector_the_fewer_the_roots():
    sizes = (10**3, 10**5, 10**8)
    schedules = [made("ring:8", size) for size in sizes]
    assert [int(schedule.order.max()) for schedule in schedules][::2] == [4, 7]
    lengths = [len(schedule) for schedule in schedules]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] == 8 * 14


@pytest.mark.parametrize(
    ("network", "most"),
    [
        # One vector over a link in each step is 4 % above α at 1 KB; with two dimensions it is half of one.
        ("complete:8", 3.5),
        ("dragonfly:4x5", 1.8),
        ("torus:5x6", 2.1),
        ("circulant:12,2,3", 5.0),
        ("dgx1", 2.8),
        ("ring:8", 3.0),
        ("mesh:4x4", 1.7),
        ("torus:4x4", 0.8),
    ],
)
def test_small_vectors_are_near_the_bound(network, most):
    schedule = made(network, 1024)
    bound = tutti.bound(schedule.topology, schedule.collective, "1KB").seconds
    assert simulate(schedule, 1000).time <= (1 + most / 100) * float(bound)


def test_the_fastest_of_three_ways_carries_the_most():
    # From 0 to 4 over 1 is three times as fast as over 2 and 3: of five shards three go there.
    ways = [(0, 1, 3), (1, 4, 3), (0, 2, 1), (2, 4, 1), (0, 3, 1), (3, 4, 1)]
    pairs = [(a, b, rate) for one, other, rate in ways for a, b in ((one, other), (other, one))]
    links = [Link(a, b, bandwidth=rate * 10**9, alpha=Fraction(1, 10**6)) for a, b, rate in pairs]
    schedule = made(Topology.from_links("three ways", 5, links), radius=0)
    over = schedule.target[(schedule.order == 1) & (schedule.source == 0)]
    assert sorted(over.tolist()) == [1, 1, 1, 2, 3]


@pytest.mark.parametrize("network", ["ring:5", "torus:3x4", "mesh:2x3", "gen_kautz:2,9"])
@pytest.mark.parametrize("radius", [0, 1])
def test_programs_do_the_same(network, radius):
    schedule = made(network, radius=radius)
    for in_place in (False, True):
        program = lower(schedule, in_place=in_place, units=8)
        program.check()
        assert outcome(program) == "right"


@pytest.mark.parametrize(
    ("network", "size"), [("ring:6", 10**6), ("hypercube:3", 10**6), ("mesh:4x4", 32_000)]
)
def test_programs_exchange_and_follow_each_other(network, size):
    assert outcome(lower(made(network, size), units=12)) == "right"


def test_a_program_that_makes_several_sums_at_once_is_not_read_back():
    schedule = made("ring:5", radius=0)
    with pytest.raises(
        Unsupported, match=r"sends another sum than the rank's current one; a schedule has one$"
    ):
        to_schedule(lower(schedule), schedule.topology)


def test_shards_may_be_uneven_and_empty():
    assert step_loads(made("complete:3", radius=0, shards=[5, 0, 1])) == [1]
    assert sum(step_loads(made("ring:5", radius=2, shards=[1, 0, 2, 0, 1]))) <= 4


def test_what_it_refuses():
    with pytest.raises(
        Unsupported, match=r"^one_shot_allreduce makes at most 4194304 transfers; of 1500 ranks there"
    ):
        made("ring:1500")
    with pytest.raises(Unsupported, match=r"^one_shot_allreduce needs a switch-free topology"):
        made("dgx_a100:1")
    assert METHODS["one_shot_allreduce"] is METHOD
