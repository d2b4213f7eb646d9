"""All-to-all by orbits: columns, the first-order method and their proofs against an LP of another making."""

import csv
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

from models.all_to_all import Demand, lower_bound, upper_bound
from models.all_to_all.averaging import evened, without_cycles
from models.all_to_all.columns import ColumnGeneration
from models.all_to_all.decomposition import decompose
from models.all_to_all.first_order import PrimalDual, _onto_capacity
from models.all_to_all.halpern import iterate
from models.all_to_all.images import Images, just_enough
from models.all_to_all.incidence import Incidence
from models.all_to_all.method import METHOD, McfOptions
from models.all_to_all.orbits import reduce_by
from models.all_to_all.paths import Tree, even_flows, shortest_tree
from models.all_to_all.symmetric import solve_by_orbits
from models.all_to_all.vertex import fewer_paths
from schedules import Problem, collective
from schedules.cost import congestion
from schedules.verify import verify
from topologies import (
    Link,
    Topology,
    circulant,
    complete,
    dgx_a100,
    drop_links,
    gen_kautz,
    hop_distances,
    hypercube,
    mesh,
    mi250,
    parallel_links,
    parse_topology,
    ring,
    torus,
    uniring,
)
from topologies.automorphisms import Group, automorphisms
from topologies.errors import InputError, NoSchedule

REFERENCE = Path(__file__).parents[1] / "data" / "reference"


def random_network(seed, ranks=6, switches=1, extra=8):
    rng = np.random.default_rng(seed)
    nodes = ranks + switches
    pairs = [(i, (i + 1) % nodes) for i in range(nodes)]
    pairs += [tuple(rng.choice(nodes, 2, replace=False).tolist()) for _ in range(extra)]
    links = [Link(a, b, Fraction(int(rng.integers(1, 5)), 2)) for a, b in pairs]
    return Topology.from_links(f"random {seed}", ranks, links, num_switches=switches)


def random_demand(topology, seed):
    amounts = np.random.default_rng(seed).integers(0, 7, (topology.num_ranks,) * 2)
    np.fill_diagonal(amounts, 0)
    return Demand(topology, amounts, 7)


def pairwise_optimum(demand):
    """The least time, by an LP with a commodity for each pair and no aggregation, in doubles."""
    topology = demand.topology
    L, V = topology.num_links, topology.num_nodes
    pairs = [(int(s), int(t)) for s, t in np.argwhere(demand.amounts)]
    band = [float(topology.bandwidth[e]) for e in range(L)]
    balance = np.zeros((len(pairs) * V, len(pairs) * L + 1))
    needed = np.zeros(len(pairs) * V)
    loads = np.zeros((L, len(pairs) * L + 1))
    loads[:, -1] = [-b / max(band) for b in band]
    for k, (s, t) in enumerate(pairs):
        for e in range(L):
            balance[k * V + topology.source[e], k * L + e] -= 1
            balance[k * V + topology.target[e], k * L + e] += 1
            loads[e, k * L + e] = 1
        needed[k * V + t] += float(demand[s, t])
        needed[k * V + s] -= float(demand[s, t])
    cost = np.zeros(len(pairs) * L + 1)
    cost[-1] = 1
    found = linprog(cost, loads, np.zeros(L), balance, needed, method="highs")
    return found.fun / max(band)


SMALL = [
    *(Demand.uniform(random_network(seed)) for seed in range(4)),
    *(random_demand(random_network(seed), seed) for seed in range(4, 8)),
    Demand.uniform(ring(5)),
    Demand.uniform(mesh(2, 3)),
    Demand.uniform(mesh(3, 3, bandwidth=[Fraction(1), Fraction(3)])),
    Demand.uniform(torus(3, 3)),
    random_demand(torus(3, 3), 1),
    Demand.uniform(circulant(9, 1, 2)),
    Demand.uniform(gen_kautz(2, 9)),
    Demand.uniform(complete(5)),
    Demand.uniform(uniring(6)),
    Demand.uniform(parallel_links(ring(4), 2)),
    Demand.uniform(drop_links(torus(3, 3), [(0, 1)])),
    Demand.uniform(dgx_a100(1)),
]


def name_of(demand):
    return f"{demand.topology.name}-{demand.denominator}"


@pytest.mark.parametrize("demand", SMALL, ids=name_of)
def test_both_methods_find_the_optimum_of_the_pairwise_lp(demand):
    expected = pairwise_optimum(demand)
    for by, tolerance in (("columns", 1e-9), ("first_order", 1e-5)):
        solved = solve_by_orbits(demand, tolerance, 300, by=by)
        assert float(solved.interval.lower) <= expected * (1 + 1e-7)
        assert float(solved.interval.upper) >= expected * (1 - 1e-7)
        assert solved.interval.gap <= tolerance


