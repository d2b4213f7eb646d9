"""Matrices and dumps of machines as people posted them (`tests/data/cases`), and variants of each.

The expected values are worked out by hand from the links of a GPU.
"""

import time
from pathlib import Path

import pytest

from tests.topologies.importing.test_nccl import GEN5, both, cpu, gpu, links, nic, switch, system
from tutti.models.bounds import best_bound
from tutti.schedules.collective import Kind, collective
from tutti.topologies import InputError, parse_topology

CASES = Path(__file__).parents[2] / "data" / "cases"
H100, BLACKWELL = 20.6, 40.1
"""GB/s of one NVLink."""


def case(name):
    """Return the text of a case's file, by the number of its folder and its name."""
    (path,) = CASES.glob(name)
    return path.read_text()


@pytest.fixture
def network(tmp_path):
    """Return the network of a text, by the kind of its file and keys."""

    def read(text, keys="", kind="nvidia-smi"):
        path = tmp_path / "topo.txt"
        path.write_text(text)
        return parse_topology(f"{kind}:{path}{keys}")

    return read


def speeds(topology):
    """Return the GB/s out of each rank."""
    return [round(float(topology.egress[rank]) / 1e9, 3) for rank in range(topology.num_ranks)]


def switched(*numbers, more=""):
    """Return the matrix of GPUs with these numbers of NVLinks to a switch: an entry is the smaller of two."""
    names = [f"GPU{gpu}" for gpu in range(len(numbers))]
    rows = [
        [name, *("X" if a == b else f"NV{min(one, other)}" for b, other in enumerate(numbers)), more]
        for a, (name, one) in enumerate(zip(names, numbers, strict=True))
    ]
    return "\n".join(["\t" + "\t".join(names), *("\t".join(row) for row in rows)])


@pytest.mark.parametrize(
    ("text", "keys", "expected"),
    [
        (case("01*/gb200_tray_weak.txt"), "", [18 * H100, 18 * H100, 16 * H100, 18 * H100]),
        (
            case("01*/gb200_tray_weak.txt"),
            "?bandwidth=40.1GB/s",
            [18 * BLACKWELL, 18 * BLACKWELL, 16 * BLACKWELL, 18 * BLACKWELL],
        ),
        (case("01*/h100_4gpu_one_link_down.txt"), "", [18 * H100] * 3 + [17 * H100]),
        (case("01*/a100_8gpu_one_link_down.txt"), "", [240] * 7 + [220]),
        (switched(18, 17, 16, 18, 18, 18, 9, 18), "", [n * H100 for n in (18, 17, 16, 18, 18, 18, 9, 18)]),
        (switched(6, 6, 5, *[6] * 13), "", [120, 120, 100] + [120] * 13),  # a DGX-2
    ],
)
def test_gpus_of_an_nvswitch_have_the_links_of_their_row(network, text, keys, expected):
    box = network(text, keys)
    assert speeds(box) == pytest.approx(expected)
    assert box.num_switches == 1
    if len(set(expected)) > 1:
        assert any("fewer than" in note for note in box.notes)


def test_the_weak_gpu_of_a_tray_bounds_an_allgather(network):
    """It receives 750 MB over 16 links: 1169 us with 40.1 GB/s per link, 2275 us with 20.6."""
    for keys, least in (("?bandwidth=40.1GB/s", 1169e-6), ("", 2275e-6)):
        box = network(case("01*/gb200_tray_weak.txt"), keys)
        bound = best_bound(box, collective(Kind.ALLGATHER, 4), 10**9).time(10**9)
        assert least <= float(bound) < least + 2e-6


def test_a_gpu_beside_the_nvswitch_is_on_pcie_only(network):
    rows = [line.split("\t") for line in switched(18, 18, 18, 18).splitlines()]
    for one in range(1, 4):
        rows[one][4] = rows[4][one] = "SYS"
    box = network("\n".join("\t".join(row) for row in rows))
    fabric = {key: count for key, count in links(box).items() if "nvswitch" in key[0]}
    assert fabric == both("gpu", "nvswitch", 370.8, 0.35, 3)
    assert speeds(box)[3] == 48  # one PCIe link of Gen 5


def test_pairs_on_bridges_stay_direct(network):
    box = network(case("01*/control_a100_bridge_pairs_ok.txt"))
    assert {key[0]: count for key, count in links(box).items() if key[0] == "gpu-gpu"} == {"gpu-gpu": 40}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (switched(18, 18).replace("NV18", "NV52"), "line 2: NV52; no GPU has more than 18 NVLinks"),
        (
            switched(18, 18, 18, 18).replace("NV18\tX", "NV12\tX", 1).replace("X\tNV18", "X\tNV12", 1),
            "a GPU with 54 NVLinks to others, of at most 18, and no NVSwitch: GPU0 and GPU1 have 12",
        ),
    ],
)
def test_more_links_than_there_can_be_are_refused(network, text, words):
    with pytest.raises(InputError, match=words) as caught:
        network(text)
    assert "\n" not in str(caught.value)


