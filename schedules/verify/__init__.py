"""The verifier: replays a schedule's table and names the first wrong transfer.

The checks, in this order:

1. the two tables by themselves (`table`): ranges, shares, routes, switches, order;
2. the replay (`replay`) and, in the time clock, the use of the links (`timing`), in one order of events;
3. the final values and, if a sum is wrong, the transfer that spoilt it (`replay`);
4. the claims (`check_claims`), against `schedules.cost`.

`table` also makes the one-line errors. A table on disk (`schedules.files.rounds`) is checked block by block.
The verifier reads only the table, whatever made it.

The order of a replay depends on the clock. In the step clock all rows of a step read their sources, then all
deliver. In the time clock a row reads at its start and delivers at its arrival. In one tick arrivals come
first, and ties are broken by row. In the flow clock each row reads and delivers before the next.

A row that copies overwrites. It is wrong if its source holds nothing, or if its destination already holds the
same value. A row that reduces adds to the value of its destination. At the end each rank that must hold a
chunk must hold exactly the right value: each contribution once. Chunks of size 0 are no exception.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np

from tutti.schedules.cost import congestion, step_cost
from tutti.schedules.files.rounds import RoundTable
from tutti.schedules.method import Problem
from tutti.schedules.schedule import Clock, Schedule
from tutti.schedules.verify.replay import (
    MISSING,
    NOT_HELD,
    TWICE,
    UNEVEN,
    Fault,
    Replay,
    first_fault,
    parts_of_state,
    reduction_error,
)
from tutti.schedules.verify.table import check_table, chunk_name, wrong_transfer
from tutti.schedules.verify.timing import ReplaySpans, first_clash, spans, timing
from tutti.topologies.errors import TuttiError, VerificationError, suggestion
from tutti.topologies.exact import Int64Array

__all__ = ["VerificationError", "verify", "verify_answer"]

THREADS = 2
"""Number of parts of a state that are replayed at the same time. A larger value needs more memory."""


def verify(schedule: Schedule | RoundTable) -> None:
    """Check that a schedule does its collective, in time linear in its table.

    A schedule on disk is read block by block, and once more for each part of the state that fits memory.

    Raises
    ------
    VerificationError
        If it does not; the message names the first wrong transfer, or the fault at the end.
    """
    if isinstance(schedule, RoundTable):
        _verify_blocks(schedule)
        return
    check_table(schedule)
    when = clash = None
    if schedule.clock is Clock.TIME:
        when = timing(schedule)
        clash = first_clash(schedule, when)
    turns = spans(schedule, when)
    fault = first_fault(schedule, turns)
    if clash is not None and (fault is None or (turns.reading(clash.row), clash.row) <= fault[:2]):
        name = schedule.topology.link_name(clash.link)
        what = f"overlapping use of link {name}, which transfer {clash.other} still holds"
        raise wrong_transfer(schedule, clash.row, None, what)
    if fault is not None:
        raise _fault_error(schedule, turns, fault)
    check_claims(schedule)


def verify_answer(answer: Any, problem: Problem, who: str) -> Schedule:
    """Verify the answer of the method `who` to a problem, and return it.

    Raises
    ------
    TuttiError
        If it is no schedule, or a schedule for another problem.
    VerificationError
        As `verify`.
    """
    if not isinstance(answer, Schedule):
        raise TuttiError(f"{who} returned {type(answer).__name__}; it must return a Schedule")
    if (answer.topology, answer.collective) != (problem.topology, problem.collective):
        asked, made = (f"{one.collective} on {one.topology.name}" for one in (problem, answer))
        raise TuttiError(f"{who} answered another problem: {made}, not {asked}")
    verify(answer)
    return answer


def _verify_blocks(table: RoundTable) -> None:
    """Check a table block by block: first each row by itself, then replays of some chunks at a time."""
    for first_row, rows in table.blocks():
        try:
            check_table(rows)
        except VerificationError as error:
            raise error.renumbered(first_row) from None
    with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)) as pool:
        found = list(pool.map(lambda part: _first_of_blocks(table, *part), parts_of_state(table)))
    faults = [fault for fault in found if fault is not None]
    if faults:
        place, fault = min(faults, key=lambda pair: (pair[0], pair[1][:2]))
        raise _block_error(table, place, fault)


def _first_of_blocks(table: RoundTable, low: int, high: int) -> tuple[int, Fault] | None:
    """Return the first fault in a replay and its block; a fault at the end has the block after the last."""
    replay, place = Replay(table, low, high), 0
    for _, rows in table.blocks():
        fault = replay.play(rows, spans(rows, None))
        if fault is not None:
            return place, fault
        place += 1
    fault = replay.lacking((0, 0))
    return None if fault is None else (place, fault)


def _block_error(table: RoundTable, place: int, fault: Fault) -> VerificationError:
    if fault.reason == MISSING:
        return _missing_error(table, fault)
    if fault.reason == UNEVEN:
        extract, numbers = _rows_of(table, fault.chunk)
        error = reduction_error(extract, spans(extract, None), fault.chunk)
        return error if error.row is None else error.renumbered(int(numbers[error.row]) - error.row)
    first_row, rows = next(islice(table.blocks(), place, None))
    return _fault_error(rows, spans(rows, None), fault).renumbered(first_row)


def _rows_of(table: RoundTable, chunk: int) -> tuple[Schedule, Int64Array]:
    """Return the rows that carry one chunk, and their numbers."""
    parts, numbers = [], []
    for first_row, block in table.blocks():
        rows = np.flatnonzero(block.chunk == chunk)
        numbers.append(rows + first_row)
        order = np.zeros(0, np.uint32) if block.order is None else block.order[rows]
        parts.append((block.chunk[rows], block.route[rows], order, block.adds[rows]))
    chunks, route, order, reduces = (np.concatenate(column) for column in zip(*parts, strict=True))
    extract = Schedule(
        table.topology, table.collective, Clock.STEP, table.chunks, chunks, route, order, reduce=reduces
    )
    return extract, np.concatenate(numbers)


def _missing_error(schedule: Schedule | RoundTable, fault: Fault) -> VerificationError:
    label = schedule.topology.labels[fault.node]
    return VerificationError(f"{chunk_name(schedule, fault.chunk)} is missing at rank {label} at the end")


def _fault_error(schedule: Schedule, turns: ReplaySpans, fault: Fault) -> VerificationError:
    label = schedule.topology.labels[fault.node]
    if fault.reason == NOT_HELD:
        return wrong_transfer(schedule, fault.row, fault.chunk, f"sent before {label} holds it")
    if fault.reason == TWICE:
        return wrong_transfer(schedule, fault.row, fault.chunk, f"delivered twice: {label} holds it already")
    if fault.reason == MISSING:
        return _missing_error(schedule, fault)
    return reduction_error(schedule, turns, fault.chunk)


def check_claims(schedule: Schedule) -> None:
    """Check that each claim equals the value from `schedules.cost`.

    Raises
    ------
    VerificationError
        If a claim is wrong or unknown, or this schedule has no such value.
    """
    for name, claimed in schedule.claims.items():
        if name not in _CLAIMS:
            raise VerificationError(f"unknown claim '{name}'{suggestion(name, _CLAIMS)}")
        found = _CLAIMS[name](schedule)
        if found is None:
            raise VerificationError(f"the schedule claims {name} = {claimed}, which it does not have")
        if Fraction(claimed) != found:
            raise VerificationError(f"the schedule claims {name} = {claimed}; it is {found}")


_CLAIMS: dict[str, Callable[[Schedule], Fraction | int | None]] = {
    "tl_steps": lambda schedule: step_cost(schedule).tl_steps if schedule.clock is Clock.STEP else None,
    "tb": lambda schedule: step_cost(schedule).tb if schedule.clock is Clock.STEP else None,
    "congestion": congestion,
}
