"""Flows through messages: legal, as soon as hand and symmetry say, and what the simulator takes."""

from fractions import Fraction

import numpy as np
import pytest

from heuristics.classic.direct import METHOD as DIRECT
from heuristics.classic.stepwise import METHOD as STEPWISE
from models.all_to_all.message_flow import METHOD
from models.all_to_all.message_flow.method import improve
from models.all_to_all.message_flow.program import FlowProgram, Order
from models.all_to_all.message_flow.search import _changed, _sorted
from models.bounds import best_bound
from schedules import Problem, collective
from schedules.simulation.simulate import simulate
from schedules.verify import verify
from tests.sweep import for_each
from topologies import Unsupported
from topologies.graphs.free_action import free_group
from topologies.graphs.shortest_paths import hop_distances
from topologies.text import parse_topology

SECONDS = 60.0
"""More than any of these programs takes."""


def problem_on(text, size=Fraction(10**6), **more):
    topology = parse_topology(text)
    return Problem(topology, collective("all-to-all", topology.num_ranks, **more), size)


def made(text, size=Fraction(10**6), seconds="0.3s"):
    problem = problem_on(text, size)
    schedule = METHOD.synthesize(problem, METHOD.options(time_limit=seconds), np.random.default_rng(0))
    verify(schedule)
    return schedule


def program_on(text, shard, *, symmetric=True):
    topology = parse_topology(text)
    group = free_group(topology)
    if not symmetric:
        group = group[0][:1], group[1][:1]
    return FlowProgram(topology, *group, shard)


def in_steps(program, count):
    return 2 * count * list(range(len(program.examples)))


@for_each(
    "text",
    [
        "ring:2",
        "ring:5",
        "uniring:3",
        "mesh:2x3?bandwidth=50GB/s,20GB/s&alpha=1us",
        "torus:3x3?alpha=0us",
        "gen_kautz:2,6",
        "complete:4",
        "ring:4?links=2",
        "mesh:3x1?bandwidth=1B/s",
    ],
)
@pytest.mark.parametrize("size", [Fraction(1), Fraction(10**6), Fraction(10**12)])
def test_it_is_legal_and_not_below_what_is_proven(text, size):
    schedule = made(text, size, "0.05s" if size < 10**9 else "0.02s")
    time = simulate(schedule, size).time
    bound = best_bound(schedule.topology, schedule.collective, size).time(size)
    assert time >= float(bound) * (1 - 1e-9)


@pytest.mark.parametrize("text", ["ring:6", "torus:4x4", "hypercube:3", "complete:5", "torus:3x3x3"])
def test_in_steps_it_takes_their_alphas_and_the_mean_load(text):
    """On networks whose links are all alike: the distances of all pairs, spread over the links."""
    shard, topology = 1e5, parse_topology(text)
    far = hop_distances(topology)
    load = far.sum() * shard / topology.num_links / float(topology.bandwidth[0])
    program = program_on(text, shard)
    solved = program.solved(in_steps(program, int(far.max())), SECONDS)
    assert solved.time[-1] == pytest.approx(int(far.max()) * float(topology.alpha[0]) + load, rel=1e-6)


def test_fewer_steps_than_the_network_is_wide_are_too_few():
    program = program_on("torus:4x4", 1e5)
    assert program.solved(in_steps(program, 3), SECONDS) is None


@pytest.mark.parametrize("text", ["ring:4", "gen_kautz:2,6", "torus:3x3"])
def test_symmetries_change_nothing_in_steps(text):
    alike, alone = (program_on(text, 1e5, symmetric=symmetric) for symmetric in (True, False))
    steps = int(hop_distances(alike.topology).max())
    times = [one.solved(in_steps(one, steps), SECONDS).time[-1] for one in (alike, alone)]
    assert times[0] == pytest.approx(times[1], rel=1e-6)


def test_three_ranks_by_hand():
    """One way round, α = 1 s and a shard 1 s: each link brings 3 shards, in two messages or more."""
    program = program_on("uniring:3?bandwidth=1MB/s&alpha=1s", 1e6)
    assert program.solved(in_steps(program, 2), SECONDS).time[-1] == pytest.approx(5)
    assert program.solved(in_steps(program, 3), SECONDS).time[-1] == pytest.approx(6)


@for_each("text", ["torus:4x4", "circulant:12,2,3", "gen_kautz:2,8", "mesh:3x3"])
def test_the_simulator_takes_what_the_program_says(text):
    program = program_on(text, 1e6 / parse_topology(text).num_ranks)
    steps = [program.solved(in_steps(program, program.width + more), SECONDS) for more in range(3)]
    least = min(solved.time[-1] for solved in steps if solved is not None)
    assert simulate(made(text), 10**6).time <= least * (1 + 1e-6)


@for_each("method", [DIRECT, STEPWISE])
def test_it_makes_no_schedule_slower(method):
    problem = problem_on("mesh:3x3")
    start = method.synthesize(problem, method.options(), np.random.default_rng(0))
    better = improve(problem, start, METHOD.options(time_limit="0.5s"), np.random.default_rng(0))
    verify(better)
    assert simulate(better, 10**6).time <= simulate(start, 10**6).time


def test_messages_of_a_class_start_and_end_in_turn():
    order = Order.of([0, 1, 0, 0, 1, 0])
    assert order.kind.tolist() == [0, 1, 0]
    assert order.start.tolist() == [0, 1, 3]
    assert order.end.tolist() == [2, 4, 5]
    assert order.before.tolist() == [2, 3, 3]


def test_changes_keep_messages_whole():
    rng, events = np.random.default_rng(0), [0, 1, 2, 0, 1, 2] * 2
    for _ in range(500):
        changed = _changed(events, 3, rng)
        assert all(changed.count(kind) % 2 == 0 for kind in range(3))
        events = changed if len(changed) > 4 else events


def test_of_events_at_one_time_ends_come_first():
    program = program_on("torus:4x4", 1e5)
    events = in_steps(program, 4)
    solved = program.solved(events, SECONDS)
    order = Order.of(_sorted(events, solved))
    again = program.solved(_sorted(events, solved), SECONDS)
    assert again.time[-1] <= solved.time[-1] * (1 + 1e-6)
    assert len(order.kind) == len(events) // 2


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (problem_on("ring:4", shards=[1, 2, 3, 4]), "equal shards|uneven"),
        (problem_on("ring:4", groups=[[0, 1], [2, 3]]), "message_flow"),
        (problem_on("dgx_a100:2"), "message_flow needs a switch-free topology"),
        (problem_on("torus:16x16"), "message_flow would solve too large a linear program on torus:16x16"),
    ],
)
def test_what_it_refuses(problem, message):
    with pytest.raises(Unsupported, match=message):
        METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))
