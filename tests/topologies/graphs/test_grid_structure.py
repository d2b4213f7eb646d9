"""Dimensions of networks: families whose dimensions are known, and networks that have none."""

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from tests.sweep import for_each
from tests.topologies.networks import ACROSS, IN_ORDER, cluster_document
from tutti.topologies import FAMILIES, InputError, Topology, from_node_link, write_topology
from tutti.topologies.graphs.grid_structure import (
    Grid,
    Hosts,
    LineKind,
    grid_of,
    hosts_of,
    note_on_hosts,
    placed,
    uneven_hosts,
)
from tutti.topologies.text import parse_topology

UNEVEN = Path(__file__).parents[2] / "data" / "cases" / "05_uneven_hosts" / "hetero.json"
R, P, C, S = LineKind.RING, LineKind.PATH, LineKind.COMPLETE, LineKind.SWITCH


@for_each(
    ("text", "shape", "lines"),
    [
        ("ring:8", (8,), (R,)),
        ("ring:3", (3,), (R,)),
        ("mesh:4x1", (4,), (P,)),
        ("torus:4x4", (4, 4), (R, R)),
        ("torus:5x4x3", (5, 4, 3), (R, R, R)),
        ("torus:2x3", (2, 3), (P, R)),
        ("mesh:10x10", (10, 10), (P, P)),
        ("mesh:3x5x2", (3, 5, 2), (P, P, P)),
        ("hypercube:4", (2, 2, 2, 2), (P, P, P, P)),
        ("complete:6", (6,), (C,)),
        ("hamming:2,4", (4, 4), (C, C)),
        ("rfs:2x4x8", (2, 4, 8), (P, C, S)),
        ("rfs:4x4x3", (4, 4, 3), (R, C, S)),
        ("switch2d:8x4", (8, 4), (S, S)),
        ("dgx1", (2, 4), (P, C)),
        ("dgx_a100:1", (8,), (S,)),
        ("dgx_a100:2", (2, 8), (S, S)),
        ("mi250:3", (3, 16), (S, S)),
        ("fat_tree:4,8,2,3", (4, 8), (S, S)),
    ],
)
def test_families_have_the_dimensions_that_make_them(text, shape, lines):
    # switch2d takes the ranks of a box first, then the boxes; ranks are numbered box by box
    found = grid_of(parse_topology(text))
    assert found is not None
    assert sorted(zip(found.shape, found.lines, strict=True)) == sorted(zip(shape, lines, strict=True))
    if not text.startswith("switch2d"):
        assert (found.shape, found.lines) == (shape, lines)


@pytest.mark.parametrize(
    "text",
    [
        "gen_kautz:2,8",
        "dragonfly:4x5",
        "twisted_torus:4x4x8",
        "uniring:4",
        "directed_ring:2,8",
        "mesh:3x3?drop_nodes=8",
        "torus:3x3?drop_links=0-1",
    ],
)
def test_others_have_none(text):
    assert grid_of(parse_topology(text)) is None


def test_ranks_are_row_major():
    grid = Grid((3, 4, 5), (R, R, R))
    coordinates = np.unravel_index(np.arange(60), (3, 4, 5))
    assert grid.rank_at(coordinates).tolist() == list(range(60))
    assert str(grid) == "ring of 3 x ring of 4 x ring of 5"


@pytest.mark.parametrize("text", ["torus:4x5", "rfs:2x4x4", "hypercube:3", "switch2d:4x3"])
def test_ranks_are_joined_along_one_dimension_only(text):
    """The coordinates of the two ends of a link, or of a switch's ranks, differ in one dimension only."""
    topology = parse_topology(text)
    grid = grid_of(topology)
    place = np.stack(np.unravel_index(np.arange(topology.num_ranks), grid.shape))
    for a, b in zip(topology.source.tolist(), topology.target.tolist(), strict=True):
        ends = [a] if a < topology.num_ranks else topology.source[topology.target == a].tolist()
        for start in ends:
            if b < topology.num_ranks and start != b:
                assert (place[:, start] != place[:, b]).sum() == 1


def partition(host_of):
    """Return the sets of ranks that share a host, in a form that ignores the hosts' numbers."""
    return {frozenset(np.flatnonzero(np.equal(host_of, host)).tolist()) for host in set(host_of)}


