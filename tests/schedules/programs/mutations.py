"""Mutations of tiny programs, and a check that the judge finds all their faults.

``python -m tests.schedules.programs.mutations 1000`` tries 1000 mutations and prints their counts.
"""

import sys
from collections import Counter

import numpy as np

from tests.schedules.programs.oracle import Explorer
from tutti.schedules.collective import collective
from tutti.schedules.programs.interpreter import ProgramError, judge
from tutti.schedules.programs.program import Address, Buffer, Instruction, Op, Program
from tutti.topologies.errors import InputError

IN, OUT, SCRATCH = Buffer


def ring_allgather(n=3, length=1):
    """Return a ring allgather in which each rank has a sending and a receiving block."""
    ranks = []
    for rank in range(n):
        after, before = (rank + 1) % n, (rank - 1) % n
        at = [Address(OUT, (rank - hop) % n * length) for hop in range(n)]
        sender = [Instruction(Op.COPY, Address(IN, 0), at[0], length)]
        sender += [Instruction(Op.SEND, Address(IN, 0), length=length, to=after)]
        sender += [
            Instruction(Op.SEND, at[hop], length=length, to=after, waits=((1, hop - 1),))
            for hop in range(1, n - 1)
        ]
        receiver = [Instruction(Op.RECV, target=at[hop], length=length, origin=before) for hop in range(1, n)]
        ranks.append([sender, receiver])
    return "allgather", n, n * length, ranks, False, 0


def ring_allreduce(n=3):
    """Return a ring allreduce in place, with one block per rank and fused instructions."""
    ranks = []
    for rank in range(n):
        after, before = (rank + 1) % n, (rank - 1) % n
        at = [Address(OUT, (rank - hop) % n) for hop in range(n + 1)]
        block = [Instruction(Op.SEND, at[0], to=after)]
        block += [
            Instruction(Op.RECV_REDUCE_SEND, at[hop], to=after, origin=before) for hop in range(1, n - 1)
        ]
        block += [Instruction(Op.RECV_REDUCE_COPY_SEND, at[n - 1], at[n - 1], to=after, origin=before)]
        block += [
            Instruction(Op.RECV_COPY_SEND, target=at[hop], to=after, origin=before) for hop in range(n - 2)
        ]
        ranks.append([[*block, Instruction(Op.RECV, target=at[n - 2], origin=before)]])
    return "allreduce", n, n, ranks, True, 0


def pairwise_reduce_scatter():
    """Return two ranks that receive into scratch, reduce in another block, and copy."""
    ranks = []
    for rank in range(2):
        other = 1 - rank
        ranks.append(
            [
                [Instruction(Op.SEND, Address(IN, other * 2), length=2, to=other)],
                [Instruction(Op.RECV, target=Address(SCRATCH, 0), length=2, origin=other)],
                [
                    Instruction(Op.REDUCE, Address(IN, rank * 2), Address(SCRATCH, 0), 2, waits=((1, 0),)),
                    Instruction(Op.COPY, Address(SCRATCH, 0), Address(OUT, 0), 2),
                ],
            ]
        )
    return "reduce-scatter", 2, 4, ranks, False, 2


def direct_all_to_all():
    """Return an all-to-all of two ranks on two channels, with one unit on each."""
    ranks = []
    for rank in range(2):
        other = 1 - rank
        blocks = [
            [
                Instruction(Op.SEND, Address(IN, other * 2 + c), to=other, channel=c),
                Instruction(Op.RECV, target=Address(OUT, other * 2 + c), origin=other, channel=c),
            ]
            for c in range(2)
        ]
        blocks[0] += [Instruction(Op.COPY, Address(IN, rank * 2), Address(OUT, rank * 2), 2)]
        ranks.append(blocks)
    return "all-to-all", 2, 4, ranks, False, 0


def put_broadcast():
    """Rank 0 writes to rank 1 and signals; rank 1 copies and signals back, and rank 0 overwrites."""
    first = [
        Instruction(Op.COPY, Address(IN, 0), Address(SCRATCH, 0), to=1),
        Instruction(Op.SIGNAL, to=1),
        Instruction(Op.WAIT, origin=1),
        Instruction(Op.COPY, Address(IN, 1), Address(SCRATCH, 0), to=1),
        Instruction(Op.SIGNAL, to=1),
    ]
    second = [
        Instruction(Op.WAIT, origin=0),
        Instruction(Op.COPY, Address(SCRATCH, 0), Address(OUT, 0)),
        Instruction(Op.SIGNAL, to=0),
        Instruction(Op.WAIT, origin=0),
        Instruction(Op.COPY, Address(SCRATCH, 0), Address(OUT, 1)),
    ]
    own = [Instruction(Op.COPY, Address(IN, 0), Address(OUT, 0), 2)]
    return "broadcast", 2, 2, [[first, own], [second]], False, 1


def get_allgather():
    """Each of three ranks reads from the others after their signal, in place."""
    ranks = []
    for rank in range(3):
        others = [r for r in range(3) if r != rank]
        blocks = [[Instruction(Op.SIGNAL, to=other) for other in others]]
        blocks += [
            [
                Instruction(Op.WAIT, origin=other),
                Instruction(Op.COPY, Address(IN, 0), Address(OUT, other), origin=other),
            ]
            for other in others
        ]
        ranks.append(blocks)
    return "allgather", 3, 3, ranks, True, 0


