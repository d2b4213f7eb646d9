"""Programs as schedules, which the verifier checks; numbers of transfers are counted by hand."""

from fractions import Fraction

import numpy as np
import pytest

from tests.schedules.programs.by_hand import (
    doubling_allreduce,
    pairs_allreduce,
    ring_allgather,
    ring_allreduce,
    straight,
)
from tests.schedules.programs.msccl.test_reader import sample
from tutti.experiments.registry import METHODS
from tutti.schedules.collective import KINDS, collective
from tutti.schedules.method import NoOptions, Problem
from tutti.schedules.programs.interpreter import judge
from tutti.schedules.programs.lowering import lower
from tutti.schedules.programs.msccl.files import MscclOptions, read, to_xml
from tutti.schedules.programs.msccl.reader import from_xml
from tutti.schedules.programs.program import NOWHERE, Address, Buffer, Instruction, Op, Program
from tutti.schedules.programs.raising import implied_network, to_schedule
from tutti.schedules.schedule import Clock
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import VerificationError, verify
from tutti.topologies.errors import InputError, Unsupported
from tutti.topologies.text import parse_topology

IN, OUT, SCRATCH = Buffer
SEND = Instruction(Op.SEND, Address(IN, 0), to=1)
RECV = Instruction(Op.RECV, NOWHERE, Address(OUT, 0), origin=0)
HALF = Instruction(Op.COPY, Address(IN, 0), Address(OUT, 0))


def transfers(schedule):
    """Return (source, target, first chunk, count, reduce) of each row."""
    count = np.ones(len(schedule), int) if schedule.count is None else schedule.count
    reduce = np.zeros(len(schedule), bool) if schedule.reduce is None else schedule.reduce
    columns = (schedule.source, schedule.target, schedule.chunk, count, reduce)
    return [tuple(int(value) for value in row) for row in zip(*columns, strict=True)]


def test_a_ring_becomes_a_flow_over_its_links():
    program = ring_allgather(4)
    schedule = to_schedule(program, implied_network(program))
    assert schedule.clock is Clock.FLOW
    # Each shard goes three hops round the ring.
    assert sorted(transfers(schedule)) == sorted(
        ((owner + hop) % 4, (owner + hop + 1) % 4, owner, 1, 0) for owner in range(4) for hop in range(3)
    )
    assert schedule.topology.num_links == 8


def test_what_waits_in_scratch_is_added_when_it_arrives():
    program = pairs_allreduce(4)
    schedule = to_schedule(program, implied_network(program))
    assert schedule.clock is Clock.FLOW
    pairs = [(a, b) for a in range(4) for b in range(4) if a != b]
    assert sorted(transfers(schedule)) == sorted(
        [(a, b, b, 1, 1) for a, b in pairs] + [(a, b, a, 1, 0) for a, b in pairs]
    )


def test_a_sum_that_is_passed_on_without_being_stored_is_a_reduction():
    schedule = to_schedule(ring_allreduce(4), parse_topology("uniring:4"))
    assert (len(schedule), int(schedule.reduce.sum())) == (24, 12)


def test_ranks_that_exchange_their_values_do_so_in_steps():
    program = doubling_allreduce(8)
    schedule = to_schedule(program, implied_network(program))
    assert schedule.clock is Clock.STEP
    # In each of three rounds, each of eight ranks sends its eight parts, each of one item.
    assert np.bincount(schedule.order).tolist() == [0, 64, 64, 64]


@pytest.mark.parametrize("kind", [str(kind) for kind in KINDS if kind != "allreduce"])
def test_every_collective(kind):
    program = straight(kind)
    schedule = to_schedule(program, parse_topology("complete:3"))
    moved = {"broadcast": 2, "reduce": 2, "gather": 2, "scatter": 2}.get(kind, 6)
    assert len(schedule) == moved
    assert schedule.collective == program.collective


def test_a_message_of_several_units_is_one_row():
    program = Program.of(
        collective("broadcast", 2), 6, [[[SEND._replace(length=6)]], [[RECV._replace(length=6)]]]
    )
    assert transfers(to_schedule(program, implied_network(program))) == [(0, 1, 0, 6, 0)]


def test_messages_take_routes_past_switches():
    program = straight("all-to-all")
    schedule = to_schedule(program, parse_topology("dgx_h100:1?ranks=3"))
    hops = np.diff(schedule.route_table.offsets)[schedule.route]
    assert (hops == 2).all()


def test_the_implied_network_has_the_rates_that_are_given():
    topology = implied_network(ring_allgather(3), Fraction(10**9), Fraction(1, 10**6))
    assert topology.link(0).bandwidth == 10**9
    assert topology.link(0).alpha == Fraction(1, 10**6)


def test_ranks_that_exchange_nothing_are_named():
    program = Program.of(collective("broadcast", 3), 1, [[[SEND]], [[RECV]], []], name="hand")
    with pytest.raises(InputError, match="hand is not strongly connected: rank 0 can't reach 2"):
        implied_network(program)


