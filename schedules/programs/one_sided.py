"""Conversion to one-sided programs: messages become writes into the other rank's memory, and signals.

A message goes straight to the place where its receiver stores it if nothing accesses that place before. Any
other message goes to a slot of its own in an *inbox*, a part of the receiver's scratch; the receiver copies
it or adds it from there. A signal follows each message, and the receiver waits for it: the k-th wait on a
connection takes the k-th signal. One FIFO becomes one connection. In the opposite direction the connection
tells the sender that it may begin, because the receiver has ended the last run of the program (*ready*).

If a proxy (a network adapter) writes while the sender continues, the data must stay unchanged meanwhile. Data
that are overwritten later are first copied to an *outbox* in scratch. At its end the sender waits until the
receiver has everything (*received*).

In place, all data are in the larger of input and output. The position of the smaller one in it differs from
rank to rank, but a runtime may assume that another rank's buffer is where its own is.

*Packets* are messages with flags, which the receiver of each awaits. Then each message is a connection of its
own and all go through the inbox. No rank waits for *ready*: the inboxes of successive runs are disjoint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from tutti.schedules.programs.machine import Memory
from tutti.schedules.programs.program import NOWHERE, Address, Buffer, Instruction, Op, Program, table_of
from tutti.schedules.programs.serial import senders, serial_order
from tutti.topologies.errors import InputError
from tutti.topologies.exact import NONE, BoolArray

Blocks = list[list[Instruction]]
"""The instructions of each block of a rank."""

_STORES = (Op.RECV, Op.RECV_COPY_SEND)
"""Instructions that store what they receive as it is."""


def one_sided(program: Program, *, packets: bool = False, proxied: BoolArray | None = None) -> Program:
    """Return the program with copies to other ranks, signals and waits in place of messages.

    Parameters
    ----------
    program
        A two-sided program that is free of races.
    packets
        Whether messages carry flags.
    proxied
        bool, shape (ranks, ranks): whether a proxy writes for the first rank into the memory of the second.

    Raises
    ------
    InputError
        If the program isn't two-sided, or its messages don't match (`serial.senders`).
    """
    return _Translation(program, packets, proxied).program()


def without_needless_waits(blocks: Sequence[Blocks]) -> list[Blocks]:
    """Return the blocks of each rank without waits that are implied by other waits of the same block.

    The remaining waits of a block for any other block are for later and later steps.
    """
    return [[_needed(number, block) for number, block in enumerate(of_rank)] for of_rank in blocks]


def _needed(number: int, block: list[Instruction]) -> list[Instruction]:
    """Return the instructions of block `number`, each with the waits that are still needed."""
    known: dict[int, int] = {}
    kept = []
    for one in block:
        last: dict[int, int] = {}
        for other, step in one.waits:
            if other != number and step > max(known.get(other, NONE), last.get(other, NONE)):
                last[other] = step
        known |= last
        kept.append(one._replace(waits=tuple(sorted(last.items()))))
    return kept


class _Translation:
    """The place and connection of each message, and the new instructions for each old one."""

    def __init__(self, program: Program, packets: bool, proxied: BoolArray | None) -> None:
        code, op = program.code, program.code.op
        strange = program.remote | np.isin(op, (Op.NOP, Op.SIGNAL, Op.WAIT))
        if strange.any():
            number = int(np.argmax(strange))
            what = Op(op[number]).name.lower()
            raise InputError(
                f"{program.name}: {program.place(number)}: '{what}' can't be in a two-sided program"
            )
        self.old, self.packets = program, packets
        self.proxied = np.zeros((program.num_ranks,) * 2, np.bool_) if proxied is None else proxied
        self.own = program.own.tolist()
        self.sender = senders(program).tolist()
        self.receiver = {sender: number for number, sender in enumerate(self.sender) if sender != NONE}
        cells, self.layout = _CellAccesses(program), program.layout
        straight = np.zeros(len(program), np.bool_) if packets else cells.first_stores()
        through = [number for number in sorted(self.receiver.values()) if not straight[number]]
        proxied_send = (code.to != NONE) & self.proxied[self.own, code.to]
        again = cells.overwritten(through) if proxied_send.any() else proxied_send
        self.outbox = np.flatnonzero(proxied_send & again).tolist()
        self._place(through)
        self.connection = self._by_message() if packets else self._by_fifo()

    def _place(self, through: list[int]) -> None:
        """Choose slots for these receives, places for sums that aren't stored, and outboxes.

        Packets take twice their data's length and come first; other scratch begins behind them. All ranks
        then get scratch of equal size, because a sender assumes that the receiver's second half begins where
        its own does.
        """
        old = self.old.scratch.tolist()
        sums = np.flatnonzero(self.old.code.op == Op.RECV_REDUCE_SEND).tolist()
        self.shift = [0] * len(old)
        if not self.packets:
            self.slot, slots_end = self._allotted(through, old)
            self.mine, self.scratch = self._allotted(sums + self.outbox, slots_end)
            return
        # The inboxes take [0, shift), twice the length of all slots.
        self.slot, slots_end = self._allotted(through, self.shift)
        self.shift = [2 * end for end in slots_end]
        self.mine, ends = self._allotted(
            sums + self.outbox, [size + shift for size, shift in zip(old, self.shift, strict=True)]
        )
        used = [end if end > shift else shift // 2 for end, shift in zip(ends, self.shift, strict=True)]
        self.scratch = [max(used)] * len(used)

    def _allotted(self, numbers: list[int], begin: list[int]) -> tuple[dict[int, Address], list[int]]:
        """Return places in scratch for these instructions' data, and the end of scratch at each rank."""
        end, places = list(begin), {}
        for number in numbers:
            rank = self.own[number]
            places[number] = Address(Buffer.SCRATCH, end[rank])
            end[rank] += int(self.old.code.length[number])
        return places, end

    def _by_fifo(self) -> dict[int, int]:
        """Return the connection of each message by its receiver, numbered from 0 for each pair of ranks."""
        code = self.old.code
        fifos = {
            number: (self.own[sender], self.own[number], int(code.channel[number]))
            for sender, number in self.receiver.items()
        }
        pairs: dict[tuple[int, int], int] = Counter()
        numbers = {}
        for fifo in sorted(set(fifos.values()), key=lambda fifo: (fifo[2], fifo)):
            pair = (min(fifo[:2]), max(fifo[:2]))
            numbers[fifo] = pairs[pair]
            pairs[pair] += 1
        return {number: numbers[fifo] for number, fifo in fifos.items()}

    def _by_message(self) -> dict[int, int]:
        """Return the connection of each message by its receiver, in the order of the receives."""
        count: dict[tuple[int, int], int] = Counter()
        connection = {}
        for number in sorted(self.receiver.values()):
            pair = (self.own[self.sender[number]], self.own[number])
            connection[number] = count[pair]
            count[pair] += 1
        return connection

    def program(self) -> Program:
        """Return the one-sided program."""
        old = self.old
        first, begin = old.first_block.tolist(), old.begin.tolist()
        place: dict[tuple[int, int, int], tuple[int, int]] = {}  # the last new step of each old step
        ranks: list[list[Blocks]] = []
        for rank in range(old.num_ranks):
            made = []
            for number, block in enumerate(range(first[rank], first[rank + 1])):
                opening, closing = self._handshakes(range(begin[block], begin[block + 1]))
                steps = [self._steps(i) for i in range(begin[block], begin[block + 1])]
                at = len(opening)
                for step, group in enumerate(steps):
                    at += len(group)
                    place[rank, number, step] = (number, at - 1)
                made.append([opening, *steps, closing])
            ranks.append(made)
        blocks = [
            [
                [
                    one._replace(waits=tuple(place[rank, *wait] for wait in one.waits))
                    for group in block
                    for one in group
                ]
                for block in of_rank
            ]
            for rank, of_rank in enumerate(ranks)
        ]
        return old.with_blocks(without_needless_waits(blocks), self.scratch)

    def _handshakes(self, numbers: range) -> tuple[list[Instruction], list[Instruction]]:
        """Return a block's first and last instructions: a receiver signals, a sender waits for that."""
        if self.packets:
            return [], []
        comes: dict[tuple[int, int], None] = {}
        goes: dict[tuple[int, int], None] = {}
        for number in numbers:
            if self.sender[number] != NONE:
                comes[self.own[self.sender[number]], self.connection[number]] = None
            if number in self.receiver:
                other = self.receiver[number]
                goes[self.own[other], self.connection[other]] = None
        rank = self.own[numbers[0]] if len(numbers) else NONE
        says = [(peer, Instruction(Op.SIGNAL, to=peer, channel=channel)) for peer, channel in comes]
        waits = [(peer, Instruction(Op.WAIT, origin=peer, channel=channel)) for peer, channel in goes]
        opening = [one for _, one in (*says, *waits)]
        closing = [one for peer, one in says if self.proxied[peer, rank]]
        return opening, closing + [one for peer, one in waits if self.proxied[rank, peer]]

    def _steps(self, number: int) -> list[Instruction]:
        """Return the new instructions for one; the first of them has the waits of the old."""
        old = self.old.instruction(number)
        first, *others = self._parts(number, old)
        return [first._replace(waits=old.waits), *others]

    def _parts(self, number: int, old: Instruction) -> Iterator[Instruction]:
        """Yield the new instructions for one: wait for the signal, store or add the data, write, signal."""
        rank, op, length = self.own[number], old.op, old.length
        source, target = self._moved(rank, old.source), self._moved(rank, old.target)
        if op in (Op.COPY, Op.REDUCE):
            yield Instruction(op, source, target, length)
            return
        if op.receives:
            yield Instruction(Op.WAIT, origin=old.origin, channel=self.connection[number])
            slot = self.slot.get(number, target)
            if op in _STORES:
                if slot != target:
                    yield Instruction(Op.COPY, slot, target, length)
            else:
                target = target if target != NOWHERE else self.mine[number]
                if source != target:
                    yield Instruction(Op.COPY, source, target, length)
                yield Instruction(Op.REDUCE, slot, target, length)
        if op.sends:
            other = self.receiver[number]
            there = self.slot.get(other) or self._moved(self.own[other], self.old.instruction(other).target)
            given = target if op.receives else source
            if op is Op.RECV_COPY_SEND and not self.packets:
                given = slot  # available before the copy
            if number in self.outbox:
                yield Instruction(Op.COPY, given, self.mine[number], length)
                given = self.mine[number]
            yield Instruction(Op.COPY, given, there, length, to=old.to)
            yield Instruction(Op.SIGNAL, to=old.to, channel=self.connection[other])

    def _moved(self, rank: int, address: Address) -> Address:
        """Return the new address of data: in scratch behind the packets; in place, in the larger buffer."""
        if address.buffer == Buffer.SCRATCH:
            return address._replace(offset=address.offset + self.shift[rank])
        if address == NOWHERE or not self.old.in_place:
            return address
        sizes, base = self.layout.sizes[rank], self.layout.base[rank]
        larger = Buffer.OUTPUT if sizes[Buffer.OUTPUT] > sizes[Buffer.INPUT] else Buffer.INPUT
        return Address(larger, address.offset + int(base[address.buffer] - base[larger]))


