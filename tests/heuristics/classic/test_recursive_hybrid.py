"""Hybrid: legal anywhere, as fast as the textbooks' algorithms where these are its chains."""

from fractions import Fraction

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.heuristics.classic.recursive_hybrid import (
    METHOD,
    Chain,
    HybridOptions,
    HybridPart,
    HybridSearch,
    factorizations,
)
from tutti.schedules import Problem, collective
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import InputError, Unsupported
from tutti.topologies.text import parse_topology

ALPHA = 0.5e-6


def problem_on(text, size=Fraction(1000), kind="allreduce"):
    topology = parse_topology(text)
    return Problem(topology, collective(kind, topology.num_ranks), size)


def made(text, size=Fraction(1000), **options):
    schedule = METHOD.synthesize(problem_on(text, size), HybridOptions(**options), np.random.default_rng(0))
    verify(schedule)
    return schedule


@for_each(
    "text",
    [
        "ring:2",
        "ring:7",
        "mesh:2x3?alpha=0us",
        "gen_kautz:2,9",
        "dgx_h100:2?ranks=2+2",
        "ndv2:2?ranks=3+3",
        "rfs:2x2x3",
    ],
)
@pytest.mark.parametrize("size", [Fraction(1), Fraction(10**12), None])
def test_it_is_legal_on_any_network_at_any_size(text, size):
    made(text, size, moves=20, parts=3)


@pytest.mark.parametrize(("text", "alphas"), [("complete:8", 1), ("hypercube:3", 3), ("dgx_a100:1", 6)])
def test_a_byte_takes_the_fewest_alpha_of_any_digits(text, alphas):
    """Straight to all over links of their own; three neighbours; behind a switch three messages of two α."""
    assert simulate(made(text, Fraction(1), moves=60, parts=1), 1).time == pytest.approx(
        alphas * ALPHA, rel=1e-3
    )


def test_a_gigabyte_is_halved():
    """7/8 of it over a port at 300 GB/s, there and back; α is nothing."""
    time = simulate(made("dgx_a100:1", Fraction(10**9), moves=60, parts=1), 10**9).time
    assert time == pytest.approx(2 * 7 / 8 * 10**9 / 300e9, rel=0.01)


def test_parts_use_ports_and_adapters_in_turn():
    """Recursive doubling takes 3 (1 + 0.107) us over ports and 1 + 1.28 over adapters at 25 GB/s: 5.6.

    Of two halves one may go over adapters first, and the other last: each for 1.64 us.
    """
    inside, across = [1, 2, 3], [0]
    radices = (2, 2, 2, 2)
    problem = problem_on("dgx_a100:2", Fraction(32000))
    search = HybridSearch(problem, HybridOptions(), np.random.default_rng(0))
    parts = [
        HybridPart(32, Chain(radices, tuple(order), 0, radices))
        for order in (inside + across, across + inside)
    ]
    time = {len(some): simulate(search.schedule(some), 32000).time for some in (parts, parts[:1])}
    assert time[1] == pytest.approx(5.6e-6)
    assert time[2] < 5.6e-6 - 0.5 * 1.28e-6 + 3 * 0.11e-6
    found = METHOD.synthesize(problem, HybridOptions(moves=150), np.random.default_rng(0))
    assert simulate(found, 32000).time < 5.6e-6


@pytest.mark.parametrize(("number", "ways"), [(1, 1), (2, 1), (7, 1), (8, 4), (12, 8), (64, 32)])
def test_factorizations_are_ordered(number, ways):
    """The number 2^n has 2^(n - 1), as n has as sums; 12 has 12, 2·6, 6·2, 3·4, 4·3 and three of 2·2·3."""
    found = factorizations(number)
    assert len(set(found)) == len(found) == ways
    assert {int(np.prod(one)) for one in found} == {number}


def test_what_it_refuses_is_said_in_a_line():
    with pytest.raises(InputError, match="parts"):
        HybridOptions(parts=0)
    with pytest.raises(Unsupported, match="at most 256 ranks"):
        METHOD.supports(problem_on("ring:257"), HybridOptions())
    with pytest.raises(Unsupported, match="does allreduce"):
        METHOD.supports(problem_on("ring:4", kind="allgather"), HybridOptions())


def test_out_of_time_it_has_a_schedule_already():
    short, longer = made("switch2d:4x2", time_limit=1e-9), made("switch2d:4x2")
    assert simulate(longer, 1000).time <= simulate(short, 1000).time
