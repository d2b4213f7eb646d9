"""Programs on GPUs: the messages of a round are one group of NCCL's point-to-point calls, by PyTorch.

The processes are those of ``torchrun``, one per GPU. It has not been tried on a GPU; `Player` is
tested on arrays of numpy, which it handles in the same way.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tutti.schedules.execution.session import RankData, RepeatTimes, SessionTask, Settings
from tutti.schedules.programs.program import Buffer, Op, Program
from tutti.schedules.programs.serial import longest_paths, needs, senders, serial_order
from tutti.topologies.errors import InputError
from tutti.topologies.exact import NONE


@dataclass
class Round:
    """A group of messages, and the instructions before it.

    Parameters
    ----------
    local
        Numbers of the instructions that come before, in order. The message of a send is packed then.
    messages
        Pairs (send, receive): the instructions at both ends of each message.
    """

    local: list[int] = field(default_factory=list)
    messages: list[tuple[int, int]] = field(default_factory=list)


def rounds(program: Program) -> list[Round]:
    """Return the rounds of a program: each instruction is done as early as possible.

    A round is a group of messages that travel at the same time; between rounds each rank works on its own
    memory. The messages of a round are those sent before it, even if their receivers do not wait for them
    yet. Every rank plays all rounds, so all ranks agree on the order of the messages between any two.

    Raises
    ------
    InputError
        As `serial_order`, or if the program has signals.
    """
    if np.isin(program.code.op, (Op.SIGNAL, Op.WAIT)).any():
        raise InputError(f"{program.name}: signals have no rounds")
    sent = senders(program)
    receives = np.flatnonzero(sent != NONE)
    taker = dict(zip(sent[receives].tolist(), receives.tolist(), strict=True))
    before, after, messages = needs(program, sent)
    number = longest_paths(len(program), before, after, messages)
    played = [Round() for _ in range(int(number.max(initial=-1)) + 1)]
    for step in serial_order(program, sent).tolist():
        now = played[number[step]]
        now.local.append(step)
        if step in taker:
            now.messages.append((step, taker[step]))
    return played


def world() -> Any:
    """Return `torch.distributed`, ready for this process and its GPU.

    Raises
    ------
    InputError
        If there is no PyTorch or GPU, or this isn't a process of ``torchrun``.
    """
    try:
        import torch
    except ImportError:
        raise InputError("--transport nccl needs PyTorch, which isn't installed here") from None
    if not (torch.cuda.is_available() and torch.distributed.is_nccl_available()):
        raise InputError("--transport nccl needs a GPU and NCCL, and PyTorch finds none here")
    if "LOCAL_RANK" not in os.environ:
        raise InputError(
            "--transport nccl: start it with torchrun --no-python --nproc-per-node N tutti exec ..."
        )
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")
    return torch.distributed


class Player:
    """A rank's part of a program in rounds, on arrays of any library.

    Parameters
    ----------
    program
        A program without signals and accesses to other ranks' memory.
    rank
        The rank.
    memory
        The rank's memory, one-dimensional.
    elements
        The number of elements in a unit.
    copy
        Returns a copy of an array.
    """

    def __init__(
        self, program: Program, rank: int, memory: Any, elements: int, copy: Callable[[Any], Any]
    ) -> None:
        self._program, self._rank, self._memory = program, rank, memory
        self._elements, self._copy = elements, copy
        self._base = program.layout.base[rank].tolist()
        self._come: dict[int, Any] = {}

    def work(self, now: Round) -> dict[int, Any]:
        """Do the instructions before a round's messages; return the packet of each send."""
        own = self._program.own
        packets = {number: self._do(number) for number in now.local if own[number] == self._rank}
        return {number: packet for number, packet in packets.items() if packet is not None}

    def put(self, number: int, message: Any) -> None:
        """Store the message that a receiving instruction will take."""
        self._come[number] = message

    def size(self, number: int) -> int:
        """Return the number of elements that an instruction moves."""
        return int(self._program.code.length[number]) * self._elements

    def _do(self, number: int) -> Any:
        code = self._program.code
        op = Op(code.op[number])
        values = [self._come.pop(number)] if op.receives else []
        if op.reads:
            values.append(self._memory[self._place(number, code.source_buffer, code.source_offset)])
        target = self._place(number, code.target_buffer, code.target_offset)
        if op is Op.REDUCE:
            values.append(self._memory[target])
        if not values:
            return None
        value = values[0] + values[1] if len(values) > 1 else values[0]
        if op.writes:
            self._memory[target] = value
        return self._copy(value) if op.sends else None

    def _place(self, number: int, buffer: Any, offset: Any) -> slice:
        begin = (self._base[int(buffer[number])] + int(offset[number])) * self._elements
        return slice(begin, begin + self.size(number))


def play(distributed: Any, tasks: Sequence[SessionTask], settings: Settings) -> list[list[RepeatTimes]]:
    """Play tasks on the processes of ``torchrun``; return their times, by rank, then task.

    Raises
    ------
    Failure
        If this rank's output is wrong.
    """
    mine = [_play(distributed, task, settings) for task in tasks]
    everyone: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(everyone, mine)
    distributed.destroy_process_group()
    return everyone


def _play(distributed: Any, task: SessionTask, settings: Settings) -> RepeatTimes:
    import torch

    rank, played = distributed.get_rank(), rounds(task.program)
    data = RankData(task.program, rank, task.elements, task.dtype, settings.seed)
    start = np.full(task.memory(rank) // task.itemsize, 127, dtype=task.dtype)  # no datum is as large
    data.part(start, Buffer.INPUT)[:] = data.input()
    due, seconds = data.output(), []
    memory = torch.from_numpy(start).cuda()
    player = Player(task.program, rank, memory, task.elements, torch.clone)
    for _ in range(settings.warmup + settings.repeats):
        memory.copy_(torch.from_numpy(start))
        distributed.barrier()
        torch.cuda.synchronize()
        began = time.perf_counter()
        for now in played:
            packets, code = player.work(now), task.program.code
            own = task.program.own
            calls = []
            for send, take in now.messages:
                if own[send] == rank:
                    calls.append(distributed.P2POp(distributed.isend, packets[send], int(code.to[send])))
                if own[take] == rank:
                    message = memory.new_empty(player.size(take))
                    player.put(take, message)
                    calls.append(distributed.P2POp(distributed.irecv, message, int(code.origin[take])))
            for request in distributed.batch_isend_irecv(calls) if calls else []:
                request.wait()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
        data.check(memory.cpu().numpy(), due)
    return RepeatTimes(seconds[settings.warmup :], [])
