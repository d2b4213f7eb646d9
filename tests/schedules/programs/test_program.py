"""The program and the layout of its buffers, against examples by hand."""

import numpy as np
import pytest

from tutti.schedules.collective import KINDS, collective
from tutti.schedules.programs.program import Address, Buffer, Instruction, Op, Program
from tutti.topologies.errors import InputError

IN, OUT, SCRATCH = Buffer


def ring(ranks: int) -> Program:
    """Return the ring allgather: each rank sends its shard and forwards what it receives."""
    blocks = []
    for rank in range(ranks):
        after, before = (rank + 1) % ranks, (rank - 1) % ranks
        block = [Instruction(Op.COPY, Address(IN, 0), Address(OUT, rank))]
        block += [Instruction(Op.SEND, Address(IN, 0), to=after)]
        block += [
            Instruction(Op.RECV_COPY_SEND, target=Address(OUT, (rank - hop) % ranks), to=after, origin=before)
            for hop in range(1, ranks - 1)
        ]
        block += [Instruction(Op.RECV, target=Address(OUT, after), origin=before)]
        blocks.append([block])
    return Program.of(collective("allgather", ranks), ranks, blocks)


def test_instructions_come_back_as_they_were_given():
    program = ring(4)
    assert len(program) == 20
    assert program.num_blocks == 4
    assert program.instruction(7) == Instruction(Op.RECV_COPY_SEND, target=Address(OUT, 0), to=2, origin=0)
    assert program.place(7) == "rank 1, block 0, step 2"
    assert program == ring(4)
    assert hash(program) == hash(ring(4))
    assert program != ring(5)


def test_waits_are_steps_of_the_same_rank():
    first = [Instruction(Op.COPY, Address(IN, 0), Address(SCRATCH, 3))]
    second = [Instruction(Op.SEND, Address(SCRATCH, 3), to=1, waits=((0, 0),))]
    receiver = [Instruction(Op.RECV, target=Address(OUT, 0), origin=0)]
    program = Program.of(collective("broadcast", 2), 1, [[first, second], [receiver]])
    assert program.instruction(1).waits == ((0, 0),)
    assert program.scratch.tolist() == [4, 0]


@pytest.mark.parametrize(
    ("instruction", "fault"),
    [
        (Instruction(Op.SEND, Address(IN, 1), to=1), "reads outside its buffer of 1 units"),
        (Instruction(Op.SEND, Address(IN, 0)), "sends to no rank"),
        (Instruction(Op.SEND, Address(IN, 0), to=2), r"goes to a rank outside 0\.\.1"),
        (Instruction(Op.SEND, Address(IN, 0), to=0), "is connected to its own rank"),
        (Instruction(Op.SEND, Address(IN, 0), to=1, length=0), "moves less than a unit"),
        (Instruction(Op.SEND, Address(IN, 0), to=1, channel=-1), "has a negative channel"),
        (Instruction(Op.SEND, to=1), "reads no buffer"),
        (Instruction(Op.RECV, target=Address(OUT, 1), origin=1, length=2), "writes outside its buffer"),
        (Instruction(Op.COPY, Address(IN, 0), Address(OUT, 2), to=1), "writes outside its buffer of 2 units"),
        (Instruction(Op.SEND, Address(IN, 10**12), to=1), "doesn't fit 32 bits"),
        (Instruction(Op.NOP, waits=((1, 0),)), "waits for step 0 of block 1, which isn't there"),
    ],
)
def test_what_cannot_be_is_named(instruction, fault):
    with pytest.raises(InputError, match=fault):
        Program.of(collective("allgather", 2), 2, [[[instruction]], []])


def test_buffers_of_every_collective():
    # MPI's and NCCL's buffers by hand, for 3 ranks and M = 6 units.
    sizes = {
        "allgather": [(2, 6)] * 3,
        "reduce-scatter": [(6, 2)] * 3,
        "allreduce": [(6, 6)] * 3,
        "broadcast": [(6, 6), (0, 6), (0, 6)],
        "reduce": [(6, 6), (6, 0), (6, 0)],
        "all-to-all": [(6, 6)] * 3,
        "gather": [(2, 6), (2, 0), (2, 0)],
        "scatter": [(6, 2), (0, 2), (0, 2)],
    }
    units = {"all-to-all": 6}
    assert set(sizes) == {str(kind) for kind in KINDS}
    for kind, expected in sizes.items():
        layout = Program.of(collective(kind, 3), units.get(kind, 6), [[]] * 3).layout
        assert [tuple(row[:2]) for row in layout.sizes.tolist()] == expected, kind


def test_an_all_to_all_is_by_destination_and_by_owner():
    layout = Program.of(collective("all-to-all", 3), 6, [[]] * 3).layout
    items = layout.collective.items
    mine = slice(layout.input.begin[1], layout.input.begin[2])
    assert items.dest[layout.input.item[mine]].tolist() == [0, 1, 2]
    assert layout.input.offset[mine].tolist() == [0, 2, 4]
    theirs = slice(layout.output.begin[1], layout.output.begin[2])
    assert items.owner[layout.output.item[theirs]].tolist() == [0, 1, 2]


def test_in_place_the_smaller_buffer_lies_in_the_larger():
    # NCCL: an allgather has sendbuff == recvbuff + rank * count, a reduce-scatter the reverse.
    allgather, scatter = (
        Program.of(collective(kind, 3), 6, [[]] * 3, in_place=True).layout
        for kind in ("allgather", "reduce-scatter")
    )
    assert allgather.base[:, :2].tolist() == [[0, 0], [2, 0], [4, 0]]
    assert scatter.base[:, :2].tolist() == [[0, 0], [0, 2], [0, 4]]
    assert allgather.memory.tolist() == [6, 6, 6]


def test_uneven_shards_and_groups():
    shards = Program.of(collective("allgather", 3, shards=[1, 2, 3]), 6, [[]] * 3).layout
    assert shards.sizes[:, 0].tolist() == [1, 2, 3]
    assert shards.output.offset[:3].tolist() == [0, 1, 3]
    groups = Program.of(collective("allreduce", 5, groups=[[0, 3], [1, 4]]), 2, [[]] * 5).layout
    assert groups.sizes[:, 0].tolist() == [2, 2, 0, 2, 2]


def test_an_item_is_a_whole_number_of_units():
    with pytest.raises(InputError, match="no whole number"):
        Program.of(collective("allgather", 3), 4, [[]] * 3)
    assert np.array_equal(ring(3).layout.length, [1, 1, 1])