class _CellAccesses:
    """The memory cells that each instruction reads and writes, in one order in which all can run.

    In a program without races, two accesses of a cell, of which one writes, have this order in every run.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.order = program, serial_order(program).tolist()
        memory, code = Memory(program), program.code
        own = program.own
        sides = (
            ("reads", code.source_buffer, code.source_offset),
            ("writes", code.target_buffer, code.target_offset),
        )
        self.spans: list[list[slice]] = []  # the cells of sources and of targets; empty for none
        for prop, buffer, offset in sides:
            used = table_of(prop)[code.op]
            begin = np.zeros(len(program), dtype=np.int64)
            begin[used] = memory.cell(own[used], buffer[used], offset[used])
            end = begin + np.where(used, code.length, 0)
            self.spans.append([slice(*ends) for ends in zip(begin.tolist(), end.tolist(), strict=True)])
        self.count = int(memory.start[-1])

    def first_stores(self) -> BoolArray:
        """Return for each instruction whether it stores a message in cells that were not accessed before."""
        touched, first = np.zeros(self.count, dtype=np.bool_), np.zeros(len(self.order), dtype=np.bool_)
        sources, targets = self.spans
        stores = np.isin(self.program.code.op, _STORES)
        for number in self.order:
            first[number] = stores[number] and not touched[targets[number]].any()
            touched[sources[number]] = touched[targets[number]] = True
        return first

    def overwritten(self, through: list[int]) -> BoolArray:
        """Return for each instruction whether the cells that it sends from are written later.

        Receives in `through` that forward a message send it from the inbox, which is not overwritten.
        """
        # Backwards: `written` has the cells that later instructions write.
        written, again = np.zeros(self.count, dtype=np.bool_), np.zeros(len(self.order), dtype=np.bool_)
        sources, targets = self.spans
        sends = self.program.code.op == Op.SEND
        passes = np.isin(self.program.code.op, (Op.RECV_COPY_SEND, Op.RECV_REDUCE_COPY_SEND))
        passes[[number for number in through if self.program.code.op[number] == Op.RECV_COPY_SEND]] = False
        for number in reversed(self.order):
            place = sources[number] if sends[number] else targets[number]
            again[number] = (sends[number] or passes[number]) and written[place].any()
            written[targets[number]] = True
        return again


def with_proxies(program: Program, proxied: BoolArray) -> Program:
    """Return the program in which the proxies' writes and signals are in separate blocks, one a connection.

    Parameters
    ----------
    program
        A one-sided program.
    proxied
        As in `one_sided`.
    """
    ranks = []
    for rank in range(program.num_ranks):
        blocks = program.blocks(rank)
        proxies: dict[tuple[int, int], list[Instruction]] = {}
        for number, block in enumerate(blocks):
            for step, one in enumerate(block):
                # The block has a NOP in its place, for which the proxy's instruction waits.
                if one.to != NONE and proxied[rank, one.to]:
                    signals = (i.channel for i in block[step:] if i.op is Op.SIGNAL and i.to == one.to)
                    proxy = proxies.setdefault((one.to, next(signals, 0)), [])
                    proxy.append(one._replace(waits=((number, step),)))
                    block[step] = Instruction(Op.NOP, waits=one.waits)
        ranks.append([*blocks, *proxies.values()])
    return program.with_blocks(ranks)
