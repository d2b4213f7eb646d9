"""An oracle for the judge: every interleaving of a tiny program, in plain Python.

A value is the sorted tuple of the inputs, (rank, unit), that it sums. A race shows as two blocks
that can both run now and access one cell (one of them writing) or one end of a connection.
"""

import itertools

from tutti.schedules.programs.program import Buffer, Op, Program

RECEIVES = {Op.RECV, Op.RECV_COPY_SEND, Op.RECV_REDUCE_SEND, Op.RECV_REDUCE_COPY, Op.RECV_REDUCE_COPY_SEND}
SENDS = {Op.SEND, Op.RECV_COPY_SEND, Op.RECV_REDUCE_SEND, Op.RECV_REDUCE_COPY_SEND}
SOURCES = {Op.COPY, Op.REDUCE, Op.SEND, Op.RECV_REDUCE_SEND, Op.RECV_REDUCE_COPY, Op.RECV_REDUCE_COPY_SEND}
TARGETS = SOURCES - {Op.SEND, Op.RECV_REDUCE_SEND} | {Op.RECV, Op.RECV_COPY_SEND}


def expected(kind, ranks, units, rank):
    """Return the output of a rank for M in `units` units, as in MPI's buffers, with root 0."""
    shard, everyone = units // ranks, range(ranks)
    if kind == "allgather":
        return [[(owner, k)] for owner in everyone for k in range(shard)]
    if kind == "allreduce":
        return [[(owner, k) for owner in everyone] for k in range(units)]
    if kind == "reduce-scatter":
        return [[(owner, rank * shard + k) for owner in everyone] for k in range(shard)]
    if kind == "broadcast":
        return [[(0, k)] for k in range(units)]
    if kind == "all-to-all":
        return [[(owner, rank * shard + k)] for owner in everyone for k in range(shard)]
    raise ValueError(kind)


