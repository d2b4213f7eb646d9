"""Several roots, any subset of the ranks, a fixed number of trees: exact on networks small and shipped."""

import json
from fractions import Fraction
from math import ceil

import numpy as np
import pytest

from experiments.cli import main
from models.bounds.bottleneck_cut import binary_search_cut
from models.forestcoll import METHOD, ForestcollOptions
from models.forestcoll.fixed_k import fixed_k_ratio
from schedules import Problem, collective
from schedules.cost import congestion
from schedules.verify import verify
from tests.sweep import for_each
from tests.topologies.eulerian import node_sets, random_eulerian, worst_ratio
from topologies import Link, Topology
from topologies.text import parse_topology

GB = 10**9


def make(topology, what, **options):
    problem, chosen = Problem(topology, what), ForestcollOptions(**options)
    METHOD.supports(problem, chosen)
    schedule = METHOD.synthesize(problem, chosen, np.random.default_rng(0))
    verify(schedule)
    return schedule


def worst_of_cuts(topology, weights, members):
    """The largest w(S) / B⁺(S) over all sets of nodes that lack a member."""
    sets = node_sets(topology.num_nodes)
    weight = np.zeros(topology.num_nodes, dtype=int)
    weight[: topology.num_ranks] = weights
    bandwidth = np.array([int(b) for b in topology.bandwidth])
    inside, exits = sets @ weight, (sets[:, topology.source] & ~sets[:, topology.target]) @ bandwidth
    counts = ~sets[:, list(members)].all(axis=1) & (inside > 0)
    return max(Fraction(int(w), int(b)) for w, b in zip(inside[counts], exits[counts], strict=True))


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter"])
def test_several_roots_meet_the_worst_of_all_cuts(kind, fast):
    """Some ranks have, or end with, equal shards and the others none: a random set of roots each time."""
    several = 0
    for seed in range(60):
        topology = random_eulerian(seed)
        rng = np.random.default_rng(seed)
        shards = [1, *rng.integers(0, 2, topology.num_ranks - 1).tolist()]
        several += 1 < sum(shards) < topology.num_ranks
        schedule = make(topology, collective(kind, topology.num_ranks, shards=shards), fast=fast)
        assert congestion(schedule) * sum(shards) == worst_ratio(topology, shards)
    assert several >= 20


def test_an_allreduce_of_several_roots_is_at_most_twice_its_allgather():
    """Its halves may have their bottlenecks at different links."""
    for seed in range(15):
        topology = random_eulerian(seed)
        shards = [1, *[0, 1] * topology.num_ranks][: topology.num_ranks]
        schedule = make(topology, collective("allreduce", topology.num_ranks, shards=shards))
        assert (
            worst_ratio(topology, shards)
            <= congestion(schedule) * sum(shards)
            <= 2 * worst_ratio(topology, shards)
        )


def test_a_single_root_of_an_allgather_is_a_broadcast():
    for seed in range(15):
        topology = random_eulerian(seed)
        last = topology.num_ranks - 1
        gather = collective("allgather", topology.num_ranks, shards=[0] * last + [1])
        spread = collective("broadcast", topology.num_ranks, root=last)
        assert congestion(make(topology, gather)) == congestion(make(topology, spread))


def test_who_has_no_data_may_not_reach_the_others_without_switches():
    """Rank 1 of two: all arcs left by switch removal lead to it, for rank 0 alone is a root."""
    links = [
        Link(0, 2, Fraction(GB)),
        Link(2, 1, Fraction(GB)),
        Link(1, 2, Fraction(GB)),
        Link(2, 0, Fraction(GB)),
    ]
    topology = Topology.from_links("two", 2, links, num_switches=1)
    schedule = make(topology, collective("allgather", 2, shards=[1, 0]))
    assert congestion(schedule) == Fraction(1, GB)
    assert sorted(zip(schedule.source.tolist(), schedule.target.tolist(), strict=True)) == [(0, 1), (1, 0)]


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter"])
def test_any_subset_of_the_ranks_meets_the_worst_of_its_cuts(kind):
    """The other ranks forward, as switches do."""
    parts = 0
    for seed in range(60):
        topology = random_eulerian(seed)
        rng = np.random.default_rng(seed)
        count = int(rng.integers(2, topology.num_ranks + 1))
        members = rng.permutation(topology.num_ranks)[:count].tolist()
        parts += count < topology.num_ranks
        weights = np.isin(np.arange(topology.num_ranks), members).astype(int)
        schedule = make(topology, collective(kind, topology.num_ranks, groups=[members]))
        assert congestion(schedule) * count == worst_of_cuts(topology, weights, members)
    assert parts >= 25


