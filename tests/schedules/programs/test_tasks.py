"""What simulators play, by hand."""

from fractions import Fraction

import pytest

from schedules.collective import collective
from schedules.programs.program import NOWHERE, Address, Buffer, Instruction, Op, Program
from schedules.programs.tasks import Action, Task, tasks_of, unit_bytes
from tests.schedules.programs.by_hand import ring_allgather, ring_allreduce
from topologies.errors import InputError

IN, OUT, SCRATCH = Buffer


def test_a_ring_passes_on_what_it_received():
    """Rank 0 of three: its own shard to rank 1, rank 2's on, then rank 1's; the copy is left out."""
    assert [task._replace(tag=-1) for task in tasks_of(ring_allgather(3))[0]] == [
        Task(Action.SEND, 1, (), 1),
        Task(Action.RECV, 1, (0,), 2),
        Task(Action.SEND, 1, (1,), 1),
        Task(Action.RECV, 1, (2,), 2),
    ]


def test_an_instruction_receives_then_adds_then_sends():
    actions = [task.action for task in tasks_of(ring_allreduce(2))[0]]
    assert actions == [Action.SEND, Action.RECV, Action.SUM, Action.SEND, Action.RECV]


def test_who_waits_for_a_copy_waits_for_what_that_waited_for():
    receive = Instruction(Op.RECV, NOWHERE, Address(SCRATCH, 0), 1, origin=0)
    copy = Instruction(Op.COPY, Address(SCRATCH, 0), Address(OUT, 0), waits=((0, 0),))
    send = Instruction(Op.SEND, Address(OUT, 0), to=2, waits=((1, 0),))
    program = Program.of(
        collective("broadcast", 3),
        1,
        [
            [[Instruction(Op.SEND, Address(IN, 0), to=1)]],
            [[receive], [copy], [send]],
            [[receive._replace(origin=1)]],
        ],
    )
    assert [task.after for task in tasks_of(program)[1]] == [(), (0,)]


@pytest.mark.parametrize(("size", "units", "nearest"), [(25, 24, "24B"), (1, 24, "24B"), (2999, 1000, "3KB")])
def test_the_nearest_size_has_whole_units(size, units, nearest):
    with pytest.raises(InputError, match=f"{size} bytes do not divide into {units} units; .* {nearest}$"):
        unit_bytes(units, Fraction(size))


def test_a_unit_of_whole_bytes():
    assert unit_bytes(24, Fraction(48)) == 2
