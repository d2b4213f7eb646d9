"""Textbook costs: algorithms on networks of their own take the times of their closed forms, to 1e-9.

alpha = 0.5 us and b = 50 GB/s a link, the defaults; N ranks, M bytes.
"""

import pytest

from experiments.registry import METHODS
from schedules.cost import step_cost

ALPHA, B = 0.5e-6, 50e9
SIZES = (1000, 2**20, 10**9)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
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


@pytest.mark.parametrize("size", SIZES)
def test_brucks_last_message_waits_only_for_what_it_carries(made, seconds, size):
    """N = 12: messages of 1, 2, 4 and 4 shards on links of their own; the last has what two steps brought."""
    schedule = made(METHODS["bruck"], "complete:12", "allgather", size)
    assert step_cost(schedule).tl_steps == 4
    assert seconds(schedule, size) == pytest.approx(3 * ALPHA + (1 + 2 + 4) / 12 * size / B, rel=1e-9)


@pytest.mark.parametrize("slices", [1, 4, 32])
@pytest.mark.parametrize("ranks", [8, 12])
def test_a_pipelined_double_tree_takes_a_slice_for_each_hop_and_each_slice(made, seconds, ranks, slices):
    """Broadcast, H hops and S slices: (H + S - 1)(alpha + M / (2 S b)), where edges share no link."""
    size = 2**20
    schedule = made(METHODS["dbt"], f"complete:{ranks}", "broadcast", size, {"slices": slices}, root=0)
    height = {8: 4, 12: 5}[ranks]  # by hand: in-order trees of 7 and 11 ranks, and the root above
    assert seconds(schedule, size) == pytest.approx(
        (height + slices - 1) * (ALPHA + size / 2 / slices / B), rel=1e-9
    )


@pytest.mark.parametrize("size", [2**15, 2**20, 2**25])
def test_the_number_of_slices_is_the_best_power_of_two(made, seconds, size):
    method = METHODS["dbt"]
    chosen = seconds(made(method, "complete:8", "broadcast", size, root=0), size)
    height = 4
    times = [(height + s - 1) * (ALPHA + size / 2 / s / B) for s in (2**i for i in range(11))]
    assert chosen == pytest.approx(min(times), rel=1e-9)
