"""Networks in other tools' files: networkx's graphs, ASTRA-sim's yml, and files that only resemble these."""

import json
from fractions import Fraction
from itertools import product
from pathlib import Path

import networkx as nx
import pytest

import tutti
from tutti.schedules.programs import chakra, graphml
from tutti.topologies import InputError, from_networkx, parse_topology, read_topology, to_networkx

CASES = Path(__file__).parents[2] / "data" / "cases"
PETERSEN = CASES / "12_networkx_graphs"
GB = 10**9


@pytest.fixture
def network(tmp_path):
    """Return the reader of a network from a text, a file name and keys."""

    def read(text, name, keys=""):
        path = tmp_path / name
        path.write_text(text)
        return parse_topology(f"{path}{keys}")

    return read


def arcs(topology):
    """Return the links by the labels of their ends, sorted."""
    labels = topology.labels
    return sorted(
        (labels[a], labels[b])
        for a, b in zip(topology.source.tolist(), topology.target.tolist(), strict=True)
    )


EXPECTED = sorted((str(a), str(b)) for a, b in nx.petersen_graph().to_directed().edges)


def written(graph, how):
    """Return the text that a writer of networkx makes of a graph."""
    lines = {"gml": nx.generate_gml, "graphml": nx.generate_graphml, "edgelist": nx.generate_edgelist}
    if how in lines:
        return "\n".join(lines[how](graph))
    data = {
        "adjacency": nx.adjacency_data,
        "edges": lambda graph: nx.node_link_data(graph, edges="edges"),
        "links": lambda graph: nx.node_link_data(graph, edges="links"),
    }
    return json.dumps(data[how](graph))


@pytest.mark.parametrize("name", sorted(path.name for path in PETERSEN.iterdir()))
def test_the_petersen_graph_of_the_case(name):
    topology = parse_topology(str(PETERSEN / name))
    assert arcs(topology) == EXPECTED
    assert set(topology.bandwidth) == {50 * GB}
    assert set(topology.alpha) == {Fraction(1, 10**6)}
    assert any(note == "ignored keys of edges: weight" for note in topology.notes)


WRITERS = [
    ("gml", "gml"),
    ("graphml", "graphml"),
    ("edgelist", "edgelist"),
    ("edges", "json"),
    ("links", "json"),
]


@pytest.mark.parametrize(("how", "suffix"), [*WRITERS, ("adjacency", "json")])
@pytest.mark.parametrize("directed", [False, True])
def test_a_graph_of_networkx_is_read_back(network, how, suffix, directed):
    graph = nx.cycle_graph(5).to_directed() if directed else nx.hypercube_graph(3)
    graph = nx.convert_node_labels_to_integers(graph)
    for name, value in (("bandwidth", "25GB/s"), ("alpha", "2us"), ("color", "red")):
        nx.set_edge_attributes(graph, value, name)
    topology = network(written(graph, how), f"net.{suffix}")
    assert arcs(topology) == sorted((str(a), str(b)) for a, b in graph.to_directed().edges)
    assert set(topology.bandwidth) == {25 * GB}
    assert any("of edges: color" in note for note in topology.notes)


def test_switches_hosts_and_parallel_links_of_a_graph_are_read_back(network):
    graph = nx.MultiGraph()
    graph.add_node("a", kind="compute", host="left", pos=3)
    graph.add_node("b", kind="compute", host="right")
    graph.add_node("s", kind="switch", multicast=True, label="leaf")
    for ends in ("as", "as", "bs"):
        graph.add_edge(*ends, bandwidth="1GB/s", alpha="1us")
    for how, suffix in (("graphml", "graphml"), ("edges", "json")):
        topology = network(written(graph, how), f"net.{suffix}")
        assert topology.labels == ("a", "b", "leaf")
        assert arcs(topology) == sorted([("a", "leaf"), ("leaf", "a")] * 2 + [("b", "leaf"), ("leaf", "b")])
        assert topology.multicast == {2}
        assert topology.hosts.tolist()[:2] == [0, 1]
        assert any("of nodes: pos" in note for note in topology.notes)


def test_what_nothing_reads_may_be_anything(network):
    graph = nx.cycle_graph(4)
    for name, value in (
        ("bandwidth", "1GB/s"),
        ("alpha", "1us"),
        ("cost", float("nan")),
        ("far", float("inf")),
    ):
        nx.set_edge_attributes(graph, value, name)
    for how in ("graphml", "gml"):
        topology = network(written(graph, how), f"net.{how}")
        assert topology.num_links == 8
        assert any("of edges: cost, far" in note for note in topology.notes)


