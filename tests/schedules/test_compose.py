"""Composition: an allreduce of two halves with any chunks, clocks and ticks."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.heuristics.classic.direct import METHOD as DIRECT
from tutti.schedules import Chunks, Clock, Problem, Routes, Schedule, collective
from tutti.schedules.compose import (
    allreduce_in_clusters,
    common_refinement,
    compose_allreduce,
    from_allgather,
    refine,
)
from tutti.schedules.cost import congestion, link_loads, step_cost
from tutti.schedules.reversal import reverse
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import InputError, Link, Topology, Unsupported
from tutti.topologies.text import parse_topology


def ring(n, bandwidth=Fraction(1), alpha=Fraction(1)):
    """Return a ring with links i from i to i + 1."""
    return Topology.from_links(f"uniring:{n}", n, [Link(i, (i + 1) % n, bandwidth, alpha) for i in range(n)])


def direction(topology):
    """Return 1 if the ring's links go up, -1 if down."""
    return 1 if (topology.target[0] - topology.source[0]) % topology.num_ranks == 1 else -1


def chunks_of(what, cuts):
    """Return chunks with the same cuts in every item: [1, 2] is a third and two thirds."""
    total, share = sum(cuts), what.items.share.reduced
    size = [int(s) * c for s in share.numerators for c in cuts]
    return Chunks(np.repeat(np.arange(len(share)), len(cuts)), size, share.denominator * total)


