"""Programs in rounds, for transports that know groups of messages and no FIFOs, as NCCL.

A round is a group of messages that travel at once; between rounds each rank works on its own memory. Every
rank plays all rounds, and so agrees with all others on the order of the messages between two of them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from tutti.schedules.execution.fifos import Fifo, fifo_of
from tutti.schedules.programs.program import Op, Program
from tutti.topologies.errors import InputError


@dataclass
class Round:
    """A group of messages, and what comes before it.

    Parameters
    ----------
    local
        Numbers of the instructions that are done before, in order: a send's message is packed then.
    messages
        (send, receive): the instructions at both ends of each message.
    """

    local: list[int] = field(default_factory=list)
    messages: list[tuple[int, int]] = field(default_factory=list)


def rounds(program: Program) -> list[Round]:
    """Return the rounds of a program: each instruction is done as early as can be.

    A round's messages are those that were sent before it, whether or not their receivers wait for them yet.

    Raises
    ------
    InputError
        If the program waits for ever, or signals.
    """
    code, done = program.code, np.zeros(len(program), dtype=bool)
    if np.isin(code.op, (Op.SIGNAL, Op.WAIT)).any():
        raise InputError(f"{program.name}: signals have no rounds")
    following = program.begin[:-1].copy()
    come: dict[Fifo, list[int]] = defaultdict(list)
    takers = _takers(program)
    played: list[Round] = []
    while not done.all():
        now = Round()
        while ready := [
            int(n) for n in following[following < program.begin[1:]] if _free(program, n, done, come)
        ]:
            for number in ready:
                now.local.append(number)
                done[number] = True
                following[program.block_of[number]] += 1
                if Op(code.op[number]).receives:
                    come[_fifo(program, number, sends=False)].pop(0)
        sent = [number for number in now.local if Op(code.op[number]).sends]
        if not now.local:
            stuck = program.place(int(following[following < program.begin[1:]][0]))
            raise InputError(f"{program.name}: {stuck} waits for ever")
        for number in sent:
            fifo = _fifo(program, number, sends=True)
            taker = takers[fifo].pop(0)
            now.messages.append((number, taker))
            come[fifo].append(taker)
        played.append(now)
    return played


def _free(program: Program, number: int, done: np.ndarray, come: dict[Fifo, list[int]]) -> bool:
    waits = program.waits[program.wait_begin[number] : program.wait_begin[number + 1]]
    if not done[waits].all():
        return False
    return not Op(program.code.op[number]).receives or bool(come[_fifo(program, number, sends=False)])


def _fifo(program: Program, number: int, *, sends: bool) -> Fifo:
    code = program.code
    rank = int(program.rank[program.block_of[number]])
    peer = int((code.to if sends else code.origin)[number])
    return fifo_of(int(code.op[number]), rank, peer, int(code.channel[number]), sends=sends)


def _takers(program: Program) -> dict[Fifo, list[int]]:
    """Return the receiving instructions of each FIFO, in order."""
    takers: dict[Fifo, list[int]] = defaultdict(list)
    for number in range(len(program)):
        if Op(program.code.op[number]).receives:
            takers[_fifo(program, number, sends=False)].append(number)
    return takers
