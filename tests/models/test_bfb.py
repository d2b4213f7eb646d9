"""BFB against brute force, closed forms and the dissertation's tables."""

import csv
import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from models.bfb import METHOD, BfbOptions, workloads
from models.bfb.counting import solve_patterns
from models.bfb.frontiers import distinct_patterns, frontiers
from models.bfb.lp import lp_workloads
from models.bfb.measure import compare
from models.bfb.whole_lp import whole_matrices, whole_model, whole_optimum
from schedules.collective import collective
from schedules.cost import step_cost
from schedules.method import Problem
from schedules.verify import verify
from topologies.errors import InputError, NoSchedule, Unsupported
from topologies.text import parse_topology
from topologies.topology import Link, Topology

REFERENCE = Path(__file__).parents[1] / "data" / "reference"

NAMED = [
    "ring:2",
    "ring:5",
    "ring:6",
    "uniring:4",
    "mesh:3x4",
    "mesh:4x1",
    "torus:3x3",
    "torus:2x5",
    "torus:4x4",
    "hypercube:4",
    "complete:5",
    "complete_bipartite:2",
    "complete_bipartite:3",
    "hamming:2,3",
    "circulant:7,2,3",
    "gen_kautz:2,5",
    "gen_kautz:3,10",
    "torus:3x3?drop_nodes=8",
    "torus:4x4?drop_links=0-1",
    "ring:4?links=2",
]


