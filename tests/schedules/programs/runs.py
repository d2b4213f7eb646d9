"""Programs run in plain Python, blocks at random: each unit of memory is the sum of what it is made of."""

import random
from collections import Counter, defaultdict, deque

from tutti.schedules.collective import EVERYONE
from tutti.schedules.programs.program import Op, Program

ADDS = (Op.RECV_REDUCE_SEND, Op.RECV_REDUCE_COPY, Op.RECV_REDUCE_COPY_SEND)


def outcome(program: Program, seed: int = 0, depth: int = 8, *, by_unit: bool = False) -> str:
    """Return "right", "deadlock", or what is wrong, after one run over FIFOs of this depth.

    By unit: what sends or receives does so a unit at a time, as MSCCL's interpreter with large chunks.
    """
    return Run(program, depth, by_unit).go(random.Random(seed))


def parts(one, by_unit):
    """Return what an instruction does one after the other."""
    if not by_unit or not (one.op.receives or one.op.sends):
        return [one]
    return [
        one._replace(
            source=one.source._replace(offset=one.source.offset + unit),
            target=one.target._replace(offset=one.target.offset + unit),
            length=1,
        )
        for unit in range(one.length)
    ]


class Run:
    """One run, its memory a list of counters of (item, unit, contributor) by rank."""

    def __init__(self, program: Program, depth: int, by_unit: bool = False) -> None:
        self.program, self.layout, self.depth = program, program.layout, depth
        self.memory = [[None] * int(units) for units in self.layout.memory]
        self.fifo, self.done = defaultdict(deque), set()
        numbers = [range(*program.begin[block : block + 2]) for block in range(program.num_blocks)]
        self.blocks = [
            [(number, part) for number in of for part in parts(program.instruction(number), by_unit)]
            for of in numbers
        ]
        self.left = Counter(number for block in self.blocks for number, _ in block)
        for rank, item, offset in self.standing(self.layout.input):
            for unit in range(self.layout.length[item]):
                first = self.layout.base[rank, 0] + offset
                self.memory[rank][first + unit] = Counter({(item, unit, rank): 1})

    def standing(self, placement):
        """Yield (rank, item, offset) of an input or output."""
        for rank in range(self.program.num_ranks):
            for entry in range(*placement.begin[rank : rank + 2]):
                yield rank, int(placement.item[entry]), int(placement.offset[entry])

    def go(self, rng: random.Random) -> str:
        """Run blocks at random until none is left or none can go on, and compare the outputs."""
        place = [0] * len(self.blocks)
        live = [block for block in range(len(self.blocks)) if self.blocks[block]]
        while live:
            moved = False
            for block in rng.sample(live, len(live)):
                if self.step(block, *self.blocks[block][place[block]]):
                    place[block] += 1
                    moved = True
            if not moved:
                return "deadlock"
            live = [block for block in live if place[block] < len(self.blocks[block])]
        if any(self.fifo.values()):
            return "messages are left"
        return self.compare()

    def step(self, block: int, number: int, one) -> bool:
        """Do one instruction if it can be done."""
        rank = int(self.program.rank[block])
        waits = self.program.waits[slice(*self.program.wait_begin[number : number + 2])]
        coming, going = self.fifo[one.origin, rank, one.channel], self.fifo[rank, one.to, one.channel]
        if not self.done.issuperset(waits.tolist()):
            return False
        if (one.op.receives and not coming) or (one.op.sends and len(going) >= self.depth):
            return False
        value = coming.popleft() if one.op.receives else self.cells(rank, one.source, one.length)[:]
        assert len(value) == one.length
        assert None not in value, f"{self.program.place(number)} reads what isn't there"
        if one.op in ADDS:
            added = self.cells(rank, one.source, one.length)
            value = [mine + theirs for mine, theirs in zip(value, added, strict=True)]
        if one.op.writes:
            first = self.layout.base[rank, one.target.buffer] + one.target.offset
            self.memory[rank][first : first + one.length] = value
        if one.op.sends:
            going.append(value)
        self.left[number] -= 1
        if not self.left[number]:
            self.done.add(number)
        return True

    def cells(self, rank, address, length):
        first = self.layout.base[rank, address.buffer] + address.offset
        return self.memory[rank][first : first + length]

    def compare(self) -> str:
        items, members = self.program.collective.items, self.program.collective.members
        for rank, item, offset in self.standing(self.layout.output):
            everyone = items.start[item] == EVERYONE
            owners = members[items.group[item]] if everyone else (int(items.start[item]),)
            for unit in range(self.layout.length[item]):
                found = self.memory[rank][self.layout.base[rank, 1] + offset + unit]
                if found != Counter({(item, unit, owner): 1 for owner in owners}):
                    return f"rank {rank} ends with {found} as unit {unit} of item {item}"
        return "right"
