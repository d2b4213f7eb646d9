"""The partition bound of allreduce: against all partitions of small networks, and from its certificate."""

from dataclasses import replace
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from tutti.models.bounds import bandwidth, lower_bounds
from tutti.schedules import collective
from tutti.schedules.collective import concurrent
from tutti.topologies import InputError, Link, Topology
from tutti.topologies.text import parse_topology


def partitions(nodes):
    rows = [[0]]
    for _ in range(nodes - 1):
        rows = [[*row, part] for row in rows for part in range(max(row) + 2)]
    return rows


ALL = {nodes: partitions(nodes) for nodes in range(2, 8)}


def random_network(seed):
    """Random networks of up to 7 ranks, one-way links over a cycle, bandwidths small fractions."""
    rng = np.random.default_rng(seed)
    ranks = int(rng.integers(2, 8))
    cycle = rng.permutation(ranks)
    ends = [
        *zip(cycle, np.roll(cycle, -1), strict=True),
        *rng.integers(0, ranks, (int(rng.integers(0, 16)), 2)),
    ]
    links = [Link(int(a), int(b), Fraction(int(rng.integers(1, 30)), 2)) for a, b in ends if a != b]
    return Topology.from_links(f"random {seed}", ranks, links)


def worst_of_all(topology):
    links = [topology.link(i) for i in range(topology.num_links)]
    values = []
    for part in ALL[topology.num_ranks][1:]:
        capacity = sum(k.bandwidth for k in links if part[k.source] != part[k.target])
        values.append(2 * max(part) / capacity)
    return max(values)


def bound_of(topology, what=None):
    what = what or collective("allreduce", topology.num_ranks)
    return next((b for b in lower_bounds(topology, what) if b.kind == "partition"), None)


def test_it_is_the_largest_over_all_partitions_of_the_ranks():
    for seed in range(100):
        topology = random_network(seed)
        bound = bound_of(topology)
        assert bound.value == worst_of_all(topology)
        assert bound.certificate["maximum"] is True
        bound.check(topology, collective("allreduce", topology.num_ranks))


def test_of_a_network_too_large_to_ask_the_best_of_a_few_is_taken_and_says_so(monkeypatch):
    path = Topology.from_links(
        "path",
        3,
        [Link(a, b, Fraction(c)) for x, y, c in [(0, 1, 9), (1, 2, 1)] for a, b in ((x, y), (y, x))],
    )
    assert bound_of(path).value == 1  # {0, 1} and {2}: 2 transfers over 2 B/s
    monkeypatch.setattr(bandwidth, "MOST_WORK", 0)
    bound = bound_of(path)
    assert (bound.value, bound.certificate["maximum"]) == (Fraction(4, 20), False)


def test_capacities_too_far_apart_leave_a_bound():
    far = Topology.from_links("far", 2, [Link(0, 1, Fraction(2**60)), Link(1, 0, Fraction(1))])
    bound = bound_of(far)
    assert (bound.value, bound.certificate["maximum"]) == (Fraction(2, 2**60 + 1), False)


def test_switches_that_hold_with_their_ranks_are_inside_the_parts():
    """Two pairs of ranks, each on a fast switch of its own, joined by one slow link each way."""
    fast, slow = Fraction(100), Fraction(1)
    ends = [(0, 4, fast), (1, 4, fast), (2, 5, fast), (3, 5, fast), (4, 5, slow)]
    links = [Link(a, b, c) for x, y, c in ends for a, b in ((x, y), (y, x))]
    network = Topology.from_links("pairs", 4, links, num_switches=2, aggregate=[4, 5])
    bound = bound_of(network)
    assert bound.certificate["parts"] == [[0, 1, 4], [2, 3, 5]]
    assert (bound.value, bound.certificate["maximum"]) == (1, False)
    bound.check(network, collective("allreduce", 4))


@pytest.mark.parametrize("text", ["dgx_a100:2", "mi250:2", "dgx_h100:2", "dgx2:2"])
def test_with_switches_every_certificate_proves_its_bound(text):
    topology = parse_topology(text)
    what = collective("allreduce", topology.num_ranks)
    bound = bound_of(topology, what)
    if bound is not None:
        bound.check(topology, what)
        assert bound.certificate["maximum"] is False


def test_groups_count_their_transfers_together():
    mesh = parse_topology("mesh:2x2")
    what = collective("allreduce", 4, groups=[[0, 3], [1, 2]])
    bound = bound_of(mesh, what)
    bound.check(mesh, what)
    # 2 transfers a group, which only the four links between ranks 0, 1 and 2, 3 can do
    assert bound.value == Fraction(4, 4 * 50 * 10**9)
    assert bound.certificate["maximum"] is False


@pytest.mark.parametrize(
    ("kind", "given", "more"),
    [
        ("broadcast", {}, 1),
        ("all-to-all", {}, 1),  # half of M each way
        ("allreduce", {}, 2),
        ("gather", {"shards": [1, 3]}, Fraction(3, 4)),  # to the first from the other, whose shard that is
    ],
)
def test_what_runs_beside_an_allreduce_counts_too(kind, given, more):
    """Six ranks need 2 * 5 transfers over the 56 links; the other two add theirs."""
    parts = [collective("allreduce", 8, groups=[range(6)]), collective(kind, 8, groups=[[6, 7]], **given)]
    network, what = parse_topology("complete:8"), concurrent(parts)
    bound = bound_of(network, what)
    assert bound.value == Fraction(10 + more, 56 * 50 * 10**9)
    bound.check(network, what)


