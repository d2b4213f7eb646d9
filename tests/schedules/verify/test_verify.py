"""The schedules that the verifier accepts, and its message for each possible fault."""

import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.schedules.builders import (
    SIZE,
    TICK,
    complete_network,
    in_clock,
    large_allgather,
    link,
    link_between,
    plans,
    ring_allgather,
    ring_network,
    ring_reduce_scatter,
    star_network,
)
from tests.schedules.oracle import judge
from tests.sweep import for_each
from tutti.schedules import Chunks, Clock, Routes, Schedule, collective
from tutti.schedules.verify import VerificationError, verify
from tutti.topologies import Topology


def steps(topology, what, rows, *, chunks=None, routes=None, claims=None, **columns) -> Schedule:
    """Return a step schedule of rows (chunk, route, step)."""
    chunk, route, order = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    return Schedule(
        topology,
        what,
        Clock.STEP,
        chunks or Chunks.even(what),
        chunk,
        route,
        order,
        routes=None if routes is None else Routes.of(routes),
        claims=claims or {},
        **columns,
    )


def timed(topology, what, rows, *, routes=None, chunks=None, **columns) -> Schedule:
    """Return a time schedule of rows (chunk, route, tick), for 1000 bytes and ticks of 0.1 s."""
    return steps(topology, what, rows, routes=routes, chunks=chunks, **columns).replace(
        clock=Clock.TIME, tick=TICK, size=SIZE
    )


def said(schedule: Schedule) -> tuple[str, int | None]:
    """Return the fault that the verifier reports, and its row."""
    with pytest.raises(VerificationError) as caught:
        verify(schedule)
    assert "\n" not in str(caught.value)
    return str(caught.value), caught.value.row


@pytest.fixture
def pair():
    """Return two ranks with link 0 from 0 to 1 and link 1 back."""
    return Topology.from_links("pair", 2, [link(0, 1), link(1, 0)])


@pytest.fixture
def swap():
    """Return an allgather of two ranks: both end with both halves."""
    return collective("allgather", 2)


class TestReplay:
    """The first wrong transfer of a table whose entries are in range."""

    def test_right(self, pair, swap):
        verify(steps(pair, swap, [(0, 0, 1), (1, 1, 1)]))

    def test_sent_before_held(self):
        schedule = steps(ring_network(3), collective("broadcast", 3), [(0, 1, 1), (0, 0, 1)])
        text = "transfer 0 (1->2, chunk 0 of rank 0's shard, step 1): sent before 1 holds it"
        assert said(schedule) == (text, 0)

    def test_data_of_this_step_can_be_sent_in_the_next_only(self):
        what, ring = collective("broadcast", 3), ring_network(3)
        assert said(steps(ring, what, [(0, 0, 1), (0, 1, 1)]))[1] == 1
        verify(steps(ring, what, [(0, 0, 1), (0, 1, 2)]))

    def test_delivered_twice(self, pair, swap):
        schedule = steps(pair, swap, [(0, 0, 1), (1, 1, 1), (1, 1, 2)])
        text = "transfer 2 (1->0, chunk 1 of rank 1's shard, step 2): delivered twice: 0 holds it already"
        assert said(schedule) == (text, 2)

    def test_all_sources_of_a_step_come_before_its_deliveries(self, pair, swap):
        """Row 1 delivers twice, and row 2 sends a chunk that its source lacks, which is seen first."""
        assert said(steps(pair, swap, [(0, 0, 1), (0, 0, 1), (0, 1, 1)]))[1] == 2

    def test_missing_at_the_end(self, pair, swap):
        text = "chunk 1 of rank 1's shard is missing at rank 0 at the end"
        assert said(steps(pair, swap, [(0, 0, 1)])) == (text, None)

    def test_an_empty_table(self, pair, swap):
        for clock in Clock:
            empty = in_clock(plans()["allgather on a ring"], clock)
            columns = {name: getattr(empty, name) for name in ("chunk", "route", "order")}
            empty = empty.replace(**{name: c if c is None else c[:0] for name, c in columns.items()})
            assert said(empty) == ("chunk 0 of rank 0's shard is missing at rank 1 at the end", None)

    def test_a_chunk_of_size_zero_must_arrive_too(self, pair):
        what = collective("allgather", 2, shards=[1, 0])
        assert "chunk 1 of rank 1's shard is missing" in said(steps(pair, what, [(0, 0, 1)]))[0]
        one = Chunks([0], [1], 1)
        verify(steps(pair, what, [(0, 0, 1)], chunks=one))

    def test_labels_and_whom_it_is_for(self):
        named = Topology.from_links("pair", 2, [link(0, 1), link(1, 0)], labels=["a0", "b0"])
        schedule = steps(named, collective("all-to-all", 2), [(2, 0, 1)])
        text = "transfer 0 (a0->b0, chunk 2 of rank b0's shard for a0, step 1): sent before a0 holds it"
        assert said(schedule) == (text, 0)

    def test_relays_outside_the_group_hold_nothing_at_first(self):
        what = collective("reduce", 3, root=1, groups=[[0, 2]])
        schedule = steps(complete_network(3), what, [(0, 3, 1)], reduce=np.array([True]))
        assert said(schedule) == (
            "transfer 0 (1->2, chunk 0 of rank 2's shard, step 1): sent before 1 holds it",
            0,
        )

    def test_flow_rows_run_one_after_the_other(self, pair):
        ring, what = ring_network(3), collective("broadcast", 3)
        flow = steps(ring, what, [(0, 0, 1), (0, 1, 1)]).replace(clock=Clock.FLOW, order=None)
        verify(flow)
        assert said(flow.replace(route=np.array([1, 0]))) == (
            "transfer 0 (1->2, chunk 0 of rank 0's shard): sent before 1 holds it",
            0,
        )