@for_each("host_of", [IN_ORDER, ACROSS, (1, 0, 0, 1, 2, 2), (0, 0, 0, 1, 1, 1, 2, 2, 2)])
def test_hosts_are_inferred_in_any_numbering_of_ranks(host_of):
    network = from_node_link(cluster_document(host_of))
    found = hosts_of(network, infer=True)
    assert isinstance(found, Hosts)
    assert found.inferred
    assert {frozenset(ranks) for ranks in found.ranks.tolist()} == partition(host_of)
    # Each host contains its switch; the switch outside belongs to no host.
    switches = found.of[len(host_of) :].tolist()
    assert switches[-1] == -1
    assert [set(np.flatnonzero(found.of[: len(host_of)] == at)) for at in switches[:-1]] == [
        set(np.flatnonzero(np.equal(host_of, host))) for host in range(max(host_of) + 1)
    ]
    assert network.hosts is None  # never stored
    assert placed(network, infer=True).hosts.tolist() == found.of.tolist()
    assert placed(network, infer=False) is network


@pytest.mark.parametrize(
    ("host_of", "rates"),
    [
        (IN_ORDER, ("300GB/s", "151GB/s")),  # the bandwidth outside is more than half of that inside
        ((0, 0, 0, 1, 1), ("300GB/s", "25GB/s")),  # hosts of unequal sizes
        ((0, 1, 2, 3), ("300GB/s", "25GB/s")),  # one rank in each host
        ((0, 0, 0, 0), ("300GB/s", "25GB/s")),  # one host with all ranks
    ],
)
def test_hosts_that_are_not_plain_are_not_inferred(host_of, rates):
    network = from_node_link(cluster_document(host_of, inside=rates[0], outside=rates[1]))
    assert isinstance(hosts_of(network, infer=True), str)
    assert 'give the nodes of its file the key "host"' in note_on_hosts(network, infer=True)
    assert note_on_hosts(network, infer=False) == ""


def test_half_the_bandwidth_is_little_enough():
    network = from_node_link(cluster_document(IN_ORDER, inside="300GB/s", outside="150GB/s"))
    assert isinstance(hosts_of(network, infer=True), Hosts)
    assert isinstance(hosts_of(network), str)


@for_each(
    "text",
    [
        "torus:4x4?bandwidth=100GB/s,10GB/s",
        "ring:8?degrade=0-1:0.5,4-5:0.5",
        "hamming:2,4?bandwidth=9GB/s,1GB/s",
    ],
)
def test_a_grid_of_links_has_no_hosts_to_infer_and_nothing_to_note(text):
    network = parse_topology(text)
    assert isinstance(hosts_of(network, infer=True), str)
    assert note_on_hosts(network, infer=True) == ""


CLUSTERS = (
    *("ndv2", "dgx2", "dgx_", "gb200", "mi250"),
    *("rail_", "dragonfly", "switch2d", "torus_of_boxes"),
)
"""Two are left out: mi300x's adapters are nearly as fast as its links; fat_tree's leaves hold no hosts."""


@for_each("text", [family.example for family in FAMILIES.values()] + ["ndv2:3", "rail_spine:40,8", "mi250:3"])
def test_what_is_inferred_of_a_family_is_what_it_tells(text):
    """For ndv2 the adapters must be removed first; in rail_spine:40,8 the spines are faster than ports."""
    network = parse_topology(text)
    found = hosts_of(replace(network, hosts=None), infer=True)
    if isinstance(found, Hosts):
        assert network.hosts is not None
        told = network.hosts[: network.num_ranks].tolist()
        assert {frozenset(ranks) for ranks in found.ranks.tolist()} == partition(told)
    assert isinstance(found, Hosts) == text.startswith(CLUSTERS)


def test_two_tiers_that_could_be_hosts_are_not_plain():
    """The hosts could be pairs or boxes: pairs have 400 GB/s, their boxes 100, and links outside 10."""
    ends = {
        (a, b): 400 if a // 2 == b // 2 else 100 if a // 4 == b // 4 else 10
        for a, b in combinations(range(8), 2)
    }
    document = {
        "directed": False,
        "nodes": [{"id": i, "kind": "compute"} for i in range(8)],
        "edges": [
            {"source": a, "target": b, "bandwidth": f"{rate}GB/s", "alpha": "0us"}
            for (a, b), rate in ends.items()
            if rate > 10 or (a, b) in {(0, 4), (1, 6)}
        ],
    }
    assert isinstance(hosts_of(from_node_link(document), infer=True), str)


def test_hosts_that_are_told_count_in_any_numbering_and_switches_follow_their_ranks():
    document = cluster_document(ACROSS, tell=True)
    for node in document["nodes"]:
        if node["kind"] == "switch":
            node.pop("host", None)
    found = hosts_of(from_node_link(document))
    assert isinstance(found, Hosts)
    assert not found.inferred
    assert found.ranks.tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert found.of.tolist() == [0, 1] * 4 + [0, 1, -1]
    assert str(found) == "2 hosts of 4 ranks each (0, 2, 4, 6; 1, 3, 5, 7)"


