"""NCCL's choice: rings and trees over channels, and the faster of both."""

from fractions import Fraction

import numpy as np
import pytest

from experiments.registry import METHODS
from heuristics.trees.nccl_like import channel_rings, channel_trees
from schedules.cost import congestion, link_loads
from tests.heuristics.trees.spanning import reaches_all
from tests.sweep import for_each


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
    for ring in channel_rings(machines, ranks):
        assert sorted(ring.tolist()) == list(range(machines * ranks))
        crossings = np.flatnonzero(ring // ranks != np.roll(ring, -1) // ranks)
        assert len(crossings) == machines
    trees = channel_trees(machines, ranks)
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
