"""The method `optimum`: optima by hand, beside TACOS, and what is refused."""

import csv
from fractions import Fraction
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from tests.models.networks import MICRO
from tests.models.optimum.cases import ALPHA, METHOD, B, made, problem, seconds
from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.models.bounds import lower_bounds
from tutti.schedules import Problem, collective
from tutti.schedules.schedule import Clock
from tutti.topologies import InputError, Link, Topology, Unsupported

REFERENCE = Path(__file__).parents[2] / "data" / "reference" / "instances.csv"


@for_each("size", [600, 2**20])
@for_each(
    ("text", "kind", "details", "expected"),
    [
        # by hand: one hop; on a path of 3 an end needs the far chunk over two links, and then or before its
        # neighbour's over the last: both links busy, two messages in a row
        ("ring:3", "allgather", {}, lambda m: ALPHA + m / 3 / B),
        ("mesh:2x1", "allgather", {}, lambda m: ALPHA + m / 2 / B),
        ("mesh:3x1", "allgather", {}, lambda m: 2 * (ALPHA + m / 3 / B)),
        ("mesh:3x1", "broadcast", {"root": 0}, lambda m: 2 * (ALPHA + m / B)),
        # 2 chunks from the middle's left end: both over one link, as one message or two in a row
        ("mesh:3x1", "scatter", {"root": 0}, lambda m: 2 * (ALPHA + m / 3 / B)),
        ("uniring:3", "allgather", {}, lambda m: 2 * (ALPHA + m / 3 / B)),
        ("complete:4", "allgather", {}, lambda m: ALPHA + m / 4 / B),
        # behind a switch two messages in a row to each, on the way to it α before; over three switches 4 α
        ("fat_tree:1,3", "allgather", {}, lambda m: ALPHA + 2 * (ALPHA + m / 3 / B)),
        ("fat_tree:1,3", "all-to-all", {}, lambda m: ALPHA + 2 * (ALPHA + m / 3 / B)),
        ("fat_tree:2,1,1", "allgather", {}, lambda m: 4 * ALPHA + m / 2 / B),
    ],
)
def test_optima_that_can_be_found_by_hand(text, kind, details, expected, size):
    schedule = made(problem(text, size, kind, **details))
    assert schedule.stats["solver_gap"] == 0
    assert seconds(schedule, size) == pytest.approx(expected(size), rel=1e-9)


def test_a_row_says_that_messages_go_over_one_link():
    """A chunk goes to all of a ring of 4 over two links: one after the other, or cutting through."""
    size = 10**6
    task = problem("ring:4?links=2", size, "broadcast", root=0)
    schedule, direct = made(task), METHODS["direct"]
    through = direct.synthesize(task, direct.options(), np.random.default_rng(0))
    assert seconds(schedule, size) == pytest.approx(2 * (ALPHA + size / B), rel=1e-9)
    assert seconds(through, size) == pytest.approx(2 * ALPHA + size / B, rel=1e-9)
    assert schedule.stats["program"] == "constraint program of messages over one link each"
    over_routes = made(task, cut_through=True)
    assert seconds(over_routes, size) == pytest.approx(2 * ALPHA + size / B, rel=1e-9)
    assert over_routes.stats["program"] == "constraint program of messages over routes"


@for_each("rates", [(10, 100, 20), (100, 10, 20), (20, 100, 10)])
def test_a_message_through_switches_is_as_slow_as_its_slowest_link(rates):
    ends = [(0, 2), (2, 3), (3, 1)]
    links = [Link(a, b, Fraction(rate * 10**9), MICRO) for (a, b), rate in zip(ends, rates, strict=True)]
    links += [Link(b, a, Fraction(10**9), MICRO) for a, b in ends]
    task = Problem(
        Topology.from_links("uneven", 2, links, num_switches=2),
        collective("broadcast", 2, root=0),
        Fraction(30_000),
    )
    schedule = made(task)
    assert schedule.stats["solver_gap"] == 0
    assert seconds(schedule, 30_000) == pytest.approx(6e-6)


def test_a_reduction_through_switches_of_unlike_links_is_not_called_optimal():
    """The 60 KB of rank 2 take 6 us to the switch and the last link; those of rank 1 follow, in 9 us."""
    up, down = (50, 50, 10), (20, 50, 20)
    links = [Link(a, 3, Fraction(rate * 10**9), MICRO) for a, rate in enumerate(up)]
    links += [Link(3, a, Fraction(rate * 10**9), MICRO) for a, rate in enumerate(down)]
    star = Topology.from_links("star", 3, links, num_switches=1)
    schedule = made(Problem(star, collective("reduce", 3, root=0), Fraction(60_000)))
    assert seconds(schedule, 60_000) * (1 - schedule.stats["solver_gap"]) <= 9.000001e-6


def test_a_start_over_links_is_refused_where_there_are_switches():
    with pytest.raises(
        Unsupported, match="optimum: the start bfb needs a network without switches; fat_tree"
    ):
        made(problem("fat_tree:1,3", 1024), start="bfb")


