"""Lowering converts a schedule to the program that its ranks run.

`moves` determines what goes from which address to which, and `ordering` which instruction waits for which.
This module puts sends and receives into thread blocks. As in msccl-tools, each end of a FIFO has a block of
its own (one for each peer, channel and direction). One block serves two ends if most of what arrives over one
FIFO is sent on over the other; there instructions are fused (receive-copy-send, receive-reduce-send). If a
limit requires it, blocks are joined, or the messages of a FIFO are spread over several channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from tutti.schedules.programs.moves import GRAIN, MOST_UNITS, Moves, moves_of, rounded
from tutti.schedules.programs.ordering import InstructionGraph, Listing, Waits, in_order, needed, waits
from tutti.schedules.programs.program import Buffer, Code, Op, Program
from tutti.schedules.schedule import Schedule
from tutti.topologies.errors import InputError
from tutti.topologies.exact import NONE, BoolArray, Int64Array, entries_of, frozen, offsets_of
from tutti.topologies.options import Options, Whole
from tutti.topologies.units import parse_size


class LoweringTuning(NamedTuple):
    """Numbers that steer the search for an order of instructions."""

    depths: tuple[int, ...]
    """Depths of a FIFO, in messages, that are tried in turn if the format does not fix one. The first for
    which an order is found is taken; if there is none, FIFOs may hold any number of messages."""
    rounds: int
    """Largest number of tries; each next one uses more channels, for shorter blocks or emptier FIFOs."""
    most_entries: int
    """Largest number of steps times blocks of a rank for which redundant waits are found through other
    blocks; above it a wait is compared only with the other waits of its instruction."""


TUNING = LoweringTuning(depths=(2, 8), rounds=5, most_entries=2**26)


class TooShallow(InputError):
    """The search found no order of a program's messages for FIFOs of this depth."""


@dataclass(frozen=True)
class FormatLimits:
    """The limits of a format.

    Parameters
    ----------
    blocks
        The largest number of blocks of a rank.
    steps
        The largest number of steps of a block.
    length
        The largest number of units that an instruction moves.
    depth
        The number of messages that a FIFO holds; None if the format doesn't fix it.
    peers
        The largest number of ranks that a rank sends to, or receives from, on one channel.
    """

    blocks: int = MOST_UNITS
    steps: int = MOST_UNITS
    length: int = MOST_UNITS
    depth: int | None = None
    peers: int = MOST_UNITS


@dataclass(frozen=True)
class LoweringOptions(Options):
    """Options for lowering a schedule to a program.

    Parameters
    ----------
    in_place
        Whether input and output share one memory.
    instances
        The number of parts that each chunk is cut into; each part has channels of its own.
    units
        The largest number of units of an item; chunks that are not whole units are rounded.
    size
        The value of M for which independent instructions are ordered.
    name
        The program's name; by default the collective and the network.
    """

    in_place: bool = False
    instances: Annotated[int, Whole(1, 32)] = 1
    units: Annotated[int, Whole(1, 4096)] = GRAIN
    size: str = "64MB"
    name: str | None = None

    def lower(self, schedule: Schedule, limits: FormatLimits = FormatLimits()) -> Program:
        """Return the program that does what a legal schedule does.

        Parameters
        ----------
        schedule
            A verified schedule.
        limits
            Blocks are joined and messages cut to meet these limits if that is possible; otherwise the
            format's own check fails.

        Raises
        ------
        Unsupported
            If a switch multicasts or adds.
        InputError
            If M would have more than 2^31 - 1 units.
        TooShallow
            If no order of the messages is found in which no FIFO holds more than `limits.depth`.
        """
        moves = moves_of(
            rounded(schedule, self.units),
            parse_size(self.size),
            in_place=self.in_place,
            instances=self.instances,
            longest=limits.length,
        )
        name = self.name or f"{schedule.collective} on {schedule.topology.name}"
        waiting = waits(moves)
        spread, program = np.ones(0, dtype=np.int64), None
        for _ in range(TUNING.rounds):
            fifos = _Fifos.of_moves(moves, spread, limits.peers)
            joined = _joined(moves, waiting, fifos)
            found, full = _ordered(moves, waiting, fifos, joined[-1], limits.depth)
            if found is not None:
                blocks = _blocks(moves, fifos, joined[:2], limits.blocks)
                program = _assemble(moves, waiting, fifos, *found, blocks, name)
                long = np.flatnonzero(steps_of(program) > limits.steps)
                full = np.isin(blocks.sending, long) | np.isin(blocks.receiving, long)
            if not full.any():
                break
            # Paths with a FIFO that is full, or in a block that is too long, get twice as many channels.
            inside = fifos.of != NONE
            paths = int(fifos.path.max()) + 1
            more = np.ones(paths, dtype=np.int64) if len(spread) == 0 else spread.copy()
            more[np.unique(fifos.path[inside][full[fifos.of[inside]]])] *= 2
            spread = more
        if program is None:
            raise TooShallow(
                f"{name} does not fit: no order of its messages was found for {limits.depth} a FIFO"
            )
        return program


