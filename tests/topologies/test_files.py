"""Node-link JSON and networkx graphs: exact round trips, and one line for each error."""

import json
import os
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.topologies import (
    DEFAULT_ALPHA,
    DEFAULT_BANDWIDTH,
    InputError,
    Link,
    Topology,
    dgx_a100,
    drop_nodes,
    from_networkx,
    from_node_link,
    gen_kautz,
    mesh,
    mi250,
    parse_topology,
    read_topology,
    to_networkx,
    to_node_link,
    write_topology,
)

GB = 10**9


@st.composite
def networks(draw):
    """Draw multigraphs with exact, awkward numbers: a cycle through all nodes and other links."""
    ranks, switches = draw(st.integers(2, 5)), draw(st.integers(0, 2))
    nodes = ranks + switches
    node = st.integers(0, nodes - 1)
    extra = draw(st.lists(st.tuples(node, node).filter(lambda ends: ends[0] != ends[1]), max_size=8))
    ends = draw(st.permutations([*extra, *((i, (i + 1) % nodes) for i in range(nodes))]))
    bandwidths = st.fractions(min_value=Fraction(1, 20), max_value=10**6, max_denominator=20)
    alphas = st.fractions(min_value=0, max_value=1000, max_denominator=20)
    labels = st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=4)
    one_a_node = {"min_size": nodes, "max_size": nodes}
    made = Topology.from_links(
        draw(st.sampled_from(["random", "with spaces", "näme"])),
        ranks,
        [Link(a, b, draw(bandwidths), draw(alphas)) for a, b in ends],
        num_switches=switches,
        labels=draw(st.none() | st.lists(labels, unique=True, **one_a_node)),
        multicast=draw(st.sets(st.integers(ranks, nodes - 1))) if switches else (),
        aggregate=draw(st.sets(st.integers(ranks, nodes - 1))) if switches else (),
        hosts=draw(st.none() | st.lists(st.integers(-1, 3), **one_a_node)),
        nominal_degree=draw(st.none() | st.integers(1, 9)),
    )
    return replace(made, gamma=draw(st.just(Fraction(0)) | bandwidths.map(lambda rate: 1 / rate)))


def assert_same(one, other):
    """Check equality, and also all attributes that equality ignores."""
    assert one == other
    assert one.nominal_degree == other.nominal_degree
    assert (one.hosts is None) == (other.hosts is None)
    assert one.hosts is None or one.hosts.tolist() == other.hosts.tolist()


@given(networks())
def test_node_link_data_gives_the_network_back(topology):
    again = from_node_link(json.loads(json.dumps(to_node_link(topology))))
    assert_same(again, topology)
    assert again.name == topology.name


@given(networks())
def test_a_networkx_graph_gives_the_network_back(topology):
    assert_same(from_networkx(to_networkx(topology)), topology)


@given(networks())
def test_data_that_went_through_networkx_gives_the_network_back(topology):
    # networkx lists edges node by node; the keys restore our order.
    graph = nx.node_link_graph(to_node_link(topology), edges="edges")
    assert_same(from_node_link(nx.node_link_data(graph, edges="edges")), topology)


@pytest.mark.parametrize(
    "topology", [mesh(3, 4), gen_kautz(4, 64), mi250(2), drop_nodes(dgx_a100(2), [3])], ids=lambda t: t.name
)
def test_a_file_gives_the_network_back_and_is_called_by_its_path(topology, tmp_path):
    path = tmp_path / "net.json"
    write_topology(topology, path)
    assert_same(read_topology(path), topology)
    assert read_topology(path).name == str(path)


def test_numbers_are_written_as_text_with_units():
    edge = to_node_link(mesh(2, 1))["edges"][0]
    assert edge == {"source": 0, "target": 1, "key": 0, "bandwidth": "50GB/s", "alpha": "0.5us"}


