"""Every method does what it declares: legal schedules, no faster than what is proven; the rest it refuses.

What the networks here have is stated by hand; which of them a method takes follows from its declaration.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from tests import plugged
from tutti.experiments import registry
from tutti.models.bounds import Bound, lower_bounds
from tutti.schedules import Problem, Schedule, collective
from tutti.schedules.capabilities import Capabilities, Groups, Shape, Switches
from tutti.schedules.collective import KINDS, Collective, Kind, concurrent
from tutti.schedules.compose import BY_ALLGATHER
from tutti.schedules.cost import congestion
from tutti.schedules.files.schedule_file import content_hash, read_schedule, write_schedule
from tutti.schedules.method import Method
from tutti.schedules.reversal import normal_order, reverse
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import Link, Topology, TuttiError, Unsupported
from tutti.topologies.text import parse_topology

METHODS = {**registry.METHODS, "hub": plugged.names("hub_method.py")["METHOD"]}
"""All, and a plug-in's."""
SIZE = Fraction(2**20)
GB = 10**9
LATE = 1e-9
"""Relative: a simulated time is a float, a bound is exact."""


@dataclass(frozen=True)
class Network:
    """A small network and what it has, by hand."""

    text: str
    shapes: frozenset[Shape] = frozenset()
    switches: Switches = Switches.NONE
    one_way: bool = False
    uneven: bool = False
    power_of_two: bool = True

    @property
    def topology(self) -> Topology:
        return star() if self.text == "star" else parsed(self.text)


def star() -> Topology:
    """Three ranks on a switch that takes in more than it sends: not Eulerian."""
    links = [Link(r, 3, 2 * GB) for r in range(3)] + [Link(3, r, b * GB) for r, b in enumerate((2, 2, 1))]
    return Topology.from_links("star", 3, links, num_switches=1)


parsed = cache(parse_topology)

TORUS = {Shape.GRID, Shape.TORUS}
WHEEL = Network("wheel:5", power_of_two=False)
"""Of a plug-in."""
NETWORKS = [
    Network("BiRing(2,4)", frozenset({*TORUS, Shape.EVEN_TORUS, Shape.CIRCULANT, Shape.NOTATION})),
    Network("gen_kautz:2,6", one_way=True, power_of_two=False),
    Network(
        "switch2d:2x2",
        frozenset({Shape.GRID, Shape.PLANES, Shape.HOSTS, Shape.ONE_HOST}),
        Switches.EULERIAN,
    ),
    Network("K(4)", frozenset({Shape.GRID, Shape.NOTATION})),
    Network(
        "mesh:2x2?bandwidth=50GB/s,20GB/s", frozenset({*TORUS, Shape.EVEN_TORUS, Shape.PLANES}), uneven=True
    ),
    Network("ring:5", frozenset({*TORUS, Shape.CIRCULANT}), power_of_two=False),
    Network("mesh:3x3", frozenset({*TORUS, Shape.MESH}), power_of_two=False),
    Network("UniRing(1,4)", frozenset({Shape.NOTATION}), one_way=True),
    Network("dgx1", frozenset({Shape.GRID, Shape.DGX1, Shape.ONE_HOST})),
    Network("mesh:3x4", frozenset({*TORUS, Shape.MESH}), power_of_two=False),
    Network(
        "switch2d:2x2?switches=sharp",
        frozenset({Shape.GRID, Shape.PLANES, Shape.HOSTS, Shape.ONE_HOST, Shape.SHARP}),
        Switches.EULERIAN,
    ),
    Network("star", frozenset({Shape.GRID}), Switches.ANY, power_of_two=False),
    WHEEL,
]
FEW = 2
"""Networks for each method and collective."""
OPTIONS = {
    "bfb": {"by": "model", "solver": "scipy"},
    "best": {"methods": ["direct"]},
    "teccl": {"start": "multitree", "gap": 0.25},
    "sccl": {"frontier": False},
    "optimum": {"gap": 0.25},
    "tacos": {"chunks": 2},
    "local_search": {"time_limit": "20ms"},
    "list_scheduling": {"time_limit": "1s"},
    "recursive_hybrid": {"moves": 10},
    "windowed_mcf": {"time_limit": "1s"},
}
"""Of those that search long with their defaults, or that do more with others."""
LISTED_OF_FLOWS = {"base_methods": ["mcf"], "time_limit": "1s"}
"""Lists trees by default; flows from one rank to one rank where every route is one link."""
POINT_TO_POINT = {Kind.ALL_TO_ALL, Kind.GATHER, Kind.SCATTER}
WALKLESS = ("ring:5", "mesh:3x3", "UniRing(1,4)", "mesh:3x4", "wheel:5")
BESIDES = {
    ("taccl", "switch2d:2x2?switches=sharp"),
    *(("taccl", "switch2d:2x2"), ("taccl", "star"), ("list_scheduling", "star")),
    *(("de_bruijn_allreduce", network) for network in WALKLESS),
}
"""Refused for what the method says further: no sketch; no trees on what is not Eulerian; no walks."""


