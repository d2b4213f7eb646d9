"""``tutti fit``: from measured times to a network that others read."""

import json
from pathlib import Path

import pytest

from tests.topologies.measurements.test_tables import OSU_ALLGATHER, OSU_LATENCY, SENDRECV
from tutti.topologies import read_topology

CASES = Path(__file__).parents[2] / "data" / "cases"


def times(alpha, bandwidth, sizes=(10**3, 10**6, 10**9)):
    return [(size, alpha + size / bandwidth) for size in sizes]


@pytest.fixture
def measured(tmp_path):
    """A CSV of a triangle: 5 us and 20 GB/s one way round, half of that the other."""
    path = tmp_path / "measured.csv"
    rows = ["source,destination,bytes,seconds"]
    for rank in range(3):
        rows += [f"{rank},{(rank + 1) % 3},{size},{seconds!r}" for size, seconds in times(5e-6, 20e9)]
        rows += [f"{rank},{(rank - 1) % 3},{size},{seconds!r}" for size, seconds in times(5e-6, 10e9)]
    path.write_text("\n".join(rows))
    return path


def test_a_csv_becomes_a_network_that_is_synthesized_on(tutti, measured, tmp_path):
    out = tmp_path / "net.json"
    code, text, _ = tutti("fit", measured, "-o", out)
    assert code == 0
    assert "0 -> 1" in text
    assert "20 GB/s" in text
    network = read_topology(out)
    assert sorted({float(network.link(i).bandwidth) for i in range(6)}) == [10e9, 20e9]
    assert {float(network.link(i).alpha) for i in range(6)} == {5e-6}
    code, _, notes = tutti("synth", out, "--method", "tacos")
    assert code == 0
    assert "are measured" in notes


def test_chunks_of_one_size_apart_and_together_are_enough(tutti, tmp_path):
    """TACCL, 4.1, by hand: 7 alpha are the 11.9 us between the two times (Table 1: 1.7 us, 106 us/MB)."""
    path, out = tmp_path / "taccl.csv", tmp_path / "net.json"
    pairs = [(0, 1), (1, 0)]
    rows = [f"{a},{b},262144,{n},{t}" for a, b in pairs for n, t in ((8, 41.387264e-6), (1, 29.487264e-6))]
    path.write_text("\n".join(["source,destination,bytes,messages,seconds", *rows]))
    assert tutti("fit", path, "-o", out)[0] == 0
    network = read_topology(out)
    assert {float(network.alpha[i]) for i in range(2)} == {1.7e-6}
    assert {float(network.bandwidth[i]) for i in range(2)} == {float(f"{1e6 / 106e-6:.4g}")}
    path.write_text(path.read_text().replace("262144,8", "262144,1"))
    assert "all times are of one size, 262144 B" in wrong(tutti, path, "-o", out)


def test_json_has_numbers(tutti, measured):
    document = json.loads(tutti("fit", measured, "--json")[1])
    first = document["fits"][0]
    assert (first["source"], first["destination"], first["samples"], first["off"]) == ("0", "1", 3, [])
    assert first["alpha_s"] == pytest.approx(5e-6)
    assert first["bandwidth"] == pytest.approx(20e9)


def test_a_table_of_one_pair_is_of_all_links_alike(tutti, tmp_path):
    path, out = tmp_path / "osu.txt", tmp_path / "net.json"
    path.write_text(OSU_LATENCY)
    assert tutti("fit", path, "--topology", "dgx_a100:2", "--pair", "0,8", "-o", out)[0] == 0
    network = read_topology(out)
    inside = [i for i in range(network.num_links) if "nvswitch" in network.link_name(i)]
    assert {int(network.link(i).bandwidth) for i in inside} == {300 * 10**9}
    outside = set(range(network.num_links)) - set(inside)
    (bandwidth,) = {int(network.link(i).bandwidth) for i in outside}
    assert bandwidth == pytest.approx(10.1e9, rel=0.02)  # 1 MiB in 105 us less alpha


def test_a_network_gets_what_its_pairs_measured(tutti, measured, tmp_path):
    out = tmp_path / "net.json"
    assert tutti("fit", measured, "--topology", "ring:3?alpha=1us", "-o", out)[0] == 0
    assert {float(read_topology(out).link(i).alpha) for i in range(6)} == {5e-6}


