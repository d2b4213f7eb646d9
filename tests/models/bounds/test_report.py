"""Lower bounds: against all cuts and paths of tiny networks, by hand, and from their certificates."""

import json
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from pkgutil import resolve_name

import networkx as nx
import numpy as np
import pytest

from tests.models.networks import times_of
from tests.sweep import for_each
from tutti.models.bounds import Bound, BoundError, best_bound, bound_document, lower_bounds
from tutti.models.bounds.bandwidth import cut_bound
from tutti.models.bounds.report import ELSEWHERE
from tutti.models.bounds.traffic import Traffic
from tutti.schedules import KINDS, Kind, Problem, collective
from tutti.topologies import InputError, Link, Topology
from tutti.topologies.text import parse_topology

SIZE = Fraction(1000)
WITH_SHARDS = [kind for kind in KINDS if kind not in (Kind.BROADCAST, Kind.REDUCE)]


def random_network(seed, ranks=None):
    """Random networks of up to 6 ranks and 2 switches, links over one cycle, bandwidths and α's fractions."""
    rng = np.random.default_rng(seed)
    ranks = ranks or int(rng.integers(2, 7))
    switches = int(rng.integers(0, 3))
    nodes = ranks + switches
    cycle = rng.permutation(nodes)
    ends = [*zip(cycle, np.roll(cycle, -1), strict=True), *rng.integers(0, nodes, (8, 2))]
    links = [
        Link(int(a), int(b), Fraction(int(rng.integers(1, 9)), 2), Fraction(int(rng.integers(0, 7)), 3))
        for a, b in ends
        if a != b
    ]
    return Topology.from_links(f"random {seed}", ranks, links, num_switches=switches)


def two_way(pairs, **numbers):
    return [Link(a, b, **numbers) for x, y in pairs for a, b in ((x, y), (y, x))]


def must_leave(kind, members, shards, root, inside):
    """The share of M that leaves a set of ranks, from what each collective means."""
    here = {rank for rank in members if inside[rank]}
    away = set(members) - here
    share = dict(zip(members, shards, strict=True))
    kept, sent = sum(share[r] for r in here), sum(share[r] for r in away)
    both, from_root = bool(here and away), root is not None and members[root] in here
    return {
        Kind.ALLGATHER: kept if away else 0,
        Kind.REDUCE_SCATTER: sent if here else 0,
        Kind.ALLREDUCE: int(both),
        Kind.BROADCAST: int(both and from_root),
        Kind.REDUCE: int(both and not from_root),
        Kind.GATHER: 0 if from_root else kept,
        Kind.SCATTER: sent if from_root else 0,
        Kind.ALL_TO_ALL: len(here) * sent,
    }[kind]


def worst_cut(topology, leaves, cuts):
    links = [topology.link(i) for i in range(topology.num_links)]
    best = Fraction(0)
    for inside in cuts:
        share = leaves(inside)
        if share:
            best = max(
                best, share / sum(k.bandwidth for k in links if inside[k.source] and not inside[k.target])
            )
    return best


def shares_of(seed, ranks):
    weights = np.random.default_rng(seed).integers(0, 5, ranks)
    weights[0] += 1
    return [Fraction(int(w), int(weights.sum())) for w in weights]


def random_collective(kind, ranks, seed, uneven):
    shards = shares_of(seed, ranks) if uneven else None
    return collective(kind, ranks, root=seed % ranks if kind.rooted else None, shards=shards)


def by_kind(bounds):
    return {bound.kind: bound for bound in bounds}


def all_cuts(topology):
    return product((False, True), repeat=topology.num_nodes)


def node_cuts(topology):
    for rank in range(topology.num_ranks):
        alone = [node == rank for node in range(topology.num_nodes)]
        yield from (alone, [not there for there in alone])


CASES = [(kind, uneven) for kind in KINDS for uneven in (False, True) if not uneven or kind in WITH_SHARDS]


@for_each(("kind", "uneven"), CASES)
def test_cut_and_degree_are_the_worst_of_all_cuts_and_of_those_around_a_rank(kind, uneven):
    for seed in range(8):
        topology = random_network(seed)
        ranks = topology.num_ranks
        what = random_collective(kind, ranks, seed, uneven)
        shards = shares_of(seed, ranks) if uneven else [Fraction(1, ranks)] * ranks

        def leaves(inside, what=what, shards=shards):
            return must_leave(what.kind, what.members[0], shards, what.root, inside)

        found = by_kind(lower_bounds(topology, what))
        assert found["degree"].value == worst_cut(topology, leaves, node_cuts(topology))
        assert found["cut"].value == worst_cut(topology, leaves, all_cuts(topology))
        assert found["cut"].certificate["maximum"] is True