PASTED, WITH_ESC = case("08*/b300_pasted.txt"), case("08*/control_with_esc_ok.txt")


@pytest.mark.parametrize(
    "text",
    [
        PASTED,
        PASTED.replace("[4m", "^[[4m").replace("[0m", "^[[0m"),  # cat -v
        PASTED.replace("[4m", "\\033[4m").replace("[0m", "\\033[0m"),
        PASTED.replace("[4m", "").replace("[0m", ""),
        "".join(f"> {line}\n" for line in PASTED.splitlines()),  # quoted in a mail
        "".join(f"[1,0]<stdout>:{line}\n" for line in PASTED.splitlines()),
        "".join(f"node7: {line}\n" for line in WITH_ESC.splitlines()),  # pdsh
        "".join(f"2026-05-04T10:11:{n:02}.5Z {line}\n" for n, line in enumerate(PASTED.splitlines())),
    ],
)
def test_a_pasted_or_tagged_matrix_is_read_as_it_was(network, text):
    for keys in ("", "?hosts=2"):
        assert network(text, keys) == network(WITH_ESC, keys)
    assert speeds(network(text)) == pytest.approx([370.8] * 8)


def test_a_matrix_of_an_old_driver(network):
    """A DGX-1 with P100: SOC stands for SYS, and adapters have their own names."""
    text = """\
        GPU0    GPU1    mlx5_0  CPU Affinity
GPU0     X      SOC     PIX     0-19,40-59
GPU1    SOC      X      SOC     20-39,60-79
mlx5_0  PIX     SOC      X
"""
    assert links(network(text)) == links(network(text.replace("SOC", "SYS")))
    assert links(network(text)) == {**both("gpu", "cpu", 24, 0.5, 2), ("cpu-cpu", 10.0, 0.0): 2}


def test_matrices_of_other_hosts_are_named(network):
    lines = PASTED.splitlines()
    both_hosts = "".join(f"{host}: {line}\n" for line in lines for host in (0, 1))  # srun -l, two nodes
    box = network(both_hosts)
    assert speeds(box) == pytest.approx([370.8] * 8)
    assert any("1 more matrices in the file" in note for note in box.notes)


def test_hosts_of_alike_names_are_kept_apart_and_a_thousand_are_read_in_bounded_time(network):
    start = time.perf_counter()
    tags = [f"10.0.{i // 250}.{i % 250 + 1}: " for i in range(1000)]
    text = "".join(f"{tag}{line}\n" for line in switched(18, 18, 18, 17).splitlines() for tag in tags)
    box = network(text)
    assert speeds(box) == pytest.approx([370.8, 370.8, 370.8, 350.2])
    assert any("999 more matrices" in note for note in box.notes)
    assert time.perf_counter() - start < 5


GLUED = case("09*/a100_glued.txt")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GLUED, both("gpu", "nvswitch", 240, 0.35, 8)),
        (GLUED.replace("GPU0    GPU1    GPU2", "GPU0GPU1GPU2"), both("gpu", "nvswitch", 240, 0.35, 8)),
        (GLUED.replace("NV120-31", "NV120-31,64-95"), both("gpu", "nvswitch", 240, 0.35, 8)),
        (
            "GPU0 GPU1CPU Affinity NUMA Affinity\nGPU0 X SYS0-31 0\nGPU1 SYS X 32-63 1\n",
            {**both("gpu", "cpu", 24, 0.5, 2), ("cpu-cpu", 10.0, 0.0): 2},
        ),
    ],
)
def test_a_cell_and_the_cpus_after_it_are_told_apart(network, text, expected):
    assert links(network(text)) == expected


TRAY, TRAY_NICS = case("14*/gb200.txt"), case("14*/gb200_nics.txt")


@pytest.mark.parametrize("text", [TRAY, TRAY_NICS, switched(18, 18, 18, 18)])
def test_nvlink_may_span_the_trays_of_a_rack(network, text):
    """An all-to-all of 1 GB among 72: 71/72 GB over 721.8 GB/s, 1366 us."""
    rack = network(text, "?hosts=18&nvlink=all&bandwidth=40.1GB/s")
    assert links(rack) == both("gpu", "nvswitch", 721.8, 0.35, 72)
    assert rack.hosts.tolist() == [host for host in range(18) for _ in range(4)] + [-1]
    bound = float(best_bound(rack, collective(Kind.ALL_TO_ALL, 72), 10**9).time(10**9))
    assert 1366e-6 < bound < 1368e-6


