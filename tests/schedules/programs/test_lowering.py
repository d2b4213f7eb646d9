"""Lowered schedules, run in plain Python and compared with the collective's definition."""

import numpy as np
import pytest

import tutti
from tests.schedules.builders import in_clock, plans
from tests.schedules.programs.runs import outcome
from tutti.schedules.collective import KINDS, collective
from tutti.schedules.cost import congestion
from tutti.schedules.programs.interpreter import judge
from tutti.schedules.programs.lowering import FormatLimits, lower, steps_of
from tutti.schedules.programs.moves import rounded
from tutti.schedules.programs.program import Op
from tutti.schedules.schedule import Chunks, Clock, Routes, Schedule
from tutti.schedules.verify import verify
from tutti.topologies import Link, Topology, parse_topology
from tutti.topologies.errors import NoSchedule, Unsupported

NETWORKS = ("torus:3x3", "dgx1", "mi250:1", "hypercube:3")
METHODS = ("ring", "bfb", "forestcoll", "tacos", "direct", "mcf", "bruck", "recursive_doubling")


def schedule(network, kind, method, **options):
    return tutti.synthesize(network, str(kind), "1MB", method=method, **options).schedule


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("network", NETWORKS)
def test_every_clock_and_collective_is_done_right(network, kind):
    done = 0
    for method in METHODS:
        try:
            made = schedule(network, kind, method)
        except (Unsupported, NoSchedule):
            continue
        for in_place in (False, True):
            program = lower(made, in_place=in_place, units=8)
            program.check()
            assert outcome(program, seed=done) == "right", (method, in_place)
            done += 1
    assert done >= 4


def test_a_ring_is_one_block_of_fused_instructions():
    # By hand: a shard has N - 1 hops; a rank sends its own, forwards N - 2, and only keeps the last.
    program = lower(schedule("uniring:5", "allgather", "ring"), in_place=True)
    assert program.num_blocks == 5
    assert len(program.waits) == 0
    ops = [Op(op) for op in program.code.op[: program.begin[1]]]
    assert ops == [Op.SEND] + [Op.RECV_COPY_SEND] * 3 + [Op.RECV]


def test_a_ring_reduce_scatter_stores_only_at_the_end():
    program = lower(schedule("uniring:5", "reduce-scatter", "ring"))
    ops = [Op(op) for op in program.code.op[: program.begin[1]]]
    assert ops == [Op.SEND] + [Op.RECV_REDUCE_SEND] * 3 + [Op.RECV_REDUCE_COPY]
    assert not program.scratch.any()


def test_routes_to_a_switch_that_no_row_takes_are_no_part_of_the_next():
    # Every link is a route here: 1 -> 2 ends at the switch, and the used route 0 -> 1 follows it.
    network = Topology.from_links("n", 2, [Link(1, 2), Link(0, 1), Link(2, 0), Link(1, 0)], num_switches=1)
    what, chunks = collective("allgather", 2), Chunks(np.arange(2, dtype=np.int32), np.ones(2, np.int64), 2)
    over, routes = np.array([1, 3], dtype=np.int32), Routes.direct(4)
    made = Schedule(network, what, Clock.FLOW, chunks, np.arange(2, dtype=np.int32), over, routes=routes)
    verify(made)
    assert outcome(lower(made)) == "right"


@pytest.mark.parametrize("shards", [[1, 2, 0], [0, 1, 2], [2, 0, 0]])
def test_items_without_chunks(shards):
    # Empty items need no chunk. Every rank sends each other rank its part of the input.
    network, owners = parse_topology("complete:3"), np.flatnonzero(shards)
    chunks = Chunks(owners.astype(np.int32), np.array(shards, np.int64)[owners], sum(shards))
    ends = list(zip(network.source.tolist(), network.target.tolist(), strict=True))
    rows = [(c, ends.index((rank, to))) for c, to in enumerate(owners) for rank in range(3) if rank != to]
    chunk, route = np.array(rows, dtype=np.int32).T
    what = collective("reduce-scatter", 3, shards=shards)
    made = Schedule(network, what, Clock.FLOW, chunks, chunk, route, reduce=np.ones(len(rows), np.bool_))
    verify(made)
    program = lower(made)
    program.check()
    assert outcome(program) == "right"


def test_where_nothing_is_sent_there_are_copies_only():
    """The root keeps all the data that it scatters."""
    what, link = collective("scatter", 2, root=0, shards=[1, 0]), np.zeros(0, dtype=np.int32)
    chunks = Chunks(np.zeros(1, dtype=np.int32), np.ones(1, np.int64), 1)
    made = Schedule(parse_topology("ring:2"), what, Clock.FLOW, chunks, link, link)
    verify(made)
    program = lower(made)
    program.check()
    assert (outcome(program), program.code.op.tolist()) == ("right", [Op.COPY])


def test_a_rank_inside_a_route_passes_on_what_it_receives():
    # On a ring of 4 opposite ranks are two hops apart, so an all-to-all forwards data.
    program = lower(schedule("uniring:4", "all-to-all", "mcf"))
    assert outcome(program) == "right"
    after = {(rank, (rank + 1) % 4) for rank in range(4)}
    sends = program.code.to != -1
    pairs = zip(program.rank[program.block_of[sends]], program.code.to[sends], strict=True)
    assert {(int(source), int(target)) for source, target in pairs} <= after


