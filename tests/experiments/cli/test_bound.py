"""``tutti bound``: documents, times and sentences."""

import json
import re
from fractions import Fraction

import pytest

from tutti.models.bounds import lower_bounds, report
from tutti.models.bounds.bound import sentence
from tutti.schedules.collective import KINDS, collective
from tutti.topologies import parse_topology


def test_bounds_are_one_document_a_topology(tutti):
    code, out, _ = tutti("bound", "dgx_a100:1", "dgx_a100:2", "--json")
    first, second = map(json.loads, out.splitlines())
    assert code == 0
    assert first["algbw_gbps"] == pytest.approx(2400 / 7, rel=1e-12)  # 342.857 GB/s: 7/8 M into each GPU
    assert second["algbw_gbps"] == pytest.approx(1040 / 3, rel=1e-12)  # 346.667
    cut = next(bound for bound in second["bounds"] if bound["kind"] == "cut")
    assert (Fraction(cut["exact"]), cut["unit"]) == (1 / Fraction(1040, 3), "s/GB")
    assert first["size_bytes"] is None


def test_bounds_at_a_size_have_times(tutti):
    out = tutti("bound", "ring:4", "--size", "1MB", "--json")[1]
    document = json.loads(out)
    assert all(bound["time_us"] > 0 for bound in document["bounds"])
    assert document["best"]["time_us"] == max(bound["time_us"] for bound in document["bounds"])


def stop_at_programs(monkeypatch):
    """Let the first of the linear programs be stopped by Ctrl-C."""
    find = report._finder

    def finder(kind):
        if kind not in report.PROGRAMS:
            return find(kind)
        assert kind == "multicast_price"
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "_finder", finder)


def test_what_is_known_when_it_is_stopped_is_printed(tutti, monkeypatch):
    stop_at_programs(monkeypatch)
    code, out, err = tutti("bound", "ring:4", "--size", "32KB", "--lp", "--json")
    assert (code, err.splitlines()[-1]) == (130, "tutti: stopped")
    assert {"cut", "distance", "combined"} <= {bound["kind"] for bound in json.loads(out)["bounds"]}


def test_bounds_come_before_linear_programs_which_have_a_limit(tutti, monkeypatch):
    """What is printed when the first program begins is all that was known, and Ctrl-C keeps it."""

    stop_at_programs(monkeypatch)
    command = ["bound", "mesh:3", "--collective", "broadcast", "--size", "100KB"]
    code, out, err = tutti(*command, "--lp")
    assert out.endswith("stopped before a larger bound was proven\n")
    said = (
        "tutti: linear programs for multicast_price, path_price, at most 10 min each; "
        "Ctrl-C keeps what is found"
    )
    assert (code, err.splitlines()) == (130, [said, "tutti: stopped"])
    quick = tutti(*command)[1]
    assert out.startswith(quick[: quick.index("s/GB: per")])


def test_linear_programs_add_a_table_or_say_that_there_is_none(tutti, monkeypatch):
    """A broadcast of 100 KB on a line of three takes α twice and all bytes once: multicast_price.

    Coarse bins and ticks do: what they prove is in tests/models/bounds.
    """
    monkeypatch.setattr("tutti.models.bounds.multicast_price.MOST_BINS", 12)
    monkeypatch.setattr("tutti.models.bounds.path_price.MOST_PARTS", 4)
    out = tutti("bound", "mesh:3", "--collective", "broadcast", "--size", "100KB", "--lp")[1]
    first, second = out.split("broadcast on mesh:3:")[1:]
    assert "multicast_price" not in first
    assert "multicast_price" in second
    assert "distance" not in second
    out = tutti("bound", "ring:4", "--size", "32KB", "--lp")[1]
    assert out.count("allgather on ring:4:") == 1
    assert "linear programs prove no larger bound" in out


