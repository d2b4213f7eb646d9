"""Hand-made trees become transfers."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.models.forestcoll.schedule import forest_schedule
from tutti.schedules import collective
from tutti.schedules.cost import congestion, link_loads
from tutti.schedules.schedule import Clock
from tutti.schedules.verify import verify
from tutti.topologies import InputError, Link, Topology
from tutti.topologies.families.grids import complete, ring, uniring
from tutti.topologies.trees.forest import Forest, LogicalNetwork

GB = Fraction(10**9)


def direct(topology: Topology, capacity) -> LogicalNetwork:
    """Return the network whose arcs are the links."""
    links = np.arange(topology.num_links)
    return LogicalNetwork(
        topology.num_ranks,
        topology.source,
        topology.target,
        np.broadcast_to(capacity, links.shape),
        np.arange(len(links) + 1),
        links,
    )


def chains(n: int) -> list[list[int]]:
    """Return for each root the tree that goes round a ring."""
    return [[-1 if v == root else (v - 1) % n for v in range(n)] for root in range(n)]


def pairs(schedule):
    return list(zip(schedule.source.tolist(), schedule.target.tolist(), strict=True))


def test_one_tree_a_root_round_a_ring_loads_each_link_with_all_shards_but_one():
    topology = uniring(4, bandwidth=[GB])
    schedule = forest_schedule(
        topology, collective("allgather", 4), direct(topology, 3), Forest([0, 1, 2, 3], [1] * 4, chains(4)), 1
    )
    verify(schedule)
    assert schedule.clock is Clock.FLOW
    assert congestion(schedule) == Fraction(3, 4) / GB
    assert schedule.count is None
    assert len(schedule) == 12


def test_rows_of_a_tree_go_outwards_from_its_root():
    topology = uniring(4)
    forest = Forest([0, 1, 2, 3], [1] * 4, chains(4))
    schedule = forest_schedule(topology, collective("allgather", 4), direct(topology, 3), forest, 1)
    assert pairs(schedule)[:3] == [(0, 1), (1, 2), (2, 3)]
    assert pairs(schedule)[9:] == [(3, 0), (0, 1), (1, 2)]


def test_chunks_that_travel_together_are_one():
    """83 equal trees a root: one chunk a shard, and rows that carry one."""
    topology = uniring(3)
    forest = Forest([0, 1, 2], [83] * 3, chains(3))
    schedule = forest_schedule(topology, collective("allgather", 3), direct(topology, 166), forest, 83)
    verify(schedule)
    assert len(schedule.chunks) == 3
    assert schedule.chunks.size.tolist() == [83] * 3
    assert schedule.chunks.denominator == 249
    assert schedule.count is None


def test_an_edge_is_split_over_parallel_links_when_none_has_room():
    """Two links a pair, of 1 tree and of 3: the run of 4 takes the roomier one first."""
    topology = Topology.from_links(
        "pair", 2, [Link(0, 1, GB), Link(0, 1, 3 * GB), Link(1, 0, GB), Link(1, 0, 3 * GB)]
    )
    forest = Forest([0, 1], [4, 4], [[-1, 0], [1, -1]])
    schedule = forest_schedule(
        topology, collective("allgather", 2), direct(topology, [1, 3, 1, 3]), forest, 4
    )
    verify(schedule)
    assert schedule.route.tolist() == [1, 0, 3, 2]
    assert schedule.chunks.size.tolist() == [3, 1, 3, 1]
    assert link_loads(schedule).tolist() == [1, 3, 1, 3]
    assert congestion(schedule) == Fraction(1, 8) / GB


def test_parallel_links_share_what_one_has_no_room_for():
    topology = Topology.from_links("pair", 2, [Link(0, 1)] * 2 + [Link(1, 0)] * 2)
    forest = Forest([0, 0, 1, 1], [1] * 4, [[-1, 0], [-1, 0], [1, -1], [1, -1]])
    schedule = forest_schedule(topology, collective("allgather", 2), direct(topology, 1), forest, 2)
    assert schedule.route.tolist() == [0, 1, 2, 3]


def test_an_edge_that_trees_have_in_common_is_one_row():
    """Two trees of rank 0 that differ in who sends to rank 2, the first two edges of each being the same."""
    topology = complete(4)
    star = [[-1 if v == root else root for v in range(4)] for root in range(4)]
    forest = Forest([0, 0, 1, 2, 3], [1, 2, 3, 3, 3], [[-1, 0, 1, 0], [-1, 0, 3, 0], *star[1:]])
    schedule = forest_schedule(topology, collective("allgather", 4), direct(topology, 9), forest, 3)
    verify(schedule)
    assert pairs(schedule)[:4] == [(0, 1), (0, 3), (1, 2), (3, 2)]
    assert schedule.load[:4].tolist() == [3, 3, 1, 2]


def test_an_edge_at_different_depths_is_a_row_each():
    topology = complete(3)
    star = [[-1 if v == root else root for v in range(3)] for root in range(3)]
    forest = Forest([0, 0, 1, 2], [1, 1, 2, 2], [[-1, 2, 0], [-1, 0, 0], *star[1:]])
    schedule = forest_schedule(topology, collective("allgather", 3), direct(topology, 9), forest, 2)
    verify(schedule)
    assert pairs(schedule)[:3] == [(0, 2), (0, 1), (2, 1)]


def test_the_branch_with_more_below_it_goes_first_then_the_rank_that_follows():
    topology = complete(4)
    star = [[-1 if v == root else root for v in range(4)] for root in range(4)]
    star[0] = [-1, 0, 0, 2]
    schedule = forest_schedule(
        topology, collective("allgather", 4), direct(topology, 2), Forest(range(4), [1] * 4, star), 1
    )
    verify(schedule)
    assert pairs(schedule)[:3] == [(0, 2), (0, 1), (2, 3)]
    assert pairs(schedule)[3:6] == [(1, 2), (1, 3), (1, 0)]


def test_routes_are_those_of_the_arcs():
    """Two ranks joined by a switch: one row is a route of two links."""
    links = [Link(0, 2), Link(2, 1), Link(1, 2), Link(2, 0)]
    topology = Topology.from_links("two", 2, links, num_switches=1)
    network = LogicalNetwork(2, [0, 1], [1, 0], [1, 1], [0, 2, 4], [0, 1, 2, 3])
    schedule = forest_schedule(
        topology, collective("allgather", 2), network, Forest([0, 1], [1, 1], [[-1, 0], [1, -1]]), 1
    )
    verify(schedule)
    assert pairs(schedule) == [(0, 1), (1, 0)]
    assert link_loads(schedule).tolist() == [1, 1, 1, 1]


def test_shares_are_the_weights_of_the_trees():
    topology = uniring(3)
    what = collective("allgather", 3, shards=[1, 2, 3])
    schedule = forest_schedule(
        topology, what, direct(topology, 99), Forest([0, 1, 2], [5, 10, 15], chains(3)), 5
    )
    verify(schedule)
    assert schedule.chunks.denominator == 30


def test_an_empty_shard_is_delivered_as_no_load():
    topology = ring(4)
    what = collective("allgather", 4, shards=[1, 0, 0, 1])
    forest = Forest([0, 3], [1, 1], [chains(4)[0], chains(4)[3]])
    schedule = forest_schedule(topology, what, direct(topology, 2), forest, 1)
    verify(schedule)
    assert len(schedule) == 4 * 3
    assert schedule.chunks.size.tolist() == [1, 0, 0, 1]
    assert link_loads(schedule).sum() == 6


def test_a_broadcast_has_one_item():
    topology = uniring(4)
    what = collective("broadcast", 4, root=2)
    schedule = forest_schedule(topology, what, direct(topology, 1), Forest([2], [1], [chains(4)[2]]), 1)
    verify(schedule)
    assert pairs(schedule) == [(2, 3), (3, 0), (0, 1)]
    assert congestion(schedule) == 1 / topology.bandwidth[0]


def test_a_group_is_numbered_by_its_members():
    """Ranks 1 and 3 of a ring of 4: the network's ranks 0 and 1, over routes through the others."""
    topology = uniring(4)
    network = LogicalNetwork(2, [0, 1], [1, 0], [1, 1], [0, 2, 4], [1, 2, 3, 0])
    what = collective("allgather", 4, groups=[[1, 3]])
    forest = Forest([0, 1], [1, 1], [[-1, 0], [1, -1]])
    schedule = forest_schedule(topology, what, network, forest, 1)
    verify(schedule)
    assert pairs(schedule) == [(1, 3), (3, 1)]