def test_instances_cut_every_chunk_and_take_channels_of_their_own():
    made = schedule("torus:3x3", "allreduce", "bfb")
    one, three = lower(made), lower(made, instances=3)
    assert three.units == 3 * one.units
    assert three.code.channel.max() == 2
    assert len(three) == 3 * len(one)
    assert outcome(three) == "right"


@pytest.mark.parametrize(
    "limits", [FormatLimits(blocks=6), FormatLimits(blocks=8, steps=20), FormatLimits(length=2)]
)
def test_limits_are_kept_where_that_is_possible(limits):
    made = schedule("torus:3x3", "allreduce", "tacos", chunks=4)
    program = lower(made, limits=limits)
    assert np.bincount(program.rank).max() <= limits.blocks
    assert steps_of(program).max() <= limits.steps
    assert program.code.length.max() <= limits.length
    assert outcome(program) == "right"


def test_messages_of_a_block_that_is_too_long_are_spread_over_channels():
    made = schedule("uniring:6", "allgather", "tacos", chunks=8)
    free, short = lower(made), lower(made, limits=FormatLimits(steps=12))
    assert steps_of(free).max() > 12
    assert steps_of(short).max() <= 12
    assert short.code.channel.max() > free.code.channel.max()
    assert outcome(short) == "right"


def test_what_is_no_whole_unit_is_rounded_and_stays_legal():
    made = schedule("mi250:1", "all-to-all", "mcf")
    coarse = rounded(made, 8)
    verify(coarse)
    assert rounded(coarse, 8) is coarse
    assert coarse.chunks.denominator == 8 * 16
    assert congestion(coarse) >= congestion(made)
    assert outcome(lower(made, units=8)) == "right"
    exact = schedule("torus:3x3", "allgather", "bfb")
    assert rounded(exact, 1024) is exact


def test_rounded_times_are_times_of_the_rounded_chunks():
    made = schedule("torus:5x6", "allreduce", "allreduce_trees")
    coarse = rounded(made, 64)
    assert coarse.clock is Clock.TIME
    assert coarse.chunks.denominator < made.chunks.denominator
    verify(coarse)
    assert judge(lower(made, units=64), interleavings=1).races_checked


def test_uneven_shards_and_groups_are_done_right():
    uneven = tutti.synthesize("ring:4", "allgather", "1MB", method="forestcoll", shards=[1, 2, 3, 4]).schedule
    assert outcome(lower(uneven)) == "right"
    groups = tutti.synthesize("torus:3x3", "allreduce", "1MB", method="tacos", groups=[[0, 1, 2], [3, 4, 5]])
    assert outcome(lower(groups.schedule)) == "right"


def test_switches_that_add_or_multicast_are_refused():
    made = schedule("dgx_h100:1", "allgather", "forestcoll")
    assert (made.source >= 8).any()
    with pytest.raises(Unsupported, match="a switch multicasts or adds"):
        lower(made)


def test_the_same_schedule_gives_the_same_program():
    made = schedule("dgx1", "allreduce", "forestcoll")
    assert lower(made) == lower(made, size="64MB")


@pytest.mark.parametrize(
    "options", [{}, {"in_place": True}, {"instances": 2, "in_place": True}, {"units": 3}]
)
@pytest.mark.parametrize("clock", list(Clock))
@pytest.mark.parametrize("name", ["allreduce in one shot", "allreduce in two shots"])
def test_copies_that_are_passed_on_stand_in_scratch(name, clock, options):
    made = in_clock(plans()[name], clock)
    program = lower(made, **options)
    program.check()
    assert outcome(program) == "right"
    assert program.scratch.any() == (name == "allreduce in two shots" or program.in_place)


def test_a_copy_that_nothing_came_to_is_read_where_its_original_is():
    # On a complete network of two, rank 0 sends its data as copy 1, and the sum returns in it: one unit of
    # memory at each rank, which is the output.
    network = parse_topology("complete:2")
    chunks = Chunks(np.array([0, 0, 1]), np.array([1, 1, 1]), 2, np.array([-1, 0, -1]))
    over, back = 0, 1
    rows = [(1, over, True), (1, back, False), (2, back, True), (2, over, False)]
    chunk, route, reduce = (np.array(column) for column in zip(*rows, strict=True))
    what = collective("allreduce", 2)
    made = Schedule(network, what, Clock.FLOW, chunks, chunk, route, reduce=reduce)
    verify(made)
    program = lower(made)
    assert outcome(program) == "right"
    assert not program.scratch.any()


@pytest.mark.parametrize("in_place", [False, True])
def test_instructions_are_rather_apart_than_fifos_longer(in_place):
    # Pairs exchange, then other pairs. If instructions were fused across steps, FIFOs would exceed 8.
    schedule = tutti.synthesize(
        "hypercube:3", "allreduce", method="one_shot_allreduce", hub_radius=0
    ).schedule
    assert outcome(lower(schedule, in_place=in_place, units=4), depth=2) == "right"