@pytest.mark.parametrize(("told", "shape"), [([7, 7, 7, 7], (1, 4)), ([3, 1, 2, 0], (4, 1))])
def test_one_host_and_hosts_of_one_rank_count_where_that_is_asked_for(told, shape):
    network = replace(parse_topology("complete:4"), hosts=np.array(told, dtype=np.int32))
    assert hosts_of(network, trivial=True).ranks.shape == shape
    assert hosts_of(network) == "does not have two or more machines of equal size, at least 2 ranks each"


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("dgx_a100:2?drop_nodes=15", [range(8), range(8, 15)]),
        ("dgx_a100:2?ranks=8+4", [range(8), range(8, 12)]),
        ("dgx_h100:3?drop_nodes=0,1,9", [range(6), range(6, 13), range(13, 21)]),
        (str(UNEVEN), [range(4), range(4, 10)]),
    ],
)
def test_hosts_of_unequal_size_are_named_and_no_dimension(text, members):
    network = parse_topology(text)
    uneven = uneven_hosts(network)
    assert [ranks.tolist() for ranks in uneven.members] == [list(ranks) for ranks in members]
    for number, ranks in enumerate(members):
        assert set(uneven.of[list(ranks)]) == {number}
    assert grid_of(network) is None
    assert str(uneven).startswith(f"hosts of unequal size ({len(members[0])}, {len(members[1])}")
    assert "uses hosts of equal size only" in note_on_hosts(network, infer=True)


@pytest.mark.parametrize("text", ["dgx_a100:2", "ring:4", "dgx_a100:3?ranks=1+1+1", "torus:4x4"])
def test_equal_hosts_and_none_are_not_uneven(text):
    assert uneven_hosts(parse_topology(text)) is None


def test_hosts_of_several_sizes_never_count():
    network = replace(parse_topology("complete:4"), hosts=np.array([0, 0, 0, 1], dtype=np.int32))
    assert hosts_of(network, trivial=True) == "has no machines of equal size"


def test_dimensions_of_hosts_have_the_ranks_of_their_places():
    network = from_node_link(cluster_document(ACROSS))
    assert grid_of(network) == Grid((8,), (S,))
    grid = grid_of(network, hosts_of(network, infer=True))
    assert grid == Grid((2, 4), (S, S))
    assert grid.rank_at([np.array([1, 0]), np.array([0, 3])]).tolist() == [1, 6]


def told(host_of, hosts):
    """Return the cluster with these hosts declared for its GPUs and no other nodes."""
    document = cluster_document(host_of)
    for node, host in zip(document["nodes"], hosts, strict=False):
        node["host"] = host
    return document


def test_hosts_that_contradict_the_links_are_refused_in_one_line(tmp_path):
    path = tmp_path / "net.json"
    path.write_text(json.dumps(told(ACROSS, "aaaabbbb")))
    with pytest.raises(
        InputError,
        match=r"gpu0 and gpu1 have one host, but the fast links of gpu0 join it to gpu4 of another$",
    ):
        parse_topology(str(path))
    wrong = cluster_document(IN_ORDER, tell=True)
    wrong["nodes"][8]["host"] = "node-1"
    path.write_text(json.dumps(wrong))
    with pytest.raises(InputError, match=r"switch nvswitch0 has links to ranks, but to none of its host$"):
        parse_topology(str(path))


@for_each(
    "hosts",
    [
        "aaaabbbb",
        "aabbccdd",
        "aaaaaaaa",
        (0, 0, 0, 0, 1.5, 1.5, 1.5, 1.5),
    ],
)
def test_hosts_may_be_larger_or_smaller_than_what_is_plain(hosts, tmp_path):
    path = tmp_path / "net.json"
    path.write_text(json.dumps(told(IN_ORDER, hosts)))
    network = parse_topology(str(path))
    assert partition(network.hosts[:8].tolist()) == partition(list(hosts))


def test_hosts_of_some_ranks_alone_are_refused(tmp_path):
    path = tmp_path / "net.json"
    path.write_text(json.dumps(told(IN_ORDER, (7, 7, 7, 7, 8, 8, 8, -1))))
    with pytest.raises(InputError, match=r"rank gpu7 has no host, but others have; give one to all or none"):
        parse_topology(str(path))


def test_hosts_of_a_family_stand_whatever_its_bandwidths(tmp_path):
    """Even if rails are faster than boxes, the box switches still determine which ranks share a box."""
    network = parse_topology("rail_only:2,4?bandwidth=10GB/s,100GB/s")
    write_topology(network, tmp_path / "rails.json")
    assert isinstance(parse_topology(str(tmp_path / "rails.json")), Topology)
