"""The linear programs (3.1) and (A.12) as Pyomo models against the counting."""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pyomo.environ as pyo
import pytest

from tests.models.bfb.networks import NETWORKS, densest, subproblems
from tests.sweep import for_each
from tutti.models.bfb import workloads
from tutti.models.bfb.counting import times
from tutti.models.bfb.frontiers import count_variables, frontiers
from tutti.models.bfb.model import LinkTimes, Programs, agree, bfb_model
from tutti.models.solvers import solve
from tutti.topologies.errors import NoSchedule
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Link, Topology

UNLIKE = {
    text: parse_topology(text)
    for text in ("mesh:2x3?bandwidth=50GB/s,20GB/s&alpha=1us,3us", "torus:3x4?bandwidth=100GB/s,25GB/s")
}
every_network = for_each("name", NETWORKS)


def far_apart(seed):
    """A strongly connected digraph whose links differ by orders of magnitude."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 6))
    ends = [(i, (i + 1) % n) for i in range(n)]
    while len(ends) < 3 * n:
        u, v = rng.integers(0, n, 2).tolist()
        ends += [(u, v)] * (u != v)
    digits, powers = rng.choice([1, 2, 5], (2, len(ends))), rng.integers(0, 5, (2, len(ends)))
    speed, alpha = (digits * 10**powers).tolist()
    links = [
        Link(u, v, Fraction(b * 10**6), Fraction(a, 10**9))
        for (u, v), b, a in zip(ends, speed, alpha, strict=True)
    ]
    return Topology.from_links(f"far-apart-{seed}", n, links)


@every_network
@for_each("solver", ["highs", "glop"])
def test_the_programs_give_the_counted_loads_as_equal_fractions(name, solver):
    topology = NETWORKS[name]
    counted, programs = workloads(topology), Programs(frontiers(topology), solver)
    assert list(programs.loads()) == [counted.values[i] for i in counted.of_job]


@every_network
def test_the_size_of_all_programs_is_known_before_they_are_built(name):
    topology = NETWORKS[name]
    programs = Programs(frontiers(topology))
    programs.loads()
    jobs = [eligible for _, _, eligible in subproblems(topology) if eligible]
    pairs = sum(len(links) for eligible in jobs for links in eligible.values())
    effort = programs.effort
    assert effort.programs == len(jobs)
    assert count_variables(frontiers(topology)) == effort.variables == pairs + len(jobs)
    assert effort.constraints == sum(len(e) + len(set(itertools.chain(*e.values()))) for e in jobs)
    assert effort.solver.startswith("highs 1.")
    assert effort.build_s > 0
    assert effort.solve_s > 0


def brought_by_link(topology):
    """Yield (t, u, shards): the shards that each link into u brings in step t by the programs."""
    for u, t, eligible in subproblems(topology):
        loads = dict.fromkeys(np.flatnonzero(topology.target == u).tolist(), 0)
        if eligible:
            solved = solve(model := bfb_model(eligible))
            for v, w in model.pairs:
                loads[w] += solved.value(model.x[v, w])
        yield from ((t, u, Fraction(load).limit_denominator(1000)) for load in loads.values())


@every_network
def test_a_schedule_is_bw_optimal_if_and_only_if_theorem_17_holds(name):
    """The loads are those of the programs; T_B is the sum over steps of the most that a link brings."""
    topology = NETWORKS[name]
    n, degrees = topology.num_ranks, {*topology.in_degrees.tolist(), *topology.out_degrees.tolist()}
    if len(degrees) > 1:
        return  # the theorem is of d-regular networks
    (d,) = degrees
    farther = Counter((t, u) for u, t, eligible in subproblems(topology) for _ in eligible)
    as_many = all(farther[t, u] == farther[t, 0] for t, u in [*farther])
    loads = list(brought_by_link(topology))
    balanced = all(load == Fraction(farther[t, u], d) for t, u, load in loads)
    most = {t: max(load for step, _, load in loads if step == t) for t, *_ in loads}
    bandwidth_factor = sum(most.values()) * d / n
    assert (bandwidth_factor == Fraction(n - 1, n)) == (as_many and balanced)


def test_a_program_by_hand():
    """Figure 3.1, K_{2,2}: in step 2 the far shard comes over both links, so each brings a half."""
    model = bfb_model({3: [0, 1]})
    rows = {row.name: str(row.expr) for row in model.component_data_objects(pyo.Constraint)}
    assert rows == {
        "shard_arrives_whole[3]": "x[3,0] + x[3,1]  ==  1",
        "done_within_u[0]": "alpha[0] + beta[0]*x[3,0]  <=  U",
        "done_within_u[1]": "alpha[1] + beta[1]*x[3,1]  <=  U",
    }
    assert solve(model).objective == pytest.approx(0.5)


def least_time(eligible, alpha, beta):
    """(A.12) by all sets of links: what can come over them alone must have come when the last one is done.

    A link w brings (U - α_w) / β_w until U, so the links of a set bring the sum of these.
    """
    links = sorted({w for over in eligible.values() for w in over})
    times = [max(alpha[w] for w in links)]
    for size in range(1, len(links) + 1):
        for some in itertools.combinations(links, size):
            shards = sum(set(over) <= set(some) for over in eligible.values())
            times.append((shards + sum(alpha[w] / beta[w] for w in some)) / sum(1 / beta[w] for w in some))
    return max(times)


@every_network
def test_a_program_is_cloned_and_solved_again_with_other_times_of_links(name):
    """As for another size and for other bandwidths; the model that was cloned stays as it is."""
    rng = np.random.default_rng(0)
    jobs = [eligible for *_, eligible in subproblems(NETWORKS[name]) if eligible]
    for eligible in [jobs[0], max(jobs, key=len)]:
        model = bfb_model(eligible)
        before = solve(model).objective
        data = {key: {w: float(rng.integers(1, 9)) / 8 for w in model.links} for key in ("alpha", "beta")}
        again = model.clone()
        for key, values in data.items():
            again.find_component(key).store_values(values)
        found = solve(again).objective
        assert found == pytest.approx(solve(bfb_model(eligible, LinkTimes(**data, unit=1))).objective)
        assert found == pytest.approx(least_time(eligible, **data))
        assert solve(model).objective == before == pytest.approx(float(densest(eligible)))


def test_a_time_limit_ends_between_two_programs():
    with pytest.raises(NoSchedule, match=r"^bfb: 1e-09 s ended after 0 of 32 linear programs$"):
        Programs(frontiers(parse_topology("ring:8")), time_limit=1e-9).loads()


@pytest.mark.parametrize("size", [Fraction(900), Fraction(10**9)], ids=str)
def test_the_programs_between_unlike_links_give_the_exact_times(size):
    """Bandwidths and α that differ by factors of up to 10^5, drawn from seeds."""
    for name, topology in {**UNLIKE, **{f"seed {seed}": far_apart(seed) for seed in range(12)}}.items():
        work = frontiers(topology)
        found, solved = times(work, size), Programs(work).times(size)
        for job, value in enumerate(solved):
            u, t = divmod(job, work.steps)
            assert agree(found[u, t + 1], value), (name, u, t)
