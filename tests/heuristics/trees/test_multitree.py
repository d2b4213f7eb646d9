"""MultiTree: small cases by hand, the paper's lockstep, multi-edges, switches, and legality everywhere."""

from collections import Counter
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from tests.sweep import for_each
from tutti.heuristics.trees.multitree import METHOD, MultiTreeOptions, grow_multitree
from tutti.models.bounds import best_bound
from tutti.schedules import Problem, collective
from tutti.schedules.cost import congestion, link_loads
from tutti.schedules.verify import verify
from tutti.topologies import InputError, Link, Topology, Unsupported, parallel_links
from tutti.topologies.text import parse_topology

GB = 10**9
KINDS = ("allgather", "reduce-scatter", "allreduce")
PLATFORMS = (
    "dgx1",
    "ndv2:2",
    "dgx2:2",
    "dgx_a100:3",
    "dgx_a100:2?rails=2",
    "dgx_h100:2",
    "mi250:2",
    "mi250:2?ranks=8+8",
    "fat_tree:3,2,2,3",
    "rail_only:2,3",
    "rail_spine:2,3,2",
    "torus_of_boxes:2,3,3",
)


def multitree(topology, kind="allgather", lockstep=False, **details):
    problem = Problem(topology, collective(kind, topology.num_ranks, **details))
    options = MultiTreeOptions(lockstep=lockstep)
    METHOD.supports(problem, options)
    return METHOD.synthesize(problem, options, np.random.default_rng(0))


def edges(topology, lockstep=False):
    """Every tree's edges in order: (root, labels along the route)."""
    root, offsets, links = grow_multitree(topology, lockstep=lockstep)
    result = []
    for index, owner in enumerate(root.tolist()):
        route = links[offsets[index] : offsets[index + 1]]
        nodes = [int(topology.source[route[0]]), *topology.target[route].tolist()]
        result.append((owner, *(topology.labels[node] for node in nodes)))
    return result


@pytest.mark.parametrize("lockstep", [False, True])
def test_on_a_path_of_three_the_trees_grow_as_by_hand(lockstep):
    """Rank 1's first link leads to 2. Step 1: 0 -> 1, 1 -> 2, 2 -> 1, and in the second round only tree 1
    finds a free link, 1 -> 0. Step 2: the two other trees grow from rank 1."""
    path = parse_topology("mesh:3x1")
    assert edges(path, lockstep) == [
        (0, "0", "1"),
        (1, "1", "2"),
        (2, "2", "1"),
        (1, "1", "0"),
        (0, "1", "2"),
        (2, "1", "0"),
    ]


@for_each("lockstep", [False, True])
@for_each("text", ["ring:5", "torus:4x4", "gen_kautz:2,7", *PLATFORMS])
def test_every_tree_spans_all_ranks_from_its_root(text, lockstep):
    topology = parse_topology(text)
    n = topology.num_ranks
    for root in range(n):
        tree = nx.DiGraph((row[1], row[-1]) for row in edges(topology, lockstep) if row[0] == root)
        assert nx.is_arborescence(tree)
        assert len(tree) == n
        assert tree.in_degree(topology.labels[root]) == 0


def test_ranks_do_not_forward_but_switches_do():
    topology = parse_topology("ndv2:2")
    between = Counter(label for row in edges(topology) for label in row[2:-1])
    assert set(between) == {"nic0", "nic1", "ib"}


def test_trees_take_the_ranks_on_their_own_switch_first():
    rows = edges(parse_topology("fat_tree:2,3"))
    assert [row for row in rows if row[0] == 0][:2] == [(0, "0", "leaf0", "1"), (0, "0", "leaf0", "2")]


def test_a_complete_network_needs_one_step_and_is_optimal():
    topology = parse_topology("complete:6")
    assert (link_loads(multitree(topology)) == 1).all()


@pytest.mark.parametrize("lockstep", [False, True])
def test_on_a_ring_of_four_the_trees_grow_as_by_hand(lockstep):
    """Step 1: every rank reaches the next one in the first round, the one before in the second, and all 8
    links are used. Step 2: every tree grows from the rank that joined first, the next one."""
    ring = parse_topology("ring:4")
    turns = [1, -1, None]
    expected = [
        (i, str((i + 1) % 4), str((i + 2) % 4)) if turn is None else (i, str(i), str((i + turn) % 4))
        for turn in turns
        for i in range(4)
    ]
    assert edges(ring, lockstep) == expected
    assert link_loads(multitree(ring, lockstep=lockstep)).tolist() == [2, 1] * 4


