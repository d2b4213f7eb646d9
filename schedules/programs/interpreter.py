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

from tutti.schedules.programs import faults
from tutti.schedules.programs.faults import ProgramError
from tutti.schedules.programs.machine import (
    ALWAYS,
    DEADLOCK,
    FINE,
    Ending,
    Memory,
    ProgramArrays,
    State,
    awaited,
    execute,
    machine_of,
    matches,
    rooms,
    run,
    state_of,
)
from tutti.schedules.programs.program import Code, Program
from tutti.schedules.programs.races import clock_entries, doubtful_pairs, first_race
from tutti.topologies.errors import InputError
from tutti.topologies.exact import NONE, Int32Array, Int64Array, offsets_of


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


def run_once(program: Program, *, depth: int | None = None, seed: int | None = None) -> None:
    """Run a program in one interleaving: each block runs as far as it can, or at random if a seed is given.

    Raises
    ------
    ProgramError, InputError
        As `judge`.
    """
    _ProgramRun(program, depth).run(seed)


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
        raise faults.too_shallow(program, int(original[stuck]), depth, needed)
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
    """A program on the machine, with FIFOs of a given depth."""

    def __init__(self, program: Program, depth: int | None) -> None:
        if depth is not None and depth < 1:
            raise InputError(f"FIFOs of depth {depth}: at least 1")
        program.check()
        self.program, self.depth = program, ALWAYS if depth is None else min(depth, ALWAYS)
        self.memory = Memory(program)
        self.machine = machine_of(program, self.memory)
        if error := faults.overlap(program, self.machine):
            raise error

    def run(self, seed: int | None = None) -> tuple[State, Int32Array]:
        """Run the program; return its final state and the order in which its instructions ran."""
        state = state_of(self.machine, self.memory.initial())
        seed = None if seed is None else seed % 2**32
        ending, order = run(self.machine, state, depth=self.depth, seed=seed)
        if error := self.fault(state, ending, order):
            raise error
        return state, order

    def fault(self, state: State, ending: Ending, order: Int32Array) -> ProgramError | None:
        """Return the fault of a run that ended, or None."""
        if ending.reason == DEADLOCK:
            enough = None if self.depth == ALWAYS else _least_depth(self.machine)
            return faults.deadlock(self.program, self.machine, state, self.depth, enough)
        if ending.reason != FINE:
            return faults.stopped(self.program, self.machine, state, ending)
        if wrong := self.memory.wrong(state.memory):
            return faults.wrong_output(self.program, self.memory, self.machine, state, order, wrong)
        return faults.left_over(self.program, self.machine, state)

    def no_race(self, state: State, order: Int32Array, *, full: bool, whatever_it_takes: bool) -> bool:
        """Return whether it is proven that there is no race; raise the error for the first race of a run."""
        pairs = doubtful_pairs(self.machine, state, order)
        if clock_entries(self.machine, pairs) > LIMITS.clocks and not whatever_it_takes:
            return False
        partners = [matches(self.machine, state)]
        if full and self.depth != ALWAYS:
            partners.append(rooms(self.machine, state, self.depth))
        if race := first_race(self.machine, order, np.stack(partners), pairs):
            raise faults.race(self.program, self.machine, *race)
        return True

    def next_states(self, state: State) -> list[tuple[Ending, State]]:
        """Return, for every instruction that can run now, how it ends and the state after it."""
        states = []
        for instruction in state.next[state.next < self.machine.begin[1:]]:
            if awaited(self.machine, state, self.depth, instruction) < 0:
                after = state.copy()
                reason, unit = execute(self.machine, after, instruction)
                states.append((Ending(reason, int(instruction), unit), after))
        return states


def _in_units(program: Program) -> tuple[Program, Int64Array]:
    """Return the program that sends each message unit by unit, and for each new instruction the old one."""
    code = program.code
    parts = np.where((code.to != NONE) | (code.origin != NONE), np.maximum(code.length, 1), 1)
    begin = offsets_of(parts)
    if begin[-1] > LIMITS.parts:
        raise InputError(f"{program.name}: messages of {begin[-1]} units; at most {LIMITS.parts} are judged")
    original = np.repeat(np.arange(len(program)), parts)
    within = np.arange(len(original)) - begin[original]
    code = Code(*(column[original] for column in code))
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
