"""Your machines: the names in the page's table are tried, on files as the tools beside them write them."""

import json
import re
from pathlib import Path

import networkx as nx
import pytest

from tests.topologies.importing.test_nccl import dgx_a100
from tutti.topologies import parse_topology
from tutti.topologies.measurements.tables import read_measurements

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "data" / "cases"
FILES = {
    "smi.txt": "18_anchor_nccltests_232/h100_4nics.txt",
    "tray.txt": "14_gb200_tray_hosts/gb200_nics.txt",
    "rocm.txt": "11_rocm_smi_topology/rocm_two_hives.txt",
    "amd.txt": "11_rocm_smi_topology/amd_smi.txt",
    "net.yml": "13_foreign_network_files/astra_h100.yml",
    "times.txt": "03_fit_two_rank_collective/sr2.txt",
}


def table():
    """Return what is run there and what it is named here, of each row of the page's first table."""
    lines = (ROOT / "docs" / "import.md").read_text().splitlines()
    rows = [line.split(" | ") for line in lines[lines.index("| you have | run there | name it here |") + 2 :]]
    rows = rows[: next(index for index, row in enumerate(rows) if len(row) < 3)]
    return [(row[1], re.search("`(.*)`", row[2])[1]) for row in rows]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files, those of networkx written by the lines of the page."""
    for name, source in FILES.items():
        (tmp_path / name).write_text((CASES / source).read_text())
    (tmp_path / "topo.xml").write_text(dgx_a100())
    monkeypatch.chdir(tmp_path)
    graph = nx.cycle_graph(4)
    nx.set_edge_attributes(graph, "50GB/s", "bandwidth")
    nx.set_edge_attributes(graph, "1us", "alpha")
    for there, _ in table():
        if "nx." in there:
            exec(there.strip("| `"), {"nx": nx, "json": json, "graph": graph, "Path": Path})
    return tmp_path


def test_every_name_of_the_table_is_read(folder):
    rows = table()
    assert len(rows) == 13
    for _, here in rows:
        if here.startswith("tutti fit "):
            (series,) = read_measurements(here.removeprefix("tutti fit "))
            assert series.link
        else:
            assert parse_topology(here).num_ranks >= 4