def test_in_larger_networks_the_cut_of_an_all_to_all_may_not_be_the_worst():
    torus = parse_topology("torus:4x4")
    for kind, maximum in (("all-to-all", False), ("allgather", True)):
        found = by_kind(lower_bounds(torus, collective(kind, 16)))["cut"]
        assert found.certificate["maximum"] is maximum


@pytest.mark.parametrize("kind", KINDS)
def test_groups_count_together_over_a_cut(kind):
    groups = [[0, 4], [5, 1, 3]]
    for seed in range(8):
        topology = random_network(seed, ranks=6)
        root = 1 if kind.rooted else None
        what = collective(kind, 6, root=root, groups=groups)

        def leaves(inside, kind=kind, root=root):
            return sum(must_leave(kind, g, [Fraction(1, len(g))] * len(g), root, inside) for g in groups)

        found = by_kind(lower_bounds(topology, what))
        assert found["degree"].value == worst_cut(topology, leaves, node_cuts(topology))
        assert found["degree"].value <= found["cut"].value <= worst_cut(topology, leaves, all_cuts(topology))
        for group in groups:
            alone = lower_bounds(topology, collective(kind, 6, root=root, groups=[group]))[0]
            if kind is not Kind.ALL_TO_ALL:
                assert found["cut"].value >= alone.value


def all_distances(topology):
    graph = nx.DiGraph()
    for link in map(topology.link, range(topology.num_links)):
        old = graph.get_edge_data(link.source, link.target, {"alpha": link.alpha})["alpha"]
        graph.add_edge(link.source, link.target, alpha=min(old, link.alpha))
    return dict(nx.all_pairs_dijkstra_path_length(graph, weight="alpha"))


@pytest.fixture
def without_messages(monkeypatch):
    """The bound that takes longest, where others are looked at."""
    monkeypatch.setattr("tutti.models.bounds.report.message_count_bound", lambda *_, **__: None)


@pytest.mark.usefixtures("without_messages")
@pytest.mark.parametrize("kind", [Kind.ALLGATHER, Kind.REDUCE_SCATTER, Kind.ALLREDUCE, Kind.ALL_TO_ALL])
def test_distance_is_between_the_farthest_ranks(kind):
    for seed in range(8):
        topology = random_network(seed)
        ranks = range(topology.num_ranks)
        far = all_distances(topology)
        found = by_kind(lower_bounds(topology, collective(kind, len(ranks)), SIZE))["distance"]
        assert found.value == max(far[a][b] for a in ranks for b in ranks)
        path = found.certificate["path"]
        assert found.value == sum(
            min(k.alpha for k in map(topology.link, range(topology.num_links)) if (k.source, k.target) == hop)
            for hop in pairwise(path)
        )


@pytest.mark.usefixtures("without_messages")
@pytest.mark.parametrize(("kind", "forward"), [("broadcast", True), ("scatter", True), ("reduce", False)])
def test_distance_of_a_rooted_collective_starts_or_ends_at_the_root(kind, forward):
    for seed in range(8):
        topology = random_network(seed)
        far = all_distances(topology)
        found = by_kind(lower_bounds(topology, collective(kind, topology.num_ranks, root=1), SIZE))
        ways = [far[1][v] if forward else far[v][1] for v in range(topology.num_ranks)]
        assert found["distance"].value == max(ways)


def paced(topology, size, arrivals):
    """max over v and h of h + bytes from h or farther over v's bandwidth; `arrivals`: v -> [(h, share)]."""
    return max(
        h + size * sum(share for other, share in items if other >= h) / bandwidth
        for v, bandwidth in arrivals
        for items in [arrivals[v, bandwidth]]
        for h, _ in items
    )


def ingress(topology, v, *, out=False):
    links = map(topology.link, range(topology.num_links))
    return sum(k.bandwidth for k in links if (k.source if out else k.target) == v)


