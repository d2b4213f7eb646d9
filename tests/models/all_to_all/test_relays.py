"""The bound `relays`: against times by hand, schedules on random networks, and forged certificates."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import models.all_to_all.relays as relays_module
from experiments.registry import METHODS
from models.all_to_all.relays import relays_bound
from models.bounds import BoundError, lower_bounds
from models.bounds.latency import AlphaDistances, distance_bound
from models.bounds.relaying import Relaying
from models.bounds.traffic import Traffic
from schedules import Problem, collective
from schedules.simulation.simulate import simulate
from tests.sweep import for_each
from topologies import InputError, Link, Topology
from topologies.errors import NoSchedule, Unsupported
from topologies.text import parse_topology

MICRO = Fraction(1, 10**6)


def relays(network, size, kind="all-to-all"):
    """The bound, or None."""
    topology = parse_topology(network) if isinstance(network, str) else network
    found = lower_bounds(topology, collective(kind, topology.num_ranks), size)
    return next((bound for bound in found if bound.kind == "relays"), None)


def hull(near, far, alpha=0.5):
    """T, us, of a link with messages of own data for the next rank alone, or with any that is relayed.

    In one message of the first kind there is T - α for bytes; beside data that comes or goes farther there
    is another message, or the link waits for α: T - 2 α. Half of each: near / (T - α) + far / (T - 2 α) = 1.
    """
    total = near + far + 3 * alpha
    return (total + math.sqrt(total**2 - 4 * (2 * alpha**2 + 2 * alpha * near + alpha * far))) / 2


@pytest.mark.parametrize(
    ("network", "ranks", "near", "far"),
    [("ring:4", 4, 1, 1), ("ring:5", 5, 1, 2), ("uniring:3", 3, 1, 2), ("mesh:3x1", 3, 1, 1)],
)
@pytest.mark.parametrize("size", [120_000, 10**6])
def test_links_that_relay_pay_for_it_by_hand(network, ranks, near, far, size):
    """Shards over each link: to a neighbour, and of what takes two links; 50 GB/s, α 0.5 us."""
    shard = size / ranks / 50_000
    expected = hull(near * shard, far * shard)
    assert expected * (1 - 1e-4) < relays(network, size).value / MICRO <= expected * (1 + 1e-9)


def test_a_ring_by_hand():
    """0.6 us for each of two kinds: 0.6 / 1.5 + 0.6 / 1 = 1 at 2 us."""
    assert hull(0.6, 0.6) == pytest.approx(2)


def network_of(seed):
    """A random network with switches, whose links have bandwidths and α's of their own or all the same."""
    rng = np.random.default_rng(seed)
    ranks, switches, alike = int(rng.integers(3, 7)), int(rng.integers(0, 2)), rng.integers(2)
    cycle = rng.permutation(ranks + switches)
    ends = [*zip(cycle, np.roll(cycle, -1), strict=True), *rng.integers(0, len(cycle), (6, 2))]
    links = [
        Link(
            int(a), int(b), Fraction(10**9 * (1 + way % 3 * (1 - alike))), MICRO * (1 + way % 2 * (1 - alike))
        )
        for tail, head in ends
        for way, (a, b) in enumerate(((tail, head), (head, tail)), int(rng.integers(6)))
        if a != b
    ]
    return Topology.from_links(f"random {seed}", ranks, links, num_switches=switches)


@for_each("seed", range(8))
def test_no_schedule_is_faster(seed):
    topology = network_of(seed)
    for kind in ("all-to-all", "scatter", "gather"):
        what, distances = collective(kind, topology.num_ranks), AlphaDistances(topology)
        farthest = distance_bound(topology, Traffic.of(what), distances).value
        for size in (Fraction(1500), Fraction(12_000)):
            bound = relays_bound(topology, what, size, farthest)
            if bound is None:
                continue
            json.dumps(dict(bound.certificate))
            bound.check(topology, what)
            for name in ("mcf", "stepwise", "direct"):
                problem, options = Problem(topology, what, size), METHODS[name].options()
                try:
                    schedule = METHODS[name].synthesize(problem, options, np.random.default_rng(seed))
                except (NoSchedule, Unsupported):
                    continue
                assert simulate(schedule, size).time >= float(bound.value) * (1 - 1e-9), name