@pytest.mark.parametrize("beside", [[], ["all-to-all"]])
def test_groups_inside_hosts_pay_no_alpha_between_them(beside):
    """Four ranks, two a host: 10 us between hosts, which at most the exchange of few bytes needs."""
    hosts = parse_topology("dgx_h100:2?ranks=2+2&alpha=0.5us,10us")
    parts = [collective("allreduce", 4, groups=[[0, 1], [2, 3]])]
    parts += [collective(kind, 4, groups=[[0, 2]]) for kind in beside]
    what = concurrent(parts) if beside else parts[0]
    bounds = lower_bounds(hosts, what, 1000)
    for bound in bounds:
        bound.check(hosts, what)
    kinds = {bound.kind for bound in bounds}
    assert "partition_latency" not in kinds
    assert ("partition" in kinds) == bool(beside)


def test_other_collectives_have_none():
    assert bound_of(parse_topology("mesh:2x2"), collective("allgather", 4)) is None


def transfers(text, size):
    topology = parse_topology(text)
    what = collective("allreduce", topology.num_ranks)
    (bound,) = (bound for bound in lower_bounds(topology, what, size) if bound.kind == "partition_latency")
    bound.check(topology, what)
    return topology, what, bound


def test_transfers_that_wait_pay_alpha_twice():
    """A link of complete:8 has 2 · 7/56 of 1 MB at 50 GB/s, 5 us; all but 4 of 14 transfers pay 2 · 0.5 us.

    5 (10/14) / (T - 1) + 5 (4/14) / (T - 0.5) = 1 at T = 5.8669 us; in two steps it takes 5 + 2 · 0.5.
    """
    *_, bound = transfers("complete:8", 10**6)
    time = bound.value * 10**6
    assert abs(5 * Fraction(10, 14) / (time - 1) + 5 * Fraction(4, 14) / (time - Fraction(1, 2)) - 1) < 1e-9
    assert Fraction("5.866") < time < 6


def test_few_bytes_pay_alpha_once():
    """100 kB: 0.5 us of transfers, less than 9 α: more transfers, of which fewer wait, may be faster."""
    *_, bound = transfers("complete:8", 10**5)
    assert bound.value == Fraction(1, 10**6)


def test_a_later_time_is_not_proven():
    topology, what, bound = transfers("torus:4x4", 10**6)
    later = {**bound.certificate, "time": str(bound.value * Fraction(1_000_001, 1_000_000))}
    with pytest.raises(InputError, match="the transfers do not take so long"):
        replace(bound, certificate=later, value=Fraction(later["time"])).check(topology, what)
    topology, what, bound = transfers("complete:8", 10**5)
    later = {**bound.certificate, "time": "2/1000000"}
    with pytest.raises(InputError, match="all transfers may end before 10 α"):
        replace(bound, certificate=later, value=Fraction(later["time"])).check(topology, what)


def most_single(parts, transfers):
    """Return, for each number of transfers after which all parts have data of all, the most single ones.

    All sequences are tried. A transfer is single, of the sender's own data and never passed on, or of all
    data.
    """
    everyone = (1 << parts) - 1
    layer = {(tuple(1 << v for v in range(parts)), (0,) * parts): 0}
    found = {}
    for count in range(1, transfers + 1):
        after = {}
        for (passed, kept), single in layer.items():
            for u, v in permutations(range(parts), 2):
                for state, more in (
                    ((swapped(passed, v, passed[v] | passed[u]), kept), single),
                    ((passed, swapped(kept, v, kept[v] | 1 << u)), single + 1),
                ):
                    after[state] = max(after.get(state, 0), more)
        layer = after
        complete = [
            s for (p, k), s in layer.items() if all(a | b == everyone for a, b in zip(p, k, strict=True))
        ]
        found |= {count: max(complete)} if complete else {}
    return found


def swapped(values, place, value):
    return (*values[:place], value, *values[place + 1 :])


def test_of_the_fewest_transfers_few_are_single():
    """The lemma behind the bound, 9 E + 4 at most of 2(k - 1) + E, on all sequences between three parts."""
    found = most_single(3, 7)
    assert min(found) == 4
    assert all(single <= 9 * (count - 4) + 4 for count, single in found.items())
    assert found[4] < 4


def two_hosts(**able):
    """Two hosts of two ranks on a switch, 19 B/s and 0.1 s a link; from each rank 10 B/s and 2 s outside."""
    ends = [(rank, 4 + rank // 2, 19, Fraction(1, 10)) for rank in range(4)]
    ends += [(rank, 6, 10, Fraction(2)) for rank in range(4)]
    links = [Link(a, b, Fraction(rate), alpha) for x, y, rate, alpha in ends for a, b in ((x, y), (y, x))]
    hosts = [0, 0, 1, 1, 0, 1, -1]
    return Topology.from_links("two hosts", 4, links, num_switches=3, hosts=hosts, **able)


@pytest.mark.parametrize("able", [{}, {"multicast": [4, 5]}, {"multicast": [4, 5], "aggregate": [4, 5]}])
def test_transfers_count_between_the_parts_that_prove_most_with_their_alpha(able):
    """Between hosts two transfers of 1000 B over 40 B/s, and 2 s; between ranks six over 116 B/s, and 0.1 s.

    Without α the ranks prove more where their switches only forward, 51.7 s; with it the hosts do, 52 s.
    """
    where, what = two_hosts(**able), collective("allreduce", 4)
    bounds = {bound.kind: bound for bound in lower_bounds(where, what, 1000)}
    assert bounds["partition"].value == (Fraction(2, 40) if able else Fraction(6, 116))
    assert bounds["partition_latency"].certificate["parts"] == [[0, 1, 4], [2, 3, 5]]
    assert bounds["partition_latency"].value == 1000 * Fraction(2, 40) + 2
    bounds["partition_latency"].check(where, what)
