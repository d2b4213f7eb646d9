"""Tables in the form in which benchmarks print them."""

import time

import numpy as np
import pytest

from tutti.topologies import InputError
from tutti.topologies.measurements.tables import read_measurements

SENDRECV = """\
# nThread 1 nGpus 1 minBytes 256 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid 1478709 on      gpu23 device  0 [0x31] NVIDIA A40
#  Rank  1 Group  0 Pid 1171742 on      gpu24 device  0 [0x31] NVIDIA A40
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           0             0     float     sum      -1     3.10    0.00    0.00      0     3.00    0.00    0.00
         256            64     float     sum      -1    34.24    0.01    0.01      0    33.65    0.01    0.01
     1048576        262144     float     sum      -1    104.5   10.03   10.03      0    105.1    9.98    9.98
   268435456      67108864     float     sum      -1    21500   12.49   12.49      0    21490   12.49   12.49
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 7.51
"""
OSU_LATENCY = """\
# OSU MPI-CUDA Latency Test v5.9
# Size          Latency (us)
0                       1.10
8                       1.20
1048576               105.00
"""
OSU_BANDWIDTH = """\
# OSU MPI Bandwidth Test v7.4
# Datatype: MPI_CHAR.
# Size      Bandwidth (MB/s)
1                       0.00
1024                 2048.00
1048576             12000.00
"""
OSU_ALLGATHER = """\
# OSU MPI Allgather Latency Test v7.4
# Datatype: MPI_CHAR.
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
1                       2.81              1.89              3.73          10
1048576               104.30            104.26            104.33          10
"""
CSV = "source,destination,bytes,seconds\n0,1,8,1e-6\n 1, 0 ,8,2e-6\n0,1,1024,.5\n\n"


@pytest.fixture
def read(tmp_path):
    """Return the reader of the series in a text."""

    def call(text):
        path = tmp_path / "file.txt"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_measurements(path)

    return call


def test_nccl_tests(read):
    (series,) = read(SENDRECV)
    assert series.pair is None
    assert series.link
    assert series.size.tolist() == [256, 1048576, 268435456]
    assert np.allclose(series.seconds, [34.24e-6, 104.5e-6, 21500e-6], rtol=1e-12)


def test_a_collective_of_nccl_tests_is_no_link(read):
    # An all-gather among two: busbw is half of algbw; a broadcast has a root.
    gathered = SENDRECV.replace("12.49   12.49      0", "12.49    6.24      0")
    rooted = SENDRECV.replace("sum      -1 ", "sum       0 ")
    for text in (gathered, rooted):
        assert not read(text)[0].link


def test_columns_of_older_versions(read):
    text = (
        "#       size    count   type     time   algbw   busbw  error     time   algbw   busbw  error\n"
        "    37748736   37748736  uint8   6485.7    5.82    5.82  0e+00   6496.1    5.81    5.81  0e+00\n"
    )
    (series,) = read(text)
    assert series.link
    assert series.seconds[0] == pytest.approx(6485.7e-6)


def test_osu_latency_and_bandwidth_are_one_series(read):
    (series,) = read(OSU_LATENCY + OSU_BANDWIDTH)
    assert series.link
    # A window of 64 messages is one transfer: 64 · 1024 B at 2048 MB/s take 32 us.
    assert series.size.tolist() == [0, 8, 1048576, 64 * 1024, 64 * 1048576]
    assert np.allclose(series.seconds[:4], [1.1e-6, 1.2e-6, 105e-6, 32e-6])
    (windowed,) = read(OSU_BANDWIDTH.replace("# Datatype", "# [ pairs: 1 ] [ window size: 16 ]\n# Datatype"))
    assert windowed.size.tolist() == [16 * 1024, 16 * 1048576]


def test_a_collective_of_osu_is_no_link(read):
    (series,) = read(OSU_ALLGATHER)
    assert (series.link, series.what, series.size.tolist()) == (False, "OSU, Allgather Latency", [1, 1048576])


def test_csv_has_a_series_a_pair(read):
    assert read("\ufeff" + CSV.replace("\n", "\r\n"))[0].pair == ("0", "1")
    one, other = read(CSV)
    assert (one.pair, one.size.tolist(), one.seconds.tolist()) == (("0", "1"), [8, 1024], [1e-6, 0.5])
    assert (other.pair, other.size.tolist()) == (("1", "0"), [8])
    assert [series.pair for series in read("bytes,seconds,destination,source\n8,1,b,a\n")] == [("a", "b")]


