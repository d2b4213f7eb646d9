"""The method `sccl`: every collective through the verifier, what is refused, and what is said."""

import numpy as np
import pytest

from tests.models.sccl.cases import made
from tests.schedules.useless import useless_transfers
from tests.sweep import for_each
from tutti.models.bfb import METHOD as BFB
from tutti.models.sccl.method import METHOD
from tutti.schedules import Problem, collective
from tutti.schedules.cost import step_cost
from tutti.topologies import InputError, NoSchedule, Unsupported
from tutti.topologies.text import parse_topology


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


@pytest.mark.parametrize("text", ["hypercube:5", "torus:5x5"])
def test_where_breadth_first_meets_the_bound_nothing_is_solved(text):
    """Dissertation, section 3.5: BFB is optimal on tori and hypercubes; here for whole chunks too."""
    schedule = made(text, chunks=2)
    assert schedule.stats["solver"] == "none: breadth first meets the bound"
    assert schedule.stats["solver_gap"] == 0


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce", "all-to-all"])
@for_each("text", ["ring:4", "uniring:3", "mesh:2x3", "gen_kautz:2,5"])
def test_every_collective_is_legal(kind, text):
    made(text, kind)


@pytest.mark.parametrize("kind", ["broadcast", "reduce", "scatter", "gather"])
def test_rooted_collectives_are_legal(kind):
    made("mesh:2x3", kind, chunks=2, details={"root": 4})


@for_each("kind", ["allgather", "reduce-scatter", "allreduce", "reduce"])
@for_each(
    ("text", "groups"),
    [
        ("mesh:2x3", [[0, 1, 2], [3, 4, 5]]),
        ("mesh:2x3", [[0, 2], [1, 3]]),
        ("ring:4", [[0, 1, 2]]),
    ],
)
def test_groups_are_legal(kind, text, groups):
    """Backwards nothing is added that a rank outside the group never had."""
    details = {"root": 0} if kind == "reduce" else {}
    made(text, kind, details={"groups": groups, **details})


@for_each("kind", ["allgather", "gather", "scatter", "all-to-all"])
@for_each("groups", [None, [[0, 2], [1, 3]], [[0, 1, 2]]])
@for_each("text", ["ring:4", "mesh:2x3"])
def test_every_transfer_serves_a_rank_that_must_have_the_chunk(text, groups, kind):
    details = {"root": 0} if kind in {"gather", "scatter"} else {}
    assert not useless_transfers(made(text, kind, 2**20, details={"groups": groups, **details}))


def test_the_size_chooses_between_steps_and_rounds():
    """The fewest steps are the fastest at one byte."""
    small = made("mesh:4x1", size=1)
    assert small.stats["frontier"][0][0] == small.order.max() == 3


def test_without_the_frontier_there_are_the_fewest_steps():
    """Larger numbers of steps may be faster at a large size, but are not tried."""
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
        ("dgx_a100:1", "allgather", {}, "sccl needs a switch-free topology; dgx_a100:1 has 1 switch"),
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


def test_what_would_not_fit_into_memory_is_refused():
    with pytest.raises(Unsupported, match=r"^sccl: 10{30} chunks a shard are too many, over 1048576 in all$"):
        made("mesh:2x2", chunks=10**30)
    with pytest.raises(NoSchedule, match=r"^sccl: 10{30} steps of 4 chunks on 8 links are 320{30} to decide"):
        made("mesh:2x2", steps=10**30)
