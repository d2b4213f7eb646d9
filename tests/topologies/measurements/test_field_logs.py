"""Logs of nccl-tests and OSU as people posted them (`tests/data/cases`), and variants of each.

The times in them were computed from an α and a bandwidth, which the fit must find again.
"""

import json
from pathlib import Path

import pytest

from tutti.topologies import InputError
from tutti.topologies.measurements.regression import fit
from tutti.topologies.measurements.tables import read_measurements

CASES = Path(__file__).parents[2] / "data" / "cases"
SIZES = [4**n for n in range(5, 15)]


def case(name):
    """Return the text of a case's file, by the number of its folder and its name."""
    (path,) = CASES.glob(name)
    return path.read_text()


def log(test, alpha, bandwidth, *, ranks=2, redop="none", root=-1, factor=1.0, sizes=SIZES, named=True):
    """Return the output of nccl-tests for times of alpha (us) + bytes / bandwidth (GB/s)."""
    lines = [f"# Collective test starting: {test}_perf"] * named
    lines += ["# nThread 1 nGpus 1 minBytes 1024 maxBytes 268435456", "# Using devices"]
    lines += [
        f"#  Rank {rank:2} Group  0 Pid 1 on node{rank} device 0 [0000:1e:00] H100" for rank in range(ranks)
    ]
    columns = "     time   algbw   busbw  #wrong"
    lines.append("#       size         count      type   redop    root" + columns * 2)
    for size in sizes:
        time = alpha + size / bandwidth / 1e3
        rates = f"{time:9.2f} {size / time / 1e3:7.2f} {factor * size / time / 1e3:7.2f}       0"
        lines.append(f"{size:12} {size // 4:12}     float  {redop:>6}  {root:6} {rates} {rates}")
    return "\n".join([*lines, "# Out of bounds values : 0 OK", ""])


@pytest.fixture
def fitted(tmp_path):
    """Return the reader of the series in a text, each with its α (us) and bandwidth (GB/s)."""

    def read(text, **options):
        path = tmp_path / "log.txt"
        path.write_text(text)
        found = []
        for series in read_measurements(path, **options):
            line = fit(series.size, series.seconds)
            found.append((series, line.alpha * 1e6, line.bandwidth / 1e9))
        return found

    return read


SENDRECV, ALLREDUCE = case("03*/sr2.txt"), case("03*/ar2.txt")


@pytest.mark.parametrize(
    ("text", "link", "alpha", "bandwidth"),
    [
        (SENDRECV, True, 5, 25),
        (ALLREDUCE, False, 10, 25),
        (log("sendrecv", 5, 25, ranks=8), True, 5, 25),
        (log("broadcast", 6, 20, root=0), True, 6, 20),  # among two ranks: one hop
        (log("reduce", 6, 20, root=0, redop="sum"), True, 6, 20),
        (log("broadcast", 6, 20, root=0, ranks=8), False, 6, 20),
        (log("all_gather", 6, 40, factor=0.5), False, 6, 40),
        (log("reduce_scatter", 6, 40, factor=0.5, redop="sum"), False, 6, 40),
        (log("hypercube", 6, 40), False, 6, 40),  # busbw is algbw
        (log("all_reduce", 10, 25, redop="avg"), False, 10, 25),
        ("$ ./build/all_reduce_perf -b 1K\n" + log("", 10, 25, redop="sum", named=False), False, 10, 25),
    ],
)
def test_a_test_of_two_ranks_is_a_link_only_if_it_is_one_message(fitted, text, link, alpha, bandwidth):
    ((series, *found),) = fitted(text)
    assert series.link is link
    assert found == pytest.approx([alpha, bandwidth], rel=2e-3)
    assert ("point to point" if link else "a collective") in series.what


def test_a_table_without_its_name_is_said_to_be_a_guess(fitted):
    ((series, *_),) = fitted(log("", 10, 25, redop="sum", named=False))
    assert series.link
    assert "does not name its test" in series.notes[0]
    assert not fitted(log("", 5, 25, named=False))[0][0].notes  # without a sum it is sendrecv_perf


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (case("04*/both.txt"), [(True, 5, 25), (False, 10, 25)]),
        (SENDRECV + log("all_gather", 30, 90, ranks=8, factor=7 / 8), [(True, 5, 25), (False, 30, 90)]),
        (SENDRECV + SENDRECV, [(True, 5, 25), (True, 5, 25)]),
        (log("sendrecv", 5, 25, named=False) + log("", 9, 50, named=False), [(True, 5, 25), (True, 9, 50)]),
        (
            "".join(
                f"0: {one}\n1: {other}\n"
                for one, other in zip(SENDRECV.splitlines(), ALLREDUCE.splitlines(), strict=True)
            ),
            [(True, 5, 25), (False, 10, 25)],
        ),
    ],
)
def test_each_table_of_a_log_is_fitted(fitted, text, expected):
    found = fitted(text)
    assert [series.link for series, *_ in found] == [link for link, *_ in expected]
    assert [pair for _, *pair in found] == [pytest.approx(pair, rel=2e-3) for _, *pair in expected]


