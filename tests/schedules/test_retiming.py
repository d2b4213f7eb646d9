"""Retiming puts each message where it fits first, as a list of uses does; legal times stay the same."""

import numpy as np
import pytest

from tests.heuristics.tacos.synthesis import tacos
from tests.schedules.builders import in_clock, plans
from tutti.schedules import Clock
from tutti.schedules.message_durations import messages, transfer_ticks
from tutti.schedules.retiming import ends, retimed
from tutti.schedules.verify import verify

COLUMNS = ("chunk", "count", "route", "order", "reduce")


@pytest.mark.parametrize("name", plans())
def test_messages_that_may_not_start_earlier_stay_where_they_fit(name):
    schedule = in_clock(plans()[name], Clock.TIME)
    made = retimed(schedule, delayed=True)
    for column in COLUMNS:
        np.testing.assert_array_equal(getattr(made, column), getattr(schedule, column))


@pytest.mark.parametrize("name", plans())
def test_gaps_are_closed(name):
    schedule = in_clock(plans()[name], Clock.TIME)
    apart = schedule.replace(order=3 * schedule.order + 5)
    made = retimed(apart)
    verify(made)
    assert made.order[0] == 0
    assert ends(made) <= ends(schedule)


def test_rows_are_put_where_they_fit_first():
    """The oracle is a list of uses for each link, searched from the start for every transfer."""
    schedule = tacos("switch2d:3x3", "allreduce", chunks=2, degree=2)
    rng = np.random.default_rng(3)
    first = np.flatnonzero(~schedule.reduce)[:40]  # copies: none waits for another, so any order does
    rows = rng.permutation(first)
    shuffled = schedule.replace(
        chunk=schedule.chunk[rows], route=schedule.route[rows], reduce=None, order=np.arange(len(rows))
    )
    made = retimed(shuffled)
    found = sorted(zip(made.order.tolist(), made.route.tolist(), made.chunk.tolist(), strict=True))
    assert found == sorted(_first_fits(shuffled))


def _first_fits(schedule):
    durations = transfer_ticks(schedule, messages(schedule))
    table, uses, ready = schedule.route_table, {}, {}
    for row in range(len(schedule)):
        route, chunk, kind = int(schedule.route[row]), int(schedule.chunk[row]), durations.kind[row]
        links = table.links[table.offsets[route] : table.offsets[route + 1]].tolist()
        begin = durations.offsets[kind]
        enter = durations.enter[begin : begin + len(links)].tolist()
        hold = durations.hold[begin : begin + len(links)].tolist()
        source, target = int(schedule.route_source[route]), int(schedule.route_target[route])
        earliest = ready.get((source, chunk), 0)
        moments = {earliest} | {
            end - delay for link, delay in zip(links, enter, strict=True) for _, end in uses.get(link, [])
        }
        start = min(
            now
            for now in moments
            if now >= earliest
            and all(
                now + delay >= end or now + delay + held <= other
                for link, delay, held in zip(links, enter, hold, strict=True)
                for other, end in uses.get(link, [])
            )
        )
        for link, delay, held in zip(links, enter, hold, strict=True):
            uses.setdefault(link, []).append((start + delay, start + delay + held))
        arrival = start + int(durations.arrival[kind])
        ready[target, chunk] = max(ready.get((target, chunk), 0), arrival)
        yield start, route, chunk