def test_graphml_that_was_exported_is_read_back(tmp_path):
    net = tutti.topology("dgx_a100:2")
    schedule = tutti.synthesize(net, "allgather", method="ring").schedule
    path = tmp_path / "net.graphml"
    graphml.write(schedule, path, graphml.OPTIONS())
    again = parse_topology(str(path))
    assert (again.num_ranks, again.num_switches) == (net.num_ranks, net.num_switches)
    assert arcs(again) == arcs(net)
    assert list(again.bandwidth) == list(net.bandwidth)
    assert list(again.alpha) == list(net.alpha)
    assert again.hosts.tolist() == net.hosts.tolist()
    assert any("of edges: load, busy" in note for note in again.notes)


def test_a_network_becomes_a_graph_of_networkx():
    net = parse_topology("dgx_a100:2")
    graph = net.to_networkx()
    assert isinstance(graph, nx.MultiDiGraph)
    assert graph.number_of_edges() == net.num_links
    assert nx.utils.graphs_equal(graph, to_networkx(net))
    assert from_networkx(graph) == net


@pytest.mark.parametrize("text", ["0 1\n1 2\n2 0\n", "0,1\n1,2\n2,0\n", "# c\n0 1\n\n1 2 # c\n2\t0\n"])
def test_a_list_of_edges_gets_its_bandwidth_from_the_command(network, text):
    topology = network(text, "net.edgelist", "?bandwidth=20GB/s&alpha=3us")
    assert arcs(topology) == sorted((str(a), str(b)) for a, b in product(range(3), range(3)) if a != b)
    assert set(topology.bandwidth) == {20 * GB}
    assert set(topology.alpha) == {Fraction(3, 10**6)}
    assert any("each edge is a link in each direction" in note for note in topology.notes)


def test_a_list_in_both_directions_is_directed_and_a_third_column_is_noted(network):
    topology = network("0 1 5\n1 0 5\n", "net.edges", "?bandwidth=20GB/s&alpha=3us")
    assert topology.num_links == 2
    assert any("each is one link" in note for note in topology.notes)
    assert any("a third column of 2 edges" in note for note in topology.notes)
    again = network("0 1\n0 1\n", "net.edges", "?bandwidth=20GB/s&alpha=3us")
    assert again.num_links == 4
    assert any("1 edges are repeated" in note for note in again.notes)


def test_a_capacity_of_a_graph_is_not_the_default_bandwidth():
    graph = nx.cycle_graph(4)
    nx.set_edge_attributes(graph, 300, "capacity")
    with pytest.raises(InputError, match="no key 'bandwidth', but 'capacity'; say bandwidth, with a unit"):
        from_networkx(graph)


def yml(kinds, counts, bandwidth, latency):
    rows = {"topology": kinds, "npus_count": counts, "bandwidth": bandwidth, "latency": latency}
    return "".join(
        f"{key}: [ {', '.join(map(str, value))} ]  # of a dimension\n" for key, value in rows.items()
    )


def test_the_network_of_astra_sim_of_the_case():
    topology = parse_topology(str(CASES / "13_foreign_network_files" / "astra_h100.yml"))
    assert (topology.num_ranks, topology.num_switches, topology.num_links) == (8, 1, 16)
    assert set(topology.bandwidth) == {400 * 2**30}  # a GB of ASTRA-sim
    assert set(topology.alpha) == {Fraction(93625, 10**11)}
    assert any("2^30" in note for note in topology.notes)


@pytest.mark.parametrize(
    ("kinds", "counts", "expected"),
    [
        (["Ring"], [8], "torus:8"),
        (["Ring", "Ring"], [4, 8], "torus:4x8"),
        (["FullyConnected"], [5], "complete:5"),
        (["Ring", "Ring", "Ring"], [2, 3, 4], "torus:2x3x4"),
    ],
)
def test_a_network_of_astra_sim_is_that_of_a_family(network, kinds, counts, expected):
    topology = network(yml(kinds, counts, [50] * len(kinds), [500] * len(kinds)), "net.yml")
    family = parse_topology(expected)
    one, other = (nx.Graph(net.to_networkx()) for net in (topology, family))
    assert topology.num_ranks == family.num_ranks
    assert nx.is_isomorphic(one, other)
    assert set(topology.alpha) == {Fraction(5, 10**7)}