@pytest.fixture(scope="module", autouse=True)
def plug_ins(tmp_path_factory):
    """Those of docs/plugins.md: the family ``wheel``, a bound on every allgather, and what solves for BFB."""
    with plugged.registered(tmp_path_factory.mktemp("plug_ins")):
        yield


def takes(able: Capabilities, network: Network) -> bool:
    """Whether the declaration says so."""
    switches = {Switches.NONE: 0, Switches.EULERIAN: 1, Switches.BALANCED: 2, Switches.ANY: 3}
    return (
        switches[network.switches] <= switches[able.switches]
        and (able.one_way_links or not network.one_way)
        and (able.uneven_links or not network.uneven)
        and (able.shape is Shape.ANY or able.shape in network.shapes)
        and (network.power_of_two or not able.power_of_two)
    )


def taken(name: str) -> list[Network]:
    able = METHODS[name].capabilities
    return [n for n in NETWORKS if takes(able, n) and (name, n.text) not in BESIDES]


def whole(kind: Kind, ranks: int) -> Collective:
    """The collective on all ranks; mixed: an allgather among one half and a scatter among the other."""
    if kind is not Kind.MIXED:
        return collective(kind, ranks)
    kinds, half = ("allgather", "scatter"), ranks // 2
    return concurrent(
        [collective(k, ranks, groups=[range(i * half, (i + 1) * half)]) for i, k in enumerate(kinds)]
    )


def asked(name: str, network: Network, what: Collective):
    method = METHODS[name]
    given = (
        LISTED_OF_FLOWS
        if name == "list_scheduling" and what.kind in POINT_TO_POINT
        else OPTIONS.get(name, {})
    )
    return method, Problem(network.topology, what, SIZE), method.options(**given)


def synthesized(name: str, network: Network, what: Collective) -> Schedule:
    method, problem, options = asked(name, network, what)
    method.supports(problem, options)
    return method.synthesize(problem, options, np.random.default_rng(0))


@cache
def bounds_of(network: Network, kind: Kind) -> list[Bound]:
    return lower_bounds(network.topology, whole(kind, network.topology.num_ranks), SIZE)


@cache
def schedule_of(name: str, network: Network, kind: Kind) -> Schedule:
    return synthesized(name, network, whole(kind, network.topology.num_ranks))


def declared(most: int) -> list:
    """Each method and each collective it declares, with up to so many networks that it says it takes."""
    cases = []
    for name, method in METHODS.items():
        for kind in method.capabilities.collectives:
            networks = taken(name)
            if name == "list_scheduling" and kind in POINT_TO_POINT:
                networks = [n for n in networks if n.text == "K(4)"]
            cases += [pytest.param(name, n, kind, id=f"{name}-{kind}-{n.text}") for n in networks[:most]]
    return cases


def test_every_method_is_exercised():
    exercised = {param.values[0] for param in declared(FEW)}
    assert exercised == set(METHODS)


HUBS = [pytest.param("hub", WHEEL, kind, id=f"hub-{kind}-wheel") for kind in BY_ALLGATHER]


@pytest.mark.parametrize(("name", "network", "kind"), [*declared(FEW), *HUBS])
def test_a_schedule_is_legal_and_no_faster_than_any_bound(name, network, kind):
    schedule = schedule_of(name, network, kind)
    assert schedule.topology == network.topology
    assert schedule.collective == whole(kind, network.topology.num_ranks)
    verify(schedule)
    time = simulate(schedule, SIZE).time
    load = congestion(schedule)
    for bound in bounds_of(network, kind):
        assert time >= float(bound.time(SIZE)) * (1 - LATE), bound.kind
        if bound.unit == "s/B":
            assert load >= bound.value, bound.kind


AWKWARD = [("ring:2", 10**18), ("ring:2?alpha=1s", 1), ("mesh:2x2?bandwidth=1B/s,1TB/s&alpha=0s", 1000)]
"""Networks and sizes: a pair, an exabyte, a second of α and none, a byte, bandwidths 10^12 apart."""


@cache
def least_time(text: str, size: int, kind: Kind) -> float:
    topology = parsed(text)
    bounds = lower_bounds(topology, whole(kind, topology.num_ranks), size)
    return max(float(bound.time(size)) for bound in bounds)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("text", "size"), AWKWARD)
