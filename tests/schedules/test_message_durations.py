"""Messages and their ticks, on examples by hand."""

from fractions import Fraction

import numpy as np
import pytest

from tutti.schedules import Chunks, Clock, Routes, Schedule, collective
from tutti.schedules.message_durations import (
    REACH,
    FarApartError,
    check_reach,
    link_ticks,
    messages,
    transfer_ticks,
)
from tutti.topologies import InputError, Link, Topology

# The links 0 -> 1 -> 2 -> 0 have α = 1, 2 and 0 s, and 3, 2 and 6 B/s.
TRIANGLE = Topology.from_links(
    "triangle", 3, [Link(0, 1, 3, Fraction(1)), Link(1, 2, 2, Fraction(2)), Link(2, 0, 6, Fraction(0))]
)
ROUTES = Routes.of([[0], [1], [2], [0, 1], [1, 2]])


def schedule(order, chunk, route, **columns):
    what = collective("allgather", 3)
    columns = {"tick": Fraction(1, 2), "size": Fraction(18), "routes": ROUTES} | columns
    chunks = Chunks.even(what, 2)  # of 3 bytes
    return Schedule(TRIANGLE, what, Clock.TIME, chunks, chunk, route, np.array(order), **columns)


def test_rows_with_one_route_and_start_are_one_message():
    grouped = messages(schedule([0, 0, 0, 1], [0, 2, 1, 4], [0, 1, 0, 0]))
    assert grouped.of_row.tolist() == [0, 1, 0, 2]
    assert grouped.route.tolist() == [0, 1, 0]
    assert grouped.order.tolist() == [0, 0, 1]
    assert grouped.load.tolist() == [2, 1, 1]


def test_rows_of_the_flow_clock_are_messages_of_their_own():
    flow = schedule([0, 0], [0, 1], [0, 0]).replace(clock=Clock.FLOW, order=None, tick=None, size=None)
    grouped = messages(flow)
    assert grouped.of_row.tolist() == [0, 1]
    assert grouped.load.tolist() == [1, 1]


def test_a_link_is_held_for_alpha_and_the_bytes_rounded_up_together():
    """Link 1 is held for 2 + 3/2 s, 7 ticks; link 2 for 3/6 s, 1 tick, or 2 ticks with 6 bytes."""
    timed = schedule([0, 0, 9, 9], [2, 4, 4, 5], [1, 2, 2, 2])
    durations = transfer_ticks(timed, messages(timed))
    assert durations.until_arrival.tolist() == [7, 1, 2]
    assert durations.hold[durations.offsets[durations.kind]].tolist() == [7, 1, 2]


def test_data_arrives_no_sooner_than_the_slowest_link_brings_it():
    """Links 1 and 2 take 2 s of α and 3 bytes at 2 B/s, although the last link is faster: 7 ticks."""
    timed = schedule([0], [0], [4])
    assert transfer_ticks(timed, messages(timed)).arrival.tolist() == [7]


def test_each_quantity_of_a_longer_route_is_rounded_up_once():
    """Links 0 and 1 have α = 1 and 2 s, and 3 bytes go at 3 and 2 B/s; a tick is 4/3 s.

    The head enters link 1 at 1 s: 3/4, so 1 tick. Link 0 is held 1 + 1 s: 3/2, so 2; link 1 is held 2 + 3/2
    s: 21/8, so 3. The message arrives at 1 + 2 + 3/2 s: 27/8, so 4.
    """
    timed = schedule([0], [0], [3], tick=Fraction(4, 3))
    durations = transfer_ticks(timed, messages(timed))
    assert durations.enter.tolist() == [0, 1]
    assert durations.hold.tolist() == [2, 3]
    assert durations.arrival.tolist() == [4]


def test_an_empty_message_over_a_link_without_alpha_lasts_a_tick():
    """A message that depends on it leaves later; otherwise the two could count as one message."""
    what = collective("allgather", 3, shards=[1, 1, 0])
    chunks = Chunks(np.arange(3, dtype=np.int32), np.array([1, 1, 0]), 2)
    empty = schedule([0], [2], [2]).replace(collective=what, chunks=chunks)
    lasting = transfer_ticks(empty, messages(empty))
    assert (lasting.arrival.tolist(), lasting.enter.tolist(), lasting.hold.tolist()) == ([1], [0], [1])


def test_an_exact_number_of_ticks_is_not_rounded():
    """A third of a second is exactly one tick of a third, which floats could not give."""
    links = [Link(i, (i + 1) % 3, 3, Fraction(0)) for i in range(3)]
    timed = schedule([0], [0], [0], tick=Fraction(1, 3), size=Fraction(6), routes=None)
    timed = timed.replace(topology=Topology.from_links("thirds", 3, links))
    assert transfer_ticks(timed, messages(timed)).arrival.tolist() == [1]


@pytest.mark.parametrize("missing", [{"tick": None}, {"size": None}, {"tick": Fraction(0)}])
def test_ticks_need_a_tick_and_a_size(missing):
    timed = schedule([0], [0], [0], **missing)
    with pytest.raises(InputError, match="needs a positive tick and a positive size"):
        transfer_ticks(timed, messages(timed))


def test_other_clocks_have_no_ticks():
    steps = schedule([1], [0], [0]).replace(clock=Clock.STEP)
    with pytest.raises(InputError, match="this one has the step clock"):
        transfer_ticks(steps, messages(steps))


def test_too_short_a_tick_is_an_error():
    timed = schedule([0], [0], [0], tick=Fraction(1, 10**20))
    with pytest.raises(InputError, match="more than 64 bits hold; use a longer tick"):
        transfer_ticks(timed, messages(timed))


def test_messages_over_single_links_hold_them_as_the_time_clock_says():
    """A link is held for α + bytes / bandwidth, rounded up; the shortest message has a million ticks."""
    links = [Link(0, 1, Fraction(3), Fraction(1)), Link(1, 0, Fraction(7), Fraction(0))]
    found = link_ticks(Topology.from_links("pair", 2, links), np.array([1, 5]), Fraction(2))
    assert found.tick == Fraction(2, 7) / 10**6  # the shortest: 2 bytes at 7 B/s
    seconds = [[1 + Fraction(2, 3), 1 + Fraction(10, 3)], [Fraction(2, 7), Fraction(10, 7)]]
    for link, kind in enumerate(found.kind):
        for ticks, exact in zip(found.table[kind].tolist(), seconds[link], strict=True):
            assert 0 <= ticks * found.tick - exact < found.tick


def test_a_clock_reaches_so_far():
    check_reach(REACH / 2, Fraction(1, 3))
    with pytest.raises(FarApartError):
        check_reach(1.0, REACH)
