"""NCCL's choice: legal schedules on rings, trees and switches, and the notes on them."""

from fractions import Fraction

import numpy as np
import pytest

import tutti
from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.experiments.runner.judge import Cost
from tutti.heuristics.nccl import NcclOptions
from tutti.schedules.cost import congestion, link_loads
from tutti.schedules.schedule import Clock
from tutti.topologies import InputError, Link, Topology, Unsupported
from tutti.topologies.files import write_topology

NCCL = METHODS["nccl"]
KB, MB, GB = 2**10, 2**20, 2**30
NETWORKS = (
    "dgx1",
    "ndv2:2",
    "dgx2:2",
    "dgx_a100:1",
    "dgx_a100:3",
    "dgx_h100:1",
    "dgx_h100:2",
    "switch2d:4x2",
)


@for_each("text", NETWORKS)
@pytest.mark.parametrize("kind", ["allreduce", "allgather", "reduce-scatter", "broadcast", "reduce"])
def test_every_choice_is_run(made, text, kind):
    details = {"root": 1} if kind in ("broadcast", "reduce") else {}
    for size in (KB, MB, 64 * MB, None):
        stats = made(NCCL, text, kind, size, **details).stats
        assert stats["algorithm"] in ("ring", "tree", "nvls", "nvls_tree")
        assert stats["protocol"] in ("ll", "ll128", "simple")


@pytest.mark.parametrize(
    ("text", "kind", "options", "busiest"),
    [
        # Eight rings with an adapter each: 15/16 of an eighth of M at 25 GB/s, twice for an allreduce.
        ("dgx_a100:2", "allgather", {"algorithm": "ring"}, Fraction(15, 16) / 8 / 25),
        ("dgx_a100:2", "allreduce", {"algorithm": "ring"}, Fraction(15, 8) / 8 / 25),
        # Chains: a GPU in the middle sends M up and M down, at 300 GB/s.
        ("dgx_a100:1", "allreduce", {"algorithm": "tree"}, Fraction(2, 300)),
        # A GPU sends all of M to the switch once, at 450 GB/s; an eighth of M in an allgather.
        ("dgx_h100:1", "allreduce", {"algorithm": "nvls"}, Fraction(1, 450)),
        ("dgx_h100:1", "allgather", {"algorithm": "nvls"}, Fraction(7, 8) / 450),
        ("dgx_h100:1", "reduce-scatter", {"algorithm": "nvls"}, Fraction(7, 8) / 450),
        # Sixteen trees of M/16: each adapter sends once in either tree of a channel.
        ("dgx_h100:2", "allreduce", {"algorithm": "nvls_tree"}, Fraction(2, 16) / 50),
        # Six rounds of a DGX-1, an NVLink of 46 us/MB each: 7/8 of a sixth of M.
        ("dgx1", "allgather", {}, Fraction(7, 8) / 6 * 46 / 1000),
    ],
)
def test_the_busiest_link_carries_what_the_algorithm_says(made, text, kind, options, busiest):
    schedule = made(NCCL, text, kind, GB, options)
    assert congestion(schedule) * 10**9 == busiest


def test_messages_of_a_step_take_parallel_links_in_turn(made):
    loads = link_loads(made(NCCL, "dgx1", "allreduce", GB))
    assert len(set(np.asarray(loads).tolist())) == 1


def test_a_row_says_what_was_chosen_and_assumed(made):
    schedule = made(NCCL, "dgx_a100:2", "allreduce", KB)
    assert schedule.clock is Clock.STEP
    assert {name: schedule.stats[name] for name in ("algorithm", "protocol")} == {
        "algorithm": "tree",
        "protocol": "ll",
    }
    # 6.8 + 2 (7 x 0.6 + 5) us, and 1,024 bytes at 0.9 x 39/2 GB/s.
    assert schedule.stats["nccl_us"] == pytest.approx(25.2 + 1024 / (1000 * 0.9 * 19.5))
    assert schedule.stats["note"] == (
        "NCCL 2.30.7 takes tree with ll, 25.2583 us by its model, which counts kernels and protocols; "
        "the simulated time counts the network alone, as that of all methods does; "
        "assumed: 2 hosts of 8 Ampere GPUs, 8 channels of 24 GB/s"
    )


def test_what_nccl_takes_stands_in_the_answer_and_in_rows():
    answer = tutti.synthesize("dgx_a100:2", "allreduce", "1KiB", method="nccl")
    assert answer.fields["NCCL takes"] == (
        "tree with ll, 25.2583 us by its model, to be compared with measurements; "
        "time is to be compared with the times of other methods"
    )
    told = {name: answer.document[name] for name in ("algorithm", "protocol", "nccl_us")}
    assert told == {"algorithm": "tree", "protocol": "ll", "nccl_us": answer.schedule.stats["nccl_us"]}
    assert told.items() <= Cost.of(answer.schedule).columns().items()


def test_a_model_that_is_below_the_simulated_time_has_its_reason_beside_it():
    answer = tutti.synthesize("mi250:2", "allreduce", "1GB", method="nccl")
    assert answer.time * 1e6 > answer.document["nccl_us"]
    assert answer.fields["NCCL takes"].endswith("; here channels share links, which its model does not know")