def ring_allgather(problem, clock=Clock.STEP, cuts=(1,), tick=Fraction(1), size=Fraction(12)):
    """Return an allgather round a ring of either direction: a shard is a message, a chunk is a row."""
    topology, what = problem.topology, problem.collective
    n, step = topology.num_ranks, direction(topology)
    link = {int(source): number for number, source in enumerate(topology.source)}
    rows = [
        (len(cuts) * ((u - step * (t - 1)) % n) + part, link[u], t)
        for t in range(1, n)
        for u in range(n)
        for part in range(len(cuts))
    ]
    chunk, route, order = (np.array(column) for column in zip(*rows, strict=True))
    columns = {"order": order, "claims": {"tl_steps": n - 1}, "stats": {"build_s": 0.5, "solver": "none"}}
    if clock is Clock.FLOW:
        columns = {"claims": {"congestion": Fraction(n - 1, n)}}
    if clock is Clock.TIME:  # a shard of size / n takes α + size / n seconds, rounded up to ticks
        lasts = -((-(1 + size / n)) // tick)
        columns = {"order": (order - 1) * int(lasts), "tick": tick, "size": size}
    return Schedule(topology, what, clock, chunks_of(what, cuts), chunk, route, **columns)


def make(**options):
    return lambda problem: ring_allgather(problem, **options)


def halves(n=4, one=None, other=None, **both):
    topology = ring(n)
    first = from_allgather(Problem(topology, collective("reduce-scatter", n)), make(**both, **(one or {})))
    second = ring_allgather(Problem(topology, collective("allgather", n)), **both, **(other or {}))
    return first, second


@pytest.mark.parametrize("clock", list(Clock))
@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce"])
def test_all_three_collectives_come_from_an_allgather(clock, kind):
    problem = Problem(ring(5), collective(kind, 5))
    schedule = from_allgather(problem, make(clock=clock, size=Fraction(10)))
    assert schedule.topology == problem.topology
    assert schedule.collective == problem.collective
    verify(schedule)


@pytest.mark.parametrize("keys", [{"shards": [1, 0, 4]}, {"shards": [Fraction(1, 3), 2, 5]}])
@pytest.mark.parametrize("kind", ["reduce-scatter", "allreduce"])
def test_shards_are_kept(kind, keys):
    what = collective(kind, 3, **keys)
    schedule = from_allgather(Problem(ring(3), what), make(cuts=(2, 1)))
    assert schedule.collective == what
    verify(schedule)


def test_groups_are_kept():
    """Return two pairs on a ring of 4, over routes of two links."""

    def pairs(problem):
        link = {int(source): number for number, source in enumerate(problem.topology.source)}
        step = direction(problem.topology)
        routes = Routes.of([[link[u], link[(u + step) % 4]] for u in (0, 2, 1, 3)])
        what = problem.collective
        order = np.ones(4, dtype=np.int64)
        return Schedule(
            problem.topology, what, Clock.STEP, Chunks.even(what), range(4), range(4), order, routes=routes
        )

    what = collective("allreduce", 4, groups=[(0, 2), (1, 3)])
    schedule = from_allgather(Problem(ring(4), what), pairs)
    assert schedule.collective == what
    verify(schedule)


def test_other_collectives_do_not_come_from_an_allgather():
    with pytest.raises(
        Unsupported, match="broadcast can't be made from an allgather; allowed: allgather, re"
    ):
        from_allgather(Problem(ring(3), collective("broadcast", 3)), make())


def test_steps_of_the_second_half_follow_the_first():
    both = compose_allreduce(*halves())
    assert sorted(set(both.order.tolist())) == [1, 2, 3, 4, 5, 6]
    assert both.reduce.tolist() == [True] * 12 + [False] * 12


def test_ticks_of_the_second_half_start_at_the_last_arrival():
    """12 B in 4 shards take 1 + 3 s per transfer, three in a row, so 12 ticks per half."""
    both = compose_allreduce(*halves(clock=Clock.TIME))
    assert sorted(set(both.order.tolist())) == [0, 4, 8, 12, 16, 20]


def test_costs_of_the_halves_add_up():
    first, second = halves(cuts=(1, 2))
    both = compose_allreduce(first, second)
    one, other, whole = step_cost(first), step_cost(second), step_cost(both)
    assert whole.tl_steps == one.tl_steps + other.tl_steps
    assert whole.tb == one.tb + other.tb == 2 * Fraction(3, 4)
    assert congestion(both) == congestion(first) + congestion(second)


def test_claims_that_add_are_added_and_others_dropped():
    assert compose_allreduce(*halves()).claims == {"tl_steps": 6}
    assert compose_allreduce(*halves(clock=Clock.FLOW)).claims == {}


def test_a_claim_that_one_half_does_not_make_is_dropped():
    first, second = halves()
    assert compose_allreduce(first, second.replace(claims={})).claims == {}
    assert compose_allreduce(first.replace(claims={}), second).claims == {}


def test_statistics_of_both_are_kept_and_numbers_added():
    assert compose_allreduce(*halves()).stats == {"build_s": 1.0, "solver": "none"}


@pytest.mark.parametrize(
    ("one", "other", "whole"), [(0.1, 0.2, 0.2), (0.0, 0.0, 0.0), (None, 0.0, None), (0.0, None, None)]
)
def test_two_halves_are_as_far_from_optimal_as_the_worse(one, other, whole):
    """Halves within 10 and 20 % of optimal are within 20 % together; an unproven half makes it unproven."""
    first, second = (
        half.replace(stats={"solver_gap": gap}) for half, gap in zip(halves(), (one, other), strict=True)
    )
    assert compose_allreduce(first, second).stats["solver_gap"] == whole


@for_each(
    ("one", "other", "sizes"),
    [
        ((1,), (1,), [1]),
        ((1,), (1, 2), [1, 2]),
        ((1, 2), (2, 1), [1, 1, 1]),
        ((1, 1), (1, 1, 1), [2, 1, 1, 2]),
        ((3, 2, 7), (5, 7), [3, 2, 7]),
    ],
)
@pytest.mark.parametrize("clock", list(Clock))
def test_chunks_are_the_common_refinement_of_both(clock, one, other, sizes):
    first, second = halves(clock=clock, one={"cuts": one}, other={"cuts": other})
    both = compose_allreduce(first, second)
    verify(both)
    scale = Fraction(both.chunks.denominator, 4 * sum(sizes))
    assert [Fraction(int(size)) / scale for size in both.chunks.size[: len(sizes)]] == sizes
    loads = [Fraction(int(link_loads(s)[0]), s.chunks.denominator) for s in (first, second, both)]
    assert loads[2] == loads[0] + loads[1]


def test_a_refined_schedule_simulates_the_same():
    schedule = ring_allgather(Problem(ring(4), collective("allgather", 4)), cuts=(1, 2))
    finer = refine(schedule, chunks_of(schedule.collective, (1, 1, 1)))
    verify(finer)
    assert finer.count.tolist() == [1, 2] * 12
    assert simulate(finer, 60).time == simulate(schedule, 60).time


def test_refining_runs_keeps_one_row_each():
    schedule = ring_allgather(Problem(ring(3), collective("allgather", 3)), cuts=(1, 1))
    runs = schedule.replace(
        chunk=schedule.chunk[::2], route=schedule.route[::2], order=schedule.order[::2], count=[2] * 6
    )
    finer = refine(runs, chunks_of(schedule.collective, (1, 2, 1, 1, 1)))
    verify(finer)
    assert finer.count.tolist() == [5] * 6


def test_a_refinement_has_every_cut_of_the_schedule():
    schedule = ring_allgather(Problem(ring(3), collective("allgather", 3)), cuts=(1, 2))
    with pytest.raises(InputError, match="it has no cut before chunk 1 of the schedule"):
        refine(schedule, chunks_of(schedule.collective, (1, 1)))


def test_chunks_of_items_without_a_size_stay_apart():
    what = collective("allgather", 3, shards=[1, 0, 1])
    fine, coarse = chunks_of(what, (1, 1)), chunks_of(what, (1,))
    together = common_refinement(coarse, fine)
    assert together.item.tolist() == [0, 0, 1, 1, 2, 2]
    assert (together.size * 4 // together.denominator).tolist() == [1, 1, 0, 0, 1, 1]
    schedule = ring_allgather(Problem(ring(3), what), cuts=(1, 1))
    verify(refine(schedule, common_refinement(schedule.chunks, coarse)))


def test_different_ticks_become_multiples_of_a_common_one():
    """Ticks of 1/2 and 1/3 s have the common tick 1/6 s; at 12 B each transfer lasts 4 s, 24 ticks."""
    first, second = halves(clock=Clock.TIME, one={"tick": Fraction(1, 2)}, other={"tick": Fraction(1, 3)})
    both = compose_allreduce(first, second)
    assert both.tick == Fraction(1, 6)
    assert sorted(set(both.order.tolist())) == [0, 24, 48, 72, 96, 120]
    verify(both)


def test_different_routes_are_put_in_one_table():
    first, second = halves()
    longer = second.replace(routes=Routes.of([[i] for i in range(4)] + [[0, 1]]))
    both = compose_allreduce(first, longer)
    assert len(both.routes) == 4 + 5
    verify(both)
    np.testing.assert_array_equal(both.source, compose_allreduce(first, second).source)


def test_many_steps_need_wider_numbers():
    first, second = halves(n=3)
    late = second.replace(order=np.array([1] * 3 + [2**16 - 1] * 3, dtype=np.uint16))
    assert compose_allreduce(first, second).order.dtype == np.uint16
    both = compose_allreduce(first, late)
    assert both.order.dtype == np.uint32
    assert int(both.order[-1]) == 2**16 + 1


def test_an_allreduce_is_its_own_reverse():
    both = compose_allreduce(*halves(cuts=(1, 2)))
    verify(reverse(both))
    assert reverse(reverse(both)).reduce.tolist() == both.reduce.tolist()


def test_the_halves_must_be_a_reduce_scatter_and_an_allgather():
    first, second = halves()
    with pytest.raises(
        InputError, match="made of a reduce-scatter and an allgather, not of allgather and re"
    ):
        compose_allreduce(second, first)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"topology": ring(4, alpha=Fraction(2))}, "topologies uniring:4 and uniring:4 differ"),
        ({"clock": Clock.FLOW, "order": None}, "clocks step and flow differ; both halves need the same"),
        ({"size": Fraction(5)}, "made for different sizes, None and 5 B"),
        ({"collective": collective("allgather", 4, shards=[1, 1, 1, 2])}, "differ in shards or groups"),
    ],
)
def test_halves_that_do_not_fit_are_an_error(changes, text):
    first, second = halves()
    with pytest.raises(InputError, match=text):
        compose_allreduce(first, second.replace(**changes))


