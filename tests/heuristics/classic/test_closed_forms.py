"""Textbook costs: algorithms on networks of their own take the times of their closed forms, to 1e-9.

alpha = 0.5 us and b = 50 GB/s a link, the defaults; N ranks, M bytes.
"""

from fractions import Fraction

import pytest

from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.schedules.cost import step_cost
from tutti.schedules.method import Problem

ALPHA, B = 0.5e-6, 50e9
SIZES = (1000, 2**20, 10**9)


@for_each("size", SIZES)
@for_each(
    ("name", "text", "kind", "expected"),
    [
        # N - 1 steps of half a shard over each link, twice
        ("ring", "ring:8", "allreduce", lambda m: 2 * 7 * (ALPHA + m / 8 / 2 / B)),
        ("ring", "ring:5", "allgather", lambda m: 4 * (ALPHA + m / 5 / 2 / B)),
        ("direct", "complete:6", "allgather", lambda m: ALPHA + m / 6 / B),
        ("direct", "complete:6", "all-to-all", lambda m: ALPHA + m / 6 / B),
        # halving and doubling: (N - 1)/N M over one link at a time
        ("rhd", "hypercube:4", "allreduce", lambda m: 2 * (4 * ALPHA + 15 / 16 * m / B)),
        ("recursive_doubling", "hypercube:4", "allreduce", lambda m: 4 * (ALPHA + m / B)),
        ("recursive_doubling", "complete:8", "allreduce", lambda m: 3 * (ALPHA + m / B)),
        # Bruck: ceil(log2 N) messages, N - 1 shards in all
        ("bruck", "complete:8", "allgather", lambda m: 3 * ALPHA + 7 / 8 * m / B),
        ("bruck", "complete:4", "allgather", lambda m: 2 * ALPHA + 3 / 4 * m / B),
        ("bruck", "complete:8", "all-to-all", lambda m: 3 * (ALPHA + m / 2 / B)),
        # Bine trees and PAT: log2 N exchanges of all that there is, each over links of its own
        ("bine", "complete:16", "allgather", lambda m: 4 * ALPHA + 15 / 16 * m / B),
        ("bine", "complete:16", "allreduce", lambda m: 2 * (4 * ALPHA + 15 / 16 * m / B)),
        ("bine", "complete:16", "broadcast", lambda m: 4 * (ALPHA + m / B)),
        ("bine", "complete:16", "scatter", lambda m: 4 * ALPHA + 15 / 16 * m / B),
        ("bine", "complete:8", "all-to-all", lambda m: 3 * (ALPHA + m / 2 / B)),
        ("pat", "complete:8", "reduce-scatter", lambda m: 3 * ALPHA + 7 / 8 * m / B),
        ("pairwise", "complete:6", "all-to-all", lambda m: ALPHA + m / 6 / B),
        # 2k parts on a torus of k equal sides d: each link one part of d^j shards in each step of phase j
        ("torus_rings", "torus:4x4", "allgather", lambda m: 6 * ALPHA + 15 / 16 * m / 4 / B),
        ("torus_rings", "torus:3x3x3", "allreduce", lambda m: 2 * (6 * ALPHA + 26 / 27 * m / 6 / B)),
        ("shifted_ring", "circulant:12,1,5", "allgather", lambda m: 11 * (ALPHA + m / 12 / 4 / B)),
        # Swing's partners are neighbours in its first two steps of a ring: on 4x4 nothing is shared
        ("swing", "ring:4", "allgather", lambda m: 2 * ALPHA + 3 / 4 * m / 2 / B),
    ],
)
def test_a_method_on_its_own_network_takes_the_time_of_its_closed_form(
    made, seconds, name, text, kind, expected, size
):
    schedule = made(METHODS[name], text, kind, size)
    assert seconds(schedule, size) == pytest.approx(expected(size), rel=1e-9)
    estimate, options = METHODS[name].estimate, METHODS[name].options()
    if estimate is not None:
        problem = Problem(schedule.topology, schedule.collective, Fraction(size))
        assert estimate(problem, options) == pytest.approx(expected(size), rel=1e-9)


def test_methods_with_a_closed_form_say_it():
    told = {name for name in METHODS if METHODS[name].estimate is not None}
    assert told >= {
        "ring",
        "shifted_ring",
        "rhd",
        "recursive_doubling",
        "bruck",
        "swing",
        "torus_rings",
        "direct",
    }
    assert told >= {
        "pairwise",
        "shortest_path_all_to_all",
        "bfb",
        "expansion",
        "multitree",
        "forestcoll",
        "tacos",
    }


@pytest.mark.parametrize("size", SIZES)
def test_brucks_last_message_waits_only_for_what_it_carries(made, seconds, size):
    """N = 12: messages of 1, 2, 4 and 4 shards on links of their own; the last has what two steps brought."""
    schedule = made(METHODS["bruck"], "complete:12", "allgather", size)
    assert step_cost(schedule).tl_steps == 4
    assert seconds(schedule, size) == pytest.approx(3 * ALPHA + (1 + 2 + 4) / 12 * size / B, rel=1e-9)


def broadcast_time(ranks, slices, size):
    """S slices of M/2 each through h = ceil(log2 N) hops, the root above trees of N - 1 ranks."""
    if ranks == 2:  # both halves over the only link, in S messages
        return slices * ALPHA + size / B
    height = next(h for h in range(1, 8) if 2**h >= ranks)
    return (height + slices - 1) * (ALPHA + size / 2 / slices / B)


def allreduce_time(ranks, slices, size):
    """S slices of M/2 each up and down h = floor(log2 N) hops of trees of all ranks."""
    if ranks <= 3:
        # By hand: both trees join ranks 1 and 2 (or the only two). The link from one to the other carries the
        # first slice of one tree up, then S - 1 times one up and one of the other tree down in one message,
        # then the last down: S + 1 messages of 2 S slices of M/(2 S).
        return (slices + 1) * ALPHA + size / B
    height = next(h for h in range(8) if 2 ** (h + 1) > ranks)
    return (2 * height + slices - 1) * (ALPHA + size / 2 / slices / B)


@for_each("slices", [1, 4, 11])
@for_each("ranks", range(2, 34))
def test_a_pipelined_double_tree_takes_a_slice_for_each_hop_and_each_slice(made, seconds, ranks, slices):
    """Broadcast and reduce (h + S - 1)(alpha + M/(2 S b)), allreduce (2 h + S - 1)(...): no shared links."""
    size, dbt, text = 10**6, METHODS["dbt"], f"complete:{ranks}"
    for kind, root in (("broadcast", ranks - 1), ("reduce", 1)):
        schedule = made(dbt, text, kind, size, {"slices": slices}, root=root)
        assert seconds(schedule, size) == pytest.approx(broadcast_time(ranks, slices, size), rel=1e-9)
    schedule = made(dbt, text, "allreduce", size, {"slices": slices})
    assert seconds(schedule, size) == pytest.approx(allreduce_time(ranks, slices, size), rel=1e-9)


@pytest.mark.parametrize("size", [2**15, 2**20, 2**25])
def test_the_number_of_slices_is_the_best_power_of_two(made, seconds, size):
    method = METHODS["dbt"]
    chosen = seconds(made(method, "complete:8", "broadcast", size, root=0), size)
    assert chosen == pytest.approx(min(broadcast_time(8, 2**i, size) for i in range(11)), rel=1e-9)
    chosen = seconds(made(method, "complete:9", "allreduce", size), size)
    assert chosen == pytest.approx(min(allreduce_time(9, 2**i, size) for i in range(11)), rel=1e-9)