class TestReductions:
    """Sums must have each contribution exactly once."""

    def test_twice(self, pair):
        schedule = steps(pair, collective("reduce", 2), [(0, 1, 1)] * 2, reduce=np.array([True, True]))
        text = "transfer 1 (1->0, chunk 0 of rank 0's shard, step 1): it adds a contribution a second time"
        assert said(schedule) == (text, 1)

    def test_never(self):
        ring, what = ring_network(3), collective("reduce", 3)
        schedule = steps(ring, what, [(0, 2, 1)], reduce=np.array([True]))
        text = "chunk 0 of rank 0's shard: the contribution of rank 1 is missing at rank 0 at the end"
        assert said(schedule) == (text, None)

    def test_a_copy_over_a_partial_sum_loses_it(self):
        ring, what = ring_network(3), collective("reduce", 3)
        rows = [(0, 1, 1), (0, 2, 2)]
        verify(steps(ring, what, rows, reduce=np.array([True, True])))
        lost = steps(ring, what, rows, reduce=np.array([False, True]))
        assert "the contribution of rank 2 is missing at rank 0" in said(lost)[0]

    def test_what_is_doubled_and_then_overwritten_does_no_harm(self, pair):
        """Rank 1 adds 0's contribution twice, then takes the right sum from 0."""
        rows, adds = [(0, 0, 1), (0, 0, 1), (0, 1, 1), (0, 0, 2)], np.array([True, True, True, False])
        what = collective("allreduce", 2)
        chunks = Chunks([0, 1], [1, 1], 2)
        more = [(1, 0, 1), (1, 1, 1)]
        schedule = steps(
            pair,
            what,
            [*rows[:3], *more, rows[3]],
            chunks=chunks,
            reduce=np.array([*adds[:3], True, True, adds[3]]),
        )
        verify(schedule)
        assert judge(schedule) is None

    def test_the_blame_goes_to_the_row_that_doubled_not_to_those_that_passed_it_on(self):
        ring, what = ring_network(4), collective("reduce", 4)
        rows = [(0, 1, 1), (0, 1, 2), (0, 2, 3), (0, 3, 4)]
        assert said(steps(ring, what, rows, reduce=np.ones(4, dtype=bool)))[1] == 1

    def test_the_first_of_two_rows_that_doubled_is_blamed(self, pair):
        """Both have the sum after step 1; in step 2 rank 1 adds 0's to its own, then rank 0 adds 1's."""
        rows = [(0, 0, 1), (0, 1, 1), (0, 0, 2), (0, 1, 2)]
        schedule = steps(pair, collective("allreduce", 2), rows, reduce=np.ones(4, dtype=bool))
        assert said(schedule)[1] == 2

    def test_the_first_of_two_rows_that_doubled_what_was_added_is_blamed(self):
        """Rank 2's operand is doubled at rank 1 (row 1), then at rank 3 (row 3); the sum goes to rank 0."""
        network = complete_network(4)
        doubling = [(2, 1), (2, 1), (2, 3), (2, 3)]
        for final in ([(3, 1), (1, 0)], [(1, 3), (3, 0)]):
            links = [link_between(network, *ends) for ends in (*doubling, *final)]
            rows = [(0, one, step) for one, step in zip(links, (1, 1, 2, 2, 3, 4), strict=True)]
            schedule = steps(network, collective("reduce", 4), rows, reduce=np.ones(6, dtype=bool))
            assert said(schedule)[1] == 1

    def test_reducing_where_nothing_combines(self, pair, swap):
        schedule = steps(pair, swap, [(0, 0, 1), (1, 1, 1)], reduce=np.array([False, True]))
        text = (
            "transfer 1 (1->0, chunk 1 of rank 1's shard, step 1): it reduces, and allgather does not combine"
        )
        assert said(schedule) == (text, 1)

    def test_a_sum_that_is_copied_where_it_is_already_is_delivered_twice(self, pair):
        rows = [(0, 0, 1), (0, 1, 1), (0, 0, 2)]
        schedule = steps(pair, collective("allreduce", 2), rows, reduce=np.array([True, True, False]))
        assert said(schedule)[0].endswith("step 2): delivered twice: 1 holds it already")


