"""Programs by hand that several tests share."""

from itertools import pairwise, permutations

from tutti.schedules.collective import KINDS, Kind, collective
from tutti.schedules.programs.program import NOWHERE, Address, Buffer, BufferItems, Instruction, Op, Program

IN, OUT, SCRATCH = Buffer


def ring_allgather(ranks: int, *, in_place: bool = False) -> Program:
    """Return the program that sends its shard and forwards what it receives."""
    blocks = []
    for rank in range(ranks):
        after, before = (rank + 1) % ranks, (rank - 1) % ranks
        block = [] if in_place else [Instruction(Op.COPY, Address(IN, 0), Address(OUT, rank))]
        own = Address(OUT, rank) if in_place else Address(IN, 0)
        block += [Instruction(Op.SEND, own, to=after)]
        block += [
            Instruction(Op.RECV_COPY_SEND, NOWHERE, Address(OUT, (rank - hop) % ranks), 1, after, before)
            for hop in range(1, ranks - 1)
        ]
        block += [Instruction(Op.RECV, NOWHERE, Address(OUT, after), origin=before)]
        blocks.append([block])
    return Program.of(collective("allgather", ranks), ranks, blocks, in_place=in_place, name="ring")


def pairs_allreduce(ranks: int) -> Program:
    """All pairs, in place: each part goes to its owner's scratch and is added there; the sum goes to all."""
    blocks = []
    for rank in range(ranks):
        others = [other for other in range(ranks) if other != rank]
        place = {other: number for number, other in enumerate(others)}
        adds = [
            Instruction(
                Op.REDUCE,
                Address(SCRATCH, place[other]),
                Address(IN, rank),
                waits=tuple((1 + place[one], 1) for one in others) if other == others[0] else (),
            )
            for other in others
        ]
        exchanges = [
            [
                Instruction(Op.SEND, Address(IN, other), to=other),
                Instruction(Op.RECV, NOWHERE, Address(SCRATCH, place[other]), origin=other),
                Instruction(Op.SEND, Address(IN, rank), to=other, waits=((0, ranks - 2),)),
                Instruction(Op.RECV, NOWHERE, Address(IN, other), origin=other),
            ]
            for other in others
        ]
        blocks.append([adds, *exchanges])
    return Program.of(collective("allreduce", ranks), ranks, blocks, in_place=True, name="pairs")


def ring_allreduce(ranks: int) -> Program:
    """Reduce-scatter round the ring and allgather round it, each in one block, the sums never stored."""
    blocks = []
    for rank in range(ranks):
        to, origin = (rank + 1) % ranks, (rank - 1) % ranks

        def at(hops: int, rank: int = rank) -> int:
            return (rank - hops) % ranks

        block = [Instruction(Op.SEND, Address(IN, at(0)), to=to)]
        block += [
            Instruction(Op.RECV_REDUCE_SEND, Address(IN, at(hop)), NOWHERE, 1, to, origin)
            for hop in range(1, ranks - 1)
        ]
        last = at(ranks - 1)
        block += [Instruction(Op.RECV_REDUCE_COPY_SEND, Address(IN, last), Address(OUT, last), 1, to, origin)]
        block += [
            Instruction(Op.RECV_COPY_SEND, NOWHERE, Address(OUT, at(hop)), 1, to, origin)
            for hop in range(ranks - 2)
        ]
        block += [Instruction(Op.RECV, NOWHERE, Address(OUT, at(ranks - 2)), origin=origin)]
        blocks.append([block])
    return Program.of(collective("allreduce", ranks), ranks, blocks, name="ring")


def doubling_allreduce(ranks: int) -> Program:
    """Recursive doubling: in each round two ranks exchange all their data, and both add."""
    blocks = []
    for rank in range(ranks):
        copy = [Instruction(Op.COPY, Address(IN, 0), Address(OUT, 0), ranks)]
        sends, receives = [], []
        bit = 1
        while bit < ranks:
            peer, number = rank ^ bit, len(sends)
            waits = ((0, 0),) if number == 0 else ((2 * number, 0),)
            sends.append([Instruction(Op.SEND, Address(OUT, 0), NOWHERE, ranks, to=peer, waits=waits)])
            waits = ((2 * number + 1, 0),)
            receives.append(
                [
                    Instruction(
                        Op.RECV_REDUCE_COPY,
                        Address(OUT, 0),
                        Address(OUT, 0),
                        ranks,
                        origin=peer,
                        waits=waits,
                    )
                ]
            )
            bit *= 2
        rounds = [block for pair in zip(sends, receives, strict=True) for block in pair]
        blocks.append([copy, *rounds])
    return Program.of(collective("allreduce", ranks), ranks, blocks, name="doubling")


def straight(kind: str, root: int = 1) -> Program:
    """Return any collective except allreduce for three ranks, in one message from each start to each end."""
    what = collective(kind, 3, root=root if Kind(kind).rooted else None)
    layout = Program.of(what, 3, [[]] * 3).layout
    length = layout.length.tolist()
    starts, ends = _places(layout.input), _places(layout.output)
    combines = what.is_combining
    blocks: list[list[list[Instruction]]] = []
    for rank in range(3):
        local = [
            Instruction(Op.COPY, Address(IN, at), Address(OUT, ends[rank][item]), length[item])
            for item, at in starts[rank].items()
            if item in ends[rank]
        ]
        blocks.append([local] if local else [])
    for source, target in permutations(range(3), 2):
        items = [i for i in starts[source] if i in ends[target] and (combines or i not in starts[target])]
        if not items:
            continue
        blocks[source].append(
            [Instruction(Op.SEND, Address(IN, starts[source][i]), NOWHERE, length[i], target) for i in items]
        )
        places = [Address(OUT, ends[target][i]) for i in items]
        op, before = (Op.RECV_REDUCE_COPY, len(blocks[target])) if combines else (Op.RECV, 0)
        waits = tuple((block, len(blocks[target][block]) - 1) for block in range(before))
        blocks[target].append(
            [
                Instruction(op, place if combines else NOWHERE, place, length[i], -1, source, 0, waits)
                for i, place in zip(items, places, strict=True)
            ]
        )
    return Program.of(what, 3, blocks, name=kind)


def _places(placed: BufferItems) -> list[dict[int, int]]:
    """Return the offset of each item in a buffer, for each rank."""
    return [
        dict(zip(placed.item[begin:end].tolist(), placed.offset[begin:end].tolist(), strict=True))
        for begin, end in pairwise(placed.begin.tolist())
    ]


OF_EVERY_KIND = [
    ring_allgather(4),
    ring_allgather(4, in_place=True),
    pairs_allreduce(4),
    ring_allreduce(4),
    doubling_allreduce(4),
    *(straight(str(kind)) for kind in KINDS if kind != "allreduce"),
]
"""Programs of all collectives."""