def test_trees_beyond_the_capacity_are_refused():
    topology = uniring(3)
    forest = Forest([0, 1, 2], [1] * 3, chains(3))
    with pytest.raises(InputError, match="the trees need more capacity from 1 to 2 than the network has"):
        forest_schedule(topology, collective("allgather", 3), direct(topology, [9, 1, 9]), forest, 1)


def test_trees_over_pairs_without_arcs_are_refused():
    topology = uniring(3)
    forest = Forest([0, 1, 2], [1] * 3, [[-1, 2, 0], *chains(3)[1:]])
    with pytest.raises(InputError, match="the trees need more capacity from 0 to 2 than the network has"):
        forest_schedule(topology, collective("allgather", 3), direct(topology, 9), forest, 1)


def test_trees_that_do_not_fit_the_shards_are_refused():
    topology = uniring(3)
    forest = Forest([0, 1, 2], [1, 1, 2], chains(3))
    with pytest.raises(InputError, match="weights are not in proportion to the shards of allgather"):
        forest_schedule(topology, collective("allgather", 3), direct(topology, 9), forest, 1)


def test_a_group_of_another_size_is_refused():
    topology = uniring(3)
    forest = Forest([0, 1, 2], [1] * 3, chains(3))
    with pytest.raises(InputError, match="allgather is not one group of 3 ranks"):
        forest_schedule(topology, collective("allgather", 4), direct(topology, 9), forest, 1)