@pytest.mark.parametrize("demand", SMALL, ids=name_of)
@pytest.mark.parametrize("by", ["columns", "first_order"])
def test_lengths_prove_the_lower_bound_on_the_whole_network(demand, by):
    solved = solve_by_orbits(demand, 1e-3, 20, by=by)
    assert lower_bound(demand.topology, demand, solved.lengths) == solved.interval.lower


@pytest.mark.parametrize("demand", SMALL, ids=name_of)
def test_images_of_the_paths_of_representatives_take_the_upper_bound(demand):
    """The time of the images is taken from their paths, link by link; `congestion` knows it by orbits."""
    problem = reduce_by(automorphisms(demand.topology).preserving(demand.amounts).limited(4096), demand)
    columns = ColumnGeneration(problem)
    interval = columns.run()
    assert problem.upper_bound(columns.flow()) == interval.upper
    images = Images.of(problem)
    paths = decompose(without_cycles(evened(problem, columns.flow())))
    assert images.congestion(paths) == interval.upper
    assert upper_bound(images.of_all(paths)) == interval.upper
    fewer = fewer_paths(images, paths, exact=True)
    fewer.check()
    assert upper_bound(images.of_all(fewer)) == images.congestion(fewer) <= interval.upper
    pairs = np.count_nonzero(demand.amounts[problem.sources])
    assert len(fewer) <= min(len(paths), pairs + len(images.capacity))


@pytest.mark.parametrize("text", ["torus:4x4", "torus:6x6", "hypercube:4", "circulant:16,3,4"])
def test_a_symmetric_network_needs_one_path_a_pair(text):
    """Hops are integers and all links alike, so that whole paths may do; here they do."""
    problem = Problem(parse_topology(text), collective("all-to-all", parse_topology(text).num_ranks))
    schedule = METHOD.synthesize(problem, McfOptions(by="orbits"), np.random.default_rng(0))
    verify(schedule)
    assert schedule.stats["lower"] == schedule.stats["upper"] == congestion(schedule)
    ranks = problem.topology.num_ranks
    assert len(schedule) == ranks * (ranks - 1)


def test_a_group_just_large_enough_has_the_orbits_of_the_whole():
    for topology in (torus(4, 4), hypercube(4), gen_kautz(3, 20), mi250(2)):
        whole = automorphisms(topology)
        part = just_enough(whole)
        assert np.array_equal(part.node_orbits, whole.node_orbits)
        assert len(part.nodes) <= len(whole.nodes)
    assert len(just_enough(automorphisms(torus(4, 4))).elements(4096)[0]) == 16


@pytest.mark.parametrize("demand", SMALL[:6], ids=name_of)
def test_the_first_order_flow_takes_the_upper_bound(demand):
    problem = reduce_by(Group(demand.topology, *_no_generators(demand.topology)), demand)
    state = PrimalDual(problem)
    interval = state.run(1e-4, 300)
    assert upper_bound(state.flow) == interval.upper


def _no_generators(topology):
    return np.empty((0, topology.num_nodes), np.int32), np.empty((0, topology.num_links), np.int32)


@pytest.mark.parametrize("topology", [torus(4, 4), hypercube(3), gen_kautz(3, 20), mesh(3, 3), mi250(1)])
def test_symmetry_does_not_change_the_optimum(topology):
    demand = Demand.uniform(topology)
    with_group = ColumnGeneration(reduce_by(automorphisms(topology), demand)).run()
    without = ColumnGeneration(reduce_by(Group(topology, *_no_generators(topology)), demand)).run()
    assert with_group.lower <= without.upper
    assert without.lower <= with_group.upper
    assert with_group.gap <= 1e-9
    assert without.gap <= 1e-9


@pytest.mark.parametrize("side", [3, 4, 5, 8])
def test_tori_attain_the_distance_bound_at_once(side):
    """Each dimension's links carry N sums of ring distances, evenly."""
    solved = solve_by_orbits(Demand.uniform(torus(side, side, bandwidth=1)))
    ring_distances = sum(min(i, side - i) for i in range(side))
    assert solved.interval.exact
    assert solved.interval.upper == Fraction(2 * side * ring_distances, 4 * side * side)
    assert solved.stats["rounds"] == 1