@pytest.mark.usefixtures("without_messages")
@pytest.mark.parametrize("size", [Fraction(1, 100), Fraction(3), Fraction(500)])
def test_combined_of_an_allgather_paces_what_each_rank_receives_and_sends(size):
    """The bound is the design's formula, or more if a whole cut is slower; only two others may be larger."""
    for seed in range(8):
        topology = random_network(seed)
        n, far = topology.num_ranks, all_distances(topology)
        share = Fraction(1, n)
        receive = {
            (v, ingress(topology, v)): [(far[u][v], share) for u in range(n) if u != v] for v in range(n)
        }
        send = {
            (v, ingress(topology, v, out=True)): [(max(far[v][u] for u in range(n)), share)] for v in range(n)
        }
        nodes = max(paced(topology, size, receive), paced(topology, size, send))
        bounds = by_kind(lower_bounds(topology, collective("allgather", n), size))
        found, beside = bounds["combined"], ("first_hop", "cut_gossip")
        if "ranks" in found.certificate:
            assert found.value > nodes
        else:
            assert found.value == nodes
        others = [bound.time(size) for kind, bound in bounds.items() if kind not in beside]
        assert found.value >= max(others)


def turned(topology):
    links = [topology.link(i) for i in range(topology.num_links)]
    back = [replace(k, source=k.target, target=k.source) for k in links]
    return Topology.from_links("turned", topology.num_ranks, back, num_switches=topology.num_switches)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not Kind.ALL_TO_ALL])
def test_bounds_of_a_collective_are_those_of_its_reverse_on_the_transpose(kind):
    """Theorem 1: a schedule run backwards takes as long.

    The combined bound takes one of several worst cuts; `unicast_price` rounds the two distances differently.
    """
    for seed in range(6):
        topology = random_network(seed)
        what = random_collective(kind, topology.num_ranks, seed, uneven=kind in WITH_SHARDS)
        bounds = by_kind(lower_bounds(topology, what, SIZE))
        other = by_kind(lower_bounds(turned(topology), what.reverse, SIZE))
        assert bounds.keys() - {"unicast_price"} == other.keys() - {"unicast_price"}
        for name in bounds.keys() - {"combined", "unicast_price"}:
            assert bounds[name].value == other[name].value


@pytest.mark.parametrize("kind", KINDS)
@for_each("groups", [None, [[0, 3], [5, 1, 2]]])
def test_every_certificate_proves_its_bound(kind, groups):
    for seed in range(5):
        topology = random_network(seed, ranks=6)
        what = collective(kind, 6, groups=groups)
        for size in (Fraction(1, 7), SIZE):
            for bound in lower_bounds(topology, what, size):
                bound.check(topology, what)
                json.dumps(dict(bound.certificate))


@pytest.mark.parametrize("kind", ["cut", "degree", "partition", "distance", "combined", "broadcast_growth"])
def test_a_bound_above_its_certificate_is_refused(kind):
    topology, what = parse_topology("dgx_a100:2"), collective("allreduce", 16)
    bound = by_kind(lower_bounds(topology, what, SIZE))[kind]
    raised = replace(bound, value=bound.value * Fraction(1001, 1000))
    with pytest.raises(BoundError, match=f"{kind} bound: the certificate proves"):
        raised.check(topology, what)


def test_certificates_that_are_none_are_refused():
    ring, gather = parse_topology("ring:4"), collective("allgather", 4)
    with pytest.raises(InputError, match="unknown kind of bound 'guess'; allowed: cut, degree"):
        Bound("guess", Fraction(1), "s", {}).check(ring, gather)
    with pytest.raises(InputError, match=r"chains bound: no longer checked, since version 0\.2$"):
        Bound("chains", Fraction(1), "s", {}).check(ring, gather)
    with pytest.raises(InputError, match="partition bound: it holds for allreduce, not for allgather"):
        Bound("partition", Fraction(1), "s/B", {"parts": [[0], [1], [2], [3]]}).check(ring, gather)
    overlapping = {"parts": [[0, 1], [1, 2, 3]], "direction": "out"}
    with pytest.raises(InputError, match="parts must be disjoint and hold all ranks and all able switches"):
        Bound("partition", Fraction(1), "s/B", overlapping).check(ring, collective("allreduce", 4))
    with pytest.raises(InputError, match="distance bound: no item of broadcast goes from 1 to 0"):
        Bound("distance", Fraction(1), "s", {"from": 1, "to": 0}).check(ring, collective("broadcast", 4))
    far = {"node": 0, "direction": "in", "h": 1, "size_bytes": 1}
    with pytest.raises(InputError, match="combined bound: no item of allgather crosses at a distance of 1 s"):
        Bound("combined", Fraction(2), "s", far).check(ring, gather)
    wrong_side = {**far, "ranks": [0, 1], "switches": [], "h": 0}
    with pytest.raises(InputError, match="combined bound: node 0 is on the wrong side of its cut"):
        Bound("combined", Fraction(2), "s", wrong_side).check(ring, gather)


