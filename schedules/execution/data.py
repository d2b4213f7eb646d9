"""The data of a run: inputs from a seed, the expected outputs, and the faults of actual outputs.

Every datum consists of whole numbers from -100 to 100, so that sums are exact in any order, and each wrong
element is found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tutti.schedules.collective import EVERYONE
from tutti.schedules.execution.transport import Array, Failure
from tutti.schedules.programs.layout import BufferItems, BufferLayout
from tutti.schedules.programs.program import Buffer, Program, table_of
from tutti.topologies.errors import InputError
from tutti.topologies.exact import NONE

DTYPES = ("float32", "float64", "int32", "int64")
MOST = 100


def elements_of(program: Program, size: int, dtype: str) -> int:
    """Return the number of elements in a unit, if M is `size` bytes.

    Raises
    ------
    InputError
        If that is not a whole number.
    """
    elements, rest = divmod(size, program.units * np.dtype(dtype).itemsize)
    if rest or not elements:
        raise InputError(
            f"{size} bytes do not divide into {program.units} units of whole elements ({dtype}, "
            f"{program.units * np.dtype(dtype).itemsize} bytes)"
        )
    return elements


@dataclass(frozen=True)
class RankData:
    """The data that a rank begins with and must end with.

    Parameters
    ----------
    program
        The program, with its buffers.
    layout
        The layout of data in the buffers.
    rank
        The rank.
    elements
        The number of elements in a unit.
    dtype
        The type of an element.
    seed
        The seed of all data.
    """

    program: Program
    layout: BufferLayout
    rank: int
    elements: int
    dtype: npt.DTypeLike
    seed: int = 0

    def input(self) -> Array:
        """Return the rank's input."""
        items = self._placed(self.layout.input)
        return self._joined([self._datum(item, self.rank) for item in items])

    def output(self) -> Array:
        """Return the expected output; for a sum, all ranks' contributions are added by numpy."""
        items = self.layout.collective.items
        due = []
        for item in self._placed(self.layout.output):
            if not items.combines[item]:
                due.append(self._datum(item, NONE))
                continue
            group = self.layout.collective.members[items.group[item]]
            total = self._datum(item, group[0])
            for rank in group[1:]:
                total += self._datum(item, rank)
            due.append(total)
        return self._joined(due)

    def part(self, memory: Array, buffer: Buffer) -> Array:
        """Return a buffer in the rank's memory."""
        begin = int(self.layout.base[self.rank, buffer])
        size = int(self.layout.sizes[self.rank, buffer])
        return memory[begin * self.elements : (begin + size) * self.elements]

    def check(self, memory: Array, due: Array) -> None:
        """Check the output in the rank's memory.

        Raises
        ------
        Failure
            If it is wrong; the message names the first wrong element and the steps that write there.
        """
        come = self.part(memory, Buffer.OUTPUT)
        if np.array_equal(come, due):
            return
        element = int(np.argmax(come != due))
        unit = element // self.elements
        raise Failure(
            f"rank {self.rank} has wrong bytes: element {element} of its output, in unit {unit}, is"
            f" {come[element]} and should be {due[element]}; {self._written(unit)}"
        )

    def _written(self, unit: int) -> str:
        """Return the steps that write a unit of the output, as text."""
        program, code = self.program, self.program.code
        own = program.rank[program.block_of]
        local = table_of("receives")[code.op] | (code.to == NONE)
        at_rank = np.where(local, own, code.to) == self.rank
        offset = self.layout.base[self.rank, code.target_buffer.clip(0)] + code.target_offset
        place = unit + int(self.layout.base[self.rank, Buffer.OUTPUT])
        here = table_of("writes")[code.op] & at_rank & (offset <= place) & (place < offset + code.length)
        writers = np.flatnonzero(here).tolist()
        if not writers:
            return "no step writes there"
        return "written by " + " and ".join(program.place(number) for number in writers[-2:])

    def _placed(self, placement: BufferItems) -> list[int]:
        return placement.item[placement.begin[self.rank] : placement.begin[self.rank + 1]].tolist()

    def _joined(self, data: list[Array]) -> Array:
        return np.concatenate([np.empty(0, self.dtype), *data], dtype=np.dtype(self.dtype))

    def _datum(self, item: int, rank: int) -> Array:
        """Return an item, or a rank's contribution to it."""
        combines = self.layout.collective.items.start[item] == EVERYONE
        seed = [self.seed, item, rank + 1 if combines else 0]
        generator: Any = np.random.Generator(np.random.SFC64(seed))
        size = int(self.layout.length[item]) * self.elements
        return generator.integers(-MOST, MOST + 1, size, dtype=np.int8).astype(self.dtype)