def lower(schedule: Schedule, limits: FormatLimits = FormatLimits(), **options: Any) -> Program:
    """Return the program of a verified schedule, as `LoweringOptions.lower`, whose fields are the options."""
    return LoweringOptions(**options).lower(schedule, limits)


def steps_of(program: Program) -> Int64Array:
    """int64 (blocks,): the steps of each block if a step holds at most one wait, as in MSCCL's files."""
    steps = np.maximum(np.diff(program.wait_begin), 1)
    return np.diff(offsets_of(steps)[program.begin])


class _Fifos(NamedTuple):
    """The FIFOs, and the FIFO of each move.

    Parameters
    ----------
    of
        int64, shape (moves,): the FIFO of each move, -1 for copies.
    source, target, channel
        int64, shape (fifos,): the ranks and the channel of each FIFO.
    path
        int64, shape (moves,): the number of each move's (source, target, path). A FIFO carries all or a part
        of the moves with one number.
    """

    of: Int64Array
    source: Int64Array
    target: Int64Array
    channel: Int64Array
    path: Int64Array

    @classmethod
    def of_moves(cls, moves: Moves, spread: Int64Array, peers: int) -> _Fifos:
        """Number the FIFOs. `spread` is the number of channels of each path; if it is empty, each has one.

        If a rank has more than `peers` peers on a channel, each of the channels is split by the difference of
        target and source; every rank has at most one peer for each difference.
        """
        ranks = moves.collective.num_ranks
        sent = np.flatnonzero(moves.source != moves.target)
        width = int(moves.path.max(initial=0)) + 1
        pair = (moves.source[sent] * ranks + moves.target[sent]) * width + moves.path[sent]
        path = np.unique(pair, return_inverse=True)[1]
        most = int(spread.max(initial=1))
        part = moves.datum[sent] % spread[path] if len(spread) else 0 * path
        channel = moves.path[sent] * most + part
        _, first, which = np.unique(path * most + part, return_index=True, return_inverse=True)
        of, paths = (np.full(len(moves), NONE, dtype=np.int64) for _ in range(2))
        of[sent], paths[sent] = which, path
        source, target, channel = (
            column[first] for column in (moves.source[sent], moves.target[sent], channel)
        )
        counts = (
            np.unique(end * (channel.max(initial=0) + 1) + channel, return_counts=True)[1]
            for end in (source, target)
        )
        if max(int(count.max(initial=0)) for count in counts) > peers:
            channel = channel * ranks + (target - source) % ranks // peers
        return cls(of, source, target, np.unique(channel, return_inverse=True)[1], paths)


def _ordered(
    moves: Moves, waiting: Waits, fifos: _Fifos, fused: Int64Array, depth: int | None
) -> tuple[tuple[InstructionGraph, Int64Array] | None, BoolArray]:
    """Return the fused instructions and an order of them (or None), and which FIFOs were full.

    Instructions are fused if that leaves an order. The candidate orders follow the simulated times or the
    turns of the replay.
    """
    nodes = np.arange(2 * len(moves))
    times = np.stack([moves.begin, moves.end], axis=1).ravel()
    turns = np.stack([moves.reading, moves.writing], axis=1).ravel().astype(np.float64)
    joined = _flow(moves, fifos, np.where(fused == NONE, nodes, fused))
    apart = _flow(moves, fifos, nodes)
    if depth is None:  # the last, the replay's own order, is always one
        tries = [(flow, times, most) for flow in (joined, apart) for most in TUNING.depths]
        tries += [(flow, times, MOST_UNITS) for flow in (joined, apart)] + [(apart, turns, MOST_UNITS)]
    else:
        tries = [(flow, when, depth) for flow in (joined, apart) for when in (times, turns)]
    for flow, when, most in tries:
        order = in_order(waiting, flow, when, most)
        if order.nodes is not None:
            return (flow, order.nodes), order.full
    return None, order.full