class TestTime:
    """The time clock, in ticks of 0.1 s: a link takes 1 s + bytes / (100 B/s), so M/2 lasts 60 ticks."""

    def test_a_row_reads_when_it_starts_and_delivers_when_it_arrives(self):
        ring, what = ring_network(3), collective("broadcast", 3)  # 110 ticks each
        verify(timed(ring, what, [(0, 0, 0), (0, 1, 110)]))
        schedule = timed(ring, what, [(0, 0, 0), (0, 1, 109)])
        text = "transfer 1 (1->2, chunk 0 of rank 0's shard, tick 109): sent before 1 holds it"
        assert said(schedule) == (text, 1)

    def test_a_link_carries_one_message_at_a_time(self, pair, swap):
        halves = Chunks.even(swap, 2)  # 35 ticks each
        rows = [(0, 0, 0), (2, 1, 0), (1, 0, 35), (3, 1, 35)]
        verify(timed(pair, swap, rows, chunks=halves))
        early = timed(pair, swap, [*rows[:2], (1, 0, 34), rows[3]], chunks=halves)
        text = (
            "transfer 2 (0->1, chunk 1 of rank 0's shard, tick 34): "
            "overlapping use of link 0->1, which transfer 0 still holds"
        )
        assert said(early) == (text, 2)

    def test_rows_of_one_route_and_start_are_one_message(self, pair, swap):
        """Two quarters together last 1 s + 500 / 100 s: the link is free at 60, not at 35 or 70."""
        what = collective("broadcast", 2)
        quarters = Chunks.even(what, 4)
        rows = [(0, 0, 0), (1, 0, 0), (2, 0, 60), (3, 0, 60)]
        verify(timed(pair, what, rows, chunks=quarters))
        assert said(timed(pair, what, [*rows[:2], (2, 0, 59), (3, 0, 59)], chunks=quarters))[1] == 2

    def test_a_message_enters_each_link_of_its_route_when_its_head_arrives(self):
        """Link 1 of the route 0, 1, 2 is held from tick 10 to 10 + 110; the arrival is at 10 + 10 + 100."""
        ring = ring_network(4)
        what = collective("broadcast", 4)
        routes = [[0, 1], [0], [2]]
        verify(timed(ring, what, [(0, 0, 0), (0, 1, 110), (0, 2, 120)], routes=routes))
        assert said(timed(ring, what, [(0, 0, 0), (0, 1, 110), (0, 2, 119)], routes=routes))[1] == 2
        assert said(timed(ring, what, [(0, 0, 0), (0, 1, 109), (0, 2, 120)], routes=routes))[1] == 1

    def test_a_later_row_may_use_a_link_before_an_earlier_one_gets_there(self):
        """Row 1 starts after row 0, and enters and leaves link 1->2 before row 0's head arrives."""
        links = [link(0, 1, 10**6, Fraction(9)), link(1, 2, 10**6), link(2, 0)]
        triangle = Topology.from_links("triangle", 3, links)
        what = collective("gather", 3, root=2)
        routes = [[0, 1], [1]]
        # 1/3 ms on a fast link is a tick; with α = 1 s the middle link is held for 11 ticks
        verify(timed(triangle, what, [(0, 0, 0), (1, 1, 79)], routes=routes))
        text, row = said(timed(triangle, what, [(0, 0, 0), (1, 1, 80)], routes=routes))
        assert (row, "link 1->2, which transfer 0 still holds" in text) == (1, True)

    def test_arrivals_come_before_starts_of_the_same_tick(self):
        """The third chunk arrives and is forwarded in one tick, by a row before its own."""
        ring, what = ring_network(3), collective("broadcast", 3)
        verify(timed(ring, what, [(0, 0, 5), (0, 1, 115)]))

    def test_needs_a_tick_and_a_size(self, pair, swap):
        schedule = timed(pair, swap, [(0, 0, 0), (1, 1, 0)])
        for change in ({"tick": None}, {"size": None}, {"tick": Fraction(0)}, {"size": Fraction(-1)}):
            text = "a time-clock schedule needs a positive tick and a positive size"
            assert said(schedule.replace(**change)) == (text, None)

    def test_times_beyond_64_bits(self, pair, swap):
        schedule = timed(pair, swap, [(0, 0, 0), (1, 1, 2**63 - 10)])
        assert "does not fit 64 bits; use a longer tick" in said(schedule)[0]
        assert "more than 64 bits hold" in said(schedule.replace(tick=Fraction(1, 10**30)))[0]

    def test_loads_beyond_64_bits(self, pair):
        what = collective("broadcast", 2)
        schedule = timed(pair, what, [(0, 0, 0)] * 2, chunks=Chunks([0], [2**63 - 1], 2**63 - 1))
        assert "the load of a message does not fit 64 bits" in said(schedule)[0]

    def test_exactly_rounded_up(self):
        """α of 1/3 s and 1000 bytes at 300 B/s last 11/3 s, so 37 ticks; half of them 2 s, so 20."""
        links = [link(0, 1, 300, Fraction(1, 3)), link(1, 2), link(2, 0)]
        ring = Topology.from_links("ring3", 3, links)
        what = collective("broadcast", 3)
        verify(timed(ring, what, [(0, 0, 0), (0, 1, 37)]))
        assert said(timed(ring, what, [(0, 0, 0), (0, 1, 36)]))[1] == 1
        halves = Chunks.even(what, 2)
        rows = [(0, 0, 0), (1, 0, 20), (0, 1, 20), (1, 1, 80)]
        verify(timed(ring, what, rows, chunks=halves))
        assert said(timed(ring, what, [rows[0], (1, 0, 19), *rows[2:]], chunks=halves))[1] == 1


