"""Declarations: what they refuse, their messages, and the test for links in both directions."""

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from tutti.schedules import Kind, collective, concurrent
from tutti.schedules.capabilities import EVERYTHING, Capabilities, Groups, Shape, Switches, joined_both_ways
from tutti.topologies import Link, Topology
from tutti.topologies.text import parse_topology

GB = 10**9
HALVES = [[0, 1], [2, 3]]
UNLIKE = "mesh:2x2?bandwidth=50GB/s,20GB/s"


def what(kind="allgather", ranks=4, **details):
    return collective(kind, ranks, **details)


@pytest.mark.parametrize(
    ("able", "text", "asked", "reason"),
    [
        (Capabilities((Kind.ALLREDUCE,)), "ring:4", what(), "does allreduce; not allgather"),
        (
            Capabilities(groups=Groups.NONE),
            "ring:4",
            what(groups=HALVES),
            "needs one group of all ranks; this allgather has 2",
        ),
        (
            Capabilities(groups=Groups.NONE),
            "ring:4",
            what(groups=[[0, 1, 2]]),
            "needs one group of all ranks; this allgather has one of 3 of the 4",
        ),
        (
            Capabilities(groups=Groups.ONE),
            "ring:4",
            what(groups=HALVES),
            "does one group at a time; this is allgather(groups=0,1|2,3)",
        ),
        (
            Capabilities(uneven_shards=False),
            "ring:4",
            what(shards=[1, 2, 1, 1]),
            "needs shards of one size; this allgather gives its own",
        ),
        (
            Capabilities(uneven_shards=False),
            "ring:5",
            what(ranks=5, groups=[[0, 1], [2, 3, 4]]),
            "needs shards of one size; this allgather has groups of several sizes",
        ),
        (
            Capabilities(groups=Groups.NONE, uneven_shards=False),
            "ring:4",
            what(shards=[1, 2, 1, 1]),
            "needs all ranks in one collective with equal shards; this is allgather(shards=1,2,1,1)",
        ),
        (
            Capabilities(switches=Switches.NONE),
            "dgx_a100:2",
            what(ranks=16),
            "needs a switch-free topology; dgx_a100:2 has 3 switches",
        ),
        (
            Capabilities(one_way_links=False),
            "uniring:4",
            what(),
            "needs bidirectional links that join all ranks; those of uniring:4 do not",
        ),
        (
            Capabilities(uneven_links=False),
            UNLIKE,
            what(),
            f"needs bandwidths that are multiples of the least one; {UNLIKE} has others",
        ),
        (Capabilities(shape=Shape.TORUS), "K(4)", what(), "needs a torus or mesh; K(4) is complete of 4"),
        (
            Capabilities(shape=Shape.MESH),
            "gen_kautz:2,4",
            what(),
            "needs a 2D mesh of at least 3x3; gen_kautz:2,4 is none",
        ),
        (
            Capabilities(most_ranks=3),
            "ring:4",
            what(),
            "takes at most 3 ranks; ring:4 has 4",
        ),
        (
            Capabilities(power_of_two=True),
            "ring:6",
            what(ranks=6),
            "needs a power of two ranks; ring:6 has 6",
        ),
    ],
)
def test_what_is_not_declared_is_refused_in_these_words(able, text, asked, reason):
    topology = parse_topology(text)
    assert able.refusal(topology, asked) == reason
    assert EVERYTHING.refusal(topology, asked) is None


def test_shards_that_are_given_and_equal_are_even():
    assert Capabilities(uneven_shards=False).refusal(parse_topology("ring:4"), what(shards=[2] * 4)) is None


def test_a_broadcast_in_groups_of_several_sizes_has_shards_of_one_size():
    able, asked = Capabilities(uneven_shards=False), what("broadcast", 5, groups=[[0, 1], [2, 3, 4]])
    assert able.refusal(parse_topology("ring:5"), asked) is None


def test_parts_are_even_each_by_itself():
    able = Capabilities(uneven_shards=False)
    one, other = what("allgather", 5, groups=[[0, 1]]), what("scatter", 5, groups=[[2, 3, 4]])
    assert able.refusal(parse_topology("ring:5"), concurrent([one, other])) is None
    uneven = what("scatter", 5, groups=[[2, 3, 4]], shards=[1, 1, Fraction(1, 2)])
    refused = able.refusal(parse_topology("ring:5"), concurrent([one, uneven]))
    assert refused == "needs shards of one size; this scatter gives its own"


def test_ranks_outside_the_one_group_count_as_switches():
    """A one-way ring has a shortcut: rank 3 has two links in and one link out."""
    links = [Link(r, (r + 1) % 4, GB) for r in range(4)] + [Link(1, 3, GB)]
    topology, able = Topology.from_links("shortcut", 4, links), Capabilities(switches=Switches.EULERIAN)
    assert able.refusal(topology, what()) is None
    assert "to be Eulerian; node 1" in able.refusal(topology, what(groups=[[0, 2]]))


def test_only_what_forwards_must_be_balanced():
    """The shortcut's ends, ranks 1 and 3, are switches of a group that omits them."""
    links = [Link(r, (r + 1) % 4, GB) for r in range(4)] + [Link(1, 3, GB)]
    topology, able = Topology.from_links("shortcut", 4, links), Capabilities(switches=Switches.BALANCED)
    assert able.refusal(topology, what(groups=[[1, 3]])) is None
    assert able.refusal(topology, what(groups=[[1, 2]])) == (
        "needs switches to send as much bandwidth as they take in; "
        "node 3 of shortcut has 2GB/s in and 1GB/s out"
    )


def test_links_both_ways_join_the_ranks_as_a_graph_search_says():
    rng, verdicts = np.random.default_rng(0), set()
    for seed in range(200):
        ranks, count = int(rng.integers(2, 8)), int(rng.integers(1, 30))
        round_about = {(r, (r + 1) % ranks) for r in range(ranks)}  # every rank can reach every other
        ends = {(int(a), int(b)) for a, b in rng.integers(0, ranks, (count, 2)) if a != b} | round_about
        topology = Topology.from_links("random", ranks, [Link(a, b, GB) for a, b in ends])
        graph = nx.Graph([(a, b) for a, b in ends if (b, a) in ends])
        graph.add_nodes_from(range(ranks))
        verdicts.add(nx.is_connected(graph))
        assert joined_both_ways(topology) == nx.is_connected(graph), seed
    assert verdicts == {True, False}


def test_needs_are_those_of_the_network():
    assert EVERYTHING.needs == ()
    able = Capabilities(
        (Kind.ALLREDUCE,), Groups.NONE, switches=Switches.NONE, power_of_two=True, further="luck"
    )
    assert able.needs == ("no switches", "a power of two ranks", "luck")