OSU = case("07*/osu_tag.txt")


def test_tables_of_both_benchmarks_are_kept_apart(fitted):
    found = fitted(SENDRECV + OSU.replace("[1,0]<stdout>:", "") + ALLREDUCE)
    assert [series.what for series, *_ in found] == [
        "nccl-tests sendrecv_perf, out of place, point to point",
        "nccl-tests all_reduce_perf, out of place, a collective",
        "OSU, point to point",
    ]
    assert [len(series.size) for series, *_ in found] == [10, 10, 8]


def test_a_second_table_of_latencies_is_a_series_of_its_own(fitted):
    latency = "# OSU MPI Latency Test v7.2\n# Size Latency (us)\n8 {}\n1048576 {}\n"
    (one, *first), (other, *second) = fitted(latency.format(5, 55) + latency.format(10, 60))
    assert (one.what, other.what) == ("OSU, point to point", "OSU, point to point, table 2")
    assert (first[0], second[0]) == pytest.approx((5, 10), rel=1e-3)


PREFIXES = [
    "[1,0]<stdout>:",  # mpirun --tag-output
    "[prterun-gpu1-77@1,0]<stdout>: ",
    "[0] ",
    "0: ",  # srun -l
    " 3: ",
    "[default0]:",  # torchrun
    "node-a: ",  # pdsh
    "worker-0  | ",  # compose
    "[pod/bench-xyz/nccl] ",
    "> ",
    "2026-05-04T10:11:1{}.123456Z ",
    "Mon May  4 10:11:1{} 2026[1,0]<stdout>:",
    "May 04 10:11:1{} node-a run.sh[77]: ",
]


def tagged(prefix, text):
    return "".join(f"{prefix.format(number % 10)}{line}\n" for number, line in enumerate(text.splitlines()))


@pytest.mark.parametrize("prefix", PREFIXES)
def test_what_launchers_put_before_a_line_is_passed_over(fitted, prefix):
    ((series, *found),) = fitted(tagged(prefix, SENDRECV))
    assert (series.link, series.notes, len(series.size)) == (True, (), 10)
    assert found == pytest.approx([5, 25], rel=2e-3)
    osu = OSU.replace("[1,0]<stdout>:", "")
    ((series, *found),) = fitted(tagged(prefix, osu))
    ((plain, *expected),) = fitted(osu)
    assert series.size.tolist() == plain.size.tolist() == [64, 65536, 2**26, 2**28, 1, 1024, 2**20, 2**22]
    assert found == expected


def test_the_files_of_the_case_are_read(fitted):
    for name in ("07*/tag.txt", "07*/brk.txt"):
        ((_, *found),) = fitted(case(name))
        assert found == pytest.approx([5, 25], rel=2e-3)
    assert fitted(OSU)[0][0].link


NOISE = "node-a:1320:1320 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0"
ROW = next(line for line in SENDRECV.splitlines() if line.split()[0] == "65536")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (case("07*/interleaved.txt"), 9),
        (SENDRECV.replace(ROW, ROW[:40] + NOISE + "\n" + ROW[40:]), 9),  # the rest is in the next line
        (SENDRECV.replace(ROW, f"{NOISE}{ROW}"), 9),
        (SENDRECV.replace(ROW, ROW[:60]), 9),
        (SENDRECV.replace(ROW, ROW.replace("7.62", "1.62")), 9),  # a digit is lost: not 65536 B / 8.60 GB/s
        (SENDRECV.replace(ROW, ROW.replace("65536", "6536", 1)), 9),
    ],
)
def test_a_torn_row_is_left_out_and_named(fitted, text, left):
    ((series, *found),) = fitted(text)
    assert len(series.size) == left
    assert found == pytest.approx([5, 25], rel=2e-3)
    (note,) = series.notes
    assert note.startswith("rows left out: ")
    assert "line 1" in note


