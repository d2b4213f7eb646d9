"""Reads MSCCL XML, also from other tools, as a program.

Missing attributes take their usual values; the sizes of input and output follow from the collective. In an
allreduce, a reduce or a broadcast the number of chunks need not be a multiple of the number of ranks. A chunk
is then cut into units so that the item of each rank has a whole number of them. A step of type ``nop`` whose
only effect is to delay the next step of its block is merged into that step.
"""

from __future__ import annotations

from functools import partial
from math import gcd

from tutti.schedules.collective import Collective, Kind
from tutti.schedules.programs.msccl.flavours import BUFFERS, KINDS, LIMITS, TYPES
from tutti.schedules.programs.program import NOWHERE, Address, Instruction, Op, Program
from tutti.topologies.errors import suggestion, within
from tutti.topologies.exact import NONE
from tutti.topologies.xml_files import Element, parse_xml

_PARTS_OF_BUFFER = (Kind.ALLREDUCE, Kind.REDUCE, Kind.BROADCAST)
"""Collectives whose chunks belong to no rank, so that any number of chunks is valid."""

_Waits = tuple[tuple[int, int], ...]


def from_xml(text: str, where: str, *, root: int | None = None, in_place: bool | None = None) -> Program:
    """Return the program in a text; `where` names it in errors, and the others are those of `program_of`.

    Raises
    ------
    InputError
        If the text holds no program; the message names the line.
    """
    return program_of(parse_algo(text, where), root=root, in_place=in_place)


def program_of(algo: Element, *, root: int | None = None, in_place: bool | None = None) -> Program:
    """Return the program that an element ``algo`` describes.

    Parameters
    ----------
    algo
        The element.
    root
        The root of a rooted collective, which the format doesn't name; by default it is derived from the
        program.
    in_place
        Which version is read from a file for both in place and out of place; by default out of place.

    Raises
    ------
    InputError
        As `from_xml`.
    """
    chunks = algo.integer("nchunksperloop", 1, LIMITS.units)
    ranks = algo.integer("ngpus", 2, LIMITS.children)
    gpus = in_order(algo, "gpu")
    if len(gpus) != ranks:
        raise algo.error(f"has ngpus='{ranks}' and {len(gpus)} <gpu>; there must be one each")
    kind = _kind(algo)
    cut = _units_of_chunk(kind, chunks, ranks)
    blocks = [_blocks_of(gpu, ranks, cut) for gpu in gpus]
    moved = sum(i.length for of_rank in blocks for block in of_rank for i in block)
    if moved > LIMITS.moved:
        raise algo.error(f"moves {moved} chunks in all; at most {LIMITS.moved} are read")
    if kind.rooted and root is None:
        from_root = kind in (Kind.BROADCAST, Kind.SCATTER)
        size = "i_chunks" if from_root else "o_chunks"
        having = [rank for rank, gpu in enumerate(gpus) if gpu.integer(size, 0, LIMITS.units, 0) > 0]
        if len(having) != 1:
            having = [
                rank
                for rank, of_rank in enumerate(blocks)
                if not any((i.op.receives if from_root else i.op.sends) for block in of_rank for i in block)
            ]
        if len(having) != 1:
            raise algo.error(f"doesn't show which rank is the root of the {kind}; give it (--root)")
        root = having[0]
    what = Collective(kind, ranks, root if kind.rooted else None)
    scratch = [cut * gpu.integer("s_chunks", 0, LIMITS.units, 0) for gpu in gpus]
    both = places(algo)
    name = algo.attributes.get("name", "") or kind
    place = both[0] if in_place is None else in_place
    make = partial(Program.of, what, cut * chunks, blocks, in_place=place, scratch=scratch, name=name)
    return within(algo.path, make)


def parse_algo(text: str, where: str) -> Element:
    """Return the element ``algo`` of a text.

    Raises
    ------
    InputError
        If it is no XML, or has another root element.
    """
    algo = parse_xml(text, where, most_elements=LIMITS.of_file, most_depth=4)
    if algo.tag != "algo":
        raise algo.error("is no MSCCL program, which is an <algo>")
    return algo


def places(algo: Element) -> tuple[bool, ...]:
    """Return the values of `Program.in_place` that the program is for, out of place first."""
    inside = bool(algo.integer("inplace", 0, 1, 0))
    outside = bool(algo.integer("outofplace", 0, 1, 1 - inside))
    return tuple(place for place, given in ((False, outside), (True, inside)) if given) or (False,)


