"""Rounds: legal anywhere, in the fewest α at a byte, direct at a gigabyte."""

from fractions import Fraction

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.heuristics.rounds import METHOD
from tutti.schedules import Problem, collective
from tutti.schedules.files.schedule_file import content_hash
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import InputError, Unsupported
from tutti.topologies.text import parse_topology

ALPHA = 0.5e-6


def made(text, kind="all-to-all", size=Fraction(1000), **details):
    topology = parse_topology(text)
    problem = Problem(topology, collective(kind, topology.num_ranks, **details), size)
    schedule = METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))
    verify(schedule)
    return schedule


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce", "all-to-all"])
@for_each(
    "text",
    [
        "ring:2",
        "ring:5",
        "mesh:2x3?alpha=0us",
        "mesh:2x3?alpha=0us,0.5us",
        "mesh:3x2?alpha=1s,0.001us&bandwidth=1B/s,1TB/s",
        "mesh:2x3?bandwidth=50GB/s,25GB/s&alpha=0.5us,0.7us",
        "gen_kautz:2,7",
        "dgx_h100:2?ranks=2+2",
        "dgx2:2?ranks=2+2",
        "ndv2:2?ranks=3+3",
        "rfs:2x2x3",
    ],
)
def test_it_is_legal_on_any_network(text, kind):
    made(text, kind)


@pytest.mark.parametrize("size", [Fraction(1), Fraction(10**18), None])
def test_any_size_is_legal(size):
    made("switch2d:2x2", size=size)


@pytest.mark.parametrize("kind", ["allgather", "all-to-all"])
def test_uneven_and_empty_shards_are_sent(kind):
    made("dgx_a100:1", kind, shards=[1, 0, 3, 5, 1, 1, 1, 1])


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "all-to-all"])
@pytest.mark.parametrize(
    ("text", "rounds"), [("dgx_a100:1", 5), ("dgx_a100:2?ranks=4+4", 4), ("switch2d:2x2", 4)]
)
def test_a_byte_takes_as_many_alpha_as_ranks_that_tell_each_other(text, rounds, kind):
    """A message takes two α, a port sends one an α: 1, 1, 2, 3, 5, 8 know after 0, ..., 5 of them.

    With two ports 1, 1, 3, 5, 11. In two dimensions the farthest is two messages away.
    """
    assert simulate(made(text, kind, Fraction(1)), 1).time == pytest.approx(rounds * ALPHA, rel=1e-3)


@pytest.mark.parametrize(("text", "rounds"), [("dgx_a100:1", 5), ("switch2d:2x2", 4), ("complete:4", 1)])
def test_a_byte_is_added_up_in_one_shot(text, rounds):
    """The sum takes as many α as a reduce-scatter, and two halves take twice as many."""
    assert simulate(made(text, "allreduce", Fraction(1)), 1).time == pytest.approx(rounds * ALPHA, rel=1e-2)


def test_boxes_are_clusters_where_hosts_are_near():
    """Inside a box of ndv2 PCIe has no α: one message of 1.7 us between the adapters is all that counts.

    One shot would bring eight sums to each box, 0.1 us each at 9.4 GB/s, one after the other.
    """
    schedule = made("ndv2:2", "allreduce", Fraction(1000))
    assert schedule.chunks.copy_of is not None
    assert simulate(schedule, 1000).time < 2.4e-6


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce", "all-to-all"])
def test_groups_take_only_what_they_need(kind):
    """Pairs that share a box's switch need one message of two links, there and perhaps back."""
    schedule = made("dgx_a100:2", kind, Fraction(1), groups=[[0, 1], [2, 3], [8, 9]])
    messages = 2 if kind == "allreduce" else 1
    assert simulate(schedule, 1).time == pytest.approx(messages * 2 * ALPHA, rel=1e-3)


@pytest.mark.parametrize(
    ("text", "details"),
    [
        ("ring:6", {"groups": [[0, 2, 1, 5, 3]], "shards": [3, 2, 1, 3, 3]}),
        ("mesh:2x4", {"groups": [[7, 3, 4]]}),
    ],
)
def test_who_forwards_what_it_does_not_want_passes_it_on(text, details):
    """Backwards it would otherwise have nothing to add to the sum."""
    made(text, "reduce-scatter", Fraction(3, 4), **details)


def test_large_exchanges_are_direct():
    """Eight ranks on a switch: no datum takes a detour, and ports are never idle but for α."""
    size = Fraction(10**9)
    schedule = made("dgx_a100:1", size=size)
    assert Fraction(int(schedule.load.sum()), schedule.chunks.denominator) == Fraction(8 * 7, 8)
    assert simulate(schedule, size).time == pytest.approx(7 * (size / 8) / (300 * 10**9), rel=2e-3)


def test_the_same_seed_is_the_same_schedule():
    assert content_hash(made("switch2d:2x3")) == content_hash(made("switch2d:2x3"))


def test_what_it_does_not_do_is_said():
    assert METHODS["min_latency"] is METHOD
    with pytest.raises(
        Unsupported, match=r"^min_latency takes at most 256 ranks, or 1024 .*; ring:257 has 257$"
    ):
        made("ring:257")
    with pytest.raises(Unsupported, match=r"min_latency does allgather, .*, all-to-all; not broadcast"):
        made("ring:4", "broadcast")
    with pytest.raises(InputError, match="min_latency option variants is 0"):
        METHOD.options(variants=0)


@pytest.mark.parametrize("kind", ["allgather", "allreduce", "all-to-all"])
def test_out_of_time_it_has_a_schedule_already(kind):
    topology = parse_topology("switch2d:4x2")
    problem = Problem(topology, collective(kind, topology.num_ranks), Fraction(1000))
    options = METHOD.options(time_limit=1e-9)
    schedule = METHOD.synthesize(problem, options, np.random.default_rng(0))
    verify(schedule)
    longer = METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))
    assert simulate(longer, 1000).time <= simulate(schedule, 1000).time