def test_a_rank_that_only_passes_a_message_on_is_a_place_on_its_route():
    # Rank 1 adds nothing to the data that rank 0 sends to rank 2 through rank 1's scratch.
    add = Instruction(Op.RECV_REDUCE_COPY, Address(OUT, 0), Address(OUT, 0))
    program = Program.of(
        collective("reduce", 3, root=2),
        1,
        [
            [[SEND]],
            [
                [RECV._replace(target=Address(SCRATCH, 0))],
                [SEND._replace(source=Address(SCRATCH, 0), to=2, waits=((0, 0),)), SEND._replace(to=2)],
            ],
            [[HALF, add._replace(origin=1), add._replace(origin=1)]],
        ],
    )
    schedule = to_schedule(program, implied_network(program))
    assert sorted(transfers(schedule)) == [(0, 2, 0, 1, 1), (1, 2, 0, 1, 1)]
    assert sorted(np.diff(schedule.route_table.offsets)[schedule.route].tolist()) == [1, 2]


def two(first, second, kind="broadcast", **more):
    """Return a program of two ranks."""
    return Program.of(collective(kind, 2), 2, [first, second], name="hand", **more)


TWO = parse_topology("ring:2")


@pytest.mark.parametrize(
    ("program", "error", "fault"),
    [
        (two([[SEND]], [[RECV]]), VerificationError, "missing"),
        (two([[SEND._replace(source=Address(SCRATCH, 0))]], [[RECV]]), Unsupported, "reads what nothing was"),
        (
            two([[HALF, Instruction(Op.REDUCE, Address(IN, 0), Address(OUT, 0))]], []),
            Unsupported,
            "rank 0, block 0, step 1 adds different data",
        ),
        (
            two([[HALF, Instruction(Op.REDUCE, Address(IN, 0), Address(OUT, 0))]], [], "allreduce"),
            Unsupported,
            "adds a contribution twice",
        ),
        (
            two([[HALF, Instruction(Op.REDUCE, Address(IN, 1), Address(OUT, 0))]], [], "allreduce"),
            Unsupported,
            "adds different data",
        ),
        (two([[HALF._replace(to=1)]], []), Unsupported, "reads or writes another rank's memory"),
        (two([[Instruction(Op.SIGNAL, to=1)]], [[]]), Unsupported, "another rank's memory"),
        (two([[SEND]], [[]]), InputError, "no instruction receives"),
        (two([], []), VerificationError, "missing"),
        (ring_allgather(3), InputError, "ring is for 3 ranks; ring:2 has 2"),
        (two([], [], scratch=[2**21, 2**21]), InputError, "hand holds 4194310 units; at most 4194304"),
    ],
)
def test_what_is_no_schedule_says_why(program, error, fault):
    with pytest.raises(error, match=fault):
        to_schedule(program, TWO)


def test_a_rank_has_one_value_of_a_chunk():
    # Rank 0 adds rank 1's data, and then sends only its own data to rank 2.
    add = Instruction(Op.RECV_REDUCE_COPY, Address(IN, 0), Address(OUT, 0), origin=1)
    program = Program.of(
        collective("allreduce", 3),
        3,
        [
            [[add, SEND._replace(to=2)]],
            [[Instruction(Op.SEND, Address(IN, 0), to=0)]],
            [[Instruction(Op.RECV, NOWHERE, Address(SCRATCH, 0), origin=0)]],
        ],
        name="hand",
    )
    fault = r"^hand is no schedule: rank 0, block 0, step 1 sends another sum than the rank's current one"
    with pytest.raises(Unsupported, match=fault):
        to_schedule(program, parse_topology("complete:3"))


@pytest.mark.parametrize("kind", [str(kind) for kind in KINDS])
@pytest.mark.parametrize("network", ["ring:4", "dgx_h100:1?ranks=3"])
def test_a_lowered_schedule_comes_back(kind, network):
    topology = parse_topology(network)
    problem = Problem(topology, collective(kind, topology.num_ranks))
    direct = METHODS["direct"].synthesize(problem, NoOptions(), np.random.default_rng(0))
    for in_place in (False, True):
        program = lower(direct, in_place=in_place)
        assert from_xml(to_xml(program, MscclOptions(flavour="rccl")), "text") == program
        again = to_schedule(program, topology)
        verify(again)
        assert (len(again), again.collective) == (len(direct), direct.collective)


@pytest.mark.parametrize(
    ("name", "rows", "on"),
    [
        # Each of 384 chunks over 16 ranks has 15 additions and 15 copies.
        ("rccl_all-reduce-ring-simple.xml", 384 * 30, None),
        # Each of 8 ranks sends each of 7 others, on 4 channels, a part to be added and its own sums.
        ("rccl_allreduce-allpairs-8n-ll-32tb.xml", 8 * 7 * 4 * 2, "dgx_h100:1"),
        ("rccl_allreduce-allpairs-8n-simple.xml", 8 * 7 * 8 * 2, "dgx_h100:1"),
        ("rccl_alltoall-8n-512kb-7mb.xml", 8 * 7 * 4, "dgx_h100:1"),
    ],
)
def test_programs_of_others_become_schedules(name, rows, on):
    program = read(sample(name))
    judge(program, interleavings=2)
    for topology in (implied_network(program), *([parse_topology(on)] if on else [])):
        schedule = to_schedule(program, topology)
        assert (len(schedule), schedule.clock) == (rows, Clock.FLOW)
        assert simulate(schedule, Fraction(10**6)).time > 0
