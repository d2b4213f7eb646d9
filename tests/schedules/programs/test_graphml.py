"""Networks as GraphML."""

import networkx as nx
import pytest

from tests.schedules.programs.replays import loads, made
from tutti.schedules.method import NoOptions
from tutti.schedules.programs import graphml
from tutti.topologies.topology import Topology


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
