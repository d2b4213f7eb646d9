"""The judge of programs: every fault by hand, and mutations against all interleavings."""

import numpy as np
import pytest

from tests.schedules.programs import mutations
from tests.schedules.programs.by_hand import doubling_allreduce
from tests.schedules.programs.oracle import Explorer
from tests.schedules.programs.test_program import ring
from tutti.schedules.collective import collective
from tutti.schedules.programs import interpreter
from tutti.schedules.programs.interpreter import ProgramError, all_interleavings, check_depth, judge
from tutti.schedules.programs.program import Address, Buffer, Instruction, Op, Program
from tutti.topologies.errors import InputError

IN, OUT, SCRATCH = Buffer


def one(op, source=(), target=(), **rest):
    return Instruction(op, Address(*source), Address(*target), **rest)


def broadcast(sender, receiver, units=1, scratch=2):
    return Program.of(collective("broadcast", 2), units, [sender, receiver], scratch=[scratch] * 2)


OWN = one(Op.COPY, (IN, 0), (OUT, 0))
SEND = one(Op.SEND, (IN, 0), to=1)
RECV = one(Op.RECV, (), (OUT, 0), origin=0)
SIGNAL, WAIT = one(Op.SIGNAL, to=1), one(Op.WAIT, origin=0)
TO_SCRATCH = one(Op.COPY, (OUT, 0), (SCRATCH, 0))
AFTER_RECV = {"waits": ((0, 0),)}


def test_a_right_program_is_right():
    judgement = judge(broadcast([[OWN, SEND]], [[RECV]]))
    assert (judgement.least_depth, judgement.interleavings, judgement.races_checked) == (1, 20, True)