def test_a_column_says_in_how_many_messages_bytes_were_sent(read):
    (series,) = read("source,messages,destination,bytes,seconds\n0,8,1,800,4e-6\n0,1,1,800,2e-6\n")
    assert (series.size.tolist(), series.messages.tolist()) == ([800, 800], [8, 1])
    assert [one.messages.tolist() for one in read(CSV)] == [[1, 1], [1]]
    assert set(read(OSU_LATENCY + OSU_BANDWIDTH)[0].messages) == {1}
    assert len(read(SENDRECV)[0].messages) == 3


HEAD = "source,destination,bytes,seconds\n"
COUNTED = "source,destination,bytes,messages,seconds\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no output of nccl-tests"),
        ("hello\n1 2 3\n", "no output of nccl-tests"),
        (HEAD, "no row below the columns"),
        ("source,destination,bytes\n0,1,8\n", "the columns are source, destination, bytes; expected"),
        ("source,destination,bytes,messages\n0,1,8,1\n", "expected: .*, seconds, perhaps messages$"),
        ("source,destination,messages,messages,bytes,seconds\n", "expected: .*, perhaps messages$"),
        (COUNTED + "0,1,8,1e-6\n", "line 2: 4 columns; the head has 5"),
        (COUNTED + "0,1,8,0,1e-6\n", "line 2: 0 messages; a whole number from 1 to 2"),
        (COUNTED + "0,1,8,1.5,1e-6\n", "line 2: 1.5 messages; a whole number"),
        (COUNTED + "0,1,8,1e9999,1e-6\n", "line 2: inf messages; a whole number"),
        (COUNTED + "0,1,8,x,1e-6\n", "line 2: 'x' is not a finite number"),
        (HEAD + "0,1,8\n", "line 2: 3 columns; the head has 4"),
        (HEAD + "0,1,8,nan\n", "line 2: 'nan' is not a finite number"),
        (HEAD + "0,1,inf,1\n", "line 2: 'inf' is not a finite number"),
        (HEAD + f"0,1,{'9' * 5000},1\n", "inf bytes"),
        (HEAD + "0,1,-8,1\n", "line 2: -8 bytes; from 0 to 2"),
        (HEAD + "0,1,1e30,1\n", r"line 2: 1e\+30 bytes"),
        (HEAD + "0,1,8,0\n", "line 2: 0 seconds; above 0"),
        (HEAD + "0,1,8,-1\n", "line 2: -1 seconds"),
        (HEAD + "0,1,8,1e300\n", r"line 2: 1e\+300 seconds"),
        (HEAD + "0,1,8,1e99999\n", "is not a finite number"),
        (HEAD + "0,0,8,1\n", "must be two names"),
        (HEAD + f"0,{'1' * 100},8,1\n", "must be two names of at most 64"),
        (HEAD + ",1,8,1\n", "must be two names"),
        (HEAD + "\x1b[31m,1,8,1\n", "must be two names"),
        (HEAD + '0,"1,8,1\n', "not CSV"),
        (b"source,destination,bytes,seconds\n\xff,1,8,1\n", "not UTF-8"),
        (
            OSU_BANDWIDTH.replace("Bandwidth Test", "Bi-Directional Bandwidth Test"),
            "'Bi-Directional Bandwidth'",
        ),
        ("# OSU MPI Latency Test\n", "a title of an OSU table without a row"),
        ("# OSU MPI Bandwidth Test\n1 0.00\n", "without a row above zero"),
        ("# OSU MPI Latency Test\n8 nan\n", "line 2: 'nan'"),
        (SENDRECV.split("           0")[0], "a head of nccl-tests without a row"),
        (SENDRECV[: SENDRECV.index("21500")], "line 13: 5 columns; a row has 8 or more"),
    ],
)
def test_bad_tables_get_one_line(read, text, words):
    start = time.perf_counter()
    with pytest.raises(InputError, match=words) as caught:
        read(text)
    assert "\n" not in str(caught.value)
    assert time.perf_counter() - start < 2
