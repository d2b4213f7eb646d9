"""Trees in epochs: prices against all trees, the program against another solver, legality, times."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from tests.sweep import for_each
from tutti.models.bounds import best_bound
from tutti.models.forestcoll.epochs import EpochPlan, plan_schedule, planned, planned_schedule
from tutti.models.tree_columns.generation import EpochTrees, TreeMaster
from tutti.models.tree_columns.links import EpochLinks
from tutti.models.tree_columns.pricing import improve_all, new_trees
from tutti.schedules import Clock, Problem, collective
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import Unsupported
from tutti.topologies.graphs.symmetry import link_permutation
from tutti.topologies.text import parse_topology

GIGABYTE = Fraction(10**9)
NETWORKS = (
    "ring:4",
    "uniring:3",
    "mesh:2x3?bandwidth=50GB/s,25GB/s",
    "dgx1",
    "dgx_h100:1?ranks=4",
    "mi250:2?ranks=4+4",
    "dgx_a100:2?drop_nodes=0,1,2,3,8",
)


def all_trees(ranks, root, epochs):
    """Every parent and epoch of every rank, as long as each sends later than it got the data."""
    others = [rank for rank in range(ranks) if rank != root]
    ways = [[(p, k) for p in range(ranks) if p != rank for k in range(epochs)] for rank in others]
    for chosen in itertools.product(*ways):
        when = {root: -1} | {rank: k for rank, (_, k) in zip(others, chosen, strict=True)}
        if all(when[p] < k for p, k in chosen):
            parent = {root: -1} | {rank: p for rank, (p, _) in zip(others, chosen, strict=True)}
            yield [parent[r] for r in range(ranks)], [when[r] for r in range(ranks)]


def price_of(prices, parent, epoch):
    return sum(prices[p, rank, epoch[rank]] for rank, p in enumerate(parent) if p >= 0)


def test_the_best_of_some_trees_is_the_cheapest_there_is():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        prices = rng.random((4, 4, 3))
        prices[rng.random(prices.shape) < 0.2] = np.inf
        root = int(rng.integers(4))
        cheapest = min((price_of(prices, *tree) for tree in all_trees(4, root, 3)), default=np.inf)
        parent, epoch, cost = new_trees(prices, root, 30, 1.0, rng)
        assert cost.min() == pytest.approx(cheapest), seed
        for tree in np.flatnonzero(np.isfinite(cost)):
            assert price_of(prices, parent[tree], epoch[tree]) == pytest.approx(cost[tree]), seed


def test_an_improved_tree_is_legal_and_no_dearer():
    rng = np.random.default_rng(0)
    prices = rng.random((9, 9, 6))
    parent, epoch, _ = new_trees(rng.random((9, 9, 6)), 2, 20, 1.0, rng)
    before = [price_of(prices, *tree) for tree in zip(parent, epoch, strict=True)]
    after = improve_all(prices, parent, epoch, rng)
    for tree in range(20):
        assert after[tree] == pytest.approx(price_of(prices, parent[tree], epoch[tree]))
        assert after[tree] < before[tree]
        assert parent[tree, 2] == epoch[tree, 2] == -1
        others = [rank for rank in range(9) if rank != 2]
        assert all(epoch[tree, parent[tree, rank]] < epoch[tree, rank] for rank in others)


def test_a_tree_that_is_best_stays():
    prices = np.ones((3, 3, 2))
    prices[0, 1:, 0] = 0.5
    parent, epoch = np.array([[-1, 0, 0]]), np.array([[-1, 0, 0]])
    assert improve_all(prices, parent, epoch, np.random.default_rng(0)).tolist() == [1.0]
    assert parent.tolist() == [[-1, 0, 0]]
    assert epoch.tolist() == [[-1, 0, 0]]


@pytest.mark.parametrize("text", NETWORKS)
def test_symmetries_are_a_group_that_moves_every_rank(text):
    topology = parse_topology(text)
    found = EpochLinks.of(topology).symmetries
    known = {tuple(element) for element in found.tolist()}
    ranks = np.arange(topology.num_ranks)
    assert len(known) == len(found)
    assert all(tuple(a[b].tolist()) in known for a in found for b in found)
    assert all(link_permutation(topology, element) is not None for element in found)
    assert sum(bool((element[ranks] == ranks).any()) for element in found) == 1


@pytest.mark.parametrize("text", NETWORKS[-2:])
def test_a_matching_joins_each_port_to_one_other_as_the_symmetries_say(text):
    lines = EpochLinks.of(parse_topology(text))
    matching = lines.matching(np.random.default_rng(0))
    ports = {ends for ends in lines.links if ends[1] >= lines.topology.num_ranks}
    assert set(matching) == ports
    assert {(head, port[1]) for port, head in matching.items()} == ports
    assert all(rank != head for (rank, _), head in matching.items())
    for element in lines.symmetries:
        assert all(
            matching[int(element[rank]), int(element[switch])] == element[head]
            for (rank, switch), head in matching.items()
        )


def oracle(text, epochs, size):
    """The least time by another solver, over all trees, without symmetries; one line a pair of ranks."""
    topology = parse_topology(text)
    ranks, shard = topology.num_ranks, float(size) / topology.num_ranks
    lines = sorted(set(zip(topology.source.tolist(), topology.target.tolist(), strict=True)))
    joined = [
        [i for i in range(topology.num_links) if (topology.source[i], topology.target[i]) == x] for x in lines
    ]
    speed = [float(sum(topology.bandwidth[i] for i in ids)) for ids in joined]
    lag = [float(topology.alpha[ids[0]]) for ids in joined]
    trees = [
        (root, [(lines.index((p, r)), epoch[r]) for r, p in enumerate(parent) if p >= 0])
        for root in range(ranks)
        for parent, epoch in all_trees(ranks, root, epochs)
        if all(p < 0 or (p, r) in lines for r, p in enumerate(parent))
    ]
    limits = np.zeros((len(lines) * epochs, epochs + len(trees)))
    sums = np.zeros((ranks, epochs + len(trees)))
    for row, (line, epoch) in enumerate(itertools.product(range(len(lines)), range(epochs))):
        limits[row, epoch] = -1e-6
        for column, (_, edges) in enumerate(trees):
            limits[row, epochs + column] = edges.count((line, epoch)) * shard / speed[line]
    for column, (root, _) in enumerate(trees):
        sums[root, epochs + column] = 1
    cost = np.r_[np.full(epochs, 1e-6), np.zeros(len(trees))]
    solved = linprog(cost, limits, -np.repeat(lag, epochs), sums, np.ones(ranks))
    return solved.fun


@pytest.mark.parametrize("text", ["ring:3", "ring:4", "mesh:2x2?bandwidth=50GB/s,25GB/s"])
def test_the_program_finds_the_least_time_over_all_trees(text):
    topology = parse_topology(text)
    epochs, lines = 3, EpochLinks.of(topology)
    shard = 10**9 / topology.num_ranks
    trees = [
        (index, *tree)
        for index, root in enumerate(lines.roots.tolist())
        for tree in all_trees(topology.num_ranks, root, epochs)
        if all(p < 0 or (p, r) in lines.links for r, p in enumerate(tree[0]))
    ]
    given = EpochTrees(*(np.array(column) for column in zip(*trees, strict=True)))
    unit = shard / 5e10
    rows = lines.rows([{}] * epochs)
    program = TreeMaster(rows, lines.bandwidth * unit / shard, lines.alpha / unit, given)
    assert program.solve().time * unit == pytest.approx(oracle(text, epochs, 10**9), rel=1e-5)
    assert program.solved.reduced.min() > -1e-6


@pytest.mark.parametrize("text", NETWORKS)
def test_the_schedule_is_legal_and_no_longer_than_its_epochs(text):
    topology = parse_topology(text)
    plan = planned(topology, GIGABYTE, 0.5, np.random.default_rng(0))
    made = plan_schedule(plan, GIGABYTE)
    verify(made)
    assert made.clock is Clock.TIME
    assert simulate(made, GIGABYTE).time <= float(plan.lasting.sum()) * (1 + 1e-5)


@pytest.mark.parametrize("kind", ["reduce-scatter", "allreduce"])
@for_each("text", NETWORKS)
def test_other_collectives_are_legal(text, kind):
    topology = parse_topology(text)
    problem = Problem(topology, collective(kind, topology.num_ranks), GIGABYTE)
    made = planned_schedule(problem, 0.2, np.random.default_rng(0))
    verify(made)
    assert made.topology == topology


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter"])
@pytest.mark.parametrize("text", ["dgx1", "ring:4", "dgx_h100:1?ranks=4"])
def test_a_gigabyte_is_within_a_hundredth_of_the_bound(text, kind):
    topology = parse_topology(text)
    what = collective(kind, topology.num_ranks)
    made = planned_schedule(Problem(topology, what, GIGABYTE), 3.0, np.random.default_rng(0))
    bound = best_bound(topology, what, GIGABYTE)
    assert simulate(made, GIGABYTE).time <= 1.01 * float(bound.time(GIGABYTE))


def test_weights_are_rounded_to_a_whole_shard():
    lines = EpochLinks.of(parse_topology("uniring:3"))
    trees = EpochTrees(
        np.zeros(3, int), np.array([[-1, 0, 1]] * 3), np.array([[-1, 0, 1], [-1, 0, 2], [-1, 1, 2]])
    )
    plan = EpochPlan(lines, trees, np.array([1 / 3, 1 / 3, 1 / 3]), np.ones(3))
    made = plan_schedule(plan, GIGABYTE)
    verify(made)
    assert made.chunks.size.sum() == made.chunks.denominator


@pytest.mark.parametrize(
    ("text", "what", "message"),
    [
        ("ring:4", collective("all-to-all", 4), "trees in epochs: all-to-all; allgather, reduce-scatter"),
        ("ring:4", collective("allgather", 4, shards=(1, 2, 3, 4)), "trees in epochs: allgather"),
        ("ring:65", collective("allgather", 65), "ring:65 has 65 ranks; 2 to 64"),
    ],
)
def test_what_it_does_not_do_is_unsupported(text, what, message):
    problem = Problem(parse_topology(text), what, GIGABYTE)
    with pytest.raises(Unsupported, match=message):
        planned_schedule(problem, 0.2, np.random.default_rng(0))


def test_high_trees_have_all_epochs_at_once():
    topology = parse_topology("uniring:14")
    what = collective("allgather", 14)
    made = planned_schedule(Problem(topology, what, GIGABYTE), 0.5, np.random.default_rng(0))
    verify(made)
    bound = best_bound(topology, what, GIGABYTE)
    assert simulate(made, GIGABYTE).time <= 1.01 * float(bound.time(GIGABYTE))


def test_a_network_without_symmetries_may_be_too_large():
    topology = parse_topology("torus:4x4x4?drop_nodes=0")
    problem = Problem(topology, collective("allgather", 63), GIGABYTE)
    with pytest.raises(Unsupported, match="orbits of links under a group that moves every rank; 250 at most"):
        planned_schedule(problem, 0.2, np.random.default_rng(0))


def test_a_switch_between_switches_is_unsupported():
    topology = parse_topology("ndv2:2")
    problem = Problem(topology, collective("allgather", 16), GIGABYTE)
    with pytest.raises(Unsupported, match=r"switch .* must have ranks around it, joined equally"):
        planned_schedule(problem, 0.2, np.random.default_rng(0))