FAULTS = {
    "message left": (
        [[OWN, SEND, SEND]], [[RECV]],
        "rank 0, block 0, step 2 sends to rank 1 on channel 0, where no step takes it",
    ),
    "signal left": (
        [[OWN, SEND, SIGNAL]], [[RECV]],
        "rank 0, block 0, step 2 signals rank 1 on channel 0, where no step takes it",
    ),
    "no message": (
        [[OWN]], [[RECV]],
        "deadlock: rank 1, block 0, step 0 waits for a message from rank 0 on channel 0, which never comes",
    ),
    "no signal": (
        [[OWN, SEND]], [[WAIT, RECV]],
        "deadlock: rank 1, block 0, step 0 waits for a signal from rank 0 on channel 0, which never comes",
    ),
    "waits for itself": (
        [[OWN, SEND]], [[RECV._replace(waits=((0, 0),))]],
        "deadlock: rank 1, block 0, step 0 waits for rank 1, block 0, step 0",
    ),
    "circle": (
        [[OWN, SEND]], [[RECV._replace(waits=((1, 0),))], [one(Op.NOP, waits=((0, 0),))]],
        "deadlock: rank 1, block 0, step 0 waits for rank 1, block 1, step 0; 2 blocks are stuck",
    ),
    "reads nothing": (
        [[OWN, SEND._replace(source=Address(SCRATCH, 1))]], [[RECV]],
        "rank 0, block 0, step 1 reads scratch 1 before anything is there",
    ),
    "adds to nothing": (
        [[OWN, one(Op.REDUCE, (IN, 0), (SCRATCH, 1)), SEND]], [[RECV]],
        "rank 0, block 0, step 1 reads scratch 1 before anything is there",
    ),
    "unmet dependency": (
        [[OWN, SEND]], [[TO_SCRATCH], [RECV]],
        "rank 1, block 0, step 0 reads output 0 before anything is there",
    ),
    "missing dependency": (
        [[OWN, SEND]], [[RECV, TO_SCRATCH], [one(Op.COPY, (SCRATCH, 0), (OUT, 0))]],
        "rank 1, block 1, step 0 reads scratch 0 and rank 1, block 0, step 1 writes it, in no certain order",
    ),
    "two writers": (
        [[OWN, SEND]], [[RECV, TO_SCRATCH], [TO_SCRATCH._replace(**AFTER_RECV)]],
        "rank 1, block 1, step 0 writes scratch 0 and rank 1, block 0, step 1 writes it, in no certain order",
    ),
    "overwritten while read": (
        [[OWN, SEND]], [[RECV, TO_SCRATCH, one(Op.COPY, (OUT, 0), (SCRATCH, 1))],
                        [one(Op.COPY, (SCRATCH, 0), (SCRATCH, 1), waits=((0, 1),)),
                         one(Op.COPY, (SCRATCH, 0), (OUT, 0))]],
        "rank 1, block 1, step 0 writes scratch 1 and rank 1, block 0, step 2 writes it, in no certain order",
    ),
    "two senders": (
        [[OWN, SEND], [SEND]], [[RECV, RECV]],
        "rank 0, block 1, step 0 and rank 0, block 0, step 1 send to rank 1 on channel 0, in no",
    ),
    "two receivers": (
        [[OWN, SEND, SEND]], [[RECV], [one(Op.RECV, (), (SCRATCH, 0), origin=0)]],
        "rank 1, block 1, step 0 and rank 1, block 0, step 0 receive from rank 0 on channel 0, in no certain",
    ),
    "nothing in the output": ([[SEND]], [[RECV]], "rank 0: output 0 is empty at the end"),
    "twice": (
        [[OWN, one(Op.REDUCE, (IN, 0), (OUT, 0)), SEND]], [[RECV]],
        "rank 0: output 0 has more than once input 0 of rank 0 (last written by rank 0, block 0, step 1)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_named(name):
    sender, receiver, fault = FAULTS[name]
    with pytest.raises(ProgramError) as error:
        judge(broadcast(sender, receiver))
    assert str(error.value).startswith(fault)
    assert "\n" not in str(error.value)


def test_a_message_is_received_in_its_length():
    sends = one(Op.SEND, (IN, 0), to=1, length=2)
    program = broadcast([[OWN._replace(length=2), sends]], [[RECV, RECV]], units=2)
    with pytest.raises(
        ProgramError, match="rank 1, block 0, step 0 receives 1 units where rank 0, block 0, step 1 sent 2"
    ):
        judge(program)


def test_a_copy_does_not_overlap_itself():
    moves = one(Op.COPY, (OUT, 0), (OUT, 1), length=2)
    with pytest.raises(ProgramError, match="rank 0, block 0, step 0 writes over a part of what it reads"):
        judge(broadcast([[moves]], [[]], units=3))


def test_a_wrong_sum_says_what_is_missing_and_what_does_not_belong():
    # Input and output share memory. Rank 1 sends its first unit twice, so unit 1 of rank 0 is x1 + y0.
    exchange = [
        [one(Op.SEND, (OUT, k * sent), to=1 - rank) for k in range(2)]
        + [one(Op.RECV_REDUCE_COPY, (OUT, k), (OUT, k), origin=1 - rank) for k in range(2)]
        for rank, sent in enumerate((1, 0))
    ]
    program = Program.of(collective("allreduce", 2), 2, [[block] for block in exchange], in_place=True)
    with pytest.raises(ProgramError) as error:
        judge(program)
    assert str(error.value) == (
        "rank 0: output 1 lacks input 1 of rank 1 and has what doesn't belong there, input 0 of rank 1 "
        "(last written by rank 0, block 0, step 3)"
    )


def test_what_is_already_there_is_not_enough():
    program = Program.of(collective("allreduce", 2), 2, [[], []], in_place=True)
    with pytest.raises(ProgramError, match="rank 0: output 0 lacks input 0 of rank 1"):
        judge(program)


@pytest.mark.parametrize(("ranks", "depth"), [(2, 1), (3, 2), (6, 2)])
def test_the_least_depth_of_a_ring_with_one_block_a_rank(ranks, depth):
    # All ranks send before any receives; from three ranks on they also forward, which needs depth 2.
    assert judge(ring(ranks)).least_depth == depth


def test_too_little_depth_is_a_deadlock_that_names_the_depth():
    with pytest.raises(ProgramError, match=r"waits for room in the FIFO to rank 1 .* depth 2 are enough"):
        judge(ring(3), depth=1)
    assert judge(ring(3), depth=2).least_depth == 2


@pytest.mark.parametrize(("ranks", "parts"), [(2, 10), (4, 68)])
def test_messages_of_several_units_take_as_many_places(ranks, parts, monkeypatch):
    # A rank sends as many units as there are ranks before it receives any; uncut, they are one message.
    # The parts are its copy, and each unit that it sends and receives in its one or two exchanges.
    program = doubling_allreduce(ranks)
    assert judge(program).least_depth == 1
    assert check_depth(program, ranks) == ranks
    with pytest.raises(ProgramError, match=f"rank 0, block 1, step 0 .* of one unit; it needs {ranks}$"):
        check_depth(program, ranks - 1)
    monkeypatch.setattr(interpreter, "LIMITS", interpreter.LIMITS._replace(parts=parts - 1))
    with pytest.raises(InputError, match=f"messages of {parts} units; at most {parts - 1} are judged"):
        check_depth(program, ranks)


def test_depth_may_order_accesses():
    # With room for one message, the second send comes after the first receive, so the signal after it does.
    sender = [OWN, SEND, SEND, one(Op.SIGNAL, to=1)]
    first = one(Op.RECV, (), (SCRATCH, 1), origin=0)
    program = broadcast([sender], [[first, RECV], [WAIT, one(Op.COPY, (SCRATCH, 1), (SCRATCH, 0))]])
    with pytest.raises(ProgramError, match="in no certain order"):
        judge(program, depth=1, interleavings=1)
    assert judge(program, depth=1, full=True).races_checked


def test_signals_order_what_is_written_into_others():
    writes = one(Op.COPY, (IN, 0), (OUT, 0), to=1)
    moves = one(Op.COPY, (OUT, 0), (SCRATCH, 0))
    assert judge(broadcast([[OWN, writes, SIGNAL]], [[WAIT, moves]])).least_depth == 0
    with pytest.raises(ProgramError, match="rank 1, block 0, step 1 reads output 0"):
        judge(broadcast([[OWN, SIGNAL, writes]], [[WAIT, moves]]))


def test_clocks_of_some_blocks_at_a_time_find_the_same(monkeypatch):
    monkeypatch.setattr("tutti.schedules.programs.races.CLOCK_BYTES", 1)
    test_depth_may_order_accesses()
    test_signals_order_what_is_written_into_others()


def test_clocks_are_not_computed_in_very_large_programs(monkeypatch):
    monkeypatch.setattr(interpreter, "LIMITS", interpreter.LIMITS._replace(clocks=1))
    waits = broadcast([[OWN, SEND]], [[RECV], [TO_SCRATCH._replace(**AFTER_RECV)]])
    assert judge(waits).races_checked  # no pair is in doubt
    signals = broadcast([[OWN, one(Op.COPY, (IN, 0), (OUT, 0), to=1), SIGNAL]], [[WAIT, TO_SCRATCH]])
    assert not judge(signals).races_checked
    assert judge(signals, races=True).races_checked
    assert not judge(waits, races=False).races_checked


def test_all_interleavings_of_a_race_are_found():
    # Both blocks of rank 1 write its output, but only one writes the right data: two endings, by hand.
    sender = [[OWN, SEND, one(Op.SEND, (IN, 1), to=1, channel=1), one(Op.COPY, (IN, 1), (OUT, 1))]]
    receiver = [
        [RECV, one(Op.COPY, (OUT, 0), (OUT, 1))],
        [one(Op.RECV, (), (OUT, 1), origin=0, channel=1)],
    ]
    assert all_interleavings(broadcast(sender, receiver, units=2)) == {
        "rank 1: output 1 lacks input 1 of rank 0 and has what doesn't belong there, input 0 of rank 0 "
        "(last written by rank 1, block 0, step 1)"
    }
    assert all_interleavings(ring(3)) == set()


def test_too_many_interleavings_are_refused():
    with pytest.raises(InputError, match="more than 10 states, too many to try them all"):
        all_interleavings(ring(4), most_states=10)
    huge = broadcast([[OWN, SEND]], [[RECV]], scratch=10**8)
    with pytest.raises(InputError, match="more than 0 states, too many to try them all"):
        all_interleavings(huge)


def test_interleavings_are_seeded():
    # Random runs alone also find the race, and the same one each time.
    program = broadcast([[OWN, SEND]], [[RECV, TO_SCRATCH], [one(Op.COPY, (SCRATCH, 0), (OUT, 0))]])
    outcomes = []
    for seed in range(100):
        try:
            outcomes.append(judge(program, interleavings=2, seed=seed, races=False).interleavings)
        except ProgramError as error:
            outcomes.append(str(error))
    assert set(outcomes) == {2, "rank 1, block 1, step 0 reads scratch 0 before anything is there"}


def test_parameters_out_of_range_are_refused():
    for wrong in ({"depth": 0}, {"interleavings": 0}):
        with pytest.raises(InputError, match="at least"):
            judge(ring(2), **wrong)


def test_huge_buffers_are_refused_before_they_are_made():
    with pytest.raises(InputError, match=r"memories of \d+ units in all; at most 268435456 fit"):
        judge(broadcast([[OWN, SEND]], [[RECV]], scratch=2**31 - 1))


def test_what_an_instruction_does_not_use_does_not_matter():
    program = broadcast([[OWN, SEND]], [[RECV]])
    code = program.code._replace(
        target_buffer=np.where(program.code.op == Op.SEND, 99, program.code.target_buffer)
    )
    assert judge(program.replace(code=code)).least_depth == 1


@pytest.mark.parametrize("base", range(len(mutations.BASES)))
def test_least_depth_against_all_interleavings(base):
    program = mutations.program_of(*mutations.BASES[base])
    depth = judge(program, interleavings=3).least_depth
    assert Explorer(program, depth).explore() is None
    if depth > 1:
        assert Explorer(program, depth - 1).explore() == "deadlock"


def test_the_judge_finds_what_all_interleavings_can_end_with():
    # For hundreds more: python -m tests.schedules.programs.mutations 1000
    found, missed = mutations.main(108)
    assert not missed
    assert {"race", "deadlock", "wrong", "still right"} <= set(found)
