"""Flows through messages: legal, as soon as hand and symmetry say, and what the simulator takes."""

from fractions import Fraction

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.heuristics.classic.direct import METHOD as DIRECT
from tutti.heuristics.classic.stepwise import METHOD as STEPWISE
from tutti.models.all_to_all.message_flow import METHOD, _changed, _program, _sorted, _straight, improve
from tutti.models.all_to_all.message_program import MessageFlowProgram, MessageOrder
from tutti.models.bounds import best_bound
from tutti.schedules import Problem, collective
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import InputError, Unsupported
from tutti.topologies.graphs.free_action import free_group
from tutti.topologies.graphs.shortest_paths import hop_distances
from tutti.topologies.graphs.symmetry import automorphisms
from tutti.topologies.text import parse_topology

SECONDS = 60.0
"""A time limit above the time of any of these programs."""
MOST = 100
"""Largest number of symmetries."""


def problem_on(text, size=Fraction(10**6), **more):
    topology = parse_topology(text)
    return Problem(topology, collective("all-to-all", topology.num_ranks, **more), size)


def made(text, size=Fraction(10**6), seconds="0.3s", index=1):
    problem, options = problem_on(text, size), METHOD.options(time_limit=seconds, index=index)
    schedule = METHOD.synthesize(problem, options, np.random.default_rng(0))
    verify(schedule)
    return schedule


def program_on(text, shard, *, symmetric=True):
    topology = parse_topology(text)
    group = automorphisms(topology).elements(MOST) if symmetric == "all" else free_group(topology)
    if not symmetric:
        group = group[0][:1], group[1][:1]
    return MessageFlowProgram(topology, *group, shard)


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
    """All links of these networks are equivalent: the distances of all pairs, spread over the links."""
    shard, topology = 1e5, parse_topology(text)
    far = hop_distances(topology)
    load = far.sum() * shard / topology.num_links / float(topology.bandwidth[0])
    program = program_on(text, shard)
    solved = program.solved(program.in_steps(int(far.max())), SECONDS)
    assert solved.time[-1] == pytest.approx(int(far.max()) * float(topology.alpha[0]) + load, rel=1e-6)


def test_fewer_steps_than_the_network_is_wide_are_too_few():
    program = program_on("torus:4x4", 1e5)
    assert program.solved(program.in_steps(3), SECONDS) is None


@pytest.mark.parametrize("text", ["ring:4", "gen_kautz:2,6", "torus:3x3", "mesh:3x3", "mesh:5x1"])
@pytest.mark.parametrize("more", [None, 0])
def test_symmetries_change_nothing_in_steps(text, more):
    programs = [program_on(text, 1e5, symmetric=symmetric) for symmetric in ("all", True, False)]
    steps = int(hop_distances(parse_topology(text)).max()) + 1
    all_of_them, free, none = (one.solved(one.in_steps(steps, more), SECONDS).time[-1] for one in programs)
    assert all_of_them == pytest.approx(none, rel=1e-6)
    assert free == pytest.approx(none, rel=1e-6)


def test_three_ranks_by_hand():
    """One way round, α = 1 s and a shard 1 s: each link brings 3 shards, in two messages or more."""
    program = program_on("uniring:3?bandwidth=1MB/s&alpha=1s", 1e6)
    assert program.solved(program.in_steps(2), SECONDS).time[-1] == pytest.approx(5)
    assert program.solved(program.in_steps(3), SECONDS).time[-1] == pytest.approx(6)


@for_each(
    ("text", "links", "apart"),
    [
        # On a line, from the first rank on; on a mesh, likewise along each row and column.
        ("mesh:4x1", [(0, 1), (1, 2), (2, 3)], [(0, 2), (1, 1), (2, 0)]),
        ("mesh:3x3", [(3, 4), (4, 5), (1, 4)], [(0, 1), (1, 0), (0, 1)]),
        # The data of the opposite rank comes in both directions.
        ("ring:4", [(0, 1)], [(0, 0)]),
        ("ring:5", [(0, 1)], [(1, 1)]),
        ("torus:4x4", [(0, 1)], [(0, 0)]),
        ("uniring:4", [(0, 1)], [(2, 2)]),
        ("ring:5?links=2", [(0, 1)], [(1, 1)]),
    ],
)
def test_how_far_data_come_that_only_one_link_can_take(text, links, apart):
    program = program_on(text, 1e5)
    topology = program.topology
    for (tail, head), expected in zip(links, apart, strict=True):
        link = int(np.flatnonzero((topology.source == tail) & (topology.target == head))[0])
        assert tuple(program.apart[:, program.kind[link]]) == expected


