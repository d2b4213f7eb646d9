"""The ring: closed forms on rings, legality everywhere else."""

from fractions import Fraction

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.heuristics.classic.ring import RING
from tutti.schedules import Problem, collective
from tutti.schedules.cost import step_cost
from tutti.schedules.verify import verify
from tutti.topologies import Link, Topology, Unsupported
from tutti.topologies.text import parse_topology
from tutti.topologies.transforms import transpose

KINDS = ("allgather", "reduce-scatter", "allreduce")


def ring(text, kind="allgather", **details):
    topology = parse_topology(text)
    problem = Problem(topology, collective(kind, topology.num_ranks, **details))
    RING.supports(problem, RING.options())
    return RING.synthesize(problem, RING.options(), np.random.default_rng(0))


@for_each("n", [3, 4, 5, 8, 9])
@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter"])
def test_on_a_ring_every_link_carries_half_a_shard_in_each_of_n_minus_1_steps(n, kind):
    cost = step_cost(ring(f"ring:{n}", kind))
    assert (cost.tl_steps, cost.tb) == (n - 1, Fraction(n - 1, n))


def test_an_allreduce_is_a_reduce_scatter_and_then_an_allgather():
    cost = step_cost(ring("ring:6", "allreduce"))
    assert (cost.tl_steps, cost.tb) == (10, Fraction(10, 6))


@pytest.mark.parametrize("turned", [False, True])
@for_each("n", [3, 4, 8])
@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter"])
def test_on_one_way_links_whole_shards_go_the_short_way_round(n, kind, turned):
    """The other way takes n - 1 links a step, and every link then carries what n - 1 ranks send."""
    topology = parse_topology(f"uniring:{n}")
    topology = transpose(topology) if turned else topology
    problem = Problem(topology, collective(kind, n))
    cost = step_cost(RING.synthesize(problem, RING.options(), np.random.default_rng(0)))
    assert (cost.tl_steps, cost.tb) == (n - 1, Fraction(n - 1, n))


def test_hosts_are_passed_one_after_the_other():
    """Ranks of two boxes by turns: of eight hops two leave a box, each over one rail of 25 GB/s each way."""
    cost = step_cost(ring("switch2d:4x2"))
    assert cost.bandwidth_time == 7 * Fraction(1, 16) / (25 * 10**9)


def test_a_slow_way_back_is_not_taken():
    """Clockwise at 3 B and back at B: halves take 1/2 over B a step, whole shards clockwise 1/3."""
    ring = [(u, (u + 1) % 4, 3 * 10**9) for u in range(4)] + [((u + 1) % 4, u, 10**9) for u in range(4)]
    topology = Topology.from_links("unlike", 4, [Link(*link, Fraction(0)) for link in ring])
    schedule = RING.synthesize(
        Problem(topology, collective("allgather", 4)), RING.options(), np.random.default_rng(0)
    )
    assert step_cost(schedule).bandwidth_time == 3 * Fraction(1, 4) / (3 * 10**9)


def test_two_ranks_swap_whole_shards_in_one_step():
    schedule = ring("ring:2")
    assert len(schedule) == 2
    cost = step_cost(schedule)
    assert (cost.tl_steps, cost.tb) == (1, Fraction(1, 2))


@pytest.mark.parametrize("kind", KINDS)
@for_each(
    "text",
    [
        "ring:3",
        "ring:6",
        "mesh:4x1",  # no link from the last rank to the first
        "mesh:2x3",
        "torus:3x3",
        "hypercube:3",
        "gen_kautz:2,5",  # one-way links
        "dgx_a100:1",  # through a switch
        "dgx_a100:2",
    ],
)
def test_it_is_legal_on_any_topology(text, kind):
    verify(ring(text, kind))


@pytest.mark.parametrize("kind", KINDS)
def test_uneven_shards_go_round_too(kind):
    verify(ring("ring:4", kind, shards=[1, 0, 3, 5]))


def test_ranks_that_are_not_neighbours_are_joined_by_a_shortest_route():
    schedule = ring("mesh:4x1")
    assert sorted(np.diff(schedule.route_table.offsets).tolist()) == [1] * 6 + [3] * 2  # 3 to 0 and 0 to 3


def test_groups_are_not_supported():
    with pytest.raises(Unsupported, match="ring needs one group of all ranks; this allgather has 2"):
        ring("ring:4", groups=[[0, 1], [2, 3]])


def test_other_collectives_are_not_supported():
    expected = "ring does allgather, reduce-scatter, allreduce; not broadcast"
    with pytest.raises(Unsupported, match=expected):
        ring("ring:4", "broadcast")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("torus:4x4", "needs a circulant network, links i to i ± a for all i; torus:4x4 is none"),
        ("circulant:12,1,3", "offset 3 makes 3 of 12 ranks"),
        ("uniring:5", "needs a circulant network"),
        ("dgx_a100:1", "needs a circulant network"),
    ],
)
def test_shifted_ring_need_offsets_that_make_one_ring(made, text, message):
    with pytest.raises(Unsupported, match=message):
        made(METHODS["shifted_ring"], text)