class TestSwitches:
    """The nodes that may be ends of a transfer."""

    def test_a_switch_that_only_forwards_is_no_end(self):
        schedule = steps(star_network(2), collective("broadcast", 2), [(0, 0, 1), (0, 3, 2)])
        text = (
            "transfer 0 (0->s0, chunk 0 of rank 0's shard, step 1): it ends at switch s0, "
            "which can't multicast; to copy into a switch, it must"
        )
        assert said(schedule) == (text, 0)
        inside = steps(star_network(2), collective("broadcast", 2), [(0, 0, 1)], routes=[[0, 3]])
        verify(inside)

    def test_a_reduction_needs_a_switch_that_aggregates(self):
        plan = plans()["aggregation"]
        plan_rows = in_clock(plan, Clock.STEP)
        copying = star_network(4, multicast=[4])
        text = said(plan_rows.replace(topology=copying))[0]
        assert text.endswith("it ends at switch s0, which can't aggregate; to reduce into a switch, it must")

    def test_out_of_a_switch(self):
        schedule = steps(star_network(2), collective("broadcast", 2), [(0, 3, 1)])
        text = "it starts at switch s0, which can't multicast; to copy out of a switch, it must"
        assert said(schedule)[0].endswith(text)

    def test_ranks_may_forward_inside_routes(self):
        ring = ring_network(3)
        verify(steps(ring, collective("scatter", 3), [(1, 0, 1), (2, 1, 1)], routes=[[0], [0, 1]]))


