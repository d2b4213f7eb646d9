"""The allreduce LP in the time clock: even optima, and trees with leaves."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from tests.models.allreduce.oracles import random_network
from tests.sweep import for_each
from tutti.models.allreduce import ALLREDUCE_LP as METHOD
from tutti.models.allreduce import AllreduceLpOptions, allreduce_optimum
from tutti.models.allreduce.lp_timed import (
    HIGHER,
    ArcTrees,
    arc_trees,
    can_be_timed,
    leafy,
    levels,
    with_leaves,
)
from tutti.models.allreduce.optimum import balanced_shares
from tutti.models.allreduce.trees import exact_plan, packed_trees
from tutti.models.bounds import lower_bounds
from tutti.schedules import Problem, collective
from tutti.schedules.cost import congestion
from tutti.schedules.schedule import Clock
from tutti.schedules.simulation.simulate import SLICING, SimulationOptions, best_slices, simulate
from tutti.schedules.verify import verify
from tutti.topologies import Link, Topology
from tutti.topologies.text import parse_topology

GB = 10**9


def make(text, size=GB, **options):
    topology = parse_topology(text) if isinstance(text, str) else text
    problem = Problem(topology, collective("allreduce", topology.num_ranks), size and Fraction(size))
    return METHOD.synthesize(problem, AllreduceLpOptions(**options), np.random.default_rng(0))


def gap(text, size=GB):
    """Simulated time over the partition bound, less one, of a schedule that is verified."""
    topology = parse_topology(text)
    schedule = make(text, size)
    verify(schedule)
    bounds = lower_bounds(topology, collective("allreduce", topology.num_ranks))
    bound = next(bound.value for bound in bounds if bound.kind == "partition")
    return float(simulate(schedule, Fraction(size)).time / float(bound * size) - 1)


def one_way(ranks, *steps):
    """A network of directed links from each rank to those some steps on."""
    links = [Link(v, (v + step) % ranks, Fraction(1)) for v in range(ranks) for step in steps]
    return Topology.from_links("one way", ranks, links)


# The whole method


@pytest.mark.parametrize("text", ["ring:4", "circulant:12,2,3", "dgx1", "mesh:3x3", "kautz:2,2"])
def test_large_messages_are_within_one_percent_of_the_partition_bound(text):
    assert 0 <= gap(text) <= 0.01


def test_generalized_kautz_of_64_ranks_is_within_one_percent_of_the_bound():
    """All 252 links are full: 2 * 63 tree edges of 1 GB over 252 links of 50 GB/s take 10 ms."""
    schedule = make("gen_kautz:4,64")
    verify(schedule)
    assert schedule.clock is Clock.TIME
    assert congestion(schedule) * GB == Fraction(2 * 63, 252 * 50)
    assert 10e-3 <= simulate(schedule, Fraction(GB)).time <= 10.1e-3


def test_no_schedule_is_longer_than_the_flow():
    for text in ("mesh:2x3?bandwidth=50GB/s,25GB/s", "debruijn:2,3"):
        for size in (10**5, 10**8):
            flow = make(text, size, timed=False)
            slices = (2**power for power in range(9))
            least = min(simulate(flow, Fraction(size), SimulationOptions(slices=s)).time for s in slices)
            found = make(text, size)
            verify(found)
            if found.clock is Clock.TIME:
                assert simulate(found, Fraction(size)).time <= least
            else:
                np.testing.assert_array_equal(found.chunk, flow.chunk)


@pytest.mark.parametrize("seed", range(8))
def test_random_networks_keep_the_congestion_of_the_optimum(seed):
    plain = random_network(seed)
    links = [plain.link(e) for e in range(plain.num_links)]
    topology = Topology.from_links(
        plain.name,
        plain.num_ranks,
        [Link(ln.source, ln.target, ln.bandwidth * 10**10, Fraction(1, 10**6)) for ln in links],
    )
    schedule = make(topology)
    verify(schedule)
    assert congestion(schedule) == allreduce_optimum(topology).upper


@pytest.mark.parametrize(
    ("size", "options"), [(None, {}), (GB, {"timed": False}), (GB, {"trees": 5}), (GB, {"trees": 2})]
)
def test_flows_where_no_size_is_asked_or_no_places_in_time(size, options):
    assert make("circulant:12,2,3", size, **options).clock is Clock.FLOW


def test_the_schedule_depends_on_the_size_only_where_messages_have_places():
    def depends(text, **options):
        topology = parse_topology(text)
        problem = Problem(topology, collective("allreduce", topology.num_ranks), Fraction(GB))
        return METHOD.size_dependent(problem, AllreduceLpOptions(**options))

    assert depends("ring:4")
    assert not depends("ring:4", timed=False)
    assert not depends("ring:4", trees=3)
    assert not depends("dgx_a100:1")
    assert not can_be_timed(parse_topology("ring:129"))


def test_a_flow_in_slices_takes_as_long_as_a_chain_of_pieces():
    """A link leads from each of two ranks to the other: with s slices s + 1 messages follow each other."""
    links = [Link(0, 1, Fraction(10), Fraction(1)), Link(1, 0, Fraction(10), Fraction(1))]
    flow = make(Topology.from_links("pair", 2, links), 80, timed=False)
    times = [simulate(flow, Fraction(80), SimulationOptions(slices=2**power)).time for power in range(8)]
    assert best_slices(flow, Fraction(80), SLICING.few_hops)[1] == min(times)


# The even optimum


def even_value(topology, ratio):
    """Largest Σm + 4 A z over the optima of (B.5), with a row for every set of ranks: dense."""
    n, links = topology.num_ranks, topology.num_links
    ends = list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    columns = n + 3 * links + 1  # x, c of the broadcast, c of the reduction, m, z
    rows, limits = [], []

    def row(limit, **parts):
        values = np.zeros(columns)
        for name, (place, value) in parts.items():
            start = {"x": 0, "bc": n, "re": n + links, "m": n + 2 * links, "z": n + 3 * links}[name]
            values[start + np.asarray(place)] = value
        rows.append(values)
        limits.append(limit)

    for e in range(links):
        row(float(topology.bandwidth[e]), bc=(e, 1), re=(e, 1))
        row(0, m=(e, 1), bc=(e, -1))
        row(0, m=(e, 1), re=(e, -1))
        row(0, z=(0, ratio[e]), m=(e, -1))
    for number in range(1, 2**n - 1):
        inside = [(number >> v) & 1 for v in range(n)]
        leaving = [float(inside[u] and not inside[v]) for u, v in ends]
        entering = [float(inside[v] and not inside[u]) for u, v in ends]
        row(0, x=(range(n), inside), bc=(range(links), [-value for value in leaving]))
        row(0, x=(range(n), inside), re=(range(links), [-value for value in entering]))
    first = np.zeros(columns)
    first[:n] = -1
    best = linprog(first, np.array(rows), limits, method="highs-ds").fun
    second = np.repeat([0.0, -1.0, -4.0 * links], [n + 2 * links, links, 1])
    return -linprog(second, np.vstack([rows, first]), [*limits, best + 1e-9], method="highs-ds").fun


@for_each("seed", range(10))
def test_capacities_are_as_even_as_a_dense_program_over_all_cuts_allows(seed):
    topology = random_network(seed)
    optimum = allreduce_optimum(topology)
    shares = balanced_shares(optimum, "highs")
    assert shares.theta == 1
    assert shares.rate == optimum.shares.rate
    unit = shares.rate / int(shares.roots.sum())  # B/s of a whole number
    least = [Fraction(int(c)) * unit for c in shares.capacity.min(axis=0)]
    bandwidth = [topology.bandwidth[e] for e in range(topology.num_links)]
    assert all(sum(c) * unit <= b for c, b in zip(shares.capacity.T.tolist(), bandwidth, strict=True))
    ratio = [round(b / min(bandwidth)) for b in bandwidth]
    even = sum(least) + 4 * len(least) * min(m / r for m, r in zip(least, ratio, strict=True))
    assert float(even) == pytest.approx(even_value(topology, ratio), rel=1e-6, abs=1e-6)


# Trees with leaves


def halves(text):
    topology = parse_topology(text)
    optimum = allreduce_optimum(topology)
    up, down = packed_trees(optimum.arcs, exact_plan(balanced_shares(optimum, "highs")))
    return topology, optimum, up, down


def loads(trees, links):
    found = np.zeros(links, dtype=np.int64)
    for via, weight in zip(trees.via.tolist(), trees.weight.tolist(), strict=True):
        for arc in via:
            if arc >= 0:
                found[arc] += weight
    return found


def leaves(trees, ends, links):
    """Each link's weight as a leaf edge, rank by rank."""
    found = np.zeros(links, dtype=np.int64)
    for via, weight in zip(trees.via.tolist(), trees.weight.tolist(), strict=True):
        parents = {int(ends[0][arc]) for arc in via if arc >= 0}
        for rank, arc in enumerate(via):
            if arc >= 0 and rank not in parents:
                found[arc] += weight
    return found


