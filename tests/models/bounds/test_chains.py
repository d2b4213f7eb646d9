"""The bound `chains`: by hand, beside optimal schedules, below others on random networks, and forged."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from experiments.registry import METHODS
from models.bounds import BoundError, lower_bounds
from models.bounds.chains import chains_bound
from models.bounds.latency import AlphaDistances
from models.bounds.traffic import Traffic
from schedules import Problem, collective
from schedules.simulation.simulate import simulate
from topologies import InputError, Link, Topology
from topologies.text import parse_topology

MICRO = Fraction(1, 10**6)
NEAR = Fraction(1, 100)
"""Of what the bytes take: the search comes so near to what is found by hand."""


def chains(topology, size, what=None):
    what = what or collective("allreduce", topology.num_ranks)
    bound = chains_bound(topology, Traffic.of(what), AlphaDistances(topology), Fraction(size), Fraction(0))
    if bound:
        bound.check(topology, what)
    return bound


@pytest.mark.parametrize(
    ("text", "alphas", "whole"),
    [
        ("complete:4", 1, 1),  # each vector goes over one link
        ("uniring:3", 2, 2),  # over each link go two messages, one after the other
        ("gen_kautz:2,6", 2, 2),  # one path: a rank tells two that tell two each, so that no message goes on
        ("ring:8", 4, 1),  # half of the four slots of a link hold whole vectors, and no two that touch
        ("mesh:3x1", 2, 1),  # a message from end to end
    ],
)
def test_by_hand(text, alphas, whole):
    """1 KB take 0.02 us, α is 0.5 us: some α and whole vectors."""
    bound, vector = chains(parse_topology(text), 1000), Fraction(1, 50) * MICRO
    exact = alphas * MICRO / 2 + whole * vector
    assert exact - NEAR * vector <= bound.value <= exact


def test_a_way_over_links_that_differ():
    """A vector of 1 KB goes to the one that leaves its group in 2.5 ns, over in 5 ns, and on in 2.5 ns."""
    bound = chains(parse_topology("dragonfly:4x5"), 1000)
    assert Fraction("1.50999") * MICRO <= bound.value <= Fraction("1.51") * MICRO


@pytest.mark.parametrize(("rates", "time"), [((10, 5), "1.4"), ((5, 10), "1.4"), ((5, 5, 5, 5), "1.2")])
def test_two_ranks(rates, time):
    """The slower direction counts, and links beside each other share a vector of 2 bytes."""
    ends = [(0, 1), (1, 0)] * (len(rates) // 2)
    links = [Link(*end, Fraction(rate), Fraction(1)) for end, rate in zip(ends, rates, strict=True)]
    bound = chains(Topology.from_links("two", 2, links), 2)
    assert Fraction(time) - NEAR * 2 / 5 <= bound.value <= Fraction(time)


def test_it_ends_where_longer_ways_begin():
    """On a ring of eight 32 KB take 1.28 α; in 5 α there may be other messages."""
    assert chains(parse_topology("ring:8"), 32_000).value == Fraction(5, 2) * MICRO
    assert chains(parse_topology("complete:4?alpha=0us"), 1000) is None


def test_a_schedule_is_optimal():
    topology = parse_topology("gen_kautz:2,6")
    problem = Problem(topology, collective("allreduce", 6), Fraction(1000))
    method = METHODS["walks"]
    schedule = method.synthesize(problem, method.options(), np.random.default_rng(0))
    time = simulate(schedule, 1000).time
    assert time * (1 - 1e-4) <= float(chains(topology, 1000).value) <= time


def test_it_is_among_the_bounds():
    topology = parse_topology("dgx1")
    kinds = {
        bound.kind: bound.time(1000) for bound in lower_bounds(topology, collective("allreduce", 8), 1000)
    }
    assert kinds["chains"] == max(kinds.values())
    allgather = lower_bounds(topology, collective("allgather", 8), 1000)
    assert all(bound.kind != "chains" for bound in allgather)


def _network(rng, seed):
    """Return a cycle of ranks and switches, and more links, some alike, some beside others."""
    ranks, switches = int(rng.integers(3, 7)), int(rng.integers(0, 3))
    nodes = ranks + switches
    cycle = rng.permutation(nodes)
    pairs = [*zip(cycle.tolist(), np.roll(cycle, -1).tolist(), strict=True)]
    pairs += [tuple(pair) for pair in rng.integers(0, nodes, (8, 2)).tolist() if pair[0] != pair[1]]
    pairs += [pair[::-1] for pair in pairs if seed % 2]
    unlike = int(rng.integers(2))
    links = [
        Link(
            *pair, Fraction(int(rng.integers(9, 10 + 9 * unlike))), Fraction(int(rng.integers(1, 2 + unlike)))
        )
        for pair in pairs
    ]
    able = [node for node in range(ranks, nodes) if seed % 3]
    return Topology.from_links(
        f"random {seed}", ranks, links, num_switches=switches, multicast=able, aggregate=able[:1]
    )


def test_it_is_below_schedules_on_random_networks():
    rng, near = np.random.default_rng(5), 0
    for seed in range(12):
        topology, size = _network(rng, seed), Fraction(int(rng.integers(1, 9)))
        problem = Problem(topology, collective("allreduce", topology.num_ranks), size)
        bound = chains(topology, size)
        for method in (METHODS["one_shot"], METHODS["rounds"]):
            if method.capabilities.refusal(topology, problem.collective) is None:
                schedule = method.synthesize(problem, method.options(), np.random.default_rng(0))
                time = simulate(schedule, size).time
                assert bound is None or float(bound.value) <= time * (1 + 1e-12)
                near += bound is not None and float(bound.value) > 0.95 * time
    assert near


def _forged(bound, **changes):
    certificate = {**bound.certificate, **changes}
    return replace(bound, certificate=certificate, value=Fraction(certificate["time"]))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"time": "1/500000"}, "messages may take .* s beyond the distance"),
        ({"pairs": [[0, 1, -1]]}, "whole numbers"),
        ({"pairs": []}, "whole numbers"),
        ({"rents": [[0, 0, -5]]}, "whole numbers"),
        ({"rents": [[0, "1/3000000", 5]]}, "no path of links takes 1/3000000 s"),
        ({"holds": [[0, 0, "1/1000000", 5]]}, "do not touch"),
        ({"holds": [[0, 0, 0, 5]]}, "do not touch"),
        ({"holds": []}, "messages may take"),
        ({"rents": []}, "messages may take"),
    ],
)
def test_forged_certificates(changes, error):
    topology = parse_topology("uniring:3")
    bound = chains(topology, 1000)
    rents = {"rents": [[0, 0, 2**40]]} if changes == {"rents": []} else changes
    with pytest.raises(InputError, match=error):
        _forged(bound, **rents).check(topology, collective("allreduce", 3))


def test_pairs_at_unlike_distances_are_no_certificate():
    topology = parse_topology("ring:8")
    bound = chains(topology, 1000)
    with pytest.raises(BoundError, match="no certificate"):
        _forged(bound, pairs=[[0, 4, 1], [0, 3, 1]]).check(topology, collective("allreduce", 8))
