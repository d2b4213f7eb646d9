"""The bound `unicast_price`: against times by hand, schedules on random networks, and forged certificates."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import tutti.models.all_to_all.unicast_price as relays_module
from tests.models.networks import MICRO, network_of
from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.models.all_to_all.unicast_price import unicast_price_bound
from tutti.models.bounds import BoundError, lower_bounds
from tutti.models.bounds.check_unicast_price import Relaying
from tutti.models.bounds.latency import distance_bound
from tutti.models.bounds.spreading import AlphaDistances
from tutti.models.bounds.traffic import Traffic
from tutti.schedules import Problem, collective
from tutti.schedules.simulation.simulate import simulate
from tutti.topologies import InputError, Link, Topology
from tutti.topologies.errors import NoSchedule, Unsupported
from tutti.topologies.text import parse_topology


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """It is given only where it is larger than the others, and `first_hop` has the same optima on a line."""
    monkeypatch.setattr("tutti.models.bounds.report.first_hop_bound", lambda *given: None)


def unicast_price(network, size, kind="all-to-all"):
    """The bound, or None."""
    topology = parse_topology(network) if isinstance(network, str) else network
    found = lower_bounds(topology, collective(kind, topology.num_ranks), size)
    return next((bound for bound in found if bound.kind == "unicast_price"), None)


@pytest.mark.parametrize(
    ("network", "ranks", "load"),
    [("ring:4", 4, 2), ("ring:5", 5, 3), ("uniring:3", 3, 3), ("mesh:3x1", 3, 2)],
)
@pytest.mark.parametrize("size", [120_000, 10**6])
def test_optima_where_data_takes_two_links(network, ranks, load, size):
    """Shards over each link, at 50 GB/s, and twice α, 0.5 us: data that is relayed waits or pays for it.

    A link with data for its end alone has one shard. Optima: messages of relayed data, then the rest.
    """
    optimum = Fraction(load * size, ranks * 50_000) + 1
    assert optimum * Fraction(9999, 10_000) < unicast_price(network, size).value / MICRO <= optimum


@for_each("seed", range(8))
def test_no_schedule_is_faster(seed):
    topology = network_of(seed)
    for kind in ("all-to-all", "scatter", "gather"):
        what, distances = collective(kind, topology.num_ranks), AlphaDistances(topology)
        farthest = distance_bound(topology, Traffic.of(what), distances).value
        for size in (Fraction(1500), Fraction(12_000)):
            bound = unicast_price_bound(topology, what, size, farthest)
            if bound is None:
                continue
            json.dumps(dict(bound.certificate))
            bound.check(topology, what)
            problem = Problem(topology, what, size)
            # a little effort finds as fast ones, but for one that is far from the bound
            for name, effort in (
                ("mcf", {}),
                ("shortest_path_all_to_all", {"search_effort": 1}),
                ("direct", {}),
            ):
                method = METHODS[name]
                try:
                    schedule = method.synthesize(
                        problem, method.options(**effort), np.random.default_rng(seed)
                    )
                except (NoSchedule, Unsupported):
                    continue
                assert simulate(schedule, size).time >= float(bound.value) * (1 - 1e-9), name


def test_it_is_given_only_where_it_is_the_largest(monkeypatch):
    assert unicast_price("complete:4", 10**6) is None, "nothing is relayed"
    assert unicast_price("ring:8", 10**6, "allgather") is None, "data is copied"
    assert unicast_price("ring:8", 10) is None, "α alone counts"
    instant = [Link(a, (a + way) % 5, Fraction(10**9), Fraction(0)) for a in range(5) for way in (1, 4)]
    assert unicast_price(Topology.from_links("instant", 5, instant), 10**6) is None
    monkeypatch.setattr(relays_module, "MOST_ROWS", 31)
    assert unicast_price("ring:8", 10**6) is None, "16 links, two distances"


def pair(own=None):
    """Two links of 1 B/s and 2 B/s with 1 s from 0 to 1 and back; prices for come, and to go, 0 or 1 s."""
    links = [Link(0, 1, Fraction(1), Fraction(1)), Link(1, 0, Fraction(2), Fraction(1))]
    prices = [[[2, 3], [4, 9]], [[1, 1], [1, 1]]]
    return Relaying(Topology.from_links("pair", 2, links), [0, 1], prices, own)


def test_what_links_earn_by_hand():
    """Link 0 has one message from 1 to 3 s of 4 s (2 s less 1, at 9), link 1 one of 3 s (twice, at 1).

    In 12 s: from 1 to 11 s 9 seconds at 9; link 1 11 seconds. In 2 s: nothing at 9 fits; 1 second at 2.
    """
    assert pair().earned(Fraction(4)) == 9 + 6
    assert pair().earned(Fraction(12)) == 81 + 22
    assert pair().earned(Fraction(2)) == 2 + 2


def test_what_links_earn_with_little_data_of_their_own_by_hand():
    """Link 1 has 1 byte of its own in 4 s, or a message of 3 s with other data: 2 seconds, twice.

    With 5 bytes of their own link 1 earns 5 for them; link 0 has time for 3. In 2 s all is their own.
    """
    assert pair([Fraction(1)] * 2).earned(Fraction(4)) == 9 + 4
    assert pair([Fraction(5)] * 2).earned(Fraction(4)) == 9 + 5
    assert pair([Fraction(1)] * 2).earned(Fraction(2)) == 2 + 2


def test_what_moving_costs_by_hand():
    """The path from 0 to 1 has nothing before or after it, 2; the way back has come 1 s, and is as dear."""
    assert pair().costs(0, [0, 1]) == [0, 2]
    assert pair().costs(1, [1, 0]) == [1, 0]
    line = parse_topology("mesh:3x1")
    prices = {(0, 1): [[5, 7], [50, 70]], (1, 2): [[30, 20], [2, 10]]}
    tables = [
        prices.get(tuple(e), [[99, 99]] * 2)
        for e in zip(line.source.tolist(), line.target.tolist(), strict=True)
    ]
    alpha = int(line.alpha.numerators[0])
    assert Relaying(line, [0, alpha], tables, None).costs(0, [0, alpha, 2 * alpha])[1:] == [5, 7 + 2]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"time": "221/100000000"}, "links may earn"),
        ({"time": 0}, "a positive size and time"),
        ({"rows": [0]}, "a table of prices a link"),
        ({"distances": ["1/1000000"]}, "distances must rise, 0 first"),
        ({"distances": list(range(65))}, "at most 64"),
        ({"prices": [[[1, -1], [1, 1]]]}, "whole numbers, not negative"),
        ({"prices": [[[1, 1, 1], [1, 1, 1]]]}, "whole numbers, not negative"),
        ({"prices": [[[0] * 2] * 2]}, "links may earn 0 "),
    ],
)
def test_forged_certificates_are_refused(changes, error):
    topology, what = parse_topology("ring:4"), collective("all-to-all", 4)
    bound = replace_levels(unicast_price("ring:4", 120_000))
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