class TestTable:
    """Entries out of range or not allowed, before any replay."""

    @pytest.mark.parametrize(
        ("rows", "text"),
        [
            ([(2, 0, 1)], "transfer 0: chunk 2 does not exist; chunks are 0..1"),
            ([(0, 0, 1), (-1, 0, 1)], "transfer 1: chunk -1 does not exist; chunks are 0..1"),
            ([(0, 2, 1)], "transfer 0: route 2 does not exist; routes are 0..1"),
            ([(0, -1, 1)], "transfer 0: route -1 does not exist; routes are 0..1"),
            ([(0, 0, 0)], "transfer 0 is at step 0; the first step is 1"),
            (
                [(0, 0, 2), (1, 1, 1)],
                "transfer 1 is at step 1; the transfer before is at step 2; rows must stand in replay order",
            ),
        ],
    )
    def test_rows(self, pair, swap, rows, text):
        assert said(steps(pair, swap, rows)) == (text, len(rows) - 1)

    @pytest.mark.parametrize(
        ("count", "text"),
        [
            (0, "transfer 0: a run of 0 chunks from chunk 1; allowed: 1..3"),
            (4, "transfer 0: a run of 4 chunks from chunk 1; allowed: 1..3"),
            (2, "transfer 0: the run of 2 chunks from chunk 1 leaves its item; a row carries chunks of one"),
        ],
    )
    def test_runs(self, pair, swap, count, text):
        chunks = Chunks.even(swap, 2)
        schedule = steps(pair, swap, [(1, 0, 1)], chunks=chunks, count=np.array([count]))
        assert said(schedule) == (text, 0)

    def test_the_first_row_counts_whatever_is_wrong_with_it(self, pair, swap):
        assert said(steps(pair, swap, [(0, 0, 2), (0, 0, 1), (9, 0, 2)]))[1] == 1
        assert said(steps(pair, swap, [(0, 0, 2), (9, 0, 2), (0, 0, 1)]))[1] == 1

    def test_the_time_clock_starts_at_tick_0(self, pair, swap):
        text = "transfer 0 is at tick -1; the first tick is 0"
        assert said(timed(pair, swap, [(0, 0, -1)])) == (text, 0)

    @for_each(
        ("item", "size", "denominator", "text"),
        [
            ([0, 2], [1, 1], 2, "chunk 1 is of item 2; items are 0..1"),
            ([-1, 1], [1, 1], 2, "chunk 0 is of item -1; items are 0..1"),
            ([1, 0], [1, 1], 2, "chunk 1 is of item 0 and follows one of item 1; chunks must stand by item"),
            ([0, 0, 1], [2, 0, 2], 4, "chunk 1 has size 0; it must be positive"),
            ([0, 0, 1], [3, -1, 2], 4, "chunk 1 has size -1; it must be positive"),
            ([0, 1], [1, 1], 0, "the denominator of chunk sizes is 0; it must be positive"),
            (
                [0, 1],
                [2, 1],
                4,
                "the 1 chunks of item 1 (rank 1's shard) sum to 1/4 of M; its share is 1/2",
            ),
            ([0], [1], 2, "the 0 chunks of item 1 (rank 1's shard) sum to 0/2 of M; its share is 1/2"),
            ([0, 1], [1, 1], 3, "the 1 chunks of item 0 (rank 0's shard) sum to 1/3 of M; its share is 1/2"),
            (
                [0, 0, 0, 1],
                [2**63 - 1, 2**63 - 1, 2, 2],
                4,
                "the 3 chunks of item 0 (rank 0's shard) sum to 18446744073709551616/4 of M; "
                "its share is 1/2",
            ),
            ([0, 1], [1], 2, "2 chunks have an item, 1 have a size"),
        ],
    )
    def test_chunks(self, pair, swap, item, size, denominator, text):
        chunks = Chunks(np.array(item), np.array(size), denominator)
        assert said(steps(pair, swap, [(0, 0, 1)], chunks=chunks)) == (text, None)

    def test_routes_exist_and_chain(self):
        ring, what = ring_network(3), collective("scatter", 3)
        rows = [(1, 0, 1), (2, 1, 1)]
        text = "transfer 1 takes route 1: link 2->0 does not start where link 0->1 ends"
        assert said(steps(ring, what, rows, routes=[[0], [0, 2]])) == (text, 1)
        text = "transfer 1 takes route 1: link 3 does not exist; links are 0..2"
        assert said(steps(ring, what, rows, routes=[[0], [0, 3]])) == (text, 1)
        text = "route 2: link -1 does not exist; links are 0..2"
        assert said(steps(ring, what, rows, routes=[[0], [0, 1], [-1]])) == (text, None)
        assert said(steps(ring, what, rows, routes=[[0], []])) == (
            "route 1 has no link; it needs at least one",
            None,
        )
        table = Routes(np.array([0, 1]), np.array([0, 1], dtype=np.int32))
        schedule = steps(ring, what, rows).replace(routes=table)
        assert said(schedule)[0] == "the routes must span their list of 2 links from first to last"

    def test_columns_fit_each_other(self, pair, swap):
        schedule = steps(pair, swap, [(0, 0, 1), (1, 1, 1)])
        text = "column 'route' has shape (1,), not (2,)"
        assert said(schedule.replace(route=np.array([0]))) == (text, None)
        assert said(schedule.replace(order=None))[0] == "the step clock needs a column 'order'"
        assert said(schedule.replace(clock=Clock.FLOW))[0] == "the flow clock takes no column 'order'"

    def test_the_collective_is_of_this_network(self, swap):
        schedule = steps(ring_network(3), swap, [(0, 0, 1)])
        assert said(schedule) == ("the collective is over 2 ranks, the topology has 3", None)