@pytest.mark.parametrize(
    ("kind", "rest"),
    [
        ("allgather", "nothing is added for allgather"),
        ("allreduce", "only lp is computed"),
        ("all-to-all", "only mcf is computed"),
    ],
)
def test_linear_programs_that_need_a_size_say_so(tutti, kind, rest):
    code, _, err = tutti("bound", "ring:4", "--collective", kind, "--lp")
    need = "multicast_price and path_price need --size, such as --size 1MB"
    assert (code, err.splitlines()[0]) == (0, f"tutti: note: --lp: {need}; without it, {rest}")
    assert ("linear programs for" in err) == (kind != "allgather")


def test_bounds_for_people_name_the_topology(tutti):
    out = tutti("bound", "ring:4")[1]
    assert "allgather on ring:4" in out
    assert "133.333 GB/s" in out


def test_bounds_for_people_are_sentences_about_the_smaller_side(tutti):
    """15/16 of M reaches a GPU over 300 + 25 GB/s; a box of eight has 8 x 25 GB/s to the other."""
    out = tutti("bound", "dgx_a100:2")[1]
    assert "15/16 of M must enter rank 0, whose links in carry 325 GB/s" in out
    assert " us " not in out
    out = tutti("bound", "dgx_a100:2", "--collective", "allreduce", "--size", "1MB")[1]
    assert re.search(r"all of M must (leave|enter) the 8 ranks \[(0-7|8-15)\] and switch 1[67], ", out)
    assert " us " in out


def test_which_bounds_hold_for_any_schedule_is_said_plainly(tutti):
    """The allreduce LP's is above the largest of these, and only of schedules over trees."""
    out = tutti("bound", "dgx_h100:1", "--collective", "allreduce", "--size", "1MB")[1]
    scopes = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert all("any schedule" in scopes[kind] for kind in ("cut", "degree", "distance", "combined"))
    assert "tree schedules" in scopes["lp"]
    assert "any schedule" not in scopes["lp"]
    assert scopes["lp:"].endswith("gaps are to combined, the largest bound on any schedule")
    assert "lp:" not in tutti("bound", "ring:4", "--collective", "allreduce")[1]


@pytest.mark.parametrize("kind", KINDS)
def test_every_certificate_has_a_sentence_with_units(kind):
    for text in ("mesh:3x3?drop_nodes=4", "dgx_a100:2"):
        topology = parse_topology(text)
        for bound in lower_bounds(topology, collective(kind, topology.num_ranks), 10**6):
            assert re.search(r"\d (GB/s|us)|\dus", sentence(bound.kind, bound.certificate, topology))


def test_rooted_collectives_and_groups_can_be_asked_for(tutti):
    out = tutti("bound", "ring:4", "--collective", "broadcast", "--root", 2, "--json")[1]
    assert json.loads(out)["collective"] == "broadcast(root=2)"
    out = tutti("bound", "ring:4", "--groups", "0,1|2,3", "--shards", "1,2", "--json")[1]
    assert json.loads(out)["collective"] == "allgather(shards=1,2; groups=0,1|2,3)"


def test_a_saved_certificate_is_recomputed_and_one_for_another_network_proves_nothing(tutti, tmp_path):
    path = tmp_path / "bounds.json"
    path.write_text(tutti("bound", "ring:4", "--collective", "allreduce", "--size", "1MB", "--json")[1])
    code, out, _ = tutti("bound", "--check", path)
    assert code == 0
    assert "proven: ring:4, allreduce: partition 3/200000000000 s/B" in out
    assert tutti("bound", "ring:4?links=2", "--check", path)[0] == 1
    code, _, err = tutti("bound", "torus:3x3", "--check", path)
    assert (code, err.count("\n")) == (2, 1)
    path.write_text(path.read_text().replace('"kind": "distance"', '"kind": "chains"'))
    code, out, _ = tutti("bound", "--check", path)
    assert (code, out.count("no: ")) == (1, 1)
    assert "no: ring:4, allreduce: chains bound: no longer checked, since version 0.2\n" in out
    path.write_text(path.read_text().replace('"ranks"', '"rank"'))
    assert "no certificate for ring:4" in tutti("bound", "--check", path)[1]
    path.write_text("")
    assert "is empty; tutti bound --json writes a line" in tutti("bound", "--check", path)[2]
    path.write_text("{}")
    assert "line 1: no line of tutti bound --json: it has no 'topology'" in tutti("bound", "--check", path)[2]


