"""SCCL: fewest rounds against brute force and known optima, every schedule through the verifier."""

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest

from models.bfb import METHOD as BFB
from models.sccl import Answer, Instance, Limits, fewest_rounds, frontier, in_rounds, program
from models.sccl.breadth_first import assigned
from models.sccl.method import METHOD, schedule_of
from models.sccl.program import build, crossings
from schedules import Problem, collective
from schedules.cost import step_cost
from schedules.verify import verify
from topologies import InputError, NoSchedule, Unsupported
from topologies.text import parse_topology


def instance(text, chunks=1, kind="allgather", **details):
    topology = parse_topology(text)
    return Instance(topology, collective(kind, topology.num_ranks, **details), chunks)


def made(text, kind="allgather", size=None, details=None, **options):
    topology = parse_topology(text)
    what = collective(kind, topology.num_ranks, **(details or {}))
    problem, chosen = (
        Problem(topology, what, None if size is None else Fraction(size)),
        METHOD.options(**options),
    )
    METHOD.supports(problem, chosen)
    schedule = METHOD.synthesize(problem, chosen, np.random.default_rng(0))
    verify(schedule)
    return schedule


def brute_force(task, steps, most):
    """The fewest rounds by search over states (who has which chunk), step by step; for tiny networks."""
    ends = list(zip(task.topology.source.tolist(), task.topology.target.tolist(), strict=True))
    begin, goal = (
        frozenset((c, n) for c, item in enumerate(task.item) for n in np.flatnonzero(table[item]))
        for table in (task.holders, task.wanters)
    )
    reached = {begin: 0}
    for _ in range(steps):
        following = {}
        for state, rounds in reached.items():
            for width in range(1, most - rounds + 1):
                for after in outcomes(state, ends, task, width):
                    if following.get(after, most + 1) > rounds + width:
                        following[after] = rounds + width
        reached = following
    return min((rounds for state, rounds in reached.items() if goal <= state), default=None)


def outcomes(state, ends, task, width):
    """All states after one step in which every link carries as much as it can of what its end lacks."""
    choices = []
    for e, (a, b) in enumerate(ends):
        useful = [c for c in range(len(task.item)) if (c, a) in state and (c, b) not in state]
        size = min(len(useful), width * int(task.capacity[e]))
        choices.append([frozenset((c, b) for c in some) for some in subsets(useful, size)])
    return {state.union(*together) for together in product(*choices)}


def subsets(values, size):
    if size == 0:
        return [()]
    return [(v, *rest) for i, v in enumerate(values) for rest in subsets(values[i + 1 :], size - 1)]


