"""Programs in rounds, executed on numpy arrays in one process."""

import importlib.util

import numpy as np
import pytest

from tests.schedules.execution.direct import direct
from tests.schedules.execution.test_session import chain
from tests.schedules.programs.test_program import ring
from tutti.schedules.collective import KINDS, collective
from tutti.schedules.execution.nccl import Player, rounds, world
from tutti.schedules.execution.session import RankData
from tutti.schedules.programs.program import Address, Buffer, Instruction, Op, Program
from tutti.topologies.errors import InputError


def what(kind):
    return collective(kind, 4, root=1 if kind.rooted else None)


def test_a_ring_of_n_takes_as_many_rounds_as_steps_and_the_last_receives():
    # Four ranks: three messages follow each other, then the last one is taken.
    played = rounds(ring(4))
    assert [len(one.messages) for one in played] == [4, 4, 4, 0]
    assert sorted(number for one in played for number in one.local) == list(range(20))


@pytest.mark.parametrize("kind", KINDS)
def test_direct_programs_take_one_round(kind):
    program = direct(what(kind), 4)
    played = rounds(program)
    assert [bool(one.messages) for one in played] == [True, False]
    sends = np.isin(program.code.op, Op.SEND).sum()
    assert len(played[0].messages) == sends


def test_a_chain_waits_for_each_link():
    assert [len(one.messages) for one in rounds(chain(3))] == [1, 1, 1, 1, 0]


def test_what_waits_for_ever_is_refused():
    block = [Instruction(Op.RECV, target=Address(Buffer.OUTPUT, 0), origin=1)]
    other = [Instruction(Op.RECV, target=Address(Buffer.OUTPUT, 1), origin=0)]
    program = Program.of(collective("allgather", 2), 2, [[block], [other]])
    with pytest.raises(InputError, match="rank 1, block 0, step 0: no instruction sends this message"):
        rounds(program)


@pytest.mark.parametrize("program", [ring(4), chain(3), *(direct(what(kind), 4) for kind in KINDS)])
def test_players_on_arrays_end_with_what_is_due(program):
    own = program.own
    ranks = range(program.num_ranks)
    data = [RankData(program, rank, 2, np.float32) for rank in ranks]
    memories = [np.full(int(program.layout.memory[rank]) * 2, np.nan, np.float32) for rank in ranks]
    for one, memory in zip(data, memories, strict=True):
        one.part(memory, Buffer.INPUT)[:] = one.input()
    players = [Player(program, rank, memories[rank], 2, np.copy) for rank in ranks]
    for now in rounds(program):
        packets = {number: packet for player in players for number, packet in player.work(now).items()}
        for send, take in now.messages:
            assert len(packets[send]) == players[own[take]].size(take)
            players[own[take]].put(take, packets[send])
    for one, memory in zip(data, memories, strict=True):
        one.check(memory, one.output())


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="PyTorch is here")
def test_without_pytorch_there_is_no_nccl():
    with pytest.raises(InputError, match="--transport nccl needs PyTorch, which isn't installed here"):
        world()
