"""``nvidia-smi topo -m``: matrices in the forms that people paste, and the tree they describe."""

import time

import pytest

from tests.topologies.importing.test_nccl import both, links
from tutti.topologies import InputError, parse_topology

DGX = """\
\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tNIC2\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tNV18\tNV18\tPIX\tNODE\tSYS\t0-23,96-119\t0\t\tN/A
GPU1\tNV18\t X \tNV18\tNV18\tPIX\tNODE\tSYS\t0-23,96-119\t0\t\tN/A
GPU2\tNV18\tNV18\t X \tNV18\tSYS\tSYS\tPXB\t24-47,120-143\t1\t\tN/A
GPU3\tNV18\tNV18\tNV18\t X \tSYS\tSYS\tPXB\t24-47,120-143\t1\t\tN/A
NIC0\tPIX\tPIX\tSYS\tSYS\t X \tNODE\tSYS
NIC1\tNODE\tNODE\tSYS\tSYS\tNODE\t X \tSYS
NIC2\tSYS\tSYS\tPXB\tPXB\tSYS\tSYS\t X

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_9
"""


@pytest.fixture
def network(tmp_path):
    """Return the network of a matrix, by the text ``nvidia-smi:FILE`` and keys."""

    def read(text, keys=""):
        path = tmp_path / "topo.txt"
        path.write_text(text)
        return parse_topology(f"nvidia-smi:{path}{keys}")

    return read


def square(*rows):
    """Return a matrix of GPUs without adapters."""
    names = [f"GPU{i}" for i in range(len(rows))]
    lines = [" ".join(names), *(f"{name} {row}" for name, row in zip(names, rows, strict=True))]
    return "\n".join(lines)


def test_gpus_with_more_nvlinks_than_they_have_meet_in_an_nvswitch(network):
    box = network(DGX)
    assert links(box) == both("gpu", "nvswitch", 370.8, 0.35, 4)  # 18 links of 20.6 GB/s
    assert box.multicast == {4}
    assert any("Blackwell" in note for note in box.notes)


def test_hosts_meet_through_the_adapters_that_share_a_switch_with_gpus(network):
    boxes = network(DGX, "?hosts=2")
    assert links(boxes) == {
        **both("gpu", "nvswitch", 370.8, 0.35, 8),
        **both("gpu", "pcie", 48, 0.5, 8),
        **both("pcie", "mlx5_", 48, 0, 2),
        **both("pcie", "NIC", 48, 0, 2),
        **both("mlx5_", "network", 50, 0.85, 2),
        **both("NIC", "network", 50, 0.85, 2),
    }
    assert any("mlx5_9 50GB/s" in note for note in boxes.notes)
    assert boxes.hosts.tolist()[:8] == [0] * 4 + [1] * 4


def test_bandwidths_are_one_nvlink_pcie_and_an_adapter(network):
    boxes = network(DGX, "?hosts=2&bandwidth=40GB/s,50GB/s,100GB/s")
    found = links(boxes)
    assert found[("gpu-nvswitch", 720.0, 0.35)] == 8
    assert found[("gpu-pcie", 50.0, 0.5)] == 8
    assert found[("mlx5_-network", 100.0, 0.85)] == 2


def test_lost_tabs_and_lost_affinities_are_read_alike(network):
    blanks = DGX.replace("\t", "   ")
    assert network(blanks, "?hosts=2") == network(DGX, "?hosts=2")
    merged = (
        DGX.replace("PIX\tNODE", "PIXNODE").replace("SYS\tSYS", "SYSSYS").replace("NV18\tNV18", "NV18NV18")
    )
    assert merged.count("NV18NV18") > 2
    assert network(merged, "?hosts=2") == network(DGX, "?hosts=2")
    bare = "\n".join(" ".join(line.split()[:8]) for line in DGX.replace("\x1b[4m", "").splitlines()[:8])
    header, *rows = bare.splitlines()
    assert network("\n".join([header.removesuffix(" CPU"), *rows])) == network(DGX)


def test_direct_nvlinks_are_links(network):
    # Azure NDv2 and DGX-1: 6 links for each GPU, one or two to each of four others.
    dgx1 = square(
        "X NV1 NV1 NV2 NV2 SYS SYS SYS",
        "NV1 X NV2 NV1 SYS NV2 SYS SYS",
        "NV1 NV2 X NV2 SYS SYS NV1 SYS",
        "NV2 NV1 NV2 X SYS SYS SYS NV1",
        "NV2 SYS SYS SYS X NV1 NV1 NV2",
        "SYS NV2 SYS SYS NV1 X NV2 NV1",
        "SYS SYS NV1 SYS NV1 NV2 X NV2",
        "SYS SYS SYS NV1 NV2 NV1 NV2 X",
    )
    assert links(network(dgx1)) == {("gpu-gpu", 20.0, 0.7): 8 * 6}