def test_graph_attributes_are_exact_numbers():
    graph = to_networkx(mesh(2, 1, alpha=Fraction(1, 3)))
    assert graph.edges[0, 1, 0] == {"bandwidth": Fraction(50 * GB), "alpha": Fraction(1, 3)}
    assert graph.nodes[0] == {"kind": "compute"}


def test_a_plain_graph_has_ranks_and_default_links_both_ways():
    petersen = from_networkx(nx.petersen_graph())
    assert (petersen.num_ranks, petersen.num_links, petersen.degree) == (10, 30, 3)
    assert set(petersen.bandwidth) == {DEFAULT_BANDWIDTH}
    assert set(petersen.alpha) == {DEFAULT_ALPHA}
    assert (petersen.source[1], petersen.target[1]) == (petersen.target[0], petersen.source[0])


def test_hosts_have_any_names():
    names = ["rack-b", "rack-a", 2.5, "rack-b", 2**40, -1]
    graph = nx.cycle_graph(6)
    nx.set_node_attributes(graph, dict(enumerate(names)), "host")
    assert from_networkx(graph).hosts.tolist() == [0, 1, 2, 0, 3, -1]
    nx.set_node_attributes(graph, dict(enumerate([7, 7, 3, 3, -1, 7])), "host")
    assert from_networkx(graph).hosts.tolist() == [7, 7, 3, 3, -1, 7]  # hosts that are numbers are kept


def test_nodes_of_a_graph_may_be_anything_hashable():
    grid = from_networkx(nx.grid_graph((2, 2)))
    assert grid.labels == ("(0, 0)", "(0, 1)", "(1, 0)", "(1, 1)")


PAIR = {
    "directed": False,
    "nodes": [{"id": "a", "kind": "compute"}, {"id": "b", "kind": "compute"}],
    "edges": [{"source": "a", "target": "b", "bandwidth": "50GB/s", "alpha": "0.5us"}],
}


def pair(**edge):
    """Return two ranks and an undirected edge with these values."""
    return PAIR | {"edges": [PAIR["edges"][0] | edge]}


def node(**values):
    """Return the pair, with these values in its first node."""
    return PAIR | {"nodes": [PAIR["nodes"][0] | values, PAIR["nodes"][1]]}


def test_an_undirected_file_means_each_edge_both_ways():
    topology = from_node_link(PAIR)
    assert (topology.source.tolist(), topology.target.tolist()) == ([0, 1], [1, 0])
    assert topology.labels == ("a", "b")


def test_ranks_come_first_then_switches_in_file_order():
    nodes = [("x", "switch"), ("b", "compute"), ("y", "switch"), ("a", "compute")]
    edges = [("a", "x"), ("x", "y"), ("y", "b")]
    document = {
        "directed": False,
        "nodes": [{"id": name, "kind": kind} for name, kind in nodes],
        "edges": [{"source": a, "target": b, "bandwidth": "1GB/s", "alpha": "0s"} for a, b in edges],
    }
    topology = from_node_link(document)
    assert (topology.labels, topology.num_ranks) == (("b", "a", "x", "y"), 2)
    assert topology.source.tolist() == [1, 2, 2, 3, 3, 0]


@pytest.mark.parametrize(
    ("number", "value"),
    [
        ("0.1", Fraction(1, 10)),
        ("5e-7", Fraction(1, 2_000_000)),
        ("123456789012.3456789", Fraction(1234567890123456789, 10**7)),
        ("25000000000", Fraction(25 * GB)),
        ('"1/3B/s"', Fraction(1, 3)),
    ],
)
def test_numbers_in_a_file_are_taken_by_their_decimal_text(number, value, tmp_path):
    path = tmp_path / "net.json"
    path.write_text(json.dumps(pair(bandwidth="NUMBER")).replace('"NUMBER"', number))
    assert set(read_topology(path).bandwidth) == {value}


