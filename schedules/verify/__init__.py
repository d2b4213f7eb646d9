"""The verifier: replays a schedule's table and names the first wrong transfer.

The checks, in this order:

1. the two tables by themselves (`table`): ranges, shares, routes, switches, order;
2. the replay (`replay`) and, in the time clock, the use of the links (`timing`), in one order of events;
3. who holds what at the end; where a sum is wrong, who spoilt it (`blame`);
4. the claims (`claims`).

What is first in a replay depends on the clock. In the step clock all rows of a step read their sources,
then all deliver. In the time clock a row reads at its start and delivers at its arrival; of one tick,
arrivals come first, and ties go by row. In the flow clock each row reads and delivers before the next.

A row that copies overwrites; it is wrong where its source holds nothing, or its destination the same
value already. A row that reduces adds to what its destination holds. At the end each rank that must hold a
chunk must hold exactly what it should: each contribution once. Chunks of size 0 are no exception.
"""

from __future__ import annotations

from schedules.schedule import Clock, Schedule
from schedules.verify.blame import reduction_error
from schedules.verify.claims import check_claims
from schedules.verify.errors import VerificationError, chunk_name, wrong_transfer
from schedules.verify.replay import MISSING, NOT_HELD, TWICE, Fault, Spans, first_fault, spans
from schedules.verify.table import check_table
from schedules.verify.timing import Clash, first_clash, timing

__all__ = ["VerificationError", "verify"]


def verify(schedule: Schedule) -> None:
    """Check that a schedule does its collective, in time linear in its table.

    Raises
    ------
    VerificationError
        Naming the first wrong transfer, or what is wrong at the end.
    """
    check_table(schedule)
    when = clash = None
    if schedule.clock is Clock.TIME:
        when = timing(schedule)
        clash = first_clash(schedule, when)
    turns = spans(schedule, when)
    fault = first_fault(schedule, turns)
    if clash is not None and (fault is None or (turns.reading(clash.row), clash.row) <= fault[:2]):
        raise _overlap(schedule, clash)
    if fault is not None:
        raise _fault_error(schedule, turns, fault)
    check_claims(schedule)


def _overlap(schedule: Schedule, clash: Clash) -> VerificationError:
    name = schedule.topology.link_name(clash.link)
    return wrong_transfer(
        schedule, clash.row, None, f"overlapping use of link {name}, which transfer {clash.other} still holds"
    )


def _fault_error(schedule: Schedule, turns: Spans, fault: Fault) -> VerificationError:
    label = schedule.topology.labels[fault.node]
    if fault.reason == NOT_HELD:
        return wrong_transfer(schedule, fault.row, fault.chunk, f"sent before {label} holds it")
    if fault.reason == TWICE:
        return wrong_transfer(schedule, fault.row, fault.chunk, f"delivered twice: {label} holds it already")
    if fault.reason == MISSING:
        return VerificationError(f"{chunk_name(schedule, fault.chunk)} is missing at rank {label} at the end")
    return reduction_error(schedule, turns, fault.chunk)
