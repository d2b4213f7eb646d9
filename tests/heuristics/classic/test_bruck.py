"""Bruck's algorithm: as many steps as the logarithm of the ranks."""

from collections import Counter

import pytest

from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.topologies import InputError
from tutti.topologies.text import parse_topology


@for_each("text", ["ring:5", "complete:7", "torus:3x3", "gen_kautz:2,6"])
@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce", "all-to-all"])
def test_bruck_is_legal_for_any_number_of_ranks(made, text, kind):
    steps = {5: 3, 6: 3, 7: 3, 9: 4}[parse_topology(text).num_ranks]  # ceil(log2 N)
    assert made(METHODS["bruck"], text, kind).order.max() == steps * (2 if kind == "allreduce" else 1)


def digits(number, radix):
    """The digits of a number, the lowest first."""
    return [] if number == 0 else [number % radix, *digits(number // radix, radix)]


@for_each("radix", [2, 3, 4, 9, 10**30])
@for_each("ranks", [2, 3, 8, 9, 10, 16])
def test_a_radix_has_a_step_for_each_digit_of_each_place(made, ranks, radix):
    """Steps: pairs (place, digit) that some distance below N has; shards sent: all digits that are not 0."""
    steps = {(at, z) for j in range(ranks) for at, z in enumerate(digits(j, radix)) if z}
    exchange = made(METHODS["bruck"], f"complete:{ranks}", "all-to-all", options={"radix": radix})
    gather = made(METHODS["bruck"], f"complete:{ranks}", options={"radix": radix})
    assert exchange.order.max() == gather.order.max() == len(steps)
    moved = sum(z > 0 for j in range(ranks) for z in digits(j, radix))
    assert len(exchange) == ranks * moved
    assert len(gather) == ranks * (ranks - 1)


@for_each(("radix", "power"), [(2, 4), (3, 2), (4, 2), (5, 1)])
def test_with_a_power_of_the_radix_a_rank_sends_k_r_less_1_messages_of_a_part_r(made, radix, power):
    ranks = radix**power
    schedule = made(METHODS["bruck"], f"complete:{ranks}", "all-to-all", options={"radix": radix})
    sent = Counter(schedule.order[schedule.source == 1].tolist())
    assert list(sent.values()) == [ranks // radix] * (power * (radix - 1))


@pytest.mark.parametrize("value", [1, 0, -2, 2.0, "3", True, None])
def test_a_wrong_radix_is_refused(value):
    with pytest.raises(InputError, match=r"bruck option radix is .*; it must be an integer of at least 2"):
        METHODS["bruck"].options(radix=value)
