"""MSCCL XML as a format of `schedules.programs.formats`: prints programs, writes schedules, reads and judges.

A step of the format waits for at most one other step. If an instruction waits for several, steps of type
``nop`` before it wait for all but the last. The runtime fuses consecutive reductions into one place that wait
for nothing, with one count for all and at most `LIMITS.fused` of them. A flag (``hasdep``) on the last step
ends such a fusion.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice, pairwise, product
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from tutti.schedules.collective import Collective
from tutti.schedules.programs.interpreter import Judgement, ProgramError, check_depth, judge
from tutti.schedules.programs.lowering import FormatLimits, LoweringOptions, TooShallow, steps_of
from tutti.schedules.programs.msccl.flavours import (
    BUFFERS,
    DEPTHS,
    FLAVOURS,
    LIMITS,
    PROTOCOLS,
    SIMPLE,
    TYPES,
    Flavour,
    find_flavour,
)
from tutti.schedules.programs.msccl.lint import lint
from tutti.schedules.programs.msccl.reader import from_xml, parse_algo, places, program_of
from tutti.schedules.programs.program import WARP, Address, Buffer, Instruction, Op, Program, table_of
from tutti.schedules.programs.serial import senders
from tutti.schedules.schedule import Schedule
from tutti.topologies.disk import write_text
from tutti.topologies.errors import InputError
from tutti.topologies.exact import NONE, IntArray
from tutti.topologies.files import read_text
from tutti.topologies.options import Choice, Whole
from tutti.topologies.units import whole_bytes
from tutti.topologies.xml_files import MOST_XML, Element

_NAME_OF = {op: name for name, op in TYPES.items()}
_LETTER = {buffer: letter for letter, buffer in BUFFERS.items()}


@dataclass(frozen=True)
class MscclOptions(LoweringOptions):
    """Options for MSCCL XML, in addition to `LoweringOptions`.

    Parameters
    ----------
    flavour
        The runtime: ``msccl``, ``rccl``, or ``both``, whose files suit either.
    proto
        The runtime's protocol.
    min_bytes, max_bytes
        The range of sizes that the file is for, as texts; by default it begins at 0.
    threads
        The number of threads of each block, a multiple of 32; by default the runtime chooses.
    """

    OWNER: ClassVar[str] = "msccl"
    flavour: Annotated[str, Choice(tuple(FLAVOURS))] = "both"
    proto: Annotated[str, Choice(PROTOCOLS)] = SIMPLE
    min_bytes: str | None = None
    max_bytes: str = "1TiB"
    threads: Annotated[int | None, Whole(WARP)] = None
    units: Annotated[int, Whole(1, 4096)] = 64


OPTIONS = MscclOptions

_Place = tuple[int, int]
"""A block of a rank, and a step in it."""


class _XmlBlock(NamedTuple):
    """A thread block: its peers and channel, and its instructions, none of them a nop."""

    send: int
    recv: int
    chan: int
    instructions: list[Instruction]


def to_xml(program: Program, options: MscclOptions | None = None) -> str:
    """Return a program as MSCCL XML.

    Raises
    ------
    InputError
        If the format, or a limit of the runtime, can't represent the program.
    """
    options = options or MscclOptions()
    flavour = find_flavour(options.flavour)
    text = "\n".join(_lines(program, options, flavour)) + "\n"
    findings = lint(text, flavour, most=1)
    if findings:
        raise InputError(f"{program.name} does not fit: {findings[0].text} ({flavour.name})")
    try:
        check_connections(program, options.proto)
    except ProgramError as error:
        raise InputError(f"{program.name} does not fit: {error}") from None
    return text


def check_connections(program: Program, proto: str) -> int:
    """Check that a program ends with connections of a protocol's depth; return the depth that it needs.

    Raises
    ------
    ProgramError
        If it doesn't end.
    """
    try:
        return check_depth(program, DEPTHS[proto])
    except ProgramError as error:
        raise ProgramError(f"{error} (protocol {proto})") from None


def check_fits(what: Collective, elements: int) -> None:
    """Check that the format has a collective, and that a file has room for this number of elements.

    Raises
    ------
    InputError
        If it doesn't.
    """
    if what.groups is not None or what.shards is not None:
        raise InputError(f"MSCCL XML has no groups and no uneven shards; this is for {what}")
    if elements > LIMITS.of_file:
        raise InputError(
            f"{what} does not fit: at least {elements} elements; "
            f"at most {LIMITS.of_file} are written and read"
        )


def _lines(program: Program, options: MscclOptions, flavour: Flavour) -> Iterator[str]:
    what = program.collective
    elements = len(program) + program.num_blocks + program.num_ranks + 1  # a lower bound: waits may need more
    check_fits(what, elements)
    one_sided = program.remote | np.isin(program.code.op, (Op.SIGNAL, Op.WAIT))
    if one_sided.any():
        place = program.place(int(np.argmax(one_sided)))
        raise InputError(
            f"{program.name}: {place} reads or writes another rank's memory, which MSCCL XML can't have"
        )
    program = _with_both_ends(program)
    blocks = [_blocks(program, rank) for rank in range(program.num_ranks)]
    sizes = program.layout.sizes
    head: dict[str, int | str] = {
        "name": re.sub(r"[^\w.:+-]", "_", program.name, flags=re.ASCII)[: flavour.characters],
        "proto": options.proto,
        "nchannels": max((block.chan for of_rank in blocks for block in of_rank), default=0) + 1,
        "nchunksperloop": program.units,
        "ngpus": program.num_ranks,
        "coll": flavour.collective(what.kind),
        "inplace": int(program.in_place),
        "outofplace": int(not program.in_place),
        "minBytes": 0 if options.min_bytes is None else whole_bytes(options.min_bytes),
        "maxBytes": whole_bytes(options.max_bytes),
    }
    yield _element("algo", head if options.threads is None else {**head, "nthreads": options.threads})
    for rank, of_rank in enumerate(blocks):
        chunks = zip(BUFFERS, _chunks(program, sizes[rank].tolist(), of_rank), strict=True)
        yield _element("gpu", {"id": rank, **{f"{letter}_chunks": size for letter, size in chunks}}, 2)
        yield from _rank_lines(of_rank)
        yield "  </gpu>"
    yield "</algo>"


def _with_both_ends(program: Program) -> Program:
    """Return the program in which each send and each receive also names the place at the other end.

    The runtimes don't require that; verifiers and people compare both ends.
    """
    code, sent = program.code, senders(program)
    (receives,) = np.nonzero(sent != NONE)
    sends = sent[receives]
    stores, keeps = (table_of("writes")[code.op[ends]] for ends in (receives, sends))
    sides = (code.source_buffer, code.source_offset), (code.target_buffer, code.target_offset)
    changed: dict[str, IntArray] = {}
    for name, source, target in zip(("buffer", "offset"), *sides, strict=True):
        there = np.where(stores, target[receives], source[receives])
        here = np.where(keeps, target[sends], source[sends])
        source, target = source.copy(), target.copy()
        target[sends[~keeps]] = there[~keeps]
        plain = ~table_of("reads")[code.op[receives]]
        source[receives[plain]] = here[plain]
        changed |= {f"source_{name}": source, f"target_{name}": target}
    return program.replace(code=code._replace(**changed))


def _rank_lines(blocks: list[_XmlBlock]) -> Iterator[str]:
    """Yield the lines of a rank's blocks."""
    place: dict[_Place, _Place] = {}  # the step of each instruction, after the nops that do its waits
    for number, block in enumerate(blocks):
        line = -1
        for at, instruction in enumerate(block.instructions):
            line += max(len(instruction.waits), 1)
            place[number, at] = (number, line)
    flagged = {wait for block in blocks for instruction in block.instructions for wait in instruction.waits}
    for number, block in enumerate(blocks):
        flagged |= {(number, at) for at in _fusions_ended(block.instructions)}
        attributes = {"id": number, "send": block.send, "recv": block.recv, "chan": block.chan}
        yield _element("tb", attributes, 4)
        line = 0
        for at, instruction in enumerate(block.instructions):
            waits = [place[wait] for wait in instruction.waits] or [(NONE, NONE)]
            for wait in waits[:-1]:
                yield _step(line, Instruction(Op.NOP, length=0), wait, flag=False)
                line += 1
            yield _step(line, instruction, waits[-1], flag=(number, at) in flagged)
            line += 1
        yield "    </tb>"


