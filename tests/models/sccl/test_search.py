"""SCCL's search: fewest rounds against brute force and known optima, every schedule through the verifier."""

from itertools import pairwise, product

import numpy as np
import pytest

from tests.models.sccl.cases import brute_force, instance
from tests.sweep import for_each
from tutti.models.sccl import search
from tutti.models.sccl.method import schedule_of
from tutti.models.sccl.search import Rounds, StepLimits, assigned, fewest_rounds, frontier, in_rounds
from tutti.models.time_expanded import ChunkInstance
from tutti.schedules import collective
from tutti.schedules.verify import verify
from tutti.topologies import NoSchedule
from tutti.topologies.text import parse_topology


@for_each(
    ("text", "chunks", "steps"),
    [
        ("ring:3", 1, 1),
        ("ring:3", 2, 1),
        ("ring:3", 1, 2),
        ("ring:4", 1, 2),
        ("mesh:2x2", 1, 2),
        ("mesh:3x1", 1, 2),
        ("mesh:3x1", 1, 3),
        ("mesh:4x1", 1, 3),
        ("uniring:3", 1, 2),
        ("complete:4", 1, 1),
        ("mesh:3x1?bandwidth=100GB/s", 2, 2),
    ],
)
def test_the_fewest_rounds_are_those_of_an_exhaustive_search(text, chunks, steps):
    task = instance(text, chunks)
    answer = fewest_rounds(task, steps)
    verify(schedule_of(task, answer))
    assert answer.gap == 0
    assert answer.ticks == brute_force(task, steps, answer.ticks + 1)


@pytest.mark.parametrize("solver", ["cp-sat", "highs", "scip"])
@for_each(
    ("text", "steps", "rounds"),
    [
        ("hypercube:3", 3, 3),  # ../shared/reference/peers_measured.csv: 3 and 4 steps by SCCL
        ("mesh:3x3", 4, 4),
        ("torus:3x3", 2, 2),
        ("ring:5", 2, 2),
    ],
)
def test_every_back_end_finds_the_published_optimum_of_fewest_steps(solver, text, steps, rounds):
    task = instance(text)
    assert task.least_steps == steps
    answer = fewest_rounds(task, steps, StepLimits(solver, start=False))
    assert (answer.ticks, answer.proven) == (rounds, rounds)
    verify(schedule_of(task, answer))


@pytest.mark.parametrize("solver", ["cp-sat", "highs", "scip"])
@pytest.mark.parametrize("start", [True, False])
def test_given_rounds_are_met_or_proven_impossible(solver, start):
    """A broadcast of 2 chunks along a line of 3 in 2 steps: in each both cross a link, so 4 rounds."""
    task, limits = instance("mesh:3x1", 2, "broadcast"), StepLimits(solver, start=start)
    assert max(task.least_rounds, 2) == 2  # no lower bound knows it
    for rounds in (2, 3):
        with pytest.raises(
            NoSchedule, match=f"in 2 steps and {rounds} rounds on mesh:3x1: {solver} has proven"
        ):
            in_rounds(task, 2, rounds, limits)
    answer = in_rounds(task, 2, 4, limits)
    verify(schedule_of(task, answer))
    assert answer.ticks == brute_force(task, 2, 5) == 4


@pytest.mark.parametrize(
    ("text", "chunks"),
    [("ring:4", 1), ("ring:4", 3), ("mesh:2x3", 2), ("gen_kautz:2,5", 3), ("mesh:3x3?drop_nodes=8", 2)],
)
def test_a_start_changes_nothing_but_the_time(text, chunks):
    task = instance(text, chunks)
    begun, alone = (
        fewest_rounds(task, task.least_steps, StepLimits(seconds=20, start=s)) for s in (True, False)
    )
    verify(schedule_of(task, begun))
    assert begun.gap == 0
    assert alone.gap == 0
    assert begun.ticks == alone.ticks


def test_without_time_the_start_is_the_answer_with_what_is_proven():
    """A hypercube of 16 needs 4 rounds for 15 chunks over 4 links; by distance, 4, 6, 4 and 1, it takes 5."""
    task = instance("hypercube:4")
    answer = fewest_rounds(task, 4, StepLimits(seconds=0.01))
    verify(schedule_of(task, answer))
    assert (answer.ticks, answer.proven) == (5, 4)
    assert answer.gap == 0.2


def test_assigned_loads_are_least_of_all_assignments():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        weights = rng.integers(1, 3, rng.integers(1, 4)).tolist()
        choices = [
            np.flatnonzero(rng.random(len(weights)) < 0.6).tolist() or [int(rng.integers(len(weights)))]
            for _ in range(rng.integers(1, 7))
        ]

        def rounds(chosen, weights=weights):
            return max(-(-chosen.count(link) // weight) for link, weight in enumerate(weights))

        found = assigned(choices, weights)
        assert all(link in allowed for link, allowed in zip(found, choices, strict=True)), f"seed {seed}"
        assert rounds(found) == min(rounds(list(each)) for each in product(*choices)), f"seed {seed}"


def test_the_frontier_trades_steps_for_rounds():
    task = instance("mesh:4x1", 1)
    points = [(p.steps, p.answer.ticks) for p in frontier(task, fewest_rounds)]
    assert points[0][0] == 3
    assert all(one[0] < two[0] and one[1] > two[1] for one, two in pairwise(points))
    assert points[-1][1] >= task.least_rounds


def test_the_frontier_keeps_what_it_has_when_time_runs_out():
    task = instance("mesh:4x1", 1)

    def ask(instance, steps):
        if steps > task.least_steps:
            raise NoSchedule("none in time")
        found = fewest_rounds(instance, steps)
        return Rounds(found.rows, task.least_rounds + 2, found.proven)

    assert [point.steps for point in frontier(task, ask)] == [3]
    with pytest.raises(NoSchedule, match="none in time"):
        list(frontier(task, lambda instance, steps: ask(instance, 99)))


def test_faster_links_carry_more_chunks_a_round():
    """Two ranks over links of 50 and of 100 GB/s, 2 chunks each way: one round at 100 GB/s, two at 50."""
    slow, fast = instance("mesh:2x1", 2), instance("mesh:2x2?bandwidth=50GB/s,100GB/s", 2)
    assert fewest_rounds(slow, 1).ticks == 2
    assert sorted(set(fast.capacity.tolist())) == [1, 2]


def test_a_program_that_takes_longer_to_write_than_is_given_is_not_begun(monkeypatch):
    """4,032 shards on a 4x4x4 torus: over two minutes of writing."""
    instance = ChunkInstance(parse_topology("torus:4x4x4"), collective("all-to-all", 64), 1)
    monkeypatch.setattr(search, "build", None)
    with pytest.raises(NoSchedule, match=r"found no all-to-all of 1 chunks a shard in 6 steps on .* in 7 s"):
        fewest_rounds(instance, 6, StepLimits(seconds=7.0))
    with pytest.raises(NoSchedule, match=r"found no all-to-all .* in 6 steps and 33 rounds on .* in 7 s"):
        in_rounds(instance, 6, 33, StepLimits(seconds=7.0))