def test_rows_whose_rates_all_contradict_their_times_are_noted(fitted):
    text = (
        "# Collective test starting: sendrecv_perf\n#  size count type redop root time algbw busbw #wrong\n"
    )
    ((series, *_),) = fitted(
        text
        + "1024 256 float none -1 5.0 9.9 9.9 0\n4096 1024 float none -1 6.0 7.7 7.7 0\n"
        + "# Avg bus bandwidth : 8\n"
    )
    assert (len(series.size), series.notes) == (
        2,
        ("most rows have an algbw that is not size / time; the times are taken",),
    )


AG8 = case("15*/ag8.txt")


@pytest.mark.parametrize(("in_place", "alpha", "bandwidth"), [(False, 20, 100), (True, 8, 300)])
def test_the_times_in_place_and_out_of_place(fitted, in_place, alpha, bandwidth):
    per_iteration = AG8.replace("#wrong", "#wrong i_min i_max").replace("       0", "       0 1.0 9.0")
    for text in (AG8, per_iteration, tagged("[1,0]<stdout>:", AG8)):
        ((series, *found),) = fitted(text, in_place=in_place)
        assert found == pytest.approx([alpha, bandwidth], rel=2e-3)
        assert ("in place" if in_place else "out of place") in series.what


def report(test, results, ranks=2):
    """Return the document that ``-J`` writes, as far as it is read."""
    devices = [{"rank": rank, "hostname": f"node{rank}", "device": 0} for rank in range(ranks)]
    return json.dumps(
        {
            "version": 2,
            "args": [f"./build/{test}_perf", "-b", "1K"],
            "config": {"nthreads": 1, "devices": devices},
            "results": results,
        }
    )


def result(size, out, inside, **more):
    """Return a result: times (us) out of place and in place."""
    both = {
        key: {"time": time, "alg_bw": size / time / 1e3, "bus_bw": size / time / 1e3, "nwrong": 0.0}
        for key, time in (("out_of_place", out), ("in_place", inside))
    }
    return (
        {"size": size, "count": size // 4, "type": "float", "redop": "none", "root": "    -1"} | both | more
    )


def test_the_json_of_nccl_tests(fitted):
    results = [result(size, 5 + size / 25e3, 8 + size / 50e3) for size in SIZES]
    ((series, *found),) = fitted(report("sendrecv", results))
    assert (series.link, found) == (True, pytest.approx([5, 25], rel=1e-6))
    ((series, *found),) = fitted(report("all_gather", results), in_place=True)
    assert (series.link, found) == (False, pytest.approx([8, 50], rel=1e-6))
    ((series, *found),) = fitted(report("broadcast", results, ranks=8))
    assert (series.link, found) == (False, pytest.approx([5, 25], rel=1e-6))
    ((series, *_),) = fitted(report("sendrecv", [*results, {"size": 8, "out_of_place": None}]))
    assert "results[10]: no times 'out_of_place'" in series.notes[0]


def test_a_log_that_ends_early_is_said_to(fitted):
    both = case("04*/both.txt")
    cut = both[: both.index("# Collective test starting: all_reduce_perf") + 50]
    ((series, *_),) = fitted(cut)
    assert "has no table; is the file cut off?" in series.notes[0]
    ((series, *_),) = fitted(SENDRECV[: SENDRECV.index("    16777216")])
    assert "ends the table, so rows may be missing" in series.notes[0]
    first, second = both.index("#       size"), both.index("# Out of bounds")
    found = fitted(both[:first] + both[both.index("        1024") : second] + both[second:])
    assert "10 rows have no head above them" in found[0][0].notes[0]


CPU = log("sendrecv", 5, 25).replace("     time", "  cputime")


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (CPU, {}, "the times are the CPU's"),
        (log("sendrecv", 5, 25).split("     time", 2)[0], {}, "no output of nccl-tests"),
        (OSU, {"in_place": True}, "only the tables of nccl-tests have times in place"),
        ("# size count time algbw busbw\n1024 256 5 0.2 0.2\n", {"in_place": True}, "no times in place"),
        ('{"results": 3}', {}, "no list 'results'"),
        ('{"version": 2', {}, "not JSON"),
        (report("sendrecv", [result(1024, 5, 5) | {"size": True}]), {}, "'True' is not a number"),
        (
            report("sendrecv", [{"size": 8, "out_of_place": {"cpu_time": 3}}]),
            {},
            r"cpu_time \(-C 1\) is the CPU",
        ),
        (report("sendrecv", []), {}, "without a row"),
    ],
)
def test_what_is_no_table_gets_one_line(fitted, text, options, words):
    with pytest.raises(InputError, match=words) as caught:
        fitted(text, **options)
    assert "\n" not in str(caught.value)