def test_dimensions_of_astra_sim_have_bandwidths_of_their_own(network):
    """Two groups of eight H100: ranks 0-7 share a switch, and so do ranks 0 and 8."""
    topology = network(yml(["Switch", "Switch"], [8, 2], [400, 50], [1, 2]), "net.yaml")
    ends = dict(zip(topology.labels, range(topology.num_nodes), strict=True))
    near = {
        label: sorted(topology.source[topology.target == ends[label]].tolist())
        for label in ("switch0.0", "switch0.1", "switch1.0", "switch1.7")
    }
    assert near == {
        "switch0.0": list(range(8)),
        "switch0.1": list(range(8, 16)),
        "switch1.0": [0, 8],
        "switch1.7": [7, 15],
    }
    assert sorted(set(topology.bandwidth)) == [50 * 2**30, 400 * 2**30]


def test_what_was_exported_for_astra_sim_is_read_back(tmp_path):
    for text in ("ring:6", "complete:4", "ring:5?alpha=1/3us&bandwidth=7GB/s"):
        net = parse_topology(text)
        schedule = tutti.synthesize(net, "allgather", method="ring").schedule
        chakra.write(schedule, tmp_path / "out", chakra.OPTIONS(size="840KB"))
        again = parse_topology(str(tmp_path / "out.network.yml"))
        assert arcs(again) == arcs(net)
        assert list(again.bandwidth) == list(net.bandwidth)
        assert float(again.alpha[0]) == pytest.approx(float(net.alpha[0]), rel=1e-8)


@pytest.mark.parametrize(
    "text",
    [
        "topology:\n  - Ring\nnpus_count:\n  - 4\nbandwidth:\n  - 50.0\nlatency:\n  - 500.0\n",
        "topology: [ Ring,\n ]\nnpus_count: [4]\nbandwidth: [50]\nlatency: [500]\nother: 3\n",
        "---\ntopology: Ring\nnpus_count: 4\nbandwidth: 50\nlatency: 500\n",
    ],
)
def test_other_ways_to_write_a_flat_yml(network, text):
    assert network(text, "net.yml").num_links == 8