def test_nvlink_of_a_dump_may_span_the_trays_of_a_rack(network):
    link = '<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>'
    tray = system(cpu(0, *(switch(gpu(i, link, 100, GEN5), nic(i, gen=GEN5)) for i in range(4))))
    rack = network(tray, "?hosts=18&nvlink=all", kind="nccl")
    assert links(rack) == both("gpu", "nvswitch", 721.8, 0.35, 72)
    assert any("nvlink=all says so" in note for note in network(tray, "?hosts=2", kind="nccl").notes)


def test_whether_nvlink_spans_the_hosts_is_said(network):
    with pytest.raises(InputError, match=r"nvlink=all joins them by NVLink, as the family gb200_nvl72"):
        network(TRAY, "?hosts=18")
    assert any("nvlink=all says so" in note for note in network(TRAY_NICS, "?hosts=18").notes)
    with pytest.raises(InputError, match="needs a file of one host with one NVSwitch"):
        network("GPU0 GPU1\nGPU0 X NV4\nGPU1 NV4 X\n", "?hosts=2&nvlink=all")
    with pytest.raises(InputError, match="nvlink= says how hosts are joined; give hosts=2 or more"):
        network(TRAY, "?nvlink=all")


def test_four_adapters_bound_two_hosts_of_eight(network):
    """M leaves a host once over 4 x 48 GB/s (PCIe of the adapter's GPU): 5592 us for 1 GiB."""
    boxes = network(case("18*/h100_4nics.txt"), "?hosts=2")
    bound = float(best_bound(boxes, collective(Kind.ALLREDUCE, 16), 2**30).time(2**30))
    assert 5592e-6 < bound < 5600e-6


MULTIRANK = case("02*/multirank.xml")
PARTITIONS = MULTIRANK.replace('sm="90"', 'sm="107" mlopart="2"').replace('count="18"', 'count="36"')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (MULTIRANK, "line 8: <gpu> is on the same <pci busid='0002:81:00.0'> as the one in line 4"),
        (PARTITIONS, "line 8: <gpu> is on the same <pci busid='0002:81:00.0'> as the one in line 4"),
        (
            MULTIRANK.replace('dev="0" sm="90" rank="1"', 'dev="1" sm="90" rank="1"'),
            "is on the same <pci",
        ),  # MIG
        (
            MULTIRANK.replace("0003:81:00.0", "0002:81:00.0").replace('rank="1"', 'rank="-1"'),
            "line 14: <gpu> is on the same <pci busid='0002:81:00.0'> as the one in line 4",
        ),
    ],
)
def test_ranks_that_share_a_gpu_are_refused(network, text, words):
    with pytest.raises(InputError, match=words) as caught:
        network(text, kind="nccl")
    assert "\n" not in str(caught.value)


def test_of_ranks_that_share_a_gpu_one_may_remain(network):
    text = MULTIRANK.replace('rank="1"', 'rank="-1"').replace('rank="3"', 'rank="-1"').replace('"2"', '"1"')
    assert speeds(network(text, kind="nccl")) == pytest.approx([370.8] * 2)


def test_two_gpus_with_one_number_are_noted(network):
    text = (
        MULTIRANK.replace('rank="1"', 'rank="-1"')
        .replace('rank="3"', 'rank="-1"')
        .replace('"1" sm', '"0" sm')
    )
    box = network(text, kind="nccl")
    assert any("two GPUs of a host have dev=0, on different PCI buses" in note for note in box.notes)


@pytest.mark.parametrize(("sm", "count", "most"), [(90, 52, 18), (100, 19, 18), (107, 37, 36)])
def test_a_dump_with_more_nvlinks_than_a_gpu_has_is_refused(network, sm, count, most):
    text = MULTIRANK.replace('rank="1"', 'rank="-1"').replace('rank="3"', 'rank="-1"')
    text = text.replace('sm="90"', f'sm="{sm}"').replace('count="18"', f'count="{count}"')
    with pytest.raises(InputError, match=f"has {count} NVLinks; a GPU of sm {sm} has at most {most}"):
        network(text, kind="nccl")


HIVES, AMD = case("11*/rocm_two_hives.txt"), case("11*/amd_smi.txt")
NEWER = HIVES.replace("GPU[", "GPU ").replace("]\t\t:", "          :")  # another version of the tool


