"""Programs in plain words: one line for each instruction, in an order in which all can run.

A rank's blocks run at the same time. Each line implicitly waits for the previous line of its block; any other
line that it waits for is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from tutti.schedules.programs.lowering import LoweringOptions
from tutti.schedules.programs.program import Address, Buffer, Instruction, Op, Program
from tutti.schedules.programs.serial import serial_order
from tutti.schedules.schedule import Schedule
from tutti.topologies.disk import write_text
from tutti.topologies.errors import InputError
from tutti.topologies.exact import NONE
from tutti.topologies.options import Whole


@dataclass(frozen=True)
class ListingOptions(LoweringOptions):
    """Options for listings.

    Parameters
    ----------
    rank
        The only rank that is listed; by default all are.
    """

    OWNER: ClassVar[str] = "listing"
    rank: Annotated[int | None, Whole(0)] = None


OPTIONS = ListingOptions


def write(schedule: Schedule, path: Path, options: ListingOptions) -> dict[str, Any]:
    """Write the instructions of the ranks of a verified schedule.

    Raises
    ------
    TuttiError
        If the rank does not exist, or a switch multicasts or adds in the schedule.
    """
    program = options.lower(schedule)
    write_text(path, to_listing(program, options.rank))
    return {"units": program.units, "instructions": len(program)}


def to_listing(program: Program, rank: int | None = None) -> str:
    """Return the instructions of all ranks of a program, or of one rank, in words.

    Raises
    ------
    InputError
        If the rank does not exist, or instructions wait for each other.
    """
    if rank is not None and rank >= program.num_ranks:
        raise InputError(f"no rank {rank}; ranks are 0..{program.num_ranks - 1}")
    ranks = range(program.num_ranks) if rank is None else (rank,)
    return "".join(f"{line}\n" for line in _lines(program, ranks))


def _lines(program: Program, ranks: range | tuple[int, ...]) -> Iterator[str]:
    """Yield a line for the program, and for each rank its buffers and its instructions in serial order."""
    order = serial_order(program)
    own, sizes = program.own, program.layout.sizes
    yield f"{program.name}: M is {program.units} units{', in place' if program.in_place else ''}"
    for rank in ranks:
        buffers = zip(Buffer, sizes[rank].tolist(), strict=True)
        held = ", ".join(f"{buffer.name.lower()} {size}" for buffer, size in buffers)
        yield ""
        yield f"rank {rank} (units: {held})"
        for number in order[own[order] == rank].tolist():
            block = int(program.block_of[number])
            name = f"block {block - program.first_block[rank]}, step {number - program.begin[block]}"
            yield f"  {name}: {_sentence(program.instruction(number))}"


def _sentence(one: Instruction) -> str:
    """Return an instruction in words."""
    source, target = (_where(side, one.length) for side in (one.source, one.target))
    units = f"{one.length} unit{'s' if one.length > 1 else ''}"
    sums = f"receive {units} from rank {one.origin}, add {source}"
    said = {
        Op.NOP: "do nothing",
        Op.COPY: f"copy {source}{_of(one.origin)} to {target}{_of(one.to)}",
        Op.REDUCE: f"add {source}{_of(one.origin)} to {target}{_of(one.to)}",
        Op.SEND: f"send {source} to rank {one.to}",
        Op.RECV: f"receive {target} from rank {one.origin}",
        Op.RECV_COPY_SEND: f"receive {target} from rank {one.origin} and send it on to rank {one.to}",
        Op.RECV_REDUCE_SEND: f"{sums} and send the sum to rank {one.to}",
        Op.RECV_REDUCE_COPY: f"{sums} and keep the sum as {target}",
        Op.RECV_REDUCE_COPY_SEND: f"{sums}, keep the sum as {target} and send it to rank {one.to}",
        Op.SIGNAL: f"signal rank {one.to}",
        Op.WAIT: f"wait for a signal of rank {one.origin}",
    }[one.op]
    channel = f" (channel {one.channel})" if one.channel else ""
    waits = " and ".join(f"block {block}, step {step}" for block, step in one.waits)
    return f"after {waits}: {said}{channel}" if waits else f"{said}{channel}"


def _where(address: Address, length: int) -> str:
    """Return an address with its units, such as "input[0..3]"; an empty text for no address."""
    if address.buffer == NONE:
        return ""
    last = f"..{address.offset + length - 1}" if length > 1 else ""
    return f"{Buffer(address.buffer).name.lower()}[{address.offset}{last}]"


def _of(rank: int) -> str:
    """Return " of rank R" for another rank's memory, an empty text for the own."""
    return "" if rank == NONE else f" of rank {rank}"