@pytest.mark.parametrize("dead", range(8))
def test_each_channel_has_an_adapter_of_its_own_where_one_of_eight_is_dead(made, tmp_path, dead):
    """Four hosts of 8 Hopper GPUs: 31/32 of a seventh of M goes over an adapter of 48 GB/s, twice."""
    adapters = [gpu for gpu in range(8) if gpu != dead]
    lines = ["\t".join(["", *(f"GPU{gpu}" for gpu in range(8)), *(f"NIC{place}" for place in range(7))])]
    for gpu in range(8):
        near = ["PIX" if gpu == other else "NODE" for other in adapters]
        lines.append("\t".join([f"GPU{gpu}", *("X" if gpu == g else "NV18" for g in range(8)), *near]))
    for place, gpu in enumerate(adapters):
        near = ["PIX" if gpu == other else "NODE" for other in range(8)]
        lines.append("\t".join([f"NIC{place}", *near, *("X" if a == gpu else "NODE" for a in adapters)]))
    file = tmp_path / "topo.txt"
    file.write_text("\n".join(lines))
    schedule = made(
        NCCL, f"nvidia-smi:{file}?hosts=4&switches=forward", "allreduce", GB, {"algorithm": "ring"}
    )
    assert congestion(schedule) * 10**9 == Fraction(31, 32) / 7 * 2 / 48


@pytest.mark.parametrize(("text", "said"), [("dgx_h100:2", False), ("dgx_h100:2?switches=forward", True)])
def test_switches_that_only_forward_are_named_as_the_reason_for_no_nvls(made, text, said):
    note = made(NCCL, text, "allreduce", MB).stats["note"]
    assert ("; NVLS is left out, as no switch adds and multicasts; " in note) is said


def test_pat_of_hosts_of_one_gpu(made, tmp_path):
    """16 on one switch, an adapter each: trees of four steps are the fastest for little data."""
    links = [link for rank in range(16) for link in (Link(rank, 16, 25 * 10**9), Link(16, rank, 25 * 10**9))]
    alone = Topology.from_links("alone", 16, links, num_switches=1, hosts=[*range(16), -1])
    write_topology(alone, tmp_path / "alone.json")
    schedule = made(NCCL, str(tmp_path / "alone.json"), "allgather", KB, {"generation": "ampere"})
    assert (schedule.stats["algorithm"], schedule.stats["protocol"]) == ("pat", "simple")
    assert int(schedule.order.max()) == 4
    assert schedule.stats["note"].endswith("assumed: 16 hosts of 1 Ampere GPU, 1 channel of 24 GB/s")


def test_options_take_the_place_of_the_choice(made):
    stats = made(NCCL, "dgx_h100:2", "allreduce", GB, {"algorithm": "ring", "protocol": "ll"}).stats
    assert (stats["algorithm"], stats["protocol"]) == ("ring", "ll")
    stats = made(NCCL, "dgx_h100:2", "allreduce", GB, {"generation": "ampere", "channels": 4}).stats
    assert "2 hosts of 8 Ampere GPUs, 4 channels of" in stats["note"]


def test_more_channels_than_fit_share_the_bandwidth(made):
    """Adapters of two DGX A100 carry 200 GB/s: eight channels of 24, or sixteen of 12."""
    eight, sixteen = (
        made(NCCL, "dgx_a100:2", "allgather", GB, {"algorithm": "ring", "channels": channels}).stats
        for channels in (8, 16)
    )
    assert "16 channels of 12 GB/s" in sixteen["note"]
    assert sixteen["nccl_us"] == pytest.approx(eight["nccl_us"], rel=1e-12)


@pytest.mark.parametrize(
    ("text", "kind", "options", "message"),
    [
        (
            "torus:4x4",
            "allreduce",
            {},
            "needs one host, or hosts of equally many ranks; torus:4x4 does not",
        ),
        ("dgx_a100:2?ranks=4+3", "allreduce", {}, "has no machines of equal size"),
        (
            "dgx_a100:2",
            "allgather",
            {"algorithm": "tree"},
            "nccl has no tree for allgather on 2 hosts of 8",
        ),
        (
            "dgx_a100:1",
            "allreduce",
            {"algorithm": "nvls"},
            "nccl has no nvls for allreduce on 1 host of 8",
        ),
        (
            "dgx_h100:2",
            "allreduce",
            {"algorithm": "nvls_tree", "protocol": "ll"},
            "has no nvls_tree with ll",
        ),
        (
            "dgx_h100:2",
            "all-to-all",
            {},
            "nccl does broadcast, reduce, allgather, reduce-scatter, allreduce;",
        ),
    ],
)
def test_what_nccl_does_not_do(made, text, kind, options, message):
    with pytest.raises(Unsupported, match=message):
        made(NCCL, text, kind, GB, options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"generation": "hoper"}, "nccl option generation is 'hoper'; did you mean 'hopper'"),
        (
            {"generation": "mi300"},
            "nccl option generation is 'mi300'; allowed: ampere, blackwell, hopper, volta",
        ),
        ({"algorithm": "bruck"}, "nccl option algorithm is 'bruck'; .*tree.*ring"),
        ({"cpu": "arm"}, "nccl option cpu is 'arm'; did you mean 'amd'"),
        ({"channels": 0}, "nccl option channels is 0; it must be"),
        ({"latency": 1e308}, "nccl option latency is 1e.308; it must be a number from 0 to 1e.06"),
        ({"latency": -1.0}, "nccl option latency is -1.0; it must be"),
        ({"latency": float("nan")}, "nccl option latency is nan; it must be"),
    ],
)
def test_a_bad_option_is_one_line(options, message):
    with pytest.raises(InputError, match=message) as raised:
        NcclOptions(**options)
    assert "\n" not in str(raised.value)
