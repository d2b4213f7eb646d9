"""Programs by hand for every collective: the owner of a datum sends it to each rank that needs it."""

from collections import defaultdict

import numpy as np

from tutti.schedules.collective import EVERYONE, Collective
from tutti.schedules.programs.program import Address, Buffer, Instruction, Op, Program, item_units


def direct(what: Collective, units: int, channels: int = 1) -> Program:
    """Return that program, out of place, with a block for a rank's own data and one for each FIFO end."""
    items = what.items

    def holders(item, side):
        return what.members[items.group[item]] if side[item] == EVERYONE else [int(side[item])]

    starts = [holders(item, items.start) for item in range(len(items))]
    ends = [holders(item, items.end) for item in range(len(items))]
    length = item_units(what, units).tolist()
    begin, end = _offsets(starts, length), _offsets(ends, length)
    writer = _Writer(what.num_ranks)
    for item, size in enumerate(length):
        channel = item % channels
        for rank in ends[item]:
            source, target = Address(Buffer.INPUT, begin.get((item, rank), 0)), Address(1, end[item, rank])
            fresh = rank not in starts[item]
            if not fresh:
                writer.add(rank, "own", Instruction(Op.COPY, source, target, size), target)
            for giver in (other for other in starts[item] if other != rank):
                source = Address(Buffer.INPUT, begin[item, giver])
                send = Instruction(Op.SEND, source, length=size, to=rank, channel=channel)
                writer.add(giver, ("to", rank, channel), send)
                took = Instruction(Op.RECV, Address(), target, size, origin=giver, channel=channel)
                if not fresh:
                    took = took._replace(op=Op.RECV_REDUCE_COPY, source=target)
                writer.add(rank, ("from", giver, channel), took, target)
                fresh = False
    ranks = [list(blocks.values()) for blocks in writer.blocks]
    return Program.of(what, units, ranks, name=f"direct {what}")


class _Writer:
    """The blocks of each rank by name; writes to one place wait for each other."""

    def __init__(self, ranks):
        self.blocks = [{"own": []} for _ in range(ranks)]
        self.last = {}

    def add(self, rank, name, instruction, place=None):
        block = self.blocks[rank].setdefault(name, [])
        before = self.last.get((rank, place))
        block.append(instruction if before is None else instruction._replace(waits=(before,)))
        if place is not None:
            self.last[rank, place] = (list(self.blocks[rank]).index(name), len(block) - 1)


def _offsets(holders, length):
    place, filled = {}, defaultdict(int)
    for item, ranks in enumerate(holders):
        for rank in ranks:
            place[item, rank] = filled[rank]
            filled[rank] += length[item]
    return place


def expected(what: Collective, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Return the outputs that MPI's standard defines, for equal shards and one group."""
    ranks, root = len(inputs), what.root
    parts = [np.split(one, ranks) if len(one) % ranks == 0 else None for one in inputs]
    nothing = np.empty(0, inputs[0].dtype)
    total = sum(inputs) if what.is_combining else None
    return {
        "allgather": lambda r: np.concatenate(inputs),
        "gather": lambda r: np.concatenate(inputs) if r == root else nothing,
        "broadcast": lambda r: inputs[root],
        "scatter": lambda r: parts[root][r],
        "all-to-all": lambda r: np.concatenate([part[r] for part in parts]),
        "allreduce": lambda r: total,
        "reduce": lambda r: total if r == root else nothing,
        "reduce-scatter": lambda r: np.split(total, ranks)[r],
    }[what.kind]
