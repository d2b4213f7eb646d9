"""The event loop and its rules: against a twin on Python's sets, and every transfer against a slow oracle."""

from fractions import Fraction
from itertools import pairwise, product

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
    rules = product(["uniform", "rarest", "scarcest", "paper"], [(False, False), (True, False), (True, True)])
    for (pick, (wait, replace)), seed in product(rules, [0, 2**64 - 1]):
        expected = Twin(network, owner.tolist(), pick, wait, seed, replace).run()
        assert sent(network, owner, pick, wait, replace, seed) == expected, (pick, wait, replace, seed)


def sent(network, owner, pick, wait, replace, seed):
    made = matching.synthesize(network, owner, pick, wait, replace, np.uint64(seed))
    return list(zip(*(column.tolist() for column in made), strict=True))


def uneven(seed):
    """A one-way ring with chords, each link of one of four costs."""
    rng = np.random.default_rng(seed)
    ranks = int(rng.integers(3, 8))
    ends = {(i, (i + 1) % ranks) for i in range(ranks)}
    ends |= {(int(a), int(b)) for a, b in rng.integers(0, ranks, size=(3 * ranks, 2)) if a != b}
    links = [Link(a, b, Fraction(1, int(rng.choice([1, 2, 3, 7]))), Fraction(0)) for a, b in sorted(ends)]
    return Topology.from_links(f"uneven {seed}", ranks, links)


@pytest.mark.parametrize("pick", ["scarcest", "rarest", "uniform", "paper"])
def test_a_replaced_slot_carries_what_its_source_held_when_it_began(pick):
    """The guard, on the twin's record of each replacement, by the times at which nodes got chunks."""
    found = dropped = 0
    for seed in range(30):
        topology = uneven(seed)
        network, _ = time_expanded(topology, Fraction(1), 10**6)
        owner = np.repeat(np.arange(topology.num_ranks), 1 + seed % 3)
        twin = Twin(network, owner.tolist(), pick, False, seed, replace=True)
        rows = twin.run()
        assert sent(network, owner, pick, False, True, seed) == rows
        there = {(node, chunk): 0 for chunk, node in enumerate(owner.tolist())}
        there |= {(twin.links[link][1], chunk): start + twin.lasts(link) for chunk, link, start in rows}
        assert len(there) == len(owner) * topology.num_ranks == len(owner) + len(rows)
        assert all(there[twin.links[link][0], chunk] <= start for chunk, link, start in rows)
        for time, idle, other, chunk, new in twin.replaced:
            assert there[twin.links[idle][0], chunk] <= time  # the idle link could bring the chunk
            assert twin.links[idle][1] == twin.links[other][1]
            assert idle != other
            starts = [start for _, link, start in rows if link == other and start <= time]
            if new is not None:  # the slot stays, unless it is dropped later
                gone = any(o == other and n is None and t >= time for t, _, o, _, n in twin.replaced)
                assert gone or time < starts[-1] + twin.lasts(other)
            found, dropped = found + 1, dropped + (new is None)
        busy = sorted((link, start, start + twin.lasts(link)) for _, link, start in rows)
        assert all(a[0] != b[0] or a[2] <= b[1] for a, b in pairwise(busy))
    assert found > dropped > 0


def figure_12b():
    """NPUs 1, 2, 3 as 0, 1, 2: chunk 1 is at NPU 1, chunks 2 and 3 at NPU 3; 3 to 2 takes two seconds."""
    ends = [(0, 1, 1), (2, 1, 2), (2, 0, 1), (1, 2, 1)]
    links = [Link(a, b, Fraction(1, seconds), Fraction(0)) for a, b, seconds in ends]
    network, tick = time_expanded(Topology.from_links("Fig. 12b", 3, links), SECOND, 100)
    return network, np.array([0, 2, 2]), int(1 / tick)