def _step(number: int, instruction: Instruction, wait: _Place, *, flag: bool) -> str:
    source = Address(Buffer.INPUT) if instruction.source.buffer == NONE else instruction.source
    target = Address(Buffer.OUTPUT) if instruction.target.buffer == NONE else instruction.target
    attributes: dict[str, int | str] = {
        "s": number,
        "type": _NAME_OF[instruction.op],
        "srcbuf": _LETTER[Buffer(source.buffer)],
        "srcoff": source.offset,
        "dstbuf": _LETTER[Buffer(target.buffer)],
        "dstoff": target.offset,
        "cnt": instruction.length,
        "depid": wait[0],
        "deps": wait[1],
        "hasdep": int(flag),
    }
    return _element("step", attributes, 6, "/>")


def _element(tag: str, attributes: Mapping[str, int | str], indent: int = 0, end: str = ">") -> str:
    listed = " ".join(f'{name}="{value}"' for name, value in attributes.items())
    return f"{' ' * indent}<{tag} {listed}{end}"


def _blocks(program: Program, rank: int) -> list[_XmlBlock]:
    """Return the blocks of a rank, without waits for earlier steps of the same block."""
    blocks = []
    for number, instructions in enumerate(_without_nops(program.blocks(rank))):
        name = f"{program.name}: rank {rank}, block {number}"
        sends, receives = ([i for i in instructions if getattr(i.op, end)] for end in ("sends", "receives"))
        send = _only({i.to for i in sends}, f"{name} sends to ranks", NONE)
        recv = _only({i.origin for i in receives}, f"{name} receives from ranks", NONE)
        chan = _only({i.channel for i in (*sends, *receives)}, f"{name} is on channels", 0)
        kept = [
            i._replace(waits=tuple(wait for wait in i.waits if not (wait[0] == number and wait[1] < at)))
            for at, i in enumerate(instructions)
        ]
        blocks.append(_XmlBlock(send, recv, chan, kept))
    return blocks


