"""The judge of programs: whether one does its collective, in whatever order its blocks run.

If all conflicting accesses of a program are ordered (`races`), every interleaving of its blocks ends with the
same data. Whether FIFOs of a given depth are enough doesn't depend on the interleaving either (Kahn, The
semantics of a simple language for parallel programming, 1974). So one run proves such a program right. Random
interleavings are for programs that are too large to search for races. For tiny programs all interleavings can
be run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tutti.schedules.fingerprints import EMPTY
from tutti.schedules.programs.machine import (
    ALWAYS,
    DEADLOCK,
    FINE,
    UNEQUAL,
    Ending,
    Memory,
    ProgramArrays,
    State,
    awaited,
    execute,
    machine_of,
    matches,
    origins,
    rooms,
    run,
    state_of,
)
from tutti.schedules.programs.program import Buffer, Op, Program
from tutti.schedules.programs.races import clock_entries, doubtful_pairs, first_race
from tutti.topologies.errors import InputError, TuttiError
from tutti.topologies.exact import NONE, Int32Array, Int64Array, entries_of, offsets_of, rows_at


class ProgramError(TuttiError):
    """A program does not do what it should; the text is one line that names rank, block and step."""


class InterpreterLimits(NamedTuple):
    """Limits on the programs that are checked, and on the effort of a check."""

    clocks: int
    """Largest number of entries of vector clocks; this many take some tens of seconds. If a check needs more,
    it looks for races only on request."""
    states: int
    """Largest number of states visited over all interleavings, unless the caller gives another number."""
    state_bytes: int
    """Largest total size of these states in bytes."""
    parts: int
    """Largest number of units in all messages of a program that is cut into units; this many take about a
    gigabyte."""


LIMITS = InterpreterLimits(clocks=2 * 10**10, states=100_000, state_bytes=2**30, parts=2**24)


@dataclass(frozen=True)
class Judgement:
    """The result of judging a program that is right.

    Parameters
    ----------
    least_depth
        The smallest depth of all FIFOs, in messages, that avoids a deadlock; 0 if nothing is sent.
    interleavings
        The number of interleavings that were run.
    races_checked
        Whether it is proven that there is no race.
    """

    least_depth: int
    interleavings: int
    races_checked: bool


def judge(
    program: Program,
    *,
    depth: int | None = None,
    interleavings: int = 20,
    seed: int = 0,
    races: bool | None = None,
    full: bool = False,
) -> Judgement:
    """Judge a program.

    Parameters
    ----------
    program
        The program to judge.
    depth
        The number of messages that a FIFO holds; None: any number.
    interleavings
        The number of runs. In the first each block runs as far as it can; the others are random.
    seed
        The seed of the random runs.
    races
        Whether to search for races; None: only if that takes no more than `LIMITS.clocks`.
    full
        Whether the program may rely on the limit `depth`: a send then comes after the receive that made room
        for it.

    Raises
    ------
    ProgramError
        For the first fault: a deadlock, a race, a read of a cell that was never written, a message that is
        received with another length or not at all, or a wrong output.
    InputError
        As `Program.check`; or if a parameter is out of range.
    """
    if interleavings < 1:
        raise InputError(f"interleavings {interleavings}: at least 1")
    trial = _ProgramRun(program, depth)
    state, order = trial.run()
    checked = races is not False and trial.no_race(state, order, full=full, whatever_it_takes=races is True)
    for number in range(interleavings - 1):
        trial.run(seed + number)
    return Judgement(_least_depth(trial.machine) or 0, interleavings, checked)


def check_depth(program: Program, depth: int) -> int:
    """Check that a program ends if each FIFO holds `depth` messages of one unit.

    Runtimes cut a long message into several; with much data, into single units. A program that ends with
    messages of one unit also ends with whole messages, because a cycle of whole messages in the graph of
    waits is also a cycle of their units.

    Parameters
    ----------
    program
        A program that `judge` accepts.
    depth
        The number of messages of one unit that a FIFO holds.

    Returns
    -------
    int
        The smallest depth at which the program ends; 0 if nothing is sent.

    Raises
    ------
    ProgramError
        If it doesn't end; the message names the depth that it needs.
    InputError
        If its messages have more than `LIMITS.parts` units.
    """
    cut, original = _in_units(program)
    machine = machine_of(cut, Memory(cut))
    needed = _least_depth(machine) or 0
    if needed > depth:
        state = state_of(machine)
        run(machine, state, depth=depth)
        stuck = int(state.next[state.next < machine.begin[1:]][0])
        raise ProgramError(
            f"deadlock: {program.place(int(original[stuck]))} waits forever, "
            f"as a FIFO holds {depth} messages of one unit; it needs {needed}"
        )
    return needed


def all_interleavings(
    program: Program, *, depth: int | None = None, most_states: int = LIMITS.states
) -> frozenset[str]:
    """Return all faults, except races, with which interleavings of a tiny program end.

    Raises
    ------
    InputError
        As `Program.check`; or if there are more than `most_states` states.
    """
    trial = _ProgramRun(program, depth)
    units = int(trial.memory.start[-1] + trial.machine.payload[-1])
    most_states = min(most_states, LIMITS.state_bytes // (8 * units + 1))
    too_many = InputError(f"{program.name}: more than {most_states} states, too many to try them all")
    if most_states < 1:
        raise too_many
    start = state_of(trial.machine, trial.memory.initial())
    found: set[str] = set()
    seen, unvisited = {_key(start)}, [(start, np.empty(0, dtype=np.int32))]
    while unvisited:
        state, order = unvisited.pop()
        after = trial.next_states(state)
        if not after:
            ending = Ending(FINE if len(order) == len(program) else DEADLOCK, -1, 0)
            found |= {str(error) for error in (trial.fault(state, ending, order),) if error}
        for ending, later in after:
            if ending.reason != FINE:
                found.add(str(trial.fault(later, ending, order)))
            elif _key(later) not in seen:
                seen.add(_key(later))
                unvisited.append((later, np.append(order, np.int32(ending.instruction))))
        if len(seen) > most_states:
            raise too_many
    return frozenset(found)


class _ProgramRun:
    """A program on the machine, with FIFOs of a given depth, and the faults of its runs."""

    def __init__(self, program: Program, depth: int | None) -> None:
        if depth is not None and depth < 1:
            raise InputError(f"FIFOs of depth {depth}: at least 1")
        program.check()
        self.program, self.depth = program, ALWAYS if depth is None else min(depth, ALWAYS)
        self.memory = Memory(program)
        self.machine = machine = machine_of(program, self.memory)
        apart = np.abs(machine.source - machine.target)
        both = (machine.source >= 0) & (machine.target >= 0)
        shifted = both & (apart > 0) & (apart < machine.length)
        if shifted.any():
            place = program.place(int(np.argmax(shifted)))
            raise ProgramError(f"{place} writes over a part of what it reads")

    def run(self, seed: int | None = None) -> tuple[State, Int32Array]:
        """Run the program; return its final state and the order in which its instructions ran."""
        state = state_of(self.machine, self.memory.initial())
        seed = None if seed is None else seed % 2**32
        ending, order = run(self.machine, state, depth=self.depth, seed=seed)
        if error := self.fault(state, ending, order):
            raise error
        return state, order

    def no_race(self, state: State, order: Int32Array, *, full: bool, whatever_it_takes: bool) -> bool:
        """Return whether it is proven that there is no race; raise the error for the first race of a run."""
        pairs = doubtful_pairs(self.machine, state, order)
        if clock_entries(self.machine, pairs) > LIMITS.clocks and not whatever_it_takes:
            return False
        partners = [matches(self.machine, state)]
        if full and self.depth != ALWAYS:
            partners.append(rooms(self.machine, state, self.depth))
        if race := first_race(self.machine, order, np.stack(partners), pairs):
            raise self._race(*race)
        return True

    def next_states(self, state: State) -> list[tuple[Ending, State]]:
        """Return, for every instruction that can run now, how it ends and the state after it."""
        states = []
        for instruction in self._stuck(state):
            if awaited(self.machine, state, self.depth, instruction) < 0:
                after = state.copy()
                reason, unit = execute(self.machine, after, instruction)
                states.append((Ending(reason, int(instruction), unit), after))
        return states

    def fault(self, state: State, ending: Ending, order: Int32Array) -> ProgramError | None:
        """Return the fault of a run that ended, or None."""
        if ending.reason == DEADLOCK:
            return self._deadlock(state)
        if ending.reason != FINE:
            return self._stopped(state, ending)
        if wrong := self.memory.wrong(state.memory):
            return self._wrong_output(state, order, wrong)
        full = state.num_sent > state.num_taken
        if not full.any():
            return None
        connection = int(np.argmax(full))  # its first message is left over
        step = int(state.sent[self.machine.send_begin[connection] + state.num_taken[connection]])
        what = "signals" if self.machine.signals[connection] else "sends to"
        return ProgramError(f"{self.program.place(step)} {what} {self._route(step)}, where no step takes it")

    def _stuck(self, state: State) -> Int64Array:
        """Return the next instruction of each block that is not at its end."""
        return state.next[state.next < self.machine.begin[1:]]

    def _stopped(self, state: State, ending: Ending) -> ProgramError:
        """Return the error for a run that ended at an instruction that can't be right."""
        step, at = ending.instruction, self.program.place(ending.instruction)
        if ending.reason == UNEQUAL:
            units, sender = self.machine.length[step], ending.unit
            return ProgramError(
                f"{at} receives {units} units where {self.program.place(sender)} sent "
                f"{self.machine.length[sender]}"
            )
        source = self.machine.source[step]
        of_source = source >= 0 and state.memory[source + ending.unit] == EMPTY
        return ProgramError(f"{at} reads {self._side(step, of_source, ending.unit)} before anything is there")

    def _deadlock(self, state: State) -> ProgramError:
        """Return the error for a run that is stuck.

        It names one stuck block, if possible one whose condition can't come true whatever the other blocks
        do.
        """
        stuck = self._stuck(state)
        reasons = [self._awaits(state, step) for step in stuck]
        never, why = max(reasons, key=lambda reason: reason[0])
        at = self.program.place(int(stuck[reasons.index((never, why))]))
        others = f"; {len(stuck)} blocks are stuck" if len(stuck) > 1 else ""
        enough = None if self.depth == ALWAYS else _least_depth(self.machine)
        deeper = "" if enough is None else f"; FIFOs of depth {enough} are enough"
        return ProgramError(f"deadlock: {at} waits for {why}{others}{deeper}")

    def _awaits(self, state: State, step: int) -> tuple[bool, str]:
        """Return whether what a step waits for can never come, and its name."""
        machine, event = self.machine, awaited(self.machine, state, self.depth, step)
        count, connections = len(machine.block), len(machine.signals)
        if event < count:
            return bool(machine.block[event] == machine.block[step]), self.program.place(event)
        if event < count + connections:
            connection = event - count
            begin, done, lack = machine.send_begin, state.num_sent, ", which never comes"
            what = "a signal" if machine.signals[connection] else "a message"
            text = f"{what} from {self._route(step, sends=False)}"
        else:
            connection = event - count - connections
            begin, done, lack = machine.take_begin, state.num_taken, ", which no step empties"
            text = f"room in the FIFO to {self._route(step)}"
        never = bool(done[connection] == begin[connection + 1] - begin[connection])
        return never, text + lack * never

    def _wrong_output(self, state: State, order: Int32Array, where: tuple[int, int]) -> ProgramError:
        """Return the error for a wrong unit of an output; `where` is its entry, and the unit in it."""
        memory, machine = self.memory, self.machine
        placement, rank, cell = memory.placed(Buffer.OUTPUT)
        entry, unit = where
        item, wrong = int(placement.item[entry]), int(cell[entry]) + unit
        name = f"rank {rank[entry]}: output {placement.offset[entry] + unit}"
        if state.memory[wrong] == EMPTY:
            return ProgramError(f"{name} is empty at the end")
        often = origins(machine, order, matches(machine, state), wrong, len(state.memory))
        starts, _, begin = memory.placed(Buffer.INPUT)
        required = begin[starts.item == item] + unit
        faults = []
        for what, cells in (
            ("lacks", required[often[required] == 0]),
            ("has more than once", required[often[required] >= 2]),
            ("has what doesn't belong there,", np.setdiff1d(np.flatnonzero(often), required)),
        ):
            if len(cells):
                owner = int(np.searchsorted(memory.start, cells[0], side="right")) - 1
                place = cells[0] - memory.start[owner] - memory.layout.base[owner, Buffer.INPUT]
                faults.append(f"{what} input {place} of rank {owner}")
        target = machine.target[order]
        writers = order[(target >= 0) & (target <= wrong) & (wrong < target + machine.length[order])]
        last = f" (last written by {self.program.place(int(writers[-1]))})" if len(writers) else ""
        return ProgramError(f"{name} {' and '.join(faults)}{last}")

    def _race(self, earlier: int, later: int) -> ProgramError:
        """Return the error for two unordered instructions that access one cell or one end of a connection."""
        machine, (one, other) = self.machine, map(self.program.place, (later, earlier))
        accesses = [
            (reads, writes, first, second)
            for reads, first in ((True, machine.source[later]), (False, machine.target[later]))
            for writes, second in ((False, machine.source[earlier]), (True, machine.target[earlier]))
            if min(first, second) >= 0 and (writes or not reads)
            if first < second + machine.length[earlier] and second < first + machine.length[later]
        ]
        if not accesses:
            sends = machine.send[later] >= 0 and machine.send[later] == machine.send[earlier]
            there = f"{'send to' if sends else 'receive from'} {self._route(later, sends=sends)}"
            return ProgramError(f"{one} and {other} {there}, in no certain order")
        reads, writes, first, second = accesses[0]
        what, while_it = ("reads" if reads else "writes"), ("writes" if writes else "reads")
        side = self._side(later, reads, max(int(second - first), 0))
        return ProgramError(f"{one} {what} {side} and {other} {while_it} it, in no certain order")

    def _route(self, step: int, *, sends: bool = True) -> str:
        code = self.program.code
        return f"rank {(code.to if sends else code.origin)[step]} on channel {code.channel[step]}"

    def _side(self, step: int, of_source: bool, unit: int) -> str:
        """Return the name of a unit of a step's source or, if `of_source` is false, of its target."""
        one = self.program.instruction(step)
        place, side = (one.source, one.origin) if of_source else (one.target, one.to)
        remote = one.op in (Op.COPY, Op.REDUCE) and side != NONE
        return f"{Buffer(place.buffer).name.lower()} {place.offset + unit}" + f" of rank {side}" * remote


