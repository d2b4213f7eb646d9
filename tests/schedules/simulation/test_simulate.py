"""The simulator against closed forms, examples worked out by hand, and a plain twin in exact numbers."""

from fractions import Fraction

import numpy as np
import pytest

from tests.schedules.builders import in_clock, plans
from tutti.schedules import Chunks, Clock, Routes, Schedule, collective
from tutti.schedules.cost import step_cost
from tutti.schedules.simulation.simulate import SimulationOptions, simulate
from tutti.topologies import InputError, Link, Topology

HALF = Fraction(1, 2)
EXACT = 1e-9
"""Relative tolerance against closed forms; the examples by hand are exact."""


def uniring(n, bandwidth=Fraction(4), alpha=HALF):
    return Topology.from_links(f"uniring:{n}", n, [Link(i, (i + 1) % n, bandwidth, alpha) for i in range(n)])


def biring(n, bandwidth=Fraction(4), alpha=HALF):
    """Return a ring in which link i goes from i to i + 1, and link n + i from i to i - 1."""
    there = [Link(i, (i + 1) % n, bandwidth, alpha) for i in range(n)]
    back = [Link(i, (i - 1) % n, bandwidth, alpha) for i in range(n)]
    return Topology.from_links(f"ring:{n}", n, there + back)


def schedule_of(topology, what, clock, rows, chunks=None, **columns):
    """Return a schedule from rows (chunk, route) or (chunk, route, order)."""
    table = [np.array(column) for column in zip(*rows, strict=True)]
    if clock is not Clock.FLOW:
        columns["order"] = table[2]
    return Schedule(topology, what, clock, chunks or Chunks.even(what), table[0], table[1], **columns)


def uniring_allgather(n, **links):
    topology, what = uniring(n, **links), collective("allgather", n)
    rows = [((u - step + 1) % n, u, step) for step in range(1, n) for u in range(n)]
    return schedule_of(topology, what, Clock.STEP, rows)