def test_a_scatter_over_routes():
    """Ring of 6, 120 KB: a shard takes 0.4 us, α is 0.5 us, and the far shard goes half around each side.

    By hand: over either first link that half and the shard for 2 hops cut through to their rank, until
    2 α + 0.6 us = 1.6 us. From there the half continues, until 2.3 us. The shard for 1 hop follows, until
    1.1 + 0.9 us.
    Without routes two messages of two hops and one, or three of one hop each, take 2.5 us.
    """
    schedule = made(problem("ring:6", 120_000, "scatter", root=0), chunks=2, cut_through=True)
    assert schedule.stats["solver_gap"] == 0
    assert seconds(schedule, 120_000) == pytest.approx(2.3e-6)


@for_each("text", ["mesh:3x1?bandwidth=50GB/s&alpha=1us", "mesh:2x2?bandwidth=50GB/s,20GB/s&alpha=1us"])
@for_each("kind", ["allgather", "scatter", "gather", "broadcast", "all-to-all", "reduce-scatter"])
def test_what_may_cut_through_is_no_slower_and_above_the_bounds(text, kind):
    size = 60_000
    task = problem(text, size, kind, **({"root": 0} if kind in ("scatter", "gather", "broadcast") else {}))
    through, single = (made(task, cut_through=cut_through, cuts=False) for cut_through in (True, False))
    assert single.stats["solver_gap"] == 0
    assert through.stats["solver_gap"] == 0 or (
        kind == "reduce-scatter" and not task.topology.bandwidth.uniform
    )
    assert seconds(through, size) <= seconds(single, size) * (1 + 1e-9)
    for bound in lower_bounds(task.topology, task.collective, size):
        assert bound.time(size) <= seconds(through, size) * (1 + 1e-9)


def test_chunks_of_one_message_share_its_alpha():
    """Scatter of 3 shards along a path of 4, from an end, where α is everything.

    By hand: bundles of 3, 2 and 1; or the far chunk first, alone, and then the others.
    """
    size = 8
    schedule = made(problem("mesh:4x1", size, "scatter", root=0))
    bundled = 3 * ALPHA + (3 + 2 + 1) * size / 4 / B
    alone = max(2 * ALPHA + 3 * size / 4 / B, 3 * ALPHA + 3 * size / 4 / B)
    assert seconds(schedule, size) <= min(bundled, alone) * (1 + 1e-9)


@pytest.mark.parametrize("order", list(permutations([1, 2])))
def test_a_scatter_over_a_path_by_all_its_orders(order):
    """Path 0-1-2, root 0, chunks for 1 and 2: either may be sent first, or both together."""
    size = 2**20
    m = size / 3 / B
    ends = {(1, 2): max(ALPHA + m, 2 * (ALPHA + m) + ALPHA + m), (2, 1): 2 * (ALPHA + m)}
    both = max(ALPHA + 2 * m, ALPHA + 2 * m + ALPHA + m)
    schedule = made(problem("mesh:3x1", size, "scatter", root=0))
    assert seconds(schedule, size) <= min(ends[order], both) * (1 + 1e-9)


def tiny():
    with REFERENCE.open() as file:
        return [row["topology"] for row in csv.DictReader(file) if row["set"] == "tiny"]


@for_each("text", tiny())
def test_no_method_with_one_chunk_over_single_links_is_faster(text):
    """TACOS in the time clock sends single chunks over single links, so it lies in the space searched.

    If the search has not ended in this short time, what it has proven must still hold.
    """
    size = 2**20
    task = problem(text, size)
    optimum = made(task, time_limit="2s")
    tacos = METHODS["tacos"]
    other = tacos.synthesize(task, tacos.options(), np.random.default_rng(0))
    assert optimum.clock is Clock.TIME
    proven = seconds(optimum, size) * (1 - optimum.stats["solver_gap"])
    assert proven <= seconds(other, size) * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["reduce-scatter", "reduce", "all-to-all", "gather"])
def test_other_collectives_are_legal(kind):
    rooted = {"root": 1} if kind in {"reduce", "gather"} else {}
    made(problem("ring:4", 4096, kind, **rooted), time_limit="5s")


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "torus:8x8",
            "allgather",
            "optimum is for tiny networks: 64 chunks times 256 links are 16384; at most",
        ),
        ("ring:4", "allreduce", "optimum does allgather, .*; not allreduce"),
    ],
)
def test_what_it_does_not_do_is_said(text, kind, message):
    with pytest.raises(Unsupported, match=message):
        made(problem(text, 1024, kind))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunks": 0}, "optimum option chunks is 0; it must be an integer of at least 1"),
        ({"time_limit": "0s"}, "optimum option time_limit is '0s'; it must be positive"),
    ],
)
def test_bad_options_are_one_line(options, message):
    with pytest.raises(InputError, match=message):
        METHOD.options(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": "tacso"}, r"^optimum option start is 'tacso'; did you mean 'tacos'\?"),
        ({"cuts": 1}, r"^optimum option cuts is 1; it must be true or false$"),
        ({"gap": 1}, r"^optimum option gap is 1; it must be at least 0 and below 1$"),
    ],
)
def test_bad_starts_and_gaps_are_one_line(options, message):
    with pytest.raises(InputError, match=message):
        made(problem("ring:3", 600), **options)