class TestClaims:
    """A schedule's claims are computed again."""

    @pytest.fixture
    def ring(self):
        return in_clock(ring_allgather(ring_network(4), collective("allgather", 4)), Clock.STEP)

    def test_right(self, ring):
        """A ring takes 3 steps; each link carries 3/4 of M in all, and B is one link's 100 B/s."""
        claims = {"tl_steps": 3, "tb": Fraction(3, 4), "congestion": Fraction(3, 400)}
        verify(ring.replace(claims=claims))

    @pytest.mark.parametrize(
        ("claims", "text"),
        [
            ({"tl_steps": 2}, "the schedule claims tl_steps = 2; it is 3"),
            ({"tl_steps": 4}, "the schedule claims tl_steps = 4; it is 3"),
            ({"tb": Fraction(1, 2)}, "the schedule claims tb = 1/2; it is 3/4"),
            ({"tb": 1}, "the schedule claims tb = 1; it is 3/4"),
            ({"congestion": Fraction(1, 200)}, "the schedule claims congestion = 1/200; it is 3/400"),
            ({"tbb": 1}, "unknown claim 'tbb'; did you mean 'tb'?"),
        ],
    )
    def test_wrong(self, ring, claims, text):
        assert said(ring.replace(claims=claims)) == (text, None)

    def test_steps_of_a_schedule_without_steps(self, ring):
        schedule = in_clock(plans()["allgather on a ring"], Clock.FLOW).replace(claims={"tl_steps": 4})
        assert said(schedule)[0] == "the schedule claims tl_steps = 4, which it does not have"


def test_a_schedule_can_be_verified_again_and_again_with_one_answer():
    schedule = in_clock(ring_reduce_scatter(ring_network(6), collective("reduce-scatter", 6)), Clock.STEP)
    wrong = schedule.replace(chunk=np.roll(schedule.chunk, 1))
    verify(schedule)
    assert said(wrong) == said(wrong)


