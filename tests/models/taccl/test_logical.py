"""The logical topology: links and ports of the shipped sketches, and the paper's Table 1."""

import csv
import re
from fractions import Fraction

import pytest

from tests.models.taccl.cases import REFERENCE, changed, written
from tutti.models.taccl import read_sketch
from tutti.models.taccl.demand import sketched_symmetry
from tutti.models.taccl.logical import logical_links
from tutti.topologies.errors import InputError
from tutti.topologies.text import parse_topology


@pytest.mark.parametrize(("name", "links"), [("dgx2-sk-1", 496), ("dgx2-sk-2", 512), ("dgx2-sk-3", 992)])
def test_dgx2_sketches_have_their_links(name, links):
    """2 boxes of 16 · 15 switched pairs; 8 relays, 16 pairs or 16 · 16 pairs each way between them."""
    logical = logical_links(parse_topology("dgx2:2"), read_sketch(name))
    assert len(logical.links) == links
    shared = {len(users) for port, users in logical.ports.items() if logical.topology.source[port] >= 32}
    assert max(shared) == {496: 15, 512: 15, 992: 32}[links], (
        "GPU ports have 15 users, adapters those of 2 GPUs"
    )


def test_the_cost_model_is_table_1():
    """TACCL, Table 1: α and β of both machines' links, of transfers from GPU to GPU."""
    with (REFERENCE / "taccl_table_1_links.csv").open() as file:
        table = {(row["system"], row["link"]): row for row in csv.DictReader(file)}
    for system, sketch in (("ndv2", "ndv2-sk-1"), ("dgx2", "dgx2-sk-1")):
        logical = logical_links(parse_topology(f"{system}:2"), read_sketch(sketch))
        inside = next(k for k, link in enumerate(logical.links) if not link.between and len(link.lanes) == 1)
        outside = next(k for k, link in enumerate(logical.links) if link.between)
        for number, name in ((inside, "nvlink"), (outside, "infiniband")):
            row = table[system, name]
            took = logical.latency(number, Fraction(10**6))
            assert took * 10**6 == Fraction(row["alpha_us"]) + Fraction(row["beta_us_per_mb"])


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            "symmetry_offsets",
            [[1, 32]],
            "symmetry_offsets [1, 32] is no automorphism: the image of link 0->15, 1->16, has another cost",
        ),
        (
            "symmetry_offsets",
            [[2, 24]],
            "symmetry_offsets [2, 24]: the 32 ranks of dgx2:2 are not groups of 24",
        ),
        ("internode_sketch.internode_conn", {"16": [0]}, "names rank 16; a host has ranks 0 to 15"),
    ],
)
def test_a_sketch_that_does_not_fit_the_network_is_refused(tmp_path, path, value, message):
    sketch = read_sketch(written(tmp_path, changed(path, value)))
    topology = parse_topology("dgx2:2")
    with pytest.raises(InputError, match=re.escape(message)):
        sketched_symmetry(logical_links(topology, sketch), sketch)


def test_two_switches_that_join_the_same_ranks_are_refused(tmp_path):
    document = changed("intranode_sketch.switches", [[0, 1], [1, 0]])
    document["intranode_sketch"]["switch_hyperedge_strategy"] = ["free", "free"]
    sketch = read_sketch(written(tmp_path, document))
    with pytest.raises(InputError, match=r"json: ranks 1 and 0 are on two of its switches$"):
        logical_links(parse_topology("dgx2:2"), sketch)