def _joined(moves: Moves, waiting: Waits, fifos: _Fifos) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Choose FIFOs that share a block, where one ends and the other begins, and the instructions fused there.

    A send can be fused with a receive if it sends what that receive stored and waits for nothing else. Then
    fusing can't create a cycle.

    Returns
    -------
    into, onto
        int64, shape (fifos,): the FIFO that each FIFO continues into (or comes from), -1 for none.
    fused
        int64, shape (nodes,): the receive that each send is fused with, -1 for none.
    """
    number = len(fifos.source)
    into, onto = np.full(number, NONE, dtype=np.int64), np.full(number, NONE, dtype=np.int64)
    fused = np.full(2 * len(moves), NONE, dtype=np.int64)
    only = np.flatnonzero((np.diff(waiting.begin)[::2] == 1) & (fifos.of != NONE))
    received = waiting.node[waiting.begin[2 * only]]
    before = received // 2
    whole = (received % 2 == 1) & (moves.length[only] == moves.length[before])
    for mine, theirs in zip(moves.read, moves.write, strict=True):
        whole &= mine[only] == theirs[before]
    whole &= fifos.channel[fifos.of[only]] == fifos.channel[fifos.of[before]]
    after, before = only[whole], before[whole]
    key, which, count = np.unique(
        fifos.of[before] * number + fifos.of[after], return_inverse=True, return_counts=True
    )
    total = np.bincount(fifos.of[fifos.of != NONE], minlength=number)
    chosen = np.zeros(len(key), dtype=np.bool_)
    for pair in np.lexsort((key, -count)):
        one, other = divmod(int(key[pair]), number)
        enough = 2 * count[pair] >= max(total[one], total[other])
        if enough and into[one] == NONE and onto[other] == NONE:
            into[one], onto[other], chosen[pair] = other, one, True
    after, before = after[chosen[which]], before[chosen[which]]
    _, first = np.unique(before, return_index=True)
    fused[2 * after[first]] = 2 * before[first] + 1
    return into, onto, fused


def _flow(moves: Moves, fifos: _Fifos, same: Int64Array) -> InstructionGraph:
    """Return the graph of instructions: a fused send is done by its receive."""
    nodes = 2 * len(moves)
    sends, fifo = (np.full(nodes, NONE, dtype=np.int64) for _ in range(2))
    sent = np.flatnonzero(fifos.of != NONE)
    sends[same[2 * sent]] = 2 * sent + 1
    fifo[2 * sent + 1] = fifos.of[sent]
    # Copies have no second node.
    same = same.copy()
    copies = np.flatnonzero(fifos.of == NONE)
    same[2 * copies + 1] = 2 * copies
    return InstructionGraph(same, sends, fifo)


class _Blocks(NamedTuple):
    """The rank of each thread block; the block of each FIFO's two ends, and of each rank's copies."""

    rank: Int64Array
    sending: Int64Array
    receiving: Int64Array
    copying: Int64Array


def _blocks(moves: Moves, fifos: _Fifos, joined: tuple[Int64Array, Int64Array], most: int) -> _Blocks:
    """Give each end of a FIFO a block; two FIFOs, one of which continues into the other, share one.

    If a rank would have more than `most` blocks, other ends of one channel are joined too.
    """
    into, onto = joined
    ranks, number = moves.collective.num_ranks, len(fifos.source)
    copies = np.zeros(ranks, dtype=np.bool_)
    copies[moves.source[fifos.of == NONE]] = True
    alone_in, alone_out = np.flatnonzero(into == NONE), np.flatnonzero(onto == NONE)
    count = np.bincount(fifos.source, minlength=ranks) + np.bincount(fifos.target[alone_in], minlength=ranks)
    for rank in np.flatnonzero(count + copies > most):
        free: dict[int, list[int]] = {}
        for one in alone_out[fifos.source[alone_out] == rank]:
            free.setdefault(int(fifos.channel[one]), []).append(int(one))
        excess = int(count[rank] + copies[rank] - most)
        for one in alone_in[fifos.target[alone_in] == rank]:
            if excess > 0 and free.get(int(fifos.channel[one])):
                into[one] = free[int(fifos.channel[one])].pop(0)
                excess -= 1
    nobody = np.full(number, NONE, dtype=np.int64)
    # Rows (rank, to, from, channel), sorted as msccl-tools sorts them: one for each sending end, each
    # receiving end that shares no block, and each rank's copies.
    onward = into[into != NONE]
    comes = nobody.copy()
    comes[onward] = fifos.source[np.flatnonzero(into != NONE)]
    alone = np.flatnonzero(into == NONE)
    copiers = np.flatnonzero(copies)
    rows = np.concatenate(
        [
            np.stack([fifos.source, fifos.target, comes, fifos.channel]),
            np.stack([fifos.target[alone], nobody[alone], fifos.source[alone], fifos.channel[alone]]),
            np.stack([copiers, *[np.full(len(copiers), NONE)] * 2, 0 * copiers]),
        ],
        axis=1,
    )
    order = np.lexsort(rows[::-1])
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    receiving = np.where(into == NONE, NONE, place[np.maximum(into, 0)])
    receiving[alone] = place[number : number + len(alone)]
    copying = np.full(ranks, NONE, dtype=np.int64)
    copying[copiers] = place[number + len(alone) :]
    return _Blocks(rows[0][order], place[:number], receiving, copying)


def _assemble(
    moves: Moves,
    waiting: Waits,
    fifos: _Fifos,
    flow: InstructionGraph,
    order: Int64Array,
    blocks: _Blocks,
    name: str,
) -> Program:
    """Return the program with these instructions, block by block in this order."""
    move = order // 2
    receives = order % 2 == 1
    onward = flow.sends[order]
    sends = onward != NONE
    after = np.where(sends, onward // 2, 0)
    copies = fifos.of[move] == NONE
    sums = receives & (moves.add.buffer[move] != NONE)
    passed = sums & sends & (moves.write.buffer[move] == Buffer.SCRATCH) & (waiting.readers[order] == 1)
    op = np.select(
        [copies, ~receives, passed, sums & sends, sums, sends],
        [
            Op.COPY,
            Op.SEND,
            Op.RECV_REDUCE_SEND,
            Op.RECV_REDUCE_COPY_SEND,
            Op.RECV_REDUCE_COPY,
            Op.RECV_COPY_SEND,
        ],
        Op.RECV,
    )
    # A copy has the FIFO -1, even if there is no FIFO at all.
    columns = (blocks.sending, blocks.receiving, fifos.channel)
    sending, receiving, channel = (np.append(each, NONE)[fifos.of[move]] for each in columns)
    block = np.select([copies, receives], [blocks.copying[moves.source[move]], receiving], sending)
    placed = np.argsort(block, kind="stable")
    number = np.full(2 * len(moves), NONE, dtype=np.int64)
    number[order[placed]] = np.arange(len(order))
    number = number[flow.same]

    def column(own: Int64Array, added: Int64Array, used: BoolArray) -> Int64Array:
        return np.where(used, np.where(receives, added[move], own[move]), NONE)[placed]

    reading = ~receives | sums
    writing = copies | (receives & ~passed)
    code = Code(
        op[placed],
        column(moves.read.buffer, moves.add.buffer, reading),
        column(moves.read.offset, moves.add.offset, reading),
        column(moves.write.buffer, moves.write.buffer, writing),
        column(moves.write.offset, moves.write.offset, writing),
        moves.length[move][placed],
        np.where(sends, moves.target[after], NONE)[placed],
        np.where(receives, moves.source[move], NONE)[placed],
        np.where(copies, 0, channel)[placed],
    )
    begin = offsets_of(np.bincount(block, minlength=len(blocks.rank)))
    rank = blocks.rank[block]
    by_rank = np.argsort(rank, kind="stable")
    nodes = order[placed]
    many = np.diff(waiting.begin)[nodes]
    row, place = entries_of(many)
    which = waiting.begin[nodes[row]] + place
    wait_begin, waits_for = needed(
        Listing(begin, np.searchsorted(blocks.rank, np.arange(moves.collective.num_ranks + 1))),
        number[order[by_rank]],
        offsets_of(many),
        number[waiting.node[which]],
        TUNING.most_entries,
    )
    used, scratch = _packed(code, blocks.rank[block[placed]], moves.scratch)
    rank32, scratch32, waits32 = (frozen(column, np.int32) for column in (blocks.rank, scratch, waits_for))
    head = (moves.collective, moves.units, moves.in_place, scratch32)
    return Program(*head, rank32, begin, used, wait_begin, waits32, name)


def _packed(code: Code, rank: Int64Array, scratch: Int64Array) -> tuple[Code, Int64Array]:
    """Remove the units of scratch that no instruction names."""
    begin = offsets_of(scratch)
    marks = np.zeros(begin[-1] + 1, dtype=np.int64)
    sides = [
        (code.source_buffer == Buffer.SCRATCH, code.source_offset),
        (code.target_buffer == Buffer.SCRATCH, code.target_offset),
    ]
    for inside, offset in sides:
        first = begin[rank[inside]] + offset[inside]
        np.add.at(marks, first, 1)
        np.add.at(marks, first + code.length[inside], -1)
    place = offsets_of(np.cumsum(marks[:-1]) > 0)
    source, target = (
        np.where(inside, place[np.minimum(begin[rank] + offset, begin[-1])] - place[begin[rank]], offset)
        for inside, offset in sides
    )
    return code._replace(source_offset=source, target_offset=target), np.diff(place[begin])