def test_it_is_given_only_where_it_is_the_largest(monkeypatch):
    assert relays("complete:4", 10**6) is None, "nothing is relayed"
    assert relays("ring:8", 10**6, "allgather") is None, "data is copied"
    assert relays("ring:8", 10) is None, "α alone counts"
    instant = [Link(a, (a + way) % 5, Fraction(10**9), Fraction(0)) for a in range(5) for way in (1, 4)]
    assert relays(Topology.from_links("instant", 5, instant), 10**6) is None
    monkeypatch.setattr(relays_module, "MOST_ROWS", 31)
    assert relays("ring:8", 10**6) is None, "16 links, two distances"


@pytest.fixture
def relaying():
    """Two links of 1 B/s and 2 B/s with 1 s from 0 to 1 and back; prices for come, and to go, 0 or 1 s."""
    links = [Link(0, 1, Fraction(1), Fraction(1)), Link(1, 0, Fraction(2), Fraction(1))]
    return Relaying(Topology.from_links("pair", 2, links), [0, 1], [[[2, 3], [4, 9]], [[1, 1], [1, 1]]])


def test_what_links_earn_by_hand(relaying):
    """In 4 s: link 0 one message from 1 to 3 s (2 s less 1, at 9), link 1 one of 3 s (twice, at 1).

    In 12 s: from 1 to 11 s 9 seconds at 9; link 1 11 seconds.
    In 2 s: nothing at 9 fits; 1 second at 2, before or after at 3 or 4 none.
    """
    assert relaying.earned(Fraction(4)) == 9 + 6
    assert relaying.earned(Fraction(12)) == 81 + 22
    assert relaying.earned(Fraction(2)) == 2 + 2


def test_what_moving_costs_by_hand(relaying):
    """From 0 to 1 straight: nothing before or after, 2; back again it has come 1 s, and is as dear."""
    assert relaying.costs(0, [0, 1]) == [0, 2]
    assert relaying.costs(1, [1, 0]) == [1, 0]
    line = parse_topology("mesh:3x1")
    prices = {(0, 1): [[5, 7], [50, 70]], (1, 2): [[30, 20], [2, 10]]}
    tables = [
        prices.get(tuple(e), [[99, 99]] * 2)
        for e in zip(line.source.tolist(), line.target.tolist(), strict=True)
    ]
    alpha = int(line.alpha.numerators[0])
    assert Relaying(line, [0, alpha], tables).costs(0, [0, alpha, 2 * alpha])[1:] == [5, 7 + 2]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"time": "201/100000000"}, "links earn .* more than"),
        ({"time": 0}, "a positive size and time"),
        ({"rows": [0]}, "a table of prices a link"),
        ({"distances": ["1/1000000"]}, "distances must rise, 0 first"),
        ({"prices": [[[1, -1], [1, 1]]]}, "whole numbers, not negative"),
        ({"prices": [[[1, 1, 1], [1, 1, 1]]]}, "whole numbers, not negative"),
        ({"prices": [[[0] * 2] * 2]}, "links earn 0"),
    ],
)
def test_forged_certificates_are_refused(changes, error):
    topology, what = parse_topology("ring:4"), collective("all-to-all", 4)
    bound = replace_levels(relays("ring:4", 120_000))
    bound.check(topology, what)
    forged = replace(bound, certificate={**bound.certificate, **changes})
    with pytest.raises((BoundError, InputError), match=error):
        forged.check(topology, what)
    with pytest.raises(InputError, match="from one rank to one rank"):
        bound.check(topology, collective("allgather", 4))


def replace_levels(bound):
    """The bound with two distances, 0 and α; on a ring of 4 data is no farther away where it is relayed."""
    certificate = dict(bound.certificate)
    certificate["distances"] = certificate["distances"][:2]
    certificate["prices"] = [[row[:2] for row in table[:2]] for table in certificate["prices"]]
    return replace(bound, certificate=certificate)