def test_a_network_cut_in_two_takes_the_cut():
    """Two triangles joined by one link each way: 9 of N² = 36 parts cross it."""
    pairs = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (0, 3)]
    links = [Link(a, b, Fraction(1)) for pair in pairs for a, b in (pair, pair[::-1])]
    solved = solve_by_orbits(Demand.uniform(Topology.from_links("bridge", 6, links)))
    assert solved.interval.exact
    assert solved.interval.upper == Fraction(9, 6)


def test_no_time_gives_no_bounds():
    problem = reduce_by(automorphisms(mesh(3, 3)), Demand.uniform(mesh(3, 3)))
    with pytest.raises(NoSchedule, match="time"):
        ColumnGeneration(problem, time_limit=0).run()
    with pytest.raises(NoSchedule, match="no time"):
        PrimalDual(problem).run(1e-4, 0)


@pytest.mark.parametrize("seed", range(3))
def test_shortest_trees_are_bellman_fords(seed):
    topology = random_network(seed, ranks=9, switches=0, extra=20)
    lengths = np.random.default_rng(seed).integers(0, 6, topology.num_links)
    V = topology.num_nodes
    distance, parent, order = np.empty(V, np.int64), np.empty(V, np.int32), np.empty(V, np.int32)
    for source in range(V):
        reached = shortest_tree(Incidence.of(topology), lengths, source, Tree(distance, parent, order))
        expected = [0 if v == source else 10**9 for v in range(V)]
        for _ in range(V):
            for e, (u, v) in enumerate(zip(topology.source, topology.target, strict=True)):
                expected[v] = min(expected[v], expected[u] + lengths[e])
        assert distance.tolist() == expected
        assert reached == V
        place = {int(v): i for i, v in enumerate(order)}
        for v in range(V):
            if v != source:
                tail = int(topology.source[parent[v]])
                assert place[tail] < place[v]
                assert expected[tail] + lengths[parent[v]] == expected[v]


def test_even_flows_split_over_all_shortest_paths():
    """On a 4-ring the opposite rank is reached both ways: half each, besides what neighbours get."""
    topology = ring(4)
    demand = np.array([[0.0, 1, 1, 1]])
    flows, distances = even_flows(topology, np.array([0]), demand, np.ones(8))
    by_ends = {
        (int(a), int(b)): x for a, b, x in zip(topology.source, topology.target, flows[0], strict=True)
    }
    assert distances.tolist() == [[0, 1, 2, 1]]
    assert by_ends[0, 1] == by_ends[0, 3] == 1.5
    assert by_ends[1, 2] == by_ends[3, 2] == 0.5
    assert sum(by_ends.values()) == 4


@pytest.mark.parametrize("seed", range(5))
def test_projection_is_the_nearest_point_on_the_simplex(seed):
    rng = np.random.default_rng(seed)
    values, steps, capacity = rng.normal(size=12), rng.uniform(0.5, 2, 12), rng.uniform(0.5, 2, 12)
    nearest = _onto_capacity(values, steps, capacity, 5.0)
    assert nearest.min() >= 0
    assert nearest @ capacity == pytest.approx(5.0)
    gradient = (nearest - values) / (steps * capacity)  # equal to -μ where positive, at least -μ where 0
    inside = nearest > 0
    assert np.ptp(gradient[inside]) == pytest.approx(0, abs=1e-9)
    assert (gradient[~inside] >= gradient[inside][0] - 1e-9).all()


def test_an_iteration_is_that_of_plain_matrices():
    """One Halpern step written with the dense incidence matrix."""
    topology, rng = random_network(3, ranks=5, switches=0), np.random.default_rng(0)
    V, L = topology.num_nodes, topology.num_links
    A = np.zeros((V, L))
    A[topology.source, np.arange(L)] -= 1
    A[topology.target, np.arange(L)] += 1
    y, y0 = rng.uniform(size=(2, 2, L))
    p, p0 = rng.normal(size=(2, 2, V))
    lengths, demand, weights = rng.uniform(size=L), rng.uniform(size=(2, V)), np.array([1.0, 3.0])
    sources, step, node_steps, share = np.array([0, 2]), 0.3, rng.uniform(0.1, 0.2, V), 0.6
    forward = np.maximum(y - step * (lengths - p @ A), 0)
    gain = demand - (2 * forward - y) @ A.T
    gain[[0, 1], sources] = 0
    ahead = p + node_steps * gain
    loads, flows, potentials = np.empty(L), y.copy(), p.copy()
    moves = iterate(
        (topology.source, topology.target, np.arange(L, dtype=np.int32)),
        (sources, weights, demand),
        ((flows, y0), (potentials, p0), lengths),
        (step, node_steps, share),
        loads,
    )
    assert np.allclose(flows, share * (2 * forward - y) + (1 - share) * y0)
    assert np.allclose(potentials, share * (2 * ahead - p) + (1 - share) * p0)
    assert np.allclose(loads, weights @ (2 * forward - y))
    assert moves[0] == pytest.approx(weights @ ((forward - y) ** 2).sum(axis=1))
    assert moves[1] == pytest.approx(weights @ (node_steps * gain**2).sum(axis=1))


