"""Schedules that exports are tried on, and a replay of what ranks do, sharing no code with what is tested."""

from collections import defaultdict
from fractions import Fraction
from functools import cache

import numpy as np

from tutti.experiments.registry import find_method
from tutti.schedules.collective import collective
from tutti.schedules.method import Problem
from tutti.topologies.text import parse_topology

CASES = [
    ("ring:4", "allgather", "ring"),
    ("ring:4", "allreduce", "ring"),
    ("torus:3x3", "reduce-scatter", "bfb"),
    ("mesh:2x3", "allreduce", "direct"),
    ("dgx_a100:2", "allgather", "nccl_like"),
    ("dgx1", "allreduce", "forestcoll"),
    ("complete:4", "all-to-all", "direct"),
]
"""Switches, several machines, routes through ranks, parallel links, sums and flows are among them."""


@cache
def made(network, kind, method):
    topology = parse_topology(network)
    problem = Problem(topology, collective(kind, topology.num_ranks), Fraction(10**6))
    by = find_method(method)
    return by.synthesize(problem, by.options(), np.random.default_rng(0))


def loads(schedule):
    """Return the parts of M over each link, by plain addition."""
    total, table = defaultdict(Fraction), schedule.route_table
    for route, load in zip(schedule.route.tolist(), schedule.load.tolist(), strict=True):
        for link in table.links[table.offsets[route] : table.offsets[route + 1]].tolist():
            total[link] += Fraction(load, schedule.chunks.denominator)
    return total


def between_ranks(schedule):
    """Return the parts of M that arrive at ranks, those that are only passed through included."""
    target, ranks = schedule.topology.target, schedule.topology.num_ranks
    return sum(load for link, load in loads(schedule).items() if target[link] < ranks)


def play(ranks):
    """Play tasks (action, peer, tag, bytes, after), a dict by label for each rank, until all are done.

    Return the bytes that were sent. Each message has one sender and one receiver of as many bytes.
    """
    sent, moved = {}, 0
    left = {(rank, label) for rank, tasks in enumerate(ranks) for label in tasks}
    tags = [task[:3] for tasks in ranks for task in tasks.values() if task[0] == "send"]
    assert len({tag for _, _, tag in tags}) == len(tags), "a tag is used twice"
    while left:
        ready = []
        for rank, label in left:
            action, peer, tag, size, after = ranks[rank][label]
            waits = any((rank, other) in left for other in after)
            if not waits and (action != "recv" or (peer, rank, tag) in sent):
                ready.append((rank, label))
        assert ready, f"deadlock: {sorted(left)[:3]}"
        for rank, label in ready:
            action, peer, tag, size, _ = ranks[rank][label]
            if action == "send":
                sent[rank, peer, tag], moved = size, moved + size
            elif action == "recv":
                assert sent.pop((peer, rank, tag)) == size
        left -= set(ready)
    assert not sent, "messages are left"
    return moved