def test_a_subset_may_have_several_roots():
    for seed in range(25):
        topology = random_eulerian(seed)
        members = list(range(topology.num_ranks))[::-1][: max(2, topology.num_ranks - 1)]
        shards = [1, *[0, 2] * topology.num_ranks][: len(members)]
        weights = np.zeros(topology.num_ranks, dtype=int)
        weights[members] = shards
        what = collective("allgather", topology.num_ranks, groups=[members], shards=shards)
        assert congestion(make(topology, what)) * sum(shards) == worst_of_cuts(topology, weights, members)


# (network, algbw in GB/s): the data of a box leaves over its ranks' adapters, 25 or 16 GB/s each, unless a
# rank hears the others more slowly. So 4+4 A100 send half of the data over 100 GB/s.
SUBSETS = {
    "dgx_a100:2?ranks=4+4": 200,
    "dgx_a100:2?ranks=8+8": Fraction(1040, 3),  # all: the 15 others over the 325 GB/s of a rank
    "dgx_a100:4?ranks=2+2+2+2": Fraction(400, 6),  # 6 of 8 shards over the 50 GB/s into a box
    "mi250:2?ranks=8+8": 208,
}


@pytest.mark.parametrize(("text", "algbw"), SUBSETS.items())
def test_so_many_ranks_a_box(text, algbw):
    topology = parse_topology(text)
    schedule = make(topology, collective("allgather", topology.num_ranks))
    assert congestion(schedule) == 1 / (Fraction(algbw) * GB)


def test_several_roots_as_a_command(capsys):
    """A rank without data takes in M over its seven links; the two roots send half of M over seven each."""
    shards = ["--shards", "1,1,0,0,0,0,0,0"]
    assert main(["synth", "complete:8", "--method", "forestcoll", "--size", "1GB", "--json", *shards]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["collective"] == "allgather(shards=1,1,0,0,0,0,0,0)"
    assert Fraction(document["congestion"]) == Fraction(1, 350)


SHIPPED = (
    *("dgx1", "ndv2:2", "dgx2:2", "dgx_a100:1", "dgx_a100:2", "dgx_a100:3?rails=2", "dgx_h100:2", "mi250:1"),
    *("mi250:2", "mi250:2?ranks=8+8", "fat_tree:4,4,2,3", "rail_only:3,4", "rail_spine:3,4,2"),
    "torus_of_boxes:4,2,2",
)


@for_each("k", [1, 2, 3, 4, 5])
@for_each("text", SHIPPED)
def test_theorem_35_holds_on_the_platforms(text, k):
    """1/x* ≤ U*/k ≤ max ⌈k b/x*⌉ / (k b) ≤ 1/x* + 1 / (k min b), the middle one from the theorem's proof."""
    topology = parse_topology(text)
    optimum = binary_search_cut(topology).ratio
    middle = max(ceil(k * b * optimum) / (k * b) for b in set(topology.bandwidth))
    assert optimum <= fixed_k_ratio(topology, k) <= middle <= optimum + 1 / (k * min(topology.bandwidth))


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_theorem_35_holds_on_random_networks_and_is_met_by_a_schedule(k):
    """120 networks, 1/x* from all cuts."""
    for seed in range(120):
        topology = random_eulerian(seed)
        optimum = worst_ratio(topology)
        middle = max(ceil(k * b * optimum) / (k * b) for b in topology.bandwidth)
        ratio = fixed_k_ratio(topology, k)
        assert optimum <= ratio <= middle <= optimum + 1 / (k * min(topology.bandwidth))
        if seed % 8 == 0:  # bandwidths along circles agree: rounding leaves switches balanced
            what = collective("allgather", topology.num_ranks)
            assert congestion(make(topology, what, trees=k)) * topology.num_ranks == ratio


def test_a_multiple_of_the_optimal_k_is_optimal():
    """Where every ⌊U b⌋ = U b, U*/k = 1/x*: Theorem 35 loses only by rounding."""
    links = [
        Link(a, b, Fraction(w * GB)) for a, b, w in ((0, 1, 2), (1, 2, 2), (2, 0, 2), (0, 2, 1), (2, 0, 1))
    ]
    links += [
        Link(2, 1, Fraction(GB)),
        Link(1, 0, Fraction(GB)),
        Link(0, 2, Fraction(GB)),
        Link(2, 0, Fraction(GB)),
    ]
    topology = Topology.from_links("small", 3, links)
    optimum = binary_search_cut(topology).ratio
    k = make(topology, collective("allgather", 3)).stats["trees"]
    assert fixed_k_ratio(topology, k) == fixed_k_ratio(topology, 3 * k) == optimum
