"""``tutti topology``: hosts, tiers, what ranks have, symmetries and bounds."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from tests.topologies.networks import ACROSS, IN_ORDER, cluster_document
from tutti.models.bounds import lower_bounds
from tutti.schedules.collective import collective
from tutti.topologies import parse_topology

UNEVEN = Path(__file__).parents[2] / "data" / "cases" / "05_uneven_hosts" / "hetero.json"


@pytest.fixture
def unbounded(monkeypatch):
    """Leave out the bounds, which take longest."""
    monkeypatch.setattr("tutti.experiments.cli.listing.BOUNDED", ())


def described(tutti, text, *more):
    code, out, _ = tutti("topology", text, "--json", *more)
    assert code == 0
    return json.loads(out)


def test_a_users_cluster_is_understood(tutti, unbounded, tmp_path):
    path = tmp_path / "net.json"
    path.write_text(json.dumps(cluster_document(ACROSS)))
    document = described(tutti, path)
    assert (document["ranks"], document["switches"], document["links"]) == (8, 3, 32)
    assert document["hosts"] == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert document["hosts_inferred"]
    assert [(tier["bandwidth"], tier["links"], tier["inside_hosts"]) for tier in document["tiers"]] == [
        (300 * 10**9, 16, 16),
        (25 * 10**9, 16, 0),
    ]
    (kind,) = document["ranks_by_links"]
    assert kind["ranks"] == list(range(8))
    assert kind["out"] == [{"tier": 0, "to": "switch", "links": 1}, {"tier": 1, "to": "switch", "links": 1}]
    assert kind["egress"] == kind["ingress"] == 325 * 10**9
    assert document["orbits"] == [list(range(8))]


def test_what_is_told_is_not_called_inferred(tutti, unbounded, tmp_path):
    path = tmp_path / "net.json"
    path.write_text(json.dumps(cluster_document(IN_ORDER, tell=True)))
    assert not described(tutti, path)["hosts_inferred"]
    out = tutti("topology", path)[1]
    assert "2 of 4 ranks each (0-3; 4-7)" in out
    assert "inferred" not in out


def test_ranks_of_a_mesh_differ_as_its_corners_edges_and_middle_do(tutti, unbounded):
    document = described(tutti, "mesh:3x3?bandwidth=50GB/s,25GB/s")
    assert document["dimensions"] == "path of 3 x path of 3"
    assert document["hosts"] is None
    assert document["orbits"] == [[0, 2, 6, 8], [1, 7], [3, 5], [4]]
    egress = {tuple(kind["ranks"]): kind["egress"] / 10**9 for kind in document["ranks_by_links"]}
    assert egress == {(0, 2, 6, 8): 75, (1, 7): 100, (3, 5): 125, (4,): 150}


def test_bounds_are_the_largest_that_are_proven(tutti):
    sizes = [10**4, 10**8]
    document = described(tutti, "ring:4", "--sizes", "10KB,100MB")
    network = parse_topology("ring:4")
    for bound in document["bounds"]:
        what = collective(bound["collective"], 4)
        best = max(one.time(bound["size_bytes"]) for one in lower_bounds(network, what, bound["size_bytes"]))
        assert bound["time_s"] == float(best)
    assert [bound["size_bytes"] for bound in document["bounds"]] == sizes * 3
    assert Fraction(document["tiers"][0]["alpha"]) == Fraction(1, 2 * 10**6)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "torus:4x4",
            ["16 ranks", "ring of 4 x ring of 4", "BiRing(2,4)^2", "4 x 50GB/s to ranks: 200 GB/s", "none:"],
        ),
        ("dgx_h100:2", ["2 that can multicast", "450GB/s", "0-7; 8-15", "the same"]),
        ("uniring:5?degrade=0>1:0.5", ["no two ranks", "1 x 25GB/s to ranks"]),
    ],
)
def test_people_get_short_tables(tutti, text, words):
    code, out, _ = tutti("topology", text)
    assert code == 0
    assert all(word in out for word in words)


def test_bounds_of_a_large_network_are_left_out_and_that_is_said(tutti):
    """They took minutes on a mesh of 40,000 ranks."""
    code, out, _ = tutti("topology", "ring:1025")
    assert code == 0
    assert "bounds: left out, for over 1024 ranks" in out
    assert json.loads(tutti("topology", "ring:1025", "--json")[1])["bounds"] == []


def test_wrong_texts_and_sizes_get_one_line(tutti):
    for arguments in (("torus:4y4",), ("ring:4", "--sizes", "1KB,big")):
        code, _, err = tutti("topology", *arguments)
        assert code == 2
        assert err.count("\n") == 1


def test_what_was_guessed_of_a_machine_is_said(tutti, unbounded, tmp_path):
    path = tmp_path / "topo.txt"
    path.write_text("GPU0 GPU1\nGPU0 X NV2\nGPU1 NV2 X\n")
    text = f"nvidia-smi:{path}"
    assert any("the matrix has no speeds" in note for note in described(tutti, text)["notes"])
    assert "note: the matrix has no speeds" in tutti("topology", text)[1]
    assert "note: the matrix has no speeds" in tutti("synth", text, "--method", "ring")[2]


@pytest.mark.parametrize(
    ("text", "hosts", "said"),
    [
        (str(UNEVEN), [range(4), range(4, 10)], "2 of unequal size, 4 to 6 ranks (0-3; 4-9)"),
        ("dgx_a100:2?drop_nodes=15", [range(8), range(8, 15)], "2 of unequal size, 7 to 8 ranks (0-7; 8-14)"),
        ("dgx_a100:2?ranks=8+4", [range(8), range(8, 12)], "2 of unequal size, 4 to 8 ranks (0-7; 8-11)"),
    ],
)
def test_hosts_of_unequal_size_are_shown(tutti, unbounded, text, hosts, said):
    document = described(tutti, text)
    assert document["hosts"] == [list(ranks) for ranks in hosts]
    assert (document["dimensions"], document["no_hosts"]) == (None, None)
    fastest = max(document["tiers"], key=lambda tier: Fraction(tier["bandwidth"]))
    assert fastest["inside_hosts"] == fastest["links"]
    assert said in tutti("topology", text)[1]