def _in_units(program: Program) -> tuple[Program, Int64Array]:
    """Return the program that sends each message unit by unit, and for each new instruction the old one."""
    code = program.code
    parts = np.where((code.to != NONE) | (code.origin != NONE), np.maximum(code.length, 1), 1)
    begin = offsets_of(parts)
    if begin[-1] > LIMITS.parts:
        raise InputError(f"{program.name}: messages of {begin[-1]} units; at most {LIMITS.parts} are judged")
    original, within = entries_of(parts)
    code = rows_at(code, original)
    code = code._replace(
        source_offset=code.source_offset + within,
        target_offset=code.target_offset + within,
        length=np.where(parts[original] > 1, 1, code.length),
    )
    # The first unit of a message waits for what the message waits for: the last units of those instructions.
    waits = np.zeros(len(original), dtype=np.int64)
    waits[begin[:-1]] = np.diff(program.wait_begin)
    cut = program.replace(
        begin=begin[program.begin],
        code=code,
        wait_begin=offsets_of(waits),
        waits=begin[program.waits.astype(np.int64) + 1] - 1,
    )
    return cut, original


def _key(state: State) -> bytes:
    """Return the bytes of a state, which are equal for equal states."""
    return b"".join(column.tobytes() for column in state)


def _least_depth(machine: ProgramArrays) -> int | None:
    """Return the smallest depth of FIFOs without a deadlock, or None; 0 if nothing is sent."""

    def ends(depth: int) -> bool:
        return run(machine, state_of(machine), depth=depth)[0].reason == FINE

    # Invariant: a deeper FIFO only removes waits, so what ends at a depth ends at every larger one.
    fifos = ~machine.signals
    longest = int(np.diff(machine.send_begin)[fifos].max(initial=0))
    if not longest or not ends(longest):
        return None if longest or not ends(ALWAYS) else 0
    high = 1
    while high < longest and not ends(high):
        high *= 2
    low, high = high // 2, min(high, longest)
    while high - low > 1:  # low is too small, high is enough
        middle = (low + high) // 2
        low, high = (low, middle) if ends(middle) else (middle, high)
    return high
