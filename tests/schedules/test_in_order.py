"""Schedules simulated in one pass: the event loop's times to the last bit."""

from fractions import Fraction

import numpy as np
import pytest

from experiments.registry import find_method
from experiments.runner.options import build_options
from schedules import Chunks, Clock, Schedule, collective
from schedules.in_order import in_order
from schedules.method import Problem
from schedules.simulate import SimulationOptions, simulate, watch
from topologies import Link, Topology, parse_topology

SIZE = Fraction(10**6)
CASES = [
    ("mesh:4x5", "tacos", "allgather"),
    ("torus:3x4?bandwidth=25GB/s,100GB/s&alpha=1us", "tacos", "allgather"),
    ("circulant:12,2,3", "tacos", "all_to_all"),
    ("uniring:5", "bfb", "allgather"),
    ("gen_kautz:3,17", "tacos", "scatter"),
]


def made(text, method, kind):
    topology = parse_topology(text)
    chosen = find_method(method)
    problem = Problem(topology, collective(kind.replace("_", "-"), topology.num_ranks), SIZE)
    return chosen.synthesize(problem, build_options(chosen, {}), np.random.default_rng(3))


def passes(schedule):
    links = schedule.topology.num_links
    return in_order(schedule, np.zeros(links), np.zeros(links)) is not None


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("size", [Fraction(1000), SIZE, Fraction(10**9, 7)])
@pytest.mark.parametrize("case", CASES)
def test_one_pass_is_the_event_loop(case, size, overlap):
    schedule, options = made(*case), SimulationOptions(overlap_alpha=overlap)
    assert passes(schedule)
    ours, loop = simulate(schedule, size, options), watch(schedule, size, options)[0]
    assert ours.time == loop.time
    for name in ("start", "finish", "message", "busy", "bytes"):
        assert np.array_equal(getattr(ours, name), getattr(loop, name)), name


def test_a_link_that_is_late_makes_what_follows_late():
    # 1 B a chunk of M = 3 B; link 0 -> 1 takes 3 s a byte and 1 s of α, 1 -> 2 takes 1 s a byte and none.
    links = [Link(0, 1, Fraction(1, 3), Fraction(1)), Link(1, 2, Fraction(1), Fraction(0))]
    back = Link(2, 0, Fraction(1), Fraction(0))
    topology = Topology.from_links("late", 3, [*links, back])
    what = collective("broadcast", 3, root=0)
    chunks = Chunks.even(what, 3)
    rows = [(0, 0, 1), (1, 0, 2), (0, 1, 2), (2, 0, 3), (1, 1, 3), (2, 1, 4)]
    chunk, route, order = (np.array(column) for column in zip(*rows, strict=True))
    schedule = Schedule(topology, what, Clock.STEP, chunks, chunk, route, order)
    simulation = simulate(schedule, 3)
    assert simulation.finish.tolist() == [4, 8, 5, 12, 9, 13]
    assert simulation.start.tolist() == [0, 4, 4, 8, 8, 12]
    assert simulation.busy.tolist() == [12, 3, 0]


@pytest.mark.parametrize(
    ("text", "method", "kind"),
    [
        ("ring:6", "ring", "allreduce"),  # reduces
        ("dgx_a100:1", "direct", "allgather"),  # routes of two links
        ("mesh:3x3", "forestcoll", "allgather"),  # the flow clock
    ],
)
def test_others_are_left_to_the_event_loop(text, method, kind):
    assert not passes(made(text, method, kind))


def test_where_chunks_come_to_few_nodes_the_event_loop_needs_less_memory(monkeypatch):
    """12 nodes times 132 chunks is more than 4 a row: a chunk goes over one or two links."""
    schedule = made("circulant:12,2,3", "tacos", "all_to_all")
    assert 4 * len(schedule) < 12 * 132
    assert passes(schedule)
    monkeypatch.setattr("schedules.in_order.FEW_CELLS", 0)
    assert not passes(schedule)
    assert passes(made("mesh:4x5", "tacos", "allgather"))


def test_two_messages_of_one_step_on_one_link_are_left_to_the_event_loop():
    topology = parse_topology("ring:3")
    what = collective("broadcast", 3, root=0)
    pairs = list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    to, on = pairs.index((0, 1)), pairs.index((0, 2))
    rows = [(0, to, 1), (1, to, 1), (0, on, 2), (1, on, 2)]
    chunk, route, order = (np.array(column) for column in zip(*rows, strict=True))
    assert not passes(Schedule(topology, what, Clock.STEP, Chunks.even(what, 2), chunk, route, order))