def test_links_alike_stay_alike(tutti, measured, tmp_path):
    out = tmp_path / "net.json"
    assert tutti("fit", measured, "--topology", "ring:3", "--alike", "-o", out)[0] == 0
    assert {int(read_topology(out).link(i).bandwidth) for i in range(6)} == {15 * 10**9}  # the median


def test_a_size_that_does_not_fit_is_named(tutti, measured):
    measured.write_text(measured.read_text() + "\n0,1,65536,0.001\n")
    text = tutti("fit", measured)[1]
    assert "64KiB -9" in text or "65536B -9" in text
    assert tutti("fit", measured, "--tolerance", "1000%")[0] == 0


def test_pairs_of_one_size_are_said_so(tutti, measured, tmp_path):
    measured.write_text(measured.read_text() + "\n0,7,65536,0.001\n")
    code, text, _ = tutti("fit", measured)
    assert code == 0
    assert "can't be told apart" in text
    code, _, error = tutti("fit", measured, "-o", tmp_path / "n.json")
    assert code == 2
    assert "0 -> 7: all times are of one size" in error


def wrong(tutti, *arguments):
    code, _, error = tutti("fit", *arguments)
    assert code == 2
    assert error.count("\n") == 1
    return error


def test_what_does_not_go_together(tutti, measured, tmp_path):
    out, osu, gathered, nccl = (tmp_path / name for name in ("n.json", "a.txt", "b.txt", "c.txt"))
    osu.write_text(OSU_LATENCY)
    gathered.write_text(OSU_ALLGATHER)
    nccl.write_text(SENDRECV)
    assert "give --topology" in wrong(tutti, measured, "--alike", "-o", out)
    assert "give -o too" in wrong(tutti, measured, "--topology", "ring:3")
    assert "ends in .json" in wrong(tutti, measured, "-o", tmp_path / "n.txt")
    assert "this file does" in wrong(tutti, measured, "-o", out, "--pair", "0,1")
    assert "without --topology" in wrong(tutti, osu, "-o", out)
    assert "give --pair 0,1" in wrong(tutti, nccl, "-o", out, "--topology", "ring:3")
    assert "is of no one link" in wrong(tutti, gathered, "-o", out, "--topology", "ring:3", "--pair", "0,1")
    assert "no node '9'" in wrong(tutti, osu, "-o", out, "--topology", "ring:3", "--pair", "0,9")
    assert "such as 10%" in wrong(tutti, osu, "--tolerance", "0")
    assert "is not a number" in wrong(tutti, osu, "--tolerance", "nan")
    assert not out.exists()
    osu.write_text("# OSU MPI Latency Test\n8 1.0\n")
    assert "can't be told apart" in wrong(tutti, osu)


def test_a_network_needs_one_table_of_messages(tutti, tmp_path):
    log, out = tmp_path / "both.txt", tmp_path / "n.json"
    log.write_text((CASES / "04_fit_two_tables" / "both.txt").read_text())
    arguments = (log, "-o", out, "--topology", "ring:9", "--pair", "0,8")
    error = wrong(tutti, *arguments)
    assert "2 tables (nccl-tests sendrecv_perf" in error
    assert "nccl-tests all_reduce_perf" in error
    log.write_text((CASES / "03_fit_two_rank_collective" / "ar2.txt").read_text())
    assert "all_reduce_perf, out of place, a collective: its time is of no one link" in wrong(
        tutti, *arguments
    )


def test_the_column_and_the_rows_left_out_are_said(tutti):
    code, text, _ = tutti("fit", CASES / "15_fit_in_place_column" / "ag8.txt", "--in-place")
    assert (code, "all_gather_perf, in place" in text) == (0, True)
    torn = CASES / "07_fit_launcher_prefixes" / "interleaved.txt"
    assert "note: rows left out: " in tutti("fit", torn)[1]
    (fitted,) = json.loads(tutti("fit", torn, "--json")[1])["fits"]
    assert "line 14" in fitted["notes"][0]