def test_four_a100_that_share_twelve_links_are_direct(network):
    rows = ["X NV4 NV4 NV4", "NV4 X NV4 NV4", "NV4 NV4 X NV4", "NV4 NV4 NV4 X"]
    assert links(network(square(*rows))) == {("gpu-gpu", 20.0, 0.7): 48}


def test_pcie_is_a_tree_by_the_least_that_paths_cross(network):
    # GPU0 and GPU1 on one switch, GPU2 on another below the same bridge, GPU3 across the NUMA link.
    box = network(square("X PIX PXB SYS", "PIX X PXB SYS", "PXB PXB X SYS", "SYS SYS SYS X"))
    assert links(box) == {
        **both("gpu", "pcie", 24, 0.5, 3),  # two on the lower switch, one on the upper
        **both("pcie", "pcie", 24, 0, 2),
        **both("cpu", "pcie", 24, 0, 1),
        **both("gpu", "cpu", 24, 0.5, 1),
        ("cpu-cpu", 10.0, 0.0): 2,
    } | {("pcie-pcie", 24.0, 0.0): 2}
    assert any("as a guess" in note for note in box.notes)


def test_two_gpus_of_one_host_bridge_meet_in_its_cpu(network):
    assert links(network(square("X PHB 0-63 0 N/A", "PHB X 0-63 0 N/A"))) == both("gpu", "cpu", 24, 0.5, 2)


HEAD = "GPU0 GPU1 CPU Affinity\n"


def test_a_matrix_without_its_kind_is_one_line_that_names_it(tmp_path):
    path = tmp_path / "topo.txt"
    path.write_text(DGX)
    with pytest.raises(InputError, match=rf"named with its kind: nvidia-smi:{path}$"):
        parse_topology(str(path))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no matrix of nvidia-smi topo -m"),
        ("hello\n", "no matrix of nvidia-smi topo -m"),
        (HEAD + "GPU0 X NV2\n", "the header has GPU1, but no row has"),
        (HEAD + "GPU0 X\nGPU1 PIX X\n", "line 2: too few cells; the header has 2 devices"),
        (
            HEAD + "GPU0 X PXX\n",
            "line 2: 'PXX' where a cell is expected; the header has 2 devices, and a cell is one of X, NV#",
        ),
        (HEAD + "GPU0 X PIXPIX\n", "line 2: too many cells"),
        (HEAD + "GPU0 X NV-3\n", "line 2: 'NV-3'"),
        (HEAD + "GPU0 X NV999999999\n", "line 2: 'NV999999999'"),
        (HEAD + "GPU0 X PIX\nGPU0 X PIX\n", "line 3: a second row GPU0"),
        (HEAD + "GPU0 X PIX\nGPU1 PIX X\nGPU2 PIX X\n", "line 4: the row GPU2 has no column"),
        (HEAD + "GPU0 PIX PIX\n", "the row GPU0 must have X in its own column"),
        (HEAD + "GPU0 X X\n", "the row GPU0 must have X in its own column, and there only"),
        (HEAD + "GPU0 X PIX\nGPU1 SYS X\n", "GPU0 and GPU1 are PIX in one row and SYS in the other"),
        (f"GPU0 {'N' * 10**6}\n", f"a device called '{'N' * 40}'"),
        ("GPU0 GPU0\n", "a device occurs twice"),
        (" ".join(f"GPU{i}" for i in range(600)), "600 devices; at most 512"),
        ("GPU0\nGPU0 X\n", r"1 rank\(s\)"),
    ],
)
def test_bad_matrices_get_one_line_in_bounded_time(network, text, words):
    start = time.perf_counter()
    with pytest.raises(InputError, match=words) as caught:
        network(text)
    assert "\n" not in str(caught.value)
    assert time.perf_counter() - start < 2


def test_the_largest_matrix_is_read_in_bounded_time(network):
    start = time.perf_counter()
    box = network(square(*(" ".join("X" if i == j else "SYS" for j in range(200)) for i in range(200))))
    assert box.num_ranks == 200
    assert time.perf_counter() - start < 5
