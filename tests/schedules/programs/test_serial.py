"""The sends of all receives, and one order of all instructions."""

import numpy as np
import pytest

from tests.schedules.programs.by_hand import (
    doubling_allreduce,
    pairs_allreduce,
    ring_allgather,
    ring_allreduce,
)
from tutti.schedules.collective import collective
from tutti.schedules.programs.program import NOWHERE, Address, Buffer, Instruction, Op, Program
from tutti.schedules.programs.serial import senders, serial_order
from tutti.topologies.errors import InputError

IN, OUT, SCRATCH = Buffer
SEND = Instruction(Op.SEND, Address(IN, 0), to=1)
RECV = Instruction(Op.RECV, NOWHERE, Address(OUT, 0), origin=0)


def two(first, second):
    """Return a broadcast of two units from rank 0 to 1 with these blocks."""
    return Program.of(collective("broadcast", 2), 2, [first, second], name="hand")


def test_messages_are_received_in_the_order_of_their_sending():
    other = SEND._replace(channel=1)
    program = two([[SEND, other, SEND]], [[RECV, RECV], [RECV._replace(channel=1)]])
    assert senders(program).tolist() == [-1, -1, -1, 0, 2, 1]


@pytest.mark.parametrize(
    "program",
    [ring_allgather(5), pairs_allreduce(4), ring_allreduce(4), doubling_allreduce(8)],
    ids=["allgather", "pairs", "ring", "doubling"],
)
def test_everything_runs_after_what_it_needs(program):
    order = serial_order(program)
    assert sorted(order.tolist()) == list(range(len(program)))
    turn = np.argsort(order)
    sender = senders(program)
    for number in range(len(program)):
        needs = program.waits[program.wait_begin[number] : program.wait_begin[number + 1]].tolist()
        needs += [sender[number]] if sender[number] >= 0 else []
        needs += [number - 1] if number not in program.begin else []
        assert all(turn[need] < turn[number] for need in needs)


@pytest.mark.parametrize(
    ("program", "fault"),
    [
        (two([[SEND]], []), "rank 0, block 0, step 0: no instruction receives this message"),
        (two([], [[RECV]]), "rank 1, block 0, step 0: no instruction sends this message"),
        (two([[SEND, SEND]], [[RECV]]), "rank 0, block 0, step 1: no instruction receives"),
        (
            two([[SEND]], [[RECV._replace(channel=1)]]),
            "rank 0, block 0, step 0: no instruction receives this message",
        ),
        (
            two([[SEND._replace(length=2)]], [[RECV]]),
            "rank 1, block 0, step 0 receives 1 units where rank 0, block 0, step 0 sends 2",
        ),
        (two([[SEND], [SEND]], [[RECV, RECV]]), "rank 0, block 1, step 0 shares its FIFO with another block"),
        (two([[SEND, SEND]], [[RECV], [RECV]]), "rank 1, block 1, step 0 shares its FIFO with another block"),
        (two([[SEND._replace(waits=((0, 0),))]], [[RECV]]), "rank 0, block 0, step 0 waits forever"),
        (
            two([[SEND]], [[RECV._replace(waits=((1, 0),))], [Instruction(Op.NOP, waits=((0, 0),))]]),
            "rank 1, block 0, step 0 waits forever",
        ),
    ],
)
def test_what_cannot_run_is_named(program, fault):
    with pytest.raises(InputError, match=f"^hand: {fault}"):
        serial_order(program)