@st.composite
def forests(draw):
    """Draw N, k, for each root rows whose weights add up to k, each a random tree, and links a pair."""
    n, k = draw(st.integers(2, 6)), draw(st.integers(1, 9))
    root, weight, parent = [], [], []
    for r in range(n):
        cuts = sorted(draw(st.sets(st.integers(1, k - 1), max_size=3))) if k > 1 else []
        for w in np.diff([0, *cuts, k]).tolist():
            order = [r, *draw(st.permutations([v for v in range(n) if v != r]))]
            tree = [-1] * n
            for place in range(1, n):
                tree[order[place]] = order[draw(st.integers(0, place - 1))]
            root.append(r)
            weight.append(w)
            parent.append(tree)
    return n, k, Forest(root, weight, parent), draw(st.integers(1, 3))


@settings(max_examples=60, deadline=None)
@given(forests(), st.randoms(use_true_random=False))
def test_any_forest_is_laid_within_capacities_that_just_suffice(forest, random):
    """The use of each pair, by a count that shares no code, is cut at random among its parallel links."""
    n, k, trees, parallel = forest
    use = Counter()
    for weight, parent in zip(trees.weight.tolist(), trees.parent.tolist(), strict=True):
        for head, tail in enumerate(parent):
            if tail >= 0:
                use[tail, head] += weight
    links, capacity = [], []
    for (tail, head), amount in use.items():
        cuts = sorted(random.randint(0, amount) for _ in range(parallel - 1))
        for part in np.diff([0, *cuts, amount]).tolist():
            if part:
                links.append(Link(tail, head, part * GB))
                capacity.append(part)
    # A slow way round lets networks that the trees leave half connected pass.
    links += [Link(v, (v + 1) % n, n * k * GB) for v in range(n)]
    capacity += [0] * n
    topology = Topology.from_links("random", n, links)
    used = np.array(capacity) > 0
    network = LogicalNetwork(
        n,
        topology.source[used],
        topology.target[used],
        np.array(capacity)[used],
        np.arange(used.sum() + 1),
        np.flatnonzero(used),
    )
    schedule = forest_schedule(topology, collective("allgather", n), network, trees, k)
    verify(schedule)
    assert schedule.chunks.denominator == n * k
    assert link_loads(schedule).tolist() == capacity
    assert congestion(schedule) == Fraction(1, n * k) / GB
