"""Bine trees: partners and loads by the paper's formulae, on rings and behind one switch."""

from collections import Counter

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.schedules import Problem, collective
from tutti.topologies import InputError, Unsupported
from tutti.topologies.text import parse_topology

BINE, RHD = METHODS["bine"], METHODS["rhd"]
LATENCY = {"version": "latency"}
KINDS = ("allgather", "reduce-scatter", "allreduce", "all-to-all", "broadcast", "reduce", "gather", "scatter")
ROOTED = KINDS[4:]


def negabinary(digits):
    """The value of binary digits, the highest first, in base -2."""
    return sum(digit * (-2) ** k for k, digit in enumerate(reversed(digits)))


def distances(schedule):
    """The distances of sender and receiver in each step, the shorter way round."""
    ranks = schedule.topology.num_ranks
    away = (schedule.target - schedule.source) % ranks
    away = np.minimum(away, ranks - away)
    return [set(away[schedule.order == step].tolist()) for step in range(1, schedule.order.max() + 1)]


@for_each("ranks", [2, 4, 8, 16, 64])
def test_partners_are_at_numbers_of_ones_in_base_minus_two(made, ranks):
    """Step i: s - i ones. 1 = 1, 11 = -1, 111 = 3, 1111 = -5, 11111 = 11 (Bine, section 3.1)."""
    steps = ranks.bit_length() - 1
    ones = [abs(negabinary([1] * (steps - i))) for i in range(steps)]
    assert distances(made(BINE, f"complete:{ranks}")) == [{d} for d in ones]


@for_each("kind", KINDS)
@for_each("text", ["ring:2", "ring:8", "torus:4x4", "complete:16"])
def test_every_collective_is_legal_in_log_n_steps(made, text, kind):
    schedule = made(BINE, text, kind)
    steps = schedule.topology.num_ranks.bit_length() - 1
    assert schedule.order.max() == steps * (2 if kind == "allreduce" else 1)


@for_each("kind", ROOTED)
@for_each("root", [1, 6])
def test_any_rank_may_be_the_root(made, kind, root):
    made(BINE, "complete:8", kind, root=root)


def test_a_broadcast_reaches_twice_as_many_in_each_step(made):
    schedule = made(BINE, "complete:16", "broadcast", root=5)
    assert [int((schedule.order == step).sum()) for step in (1, 2, 3, 4)] == [1, 2, 4, 8]


@pytest.mark.parametrize("kind", ["scatter", "gather"])
def test_a_scatter_sends_half_of_the_shards_at_a_time(made, kind):
    """Each step moves N/2 shards; the root sends N/2, N/4, ... of them, N - 1 in all."""
    schedule = made(BINE, "complete:16", kind, root=3)
    assert [int((schedule.order == step).sum()) for step in (1, 2, 3, 4)] == [8] * 4
    ends = schedule.source if kind == "scatter" else schedule.target
    assert (ends == 3).sum() == 15


def test_an_all_to_all_moves_half_of_what_a_rank_has_in_each_step(made):
    schedule = made(BINE, "complete:16", "all-to-all")
    sent = Counter(zip(schedule.order.tolist(), schedule.source.tolist(), strict=True))
    assert set(sent.values()) == {8}
    assert len(sent) == 4 * 16


def test_uneven_data_are_sent(made):
    made(BINE, "complete:4", "scatter", shards=[3, 0, 1, 2])
    made(BINE, "complete:4", "all-to-all", matrix=[[0, 3, 1, 0], [2, 0, 0, 5], [0, 0, 0, 0], [1, 1, 1, 0]])


def test_the_latency_version_adds_all_of_m_in_each_of_log_n_steps(made):
    schedule = made(BINE, "complete:8", "allreduce", options=LATENCY)
    assert distances(schedule) == [{1}, {1}, {3}]
    assert len(schedule) == 8 * 8 * 3


@for_each("bits", range(1, 9))
def test_bytes_times_distance_come_near_to_two_thirds_of_a_butterfly_of_powers_of_two(made, bits):
    """Sum of 2^i d(i) over that of 2^i 2^(s - 1 - i), which is s 2^(s - 1): at least 2/3, at most 1."""
    rows = made(BINE, f"complete:{2**bits}")
    apart = [next(iter(d)) for d in distances(rows)]
    bine = sum(2**i * d for i, d in enumerate(apart))
    assert 2 * bits * 2 ** (bits - 1) <= 3 * bine <= 3 * bits * 2 ** (bits - 1)


@for_each("size", [4, 6, 8, 10, 16, 24])
@for_each("ranks", [64, 128])
def test_groups_that_begin_anywhere_send_each_other_up_to_a_third_less(made, ranks, size):
    """The mean over starts of the first group, beside distances N/2, ..., 2, 1 (the paper's 33 %)."""

    def between(schedule):
        groups = (np.arange(ranks) + np.arange(size)[:, None]) // size  # a line for each beginning
        return int((groups[:, schedule.source] != groups[:, schedule.target]).sum())

    powers = between(made(RHD, f"complete:{ranks}", options={"distance": "halving"}))
    assert 2 * powers <= 3 * between(made(BINE, f"complete:{ranks}")) < 3 * powers


@pytest.mark.parametrize("name", ["allgather", "reduce-scatter"])
def test_latency_is_for_allreduces(name):
    problem = Problem(parse_topology("ring:4"), collective(name, 4))
    with pytest.raises(Unsupported, match=f"^bine has version latency for allreduces; this is {name}"):
        BINE.supports(problem, BINE.options(**LATENCY))


def test_other_numbers_of_ranks_are_refused(made):
    with pytest.raises(Unsupported, match="bine needs a power of two ranks; ring:6 has 6"):
        made(BINE, "ring:6")


@pytest.mark.parametrize("version", ["latent", "", None, 1])
def test_an_unknown_version_is_refused(version):
    with pytest.raises(InputError, match=r"bine option version is .*; allowed: bandwidth, latency"):
        BINE.options(version=version)