def test_chunk_sizes_that_outgrow_64_bits_are_an_error():
    what = collective("allgather", 3)
    with pytest.raises(
        InputError, match="do not fit 64 bits over their common denominator; use simpler cuts"
    ):
        common_refinement(chunks_of(what, (1, 2**40)), chunks_of(what, (1, 3**22)))


def test_tables_of_different_items_have_no_refinement():
    one, other = collective("allgather", 3), collective("allgather", 3, shards=[1, 2, 3])
    with pytest.raises(InputError, match="tile different items; the shards and groups must agree"):
        common_refinement(chunks_of(one, (1,)), chunks_of(other, (1,)))


@pytest.mark.parametrize(
    "clusters", [[[0], [1], [2], [3], [4], [5]], [[0, 1], [2, 3], [4, 5]], [[5, 0, 3], [1, 4, 2]]]
)
@pytest.mark.parametrize("cut", [1, 3])
@pytest.mark.parametrize("shards", [None, [1, 2, 0, 3, 1, 1]])
def test_an_allreduce_is_added_up_in_each_cluster(clusters, shards, cut):
    """A complete network of 6 has clusters of g: each rank adds up M / g and sends it to g - 1 others.

    A link carries M / g in a step for that, and as much in another step if there are other clusters.
    """
    network, what = parse_topology("complete:6"), collective("allreduce", 6, shards=shards)
    scatter = cut_in(cut, sent_directly(network, collective("reduce-scatter", 6)))
    alone = len(clusters[0]) == 1
    gather = (
        None if alone else cut_in(cut, sent_directly(network, collective("allgather", 6, groups=clusters)))
    )
    whole = allreduce_in_clusters(what, np.array(clusters), scatter, gather)
    verify(whole)
    if shards is None:
        size = 12 * 10**9
        step = size / (len(clusters[0]) * network.bandwidth[0]) + network.alpha[0]
        assert simulate(whole, size).time == pytest.approx(float(step * (1 if alone else 2)))


def sent_directly(network, what):
    return DIRECT.synthesize(Problem(network, what), DIRECT.options(), None)


def cut_in(parts, schedule):
    """Return the same rows, with each chunk cut into parts that go one by one."""
    columns = {name: getattr(schedule, name) for name in ("route", "order", "reduce")}
    return schedule.replace(
        chunks=Chunks.even(schedule.collective, parts),
        chunk=(schedule.chunk[:, None] * parts + np.arange(parts)).ravel(),
        **{name: None if column is None else np.repeat(column, parts) for name, column in columns.items()},
    )
