"""Postal gossip: legal anywhere, at the bound on machines, and as fast as its kernel says."""

from fractions import Fraction

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.heuristics.gossip import METHOD
from tutti.heuristics.gossip.routes import MessageRoutes, single_messages, translations
from tutti.models.bounds import best_bound
from tutti.schedules import Problem, collective
from tutti.schedules.files.schedule_file import content_hash
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import InputError, Unsupported
from tutti.topologies.kernels import now
from tutti.topologies.text import parse_topology

KILOBYTE = Fraction(1000)


def postal(text, kind="allgather", tries=40, size=KILOBYTE, **details):
    topology = parse_topology(text)
    problem = Problem(topology, collective(kind, topology.num_ranks, **details), size)
    return METHOD.synthesize(problem, METHOD.options(tries=tries), np.random.default_rng(0))


def gap(schedule, size=KILOBYTE):
    bound = best_bound(schedule.topology, schedule.collective, size).time(size)
    return simulate(schedule, size).time / float(bound) - 1


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce"])
@for_each(
    "text",
    [
        "ring:2",
        "ring:5",
        "mesh:2x3",
        "gen_kautz:2,7",
        "dgx_h100:2",
        "ndv2:2",
        "rfs:2x2x3",
        "mi250:1",
        "dragonfly:2x3",
    ],
)
def test_it_is_legal_on_any_network(text, kind):
    verify(postal(text, kind, tries=2))


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter"])
@for_each("text", ["dgx_a100:1", "dgx_a100:2", "ring:8", "torus:4x4", "complete:8"])
def test_a_kilobyte_is_within_a_percent_of_the_bound(text, kind):
    schedule = postal(text, kind)
    verify(schedule)
    assert gap(schedule) < 0.01


def test_a_box_of_eight_is_told_in_fibonacci_numbers():
    """One port, two α a message: 1, 1, 2, 3, 5, 8 ranks know one's shard after 0, 1, ..., 5 α."""
    time = simulate(postal("dgx_a100:1", size=Fraction(1)), 1).time
    assert time == pytest.approx(5 * 0.5e-6, rel=1e-4)


def test_multicasting_switches_are_told_once_and_pass_on():
    """All of a box through its NVSwitch in 2 α."""
    schedule = postal("dgx_h100:1", tries=5)
    verify(schedule)
    assert simulate(schedule, 1).time == pytest.approx(1e-6, rel=1e-4)


@pytest.mark.parametrize("text", ["dgx_a100:2", "switch2d:3x4", "ndv2:2", "dgx2:2"])
def test_it_beats_what_sends_to_one_after_the_other(text):
    """Each rank to all others over one port would take N - 1 times α, and a message twice that at least."""
    schedule = postal(text, tries=5)
    ranks, alpha = schedule.topology.num_ranks, max(schedule.topology.alpha)
    assert simulate(schedule, KILOBYTE).time < float((ranks - 1) * alpha)


def test_uneven_shards_and_those_without_size_are_sent():
    verify(postal("dgx_a100:1", "allreduce", tries=3, shards=[1, 0, 3, 5, 1, 1, 1, 1]))


def test_the_same_seed_is_the_same_schedule():
    assert content_hash(postal("ndv2:2", tries=5)) == content_hash(postal("ndv2:2", tries=5))


def test_routes_are_single_links_and_ways_through_switches():
    """Two boxes of 8: each rank to 7 over its NVSwitch and to 15 over InfiniBand, two links each."""
    machine = parse_topology("dgx_a100:2")
    ways = list(single_messages(machine))
    assert len(ways) == 16 * (7 + 15)
    assert {len(way) for way in ways} == {2}
    ring = parse_topology("ring:5")
    assert sorted(single_messages(ring)) == [(link,) for link in range(10)]


def test_translations_move_all_ranks_and_classes_are_disjoint():
    machine = parse_topology("dgx_a100:2")
    steps = translations(machine)
    assert len(steps) == 2
    network = MessageRoutes.of(machine, steps)
    assert np.diff(network.classes).tolist() == [16] * (7 + 15)
    for first, last in zip(network.classes[:-1], network.classes[1:], strict=True):
        offsets = network.routes.offsets
        links = network.routes.links[offsets[first] : offsets[last]]
        assert len(set(links.tolist())) == len(links)
        assert set(network.source[first:last].tolist()) == set(range(16))


def test_what_it_does_not_do_is_said():
    with pytest.raises(Unsupported, match=r"^postal takes at most 256 ranks; ring:257 has 257$"):
        postal("ring:257")
    with pytest.raises(Unsupported, match="postal needs one group of all ranks; this allgather has 2"):
        postal("ring:4", groups=[[0, 1], [2, 3]])
    with pytest.raises(Unsupported, match="postal does allgather, reduce-scatter, allreduce; not all-to-all"):
        postal("ring:4", "all-to-all")


@pytest.mark.parametrize("tries", [0, -1, 1.5, True, "3"])
def test_tries_are_counted(tries):
    with pytest.raises(InputError, match=r"postal option tries is .*; it must be a whole number from 1"):
        METHOD.options(tries=tries)


def test_a_time_limit_ends_the_tries():
    """A hundred thousand tries would take half a minute; each variant has one in any case."""
    topology = parse_topology("ring:12")
    problem = Problem(topology, collective("allgather", 12), KILOBYTE)
    postal("ring:12", tries=1)  # what is compiled does not count
    began = now()
    schedule = METHOD.synthesize(
        problem, METHOD.options(tries=10**5, time_limit=0.1), np.random.default_rng(0)
    )
    assert now() - began < 2
    verify(schedule)