@pytest.mark.parametrize(
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
    assert answer.optimal
    assert answer.rounds == brute_force(task, steps, answer.rounds + 1)


@pytest.mark.parametrize("solver", ["cp-sat", "highs", "scip"])
@pytest.mark.parametrize(
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
    answer = fewest_rounds(task, steps, Limits(solver, start=False))
    assert (answer.rounds, answer.proven) == (rounds, rounds)
    verify(schedule_of(task, answer))


@pytest.mark.parametrize("solver", ["cp-sat", "highs", "scip"])
@pytest.mark.parametrize("start", [True, False])
def test_given_rounds_are_met_or_proven_impossible(solver, start):
    """A broadcast of 2 chunks along a line of 3 in 2 steps: in each both cross a link, so 4 rounds."""
    task, limits = instance("mesh:3x1", 2, "broadcast"), Limits(solver, start=start)
    assert max(task.least_rounds, 2) == 2  # no lower bound knows it
    for rounds in (2, 3):
        with pytest.raises(
            NoSchedule, match=f"in 2 steps and {rounds} rounds on mesh:3x1: {solver} has proven"
        ):
            in_rounds(task, 2, rounds, limits)
    answer = in_rounds(task, 2, 4, limits)
    verify(schedule_of(task, answer))
    assert answer.rounds == brute_force(task, 2, 5) == 4


@pytest.mark.parametrize(
    ("text", "chunks", "steps", "rounds", "why"),
    [
        ("hypercube:3", 2, 3, 4, "the lower bounds are 5"),  # 14 chunks over 3 links
        ("ring:5", 1, 3, 2, "each step has one at least"),
        ("ring:5", 1, 1, 1, "a chunk must go over 2 links"),
    ],
)
def test_rounds_below_the_lower_bounds_are_refused_with_the_bound(text, chunks, steps, rounds, why):
    with pytest.raises(NoSchedule, match=why):
        made(text, chunks=chunks, steps=steps, rounds=rounds)


def test_rounds_undecided_in_time_are_no_proof():
    with pytest.raises(NoSchedule, match=r"15 rounds on torus:4x4 in 0.01 s, nor that there is none"):
        made("torus:4x4", chunks=4, steps=4, rounds=15, time_limit="10ms", start=False)


@pytest.mark.parametrize("text", ["hypercube:2", "torus:3x3", "complete:5"])
def test_as_many_chunks_as_links_reach_the_bandwidth_of_bfb(text):
    """BFB is bandwidth-optimal there and has the fewest steps; with d chunks SCCL finds its T_L and T_B."""
    topology = parse_topology(text)
    problem = Problem(topology, collective("allgather", topology.num_ranks))
    expected = step_cost(BFB.synthesize(problem, BFB.options(), np.random.default_rng(0)))
    cost = step_cost(made(text, chunks=topology.degree))
    assert (cost.tl_steps, cost.tb) == (expected.tl_steps, expected.tb)


@pytest.mark.parametrize("chunks", [1, 2, 3])
@pytest.mark.parametrize("text", ["ring:4", "mesh:2x3", "gen_kautz:2,5", "mesh:3x3?drop_nodes=8"])
def test_a_start_changes_nothing_but_the_time(text, chunks):
    task = instance(text, chunks)
    begun, alone = (fewest_rounds(task, task.least_steps, Limits(seconds=20, start=s)) for s in (True, False))
    verify(schedule_of(task, begun))
    assert begun.optimal
    assert alone.optimal
    assert begun.rounds == alone.rounds


def test_without_time_the_start_is_the_answer_with_what_is_proven():
    """On a hypercube of 16, 15 chunks over 4 links need 4 rounds; by distance, 4, 6, 4 and 1, they take 5."""
    task = instance("hypercube:4")
    answer = fewest_rounds(task, 4, Limits(seconds=0.01))
    verify(schedule_of(task, answer))
    assert (answer.rounds, answer.proven) == (5, 4)
    assert answer.stats["solver_gap"] == 0.2


@pytest.mark.parametrize("seed", range(30))
def test_assigned_loads_are_least_of_all_assignments(seed):
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 3, rng.integers(1, 4)).tolist()
    choices = [
        np.flatnonzero(rng.random(len(weights)) < 0.6).tolist() or [int(rng.integers(len(weights)))]
        for _ in range(rng.integers(1, 7))
    ]

    def rounds(chosen):
        return max(-(-chosen.count(place) // weight) for place, weight in enumerate(weights))

    found = assigned(choices, weights)
    assert all(place in allowed for place, allowed in zip(found, choices, strict=True))
    assert rounds(found) == min(rounds(list(each)) for each in product(*choices))


@pytest.mark.parametrize("text", ["hypercube:5", "torus:5x5"])
def test_where_breadth_first_meets_the_bound_nothing_is_solved(text):
    """Dissertation, section 3.5: BFB is optimal on tori and hypercubes; here for whole chunks too."""
    schedule = made(text, chunks=2)
    assert schedule.stats["solver"] == "none: breadth first meets the bound"
    assert schedule.stats["solver_gap"] == 0


def test_the_frontier_trades_steps_for_rounds():
    task = instance("mesh:4x1", 1)
    points = [(p.answer.steps, p.answer.rounds) for p in frontier(task, fewest_rounds)]
    assert points[0][0] == 3
    assert all(one[0] < two[0] and one[1] > two[1] for one, two in pairwise(points))
    assert points[-1][1] >= task.least_rounds


def test_the_frontier_keeps_what_it_has_when_time_runs_out():
    task = instance("mesh:4x1", 1)

    def ask(instance, steps):
        if steps > task.least_steps:
            raise NoSchedule("none in time")
        found = fewest_rounds(instance, steps)
        return Answer(steps, task.least_rounds + 2, found.proven, found.rows, {})

    assert [point.answer.steps for point in frontier(task, ask)] == [3]
    with pytest.raises(NoSchedule, match="none in time"):
        list(frontier(task, lambda instance, steps: ask(instance, 99)))


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce", "all-to-all"])
@pytest.mark.parametrize("text", ["ring:4", "uniring:3", "mesh:2x3", "gen_kautz:2,5"])
def test_every_collective_is_legal(kind, text):
    made(text, kind)


@pytest.mark.parametrize("kind", ["broadcast", "reduce", "scatter", "gather"])
def test_rooted_collectives_are_legal(kind):
    made("mesh:2x3", kind, chunks=2, details={"root": 4})


def test_groups_are_legal():
    made("mesh:2x3", "allgather", details={"groups": [[0, 1, 2], [3, 4, 5]]})


def test_faster_links_carry_more_chunks_a_round():
    """Two ranks over links of 50 and of 100 GB/s, 2 chunks each way: one round at 100 GB/s, two at 50."""
    slow, fast = instance("mesh:2x1", 2), instance("mesh:2x2?bandwidth=50GB/s,100GB/s", 2)
    assert fewest_rounds(slow, 1).rounds == 2
    assert sorted(set(fast.capacity.tolist())) == [1, 2]


def test_the_size_chooses_between_steps_and_rounds():
    """At one byte the fewest steps are the fastest."""
    small = made("mesh:4x1", size=1)
    assert small.stats["frontier"][0][0] == small.order.max() == 3


def test_without_the_frontier_there_are_the_fewest_steps():
    """At a large size more steps may be faster, and are not looked at."""
    schedule = made("mesh:4x1", chunks=3, size=10**9, frontier=False)
    assert [steps for steps, _, _ in schedule.stats["frontier"]] == [3]
    assert not METHOD.size_dependent(None, METHOD.options(frontier=False))


def test_fewer_steps_than_the_longest_way_are_impossible():
    with pytest.raises(
        NoSchedule, match=r"^sccl: no allgather of 1 chunks a shard in 1 steps on ring:5: .* over 2 links"
    ):
        made("ring:5", steps=1)


@pytest.mark.parametrize(
    ("text", "kind", "details", "message"),
    [
        ("dgx_a100:1", "allgather", {}, "sccl needs a switch-free topology; dgx_a100:1 has 1 switch$"),
        ("ring:4", "allgather", {"shards": [1, 2, 3, 4]}, "sccl needs shards of one size"),
        ("mesh:2x2?bandwidth=50GB/s,75GB/s", "allgather", {}, "sccl needs bandwidths that are multiples"),
    ],
)
def test_what_rounds_can_not_count_is_not_supported(text, kind, details, message):
    with pytest.raises(Unsupported, match=message):
        made(text, kind, details=details)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunks": 0}, "sccl option chunks is 0; it must be an integer of at least 1"),
        ({"steps": -1}, "sccl option steps is -1; it must be an integer of at least 0"),
        ({"rounds": -1}, "sccl option rounds is -1; it must be an integer of at least 0"),
        ({"rounds": 3}, "sccl option rounds is 3 without steps; give both, or steps alone"),
        ({"time_limit": "0s"}, "sccl option time_limit is '0s'; it must be positive"),
        ({"frontier": 0}, "sccl option frontier is 0; it must be true or false"),
        ({"start": "bfb"}, "sccl option start is 'bfb'; it must be true or false"),
        ({"solver": "z3"}, "z3"),
    ],
)
def test_bad_options_are_one_line(options, message):
    with pytest.raises(InputError, match=message):
        METHOD.options(**options)


def test_no_schedule_in_time_says_so():
    with pytest.raises(
        NoSchedule, match=r"found no allgather of 4 chunks a shard in 4 steps on torus:4x4 in 0.01 s"
    ):
        made("torus:4x4", chunks=4, steps=4, time_limit="10ms", start=False)


def test_a_program_that_takes_longer_to_write_than_is_given_is_not_begun(monkeypatch):
    """4,032 shards on a 4x4x4 torus: over two minutes of writing."""
    instance = Instance(parse_topology("torus:4x4x4"), collective("all-to-all", 64), 1)
    monkeypatch.setattr(program, "build", None)
    with pytest.raises(NoSchedule, match=r"found no all-to-all of 1 chunks a shard in 6 steps on .* in 7 s"):
        fewest_rounds(instance, 6, Limits(seconds=7.0))
    with pytest.raises(NoSchedule, match=r"found no all-to-all .* in 6 steps and 33 rounds on .* in 7 s"):
        in_rounds(instance, 6, 33, Limits(seconds=7.0))


@pytest.mark.parametrize(
    ("text", "kind", "chunks", "more"),
    [("torus:3x3", "allgather", 2, 1), ("mesh:2x3", "all-to-all", 1, 0), ("ring:5", "broadcast", 1, 3)],
)
def test_places_are_counted_without_writing_the_program(text, kind, chunks, more):
    topology = parse_topology(text)
    rooted = {"root": 1} if kind == "broadcast" else {}
    instance = Instance(topology, collective(kind, topology.num_ranks, **rooted), chunks)
    steps = instance.least_steps + more
    assert crossings(instance, steps) == len(build(instance, steps).x)


def test_what_would_not_fit_into_memory_is_refused():
    with pytest.raises(Unsupported, match=r"^sccl: 10{30} chunks a shard are too many, over 1048576 in all$"):
        made("mesh:2x2", chunks=10**30)
    with pytest.raises(NoSchedule, match=r"^sccl: 10{30} steps of 4 chunks on 8 links are 320{30} to decide"):
        made("mesh:2x2", steps=10**30)