def _only(values: set[int], what: str, default: int) -> int:
    if len(values) > 1:
        listed = " and ".join(map(str, sorted(values)[:3]))
        raise InputError(f"{what} {listed}; a block of MSCCL XML has one")
    return next(iter(values), default)


def _without_nops(blocks: list[list[Instruction]]) -> list[list[Instruction]]:
    """Remove nops: an instruction after a nop gets its waits, and one that waits for a nop gets them too."""
    if not any(i.op is Op.NOP for block in blocks for i in block):
        return blocks
    place: dict[_Place, _Place] = {}  # the new place of each instruction; for a nop, of the last before it
    for number, block in enumerate(blocks):
        real = accumulate((i.op is not Op.NOP for i in block), initial=-1)
        place.update(((number, at), (number, last)) for at, last in enumerate(islice(real, 1, None)))
    plain = []
    for block in blocks:
        kept: list[Instruction] = []
        carried: tuple[_Place, ...] = ()
        for instruction in block:
            carried += instruction.waits
            if instruction.op is not Op.NOP:
                kept.append(instruction._replace(waits=_real_waits(blocks, place, carried)))
                carried = ()
        plain.append(kept)
    return plain


def _real_waits(
    blocks: list[list[Instruction]], place: Mapping[_Place, _Place], waits: tuple[_Place, ...]
) -> tuple[_Place, ...]:
    """Return the real instructions behind these waits, numbered without the nops."""
    found: dict[_Place, None] = {}
    left, seen = list(reversed(waits)), set()
    while left:
        wait = left.pop()
        if wait in seen:
            continue
        seen.add(wait)
        block, at = wait
        if blocks[block][at].op is not Op.NOP:
            found[place[wait]] = None
        else:  # its own waits, and everything before it
            left += [(block, at - 1)] * (at > 0)
            left += reversed(blocks[block][at].waits)
    return tuple(found)


def _fusions_ended(instructions: list[Instruction]) -> Iterator[int]:
    """Yield the reductions that the runtime must not fuse with the next one."""
    fused = 1
    for at, (one, other) in enumerate(pairwise(instructions)):
        same = one.op is other.op is Op.REDUCE and one.target == other.target and not other.waits
        if not same or one.source.buffer != other.source.buffer:
            fused = 1
        elif one.length != other.length or fused == LIMITS.fused:
            fused = 1
            yield at
        else:
            fused += 1


