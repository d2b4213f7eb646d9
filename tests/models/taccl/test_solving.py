"""Deadlines and limits."""

import pytest

from tutti.models.taccl.solving import Deadline, StageLimits
from tutti.topologies.errors import NoSchedule


def test_a_deadline_shares_out_what_is_left(clock):
    whole = Deadline.after(8)
    half = whole.share(1 / 2)
    assert (whole.left, half.left, whole.over) == (8, 4, False)
    clock[0] = 4
    assert (whole.left, half.left, half.over) == (4, 0, True)
    assert whole.share(1 / 4).moment == 5
    clock[0] = 9
    assert (whole.left, whole.over) == (0, True)
    never = Deadline.after(None)
    assert never.share(1 / 2) == never
    assert not never.over


def test_what_must_be_done_has_all_of_the_time_and_a_little_more(clock):
    part = Deadline.after(8).share(1 / 4)
    clock[0] = 7
    part.check("ring:4")
    assert part.over
    clock[0] = 9
    with pytest.raises(NoSchedule, match=r"^taccl: no routing on ring:4 in the time that is given"):
        part.check("ring:4")
    short = Deadline.after(1e-3)
    clock[0] += 1
    short.check("ring:4")


def test_limits_have_no_end_unless_given():
    assert StageLimits().deadline.left == float("inf")