def test_large_tables_are_the_ring_allgather():
    """This is the benchmark of the verifier at a small size."""
    schedule = large_allgather(50)
    assert len(schedule) == 50 * 49
    verify(schedule)


CLOCKS = st.sampled_from(list(Clock))
EVERY_KIND = ["allgather", "broadcast", "reduce", "allreduce", "reduce-scatter", "all-to-all", "gather"]
ROW = st.tuples(
    st.integers(0, 3), st.integers(1, 2), st.integers(0, 5), st.booleans(), st.integers(1, 5)
)  # chunk, count, route, reduce, order


NOTHING_HOLDS_A_LINK = [(2, 1, 4, False, 1), (0, 1, 0, False, 2), (0, 1, 0, False, 2), (0, 1, 1, False, 2)]
"""The first row carries no bytes and holds 1->2 for a tick, in which the last row enters it."""


@settings(max_examples=300)
@given(clock=CLOCKS, kind=st.sampled_from(EVERY_KIND), rows=st.lists(ROW, min_size=1, max_size=12))
@example(clock=Clock.TIME, kind="allreduce", rows=NOTHING_HOLDS_A_LINK)
def test_any_table_is_judged_as_the_oracle_judges_it(clock, kind, rows):
    """Rows are random, on a bidirectional path of three ranks, over one or two links; most are wrong.

    A chunk of rank 1 has size 0, and takes no time over link 1->2.
    """
    links = [link(0, 1, 1000), link(1, 2, alpha=Fraction(0)), link(2, 1, 500), link(1, 0)]
    line = Topology.from_links("line", 3, links)
    what = collective(kind, 3, shards=None if kind in ("broadcast", "reduce") else [1, 0, 2])
    chunk, count, route, reduce, order = zip(*sorted(rows, key=lambda row: row[4]), strict=True)
    schedule = Schedule(
        line,
        what,
        clock,
        Chunks.even(what, 2),
        np.array(chunk),
        np.array(route),
        order=None if clock is Clock.FLOW else np.array(order),
        count=np.array(count),
        reduce=np.array(reduce) & what.is_combining,
        routes=Routes.of([[0], [1], [2], [3], [0, 1], [2, 3]]),
        tick=Fraction(1),
        size=SIZE,
    )
    expected = judge(schedule)
    if expected is None:
        verify(schedule)
    else:
        assert said(schedule)[1] == expected[0]


@pytest.mark.parametrize(
    ("copy_of", "text"),
    [
        ([-1, 1, 0, -1], "chunk 1 is a copy of 1; a copy follows its original, with at most other"),
        ([-1, 0, 0, 0], "chunk 3 is a copy of 0, which has another item or size"),
        ([0, -1, -1, -1], "chunk 0 is a copy of 0; a copy"),
        ([-1, -1, 0, -1], "chunk 2 is a copy of 0; a copy"),
        ([-1, -2, 0, -1], "chunk 1 is a copy of -2; a copy"),
        ([-1, 0], "4 chunks have an item, 2 a copy_of"),
    ],
)
def test_a_copy_is_of_a_chunk_before_it(copy_of, text):
    network, what = complete_network(2), collective("allreduce", 2)
    chunks = Chunks(np.array([0, 0, 0, 1]), np.ones(4), 2, np.array(copy_of))
    schedule = Schedule(network, what, Clock.FLOW, chunks, np.array([0]), np.array([0]))
    with pytest.raises(VerificationError, match=f"^{re.escape(text)}"):
        verify(schedule)


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter"])
def test_only_sums_that_end_everywhere_have_copies(kind):
    network, what = complete_network(2), collective(kind, 2)
    chunks = Chunks(np.array([0, 0, 1]), np.ones(3), 2, np.array([-1, 0, -1]))
    with pytest.raises(VerificationError, match=r"^chunk 1 is a copy of 0, whose sum need not end at every"):
        verify(Schedule(network, what, Clock.FLOW, chunks, np.array([0]), np.array([0])))