def _chunks(program: Program, sizes: list[int], blocks: list[_XmlBlock]) -> list[int]:
    """Return the chunks of each buffer; in place, a buffer that is never named has 0 (if no root exists)."""
    if not program.in_place or program.collective.kind.rooted:
        return sizes
    used = {
        address.buffer
        for block in blocks
        for i in block.instructions
        for address, counts in ((i.source, i.op.reads), (i.target, i.op.writes))
        if counts
    }
    return [size if buffer in used or buffer == Buffer.SCRATCH else 0 for buffer, size in enumerate(sizes)]


LENGTHS = (LIMITS.chunks, 16, 4, 1)
"""Lengths of a message in units that are tried, the longest first. Shorter messages need less deep
connections but more steps."""


def lowered(schedule: Schedule, options: MscclOptions) -> Program:
    """Return the program to write: the first tried one that fits and has no deadlock.

    Raises
    ------
    TuttiError
        If the flavour doesn't have the collective, if every program has a deadlock at the connections' depth
        in this protocol, or as `lower`.
    """
    flavour, depth = find_flavour(options.flavour), DEPTHS[options.proto]
    flavour.collective(schedule.collective.kind)
    check_fits(schedule.collective, len(schedule))  # before lowering: each transfer is at least one step
    limits = FormatLimits(flavour.blocks, flavour.steps, peers=LIMITS.peers)
    hanging: list[ProgramError] = []
    fitting: list[Program] = []
    for length, most in product(LENGTHS, (depth, None)):
        try:
            program = options.lower(schedule, replace(limits, length=length, depth=most))
            if blocks_of(program) > LIMITS.awaited:
                program = program.with_awaited_first()
            check_connections(program, options.proto)
        except TooShallow:
            continue
        except ProgramError as error:
            hanging.append(error)
            continue
        if steps_of(program).max(initial=0) <= limits.steps and blocks_of(program) <= limits.blocks:
            return program
        fitting.append(program)
    if not fitting:
        raise InputError(f"{schedule.collective} does not fit: {hanging[0]}")
    return fitting[0]


def blocks_of(program: Program) -> int:
    """Return the largest number of thread blocks of a rank."""
    return int(np.diff(program.first_block).max())


def write(schedule: Schedule, path: Path, options: MscclOptions) -> dict[str, Any]:
    """Write a verified schedule.

    Raises
    ------
    TuttiError
        If the format, or a limit of the runtime, can't represent the schedule.
    """
    program = lowered(schedule, options)
    write_text(path, to_xml(program, options))
    return {
        "flavour": options.flavour,
        "units": program.units,
        "channels": int(program.code.channel.max(initial=0)) + 1,
        "blocks": blocks_of(program),
        "instructions": int(np.diff(program.begin).max(initial=0)),
    }


def read(path: Path | str, root: int | None = None, in_place: bool | None = None) -> Program:
    """Return the program in a file; the parameters are those of `program_of`.

    Raises
    ------
    InputError
        If the file holds no program.
    """
    return from_xml(read_text(path, MOST_XML), str(path), root=root, in_place=in_place)


def judged(path: Path, root: int | None, interleavings: int) -> None:
    """Judge the program in a file as `judge_algo` does.

    Raises
    ------
    InputError, ProgramError
        As `judge_algo`.
    """
    judge_algo(parse_algo(read_text(path, MOST_XML), str(path)), root, interleavings)


def judge_algo(
    algo: Element, root: int | None = None, interleavings: int = 20
) -> list[tuple[Program, Judgement]]:
    """Judge a program out of place, in place or both, with connections as deep as those of its protocol.

    Raises
    ------
    InputError
        If the element describes no program.
    ProgramError
        If the program isn't right.
    """
    found = []
    for program in (program_of(algo, root=root, in_place=place) for place in places(algo)):
        judgement = judge(program, interleavings=interleavings)
        depth = check_connections(program, depth_of(algo)[0])
        found.append((program, replace(judgement, least_depth=depth)))
    return found


def depth_of(algo: Element) -> tuple[str, int]:
    """Return a file's protocol (by default Simple) and the number of messages that its connections hold."""
    proto = algo.attributes.get("proto", SIMPLE)
    known = proto if proto in DEPTHS else SIMPLE
    return known, DEPTHS[known]


def loader(paths: Sequence[Path]) -> str:
    """Return shell lines that make MSCCL or RCCL load these files."""
    return f"export MSCCL_XML_FILES={quote(':'.join(map(str, paths)))} NCCL_ALGO=MSCCL,RING,TREE"
