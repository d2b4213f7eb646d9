"""Networks as ns-3's physical topology and GraphML."""

import re
from fractions import Fraction

import networkx as nx
import pytest

from schedules.method import NoOptions
from schedules.programs import graphml
from schedules.programs.ns3 import to_ns3
from tests.schedules.programs.replays import loads, made
from topologies.errors import InputError
from topologies.text import parse_topology
from topologies.topology import Link, Topology

US = Fraction(1, 10**6)


def test_ns3_has_a_switch_as_astra_sims_example_has_it():
    """examples/network/ns3/topology/8_nodes_1_switch_topology.txt: counts, switches, a line a link."""
    lines = to_ns3(parse_topology("dgx_a100:1")).splitlines()
    assert lines[:2] == ["9 1 8", "8"]
    assert lines[2:] == [f"{rank} 8 2400Gbps 500ns 0" for rank in range(8)]  # 300 GB/s


def test_ns3_without_switches_has_a_blank_line():
    assert to_ns3(parse_topology("ring:3")) == (
        "3 0 3\n\n0 1 400Gbps 500ns 0\n0 2 400Gbps 500ns 0\n1 2 400Gbps 500ns 0\n"
    )


def test_ns3_joins_parallel_links():
    links = [Link(a, b, Fraction(speed)) for a, b in [(0, 1), (1, 0)] for speed in (1000, 500)]
    assert to_ns3(Topology.from_links("two", 2, links)).splitlines()[2] == "0 1 12000bps 500ns 0"


@pytest.mark.parametrize(
    ("links", "text"),
    [
        ([Link(0, 1), Link(1, 0, alpha=US)], "0->1 has 50GB/s and 0.5us, back there is 50GB/s and 1us"),
        ([Link(0, 1), Link(1, 2), Link(2, 0)], "0->1 has 50GB/s and 0.5us, back there is nothing"),
        ([Link(0, 1), Link(1, 0), Link(0, 1, alpha=US)], "parallel links 0->1 have several α"),
        ([Link(0, 1, alpha=US / 3), Link(1, 0, alpha=US / 3)], "α of 0->1 is 1/3us; ns-3 counts nanoseconds"),
    ],
)
def test_ns3_refuses_what_it_has_no_words_for(links, text):
    with pytest.raises(InputError, match=f"does not fit: {re.escape(text)}"):
        to_ns3(Topology.from_links("bad", max(link.source for link in links) + 1, links))


@pytest.mark.parametrize(
    "case", [("dgx_a100:2", "allgather", "nccl_like"), ("mesh:2x3", "allreduce", "direct")], ids=str
)
def test_graphml_holds_the_network_and_its_loads(case, tmp_path):
    schedule = made(*case)
    topology, total = schedule.topology, loads(schedule)
    graphml.write(schedule, tmp_path / "x", NoOptions())
    graph = nx.read_graphml(tmp_path / "x", node_type=int, edge_key_type=int, force_multigraph=True)
    kinds = ["compute"] * topology.num_ranks + ["switch"] * topology.num_switches
    assert [data["kind"] for _, data in sorted(graph.nodes(data=True))] == kinds
    edges = {int(data.get("id", key)): (a, b, data) for a, b, key, data in graph.edges(keys=True, data=True)}
    busiest = max(load / topology.bandwidth[link] for link, load in total.items())
    assert len(edges) == topology.num_links
    for link, (source, target, data) in edges.items():
        assert (source, target) == (topology.source[link], topology.target[link])
        assert data["load"] == pytest.approx(float(total[link]))
        assert data["busy"] == pytest.approx(float(total[link] / topology.bandwidth[link] / busiest))


def test_graphml_has_no_signs_that_cannot_be_printed(tmp_path):
    schedule = made("ring:2", "allgather", "ring")
    links = [schedule.topology.link(link) for link in range(schedule.topology.num_links)]
    named = schedule.replace(topology=Topology.from_links("n", 2, links, labels=('a"b\\', "c\nd")))
    graphml.write(named, tmp_path / "x", NoOptions())
    labels = nx.read_graphml(tmp_path / "x").nodes(data="label")
    assert dict(labels) == {"0": 'a"b\\', "1": "c?d"}


def test_graphml_has_the_notes_of_a_network_as_one_text(tmp_path):
    schedule = made("ring:2", "allgather", "ring")
    topology = schedule.topology
    links = [topology.link(link) for link in range(topology.num_links)]
    noted = schedule.replace(topology=Topology.from_links("n", 2, links, notes=("guessed", "and this")))
    graphml.write(noted, tmp_path / "x", NoOptions())
    assert nx.read_graphml(tmp_path / "x").graph["notes"] == "guessed; and this"