@pytest.fixture
def ring():
    """Four ranks, 1 B/s each way between neighbours, α 1 s."""
    pairs = [(0, 1), (1, 2), (2, 3), (3, 0)]
    return Topology.from_links("ring", 4, two_way(pairs, bandwidth=Fraction(1), alpha=Fraction(1)))


def test_a_ring_by_hand(ring):
    """Allgather of 8 bytes: 6 enter each rank at 2 B/s; 6 of them at 1 s or later, 2 of them at 2 s.

    And some link brings 3 of them, not all from its neighbour: one message more, or one that waits, 1 s.
    """
    found = {b.kind: b.time(8) for b in lower_bounds(ring, collective("allgather", 4), 8)}
    assert found == {"cut": 3, "degree": 3, "distance": 2, "combined": 4, "first_hop": 5}


def test_a_ring_of_long_links_by_hand(ring):
    """Allgather of 2 bytes: 1.5 bytes at 2 B/s from 1 s on, or half a byte from 2 s on: 2.25 s."""
    found = by_kind(lower_bounds(ring, collective("allgather", 4), 2))["combined"]
    assert found.value == Fraction(9, 4)
    assert {key: found.certificate[key] for key in ("h", "share", "bandwidth")} == {
        "h": 2,
        "share": "1/4",
        "bandwidth": 2,
    }


def test_allreduce_counts_the_distance_once_and_does_not_double_an_allgather(ring):
    """M in and out of each rank at 2 B/s; 2(N-1) M = 48 transfers over 8 B/s, in messages of 1 s of α."""
    found = {b.kind: b.time(8) for b in lower_bounds(ring, collective("allreduce", 4), 8)}
    assert found == {
        "cut": 4,
        "degree": 4,
        "partition": 6,
        "distance": 2,
        "combined": 6,
        "partition_latency": 7,
    }


def test_a_bottleneck_cut_adds_its_least_alpha(ring):
    """Two pairs over one slow link: 2 of 4 shards cross at 1 B/s, after 3 s of α to the far end."""
    links = [
        *two_way([(0, 1), (2, 3)], bandwidth=Fraction(100), alpha=Fraction(1)),
        *two_way([(1, 2)], bandwidth=Fraction(1), alpha=Fraction(1)),
    ]
    path = Topology.from_links("path", 4, links)
    found = by_kind(lower_bounds(path, collective("allgather", 4), 400))
    assert found["cut"].time(400) == 200
    # From 0 to 3 takes 3 s, but only 0's shard does; both shards reach 3 over at least 2 s.
    assert found["combined"].value == 202
    found["combined"].check(path, collective("allgather", 4))


def star(**able):
    return Topology.from_links("star", 4, two_way([(r, 4) for r in range(4)]), num_switches=1, **able)


def test_the_partition_bound_is_2_n_minus_1_over_all_egress():
    bound = by_kind(lower_bounds(star(), collective("allreduce", 4)))["partition"]
    assert bound.value == Fraction(2 * 3, 4 * 50 * 10**9)
    assert bound.certificate["parts"] == [[0], [1], [2], [3]]


@pytest.mark.parametrize("able", [{"multicast": [4]}, {"aggregate": [4]}])
def test_no_partition_bound_where_a_switch_outside_can_copy_or_add(able):
    assert "partition" not in by_kind(lower_bounds(star(**able), collective("allreduce", 4)))