def gathered_allreduce():
    """Each of two ranks sends one half, which the other reduces and returns; a nop waits for both."""
    ranks = []
    for rank in range(2):
        other = 1 - rank
        ranks.append(
            [
                [
                    Instruction(Op.SEND, Address(IN, other), to=other),
                    Instruction(Op.RECV, target=Address(OUT, other), origin=other, channel=1),
                ],
                [
                    Instruction(Op.RECV_REDUCE_COPY, Address(IN, rank), Address(SCRATCH, 0), origin=other),
                    Instruction(Op.SEND, Address(SCRATCH, 0), to=other, channel=1),
                ],
                [
                    Instruction(Op.NOP, waits=((1, 0),)),
                    Instruction(Op.COPY, Address(SCRATCH, 0), Address(OUT, rank), waits=((0, 1),)),
                ],
            ]
        )
    return "allreduce", 2, 2, ranks, False, 1


BASES = (
    ring_allgather(),
    ring_allgather(2, 2),
    ring_allreduce(),
    ring_allreduce(2),
    pairwise_reduce_scatter(),
    direct_all_to_all(),
    put_broadcast(),
    get_allgather(),
    gathered_allreduce(),
)


def program_of(kind, n, units, ranks, in_place, scratch):
    return Program.of(collective(kind, n), units, ranks, in_place=in_place, scratch=[scratch] * n)


def drop(rng, blocks, block, step):
    del blocks[block][step]
    return _renumbered(blocks, block, lambda s: s - (s >= step) if step or s else 0)


def duplicate(rng, blocks, block, step):
    blocks[block].insert(step, blocks[block][step])
    return _renumbered(blocks, block, lambda s: s + (s > step))


def swap(rng, blocks, block, step):
    other = int(rng.integers(len(blocks[block])))
    here = blocks[block]
    here[step], here[other] = here[other], here[step]
    return blocks


def _renumbered(blocks, block, move):
    return [
        [one._replace(waits=tuple((b, move(s) if b == block else s) for b, s in one.waits)) for one in each]
        for each in blocks
    ]


def _field(change):
    def mutate(rng, blocks, block, step):
        blocks[block][step] = blocks[block][step]._replace(**change(rng, blocks[block][step]))
        return blocks

    return mutate


def _shift(rng, address):
    return address._replace(offset=address.offset + int(rng.choice([-1, 1, 2])))


MUTATIONS = {
    "drop": drop,
    "duplicate": duplicate,
    "swap": swap,
    "peer": _field(lambda rng, one: {
        side: int(rng.integers(-1, 3)) for side in ("to", "origin") if getattr(one, side) >= 0
    }),
    "channel": _field(lambda rng, one: {"channel": int(rng.integers(3))}),
    "source": _field(lambda rng, one: {"source": _shift(rng, one.source)}),
    "target": _field(lambda rng, one: {"target": _shift(rng, one.target)}),
    "count": _field(lambda rng, one: {"length": one.length + int(rng.choice([-1, 1]))}),
    "no waits": _field(lambda rng, one: {"waits": ()}),
    "swapped": _field(lambda rng, one: {"source": one.target, "target": one.source}),
    "buffer": _field(lambda rng, one: {
        side: getattr(one, side)._replace(buffer=int(rng.integers(3)))
        for side in [rng.choice(["source", "target"])]
    }),
    "op": _field(lambda rng, one: {"op": Op(int(rng.integers(len(Op))))}),
}  # fmt: skip


def mutant(seed):
    """Return the name of a mutation, and the arguments of `program_of` for the mutated program."""
    rng = np.random.default_rng(seed)
    kind, n, units, ranks, in_place, scratch = BASES[seed % len(BASES)]
    name = list(MUTATIONS)[seed // len(BASES) % len(MUTATIONS)]
    while True:
        mutated = [[list(block) for block in rank] for rank in ranks]
        rank = int(rng.integers(n))
        block = int(rng.integers(len(mutated[rank])))
        step = int(rng.integers(len(mutated[rank][block])))
        mutated[rank] = MUTATIONS[name](rng, mutated[rank], block, step)
        if mutated != ranks:
            return name, (kind, n, units, mutated, in_place, scratch)
        name = str(rng.choice(list(MUTATIONS)))  # if there is nothing to drop


def compare(seed):
    """Return the mutation, the oracle's faults, and the judge's fault (None: no fault).

    Some programs have FIFOs of depth 1 or 2, and may rely on that.
    """
    depth = (None, 1, 2)[np.random.default_rng([seed, 1]).integers(3)]
    name, arguments = mutant(seed)
    try:
        program = program_of(*arguments)
    except InputError as error:
        return name, "refused", str(error)
    wrong = Explorer(program, depth).explore()
    try:
        judge(program, interleavings=2, seed=seed, depth=depth, full=True)
    except ProgramError as error:
        return name, wrong, str(error)
    return name, wrong, None


def main(count):
    found, missed = Counter(), []
    for seed in range(count):
        name, wrong, said = compare(seed)
        found[wrong or "still right"] += 1
        if (wrong is None) != (said is None):
            missed.append((seed, name, wrong, said))
    return found, missed


if __name__ == "__main__":
    for part in main(int(sys.argv[1])):
        sys.stdout.write(f"{part}\n")