def check_trees(trees, ends):
    """Each row leads from every rank to its root by arcs that end where they should."""
    for root, via in zip(trees.root.tolist(), trees.via.tolist(), strict=True):
        for rank in range(len(via)):
            node, hops = rank, 0
            while via[node] >= 0:
                assert ends[1][via[node]] == node
                node, hops = int(ends[0][via[node]]), hops + 1
                assert hops < len(via)
            assert node == root


@pytest.mark.parametrize("text", ["mesh:3x3", "dgx1", "biring:4,5", "kautz:2,2"])
def test_rows_carry_what_the_trees_carry_and_exchanges_keep_it(text):
    topology, _, up, down = halves(text)
    links = topology.num_links
    ends = (topology.source.astype(np.int64), topology.target.astype(np.int64))
    total = int(down.forest.weight.sum())
    for half in (down, up):
        near, far = half.arcs.tails, half.arcs.heads
        local = (near, far) if half is down else (far, near)
        rows = arc_trees(half, *local, 3, 2)
        assert rows.weight.max() <= 2
        assert rows.weight.sum() == 3 * total
        assert (loads(rows, len(near)) <= 3 * half.arcs.capacity).all()
        check_trees(rows, local)
        wanted = loads(rows, len(near)) // 4
        better = with_leaves(rows, *local, wanted)
        np.testing.assert_array_equal(loads(better, len(near)), loads(rows, len(near)))
        check_trees(better, local)
        missing = [np.maximum(wanted - leaves(t, local, len(near)), 0).sum() for t in (rows, better)]
        assert missing[1] <= missing[0]
        assert levels(better, local[0]).max() <= levels(rows, local[0]).max() + HIGHER
        np.testing.assert_array_equal(better.root, rows.root)
    found = leafy(allreduce_optimum(topology).arcs, up, down, 8)
    for trees, ways in zip(found, (ends[::-1], ends), strict=True):
        check_trees(trees, ways)
        assert loads(trees, links).sum() == (topology.num_ranks - 1) * trees.weight.sum()


def test_every_link_of_a_full_network_is_given_leaves_of_both_halves():
    """Trees of least height use some links of gen_kautz:4,20 near the root alone; exchanges mend that."""
    topology, optimum, up, down = halves("gen_kautz:4,20")
    ends = (topology.source.astype(np.int64), topology.target.astype(np.int64))
    found = leafy(optimum.arcs, up, down, 8)
    for trees, ways in zip(found, (ends[::-1], ends), strict=True):
        assert leaves(trees, ways, topology.num_links).min() > 0


def test_levels_are_hops_from_the_root():
    tails = np.array([0, 1, 2])
    chain = ArcTrees(np.array([0]), np.array([1]), np.array([[-1, 0, 1, 2]]))
    np.testing.assert_array_equal(levels(chain, tails), [[0, 1, 2, 3]])
    assert levels(chain, tails).max() == 3
