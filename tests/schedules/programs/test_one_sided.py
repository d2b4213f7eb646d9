"""Two-sided programs as one-sided ones, judged in many interleavings and by hand."""

import numpy as np
import pytest

from tests.schedules.programs.by_hand import (
    OF_EVERY_KIND,
    doubling_allreduce,
    pairs_allreduce,
    ring_allgather,
    ring_allreduce,
)
from tutti.schedules.collective import collective
from tutti.schedules.programs.interpreter import ProgramError, all_interleavings, judge
from tutti.schedules.programs.one_sided import one_sided, with_proxies
from tutti.schedules.programs.program import NOWHERE, Address, Buffer, Instruction, Op, Program
from tutti.topologies.errors import InputError

IN, OUT, SCRATCH = Buffer


def everywhere(program):
    return np.ones((program.num_ranks,) * 2, dtype=np.bool_)


def ops(program, rank=0, block=0):
    return [one.op for one in program.blocks(rank)[block]]


@pytest.mark.parametrize("packets", [False, True], ids=["signals", "packets"])
@pytest.mark.parametrize("program", OF_EVERY_KIND, ids=lambda program: program.name)
def test_the_program_does_the_same(program, packets):
    made = one_sided(program, packets=packets)
    assert judge(made).races_checked
    assert not any(op.sends or op.receives for op in map(Op, made.code.op))


@pytest.mark.parametrize("program", OF_EVERY_KIND, ids=lambda program: program.name)
def test_what_proxies_send_stays_as_it_is(program):
    proxied = everywhere(program)
    judge(with_proxies(one_sided(program, proxied=proxied), proxied))


def test_every_interleaving_of_a_ring_of_two_is_right():
    assert all_interleavings(one_sided(ring_allgather(2))) == frozenset()


def test_a_message_to_an_untouched_place_goes_straight_there():
    """The ring's steps by hand are: ready, wait for it, copy, put, signal, wait, forward, signal, wait."""
    made = one_sided(ring_allgather(3))
    assert made.scratch.tolist() == [0, 0, 0]
    put = [Op.COPY, Op.SIGNAL]
    assert ops(made) == [Op.SIGNAL, Op.WAIT, Op.COPY, *put, Op.WAIT, *put, Op.WAIT]


def test_a_message_to_a_place_that_was_read_goes_through_the_inbox():
    """Two ranks exchange their inputs in place; neither may write before the other has sent."""
    steps = [
        [
            Instruction(Op.SEND, Address(IN, 0), to=1 - rank),
            Instruction(Op.RECV, NOWHERE, Address(SCRATCH, 0), origin=1 - rank),
            Instruction(Op.REDUCE, Address(SCRATCH, 0), Address(IN, 0)),
            Instruction(Op.SEND, Address(IN, 0), to=1 - rank),
            Instruction(Op.RECV, NOWHERE, Address(IN, 0), origin=1 - rank),
        ]
        for rank in range(2)
    ]
    program = Program.of(
        collective("allreduce", 2),
        2,
        [[[i._replace(length=2) for i in block]] for block in steps],
        in_place=True,
    )
    made = one_sided(program)
    assert made.scratch.tolist() == [4, 4]  # two units as before, and a slot of two
    first, second = (one for one in made.blocks(0)[0] if one.op is Op.COPY and one.to == 1)
    assert (first.target, second.target) == (Address(SCRATCH, 0), Address(SCRATCH, 2))
    judge(made)


def test_packets_come_first_in_scratch_and_take_twice_their_room():
    """Four messages per rank take units 0 to 7 with their flags; the forwarded sum follows them."""
    made = one_sided(ring_allreduce(3), packets=True)
    slots = [one.target for one in made.blocks(0)[0] if one.op is Op.COPY and one.to == 1]
    assert [slot.offset for slot in slots] == [0, 1, 2, 3]
    assert made.scratch.tolist() == [9, 9, 9]


def test_a_proxy_that_reads_late_is_a_race_where_nothing_is_copied_first():
    program = doubling_allreduce(4)
    with pytest.raises(ProgramError):
        judge(with_proxies(one_sided(program), everywhere(program)))


def test_waits_that_follow_from_others_are_left_out():
    program = pairs_allreduce(3)
    made = one_sided(program)
    for rank in range(3):
        for block in made.blocks(rank):
            known = {}
            for one in block:
                for other, step in one.waits:
                    assert step > known.get(other, -1)
                    known[other] = step


def test_a_program_that_is_one_sided_already_is_refused():
    with pytest.raises(InputError, match="rank 0, block 0, step 0: 'signal' can't be in a two-sided program"):
        one_sided(one_sided(ring_allgather(3)))


def test_in_place_all_is_in_the_larger_buffer():
    """A rank's input is its shard of the output."""
    program = ring_allgather(3, in_place=True)
    blocks = [program.blocks(rank) for rank in range(3)]
    for rank, [block] in enumerate(blocks):
        assert block[0].source == Address(OUT, rank)
        block[0] = block[0]._replace(source=Address(IN, 0))
    assert one_sided(Program.of(program.collective, 3, blocks, in_place=True)) == one_sided(program)
