"""Deadlines and limits."""

from models.taccl.solving import Deadline, StageLimits


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


def test_limits_have_no_end_unless_given():
    assert StageLimits().deadline.left == float("inf")
