"""NCCL's choice: rings and trees over channels, and the faster of both."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.heuristics.trees.spanning import reaches_all
from tests.sweep import for_each
from tests.topologies.networks import ACROSS, IN_ORDER, cluster_document
from tutti.experiments.registry import METHODS
from tutti.heuristics.trees.nccl_like import rings_through, trees_through
from tutti.schedules import Problem, collective
from tutti.schedules.cost import congestion, link_loads
from tutti.topologies import parse_topology


def test_nccl_takes_trees_for_little_data_and_rings_for_much(made, seconds):
    for size, expected in ((2**10, "dbt"), (10**9, "ring")):
        chosen = made(METHODS["nccl_like"], "dgx_a100:1", "allreduce", size)
        others = [
            seconds(made(METHODS[name], "dgx_a100:1", "allreduce", size), size) for name in ("ring", "dbt")
        ]
        assert chosen.stats["algorithm"] == expected
        assert seconds(chosen, size) == min(others)


def test_nccls_rings_use_every_adapter(made):
    """8 channels: each sends 15/16 of its eighth of M over one adapter of a box, 25 GB/s."""
    schedule = made(METHODS["nccl_like"], "dgx_a100:2")
    assert congestion(schedule) == Fraction(15, 16) / 8 / (25 * 10**9)


def test_nccls_trees_leave_a_machine_once_in_each_channel(made):
    """16 trees of M/16: a rank's adapter sends in 2; inside it sends up in 14 of them and down in 14."""
    schedule = made(METHODS["nccl_like"], "dgx_a100:2", "allreduce", 10**9)
    assert schedule.stats["algorithm"] == "dbt"
    loads = {Fraction(int(load), schedule.chunks.denominator) for load in link_loads(schedule)}
    assert loads == {Fraction(2, 16), Fraction(28, 16)}
    assert congestion(schedule) == Fraction(28, 16) / (300 * 10**9)


@pytest.mark.parametrize(("machines", "ranks"), [(2, 2), (3, 4), (5, 3), (4, 8)])
def test_channels_rings_and_trees_span(machines, ranks):
    for ring in rings_through(np.split(np.arange(machines * ranks), machines)):
        assert sorted(ring.tolist()) == list(range(machines * ranks))
        crossings = np.flatnonzero(ring // ranks != np.roll(ring, -1) // ranks)
        assert len(crossings) == machines
    trees = trees_through(np.split(np.arange(machines * ranks), machines))
    assert all(map(reaches_all, trees))
    for tree in trees:
        away = [v for v, p in enumerate(tree.tolist()) if p >= 0 and p // ranks != v // ranks]
        assert len(away) == machines - 1


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce"])
@for_each("text", ["dgx_h100:2?ranks=3+3", "dgx_a100:2?ranks=4+3", "mi250:2?ranks=8+8", "ndv2:2"])
def test_nccls_choice_is_legal_and_no_slower_than_either(made, seconds, text, kind):
    size = 10**6
    chosen = made(METHODS["nccl_like"], text, kind, size)
    names = ("ring", "dbt") if kind == "allreduce" else ("ring",)
    assert seconds(chosen, size) <= min(seconds(made(METHODS[n], text, kind, size), size) for n in names)


@pytest.mark.parametrize(("kind", "most"), [("allgather", 0.76), ("allreduce", 0.02)])
@for_each(("host_of", "tell"), [(IN_ORDER, True), (IN_ORDER, False), (ACROSS, True), (ACROSS, False)])
def test_a_users_cluster_gets_channels_however_its_ranks_are_numbered(
    made, seconds, tmp_path, kind, most, host_of, tell
):
    """7/8 M in and out of a rank, an eighth over each adapter: a ring takes 7/8 / (4 · 25 GB/s) at 1 GB.

    The bound has ports and adapters together, 7/8 / 325 GB/s and 1/2 / 100 GB/s across: 5 ms, and twice that
    for an allreduce.
    """
    path, size = tmp_path / "net.json", 10**9
    path.write_text(json.dumps(cluster_document(host_of, tell=tell)))
    schedule = made(METHODS["nccl_like"], str(path), kind, size)
    bound = 5e-3 * (2 if kind == "allreduce" else 1)
    assert seconds(schedule, size) <= bound * (1 + most)
    note = schedule.stats.get("note", "")
    assert note.startswith("hosts inferred from the links: 2 hosts of 4 ranks each (0") is not tell
    assert schedule.topology.hosts is None or tell


def test_hosts_are_not_inferred_where_that_is_turned_off(made, seconds, tmp_path):
    """One ring in rank order: 7/8 M through one adapter of a host, 35 ms across hosts at every step."""
    path, size = tmp_path / "net.json", 10**9
    path.write_text(json.dumps(cluster_document(ACROSS)))
    schedule = made(METHODS["nccl_like"], str(path), "allgather", size, {"infer_hosts": False})
    assert seconds(schedule, size) > 0.034
    assert "note" not in schedule.stats


def test_a_note_says_how_to_tell_hosts(made, tmp_path):
    path = tmp_path / "net.json"
    path.write_text(json.dumps(cluster_document(IN_ORDER, outside="200GB/s")))
    note = made(METHODS["nccl_like"], str(path), size=10**6).stats["note"]
    assert note.endswith('give the nodes of its file the key "host"')


UNEVEN = Path(__file__).parents[2] / "data" / "cases" / "05_uneven_hosts" / "hetero.json"


@for_each(
    ("text", "kind", "most"),
    [
        # A channel a rank of the smallest host. Its ring crosses each host's border once, so an adapter of
        # 25 GB/s carries M / channels x (N - 1)/N in an allgather, twice that in an allreduce.
        ("dgx_a100:2?drop_nodes=15", "allgather", Fraction(14, 15) / 7),
        ("dgx_a100:2?drop_nodes=15", "allreduce", Fraction(28, 15) / 7),
        ("dgx_a100:2?ranks=8+4", "allgather", Fraction(11, 12) / 4),
        (str(UNEVEN), "allgather", Fraction(9, 10) / 4),
        (str(UNEVEN), "allreduce", Fraction(18, 10) / 4),
    ],
)
def test_hosts_of_unequal_size_have_a_channel_a_rank_of_the_smallest(made, seconds, text, kind, most):
    size = 10**9
    schedule = made(METHODS["nccl_like"], text, kind, size)
    assert seconds(schedule, size) <= float(most * size / (25 * 10**9)) * 1.02
    assert "a channel for each rank of the smallest" in schedule.stats["note"]


def test_a_ring_goes_through_hosts_of_unequal_size_one_after_the_other(made):
    """Hosts of ranks 0, 2, 4 and 1, 3: a ring in order of the ranks would leave a host five times."""
    network = parse_topology("complete:5")
    placed = replace(network, hosts=np.array([0, 1, 0, 1, 0], dtype=np.int32))
    problem = Problem(placed, collective("allgather", 5))
    method = METHODS["ring"]
    table = method.synthesize(problem, method.options(one_way=True), None).transfers()
    pairs = set(zip(table["source"].tolist(), table["target"].tolist(), strict=True))
    assert sum(placed.hosts[a] != placed.hosts[b] for a, b in pairs) == 2