def random_network(seed: int) -> Topology:
    """A strongly connected digraph with irregular degrees and some parallel links."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 8))
    links = [Link(i, (i + 1) % n) for i in range(n)]
    while len(links) < 3 * n:
        u, v = rng.integers(0, n, 2).tolist()
        if u != v:
            links.append(Link(u, v))
    return Topology.from_links(f"random-{seed}", n, links)


NETWORKS = {name: parse_topology(name) for name in NAMED} | {
    f"random-{seed}": random_network(seed) for seed in range(12)
}
every_network = pytest.mark.parametrize("name", NETWORKS)


def subproblems(topology):
    """Yield (u, t, eligible in-links of each source), from shortest paths found by relaxation."""
    n, links = topology.num_ranks, list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    hops = [[0 if i == j else math.inf for j in range(n)] for i in range(n)]
    for _ in range(n):
        for i, (a, b) in itertools.product(range(n), links):
            hops[i][b] = min(hops[i][b], hops[i][a] + 1)
    for u, t in itertools.product(range(n), range(1, max(map(max, hops)) + 1)):
        into = [(link, a) for link, (a, b) in enumerate(links) if b == u]
        yield (
            u,
            t,
            {v: [link for link, w in into if hops[v][w] == t - 1] for v in range(n) if hops[v][u] == t},
        )


def densest(eligible):
    """The largest (sources whose eligible links all lie in S) / |S|, over all sets S of links."""
    links = sorted({link for choices in eligible.values() for link in choices})
    best = Fraction(0)
    for size in range(1, len(links) + 1):
        for chosen in map(set, itertools.combinations(links, size)):
            best = max(best, Fraction(sum(chosen >= set(c) for c in eligible.values()), size))
    return best


def make(topology, kind="allgather", **options):
    problem = Problem(topology, collective(kind, topology.num_ranks))
    chosen = BfbOptions(**options)
    METHOD.supports(problem, chosen)
    return METHOD.synthesize(problem, chosen, np.random.default_rng(0))


def shard_loads(schedule):
    """Return {(link, step): shards that it carries}."""
    loads, n = {}, schedule.topology.num_ranks
    rows = zip(schedule.route.tolist(), schedule.order.tolist(), schedule.load.tolist(), strict=True)
    for link, step, load in rows:
        loads[link, step] = loads.get((link, step), 0) + Fraction(load * n, schedule.chunks.denominator)
    return loads


@every_network
def test_counting_gives_the_densest_set_of_every_subproblem(name):
    work = workloads(NETWORKS[name])
    for u, t, eligible in subproblems(NETWORKS[name]):
        assert work[u, t] == densest(eligible)


@every_network
@pytest.mark.parametrize("solver", ["highs", "glop"])
def test_the_linear_programs_give_the_same_workloads(name, solver):
    topology = NETWORKS[name]
    counted = workloads(topology)
    solved = lp_workloads(frontiers(topology), solver)
    assert list(solved.of_job) == [counted.values[i] for i in counted.of_job]


@pytest.mark.parametrize(
    "name",
    [*NAMED, "gen_kautz:4,64", "circulant:40,3,7,11", "mesh:5x6", "hypercube:6", "random-3", "random-9"],
)
def test_both_counting_algorithms_agree(name):
    patterns = distinct_patterns(frontiers(NETWORKS.get(name) or parse_topology(name)))
    assert solve_patterns(patterns, "subsets") == solve_patterns(patterns, "newton")


def test_an_unknown_counting_algorithm_is_refused():
    patterns = distinct_patterns(frontiers(NETWORKS["ring:5"]))
    with pytest.raises(InputError, match=r"^unknown counting algorithm 'guess'; allowed: subsets, newton$"):
        solve_patterns(patterns, "guess")


@pytest.mark.parametrize(
    "name",
    [
        "ring:7",
        "ring:8",
        "torus:4x4",
        "torus:3x5",
        "torus:2x3x4",
        "torus:6x7",
        "hypercube:5",
        "complete:9",
        "complete:40",  # 39 in-links: five bytes of eligible links, Newton's method
        "complete_bipartite:4",
        "complete_bipartite:17",
        "hamming:2,4",
        "circulant:16,3,4",
        "circulant:23,2,5",
        "circulant:36,4,5,7",
    ],
)
def test_symmetric_networks_are_bandwidth_optimal(name):
    """T_B = (N - 1) / N: Theorem 13 (products), sections A.6.1, A.6.3 and A.6.4 (the others)."""
    topology = parse_topology(name)
    assert workloads(topology).tb == Fraction(topology.num_ranks - 1, topology.num_ranks)


@pytest.mark.parametrize(("ranks", "exact"), [(64, Fraction(21, 16)), (1024, Fraction(341, 256))])
def test_generalized_kautz_graphs_have_the_printed_costs(ranks, exact):
    """Table A.1, rows Pi_{4,64} and Pi_{4,1024}."""
    topology = parse_topology(f"gen_kautz:4,{ranks}")
    work = workloads(topology)
    with (REFERENCE / "table_A1_pareto_d4.csv").open() as file:
        row = next(row for row in csv.DictReader(file) if row["topology"] == f"Pi_{{4;{ranks}}}")
    assert work.tb == exact
    assert f"{float(work.tb):.3f}" == row["tb_mb"]
    assert work.steps == int(row["tl_alpha"])


def test_the_complete_bipartite_graph_of_figure_3_1():
    """Figure 3.1: K_{2,2} takes two steps and T_B = 3/4, the far shard coming in two halves."""
    schedule = make(NETWORKS["complete_bipartite:2"])
    verify(schedule)
    cost = step_cost(schedule)
    assert (cost.tl_steps, cost.tb) == (2, Fraction(3, 4))
    assert set(schedule.load[schedule.order == 2] / schedule.chunks.denominator) == {1 / 8}


@every_network
@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce"])
def test_the_schedule_is_legal_and_costs_what_it_claims(name, kind):
    topology = NETWORKS[name]
    schedule = make(topology, kind)
    verify(schedule)
    cost = step_cost(schedule)
    assert schedule.claims["tl_steps"] == cost.tl_steps
    assert schedule.claims.get("tb") == cost.tb


@every_network
def test_the_allgather_is_the_optimal_one(name):
    """Theorems 15 and 16: T_L is the diameter, and the busiest link into u carries U in step t."""
    topology = NETWORKS[name]
    loads = shard_loads(make(topology))
    for u, t, eligible in subproblems(topology):
        into = np.flatnonzero(topology.target == u).tolist()
        assert max(loads.get((link, t), 0) for link in into) == densest(eligible)
    assert max(step for _, step in loads) == max(t for _, t, _ in subproblems(topology))


@every_network
def test_every_shard_travels_breadth_first(name):
    """Definition 15: ((v, C), (w, u), t) only if d(v, u) = d(v, w) + 1 = t."""
    topology = NETWORKS[name]
    schedule = make(topology)
    allowed = {(v, link, t) for _, t, e in subproblems(topology) for v, links in e.items() for link in links}
    owner = schedule.chunks.item[schedule.chunk].tolist()
    rows = set(zip(owner, schedule.route.tolist(), schedule.order.tolist(), strict=True))
    assert rows <= allowed


def test_few_shards_are_cut():
    """A torus needs N (N - 1) transfers; a node has fewer cuts in a step than links."""
    topology = parse_topology("torus:6x7")
    least = topology.num_ranks * (topology.num_ranks - 1)
    assert least <= len(make(topology)) <= least + topology.num_ranks * 6 * 3


def compositions(total, parts):
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


def best_whole_chunks(eligible, chunks):
    """The optimum of integer program (A.11), by trying everything."""
    best = math.inf
    choices = [[(c, links) for c in compositions(chunks, len(links))] for links in eligible.values()]
    for choice in itertools.product(*choices):
        load = {}
        for counts, links in choice:
            for count, link in zip(counts, links, strict=True):
                load[link] = load.get(link, 0) + count
        best = min(best, max(load.values()))
    return best


@pytest.mark.parametrize(
    "name", ["ring:4", "mesh:2x3", "complete_bipartite:2", "torus:3x3", "random-0", "random-5"]
)
@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_equal_chunks_are_shared_as_well_as_can_be(name, chunks):
    """Integer program (A.11): its optimum, by brute force, is what the busiest link carries."""
    topology = NETWORKS.get(name) or parse_topology(name)
    loads = shard_loads(make(topology, chunks=chunks))
    for u, t, eligible in subproblems(topology):
        if eligible and math.prod(math.comb(chunks + len(e) - 1, chunks) for e in eligible.values()) < 3000:
            into = np.flatnonzero(topology.target == u).tolist()
            busiest = max(loads.get((link, t), 0) for link in into)
            assert busiest * chunks == best_whole_chunks(eligible, chunks)


@every_network
@pytest.mark.parametrize("chunks", [1, 2, 5])
def test_equal_chunks_are_legal_and_within_theorem_20(name, chunks):
    """Theorem 20: T_B exceeds the fractional optimum by at most d (d^D - 1) / ((d - 1) P N)."""
    topology = NETWORKS[name]
    schedule = make(topology, chunks=chunks)
    verify(schedule)
    assert (schedule.chunks.size == schedule.chunks.size[0]).all()
    assert len(schedule.chunks) == chunks * topology.num_ranks
    work, d = workloads(topology), topology.degree
    if d is None:
        return
    extra = Fraction(sum(d**i for i in range(1, work.steps + 1)), chunks * topology.num_ranks)
    assert work.tb <= step_cost(schedule).tb == schedule.claims["tb"] <= work.tb + extra


def test_chunks_that_fit_cost_nothing():
    """The 4x4 torus cuts in halves and quarters, so four chunks reach the optimum and three do not."""
    topology = NETWORKS["torus:4x4"]
    assert make(topology, chunks=4).claims["tb"] == Fraction(15, 16)
    assert make(topology, chunks=3).claims["tb"] > Fraction(15, 16)


@pytest.mark.parametrize("solver", ["highs", "glop"])
def test_the_schedule_of_an_lp_solver_is_the_same(solver):
    topology = NETWORKS["mesh:3x4"]
    by_counting, by_solver = make(topology), make(topology, solver=solver)
    for column in ("chunk", "route", "order", "count"):
        assert np.array_equal(getattr(by_counting, column), getattr(by_solver, column))


def test_statistics_name_the_solver_and_the_size_of_its_models():
    topology = NETWORKS["torus:3x3"]
    stats = make(topology, solver="highs").stats
    pairs = sum(len(links) for _, _, e in subproblems(topology) for links in e.values())
    jobs = [e for _, _, e in subproblems(topology) if e]
    assert stats["variables"] == pairs + len(jobs)
    assert stats["constraints"] == sum(len(e) + len(set(itertools.chain(*e.values()))) for e in jobs)
    assert stats["solver"].startswith("highs 1.")
    assert stats["build_s"] > 0
    assert stats["solve_s"] > 0
    assert make(topology).stats["solver"] == "counting"


def test_the_same_problem_gives_the_same_schedule():
    one, other = (make(parse_topology("gen_kautz:3,20"), chunks=3) for _ in range(2))
    assert np.array_equal(one.chunk, other.chunk)
    assert np.array_equal(one.route, other.route)


def test_a_node_without_sources_at_some_distance_has_no_workload():
    work = workloads(NETWORKS["mesh:3x4"])
    assert work[0, work.steps] == Fraction(1, 2)  # the far corner's shard comes over both links
    assert work[5, work.steps] == 0


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("mi250:2", "allgather", "bfb needs a switch-free topology; mi250:2 has 1 switch"),
        ("dgx_a100:2", "allgather", "bfb needs a switch-free topology; dgx_a100:2 has 3 switches"),
        ("ring:4", "broadcast", "bfb does allgather, reduce-scatter, allreduce; not broadcast"),
    ],
)
def test_what_bfb_does_not_do_is_said_at_once(name, kind, message):
    topology = parse_topology(name)
    problem = Problem(topology, collective(kind, topology.num_ranks))
    with pytest.raises(Unsupported) as error:
        METHOD.supports(problem, BfbOptions())
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("extra", "shown"),
    [
        ({"shards": [1, 2, 1]}, "allgather(shards=1,2,1)"),
        ({"groups": [[0, 1]]}, "allgather(groups=0,1)"),
    ],
)
def test_groups_and_uneven_shards_are_unsupported(extra, shown):
    problem = Problem(parse_topology("ring:3"), collective("allgather", 3, **extra))
    with pytest.raises(Unsupported) as error:
        METHOD.supports(problem, BfbOptions())
    assert str(error.value) == f"bfb needs all ranks in one collective with equal shards; this is {shown}"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"chunks": 0}, "bfb option chunks is 0; it must be a whole number, at least 1"),
        ({"chunks": 2.5}, "bfb option chunks is 2.5; it must be a whole number, at least 1"),
        ({"chunks": True}, "bfb option chunks is True; it must be a whole number, at least 1"),
        ({"solver": "hihgs"}, "bfb option solver is 'hihgs'; did you mean 'highs'?"),
        ({"solver": "abacus"}, "bfb option solver is 'abacus'; allowed: counting, glop, gurobi, highs"),
    ],
)
def test_an_option_out_of_range_is_named(values, message):
    with pytest.raises(InputError) as error:
        BfbOptions(**values)
    assert str(error.value) == message


@pytest.mark.parametrize("build", [whole_model, whole_matrices, whole_optimum])
@pytest.mark.parametrize(
    ("text", "name"),
    [("mesh:2x3?bandwidth=50GB/s,25GB/s", "bandwidth"), ("mesh:2x3?alpha=1us,2us", "alpha")],
)
def test_the_whole_program_is_for_equal_links(build, text, name):
    with pytest.raises(Unsupported, match=rf"\(3\.1\) needs links of one .* has links of unequal {name}$"):
        build(parse_topology(text))


def test_the_comparison_finds_both_ways_equal():
    result = compare(NETWORKS["torus:3x3"])
    assert result.equal
    assert (result.programs, result.tb) == (18, Fraction(8, 9))
    assert result.ratio == result.lp_s / result.counting_s


@pytest.mark.parametrize("kind", ["allgather", "allreduce"])
def test_networks_of_too_many_pairs_are_refused_before_their_distances_are_found(kind):
    """N = 10^6 would take terabytes."""
    topology = parse_topology("ring:20001")
    problem = Problem(topology, collective(kind, topology.num_ranks))
    with pytest.raises(NoSchedule, match=r"^bfb on .*ring:20001\)?: 20001 nodes; at most 20000$"):
        METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))