def test_switches_that_aggregate_within_hosts_leave_the_partition_into_hosts():
    """Three hosts of two ranks and an able switch, 1 B/s from each switch to a plain one."""
    links = two_way([(r, 6 + r // 2) for r in range(6)], bandwidth=Fraction(9))
    links += two_way([(6 + h, 9) for h in range(3)], bandwidth=Fraction(1))
    hosts = [0, 0, 1, 1, 2, 2, 0, 1, 2, -1]
    topology = Topology.from_links(
        "hosts", 6, links, num_switches=4, multicast=[6, 7], aggregate=[8], hosts=hosts
    )
    bound = by_kind(lower_bounds(topology, collective("allreduce", 6)))["partition"]
    assert bound.value == Fraction(2 * 2, 3)
    assert bound.certificate["parts"] == [[0, 1, 6], [2, 3, 7], [4, 5, 8]]
    bound.check(topology, collective("allreduce", 6))


def test_groups_share_the_egress_in_the_partition_bound(ring):
    bound = by_kind(lower_bounds(ring, collective("allreduce", 4, groups=[[0, 2], [1, 3]])))["partition"]
    assert bound.value == Fraction(2 * 1 + 2 * 1, 4)  # between ranks 0, 1 and 2, 3, by two links each way


def test_half_a_torus_bounds_all_to_all():
    """Each 4x2 half sends 8 x 8 of 16ths of M over 2 x 4 links of 50 GB/s."""
    torus = parse_topology("torus:4x4")
    bound = by_kind(lower_bounds(torus, collective("all-to-all", 16)))["cut"]
    assert bound.value == Fraction(4, 8 * 50 * 10**9)
    assert len(bound.certificate["ranks"]) == 8


def test_boxes_bound_all_to_all_of_a_cluster():
    """8 GPUs send 24 of 32 parts of their M each over 8 x 25 GB/s."""
    cluster = parse_topology("dgx_a100:4")
    bound = by_kind(lower_bounds(cluster, collective("all-to-all", 32)))["cut"]
    assert bound.value == Fraction(8 * 24, 32) / (200 * 10**9)


def test_nothing_moves_in_a_gather_of_the_roots_own_data(ring):
    what = collective("gather", 4, shards=[1, 0, 0, 0])
    assert {b.kind: b.value for b in lower_bounds(ring, what, SIZE)} == {"cut": 0, "degree": 0}


def test_bandwidths_too_far_apart_for_a_flow_still_get_a_cut():
    near = [
        *two_way([(0, 1)], bandwidth=Fraction(2**61 - 1)),
        *two_way([(1, 2)], bandwidth=Fraction(2**60 - 3)),
    ]
    topology = Topology.from_links("near", 3, near)
    what = collective("allgather", 3, shards=[31, 17, 11])
    bound = by_kind(lower_bounds(topology, what))["cut"]
    assert (bound.value, bound.certificate["maximum"]) == (Fraction(48, 59) / (2**60 - 3), True)
    bound.check(topology, what)


def test_without_a_size_only_bandwidth_bounds_are_given(ring):
    assert [b.kind for b in lower_bounds(ring, collective("allreduce", 4))] == ["cut", "degree", "partition"]
    assert best_bound(ring, collective("allreduce", 4)).kind == "partition"


def test_the_best_bound_depends_on_the_size(ring):
    what = collective("allreduce", 4)
    assert best_bound(ring, what, 1000).kind == "partition_latency"
    assert best_bound(ring, what, 1).kind == "combined"


def test_a_bound_made_for_one_size_is_not_asked_at_another(ring):
    bound = by_kind(lower_bounds(ring, collective("allgather", 4), 8))["combined"]
    with pytest.raises(InputError, match="combined bound holds for 8 bytes, not for 9; find it again"):
        bound.time(9)


def test_wrong_problems_are_refused(ring):
    with pytest.raises(InputError, match="allgather over 5 ranks on ring, which has 4 ranks"):
        lower_bounds(ring, collective("allgather", 5))
    with pytest.raises(InputError, match="size 0 bytes; it must be positive"):
        lower_bounds(ring, collective("allgather", 4), 0)


def test_the_printed_line_has_the_units_it_says():
    """dgx_a100:2 allgather: 1/x* = 15/325 per GB/s, so M / (16 x*) = 3/1040 s/GB, 346.667 GB/s."""
    topology, what = parse_topology("dgx_a100:2"), collective("allgather", 16)
    line = bound_document(topology, what, 10**9)
    kinds = {bound["kind"]: bound for bound in line["bounds"]}
    cut, combined = kinds["cut"], kinds["combined"]
    assert (cut["exact"], cut["unit"], cut["time_us"]) == ("3/1040", "s/GB", pytest.approx(2884.615384615))
    assert set(cut["certificate"]) >= {"ranks", "switches", "exit_bandwidth"}
    assert (combined["kind"], combined["unit"]) == ("combined", "s")
    assert line["best"] == {"kind": "combined", "time_us": combined["time_us"]}
    assert line["algbw_gbps"] == pytest.approx(1e9 / (combined["time_us"] * 1e-6) / 1e9)
    assert json.loads(json.dumps(line))["size_bytes"] == 10**9
    assert list(line) == ["topology", "collective", "problem", "size_bytes", "bounds", "best", "algbw_gbps"]


def test_the_line_without_a_size_gives_the_limit():
    line = bound_document(parse_topology("dgx_a100:2"), collective("allgather", 16))
    assert (line["size_bytes"], line["best"]) == (None, {"kind": "cut", "time_us": None})
    assert line["algbw_gbps"] == pytest.approx(346.6666666667)


def test_the_kinds_that_are_found_elsewhere_can_be_looked_up():
    for kind, entry in ELSEWHERE.items():
        assert callable(resolve_name(entry)), kind


def test_the_bounds_do_not_import_the_methods_that_find_some_of_them():
    code = (
        "import tutti.models.bounds, sys; print([m for m in sys.modules if m.startswith('tutti.models.all')])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"[]\n"


def test_the_cut_is_the_worst_host_where_others_send_less():
    """The first of 40 hosts sends 1,001 bytes between ranks, all others 1: by 8 adapters of 50 GB/s."""
    amounts = np.ones((320, 320), np.int64) - np.eye(320, dtype=np.int64)
    amounts[:8, 8:] += 1000
    where, what = parse_topology("dgx_h100:40"), collective("all-to-all", 320, matrix=amounts)
    found = cut_bound(where, Traffic.of(what))
    assert found.value * what.own_size == Fraction(8 * 312 * 1001, 400 * 10**9)


DEAD = [[], [(1, 3)], [(3, 1)], [(1, 3), (3, 1)], [(3, 4), (4, 3), (4, 1)], [(1, 3), (3, 4), (4, 3)]]


@for_each(("dead", "able"), [*((dead, []) for dead in DEAD), *((dead, [3]) for dead in DEAD[3:])])
def test_a_switch_that_leads_nowhere_does_not_matter(dead, able):
    """A ring of three in one direction; switches to which no rank leads, or that lead to none, or back."""
    ring, alpha = [(0, 1), (1, 2), (2, 0)], Fraction(1, 10**6)
    links = [Link(a, b, Fraction(10**9), alpha) for a, b in (*ring, *dead)]
    topology = Topology.from_links("dead", 3, links, num_switches=2, multicast=able, aggregate=able)
    alone = Topology.from_links("ring", 3, links[:3])
    for kind in KINDS:
        rooted = kind in {Kind.BROADCAST, Kind.REDUCE, Kind.SCATTER, Kind.GATHER}
        what = collective(kind, 3, **({"root": 0} if rooted else {}))
        schedules = list(
            times_of(("direct", "min_latency", "ring"), Problem(alone, what, Fraction(3000)), 3000, 0)
        )
        assert schedules
        for bound in lower_bounds(topology, what, 3000):
            bound.check(topology, what)
            assert all(float(bound.time(3000)) <= time * (1 + 1e-9) for _, time in schedules)


def random_hosts(seed):
    """Two hosts of some ranks on a switch each, and one switch between all: ranks, links, and the rest."""
    rng = np.random.default_rng(seed)
    hosts, each = 2, int(rng.integers(2, 4))
    ranks, links = hosts * each, []
    for switch in range(hosts + 1):
        inside = range(ranks) if switch == hosts else range(switch * each, (switch + 1) * each)
        speed = Fraction(int(rng.integers(5, 400)) * 10**9), Fraction(int(rng.integers(1, 20)), 20 * 10**6)
        links += [Link(*ends, *speed) for r in inside for ends in ((r, ranks + switch), (ranks + switch, r))]
    own = [rank // each for rank in range(ranks)]
    return ranks, links, {"num_switches": hosts + 1, "hosts": [*own, *range(hosts), -1]}


@for_each(("seed", "kind"), [*product(range(2), ("allreduce", "all-to-all"))])
def test_what_no_schedule_beats_where_switches_add_none_beats_where_they_do_less(seed, kind):
    ranks, links, switches = random_hosts(seed)
    inner = range(ranks, ranks + switches["num_switches"] - 1)
    abilities = ({"multicast": inner, "aggregate": inner}, {"multicast": inner}, {})
    networks = [Topology.from_links("hosts", ranks, links, **switches, **able) for able in abilities]
    for size in (10**3, 16 * 10**6):
        times = [best_bound(network, collective(kind, ranks), size).time(size) for network in networks]
        assert times == sorted(times)