@pytest.mark.parametrize(
    "text",
    [
        HIVES,
        NEWER,
        "".join(f"0: {line}\n" for line in HIVES.splitlines()),  # srun -l
        "".join(f"[1,0]<stdout>:{line}\n" for line in NEWER.splitlines()),
        HIVES.replace("Link Type", "[1mLink Type"),
    ],
)
def test_two_hives_of_four_are_joined_by_pcie_only(network, text):
    box = network(text, kind="rocm-smi")
    assert links(box) == {
        ("gpu-gpu", 48.0, 0.7): 24,  # one link between any two of a hive, in both directions
        **both("gpu", "cpu", 48, 0.5, 8),
        ("cpu-cpu", 16.0, 0.0): 2,
    }
    hive = {(int(a) // 4, int(b) // 4) for a, b in zip(box.source, box.target, strict=True) if max(a, b) < 8}
    assert hive == {(0, 0), (1, 1)}
    assert any("number of links of 12 pairs of GPUs are not in the file" in note for note in box.notes)


def test_hives_without_numa_nodes_are_told_apart_by_hops(network):
    text = HIVES[: HIVES.index("======================================= Numa")]
    box = network(text, kind="rocm-smi")
    assert links(box) == links(network(HIVES, kind="rocm-smi"))
    assert any("the file has no NUMA nodes" in note for note in box.notes)


def test_bandwidths_of_pairs_are_those_of_the_file(network):
    assert links(network(AMD, kind="amd-smi")) == {("gpu-gpu", 50.0, 0.7): 12}
    mi250 = AMD.replace("50000-50000", "50000-200000")  # one to four links
    assert links(network(mi250, kind="amd-smi")) == {("gpu-gpu", 200.0, 0.7): 12}
    assert links(network(AMD, "?bandwidth=36GB/s", kind="amd-smi")) == {("gpu-gpu", 36.0, 0.7): 12}


def test_a_bandwidth_of_zero_is_not_known(network):
    box = network(AMD.replace("50000-50000", "0-0        "), kind="amd-smi")
    assert links(box) == {("gpu-gpu", 48.0, 0.7): 12}
    assert any("not in the file" in note for note in box.notes)


def test_xgmi_of_two_hops_is_no_link(network):
    """Opposite GPUs in a ring of four are two hops apart."""
    rows = [line.split() for line in AMD.splitlines()]
    table = next(index for index, row in enumerate(rows) if row[:1] == ["HOPS"])
    for one in range(4):
        rows[table + 2 + one][1 + (one + 2) % 4] = "2"
    box = network("\n".join(" ".join(row) for row in rows), kind="amd-smi")
    assert links(box) == {("gpu-gpu", 50.0, 0.7): 8}
    assert any("2 pairs of GPUs of type XGMI are several hops apart" in note for note in box.notes)


def test_two_gpus_on_pcie_only(network):
    text = """LINK TYPE TABLE:
             0000:03:00.0 0000:0c:00.0
0000:03:00.0 SELF         PCIE
0000:0c:00.0 PCIE         SELF
HOPS TABLE:
             0000:03:00.0 0000:0c:00.0
0000:03:00.0 0            2
0000:0c:00.0 2            0
"""
    assert links(network(text, kind="amd-smi")) == both("gpu", "cpu", 48, 0.5, 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no table of rocm-smi --showtopo"),
        (HIVES[: HIVES.index("= Link Type")], "no table of rocm-smi --showtopo"),
        (HIVES[: HIVES.rindex("GPU5   PCIE")], "the table of link types has no row GPU5"),
        (
            HIVES.replace("GPU1   XGMI         0            XGMI", "GPU1   XGMI         0            PCIE"),
            "not the same",
        ),
        (
            HIVES.replace("PCIE         PCIE         \n", "PCIE         NVLINK       \n", 1),
            "'NVLINK' for GPU0 and GPU7",
        ),
        (HIVES.replace("PCIE         \n", "\n", 1), "line 26: the row GPU0 has 7 cells; the head has 8 GPUs"),
        (AMD.replace("SELF", "XGMI", 1), "'XGMI' for 0000:0d:00.0 itself"),
        (AMD + AMD, "occurs twice"),
        (
            AMD.replace("50000-50000", "40000-40000", 1),
            "not the same in both directions in the table of bandwidths",
        ),
    ],
)
def test_bad_tables_of_amd_get_one_line(network, text, words):
    with pytest.raises(InputError, match=words) as caught:
        network(text, kind="rocm-smi")
    assert "\n" not in str(caught.value)


def test_several_hosts_of_amd_need_their_adapters(network):
    with pytest.raises(InputError, match="hosts=2 needs one to join them; a dump of RCCL"):
        network(HIVES, "?hosts=2", kind="rocm-smi")
