"""Allreduce over trees for one size: list schedules against a plain twin, and what the simulator says."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from experiments.runner.judge import best_slices
from models.allreduce import ALLREDUCE_TREES as METHOD
from models.allreduce import AllreduceTreesOptions
from models.allreduce import trees_timed as timed_module
from models.allreduce.listing import Events, hung, list_schedule
from models.allreduce.listing import _listed as listed
from models.allreduce.trees_timed import can_be_timed
from schedules import collective
from schedules.cost import congestion
from schedules.method import Problem
from schedules.schedule import Clock
from schedules.simulate import simulate
from schedules.verify import verify
from tests.models.random_trees import random_trees
from topologies import Link, Topology
from topologies.text import parse_topology

GBPS = 50 * 10**9
SEEDS = range(20)


def random_events(seed):
    """Trees on a complete graph whose links are numbered by pairs, pieces of them, ticks and priorities."""
    rng = np.random.default_rng(seed)
    parent, links, pieces = random_trees(rng, 5)
    trees, nodes = parent.shape
    shape = (2, pieces, nodes)
    ticks, priority = rng.integers(1, 5, shape), rng.integers(0, 4, shape)
    return parent, links, Events(rng.integers(0, trees, pieces), ticks, priority)


def waits_for(parent, links, events):
    """For each event (direction, piece, node): its link, and the events that must be over before."""
    waits = {}
    for piece, tree in enumerate(events.tree):
        above = parent[tree]
        for node, over in enumerate(above):
            if over < 0:
                continue
            below = [(0, piece, c) for c in range(len(above)) if above[c] == node]
            top = [(0, piece, c) for c in range(len(above)) if above[c] == over]
            waits[0, piece, node] = links[node, int(over)], below
            waits[1, piece, node] = (
                links[int(over), node],
                top if above[over] < 0 else [(1, piece, int(over))],
            )
    return waits


def plain(waits, events):
    """At every tick each idle link starts the least (priority, event) of those that may start."""
    shape, start, over, now = events.ticks.shape, {}, {}, 0
    while len(start) < len(waits):
        for on in {link for link, _ in waits.values()}:
            if any(waits[e][0] == on and over[e] > now for e in start):
                continue
            ready = [
                (events.priority[event], np.ravel_multi_index(event, shape), event)
                for event, (link, before) in waits.items()
                if link == on and event not in start and all(over.get(e, now + 1) <= now for e in before)
            ]
            if ready:
                first = min(ready)[2]
                start[first], over[first] = now, now + int(events.ticks[first])
        now += 1
    return start


@pytest.mark.parametrize("seed", SEEDS)
def test_a_list_schedule_is_that_of_the_plain_twin(seed):
    parent, links, events = random_events(seed)
    found = listed(hung(parent, links), events.tree, events.ticks, events.priority, len(links))
    assert {event: found[event] for event in waits_for(parent, links, events)} == plain(
        waits_for(parent, links, events), events
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_of_all_passes_is_legal_and_not_longer_than_the_first(seed):
    parent, links, events = random_events(seed)
    found = list_schedule(hung(parent, links), events, len(links), 3)
    waits = waits_for(parent, links, events)
    over = {event: int(found[event] + events.ticks[event]) for event in waits}
    for event, (_, before) in waits.items():
        assert found[event] >= max((over[e] for e in before), default=0)
    for on in links.values():
        held = sorted((int(found[e]), over[e]) for e in waits if waits[e][0] == on)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(held))
    first = plain(waits, events)
    assert max(over.values()) <= max(first[e] + int(events.ticks[e]) for e in first)


def allreduce(topology, size=None, what=None, **options):
    problem = Problem(topology, what or collective("allreduce", topology.num_ranks), size and Fraction(size))
    schedule = METHOD.synthesize(problem, AllreduceTreesOptions(**options), np.random.default_rng(0))
    verify(schedule)
    return schedule


@pytest.mark.parametrize(
    ("text", "percent"),
    [("mesh:3x3", 2), ("mesh:5x5", 4), ("torus:4x4", 1), ("ring:8", 1), ("mesh:3x3x3", 5)],
)
def test_a_gigabyte_is_near_the_bound(text, percent):
    topology = parse_topology(text)
    schedule = allreduce(topology, 10**9)
    assert schedule.clock is Clock.TIME
    assert congestion(schedule) * GBPS == Fraction(2 * (topology.num_ranks - 1), topology.num_links)
    bound = float(congestion(schedule) * 10**9)
    assert bound < simulate(schedule, 10**9).time < bound * (1 + percent / 100)


@pytest.mark.parametrize("text", ["mesh:3x4", "torus:4x4", "hypercube:3", "mesh:4x4?bandwidth=50GB/s,25GB/s"])
@pytest.mark.parametrize("size", [1000, 10**6, 10**8])
def test_it_is_not_slower_than_the_flow(text, size):
    topology = parse_topology(text)
    found = best_slices(allreduce(topology, size), Fraction(size))[1]
    assert found <= best_slices(allreduce(topology), Fraction(size))[1] * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_random_networks_with_all_sorts_of_links(seed):
    rng = np.random.default_rng(seed)
    ranks = int(rng.integers(2, 8))
    pairs = {(int(rng.integers(v)), v) for v in range(1, ranks)}
    pairs |= {tuple(sorted(rng.choice(ranks, 2, replace=False).tolist())) for _ in range(ranks)}
    links = []
    for a, b in sorted(pairs):
        width, alpha = Fraction(int(rng.integers(1, 21)) * 10**9), Fraction(int(rng.integers(0, 4)), 10**6)
        links += [Link(a, b, width, alpha), Link(b, a, width, alpha)]
    topology = Topology.from_links(f"random {seed}", ranks, links)
    flow = allreduce(topology)
    for size in (10**3, 10**6, 10**8):
        schedule = allreduce(topology, size)
        assert congestion(schedule) == congestion(flow)
        time = best_slices(schedule, Fraction(size))[1]
        assert float(congestion(flow) * size) * (1 - 1e-9) <= time
        assert time <= best_slices(flow, Fraction(size))[1] * (1 + 1e-9)


def test_shards_that_differ_are_pieces_of_several_items():
    what = collective("allreduce", 9, shards=[1, 0, 2, 3, 0, 0, 7, 1, 1])
    schedule = allreduce(parse_topology("mesh:3x3"), 10**7, what)
    assert schedule.clock is Clock.TIME
    assert congestion(schedule) * GBPS == Fraction(2, 3)


def test_the_same_problem_has_the_same_schedule():
    one, other = (allreduce(parse_topology("mesh:3x4"), 10**7) for _ in range(2))
    assert np.array_equal(one.order, other.order)
    assert np.array_equal(one.chunk, other.chunk)


def test_where_messages_have_no_place_in_time_it_is_a_flow(monkeypatch):
    mesh = parse_topology("mesh:3x3")
    assert can_be_timed(mesh)
    assert not can_be_timed(parse_topology("ring:5?links=3"))
    assert not can_be_timed(parse_topology("dgx_a100:2"))
    assert allreduce(mesh, 10**6, timed=False).clock is Clock.FLOW
    assert allreduce(parse_topology("ring:5?links=3"), 10**6).clock is Clock.FLOW
    assert allreduce(parse_topology("mi250:2"), 10**6).clock is Clock.FLOW
    monkeypatch.setattr(timed_module, "MOST_EVENTS", 30)
    assert allreduce(mesh, 10**6).clock is Clock.FLOW
