"""The BFB schedules against brute force and theorems; how their loads are found; what is refused."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tests.models.bfb.networks import NETWORKS, densest, make, subproblems
from tests.sweep import for_each
from tutti.models.bfb import METHOD, BfbOptions, workloads
from tutti.models.bfb.frontiers import count_variables, frontiers
from tutti.models.bfb.method import MODEL_VARIABLES
from tutti.schedules.collective import collective
from tutti.schedules.cost import step_cost
from tutti.schedules.method import Problem
from tutti.schedules.verify import verify
from tutti.topologies.errors import InputError, NoSchedule, Unsupported
from tutti.topologies.text import parse_topology

every_network = for_each("name", NETWORKS)


def shard_loads(schedule):
    """Return {(link, step): shards that it carries}."""
    loads, n = {}, schedule.topology.num_ranks
    rows = zip(schedule.route.tolist(), schedule.order.tolist(), schedule.load.tolist(), strict=True)
    for link, step, load in rows:
        loads[link, step] = loads.get((link, step), 0) + Fraction(load * n, schedule.chunks.denominator)
    return loads


def same_rows(one, other):
    return all(
        np.array_equal(getattr(one, column), getattr(other, column))
        for column in ("chunk", "route", "order", "count")
    )


@every_network
def test_all_ways_give_the_same_schedule(name):
    counted, solved = (make(NETWORKS[name], by=by) for by in ("counting", "model"))
    assert same_rows(counted, solved)
    assert counted.claims == solved.claims


@pytest.mark.parametrize("kind", ["allgather", "allreduce"])
def test_the_row_says_what_was_solved(kind):
    """A 3x3 torus: at each node four sources with a link each, four with two; two programs, 4 links each."""
    half = 9 * (4 + 8 + 2), 9 * (8 + 8)
    variables, constraints = (count * (2 if kind == "allreduce" else 1) for count in half)
    stats = make(NETWORKS["torus:3x3"], kind).stats
    assert stats["program"] == "linear programs (3.1)"
    assert stats["solver"].startswith("highs 1.")
    assert (stats["variables"], stats["constraints"]) == (variables, constraints)
    assert stats["build_s"] > 0
    assert stats["solve_s"] > 0
    counted = make(NETWORKS["torus:3x3"], kind, by="counting").stats
    assert counted["solver"] == "counting"
    assert not {"program", "variables", "constraints"} & counted.keys()


def test_auto_takes_the_model_up_to_a_size_and_a_solver_names_it():
    small, large = parse_topology("torus:5x5"), parse_topology("torus:6x6")
    assert count_variables(frontiers(small)) <= MODEL_VARIABLES < count_variables(frontiers(large))
    assert make(small).stats["solver"].startswith("highs")
    assert make(large).stats["solver"] == "counting"
    assert make(small, solver="counting").stats["solver"] == "counting"
    assert make(large, solver="glop").stats["solver"].startswith("glop")


def test_a_model_too_large_for_its_time_limit_is_refused_before_it_is_built():
    """The variables by hand: 800 eligible in-links at each of 400 nodes, and a U for each program.

    In a dimension of 20 places a node has 1 in-link towards a source, 0 if the source is at its own place and
    2 if it is opposite: 20 in all. Two dimensions have 20 · 20 + 20 · 20 = 800. There are 400 · 20 programs.
    """
    too_large = r"^bfb by=model on torus:20x20 has 328,?000 variables, .* time limit is 10 s$"
    with pytest.raises(Unsupported, match=too_large):
        make(parse_topology("torus:20x20"), by="model", time_limit=10)
    assert make(parse_topology("torus:20x20"), time_limit=1e-6).stats["solver"] == "counting"


def test_auto_goes_by_counting_where_its_time_is_too_short_for_the_model():
    """1,100 variables take about 0.1 s, and the schedule is the same."""
    network = parse_topology("torus:5x5")
    counted, modelled = make(network, time_limit=0.01), make(network)
    assert counted.stats["solver"] == "counting"
    assert modelled.stats["solver"].startswith("highs")
    assert np.array_equal(counted.route, modelled.route)
    assert np.array_equal(counted.chunks.size, modelled.chunks.size)


def test_auto_goes_by_counting_when_the_time_is_over(monkeypatch):
    def over(self, model):
        raise NoSchedule("the time is over")

    monkeypatch.setattr("tutti.models.bfb.model.Programs._solved", over)
    assert make(parse_topology("torus:3x3"), time_limit=10).stats["solver"] == "counting"
    with pytest.raises(NoSchedule, match="the time is over"):
        make(parse_topology("torus:3x3"), by="model", time_limit=10)


def test_the_complete_bipartite_graph_of_figure_3_1():
    """Figure 3.1: K_{2,2} takes two steps and T_B = 3/4, the far shard coming in two halves."""
    schedule = make(NETWORKS["complete_bipartite:2"])
    verify(schedule)
    cost = step_cost(schedule)
    assert (cost.tl_steps, cost.tb) == (2, Fraction(3, 4))
    assert set(schedule.load[schedule.order == 2] / schedule.chunks.denominator) == {1 / 8}


@every_network
def test_the_schedule_is_legal_and_costs_what_it_claims(name):
    for kind in ("allgather", "reduce-scatter", "allreduce"):
        schedule = make(NETWORKS[name], kind, by="counting")
        verify(schedule)
        cost = step_cost(schedule)
        assert schedule.claims["tl_steps"] == cost.tl_steps, kind
        assert schedule.claims.get("tb") == cost.tb, kind


@every_network
def test_the_allgather_is_the_optimal_one(name):
    """Theorems 15 and 16: T_L is the diameter, and the busiest link into u carries U in step t."""
    topology = NETWORKS[name]
    loads = shard_loads(make(topology, by="counting"))
    for u, t, eligible in subproblems(topology):
        into = np.flatnonzero(topology.target == u).tolist()
        assert max(loads.get((link, t), 0) for link in into) == densest(eligible)
    assert max(step for _, step in loads) == max(t for _, t, _ in subproblems(topology))


@every_network
def test_every_shard_travels_breadth_first(name):
    """Definition 15: ((v, C), (w, u), t) only if d(v, u) = d(v, w) + 1 = t."""
    topology = NETWORKS[name]
    schedule = make(topology, by="counting")
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
@for_each("chunks", [1, 2, 3])
def test_equal_chunks_are_shared_as_well_as_can_be(name, chunks):
    """Integer program (A.11): its optimum, by brute force, is what the busiest link carries."""
    topology = NETWORKS.get(name) or parse_topology(name)
    loads = shard_loads(make(topology, chunks=chunks, by="counting"))
    for u, t, eligible in subproblems(topology):
        if eligible and math.prod(math.comb(chunks + len(e) - 1, chunks) for e in eligible.values()) < 3000:
            into = np.flatnonzero(topology.target == u).tolist()
            busiest = max(loads.get((link, t), 0) for link in into)
            assert busiest * chunks == best_whole_chunks(eligible, chunks)


@every_network
def test_equal_chunks_are_legal_and_within_theorem_20(name):
    """Theorem 20: T_B exceeds the fractional optimum by at most d (d^D - 1) / ((d - 1) P N)."""
    topology = NETWORKS[name]
    work, d = workloads(topology), topology.degree
    for chunks in (1, 2, 5):
        schedule = make(topology, chunks=chunks, by="counting")
        verify(schedule)
        assert (schedule.chunks.size == schedule.chunks.size[0]).all()
        assert len(schedule.chunks) == chunks * topology.num_ranks
        if d is not None:
            extra = Fraction(sum(d**i for i in range(1, work.steps + 1)), chunks * topology.num_ranks)
            assert work.tb <= step_cost(schedule).tb == schedule.claims["tb"] <= work.tb + extra, chunks


def test_chunks_that_fit_cost_nothing():
    """The 4x4 torus cuts in halves and quarters, so four chunks reach the optimum and three do not."""
    topology = NETWORKS["torus:4x4"]
    assert make(topology, chunks=4).claims["tb"] == Fraction(15, 16)
    assert make(topology, chunks=3).claims["tb"] > Fraction(15, 16)


def test_the_same_problem_gives_the_same_schedule():
    one, other = (make(parse_topology("gen_kautz:3,20"), chunks=3) for _ in range(2))
    assert np.array_equal(one.chunk, other.chunk)
    assert np.array_equal(one.route, other.route)


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
        ({"by": "modle"}, "bfb option by is 'modle'; did you mean 'model'?"),
        (
            {"by": "counting", "solver": "highs"},
            "bfb option by is 'counting', but solver 'highs' needs by=model",
        ),
        (
            {"time_limit": 0},
            "bfb option time_limit is 0; it must be a positive number of seconds",
        ),
        ({"solver": "hihgs"}, "bfb option solver is 'hihgs'; did you mean 'highs'?"),
        ({"solver": "abacus"}, "bfb option solver is 'abacus'; allowed: counting, glop, glpk, gurobi, highs"),
    ],
)
def test_an_option_out_of_range_is_named(values, message):
    with pytest.raises(InputError) as error:
        BfbOptions(**values)
    assert str(error.value) == message


@pytest.mark.parametrize("kind", ["allgather", "allreduce"])
def test_networks_of_too_many_pairs_are_refused_before_their_distances_are_found(kind):
    """N = 10^6 would take terabytes."""
    topology = parse_topology("ring:20001")
    problem = Problem(topology, collective(kind, topology.num_ranks))
    with pytest.raises(NoSchedule, match=r"^bfb on .*ring:20001\)?: 20001 nodes; at most 20000$"):
        METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))
