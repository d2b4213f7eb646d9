"""The bound `first_hop`: by hand, below schedules on random networks, and forged certificates."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tutti.experiments.registry import METHODS
from tutti.models.bounds import lower_bounds
from tutti.models.bounds.latency import first_hop_bound
from tutti.models.bounds.traffic import Traffic
from tutti.schedules import Problem, collective
from tutti.schedules.simulation.simulate import simulate
from tutti.topologies import InputError, Link, Topology
from tutti.topologies.text import parse_topology

MICRO = Fraction(1, 10**6)


def neighbours(text, kind, size):
    topology = parse_topology(text)
    what = collective(kind, topology.num_ranks)
    (bound,) = (bound for bound in lower_bounds(topology, what, size) if bound.kind == "first_hop")
    bound.check(topology, what)
    return topology, what, bound


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter"])
@pytest.mark.parametrize(
    ("text", "size", "time"),
    [
        ("complete:4", 120_000, "1.1"),  # a link brings a shard, 0.6 us, after 0.5
        ("uniring:3", 120_000, "2.6"),  # a link brings two of 0.8 us, one of them relayed: 1 us of α
        ("mesh:3x1", 120_000, "2.6"),  # so does one link to an end
        ("circulant:12,2,3", 32 * 10**6, "147 2/3"),  # 11 shards of 160/3 us over 4 links, and 1 us
        ("uniring:3?alpha=2us", 120_000, "5.6"),
    ],
)
def test_by_hand(text, size, time, kind):
    *_, bound = neighbours(text, kind, size)
    assert bound.value == sum(map(Fraction, time.split())) * MICRO


def test_the_best_schedule_of_a_circulant_is_optimal():
    topology, what, bound = neighbours("circulant:12,2,3", "allgather", 32 * 10**6)
    method = METHODS["bfb"]
    schedule = method.synthesize(Problem(topology, what), method.options(), np.random.default_rng(0))
    assert simulate(schedule, 32 * 10**6).time == float(bound.value)


def test_links_that_differ():
    """Rank 2 gathers 1 MB in three shards, over 1 MB/s after 1 s and over 2 MB/s after 3 s.

    It may have all after 1 + 1 + 2/3 s, over the first link, which waits 1 s for what comes to 0; but rank 1
    has sent its own after 3 + 1/6 s.
    """
    links = [Link(0, 2, Fraction(10**6), Fraction(1)), Link(1, 2, Fraction(2 * 10**6), Fraction(3))]
    back = [Link(2, 0, Fraction(10**9), Fraction(1)), Link(2, 1, Fraction(10**9), Fraction(1))]
    topology = Topology.from_links("two", 3, [*links, *back])
    what = collective("gather", 3, root=2)
    bound = first_hop_bound(topology, Traffic.of(what), Fraction(10**6))
    bound.check(topology, what)
    assert (bound.certificate["node"], bound.certificate["direction"]) == (1, "out")
    assert bound.value == Fraction(19, 6)


def test_it_is_below_schedules_on_random_networks():
    rng = np.random.default_rng(7)
    for seed in range(25):
        ranks = int(rng.integers(3, 8))
        cycle = rng.permutation(ranks)
        pairs = {*zip(cycle.tolist(), np.roll(cycle, -1).tolist(), strict=True)}
        pairs |= {tuple(pair) for pair in rng.integers(0, ranks, (8, 2)).tolist() if pair[0] != pair[1]}
        links = [
            Link(a, b, Fraction(int(rng.integers(1, 9))), Fraction(int(rng.integers(0, 3))))
            for a, b in sorted(pairs)
        ]
        topology = Topology.from_links(f"random {seed}", ranks, links)
        for kind in ("allgather", "reduce-scatter", "all-to-all", "scatter", "gather"):
            what = collective(kind, ranks, root=0 if kind in ("scatter", "gather") else None)
            size = Fraction(int(rng.integers(1, 60)))
            bound = first_hop_bound(topology, Traffic.of(what), size)
            if bound is None:
                continue
            bound.check(topology, what)
            for name in ("direct", "tacos"):
                method = METHODS[name]
                problem = Problem(topology, what, size)
                schedule = method.synthesize(problem, method.options(), np.random.default_rng(0))
                assert simulate(schedule, size).time >= float(bound.value) * (1 - 1e-12)


def test_a_later_time_is_not_proven():
    topology, what, bound = neighbours("torus:4x4", "allgather", 10**6)
    later = {**bound.certificate, "time": str(bound.value * Fraction(10**9 + 1, 10**9))}
    with pytest.raises(InputError, match=r"rank 0 may have all before .* s, or needs nothing"):
        replace(bound, certificate=later, value=Fraction(later["time"])).check(topology, what)


def test_sums_of_all_are_none_of_its():
    topology = parse_topology("ring:4")
    assert first_hop_bound(topology, Traffic.of(collective("allreduce", 4)), Fraction(1000)) is None
