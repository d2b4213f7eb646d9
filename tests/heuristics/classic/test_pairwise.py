"""Pairwise exchange: the sender and receiver of each message in each step, in groups too."""

from fractions import Fraction

import pytest

from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.schedules.cost import step_cost
from tutti.topologies import InputError, Unsupported

PAIRWISE = METHODS["pairwise"]


@for_each("partner", ["shift", "xor"])
def test_in_each_step_every_rank_sends_to_one_and_receives_from_one(made, partner):
    schedule = made(PAIRWISE, "complete:8", "all-to-all", options={"partner": partner})
    for step in range(1, 8):
        now = schedule.order == step
        pairs = set(zip(schedule.source[now].tolist(), schedule.target[now].tolist(), strict=True))
        expected = {(i, i ^ step if partner == "xor" else (i + step) % 8) for i in range(8)}
        assert pairs == expected
    assert schedule.order.max() == 7


@for_each("ranks", [2, 3, 7])
def test_behind_a_switch_no_port_has_two_messages(made, ranks):
    """N - 1 steps over two links, each of M/N: T_L = 2 (N - 1), T_B = (N - 1)/N M/b."""
    cost = step_cost(made(PAIRWISE, f"switch2d:{ranks}x1?bandwidth=1GB/s", "all-to-all"))
    assert cost.tl_steps == 2 * (ranks - 1)
    assert cost.bandwidth_time == Fraction(ranks - 1, ranks) / 10**9


@for_each(("ranks", "same"), [(4, "xor"), (6, "shift")])
def test_unless_told_pairs_exchange_where_there_is_a_power_of_two(made, ranks, same):
    chosen, told = (
        made(PAIRWISE, f"complete:{ranks}", "all-to-all", options=options)
        for options in ({}, {"partner": same})
    )
    assert (chosen.order == told.order).all()
    assert (chosen.target == told.target).all()


def test_groups_exchange_among_themselves(made):
    schedule = made(PAIRWISE, "complete:8", "all-to-all", groups=[[0, 3], [7, 5, 1, 2]])
    assert schedule.order.max() == 3
    assert len(schedule) == 2 + 12


def test_xor_needs_groups_of_a_power_of_two(made):
    with pytest.raises(Unsupported, match="pairwise has partner xor for a power of two ranks; these are 6"):
        made(PAIRWISE, "ring:6", "all-to-all", options={"partner": "xor"})
    made(PAIRWISE, "ring:6", "all-to-all", options={"partner": "xor"}, groups=[[0, 1], [2, 3, 4, 5]])


@pytest.mark.parametrize("value", ["", "XOR", None, 1])
def test_an_unknown_partner_is_refused(value):
    with pytest.raises(InputError, match="pairwise option partner is"):
        PAIRWISE.options(partner=value)
