"""Chunk replacement as published is illegal; no transfer of ours carries what its source does not hold."""

from fractions import Fraction

import numpy as np
import pytest

from heuristics.tacos import METHOD, TacosOptions
from schedules import Chunks, Clock, Problem, Schedule, collective
from schedules.simulate import simulate
from schedules.verify import VerificationError, verify
from tests.schedules.oracle import judge
from topologies import Link, Topology
from topologies.text import parse_topology

SECOND = Fraction(1)
FOUR_BYTES = Fraction(4)
SLOW = 4
RING = [(start, link, (link - start) % 4) for start in range(3) for link in range(4)]
"""A shard goes round in three seconds: (start, link from `link` to the next rank, shard)."""


def slow_chord():
    """A one-way ring of four at 1 byte/s, and a link 0 -> 2 that takes three seconds for a byte."""
    ring = [Link(i, (i + 1) % 4, Fraction(1), Fraction(0)) for i in range(4)]
    return Topology.from_links("chord", 4, [*ring, Link(0, 2, Fraction(1, 3), Fraction(0))])


def by_hand(rows):
    what = collective("allgather", 4)
    order, route, chunk = (np.array(column) for column in zip(*sorted(rows), strict=True))
    return Schedule(
        slow_chord(), what, Clock.TIME, Chunks.even(what), chunk, route, order, tick=SECOND, size=FOUR_BYTES
    )


def test_the_ring_alone_is_legal():
    verify(by_hand(RING))


def test_a_match_on_the_slow_link_brings_what_a_faster_one_has_brought():
    """At 0 all that rank 0 can send is its own shard; at 2 the ring has brought that."""
    with pytest.raises(VerificationError, match="delivered twice"):
        verify(by_hand([*RING, (0, SLOW, 0)]))


def test_the_published_replacement_sends_what_is_not_there_yet():
    """At 2, rank 2 lacks shard 3 alone, which rank 0 has since 1; but the transfer left at 0."""
    replaced = [*(row for row in RING if row != (2, 1, 3)), (0, SLOW, 3)]
    with pytest.raises(VerificationError, match="sent before") as error:
        verify(by_hand(replaced))
    assert replaced[-1] == (0, SLOW, 3)
    row = by_hand(replaced)
    assert (int(row.chunk[error.value.row]), int(row.route[error.value.row])) == (3, SLOW)
    assert judge(row) == (error.value.row, "before")


@pytest.mark.parametrize("pick", ["scarcest", "uniform", "maximum"])
def test_ours_leaves_the_slow_link_free_and_ends_as_early(pick):
    """The faster link brings all three shards in the three seconds that the slow one takes for one."""
    problem = Problem(slow_chord(), collective("allgather", 4), FOUR_BYTES)
    options = TacosOptions(pick=pick, guide="nothing")
    schedule = METHOD.synthesize(problem, options, np.random.default_rng(0))
    verify(schedule)
    assert SLOW not in schedule.route
    assert simulate(schedule, FOUR_BYTES).time == simulate(by_hand(RING), FOUR_BYTES).time == 3


@pytest.mark.parametrize("pick", ["scarcest", "rarest", "maximum", "uniform", "paper"])
@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "mesh:3x3?bandwidth=100GB/s,10GB/s&alpha=1us",
        "torus:3x3?bandwidth=50GB/s,35GB/s&alpha=0.1us",
        "dragonfly:3x4?bandwidth=400GB/s,30GB/s",
    ],
)
def test_whatever_leaves_is_there_by_the_slow_oracle(text, pick, wait):
    topology = parse_topology(text)
    problem = Problem(topology, collective("allgather", topology.num_ranks), Fraction(10**8))
    options = TacosOptions(pick=pick, wait=wait, guide="nothing")
    assert judge(METHOD.synthesize(problem, options, np.random.default_rng(1))) is None