def test_the_unit_is_the_slowest_link_and_a_link_has_as_many_as_fit():
    """0 -> 1 at 2 and at 5 GB/s, the others at 2 (the unit): so the fast one is two multi-edges, and of the
    shards 0, 2 and 3 that cross 0 -> 1 it takes two."""
    ends = [(0, 1, 2), (0, 1, 5), (1, 0, 2), (2, 0, 2), (0, 2, 2), (3, 0, 2), (0, 3, 2)]
    star = Topology.from_links("star", 4, [Link(a, b, Fraction(rate * GB)) for a, b, rate in ends])
    assert link_loads(multitree(star))[:2].tolist() == [1, 2]


def test_parallel_links_take_turns():
    doubled = parallel_links(parse_topology("uniring:5"), 2)
    assert link_loads(multitree(doubled)).tolist() == [2] * 10


def test_on_a_box_with_one_switch_it_is_optimal():
    """Figure 4.14's first point: 8 A100 on NVSwitch, algbw 300 GB/s · 8/7."""
    schedule = multitree(parse_topology("dgx_a100:1"))
    assert 1 / congestion(schedule) == Fraction(2400 * GB, 7)


@pytest.mark.parametrize(("boxes", "low", "high"), [(2, 0.4, 0.7), (16, 0.7, 1.0)])
def test_it_starts_far_from_the_optimum_and_comes_nearer_with_size(boxes, low, high):
    """Section 4.6.5: MultiTree "starts with considerably lower throughput" on A100, and catches up."""
    topology = parse_topology(f"dgx_a100:{boxes}")
    bound = best_bound(topology, collective("allgather", topology.num_ranks), None)
    assert low < bound.value / congestion(multitree(topology)) < high


def test_forestcolls_optimum_on_mi250_is_more_than_half_above_it():
    """Section 4.6.5: "On the more complex MI250, ForestColl outperforms MultiTree by 50%+"."""
    topology = parse_topology("mi250:2")
    bound = best_bound(topology, collective("allgather", 32), None)
    assert congestion(multitree(topology)) / bound.value > Fraction(3, 2)


def test_children_that_send_at_once_use_slow_links_less():
    topology = parse_topology("mi250:2")
    assert congestion(multitree(topology)) < congestion(multitree(topology, lockstep=True))


@pytest.mark.parametrize("kind", KINDS)
@for_each("text", PLATFORMS)
def test_it_is_legal_on_every_platform_and_no_better_than_the_bound(text, kind):
    topology = parse_topology(text)
    schedule = multitree(topology, kind)
    verify(schedule)
    assert congestion(schedule) >= best_bound(topology, schedule.collective, None).value


def test_it_says_how_high_its_trees_are():
    """The trees of a path of four are 2 high for the inner ranks, 3 for the outer ones."""
    assert multitree(parse_topology("mesh:4x1")).stats == {"height": 3, "mean_height": 2.5}
    assert multitree(parse_topology("mesh:4x1"), "allreduce").stats == {"height": 6, "mean_height": 5.0}


@pytest.mark.parametrize("kind", KINDS)
def test_uneven_shards_grow_the_same_trees(kind):
    verify(multitree(parse_topology("torus:2x3"), kind, shards=[1, 0, 3, 5, 2, 2]))


@pytest.mark.parametrize(
    ("kind", "details", "message"),
    [
        (
            "allgather",
            {"groups": [[0, 1], [2, 3]]},
            "multitree needs one group of all ranks; this allgather has 2",
        ),
        ("broadcast", {}, "multitree does allgather, reduce-scatter, allreduce; not broadcast"),
    ],
)
def test_other_problems_are_not_supported(kind, details, message):
    with pytest.raises(Unsupported, match=message):
        multitree(parse_topology("ring:4"), kind, **details)


def test_an_option_that_is_no_truth_value_is_refused():
    with pytest.raises(InputError, match="multitree option lockstep is 1; allowed: true, false"):
        MultiTreeOptions(lockstep=1)
