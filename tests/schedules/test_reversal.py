"""Reversal: tables worked out by hand, legality by the verifier, and reversing twice."""

from fractions import Fraction

import numpy as np
import pytest

from tests.schedules.builders import in_clock, plans
from tutti.schedules import Chunks, Clock, Routes, Schedule, collective
from tutti.schedules.cost import congestion, step_cost
from tutti.schedules.reversal import normal_order, reverse
from tutti.schedules.verify import VerificationError, verify
from tutti.topologies import InputError, Link, Topology, Unsupported
from tutti.topologies.transforms import transpose

COLUMNS = ("chunk", "route", "order", "count", "reduce")


def same(one, other):
    """Return whether two schedules are equal in all their columns."""
    assert one.topology == other.topology
    assert one.collective == other.collective
    assert (one.clock, one.tick, one.size, dict(one.claims)) == (
        other.clock,
        other.tick,
        other.size,
        dict(other.claims),
    )
    assert one.chunks.denominator == other.chunks.denominator
    np.testing.assert_array_equal(one.chunks.item, other.chunks.item)
    np.testing.assert_array_equal(one.chunks.size, other.chunks.size)
    np.testing.assert_array_equal(one.route_table.offsets, other.route_table.offsets)
    np.testing.assert_array_equal(one.route_table.links, other.route_table.links)
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    return True


def table(topology, what, clock, rows, chunks=None, **columns):
    parts = [np.array(column) for column in zip(*rows, strict=True)]
    if clock is not Clock.FLOW:
        columns["order"] = parts[2]
    return Schedule(topology, what, clock, chunks or Chunks.even(what), parts[0], parts[1], **columns)


def uniring(n):
    return Topology.from_links(f"uniring:{n}", n, [Link(i, (i + 1) % n) for i in range(n)])


def path(n):
    """Return a path in which link 2i goes from i to i + 1, and link 2i + 1 back."""
    pairs = [pair for i in range(n - 1) for pair in ((i, i + 1), (i + 1, i))]
    return Topology.from_links(f"path:{n}", n, [Link(u, w) for u, w in pairs])


def ring_allgather(n, **keys):
    what = collective("allgather", n, **keys)
    rows = [((u - step + 1) % n, u, step) for step in range(1, n) for u in range(n)]
    claims = {"tl_steps": n - 1} if keys else {"tl_steps": n - 1, "tb": Fraction(n - 1, n)}
    return table(uniring(n), what, Clock.STEP, rows, claims=claims)


def grouped_allgather():
    """Return two rings of 3, alternate ranks of a ring of 6, over routes of two links; runs of two chunks."""
    what = collective("allgather", 6, groups=[(0, 2, 4), (1, 3, 5)])
    item = {rank: position for position, rank in enumerate((0, 2, 4, 1, 3, 5))}
    rows = [(2 * item[(u - 2 * s + 2) % 6], u, s) for s in (1, 2) for u in range(6)]
    routes = Routes.of([[u, (u + 1) % 6] for u in range(6)])
    return table(
        uniring(6), what, Clock.STEP, rows, Chunks.even(what, 2), count=np.full(12, 2), routes=routes
    )


def timed_allgather():
    """Return a ring with links of different speeds, which forward shards as they arrive."""
    n, ticks = 4, [3, 5, 3, 4]
    links = [Link(i, (i + 1) % n, Fraction(1), Fraction(ticks[i] - 1)) for i in range(n)]
    starts, there = [], {}
    free = [0] * n
    for step in range(1, n):
        for u in range(n):
            owner = (u - step + 1) % n
            start = max(free[u], there.get((u, owner), 0))
            free[u] = there[(u + 1) % n, owner] = start + ticks[u]
            starts.append((owner, u, start))
    what = collective("allgather", n)
    rows = sorted(starts, key=lambda row: (row[2], row[2] + ticks[row[1]]))
    topology = Topology.from_links("uneven ring", n, links)
    return table(topology, what, Clock.TIME, rows, tick=Fraction(1), size=Fraction(n))


def switched_broadcasts():
    """Return ranks 0, 1, 2 around switch 3, which copies: each shard goes up once and down twice."""
    star = Topology.from_links(
        "star",
        3,
        [Link(r, 3) for r in range(3)] + [Link(3, r) for r in range(3)],
        num_switches=1,
        multicast=[3],
    )
    what = collective("allgather", 3)
    rows = [(r, link) for r in range(3) for link in (r, *(3 + other for other in range(3) if other != r))]
    return table(star, what, Clock.FLOW, rows)