@pytest.mark.parametrize("number", [5e-7, Decimal("5e-7"), Fraction(1, 2_000_000), "0.5us"])
def test_numbers_of_a_graph_are_exact_whatever_their_type(number):
    assert set(from_node_link(pair(alpha=number)).alpha) == {Fraction(1, 2_000_000)}


def without(key, where):
    """Return the pair without a key of the document, of its first node or of its edge."""
    document = json.loads(json.dumps(PAIR))
    place = document if where == "document" else document[where][0]
    del place[key]
    return document


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "the node-link data: expected an object with the keys 'nodes' and 'edges'"),
        (without("nodes", "document"), "the node-link data: no key 'nodes'"),
        (without("edges", "document"), "no key 'edges'"),
        (without("edges", "document") | {"links": []}, "no key 'edges'; rename 'links', as older networkx"),
        (without("directed", "document"), r"the key 'directed' must be true, or false \(each edge is then"),
        (without("id", "nodes"), r"nodes\[0\] has no key 'id'"),
        (without("kind", "nodes"), r"nodes\[0\] has no key 'kind'"),
        (without("source", "edges"), r"edges\[0\] has no key 'source'"),
        (without("bandwidth", "edges"), r"edges\[0\] has no key 'bandwidth'"),
        (without("alpha", "edges"), r"edges\[0\] has no key 'alpha'"),
        (PAIR | {"nodes": {}}, "'nodes' must be a list of objects"),
        (PAIR | {"edges": [1]}, "'edges' must be a list of objects"),
        (PAIR | {"graph": 3}, "'graph' must be an object"),
        (PAIR | {"graph": {"nominal_degree": 1.5}}, "nominal_degree 1.5 is not a positive integer"),
        (PAIR | {"graph": {"reduce": "fast"}}, "graph: reduce: "),
        (PAIR | {"graph": {"reduce": 0}}, "graph: reduce is 0 B/s; it must be positive"),
        (PAIR | {"nodes": PAIR["nodes"] * 2}, "two nodes have the id 'a'"),
        (pair(bandwith="1GB/s"), r"edges\[0\] has an unknown key 'bandwith'; did you mean 'bandwidth'\?"),
        (
            PAIR | {"edges": [{"source": "a", "target": "b", "capacity": 50, "alpha": "1us"}]},
            r"edges\[0\] has no key 'bandwidth', but 'capacity'; say bandwidth, with a unit$",
        ),
        (
            PAIR | {"edges": [{"source": "a", "target": "b", "bandwidth": "1GB/s", "latency": 3}]},
            r"edges\[0\] has no key 'alpha', but 'latency'; say alpha, with a unit$",
        ),
        (node(multicats=True), r"nodes\[0\] has an unknown key 'multicats'; did you mean 'multicast'\?"),
        (
            PAIR | {"nodes": [{"id": "a", "kind": "gpu"}]},
            "node 'a' has an unknown kind 'gpu'; allowed: compute, switch",
        ),
        (PAIR | {"nodes": [{"id": {}, "kind": "compute"}]}, "the id {} is neither text nor a number"),
        (
            PAIR | {"nodes": [{"id": "a\n", "kind": "compute"}]},
            r"label 'a\\n' has characters that don't print",
        ),
        (node(host=[1]), r"host \[1\] of node 'a' is neither text nor a number"),
        (node(host=True), "host True of node 'a' is neither text nor a number"),
        (
            node(multicast=1),
            "multicast of node 'a' must be true or false",
        ),
        (PAIR | {"nodes": []}, "no node has the id 'a'"),
        (PAIR | {"nodes": [], "edges": []}, r"0 rank\(s\); a collective needs at least 2"),
        (pair(target="bb"), r"edge 'a' -> 'bb': no node has the id 'bb'; did you mean 'b'\?"),
        (pair(target="a"), "joins a node to itself"),
        (pair(bandwidth="50"), "edge 'a' -> 'b': bandwidth: bandwidth '50' has no unit"),
        (pair(bandwidth=None), "bandwidth: None is neither a number nor text with a unit"),
        (pair(bandwidth=True), "bandwidth: True is neither a number nor text with a unit"),
        (pair(bandwidth=[1]), r"bandwidth: \[1\] is neither a number nor text with a unit"),
        (pair(bandwidth=0), "bandwidth of link a->b is 0 B/s; it must be positive"),
        (pair(bandwidth=-3), "bandwidth of link a->b is -3 B/s; it must be positive"),
        (pair(alpha=-1), "alpha of link a->b is -1 s; it must not be negative"),
        (pair(alpha=float("nan")), "alpha: 'nan' is not a number"),
        (pair(alpha=float("inf")), "alpha: 'inf' is not a number"),
        (pair(bandwidth=10**30), "values too far apart: .* do not fit 64 bits"),
        (
            pair(key=0) | {"edges": [PAIR["edges"][0] | {"key": 0}] * 2},
            r"edges\[1\] repeats the source, target",
        ),
        (PAIR | {"directed": True}, "is not strongly connected: rank a can't be reached from b"),
    ],
)
def test_wrong_data_is_refused_in_one_line(document, message):
    with pytest.raises(InputError, match=message) as caught:
        from_node_link(document)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"nodes": [\n]\n"edges": []}', r"net\.json, line 3: not JSON: Expecting ',' delimiter"),
        ("", r"net\.json, line 1: not JSON: Expecting value"),
        ('{"alpha": NaN}', r"net\.json: NaN is not a number that a network can have"),
        ('{"alpha": -Infinity}', r"net\.json: -Infinity is not a number that a network can have"),
        ('{"alpha": 1e999999999}', r"net\.json: the number 1e999999999 is out of range"),
        (f'{{"alpha": {"9" * 9999}}}', r"net\.json: the number 9{20}\.\.\. is out of range"),
        ("[" * 10**5, r"net\.json: not a network: nested too deeply"),
        ("[]", r"net\.json: expected an object with the keys 'nodes' and 'edges'"),
    ],
)
def test_a_wrong_file_is_named_with_its_line(text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.json").write_text(text)
    with pytest.raises(InputError, match=f"^{message}") as caught:
        parse_topology("net.json")
    assert "\n" not in str(caught.value)


def test_a_network_that_fell_apart_is_called_by_its_file(tmp_path):
    path = tmp_path / "net.json"
    path.write_text(json.dumps(PAIR | {"directed": True}))
    with pytest.raises(InputError, match=rf"^topology {path} is not strongly connected"):
        read_topology(path)


def test_paths_that_can_not_be_read_or_written_are_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.json: can't be read: No such file or directory$"):
        read_topology(tmp_path / "none.json")
    with pytest.raises(InputError, match=r"can't be read: Is a directory$"):
        read_topology(tmp_path)
    with pytest.raises(InputError, match=r"can't be written: No such file or directory$"):
        write_topology(mesh(2, 2), tmp_path / "none" / "net.json")
    (tmp_path / "latin.json").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"latin\.json: not UTF-8 text, at byte 0$"):
        read_topology(tmp_path / "latin.json")


@pytest.mark.parametrize("target", ["pipe", "/dev/zero", "/dev/null"])
def test_what_may_never_end_is_not_read(target, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "net.json").symlink_to(tmp_path / target)
    with pytest.raises(InputError, match=r"net\.json: can't be read: not a regular file$"):
        read_topology(tmp_path / "net.json")


def test_a_file_too_long_is_not_read(tmp_path):
    with (tmp_path / "net.json").open("wb") as file:
        file.truncate(2**40)  # without blocks on the disk
    with pytest.raises(InputError, match=r"net\.json: too long: 1TiB; at most 1GiB$"):
        read_topology(tmp_path / "net.json")


def test_a_name_that_no_file_can_have_is_refused():
    with pytest.raises(InputError, match=r"^'a.x00\.json': can't be read: no file has a null character"):
        read_topology("a\0.json")