def test_awkward_problems_have_right_answers_or_a_line(name, text, size):
    method, topology = METHODS[name], parsed(text)
    for kind in (*BY_ALLGATHER, Kind.ALL_TO_ALL):
        problem = Problem(topology, whole(kind, topology.num_ranks), Fraction(size))
        given = (
            LISTED_OF_FLOWS if name == "list_scheduling" and kind in POINT_TO_POINT else OPTIONS.get(name, {})
        )
        found = answer(method, problem, method.options(**given))
        if isinstance(found, str):
            assert "\n" not in found
            continue
        verify(found)
        assert simulate(found, size).time >= least_time(text, size, kind) * (1 - LATE)


def answer(method: Method, problem: Problem, options: object) -> Schedule | str:
    """What a method makes, or what it says why not."""
    try:
        method.supports(problem, options)
        return method.synthesize(problem, options, np.random.default_rng(0))
    except TuttiError as refusal:
        return str(refusal)


def on_the_first_network(name: str) -> list[Schedule]:
    """A schedule of every collective that the method declares."""
    return [schedule_of(*param.values) for param in declared(1) if param.values[0] == name]


@pytest.mark.parametrize("name", METHODS)
def test_schedules_survive_their_files(name, tmp_path):
    for schedule in on_the_first_network(name):
        for suffix in (".json", ".json.gz", ".npz"):
            path = tmp_path / f"schedule{suffix}"
            write_schedule(schedule, path)
            again, where = read_schedule(path), (schedule.collective, suffix)
            assert content_hash(again) == content_hash(schedule), where
            assert simulate(again, SIZE).time == simulate(schedule, SIZE).time, where
            assert congestion(again) == congestion(schedule), where


@pytest.mark.parametrize("name", METHODS)
def test_reversing_twice_is_the_identity_where_there_is_a_reverse(name):
    """Parts are reversed one by one; partners that exchange sums have no phase that distributes."""
    for schedule in on_the_first_network(name):
        if schedule.collective.kind is Kind.MIXED or name == "recursive_doubling":
            with pytest.raises(Unsupported, match=r"^reverse of a"):
                reverse(schedule)
        else:
            twice = reverse(reverse(schedule))
            assert content_hash(twice) == content_hash(normal_order(schedule)), schedule.collective


def refusal(name: str, network: Network, what: Collective) -> str | None:
    """What the method says to this; None: it takes it."""
    method, problem, options = asked(name, network, what)
    try:
        method.supports(problem, options)
    except Unsupported as error:
        said = str(error)
    else:
        return None
    assert said.startswith(name)
    assert "\n" not in said
    return said


@pytest.mark.parametrize("name", METHODS)
def test_a_method_takes_the_networks_that_it_declares_and_refuses_the_others(name):
    able = METHODS[name].capabilities
    for network in NETWORKS:
        said = refusal(name, network, whole(able.collectives[0], network.topology.num_ranks))
        refuses = not takes(able, network) or (name, network.text) in BESIDES
        assert (said is not None) == refuses, (network.text, said)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_does_the_collectives_that_it_declares_and_refuses_the_others(name):
    able, network = METHODS[name].capabilities, taken(name)[0]
    for kind in (*KINDS, Kind.MIXED):
        said = refusal(name, network, whole(kind, network.topology.num_ranks))
        if kind in able.collectives:
            assert said is None, kind
        else:
            assert said == f"{name} does {', '.join(able.collectives)}; not {kind}"


def some_data(ranks: int, kind: Kind) -> dict[str, Collective]:
    """Shards of several sizes, one group, two groups."""
    half = ranks // 2
    return {
        "uneven shards": collective(kind, ranks, shards=[1 + r % 2 for r in range(ranks)]),
        "one group": collective(kind, ranks, groups=[range(ranks - 1)]),
        "two groups": collective(kind, ranks, groups=[range(half), range(half, 2 * half)]),
    }


def moves(able: Capabilities) -> set[str]:
    """Which of `some_data` a method moves, as it declares."""
    groups = {Groups.NONE: set(), Groups.ONE: {"one group"}, Groups.ANY: {"one group", "two groups"}}
    return groups[able.groups] | ({"uneven shards"} if able.uneven_shards else set())


@pytest.mark.parametrize("name", METHODS)
def test_a_method_moves_the_data_that_it_declares_and_refuses_other(name):
    able, network = METHODS[name].capabilities, taken(name)[0]
    kind = next(k for k in reversed(able.collectives) if k not in {Kind.BROADCAST, Kind.REDUCE, Kind.MIXED})
    network = next(n for n in NETWORKS if n.text == "K(4)") if name == "list_scheduling" else network
    for label, what in some_data(network.topology.num_ranks, kind).items():
        if label in moves(able):
            verify(synthesized(name, network, what))
        else:
            assert refusal(name, network, what) is not None, label