def path_broadcast():
    return table(path(4), collective("broadcast", 4, root=1), Clock.STEP, [(0, 1, 1), (0, 2, 1), (0, 4, 2)])


def path_scatter():
    """Return a scatter from rank 0 of the path 0 - 1 - 2 (uneven shards), the far ones first."""
    what = collective("scatter", 3, shards=[1, 2, 5])
    return table(path(3), what, Clock.FLOW, [(2, 0), (2, 2), (1, 0)])


def path_all_to_all():
    """Return an all-to-all on the path 0 - 1 - 2 with two chunks per pair; the second goes later."""
    what = collective("all-to-all", 3)
    routes = Routes.of([[0], [0, 2], [1], [2], [3, 1], [3]])
    pairs = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    rows = [(2 * (3 * i + j) + k, r, 1 + k) for k in (0, 1) for r, (i, j) in enumerate(pairs)]
    return table(path(3), what, Clock.STEP, rows, Chunks.even(what, 2), routes=routes)


FORWARD = {
    "ring": ring_allgather(5),
    "uneven shards": ring_allgather(4, shards=[1, 2, 3, 10]),
    "broadcast": path_broadcast(),
    "scatter": path_scatter(),
    "all-to-all": path_all_to_all(),
    "time": timed_allgather(),
    "switch": switched_broadcasts(),
    "groups": grouped_allgather(),
}


def test_a_step_schedule_is_turned_round_row_by_row():
    """Definition 5: ((v, C), (u, w), t) becomes ((v, C), (w, u), t_max - t + 1)."""
    back = reverse(path_broadcast())
    assert back.collective == collective("reduce", 4, root=1)
    assert back.chunk.tolist() == [0, 0, 0]
    assert list(zip(back.source.tolist(), back.target.tolist(), back.order.tolist(), strict=True)) == [
        (3, 2, 1),
        (2, 1, 2),
        (0, 1, 2),
    ]
    assert back.reduce.all()


def test_time_runs_back_from_the_last_arrival():
    """Two successive links take 2 and 3 ticks: [0, 2] and [2, 5] become [3, 5] and [0, 3]."""
    links = [Link(0, 1, Fraction(1), Fraction(1)), Link(1, 2, Fraction(1), Fraction(2)), Link(2, 0)]
    rows = [(0, 0, 0), (0, 1, 2)]
    columns = {"tick": Fraction(1), "size": Fraction(1)}
    topology = Topology.from_links("chain", 3, links)
    back = reverse(table(topology, collective("broadcast", 3), Clock.TIME, rows, **columns))
    assert (back.route.tolist(), back.order.tolist()) == ([1, 0], [0, 3])
    assert (back.tick, back.size) == (1, 1)


def test_messages_that_would_overlap_when_turned_round_wait():
    """One message of 4 bytes takes a fast link (1 tick) and a slow one (4), one takes two fast links.

    Both arrive at tick 4. Reversed, both would enter the fast link to rank 0 at tick 0, so one must wait.
    """
    ends = [(0, 3, 4), (3, 1, 1), (3, 2, 4)]
    links = [Link(*pair, Fraction(b), Fraction(0)) for a, c, b in ends for pair in ((a, c), (c, a))]
    star = Topology.from_links("star", 3, links, num_switches=1)
    what = collective("scatter", 3, shards=[0, 1, 1])
    routes = Routes.of([[0, 2], [0, 4]])
    columns = {"tick": Fraction(1), "size": Fraction(8), "routes": routes}
    schedule = table(star, what, Clock.TIME, [(1, 0, 0), (2, 1, 3)], **columns)
    verify(schedule)
    back = reverse(schedule)
    verify(back)
    assert sorted(back.order.tolist()) == [0, 1]


def test_routes_turn_their_links_round():
    assert reverse(path_all_to_all()).route_table.links.tolist() == [0, 2, 0, 1, 2, 1, 3, 3]


@pytest.mark.parametrize("name", FORWARD)
def test_the_reverse_of_a_legal_schedule_is_legal(name):
    verify(FORWARD[name])
    back = reverse(FORWARD[name])
    assert back.collective == FORWARD[name].collective.reverse
    verify(back)