def biring_allgather(n, **links):
    """Return BFB on an odd ring: each step forwards a whole shard in both directions."""
    topology, what = biring(n, **links), collective("allgather", n)
    rows = []
    for step in range(1, (n - 1) // 2 + 1):
        rows += [((u - step + 1) % n, u, step) for u in range(n)]
        rows += [((u + step - 1) % n, n + u, step) for u in range(n)]
    return schedule_of(topology, what, Clock.STEP, rows)


def even_biring_allgather(n):
    """Return BFB on an even ring: in the last step half a shard comes from each side."""
    topology, what = biring(n), collective("allgather", n)
    rows, count = [], []
    for step in range(1, n // 2 + 1):
        last = step == n // 2
        rows += [(2 * ((u - step + 1) % n), u, step) for u in range(n)]
        rows += [(2 * ((u + step - 1) % n) + last, n + u, step) for u in range(n)]
        count += [1 if last else 2] * (2 * n)
    return schedule_of(topology, what, Clock.STEP, rows, Chunks.even(what, 2), count=count)


def complete_allgather(n):
    links = [Link(u, w, Fraction(3), HALF) for u in range(n) for w in range(n) if u != w]
    topology, what = Topology.from_links("complete", n, links), collective("allgather", n)
    rows = [(link.source, number, 1) for number, link in enumerate(links)]
    return schedule_of(topology, what, Clock.STEP, rows)


@pytest.mark.parametrize("n", [2, 3, 8, 33])
def test_unidirectional_ring_takes_n_minus_1_steps_of_a_shard(n):
    time = simulate(uniring_allgather(n), 7 * n).time
    assert time == pytest.approx(float((n - 1) * (HALF + Fraction(7, 4))), rel=EXACT)


@pytest.mark.parametrize("n", [3, 5, 9, 31])
def test_odd_bidirectional_ring_takes_half_the_steps(n):
    time = simulate(biring_allgather(n, bandwidth=Fraction(10**9), alpha=Fraction(1, 10**6)), 10**6).time
    expected = Fraction(n - 1, 2) * (Fraction(1, 10**6) + Fraction(10**6, n * 10**9))
    assert time == pytest.approx(float(expected), rel=EXACT)


@pytest.mark.parametrize("n", [4, 6, 10])
def test_even_bidirectional_ring_sends_half_a_shard_in_its_last_step(n):
    time = simulate(even_biring_allgather(n), 8 * n).time
    assert time == pytest.approx(float(n // 2 * HALF + (n // 2 - 1) * 2 + 1), rel=EXACT)


@pytest.mark.parametrize("n", [2, 5, 12])
def test_direct_on_the_complete_graph_takes_one_step(n):
    assert simulate(complete_allgather(n), n * 9).time == pytest.approx(0.5 + 3, rel=EXACT)


@pytest.mark.parametrize(
    "schedule", [uniring_allgather(6), biring_allgather(7), even_biring_allgather(6), complete_allgather(5)]
)
def test_time_is_t_l_alpha_plus_t_b_on_symmetric_networks(schedule):
    cost, size = step_cost(schedule), Fraction(1000, 3)
    expected = cost.tl_steps * HALF + cost.bandwidth_time * size
    assert simulate(schedule, size).time == pytest.approx(float(expected), rel=EXACT)


def test_time_of_links_of_different_speed_is_less_than_t_l_alpha_plus_t_b():
    """Steps have no barrier: messages over the slow link in one step do not delay the others."""
    links = [Link(i, (i + 1) % 4, Fraction(2**i), Fraction(i + 1, 8)) for i in range(4)]
    schedule = uniring_allgather(4).replace(topology=Topology.from_links("uneven", 4, links))
    cost = step_cost(schedule)
    assert simulate(schedule, 32).time < cost.tl_steps * HALF + cost.bandwidth_time * 32
    # Link 0 (1 B/s, α 1/8) carries the shards of 0, 3 and 2, 8 bytes each, without gaps, and everything
    # else is done by then: 3 (8 + 1/8).
    assert simulate(schedule, 32).time == 24.375


# The star of the examples: ranks 0, 1, 2 around switch 3. Up-links 0, 1, 2 carry 4 B/s, down-links 3, 4, 5
# carry 2 B/s; α is 1/2 s up and 1/4 s down.
STAR = Topology.from_links(
    "star",
    3,
    [Link(rank, 3, Fraction(4), HALF) for rank in range(3)]
    + [Link(3, rank, Fraction(2), Fraction(1, 4)) for rank in range(3)],
    num_switches=1,
)
STAR_ROUTES = Routes.of([[0, 4], [0, 5], [1, 3], [1, 5], [2, 3], [2, 4]])  # 01 02 10 12 20 21


def star_schedule(clock, rows, **columns):
    what = collective("allgather", 3)
    return schedule_of(STAR, what, clock, rows, routes=STAR_ROUTES, **columns)


def test_flow_clock_with_contention_and_a_switch():
    """Shards of 8 bytes: 2 s on an up-link, 4 s on a down-link.

    Rows 0 and 1, both from rank 0, share up-link 0: row 0 holds it over [0, 2.5], row 1 over [2.5, 5].
    Row 0 enters down-link 4 (to rank 1) at 0.5: [0.5, 4.75]. Row 1 is ready for down-link 5 (to rank 2) at 3;
    but row 2 (rank 1 to 2) has held it since 0.5, until 4.75: so row 1 has it over [4.75, 9].
    """
    result = simulate(star_schedule(Clock.FLOW, [(0, 0), (0, 1), (1, 3)]), 24)
    assert result.start.tolist() == [0, 2.5, 0]
    assert result.finish.tolist() == [4.75, 9, 4.75]
    assert result.time == 9
    assert result.busy.tolist() == [5, 2.5, 0, 0, 4.25, 8.5]
    assert result.bytes.tolist() == [16, 8, 0, 0, 8, 16]
    assert result.utilization[0] == 5 / 9


def test_step_clock_keeps_steps_apart_on_a_link_and_nowhere_else():
    """Links as above; rank 0 is sent shard 1 by rank 2, which got it in step 1, and by rank 1.

    Step 1: row 0 takes shard 1 from 1 to 2, up [0, 2.5], down [0.5, 4.75]. Row 1 takes shard 0 from 0 to 2
    immediately, but down-link 5 is held until 4.75 (both are ready at 0.5; row 0 is first): [4.75, 9].
    Step 2: row 2 takes shard 1 from 2 to 0 when it is there, 4.75: up [4.75, 7.25]. It is ready for down-link
    3 at 5.25, which row 3 holds: from 1 to 0, ready at 0, behind row 0 on up-link 1, up [2.5, 5] and down
    [3, 7.25]. So row 2 has it over [7.25, 11.5].
    """
    result = simulate(star_schedule(Clock.STEP, [(1, 3, 1), (0, 1, 1), (1, 4, 2), (1, 2, 2)]), 24)
    assert result.start.tolist() == [0, 0, 4.75, 2.5]
    assert result.finish.tolist() == [4.75, 9, 11.5, 7.25]


def test_a_link_waits_for_its_smaller_steps_even_while_idle():
    """Path 0 - 1 - 2: link 1->2 carries shard 0 in step 2, so shard 1 only in step 3."""
    links = [Link(0, 1, Fraction(1), HALF), Link(1, 2, Fraction(1), HALF), Link(2, 0, Fraction(1), HALF)]
    topology, what = Topology.from_links("triangle", 3, links), collective("allgather", 3)
    rows = [(0, 0, 1), (0, 1, 2), (1, 1, 3)]
    result = simulate(schedule_of(topology, what, Clock.STEP, rows), 3)
    assert result.start.tolist() == [0, 1.5, 3]


def test_time_clock_keeps_the_order_on_links_and_not_the_times():
    """Made for 24 B with a tick of 1/4 s, simulated for 48 B (4 s up, 8 s down).

    In the schedule row 0 enters down-link 5 at tick 2, and row 1, which starts at tick 40, later. At 48 B
    row 1 (from 0, ready at 0) still waits for its turn there: row 0 up [0, 4.5], down [0.5, 8.75]; row 1 up
    [0, 4.5], down [8.75, 17]. Row 2 takes shard 1 from 2 to 0 once it is there: up [8.75, 13.25], down
    [9.25, 17.5].
    """
    rows = [(1, 3, 0), (0, 1, 40), (1, 4, 60)]
    schedule = star_schedule(Clock.TIME, rows, tick=Fraction(1, 4), size=Fraction(24))
    result = simulate(schedule, 48)
    assert result.start.tolist() == [0, 0, 8.75]
    assert result.finish.tolist() == [8.75, 17, 17.5]


def test_time_clock_orders_a_link_by_when_it_was_entered():
    """Row 0 starts first, but its head reaches the down-link only after 2 ticks; row 1 is there before it."""
    links = [
        Link(0, 3, Fraction(4), HALF),
        Link(1, 3, Fraction(4), Fraction(0)),
        Link(3, 2, Fraction(4), Fraction(0)),
        Link(2, 0),
        Link(2, 1),
    ]
    topology, what = Topology.from_links("merge", 3, links, num_switches=1), collective("allgather", 3)
    # Shards of 1 byte: row 1 holds link 2 over ticks [1, 2], row 0 over [2, 3].
    columns = {"routes": Routes.of([[0, 2], [1, 2]]), "tick": Fraction(1, 4), "size": Fraction(3)}
    schedule = schedule_of(topology, what, Clock.TIME, [(0, 0, 0), (1, 1, 1)], **columns)
    # At 12 B a shard takes 1 s: row 1 enters link 2 at 0, although both would arrive at 0.5 as well.
    assert simulate(schedule, 12).finish.tolist() == [2, 1]


def test_rows_of_one_route_and_step_travel_as_one_message():
    topology, what = uniring(3), collective("allgather", 3)
    chunks = Chunks.even(what, 2)
    result = simulate(schedule_of(topology, what, Clock.STEP, [(0, 0, 1), (2, 1, 1), (1, 0, 1)], chunks), 24)
    assert result.message.tolist() == [0, 1, 0]
    assert result.finish.tolist() == [0.5 + 2, 0.5 + 1]


def test_cut_through_takes_all_alphas_and_the_slowest_link():
    assert simulate(star_schedule(Clock.FLOW, [(0, 0)]), 24).time == 0.5 + 0.25 + 4


def test_a_fast_link_after_a_slow_one_delivers_no_sooner_than_the_data_comes():
    """Link 0->3 has 2 B/s, then 3->1 4 B/s: it is held for its own time, but the tail leaves it later."""
    links = [Link(0, 3, Fraction(2), HALF), Link(3, 1, Fraction(4), HALF), Link(1, 2), Link(2, 0)]
    topology, what = Topology.from_links("fast", 3, links, num_switches=1), collective("allgather", 3)
    result = simulate(schedule_of(topology, what, Clock.FLOW, [(0, 0)], routes=Routes.of([[0, 1]])), 24)
    assert result.time == 0.5 + 0.5 + 4
    assert result.busy.tolist() == [4.5, 2.5, 0, 0]


def test_store_and_forward_enters_the_next_link_with_the_whole_message():
    options = SimulationOptions(store_and_forward=True)
    assert simulate(star_schedule(Clock.FLOW, [(0, 0)]), 24, options).time == (0.5 + 2) + (0.25 + 4)


def test_overlapped_alpha_frees_the_link_while_it_is_in_flight():
    """Two shards take 1 s each over one link: the second is sent at 1 and arrives at 1 + 1 + 1/2."""
    topology, what = uniring(3), collective("allgather", 3)
    schedule = schedule_of(topology, what, Clock.FLOW, [(0, 0), (0, 0)], Chunks.even(what))
    result = simulate(schedule, 12, SimulationOptions(overlap_alpha=True))
    assert result.start.tolist() == [0, 1]
    assert result.finish.tolist() == [1.5, 2.5]
    assert result.busy.tolist() == [2, 0, 0]


def test_slices_follow_each_other_through_a_tree():
    """16 B cross 3 links in 4 slices of 1 s + 1/2: the first arrives after 4.5, the others 1.5 apart."""
    topology, what = uniring(4), collective("broadcast", 4)
    schedule = schedule_of(topology, what, Clock.FLOW, [(0, 0), (0, 1), (0, 2)])
    assert simulate(schedule, 16).time == 3 * 4.5
    result = simulate(schedule, 16, SimulationOptions(slices=4))
    assert result.time == 4.5 + 3 * 1.5
    assert result.message.tolist() == [0, 4, 8]
    assert result.start[4:8].tolist() == [1.5, 3, 4.5, 6]


def test_a_message_waits_for_every_operand_in_a_combining_collective():
    """Rank 1 has two children of different speed; it sends to 0 when the data of both 2 and 3 are there."""
    links = [Link(2, 1, Fraction(1)), Link(3, 1, Fraction(4)), Link(1, 0), Link(0, 2), Link(0, 3)]
    links = [Link(link.source, link.target, link.bandwidth, HALF) for link in links]
    topology, what = Topology.from_links("tree", 4, links), collective("reduce", 4)
    rows = [(0, 0), (0, 1), (0, 2)]
    for order in (rows, [rows[1], rows[0], rows[2]]):
        assert simulate(schedule_of(topology, what, Clock.FLOW, order), 8).start[2] == 8.5


def test_an_empty_schedule_takes_no_time():
    what = collective("allgather", 3)
    empty = Schedule(uniring(3), what, Clock.FLOW, Chunks.even(what), np.zeros(0, int), np.zeros(0, int))
    assert simulate(empty, 3).time == 0
    assert simulate(empty, 3).utilization.tolist() == [0, 0, 0]


def test_the_same_schedule_gives_the_same_bits():
    schedule = biring_allgather(9, bandwidth=Fraction(7), alpha=Fraction(1, 3))
    one, other = simulate(schedule, 1000), simulate(schedule, 1000)
    assert one.finish.tobytes() == other.finish.tobytes()


def test_a_size_that_is_not_positive_is_an_error():
    with pytest.raises(InputError, match="size 0 B; it must be positive"):
        simulate(uniring_allgather(3), 0)


def test_slices_in_another_clock_than_flow_are_an_error():
    with pytest.raises(InputError, match="2 slices in the step clock; only flow schedules are pipelined"):
        simulate(uniring_allgather(3), 3, SimulationOptions(slices=2))


def test_no_slices_are_an_error():
    with pytest.raises(InputError, match="0 slices; at least 1 is needed"):
        SimulationOptions(slices=0)


def two_chains(extra=()):
    """Return shard 0 to rank 3 over links of 10, 5 and 10/3 B/s, and shard 4 in reverse; 3 -> 7 follows.

    Nothing is sent over the links of `extra` bandwidths.
    """
    slow, fast = Fraction(10, 3), Fraction(10)
    ends = [(0, 1, fast), (1, 2, Fraction(5)), (2, 3, slow), (4, 5, slow), (5, 6, Fraction(5)), (6, 3, fast)]
    ends += [(3, 7, fast), (7, 0, fast), (7, 4, fast), *((7, 0, b) for b in extra)]
    topology = Topology.from_links("chains", 8, [Link(u, w, b, Fraction(0)) for u, w, b in ends])
    rows = [(0, 0), (0, 1), (0, 2), (4, 3), (4, 4), (4, 5), (4, 6), (0, 6)]
    return schedule_of(topology, collective("allgather", 8), Clock.FLOW, rows)


PRIMES = [Fraction(prime) for prime in (2147483647, 2147483629, 2147483587)]


@pytest.mark.parametrize("extra", [(), PRIMES])
@pytest.mark.parametrize("size", [8, 8 * 7, Fraction(8, 3), 8 * 10**6])
def test_of_two_that_come_at_one_moment_the_first_in_the_table_goes(size, extra):
    """Shards of 1 B take 0.1 + 0.2 + 0.3 s and 0.3 + 0.2 + 0.1 s, which differ as floats."""
    assert 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1
    result, shard = simulate(two_chains(extra), size), float(Fraction(size) / 8)
    assert result.start[6:].tolist() == pytest.approx([0.6 * shard, 0.7 * shard], rel=1e-15, abs=0)


def test_a_copy_waits_for_what_it_is_a_copy_of():
    # By hand: 0 -> 2 carries three quarters of 1000 B at 100 B/s after α = 1 s: 8.5 s. Only then does
    # 2 send its sum to 3, with as many bytes. Nothing else goes over that link.
    schedule = in_clock(plans()["allreduce in two shots"], Clock.STEP)
    simulated = simulate(schedule, 1000)
    over = (schedule.source == 2) & (schedule.target == 3)
    message = simulated.message[over]
    assert set(simulated.start[message].tolist()) == {8.5}
    assert set(simulated.finish[message].tolist()) == {17.0}
