"""Two levels: legal with every pair of algorithms, and as much between hosts as the formulas say."""

from fractions import Fraction

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.heuristics.classic.hierarchical import ALGORITHMS
from tutti.topologies import InputError, Unsupported

HIERARCHICAL = METHODS["hierarchical"]
GATHERS = [name for name, one in ALGORITHMS.items() if one.gather]
EXCHANGES = [name for name, one in ALGORITHMS.items() if one.exchange]


def crossing(schedule):
    """The data that each rank sends to other hosts, in units of M."""
    topology = schedule.topology
    host = topology.hosts[: topology.num_ranks]
    away = host[schedule.source] != host[schedule.target]
    sent = np.bincount(schedule.source[away], schedule.chunks.size[schedule.chunk[away]], topology.num_ranks)
    return {Fraction(int(load), schedule.chunks.denominator) for load in sent}


@for_each("inside", GATHERS)
@for_each("between", GATHERS)
@for_each("kind", ["allgather", "allreduce"])
def test_every_pair_of_algorithms_sends_a_shard_to_each_host_once(made, inside, between, kind):
    """A rank sends its shard of M/32 to the 3 other hosts; twice that for an allreduce."""
    schedule = made(HIERARCHICAL, "dgx_h100:4", kind, options={"inside": inside, "between": between})
    assert crossing(schedule) == {Fraction(3, 32) * (2 if kind == "allreduce" else 1)}


@for_each("inside", EXCHANGES)
@for_each("between", EXCHANGES)
def test_every_pair_of_algorithms_exchanges_everything(made, inside, between):
    """Straight along a rail: 3/4 of M. By halves: M/2 in each of two steps."""
    schedule = made(HIERARCHICAL, "dgx_h100:4", "all-to-all", options={"inside": inside, "between": between})
    assert crossing(schedule) == {Fraction(1) if between in ("bruck", "bine") else Fraction(3, 4)}


def test_an_all_to_all_has_one_message_a_rank_and_host(made):
    """All data for the other of two hosts goes along the rail, to the same place there."""
    schedule = made(HIERARCHICAL, "dgx_h100:2", "all-to-all")
    across = {
        (int(a), int(b)) for a, b in zip(schedule.source, schedule.target, strict=True) if a // 8 != b // 8
    }
    assert across == {(rank, (rank + 8) % 16) for rank in range(16)}


@for_each("kind", ["allgather", "reduce-scatter", "allreduce", "all-to-all"])
@for_each("text", ["switch2d:4x2", "dragonfly:4x5", "mi250:3", "ndv2:2"])
def test_hosts_are_found_in_any_numbering(made, text, kind):
    made(HIERARCHICAL, text, kind)


def test_chunks_follow_each_other(made, seconds):
    whole, cut = (
        seconds(made(HIERARCHICAL, "dgx_h100:2", options={"chunks": chunks}), 10**9) for chunks in (1, 4)
    )
    assert cut < 0.7 * whole


def test_a_matrix_of_bytes_is_sent(made):
    matrix = np.arange(256).reshape(16, 16) % 7
    made(HIERARCHICAL, "dgx_h100:2", "all-to-all", matrix=matrix.tolist())


@pytest.mark.parametrize(
    ("text", "kind", "options", "words"),
    [
        (
            "torus:4x4",
            "allgather",
            {},
            "hierarchical needs hosts of equally many ranks; torus:4x4 does not say",
        ),
        (
            "dgx_h100:2",
            "all-to-all",
            {"inside": "ring"},
            "option inside is ring; for all-to-all it may be direct",
        ),
        (
            "dgx_h100:2",
            "allgather",
            {"between": "pairwise"},
            "option between is pairwise; for allgather it may",
        ),
        (
            "dgx_h100:3",
            "allgather",
            {"between": "bine"},
            "bine, which needs a power of two hosts; dgx_h100:3 has 3",
        ),
    ],
)
def test_what_does_not_fit_is_refused(made, text, kind, options, words):
    with pytest.raises(Unsupported, match=words):
        made(HIERARCHICAL, text, kind, options=options)


@pytest.mark.parametrize("options", [{"inside": "rings"}, {"between": None}, {"chunks": 0}])
def test_wrong_options_are_refused(options):
    with pytest.raises(InputError, match="hierarchical option"):
        HIERARCHICAL.options(**options)
