"""The event loop and its rules: against a twin on Python's sets, and every transfer against a slow oracle."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tests.heuristics.tacos.synthesis import Twin, tacos
from tests.schedules.oracle import judge
from tutti.heuristics.tacos import event_loop, event_state, matching
from tutti.heuristics.tacos.network import time_expanded
from tutti.schedules import Chunks, Clock, Schedule, collective
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import VerificationError, verify
from tutti.topologies import Link, Topology
from tutti.topologies.text import parse_topology

SECOND = Fraction(1)
FOUR_BYTES = Fraction(4)
SLOW = 4
RING = [(start, link, (link - start) % 4) for start in range(3) for link in range(4)]
"""A shard goes round in three seconds: (start, link from `link` to the next rank, shard)."""


def case(text, chunks):
    topology = parse_topology(text)
    network, _ = time_expanded(topology, Fraction(2**20), 10**6)
    return network, np.repeat(np.arange(topology.num_ranks), chunks)


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        ("torus:3x4", 6),  # 72 chunks: two words
        ("gen_kautz:2,7", 2),
        ("complete:5", 3),
        ("mesh:3x3?bandwidth=100GB/s,25GB/s&alpha=1us", 2),
        ("torus:2x3?bandwidth=50GB/s,33GB/s&alpha=1us", 4),
    ],
)
def test_the_loop_makes_the_choices_of_its_twin(text, chunks):
    network, owner = case(text, chunks)
    for pick, wait, seed in product(
        ["uniform", "rarest", "scarcest", "paper"], [False, True], [0, 2**64 - 1]
    ):
        made = matching.synthesize(network, owner, pick, wait, np.uint64(seed))
        expected = Twin(network, owner.tolist(), pick, wait, seed).run()
        assert list(zip(*(column.tolist() for column in made), strict=True)) == expected, (pick, wait, seed)


def test_a_loop_that_is_left_and_entered_again_makes_the_same_choices():
    network, owner = case("mesh:3x3?bandwidth=100GB/s,25GB/s&alpha=1us", 2)
    made = event_state.nothing_sent(network, owner, np.uint64(1))
    clock = event_loop.clock(listed=len(network.source))
    rule = matching.LinkFirst(matching.SCARCEST, True)
    steps = list(event_loop.played(rule, [made], [clock], steps=3))
    assert steps[:-1] == list(range(3, steps[-1], 3))
    sent = list(zip(*(column.tolist() for column in event_state.by_start(made)), strict=True))
    assert sent == Twin(network, owner.tolist(), "scarcest", True, 1).run()


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
    schedule = tacos(slow_chord(), size=FOUR_BYTES, chunk_rule=pick)
    verify(schedule)
    assert SLOW not in schedule.route
    assert simulate(schedule, FOUR_BYTES).time == simulate(by_hand(RING), FOUR_BYTES).time == 3


@pytest.mark.parametrize(
    "text",
    [
        "mesh:3x3?bandwidth=100GB/s,10GB/s&alpha=1us",
        "torus:3x3?bandwidth=50GB/s,35GB/s&alpha=0.1us",
        "dragonfly:3x4?bandwidth=400GB/s,30GB/s",
    ],
)
def test_whatever_leaves_is_there_by_the_slow_oracle(text):
    for pick, wait in product(["scarcest", "rarest", "maximum", "uniform", "paper"], [False, True]):
        made = tacos(text, size=10**8, seed=1, chunk_rule=pick, wait_for_faster_link=wait)
        assert judge(made) is None, (pick, wait)