TE_CCL_SCHEDULE = json.dumps({"1-Epoch_Duration": 3.5e-09, "6-Demand_Met": {}, "7-Flows": []})
TACCL_LINKS = {"name": "a", "gpus_per_node": 2, "alpha": 1, "links": [], "betas": [], "invbws": []}
NS3 = "3 1 2\n2\n0 2 400Gbps 0.0005ms 0\n1 2 400Gbps 0.0005ms 0\n"


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        (
            (CASES / "13_foreign_network_files/taccl_dgx2_1MB.json").read_text(),
            "n.json",
            "of TACCL: costs in us",
        ),
        (json.dumps(TACCL_LINKS), "n.json", "of TACCL: costs in us"),
        ((CASES / "13_foreign_network_files/teccl_mesh.json").read_text(), "n.json", "an input of TE-CCL"),
        (TE_CCL_SCHEDULE, "n.json", "a schedule of TE-CCL, which is not read"),
        ('{"nnodes": 2, "intranode_sketch": {}, "internode_sketch": {}}', "n.json", "a sketch of TACCL"),
        ('{"msccl_type": "topology", "links": [[0]]}', "n.json", "a topology of SCCL"),
        ('{"sccl_type": "algorithm"}', "n.json", "an algorithm of SCCL"),
        ('{"dimensions-count": 2, "units-count": [2, 2]}', "n.json", "a network of ASTRA-sim 1.0"),
        (NS3, "topology.txt", "a topology of ns-3, which is not read: write its links as a list of edges"),
        ("# a ring\n0 1\n1 2\n2 0\n", "ring.txt", "a list of edges is called ring.edgelist"),
        ('<algo name="x"/>', "p.xml", "a program of MSCCL, which is no network; tutti import"),
        ('<system version="1"/>', "t.xml", "named with its kind: nccl:"),
        ((CASES / "11_rocm_smi_topology/rocm_two_hives.txt").read_text(), "r.txt", "its kind: rocm-smi:"),
        ((CASES / "11_rocm_smi_topology/amd_smi.txt").read_text(), "a.log", "its kind: amd-smi:"),
        ("GPU0 GPU1\nGPU0 X NV4\nGPU1 NV4 X\n", "smi.log", "its kind: nvidia-smi:"),
        ("hello", "net.dat", "not JSON; the name of another file with a network ends in one of .json"),
        ("0 1\n1 0\n1 2\n", "n.edges", "2 of 3 edges are listed in both directions"),
        ("0 1\n1 2\n", "n.edges", r"no key 'bandwidth'; bandwidth= in the text of the network gives"),
        ("0 1 2 3\n", "n.edges", "line 1: '0 1 2 3' is no edge"),
        ("0 1 {'a': \n", "n.edges", "line 1: .* is no dict of attributes"),
        ("\n", "n.edges", "no edge; a line of a list of edges is: u v"),
        ("<graphml/>", "n.graphml", "has 0 graphs; one is read"),
        ("<other/>", "n.graphml", "is no GraphML"),
        (
            '<graphml><graph><node id="0"><data key="d"/></node></graph></graphml>',
            "n.graphml",
            "no <key> declares",
        ),
        ("graph [ node [ id 0 ", "n.gml", "no GML: it ends within a list"),
        ('graph [ label "a ', "n.gml", "line 1: no GML: a text that is not closed"),
        ("creator 3", "n.gml", "no GML: 0 graphs"),
        ('{"nodes": [{"id": 0}], "adjacency": []}', "n.json", "of equal length"),
        ("topology: [ Ring ]\n", "n.yml", "no key 'npus_count'"),
        (yml(["Ring"], [4, 4], [1], [1]), "n.yml", "need one value a dimension"),
        (
            yml(["Torus"], [4], [1], [1]),
            "n.yml",
            "topology 'Torus' is not read; allowed: FullyConnected, Ring",
        ),
        (yml(["Ring"], [1], [1], [1]), "n.yml", "npus_count '1' is no whole number of at least 2"),
        (yml(["Ring"], [4], [0], [1]), "n.yml", "bandwidth is 0; it must be positive"),
        (yml(["Ring"], [4], [1], [-1]), "n.yml", "latency is -1; it must not be negative"),
        (yml(["Ring"], [4], ["x"], [1]), "n.yml", "bandwidth: 'x' is not a number"),
        (yml(["Ring"] * 2, [9999999] * 2, [1] * 2, [1] * 2), "n.yml", "too many nodes"),
        ("topology: [ Ring\n", "n.yml", "the list of 'topology' is not closed"),
        ("topology: [ Ring ]\ntopology: [ Ring ]\n", "n.yml", "line 2: the key 'topology' occurs twice"),
        ("hello\n", "n.yml", "line 1: 'hello' is no line of a network of ASTRA-sim"),
    ],
)
def test_what_is_no_network_gets_one_line_with_the_way(network, text, name, words):
    with pytest.raises(InputError, match=words) as caught:
        network(text, name)
    assert "\n" not in str(caught.value)


def test_bandwidths_that_may_be_of_another_unit_are_noted(network):
    graph = nx.cycle_graph(4)
    for bandwidth, noted in ((50, True), (50 * GB, False), ("50B/s", False)):
        nx.set_edge_attributes(graph, bandwidth, "bandwidth")
        topology = network(written(graph, "edges"), "net.json", "?alpha=1us")
        assert any("without a unit are bytes a second" in note for note in topology.notes) is noted


def test_a_file_with_its_own_numbers_takes_none_from_the_command(network):
    for name, keys in (("petersen.json", "?bandwidth=1GB/s"), ("petersen.graphml", "?alpha=1us")):
        with pytest.raises(InputError, match="is for families; a file says it link by link"):
            parse_topology(f"{PETERSEN / name}{keys}")
    with pytest.raises(InputError, match="has 2 values; a file needs one"):
        network("0 1\n", "n.edges", "?bandwidth=1GB/s,2GB/s")
    with pytest.raises(InputError, match="bandwidth= is for families"):
        network(yml(["Ring"], [4], [1], [1]), "n.yml", "?bandwidth=1GB/s")


def test_read_topology_reads_our_own_json_only(tmp_path):
    path = tmp_path / "net.json"
    path.write_text((PETERSEN / "petersen_links.json").read_text())
    assert read_topology(path).num_links == 30
