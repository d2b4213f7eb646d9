"""Programs on ranks that are threads; each checks its output, against sums by numpy."""

import numpy as np
import pytest

from tests.schedules.execution.crew import as_threads
from tests.schedules.execution.direct import direct, expected
from tests.schedules.programs.test_program import ring
from tutti.schedules.collective import KINDS, collective
from tutti.schedules.execution import session, transport
from tutti.schedules.execution.session import RankData, SessionTask, Settings
from tutti.schedules.execution.transport import Failure, Stalled
from tutti.schedules.programs.program import Address, Buffer, Instruction, Op, Program
from tutti.topologies.errors import InputError

IN, OUT, SCRATCH = Buffer
BRIEF = Settings(warmup=0, repeats=2, timeout=5.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_every_collective_comes_out_right_in_one_pass_and_in_many(kind, dtype, monkeypatch):
    what = collective(kind, 3, root=1 if kind.rooted else None)
    program = direct(what, 6, channels=2)
    # With 7 elements per unit, slices of 2 leave one of 1 for the last pass.
    tasks = [SessionTask(program, 7 * 6 * np.dtype(dtype).itemsize, dtype)]
    assert len(as_threads(tasks, BRIEF)) == 3
    size = 2 * max(map(sum, tasks[0].fifos.units)) * tasks[0].itemsize
    room = transport.ROOM._replace(pass_bytes=size)
    for module in (transport, session):
        monkeypatch.setattr(module, "ROOM", room)
    assert tasks[0].fifos.slice_of(7, tasks[0].itemsize) == 2
    times = as_threads(tasks, BRIEF)
    assert [len(one.ours) for (one,) in times] == [2, 2, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_and_outputs_are_those_of_mpi(kind):
    what = collective(kind, 4, root=2 if kind.rooted else None)
    program = direct(what, 4)
    data = [RankData(program, rank, 3, np.float32, seed=5) for rank in range(4)]
    due = [expected(what, [one.input() for one in data])(rank) for rank in range(4)] if _same(data) else None
    if due is None:  # only the root has an input
        inputs = [data[2].input()] * 4
        due = [expected(what, inputs)(rank) for rank in range(4)]
    for rank in range(4):
        np.testing.assert_array_equal(data[rank].output(), due[rank])


def _same(data):
    return len({len(one.input()) for one in data}) == 1


def test_a_ring_whose_ranks_all_send_before_they_receive_ends():
    # Each FIFO must hold a whole message while no rank receives.
    assert as_threads([SessionTask(ring(4), 4 * 4 * 2**16)], BRIEF)


def chain(length):
    """Sum `length` of three units by reduce-send along a chain of three ranks, and copy-send them back."""

    def moved(op, source=IN, target=OUT, offset=0, **ends):
        return Instruction(op, Address(source, 0), Address(target, offset), length, **ends)

    first = [moved(Op.SEND, to=1), moved(Op.RECV_COPY_SEND, to=1, origin=2)]
    second = [moved(Op.RECV_REDUCE_SEND, to=2, origin=0), moved(Op.RECV, target=SCRATCH, origin=0)]
    local = [Instruction(Op.NOP, waits=((0, 1),)), moved(Op.COPY, source=SCRATCH)]
    third = [moved(Op.COPY), moved(Op.RECV_REDUCE_COPY_SEND, source=OUT, to=0, origin=1)]
    return Program.of(collective("allreduce", 3), 3, [[first], [second, local], [third]])


def test_all_kinds_of_instructions():
    assert as_threads([SessionTask(chain(3), 3 * 4 * 5)], BRIEF)
    with pytest.raises(Failure, match=r"element 5 of its output, in unit 1, .* no step writes there"):
        as_threads([SessionTask(chain(1), 3 * 4 * 5)], Settings(0, 1, 0.5))


def test_ranks_may_reach_into_each_others_memory_between_signals():
    put = [
        Instruction(Op.COPY, Address(IN, 0), Address(OUT, 0)),
        Instruction(Op.COPY, Address(IN, 0), Address(OUT, 0), to=1),
        Instruction(Op.SIGNAL, to=1),
    ]
    program = Program.of(
        collective("broadcast", 2), 1, [[put], [[Instruction(Op.WAIT, origin=0)]]], name="put"
    )
    assert as_threads([SessionTask(program, 64)], Settings(0, 1, 5.0))


def test_wrong_bytes_name_the_rank_the_unit_and_the_step():
    good = ring(3)
    offsets = good.code.target_offset.copy()
    last = int(good.begin[2]) - 1  # rank 1's last receive, of shard 2, now into shard 0
    offsets[last] = 0
    wrong = good.replace(code=good.code._replace(target_offset=offsets))
    with pytest.raises(Failure) as caught:
        as_threads([SessionTask(wrong, 3 * 4 * 2)], Settings(0, 1, 0.5))
    place = "rank 1, block 0, step"
    assert str(caught.value).startswith("rank 1 has wrong bytes: element 0 of its output, in unit 0, is ")
    assert str(caught.value).endswith(f"; written by {place} 2 and {place} 3")


def test_ranks_that_wait_for_each_other_say_for_what():
    def block(other):
        return [
            Instruction(Op.RECV, target=Address(OUT, other), origin=other),
            Instruction(Op.SEND, Address(IN, 0), to=other),
        ]

    program = Program.of(collective("allgather", 2), 2, [[block(1)], [block(0)]], name="knot")
    says = r"rank 0, block 0, step 0 \(recv\) waits for a message in the FIFO from rank 1 to 0 on channel 0"
    with pytest.raises(Stalled, match=says):
        as_threads([SessionTask(program, 16)], Settings(0, 1, 0.2))


def test_fifos_whose_ends_differ_are_refused():
    send = Instruction(Op.SEND, Address(IN, 0), to=1)
    take = Instruction(Op.RECV, target=Address(OUT, 0), origin=0)
    what = collective("broadcast", 2)
    with pytest.raises(InputError, match="rank 0, block 0, step 1: no instruction receives this message"):
        SessionTask(Program.of(what, 1, [[[send, send]], [[take]]]), 8)
    wide = Program.of(what, 2, [[[send._replace(length=2)]], [[take, take]]])
    with pytest.raises(InputError, match="rank 1, block 0, step 1: no instruction sends this message"):
        SessionTask(wide, 8)
    uneven = Program.of(what, 2, [[[send._replace(length=2)]], [[take]]])
    with pytest.raises(InputError, match=r"rank 1, .* receives 1 units where rank 0, .* sends 2"):
        SessionTask(uneven, 8)
    with pytest.raises(InputError, match="rank 0, block 1, step 0 shares its FIFO with another block"):
        SessionTask(Program.of(what, 1, [[[send], [send]], [[take, take]]]), 8)


def test_a_size_must_divide():
    with pytest.raises(InputError, match="64000 bytes do not divide into 24 units of whole elements"):
        SessionTask(ring(24), 64000)