def test_a_file_of_an_earlier_version_is_checked(tutti, tmp_path):
    """Kinds had other names then, also that of the best."""
    path = tmp_path / "bounds.json"
    now = tutti("bound", "ring:4", "--collective", "allreduce", "--size", "1MB", "--json")[1]
    assert json.loads(now)["best"]["kind"] == "partition_latency"
    path.write_text(now.replace('"partition_latency"', '"transfers"'))
    code, out, _ = tutti("bound", "--check", path)
    assert (code, out.count("proven: ")) == (0, len(json.loads(now)["bounds"]))
    assert "proven: ring:4, allreduce: partition_latency " in out


@pytest.mark.parametrize("certificate", [None, 5, "x", [0]])
def test_a_certificate_that_is_no_object_is_refused(tutti, tmp_path, certificate):
    path = tmp_path / "bounds.json"
    line = json.loads(tutti("bound", "ring:4", "--json")[1])
    line["bounds"][0]["certificate"] = certificate
    path.write_text(json.dumps(line))
    code, _, err = tutti("bound", "--check", path)
    assert (code, err) == (2, f"tutti: {path}, line 1: no line of tutti bound --json: it can't be read\n")


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (
            "broadcast_growth",
            {"certificate": {"node": -1, "ticks": 1000}, "exact": "1/2000", "time_us": 500.0},
        ),
        (
            "broadcast_growth",
            {"certificate": {"node": 16, "ticks": 1000}, "exact": "1/2000", "time_us": 500.0},
        ),
        ("broadcast_growth", {"certificate": {"ticks": 10**12}, "exact": "500000", "time_us": 5e11}),
        ("distance", {"unit": "s/B"}),
        ("cut", {"unit": "s"}),
        ("cut", {"unit": "hours"}),
        ("combined", {"certificate": {"size_bytes": 10**6}}),
        ("combined", {"certificate": {"h": "1e99999999"}}),
        ("cut", {"time_us": 1000.0}),
        ("cut", {"time_us": 10**400}),
        ("cut", {"holds_for": "tree schedules"}),
    ],
)
def test_no_forged_certificate_proves_a_bound(tutti, tmp_path, kind, changes):
    """Each claims more than holds: of 16 GPUs nobody waits half a millisecond for 1 KB."""
    path = tmp_path / "bounds.json"
    line = json.loads(tutti("bound", "dgx_a100:2", "--size", "1KB", "--json")[1])
    (entry,) = [entry for entry in line["bounds"] if entry["kind"] == kind]
    entry["certificate"] |= changes.get("certificate", {})
    entry |= {name: value for name, value in changes.items() if name != "certificate"}
    path.write_text(json.dumps(line))
    code, out, _ = tutti("bound", "--check", path)
    assert code == 1
    assert out.count("no: ") == 1


@pytest.mark.parametrize(
    "forged",
    [
        {"best": {"kind": "cut", "time_us": 1e6}},
        {"best": {"kind": "broadcast_growth", "time_us": 0.0}},
        {"algbw_gbps": 1},
    ],
)
def test_the_largest_bound_is_no_other_than_those_that_are_proven(tutti, tmp_path, forged):
    path = tmp_path / "bounds.json"
    line = json.loads(tutti("bound", "ring:4", "--size", "1KB", "--json")[1])
    path.write_text(json.dumps(line | forged))
    code, out, _ = tutti("bound", "--check", path)
    assert code == 1
    assert re.search(r"no: ring:4, allgather: the best: \w+ is \S+, not ", out)


@pytest.mark.parametrize("exact", ["1/0", "1e99999999", float("inf"), "x"])
def test_numbers_that_are_none_are_bad_input(tutti, tmp_path, exact):
    path = tmp_path / "bounds.json"
    line = json.loads(tutti("bound", "ring:4", "--size", "1KB", "--json")[1])
    line["bounds"][0]["exact"] = exact
    path.write_text(json.dumps(line))
    code, _, err = tutti("bound", "--check", path)
    assert (code, err.count("\n")) == (2, 1)
    assert tutti("bound", "ring:4", "ring:5", "--check", path)[0] == 2
