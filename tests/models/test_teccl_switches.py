"""TE-CCL on networks with switches: finishes against exhaustive searches, schedules through the verifier."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from models.bounds import lower_bounds
from models.sccl import Instance
from models.teccl import METHOD, Epochs
from models.teccl.ways import ways_of
from schedules import Problem, collective
from schedules.simulate import simulate
from schedules.verify import verify
from topologies import Topology, Unsupported
from topologies.text import parse_topology
from topologies.topology import Link

SIZE = 2**20


def star(ranks, *, copies=False):
    """Ranks on one switch, links of 1 GB/s without α: a chunk is an epoch on each link."""
    links = [
        Link(*ends, Fraction(10**9), Fraction(0)) for n in range(ranks) for ends in ((n, ranks), (ranks, n))
    ]
    name = f"star of {ranks}"
    return Topology.from_links(name, ranks, links, num_switches=1, multicast=[ranks] if copies else [])


def made(topology, kind="allgather", details=None, size=SIZE, **options):
    what = collective(kind, topology.num_ranks, **(details or {}))
    task, chosen = Problem(topology, what, Fraction(size)), METHOD.options(**options)
    METHOD.supports(task, chosen)
    schedule = METHOD.synthesize(task, chosen, np.random.default_rng(0))
    verify(schedule)
    assert (schedule.topology, schedule.collective) == (topology, what)
    for bound in lower_bounds(topology, what, size):
        assert simulate(schedule, size).time >= float(bound.time(size)) * (1 - 1e-9), bound.kind
    return schedule


def fewest_on_a_star(ranks, start, goal, most):
    """Breadth-first search: in each epoch every rank sends one chunk to one rank and gets one at most.

    A chunk passes the switch while it is sent (cut-through), so a transfer takes an epoch.
    """
    states = {frozenset(start)}
    for epoch in range(most + 1):
        if any(goal <= state for state in states):
            return epoch
        following = set()
        for state in states:
            for senders in product(range(-1, ranks), repeat=ranks):  # whom each rank hears, or nobody
                heard = [sender for sender in senders if sender >= 0]
                if len(heard) != len(set(heard)):
                    continue
                choices = [
                    [(c, n) for c, a in state if a == sender and (c, n) not in state] or [None]
                    for n, sender in enumerate(senders)
                ]
                following |= {state.union(got for got in some if got) for some in product(*choices)}
        states = following
    return None


@pytest.mark.parametrize(
    "options", [{}, {"search": "once", "cuts": False}, {"window": 1}, {"solver": "cp-sat"}]
)
@pytest.mark.parametrize(
    ("kind", "ranks"), [("allgather", 3), ("scatter", 3), ("broadcast", 4), ("scatter", 4), ("all-to-all", 3)]
)
def test_a_star_ends_in_the_fewest_epochs_of_an_exhaustive_search(kind, ranks, options):
    rooted = kind in ("scatter", "broadcast")
    schedule = made(star(ranks), kind, {"root": 0} if rooted else {}, **options)
    everyone = range(ranks)
    if kind == "all-to-all":
        start = {((a, b), a) for a in everyone for b in everyone if a != b}
        goal = {((a, b), b) for a in everyone for b in everyone if a != b}
    else:
        start = {(c, 0 if rooted else c) for c in ([0] if kind == "broadcast" else everyone)}
        goal = {(c, n) for c, _ in start for n in (everyone if kind != "scatter" else [c])}
    assert schedule.stats["epochs"] == fewest_on_a_star(ranks, start, goal, 4)
    assert schedule.stats["solver_gap"] == 0 or options == {"window": 1}


@pytest.mark.parametrize(("copies", "epochs"), [(False, 3), (True, 2)])
def test_a_switch_that_copies_serves_all_at_once(copies, epochs):
    """Eight ranks, by hand: holders at most double in an epoch; or one epoch in and one out to all."""
    schedule = made(star(8, copies=copies), "broadcast", {"root": 0})
    assert (schedule.stats["epochs"], schedule.stats["solver_gap"]) == (epochs, 0)
    assert (schedule.target == 8).any() == copies


def test_a_switch_stores_nothing():
    """What it gets it sends on as it arrives, each chunk once."""
    schedule = made(star(4, copies=True))
    columns = (schedule.order, schedule.chunk, schedule.source, schedule.target)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    arrival = {c: k + 1 for k, c, _, n in rows if n == 4}
    assert all(arrival[c] == k for k, c, a, _ in rows if a == 4)


@pytest.mark.parametrize(
    ("text", "epochs"),
    [
        ("dgx_a100:1", 7),  # each of 8 ranks gets 7 chunks over one link
        ("switch2d:2x2", 8),  # 8 epochs of the fast link are one chunk on the slow, which 2 of 3 chunks cross
    ],
)
@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter"])
def test_platforms_meet_their_bounds(text, epochs, kind):
    schedule = made(parse_topology(text), kind)
    assert (schedule.stats["epochs"], schedule.stats["solver_gap"]) == (epochs, 0)


@pytest.mark.parametrize("window", [0, 2])
@pytest.mark.parametrize("kind", ["allgather", "allreduce", "all-to-all", "broadcast", "reduce", "gather"])
@pytest.mark.parametrize("text", ["dgx_a100:1", "dgx_h100:1", "dgx_a100:2?ranks=2+2", "switch2d:2x2"])
def test_every_collective_is_legal(text, kind, window):
    rooted = kind in ("broadcast", "reduce", "gather")
    small = text if "ranks" in text or "2d" in text else f"{text}?drop_nodes=3,4,5,6,7"
    made(parse_topology(small), kind, {"root": 1} if rooted else {}, window=window)


@pytest.mark.parametrize("epoch", ["slowest", "best", "300ns"])
@pytest.mark.parametrize("text", ["dgx_a100:1?drop_nodes=3,4,5,6,7", "dgx_h100:1?drop_nodes=3,4,5,6,7"])
@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter"])
def test_every_epoch_length_gives_a_legal_schedule(epoch, text, kind):
    made(parse_topology(text), kind, epoch=epoch)


def test_ways_are_links_or_pass_switches():
    """Two machines of two ranks: within one over its own switch or the network, else over the network."""
    topology = parse_topology("dgx_a100:2?ranks=2+2")
    ways = ways_of(topology)
    ends = sorted(ways.ends)
    near = [(0, 1), (1, 0), (2, 3), (3, 2)]
    far = [(a, b) for a in range(4) for b in range(4) if a // 2 != b // 2]
    assert ends == sorted([*near, *near, *far])
    for links, (a, b) in zip(ways.links, ways.ends, strict=True):
        nodes = [a, *topology.target[list(links)].tolist()]
        assert nodes[1:-1] == topology.source[list(links[1:])].tolist()
        assert all(node >= 4 for node in nodes[1:-1])
        assert nodes[-1] == b
    assert not ways.are_links
    assert ways_of(parse_topology("ring:4")).are_links


def test_links_of_a_route_are_held_as_the_time_clock_has_it():
    """By hand: α 1 us, chunks of 2 us, in epochs of 1 us: 4 epochs; the second link from 1 to 4."""
    links = [Link(0, 2, Fraction(10**9), Fraction(1, 10**6)), Link(2, 1, Fraction(10**9), Fraction(1, 10**6))]
    back = [Link(1, 2, Fraction(10**9), Fraction(1, 10**6)), Link(2, 0, Fraction(10**9), Fraction(1, 10**6))]
    topology = Topology.from_links("pair", 2, [*links, *back], num_switches=1)
    instance = Instance(topology, collective("allgather", 2), 1, switches=True)
    for backwards in (False, True):
        epochs = Epochs(instance, Fraction(4000), Fraction(1, 10**6), backwards)
        way = epochs.ways.number[0, 1]
        assert (epochs.lasts[way], epochs.carries[way]) == (4, 1)
        assert epochs.holds[way] == [(0, 0, 3), (1, 1, 4)]


def test_a_way_through_too_many_switches_is_not_supported():
    topology = parse_topology("dgx_a100:32")
    task = Problem(topology, collective("allgather", topology.num_ranks), Fraction(SIZE))
    with pytest.raises(Unsupported, match=r"^teccl: dgx_a100:32 has over 16384 ways through switches$"):
        METHOD.supports(task, METHOD.options())


def network(ranks, ends, **switches):
    """Links (source, target, GB/s, α in us)."""
    links = [Link(a, b, Fraction(gb * 10**9), Fraction(us, 10**6)) for a, b, gb, us in ends]
    return Topology.from_links("mixed", ranks, links, **switches)


@pytest.mark.parametrize("kind", ["broadcast", "allreduce"])
def test_links_to_a_switch_that_no_way_passes_do_not_shift_the_others(kind):
    """Both ranks are joined directly, so nothing goes over the switch, whose links come first."""
    where = network(2, [(0, 2, 1, 1), (2, 1, 1, 1), (0, 1, 1, 1), (1, 0, 1, 1)], num_switches=1)
    schedule = made(where, kind)
    table = schedule.route_table
    assert set(table.links[table.offsets[schedule.route]].tolist()) <= {2, 3}


def test_the_halves_of_an_allreduce_do_not_meet_where_what_is_rounded_up_holds_a_link_longer():
    ends = [(0, 4, 2, 0), (4, 0, 1, 1), (1, 4, 3, 2), (4, 1, 1, 3), (2, 4, 1, 2), (4, 2, 1, 0), (3, 4, 2, 1)]
    where = network(4, [*ends, (4, 3, 2, 0), (0, 4, 1, 1)], num_switches=1)
    made(where, "allreduce", size=1000, chunks=2, epoch="best", solver="cp-sat")


def test_halves_of_an_allreduce_have_epochs_of_one_length_where_there_are_switches():
    """The switch copies but can't add: only the allgather's ways may end at it."""
    ends = [(0, 3, 1, 3), (3, 0, 2, 1), (1, 3, 3, 2), (3, 1, 1, 1), (2, 3, 1, 0), (3, 2, 3, 2)]
    for epoch in ("fastest", "slowest", "best"):
        made(network(3, ends, num_switches=1, multicast=[3]), "allreduce", size=3000, epoch=epoch)
