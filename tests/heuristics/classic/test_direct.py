"""Direct: closed forms on complete networks and rings, every collective legal."""

from fractions import Fraction

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.heuristics.classic.direct import METHOD
from tutti.schedules import KINDS, NoOptions, Problem, collective
from tutti.schedules.cost import step_cost
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import NoSchedule, Unsupported
from tutti.topologies.text import parse_topology


def direct(text, kind, **details):
    topology = parse_topology(text)
    problem = Problem(topology, collective(kind, topology.num_ranks, **details))
    METHOD.supports(problem, NoOptions())
    return METHOD.synthesize(problem, NoOptions(), np.random.default_rng(0))


@pytest.mark.parametrize("n", [2, 3, 6])
@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "all-to-all"])
def test_on_a_complete_network_one_step_sends_a_shard_over_every_link(n, kind):
    cost = step_cost(direct(f"complete:{n}", kind))
    assert (cost.tl_steps, cost.tb) == (1, Fraction(n - 1, n))


@pytest.mark.parametrize("n", [3, 5, 7])
def test_on_an_odd_ring_links_carry_one_shard_for_each_distance_that_they_are_from_its_end(n):
    """A link carries 1 + 2 + ... + (n - 1)/2 shards of M/n, over half of B: (n^2 - 1)/(4n) M/B."""
    assert step_cost(direct(f"ring:{n}", "allgather")).tb == Fraction(n * n - 1, 4 * n)


@for_each("groups", [None, [[0, 4, 6, 7], [5, 1, 3, 2]]])
@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "all-to-all"])
def test_through_one_switch_every_rank_receives_from_another_in_each_round(kind, groups):
    """A rank sends n - 1 times without waiting; a message enters the second link after α, and it is free."""
    n = 8 if groups is None else 4
    alpha, bandwidth, size = Fraction(1, 2 * 10**6), 50 * 10**9, 10**6
    schedule = direct("fat_tree:1,8?bandwidth=50GB/s&alpha=0.5us", kind, groups=groups)
    expected = (n - 1) * (alpha + Fraction(size, n * bandwidth)) + alpha
    assert simulate(schedule, Fraction(size)).time == pytest.approx(float(expected), rel=1e-12)


def test_an_allreduce_takes_two_steps():
    cost = step_cost(direct("complete:4", "allreduce"))
    assert (cost.tl_steps, cost.tb) == (2, Fraction(3, 2))


@pytest.mark.parametrize("kind", KINDS)
@for_each("text", ["mesh:4x1", "torus:3x3", "gen_kautz:2,5", "dgx_a100:1", "mi250:1"])
def test_every_collective_is_legal(text, kind):
    verify(direct(text, kind))


@for_each("groups", [None, [[0, 4, 8], [1, 2, 3, 5]]])
@pytest.mark.parametrize("kind", KINDS)
def test_a_schedule_of_one_transfer_too_many_is_unsupported(monkeypatch, kind, groups):
    rows = len(direct("torus:3x3", kind, groups=groups))
    monkeypatch.setattr("tutti.heuristics.classic.steps.MOST_ROWS", rows)
    direct("torus:3x3", kind, groups=groups)
    monkeypatch.setattr("tutti.heuristics.classic.steps.MOST_ROWS", rows - 1)
    with pytest.raises(Unsupported, match=f"direct makes at most {rows - 1} transfers; .* would be {rows}$"):
        direct("torus:3x3", kind, groups=groups)


def test_routes_too_long_for_a_table_are_refused_before_they_are_made():
    """The others are 1 + 1 + 2 + 2 + ... + n/2 = n^2/4 hops away from each of n ranks."""
    with pytest.raises(
        NoSchedule, match=rf"^topology ring:1024: .* of {1024 * 1023} pairs have {1024**3 // 4} links in all"
    ):
        direct("ring:1024", "allgather")


@pytest.mark.parametrize("kind", KINDS)
def test_every_collective_works_over_groups(kind):
    verify(direct("torus:3x3", kind, groups=[[0, 4, 8], [1, 2, 3]]))


@pytest.mark.parametrize(
    "kind", ["allgather", "reduce-scatter", "allreduce", "all-to-all", "gather", "scatter"]
)
def test_shards_may_be_uneven(kind):
    verify(direct("ring:4", kind, shards=[1, 0, 3, 5]))


def test_the_root_of_a_broadcast_sends_to_all_others():
    schedule = direct("ring:4", "broadcast", root=2)
    assert schedule.source.tolist() == [2, 2, 2]
    assert sorted(schedule.target.tolist()) == [0, 1, 3]
