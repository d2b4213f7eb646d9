"""Rails: legal on machines of any size, when its timeline says, and near the bound where its sums say so."""

import functools
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from tests.sweep import for_each
from tests.topologies.networks import ACROSS, IN_ORDER, cluster_document
from tutti.heuristics.rails import METHOD
from tutti.heuristics.rails.machines import (
    MOST,
    MachineCosts,
    Machines,
    SendRule,
    machines,
    play,
    schedule_of,
)
from tutti.heuristics.rails.method import fastest
from tutti.models.bounds import best_bound
from tutti.schedules import Problem, collective
from tutti.schedules.message_durations import messages
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import Unsupported
from tutti.topologies.text import parse_topology

GIGABYTE = 10**9
ALPHA = 0.5e-6
MACHINES = [
    "switch2d:2x2",  # the least there is
    "switch2d:3x5",  # no power of two; ranks of a machine do not follow each other
    "switch2d:5x3?bandwidth=25GB/s,300GB/s&alpha=1us,0us",  # adapters faster than ports
    "rail_only:4,3",  # a switch for each place
    "dgx_a100:2",
    "dgx_a100:3?rails=2",
    "dgx_h100:5",
]
SIZES = [100, 10**6, GIGABYTE]


@functools.cache
def rails(text, kind="allgather", size=GIGABYTE):
    return asked(text, kind, size)


def asked(text, kind="allgather", size=GIGABYTE, **details):
    topology = parse_topology(text)
    problem = Problem(topology, collective(kind, topology.num_ranks, **details), Fraction(size))
    METHOD.supports(problem, METHOD.options())
    return METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))


@functools.cache
def line_and_load(text, size):
    topology = parse_topology(text)
    found = machines(topology)
    assert isinstance(found, Machines)
    return fastest(topology, found, Fraction(size))


@for_each("size", SIZES)
@for_each("text", MACHINES)
def test_an_allgather_is_legal_and_done_when_its_timeline_says(text, size):
    """A schedule for switches that multicast may end sooner."""
    schedule = rails(text, size=size)
    verify(schedule)
    line, load = line_and_load(text, size)
    task = Problem(schedule.topology, schedule.collective, Fraction(size))
    as_planned = schedule_of(task, machines(task.topology), load, line)
    verify(as_planned)
    assert simulate(as_planned, size).time == pytest.approx(max(line.seconds), rel=1e-6)
    if schedule.topology.multicast:
        assert simulate(schedule, size).time <= max(line.seconds) * (1 + 1e-6)
    else:
        assert simulate(schedule, size).time == pytest.approx(max(line.seconds), rel=1e-6)


@pytest.mark.parametrize("text", ["switch2d:3x5", "dgx_a100:2"])
def test_every_message_starts_when_the_timeline_says(text):
    """The simulator is the second opinion: it knows no timeline, only what waits for what."""
    schedule, (line, _) = rails(text), line_and_load(text, GIGABYTE)
    sent, pieces, tails = line.counts
    started = np.concatenate([line.port.start[:sent], line.adapter.start[: pieces + tails]])
    expected = np.sort(np.tile(started, schedule.topology.num_ranks))
    assert len(messages(schedule)) == len(expected)
    assert np.sort(simulate(schedule, GIGABYTE).start) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("text", ["switch2d:3x5", "dgx_a100:2", "dgx_h100:3"])
def test_a_reduce_scatter_takes_as_long_and_an_allreduce_at_most_twice(text, size):
    whole = simulate(rails(text, size=size), size).time
    for kind, times in (("reduce-scatter", 1), ("allreduce", 2)):
        schedule = rails(text, kind, size)
        verify(schedule)
        assert simulate(schedule, size).time <= times * whole * (1 + 1e-9)
        bound = best_bound(schedule.topology, schedule.collective, Fraction(size))
        assert simulate(schedule, size).time >= float(bound.time(Fraction(size))) * (1 - 1e-9)


def test_where_neither_waits_the_time_is_that_of_the_bytes_and_an_alpha_a_message():
    """Ports bring V = G - 1 streams up to the end, adapters the rest W: V/v + (K + 1) α and W/n + (L + 1) α.

    V + W is 15/16 M. So the time weighted by (v, n) is the bound and (v (K + 1) + n (L + 1)) α/(v + n), to
    1e-5. Both end together to that accuracy only, and the later one is the time.
    """
    line, load = line_and_load("dgx_a100:2", GIGABYTE)
    sent, pieces, tails = line.counts
    end = line.adapter.low[pieces]
    shard = Fraction(GIGABYTE, 16)
    ported = 7 * int(end) * shard / load.shard
    port = float(ported / (300 * GIGABYTE)) + (sent + 1) * ALPHA
    adapter = float((15 * shard - ported) / (25 * GIGABYTE)) + (pieces + tails + 1) * ALPHA
    assert line.seconds == pytest.approx((port, adapter), rel=1e-9)
    bound = 15 / 16 / 325
    extra = (300 * (sent + 1) + 25 * (pieces + tails + 1)) * ALPHA / 325
    assert max(line.seconds) == pytest.approx(bound + extra, rel=1e-5)


