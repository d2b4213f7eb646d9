"""The bound `broadcast_growth`: the postal model, all list schedules of tiny networks, values by hand."""

import heapq
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import tutti.models.bounds.latency as latency_module
from tests.sweep import for_each
from tutti.heuristics.rounds import METHOD as ROUNDS
from tutti.models.bounds import BoundError, lower_bounds
from tutti.models.bounds.bound import sentence
from tutti.schedules import Problem, collective
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import InputError, Link, Topology
from tutti.topologies.text import parse_topology
from tutti.topologies.transforms import transpose

MICRO = Fraction(1, 10**6)
KINDS = ("allgather", "reduce-scatter", "allreduce", "broadcast", "reduce", "all-to-all", "gather", "scatter")


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Leave out the bound that takes longest."""
    monkeypatch.setattr("tutti.models.bounds.report.message_count_bound", lambda *_, **__: None)


def growth(topology, kind="allgather", **details):
    """The bound in seconds, checked by its certificate, or None."""
    what = collective(kind, topology.num_ranks, **details)
    bound = next((b for b in lower_bounds(topology, what, 1) if b.kind == "broadcast_growth"), None)
    if bound is not None:
        bound.check(topology, what)
    return None if bound is None else bound.value


def star(ranks, alpha=1, able=False):
    links = [
        Link(*ends, Fraction(1), alpha * MICRO) for r in range(ranks) for ends in ((r, ranks), (ranks, r))
    ]
    switches = [ranks] if able else []
    return Topology.from_links("star", ranks, links, num_switches=1, multicast=switches, aggregate=switches)


def postal_broadcast(ranks):
    """Fewest units until all ranks have the data, if a rank sends to one a unit and a message takes two."""
    sending, told = [0], 1  # when each who knows, or will know, can send next
    last = 0
    while told < ranks:
        at = heapq.heappop(sending)
        last = at + 2
        told += 1
        heapq.heappush(sending, at + 1)
        heapq.heappush(sending, last)
    return last


@for_each("ranks", [2, 3, 4, 5, 8, 9, 13, 14, 21, 22, 40])
@pytest.mark.parametrize("kind", ["allgather", "broadcast", "reduce"])
def test_on_one_switch_it_is_the_postal_model(ranks, kind):
    assert growth(star(ranks, alpha=3), kind) == 3 * MICRO * postal_broadcast(ranks)


def test_a_switch_that_copies_or_adds_is_told_once():
    assert growth(star(9, able=True)) is None
    mixed = replace(star(9), multicast=frozenset([9]))
    assert growth(mixed) is None, "the only switch keeps what it gets"


def test_it_is_left_out_without_switches_and_for_large_networks(monkeypatch):
    assert growth(parse_topology("torus:3x3")) is None
    monkeypatch.setattr(latency_module, "MOST_NODES", 9)
    assert growth(star(8)) is not None
    assert growth(star(9)) is None


def test_two_boxes_by_hand():
    """Two ports, two α a message: 1, 1, 3, 5, 11, 21 ranks after 0, 1, ... α; H100: see the sum."""
    assert growth(parse_topology("dgx_a100:2")) == Fraction(5, 2) * MICRO
    # A rank sends once to its NVSwitch, which reaches the 7 others α later, and to one rank a port and α.
    # After 2 α: itself, 7, 1. After 3 α: one more. After 4 α: itself, the 7 with one each by then, those that
    # its own port reached after 2, 3, 4 α: 9 (itself and its box, and one), 1, 1: 1 + 7 * 2 + 9 + 1 + 1 = 26.
    assert growth(parse_topology("dgx_h100:4")) == Fraction(5, 2) * MICRO


def test_a_box_and_a_rail_by_hand():
    """A rank's data makes 42 messages in 6 α: 5 over either port, 24 after one other, 8 after two.

    Of these 12 go to the 7 others of its box alone, and 12 to the 3 others on its rail: 42 - 5 - 9 + 1 < 32.
    """
    assert growth(parse_topology("switch2d:8x4")) == Fraction(7, 2) * MICRO
    assert growth(parse_topology("switch2d:4x8"), "reduce-scatter") == Fraction(7, 2) * MICRO


def test_ranks_on_two_switches():
    """A chain rank - switch - switch - rank is 3 α; two switches with 2 ranks each: 1, 2 at 2 α, all at 4."""
    ends = [(0, 4), (1, 4), (2, 5), (3, 5), (4, 5)]
    links = [Link(*way, Fraction(1), MICRO) for a, b in ends for way in ((a, b), (b, a))]
    network = Topology.from_links("two", 4, links, num_switches=2)
    # The second message of rank 0 leaves at 1 α; to the other switch's ranks each takes 3 α.
    assert growth(network) == 4 * MICRO


def test_no_alpha_is_no_growth():
    links = [Link(*ends, Fraction(1), Fraction(0)) for r in range(5) for ends in ((r, 5), (5, r))]
    assert growth(Topology.from_links("instant", 5, links, num_switches=1)) == 0


def random_network(seed, ranks):
    """A few ranks behind one or two switches, each at random able or not; some links in addition; α 0 to 3.

    Two switches are joined, or some ranks are on both.
    """
    rng = np.random.default_rng(seed)
    switches = int(rng.integers(1, 3))
    pairs = [(rank, ranks + int(rng.integers(switches))) for rank in range(ranks)]
    if switches == 2 and seed % 2:
        pairs += [(rank, 2 * ranks + 1 - switch) for rank, switch in pairs if rng.random() < 0.7 or rank == 0]
    elif switches == 2:
        pairs += [(ranks, ranks + 1)]
    pairs += [tuple(rng.choice(ranks, 2, replace=False).tolist()) for _ in range(int(rng.integers(0, 3)))]
    least = int(rng.integers(0, 2))
    links = [
        Link(*way, Fraction(int(rng.integers(1, 5)) * 10**9), int(rng.integers(least, 4)) * MICRO)
        for a, b in pairs
        for way in ((a, b), (b, a))
    ]
    able = [[ranks + s for s in range(switches) if rng.random() < 0.3] for _ in range(2)]
    return Topology.from_links(
        f"random {seed}", ranks, links, num_switches=switches, multicast=able[0], aggregate=able[1]
    )


def simple_paths(topology, origin):
    """All simple paths from a node, as link lists."""
    offsets, links = topology.out_links

    def extend(path, seen, node):
        for link in links[offsets[node] : offsets[node + 1]].tolist():
            target = int(topology.target[link])
            if target not in seen:
                yield [*path, link], target
                yield from extend([*path, link], seen | {target}, target)

    yield from extend([], {origin}, origin)


def fastest_broadcast(topology, root):
    """Least time over all orders in which messages of no size may be sent, each as early as it can."""
    keeps = set(range(topology.num_ranks)) | topology.multicast
    ways = {node: [way for way in simple_paths(topology, node) if way[1] in keeps] for node in keeps}
    alpha = list(topology.alpha)
    best = [Fraction(10**9)]

    def search(known, free):
        late = max(known[node] for node in known if node < topology.num_ranks)
        if late >= best[0]:
            return
        if all(rank in known for rank in range(topology.num_ranks)):
            best[0] = late
            return
        for sender, at in list(known.items()):
            for path, target in ways[sender]:
                if target in known:
                    continue
                time, held = at, dict(free)
                for link in path:
                    time = max(time, held.get(link, 0)) + alpha[link]
                    held[link] = time
                search({**known, target: time}, held)

    search({root: Fraction(0)}, {})
    return best[0]


@for_each("seed", range(24))
def test_no_order_of_messages_is_faster(seed):
    """If all ranks are on one switch that only forwards, with equal α, it is met (postal model)."""
    network = random_network(seed, ranks=4)
    for root in range(2):
        bound = growth(network, "broadcast", root=root)
        if bound is not None:
            assert fastest_broadcast(network, root) >= bound


@for_each("seed", range(15))
def test_no_schedule_is_faster_and_reversed_networks_agree(seed):
    network = random_network(seed, ranks=3 + seed % 5)
    for kind in ("allgather", "reduce-scatter", "allreduce"):
        bound = growth(network, kind)
        if bound is None:
            continue
        what = collective(kind, network.num_ranks)
        schedule = ROUNDS.synthesize(
            Problem(network, what, Fraction(1)), ROUNDS.options(variants=1), np.random.default_rng(seed)
        )
        verify(schedule)
        for size in (1, 10**6):
            assert simulate(schedule, size).time >= float(bound) * (1 - 1e-9)
        if kind == "allgather":
            assert growth(transpose(network), "reduce-scatter") == bound


@pytest.mark.parametrize("kind", KINDS)
@for_each("groups", [None, [[0, 2, 5], [1, 4]]])
def test_certificates_prove_it_for_every_collective(kind, groups):
    for seed in range(6):
        growth(random_network(seed, ranks=6), kind, groups=groups)


def test_alphas_far_apart_are_rounded_down():
    """α of 1000003 s and one of 999983 s: the ticks are no divisors, the bound never more than exactly."""
    found = []
    for alpha in (1000003, 999983):
        links = [Link(*ends, Fraction(1), Fraction(1000003)) for r in range(9) for ends in ((r, 9), (9, r))]
        links.append(Link(0, 1, Fraction(1), Fraction(alpha)))
        found.append(growth(Topology.from_links("far", 9, links, num_switches=1)))
    assert 0.9 * found[0] < found[1] <= found[0]


def test_a_later_time_is_refused():
    machine, what = parse_topology("dgx_a100:2"), collective("allgather", 16)
    bound = next(b for b in lower_bounds(machine, what, 1) if b.kind == "broadcast_growth")
    later = replace(bound, certificate={**bound.certificate, "ticks": 6})
    with pytest.raises(
        InputError, match=r"broadcast_growth bound: all 16 may be reached before 6 ticks of 1/2000000 s"
    ):
        later.check(machine, what)
    with pytest.raises(
        InputError, match="broadcast_growth bound: 5 ticks of 0 s; at most 10000 positive ones"
    ):
        replace(bound, certificate={**bound.certificate, "tick": 0}).check(machine, what)
    with pytest.raises(BoundError, match="the certificate proves 1/500000 s, not 1/400000"):
        replace(bound, certificate={**bound.certificate, "ticks": 4}).check(machine, what)


def test_its_sentence_names_the_rank_and_the_time():
    certificate = {"node": 3, "direction": "in", "needed": 16, "ticks": 5, "tick": "1/2000000"}
    said = sentence("broadcast_growth", certificate, parse_topology("dgx_a100:2"))
    assert said.startswith("rank 3 can't have data of all 16 before 2.5us")


@pytest.mark.parametrize("able", [(), (6, 7)])
def test_what_holds_where_switches_in_hosts_copy_holds_where_they_forward(able):
    """Two hosts of three on a switch each; all but ranks 1 and 2 have an adapter to a third switch as well.

    Rank 1's data takes at least 1.8 us to all of the first host. Rank 0's first message is at rank 3 at
    3.5 us, its next ones 0.85 us later each; the third, at 5.2 us, may be too many. Ranks behind rank 3
    receive it at 4.9.
    """
    ends = [(rank, 6, "0.9") for rank in range(3)] + [(rank, 7, "0.7") for rank in range(3, 6)]
    ends += [(rank, 8, "0.85") for rank in (0, 3, 4, 5)]
    links = [Link(*pair, Fraction(1), Fraction(us) * MICRO) for a, b, us in ends for pair in ((a, b), (b, a))]
    hosts = [0, 0, 0, 1, 1, 1, 0, 1, -1]
    where = Topology.from_links(
        "dead adapters", 6, links, num_switches=3, multicast=able, aggregate=able, hosts=hosts
    )
    assert Fraction("4.7") * MICRO < growth(where, "allreduce") <= Fraction("4.9") * MICRO
    what = collective("allreduce", 6)
    bound = next(b for b in lower_bounds(where, what, 1) if b.kind == "broadcast_growth")
    assert bound.certificate.get("able", []) == ([] if able else [6, 7])
    for named in ([], [8], [0]):  # too few; others; a rank
        if not able:
            with pytest.raises(InputError):
                replace(bound, certificate={**bound.certificate, "able": named}).check(where, what)