def in_order(parent: Element, tag: str) -> list[Element]:
    """Return the children with a tag by their ids, which must be 0, 1, ...

    Raises
    ------
    InputError
        If the ids differ from these.
    """
    children = list(parent.each(tag))
    by_id: dict[int, Element] = {}
    for child in children:
        number = child.integer("id", 0, len(children) - 1)
        if number in by_id:
            raise child.error(f"has id='{number}', the same as line {by_id[number].line}")
        by_id[number] = child
    return [by_id[number] for number in range(len(children))]


def _kind(algo: Element) -> Kind:
    name = algo.text("coll")
    if name not in KINDS:
        raise algo.error(f"has coll='{name[:40]}', which isn't read{suggestion(name, KINDS)}")
    return KINDS[name]


def _units_of_chunk(kind: Kind, chunks: int, ranks: int) -> int:
    """Return the number of units that a chunk is cut into."""
    if kind not in _PARTS_OF_BUFFER:
        return 1
    least = Collective(kind, ranks, 0 if kind.rooted else None).items.share.reduced.denominator
    return least // gcd(chunks, least)


def _blocks_of(gpu: Element, ranks: int, cut: int) -> list[list[Instruction]]:
    """Return the instructions of a rank's blocks; each unawaited ``nop`` is merged into the next step."""
    blocks = in_order(gpu, "tb")
    lines = [list(block.each("step")) for block in blocks]
    steps = [
        [_step(step, number, block, ranks, cut) for number, step in enumerate(of_block)]
        for block, of_block in zip(blocks, lines, strict=True)
    ]
    waits = [[_wait(step, lines) for step in of_block] for of_block in lines]
    awaited = {wait for of_block in waits for given in of_block for wait in given}
    place: dict[tuple[int, int], int] = {}
    kept: list[list[tuple[Instruction, _Waits]]] = []
    for block, of_block in enumerate(steps):
        merged: list[tuple[Instruction, _Waits]] = []
        carried: _Waits = ()
        for number, (step, given) in enumerate(zip(of_block, waits[block], strict=True)):
            ends = number == len(of_block) - 1
            if step.op is Op.NOP and given and (block, number) not in awaited and not ends:
                carried += given
                continue
            place[block, number] = len(merged)
            merged.append((step, carried + given))
            carried = ()
        kept.append(merged)
    return [
        [step._replace(waits=tuple((b, place[b, s]) for b, s in given)) for step, given in merged]
        for merged in kept
    ]


def _step(step: Element, number: int, block: Element, ranks: int, cut: int) -> Instruction:
    name = step.text("type")
    if name not in TYPES:
        raise step.error(f"has type='{name[:40]}', which isn't read{suggestion(name, TYPES)}")
    if step.integer("s", 0, LIMITS.of_file, number) != number:
        raise step.error(f"has s='{step.text('s')}' and is step {number} of its block")
    op = TYPES[name]
    if op is Op.NOP:
        return Instruction(op)
    return Instruction(
        op,
        _address(step, "src", cut) if op.reads else NOWHERE,
        _address(step, "dst", cut) if op.writes else NOWHERE,
        cut * step.integer("cnt", 1, LIMITS.units),
        _peer(step, block, "send", ranks) if op.sends else NONE,
        _peer(step, block, "recv", ranks) if op.receives else NONE,
        block.integer("chan", 0, LIMITS.units, 0) if op.sends or op.receives else 0,
    )


def _address(step: Element, side: str, cut: int) -> Address:
    letter = step.text(f"{side}buf")
    if letter not in BUFFERS:
        raise step.error(f"has {side}buf='{letter[:40]}'; it is i, o or s")
    return Address(BUFFERS[letter], cut * step.integer(f"{side}off", 0, LIMITS.units))


def _peer(step: Element, block: Element, side: str, ranks: int) -> int:
    peer = block.integer(side, NONE, ranks - 1, NONE)
    if peer == NONE:
        raise step.error(f"is of type {step.text('type')} in a <tb> without {side}")
    return peer


def _wait(step: Element, lines: list[list[Element]]) -> _Waits:
    """Return the step that a step waits for, as block and step of the file: one or none."""
    block = step.integer("depid", NONE, LIMITS.of_file, NONE)
    if block == NONE:
        return ()
    number = step.integer("deps", NONE, LIMITS.of_file, NONE)
    if block >= len(lines) or not 0 <= number < len(lines[block]):
        raise step.error(f"waits for step {number} of block {block}, which isn't there")
    return ((block, number),)