@pytest.mark.parametrize(
    ("text", "most"),
    [
        # By hand: a round of 7 messages for the own shard (until 1.46 ms), then rounds of what has come
        # until they begin, each 7 x 25/300 as long as the one before: 2.31, 2.80, and the rest: 4 rounds.
        ("dgx_a100:2", (4 * 7 + 1) * ALPHA / (15 / 16 / 325)),
        ("dgx_h100:4", 0.01),  # what is asked of a portfolio
        ("dgx_h100:16", 0.01),
        ("switch2d:8x4?bandwidth=300GB/s,25GB/s", 0.01),
    ],
)
@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter"])
def test_a_gigabyte_is_near_the_bound(text, most, kind):
    schedule = rails(text, kind)
    bound = best_bound(schedule.topology, schedule.collective, Fraction(GIGABYTE))
    gap = simulate(schedule, GIGABYTE).time / float(bound.time(Fraction(GIGABYTE))) - 1
    assert 0 <= gap <= most


@pytest.mark.parametrize("text", ["dgx_a100:2", "dgx_h100:4", "dgx_h100:16"])
def test_a_gigabyte_is_cut_at_whole_bytes(text):
    """A shard of 10^9/2^k bytes has 62,500 units of whole bytes: 10^9 = 2^9 5^9 and 62,500 = 2^2 5^6."""
    chunks = rails(text).chunks
    assert all(int(size) * GIGABYTE % chunks.denominator == 0 for size in chunks.size)


def test_a_port_has_at_least_the_messages_that_doubling_needs():
    """The shards that were sent at most double with each message: ⌈log2 G⌉ for a machine's own shards."""
    for text, ranks in (("switch2d:5x3", 5), ("dgx_a100:2", 8)):
        for size in SIZES:
            assert line_and_load(text, size)[0].counts[0] >= math.ceil(math.log2(ranks))


def test_by_doubling_an_adapter_has_a_message_for_each_bit():
    """16 machines: 1, 2, 4 and 8 shards, where one from each owner takes 15."""
    load = MachineCosts(16, 2, 1000, 1e-9, 1e-6, 1e-9, 1e-6)
    for doubling, messages_sent in ((True, 4), (False, 15)):
        line = play(load, SendRule(np.array([1]), 0, 1.0, doubling), 16 * 1000)
        assert line.counts == (line.counts[0], messages_sent, 0)
        assert line.adapter.hop[:messages_sent].tolist() == ([1, 2, 4, 8] if doubling else [*range(1, 16)])


def test_a_timeline_with_too_many_messages_never_ends():
    load = MachineCosts(2, 2, 10**6, 1e-12, 0.0, 1e-9, 0.0)  # ports are a thousand times as fast
    rule = SendRule(np.array([1]), 10**6 // MOST // 2, 0.0, False)
    assert max(play(load, rule, 2 * 10**6).seconds) == math.inf


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ring:4", "does not say which host each rank is in"),
        ("dgx_a100:1", "does not have two or more machines"),
        ("dgx_a100:2?drop_nodes=0", "does not have two or more machines of equal size"),
        ("ndv2:2", "has ranks without one link each way to a switch inside"),
        ("dragonfly:4x5", "has ranks without one link each way"),
        ("torus_of_boxes:1,4", "does not have two or more machines of equal size, at least 2 ranks each"),
    ],
)
def test_other_networks_are_unsupported(text, reason):
    with pytest.raises(Unsupported, match=f"rails needs machines .*{reason}") as raised:
        rails(text)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "details", "reason"),
    [
        ("all-to-all", {}, "does allgather, reduce-scatter, allreduce; not all-to-all"),
        ("allgather", {"shards": [1] * 15 + [2]}, "needs all ranks in one collective with equal shards"),
        ("allgather", {"groups": [list(range(8))]}, "needs all ranks in one collective with equal shards"),
    ],
)
def test_other_collectives_are_unsupported(kind, details, reason):
    with pytest.raises(Unsupported, match=reason):
        asked("dgx_a100:2", kind, **details)


@for_each(("host_of", "tell"), [(IN_ORDER, False), (ACROSS, False), (ACROSS, True)])
def test_a_users_cluster_has_machines_however_its_ranks_are_numbered(tmp_path, host_of, tell):
    """7/8 M over ports and adapters of 325 GB/s, half of M between machines of 100: 5 ms at 1 GB."""
    path = tmp_path / "net.json"
    path.write_text(json.dumps(cluster_document(host_of, tell=tell)))
    schedule = asked(str(path))
    verify(schedule)
    assert simulate(schedule, GIGABYTE).time <= 5e-3 * 1.01
    assert ("note" in schedule.stats) is not tell
    assert (schedule.topology.hosts is None) is not tell


def test_a_refusal_says_how_to_tell_hosts(tmp_path):
    path = tmp_path / "net.json"
    path.write_text(json.dumps(cluster_document(IN_ORDER)))
    topology = parse_topology(str(path))
    problem = Problem(topology, collective("allgather", 8), Fraction(GIGABYTE))
    with pytest.raises(
        Unsupported,
        match='does not say which host each rank is in; give the nodes of its file the key "host"',
    ):
        METHOD.supports(problem, METHOD.options(infer_hosts=False))