def rows(name):
    """The rows of a table of the dissertation whose network can be built from its text."""
    with (REFERENCE / name).open() as file:
        for row in csv.DictReader(file):
            row["topology"] = row["topology"].replace(";", ",").replace("32x32 torus", "torus:32x32")
            try:
                yield parse_topology(row["topology"]), row
            except InputError:
                continue


def digits(value):
    """Three significant digits, as Table A.1 prints them."""
    return f"{float(value):.2e}".replace("e-0", "e-")


TABLE_A1 = [(t, row["mcf"]) for t, row in rows("table_A1_pareto_d4.csv") if row["n"] != "1024"]


def test_the_table_has_the_networks_of_the_notation():
    assert {t.name for t, _ in TABLE_A1} >= {"L(K_{4,4})", "Pi_{4,64}", "DBJ(4,4)", "L^3(K_{4,4})"}


@pytest.mark.parametrize(("topology", "printed"), TABLE_A1, ids=lambda value: getattr(value, "name", value))
def test_the_mcf_of_table_a1_is_printed_so(topology, printed):
    """f in LP (A.1) is for links of 1 and a demand of 1 a pair: 1 over N, link bandwidth and time."""
    solved = solve_by_orbits(Demand.uniform(topology), 1e-4)
    assert solved.interval.gap <= 1e-4
    for time in (solved.interval.lower, solved.interval.upper):
        assert digits(1 / (time * topology.num_ranks * topology.bandwidth[0])) == printed


def test_all_to_all_times_of_table_3_4_where_symmetric():
    """1 MiB (2^20 B) a rank, 100 Gb/s over 4 links: 3.125e9 B/s each; to the printed 0.1 us."""
    wanted = {"(UniRing(1,4) x UniRing(1,8))^2", "torus:32x32"}
    found = set()
    for topology, row in rows("table_3_4_n1024_d4.csv"):
        if topology.name in wanted:
            found.add(topology.name)
            solved = solve_by_orbits(Demand.uniform(topology))
            assert solved.interval.exact
            seconds = solved.interval.upper * topology.bandwidth[0] * 2**20 / Fraction(3_125_000_000)
            assert f"{float(seconds * 10**6):.1f}" == row["all_to_all_us"]
    assert found == wanted


def test_a_printed_value_is_beyond_its_distance_bound():
    """Table A.1 has 8.12e-4 for L^3(C(16,{3,4})); unit lengths already prove f ≤ 8.095e-4."""
    topology = parse_topology("L^3(C(16,{3,4}))")
    demand = Demand.uniform(topology)
    least = lower_bound(topology, demand, np.ones(topology.num_links, np.int64))
    most_f = 1 / (least * topology.num_ranks * topology.bandwidth[0])
    assert most_f == Fraction(topology.num_links, int(hop_distances(topology).sum()))
    assert digits(most_f) == "8.09e-4"
    assert most_f < Fraction("8.115e-4")


@pytest.mark.parametrize(
    ("topology", "size"), [(torus(4, 4), 16), (gen_kautz(2, 8), 8), (parse_topology("DBJ(4,2)"), 16)]
)
def test_the_method_by_orbits_delivers_a_schedule_as_good_as_the_lps(topology, size):
    problem = Problem(topology, collective("all-to-all", size))
    loads = {}
    for by in ("orbits", "lp"):
        schedule = METHOD.synthesize(problem, McfOptions(by=by), np.random.default_rng(0))
        verify(schedule)
        loads[by] = congestion(schedule)
    assert loads["orbits"] <= loads["lp"] * (1 + Fraction(1, 10**4))


def test_an_unknown_way_is_refused():
    with pytest.raises(InputError, match="'orbit'"):
        McfOptions(by="orbit")


def test_a_part_of_a_group_is_listed():
    group = automorphisms(hypercube(4))
    assert group.elements(100) is None
    part = group.limited(100)
    nodes, _ = part.elements(100)
    assert len(nodes) == len({tuple(row) for row in nodes.tolist()}) <= 100
    assert part.is_vertex_transitive
    everything, _ = automorphisms(torus(3, 3)).elements(10**4)
    assert len(everything) == 72  # 9 translations, times the 8 symmetries of a square