def inputs(kind, ranks, units, rank):
    return {"allgather": units // ranks, "broadcast": 0 if rank else units}.get(kind, units)


class Explorer:
    def __init__(self, program: Program, depth: int | None = None) -> None:
        self.kind, self.ranks, self.units = str(program.collective.kind), program.num_ranks, program.units
        self.in_place, self.depth = program.in_place, depth
        self.blocks = [
            [program.instruction(i) for i in range(program.begin[b], program.begin[b + 1])]
            for b in range(program.num_blocks)
        ]
        self.rank = program.rank.tolist()
        self.first = [self.rank.index(r) if r in self.rank else None for r in range(self.ranks)]

    def cell(self, rank, buffer, offset):
        """Return the cell of an address; in place the smaller of input and output is a part of the larger."""
        if self.in_place and buffer == Buffer.INPUT:
            shift = rank * (self.units // self.ranks) if self.kind == "allgather" else 0
            return rank, "data", offset + shift
        if self.in_place and buffer == Buffer.OUTPUT:
            shift = rank * (self.units // self.ranks) if self.kind == "reduce-scatter" else 0
            return rank, "data", offset + shift
        return rank, int(buffer), offset

    def cells(self, block, instruction):
        rank, local = self.rank[block], instruction.op in (Op.COPY, Op.REDUCE)
        source = target = []
        if instruction.op in SOURCES:
            where = instruction.origin if local and instruction.origin >= 0 else rank
            source = [self.cell(where, instruction.source.buffer, instruction.source.offset + k)
                      for k in range(instruction.length)]  # fmt: skip
        if instruction.op in TARGETS:
            where = instruction.to if local and instruction.to >= 0 else rank
            target = [self.cell(where, instruction.target.buffer, instruction.target.offset + k)
                      for k in range(instruction.length)]  # fmt: skip
        return source, target

    def ends(self, block, instruction):
        rank, op = self.rank[block], instruction.op
        signal = op in (Op.SIGNAL, Op.WAIT)
        out = (signal, rank, instruction.to, instruction.channel) if op in SENDS | {Op.SIGNAL} else None
        into = (signal, instruction.origin, rank, instruction.channel) if op in RECEIVES | {Op.WAIT} else None
        return out, into

    def start(self):
        memory = {}
        for rank in range(self.ranks):
            for k in range(inputs(self.kind, self.ranks, self.units, rank)):
                memory[self.cell(rank, Buffer.INPUT, k)] = ((rank, k),)
        return (0,) * len(self.blocks), memory, {}

    def can_start(self, steps, fifos, block):
        if steps[block] == len(self.blocks[block]):
            return False
        instruction = self.blocks[block][steps[block]]
        first = self.first[self.rank[block]]
        if any(steps[first + b] <= step for b, step in instruction.waits):
            return False
        out, into = self.ends(block, instruction)
        if into and not fifos.get(into):
            return False
        return not (out and self.depth and not out[0] and len(fifos.get(out, ())) >= self.depth)

    def touches(self, steps, block):
        instruction = self.blocks[block][steps[block]]
        source, target = self.cells(block, instruction)
        out, into = self.ends(block, instruction)
        writes = {*target, *[("out", out)] * bool(out), *[("into", into)] * bool(into)}
        return {*source, *writes}, writes

    def races(self, steps, enabled):
        touched = [self.touches(steps, block) for block in enabled]
        return any(wa & b or wb & a for (a, wa), (b, wb) in itertools.combinations(touched, 2))

    def overlaps(self, block, instruction):
        source, target = self.cells(block, instruction)
        return bool(source and target and source != target and set(source) & set(target))

    def step(self, state, block):
        """Return the state after the block's next instruction, or its fault."""
        steps, memory, fifos = state
        instruction = self.blocks[block][steps[block]]
        source, target = self.cells(block, instruction)
        out, into = self.ends(block, instruction)
        memory, fifos = dict(memory), dict(fifos)
        words = [()] * max(len(source), len(target))
        if into:
            message, *rest = fifos[into]
            fifos[into] = tuple(rest)
            if len(message) != len(words):
                return "unequal"
            words = list(message)
        for k, cell in enumerate(source):
            if cell not in memory:
                return "unset"
            words[k] = tuple(sorted(words[k] + memory[cell]))
        if instruction.op == Op.REDUCE:
            if any(cell not in memory for cell in target):
                return "unset"
            words = [tuple(sorted(words[k] + memory[cell])) for k, cell in enumerate(target)]
        for k, cell in enumerate(target):
            memory[cell] = words[k]
        if out:
            fifos[out] = (*fifos.get(out, ()), tuple(words))
        return (*steps[:block], steps[block] + 1, *steps[block + 1 :]), memory, fifos

    def wrong_end(self, state):
        steps, memory, fifos = state
        if any(step < len(block) for step, block in zip(steps, self.blocks, strict=True)):
            return "deadlock"
        for rank in range(self.ranks):
            for k, value in enumerate(expected(self.kind, self.ranks, self.units, rank)):
                if memory.get(self.cell(rank, Buffer.OUTPUT, k)) != tuple(sorted(value)):
                    return "wrong"
        return "left over" if any(fifos.values()) else None

    def explore(self, most=200_000):
        """Whatever can go wrong first, or None."""
        if any(self.overlaps(b, one) for b, block in enumerate(self.blocks) for one in block):
            return "overlap"
        unvisited, seen = [self.start()], set()
        while unvisited:
            state = unvisited.pop()
            enabled = [b for b in range(len(self.blocks)) if self.can_start(state[0], state[2], b)]
            if self.races(state[0], enabled):
                return "race"
            if not enabled and (wrong := self.wrong_end(state)):
                return wrong
            for block in enabled:
                after = self.step(state, block)
                if isinstance(after, str):
                    return after
                key = (after[0], tuple(sorted(after[1].items(), key=repr)), tuple(sorted(after[2].items())))
                if (key := hash(key)) not in seen:
                    seen.add(key)
                    unvisited.append(after)
            if len(seen) > most:
                raise RuntimeError("too many states")
        return None