def test_first_and_last_data_go_in_one_message():
    """A line of four ranks has two of three steps for the last data of a link, or for its first."""
    program = program_on("mesh:4x1", 1e5, symmetric=False)
    ends = zip(program.topology.source.tolist(), program.topology.target.tolist(), strict=True)
    order = MessageOrder.of(program.in_steps(3, 0))
    times = dict(zip(ends, np.bincount(order.kind).tolist(), strict=True))
    assert times == {(0, 1): 2, (1, 2): 3, (2, 3): 2, (1, 0): 2, (2, 1): 3, (3, 2): 2}
    assert len(MessageOrder.of(program.in_steps(3)).kind) == 3 * len(times)
    assert len(MessageOrder.of(program.in_steps(3, 3)).kind) == len(times)


def test_a_line_of_four_ranks_by_hand():
    """α = 1 s and a shard 1 s.

    In three steps the links in the middle bring four shards: 3 + 4 s. With fewer messages at the ends the
    link from rank 2 to 3 has one for steps 1 and 2, so that data from ranks 0 and 1 goes in step 3: 3 s.
    Likewise all data of rank 0 for 2 and 3 goes in step 1: 3 s. Between, one shard is passed on: 2 s.
    """
    program = program_on("mesh:4x1?bandwidth=1MB/s&alpha=1s", 1e6)
    assert program.solved(program.in_steps(3), SECONDS).time[-1] == pytest.approx(7)
    assert program.solved(program.in_steps(3, 0), SECONDS).time[-1] == pytest.approx(8)


def test_with_fewer_symmetries_steps_are_as_long():
    assert end_of_steps("torus:2x4", 2) == pytest.approx(end_of_steps("torus:2x4", 1), rel=1e-6)
    made("torus:2x4", index=2)
    with pytest.raises(InputError, match="index 3; none was found of the 8 symmetries"):
        made("torus:2x4", index=3)


def end_of_steps(text, index):
    problem = problem_on(text)
    program = _program(problem, METHOD.options(index=index), np.random.default_rng(0))
    assert len(program.sources) == index
    timed = program.solved(list(program.in_steps(program.width, 0)), SECONDS)
    return timed.time[-1]


@for_each("text", ["torus:4x4", "circulant:12,2,3", "gen_kautz:2,8", "mesh:3x3", "mesh:4x3", "mesh:5x1"])
def test_the_simulator_takes_what_the_program_says(text):
    program = program_on(text, 1e6 / parse_topology(text).num_ranks)
    steps = [program.solved(program.in_steps(program.width + more), SECONDS) for more in range(3)]
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
    order = MessageOrder.of([0, 1, 0, 0, 1, 0])
    assert order.kind.tolist() == [0, 1, 0]
    assert order.start.tolist() == [0, 1, 3]
    assert order.end.tolist() == [2, 4, 5]
    assert order.before.tolist() == [2, 3, 3]


@pytest.mark.parametrize(
    ("tails", "kept"),
    [
        ([0, 1, 2], [0, 1, 2]),
        ([0, 1, 2, 1, 4], [0, 3, 4]),
        ([0, 1, 0, 2], [2, 3]),
        ([0, 9, 1, 2], [0]),  # through its end
        ([0, 1, 9, 1, 2], [0, 1]),
        ([0, 1, 2, 1, 2, 1], [0, 5]),
    ],
)
def test_paths_do_not_lead_back(tails, kept):
    """The paths lead from the tails of their links to rank 9, over numbered hops."""
    hops = [(number, number) for number in range(len(tails))]
    assert [number for number, _ in _straight(hops, tails, 9)] == kept


def test_paths_of_next_to_nothing_are_left_out():
    schedule = made("mesh:4x4?links=2", Fraction(10**12), "0.05s")
    assert (schedule.chunks.size > 0).all()


def test_changes_keep_messages_whole():
    rng, events, apart = np.random.default_rng(0), [0, 1, 2, 0, 1, 2] * 2, np.array([[0, 1, 2], [2, 1, 0]])
    for _ in range(500):
        changed = _changed(events, apart, rng)
        assert all(changed.count(kind) % 2 == 0 for kind in range(3))
        events = changed if len(changed) > 4 else events


def test_of_events_at_one_time_ends_come_first():
    program = program_on("torus:4x4", 1e5)
    events = program.in_steps(4)
    solved = program.solved(events, SECONDS)
    order = MessageOrder.of(_sorted(events, solved))
    again = program.solved(_sorted(events, solved), SECONDS)
    assert again.time[-1] <= solved.time[-1] * (1 + 1e-6)
    assert len(order.kind) == len(events) // 2


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (problem_on("ring:4", shards=[1, 2, 3, 4]), "equal shards|uneven"),
        (problem_on("ring:4", groups=[[0, 1], [2, 3]]), "windowed_mcf"),
        (problem_on("dgx_a100:2"), "windowed_mcf needs a switch-free topology"),
        (problem_on("torus:16x16"), "windowed_mcf would solve too large a linear program on torus:16x16"),
    ],
)
def test_what_it_refuses(problem, message):
    with pytest.raises(Unsupported, match=message):
        METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))