@pytest.mark.parametrize("name", FORWARD)
def test_reversing_twice_is_the_identity(name):
    assert same(reverse(reverse(FORWARD[name])), FORWARD[name])


@pytest.mark.parametrize("name", FORWARD)
def test_the_reverse_costs_the_same(name):
    schedule, back = FORWARD[name], reverse(FORWARD[name])
    assert congestion(back) == congestion(schedule)
    if schedule.clock is Clock.STEP:
        one, other = step_cost(schedule), step_cost(back)  # T_C differs: one copies where the other reduces
        assert (other.tl_steps, other.bandwidth_time, other.tb) == (one.tl_steps, one.bandwidth_time, one.tb)


def test_an_allreduce_reversed_is_an_allreduce():
    what = collective("allreduce", 3)
    # Each item goes up to the middle in step 1 and back in step 2.
    rows = [(item, link, 1) for item in range(3) for link in (0, 3)]
    rows += [(item, link, 2) for item in range(3) for link in (1, 2)]
    schedule = table(path(3), what, Clock.STEP, rows, reduce=np.repeat([True, False], 6))
    verify(schedule)
    verify(reverse(schedule))
    assert same(reverse(reverse(schedule)), schedule)


def test_a_copy_that_nobody_needed_has_no_reverse():
    """Rank 2 also gets rank 0's shard in this gather to rank 1; it never has it in the scatter."""
    what = collective("gather", 3, root=1)
    rows = [(0, 0, 1), (2, 3, 1), (0, 2, 2)]
    schedule = table(path(3), what, Clock.STEP, rows)
    verify(schedule)
    with pytest.raises(VerificationError, match="sent before"):
        verify(reverse(schedule))


def test_rows_of_one_start_stand_by_arrival_in_normal_order():
    schedule = timed_allgather()
    shuffled = np.array([3, 1, 2, 0, *range(4, len(schedule))])  # the first four start at 0
    mixed = schedule.replace(chunk=schedule.chunk[shuffled], route=schedule.route[shuffled])
    assert mixed.order[:4].tolist() == [0, 0, 0, 0]
    normal = normal_order(mixed)
    assert normal.route[:4].tolist() == [2, 0, 3, 1]  # 3, 3, 4 and 5 ticks; 2 came before 0
    assert same(reverse(reverse(mixed)), normal)


def test_other_clocks_are_in_normal_order():
    schedule = ring_allgather(4)
    assert normal_order(schedule) is schedule


def test_an_empty_schedule_has_an_empty_reverse():
    what = collective("allgather", 3)
    empty = table(uniring(3), what, Clock.STEP, [(0, 0, 1)])
    empty = empty.replace(chunk=empty.chunk[:0], route=empty.route[:0], order=empty.order[:0])
    assert len(reverse(empty)) == 0


def test_the_transposed_topology_is_attached_if_given():
    schedule = ring_allgather(4)
    given = transpose(schedule.topology)
    assert reverse(schedule, given).topology is given


def test_another_topology_than_the_transpose_is_an_error():
    schedule = ring_allgather(4)
    with pytest.raises(InputError, match="topology uniring:4 is not the transpose of uniring:4"):
        reverse(schedule, schedule.topology)


def test_an_uneven_all_to_all_has_no_reverse():
    what = collective("all-to-all", 3, shards=[1, 2, 3])
    schedule = table(path(3), what, Clock.STEP, [(1, 0, 1)])
    with pytest.raises(Unsupported, match="reverse of an all-to-all with uneven shards"):
        reverse(schedule)


def test_an_allreduce_that_only_adds_has_no_reverse():
    """Both ends of a link add the other's data in recursive doubling."""
    what = collective("allreduce", 2)
    rows = [(0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 1)]
    schedule = table(path(2), what, Clock.STEP, rows, reduce=np.ones(4, dtype=bool))
    verify(schedule)
    with pytest.raises(Unsupported, match="its transfers must both add and copy"):
        reverse(schedule)


def test_copies_have_no_reverse():
    with pytest.raises(Unsupported, match=r"^reverse of a schedule in which chunks have copies"):
        reverse(in_clock(plans()["allreduce in one shot"], Clock.STEP))
