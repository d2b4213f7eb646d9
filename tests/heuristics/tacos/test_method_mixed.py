"""TACOS on mixed collectives: different kinds at the same time."""

from fractions import Fraction

import pytest

from tests.heuristics.tacos.synthesis import GB, tacos
from tests.sweep import for_each
from tutti.models.bounds import lower_bounds
from tutti.schedules import Kind, collective, concurrent
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify

CORNERS, CROSS = (0, 3, 8, 11), (1, 5, 6, 10)  # of a 3x4 mesh: all routes meet


def mixed(ranks, *parts):
    return concurrent(
        [
            collective(kind, ranks, root=0 if Kind(kind).rooted else None, groups=[group])
            for kind, group in parts
        ]
    )


@for_each(
    ("one", "other"),
    [
        ("broadcast", "reduce"),
        ("allgather", "allreduce"),
        ("reduce-scatter", "all-to-all"),
        ("gather", "scatter"),
        ("allreduce", "allreduce"),
    ],
)
@for_each("text", ["mesh:3x4", "torus:3x4?bandwidth=100GB/s,30GB/s&alpha=1us"])
def test_two_kinds_at_once_are_legal_and_no_faster_than_their_bounds(text, one, other):
    what = mixed(12, (one, CORNERS), (other, CROSS))
    schedule = tacos(text, what, chunks=2)
    verify(schedule)
    time = simulate(schedule, GB).time
    bounds = lower_bounds(schedule.topology, what, GB)
    assert bounds
    assert all(time >= float(bound.time(GB)) * (1 - 1e-9) for bound in bounds)


def test_through_switches_too():
    what = mixed(16, ("broadcast", tuple(range(8))), ("allreduce", tuple(range(8, 16))))
    verify(tacos("dgx_a100:2", what))


def test_it_takes_no_longer_than_one_part_after_the_other():
    parts = ("broadcast", CORNERS), ("allreduce", CROSS)
    together = simulate(tacos("mesh:3x4", mixed(12, *parts)), GB).time
    alone = [
        simulate(tacos("mesh:3x4", part, chunks=chunks), GB).time
        for part, chunks in zip(mixed(12, *parts).parts, (4, 1), strict=True)
    ]
    assert max(alone) <= together < sum(alone)


def test_parts_that_are_far_apart_do_not_delay_each_other():
    """Two rows of a mesh, each with a broadcast along it: 3 links of 4 chunks each, pipelined."""
    rows = [(0, 1, 2, 3), (8, 9, 10, 11)]
    together = mixed(12, ("broadcast", rows[0]), ("reduce", rows[1]))
    times = [simulate(tacos("mesh:3x4", what, chunks=4), GB).time for what in (together, *together.parts)]
    assert times[0] <= max(times[1:]) * (1 + 1e-9)


def test_chunks_are_of_one_size_in_all_parts():
    """A broadcast moves M, a shard of an allgather of 4 is M/4."""
    schedule = tacos("mesh:3x4", mixed(12, ("broadcast", CORNERS), ("allgather", CROSS)), chunks=3)
    assert set(schedule.chunks.size.tolist()) == {schedule.chunks.denominator // 12}


def test_a_part_may_have_uneven_shards():
    parts = [
        collective("broadcast", 6, groups=[[0, 1]]),
        collective("allgather", 6, groups=[[2, 3]], shards=[1, 2]),
    ]
    verify(tacos("mesh:2x3", concurrent(parts)))


@pytest.mark.parametrize("kind", ["allgather", "all-to-all", "broadcast"])
def test_parts_whose_ticks_have_no_common_one_in_64_bits(kind):
    """Bandwidths without a common divisor: each part rounds to a tick of its own, all then to another."""
    what = mixed(8, (kind, (0, 1, 4)), ("allreduce", (2, 3, 5, 6, 7)))
    odd = "mesh:2x4?bandwidth=123456789GB/s,7GB/s&alpha=0.5us,0.7us"
    schedule = tacos(odd, what, size=Fraction(10**13), chunks=5)
    verify(schedule)
    time = simulate(schedule, schedule.size).time
    parts = [tacos(odd, part, size=Fraction(10**13), chunks=5) for part in what.parts]
    assert time <= sum(simulate(part, part.size).time for part in parts) * (1 + 1e-6)