def test_figure_12b_of_2023():
    """Chunk 2, matched at 0 from NPU 3 to NPU 2, comes from NPU 1 at 1: NPU 3 sends chunk 3 instead, at 0."""
    network, owner, second = figure_12b()
    replaced = 0
    for seed in range(20):
        rows = {to: sent(network, owner, "paper", False, to, seed) for to in (False, True)}
        ends = {
            to: max(t + network.duration[network.cost[k]] for _, k, t in rows[to] if k < 2) for to in rows
        }
        assert ends[True] == 2 * second
        if ends[False] > 2 * second:
            replaced += 1
            (before, after), by_fast = (
                ([c for c, link, start in rows[to] if link == 1 and start == 0] for to in (False, True)),
                [(c, start) for c, link, start in rows[True] if link == 0],
            )
            assert {*before, *after} == {1, 2}
            assert by_fast == [(0, 0), (before[0], second)]
    assert replaced


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce", "broadcast"])
@pytest.mark.parametrize("rule", ["scarcest", "paper"])
def test_what_is_replaced_is_legal(kind, rule):
    for seed in range(8):
        topology, root = uneven(seed), 0 if kind == "broadcast" else None
        verify(tacos(topology, kind, size=2**10, seed=seed, chunk_rule=rule, chunks=2, root=root))


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("mesh:5x5?bandwidth=100GB/s,25GB/s", 1.245),
        ("torus:5x5?bandwidth=100GB/s,30GB/s", 1.445),
        ("mesh:3x3x3?bandwidth=200GB/s,100GB/s,50GB/s", 1.085),
        ("torus:4x4?bandwidth=100GB/s,50GB/s", 1.42),
    ],
)
def test_replacement_takes_a_large_part_of_the_gap(text, times):
    """The first hop of a rank's in-links bounds an allgather: (N - 1)/N M over their bandwidth."""
    topology = parse_topology(text)
    into = np.zeros(topology.num_ranks)
    np.add.at(into, topology.target, [float(b) for b in topology.bandwidth])
    bound = (1 - 1 / topology.num_ranks) * 1e9 / into.min()
    made = [simulate(tacos(text, seed=seed), Fraction(10**9)).time for seed in range(10)]
    assert np.mean([float(time) for time in made]) <= times * bound


def test_links_of_one_cost_have_nothing_to_replace():
    for text, pick in product(["torus:3x4", "gen_kautz:2,7"], ["auto", "paper", "sampled"]):
        one, other = (tacos(text, chunk_rule=pick, replace_chunks=to) for to in (True, False))
        assert all(np.array_equal(a, b) for a, b in zip(one.columns, other.columns, strict=True))


def test_a_loop_that_is_left_and_entered_again_makes_the_same_choices():
    network, owner = case("mesh:3x3?bandwidth=100GB/s,25GB/s&alpha=1us", 2)
    made = event_state.nothing_sent(network, owner, np.uint64(1))
    clock = event_loop.clock(listed=len(network.source))
    rule = matching.LinkFirst(matching.SCARCEST, True)
    steps = list(event_loop.played(rule, [made], [clock], steps=3))
    assert steps[:-1] == list(range(3, steps[-1], 3))
    rows = list(zip(*(column.tolist() for column in event_state.by_start(made)), strict=True))
    assert rows == Twin(network, owner.tolist(), "scarcest", True, 1).run()


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
    """Rank 0 can send only its own shard at 0; at 2 the ring has brought that."""
    with pytest.raises(VerificationError, match="delivered twice"):
        verify(by_hand([*RING, (0, SLOW, 0)]))


def test_replacement_without_the_guard_would_send_what_is_not_there_yet():
    """Rank 2 lacks shard 3 alone at 2, which rank 0 has since 1; but the transfer left at 0."""
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
    for pick, wait, to in product(
        ["scarcest", "rarest", "maximum", "uniform", "paper"], *[[False, True]] * 2
    ):
        made = tacos(text, size=10**8, seed=1, chunk_rule=pick, wait_for_faster_link=wait, replace_chunks=to)
        assert judge(made) is None, (pick, wait, to)
