"""Allreduces of few sums: least loads by brute force, legality, loads that symmetries keep, errors."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from tutti.models.allreduce import few_sums
from tutti.models.allreduce.few_sums import METHOD, FewSumsOptions
from tutti.schedules import Problem, collective
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import InputError, NoSchedule, Unsupported
from tutti.topologies.graphs.symmetry import automorphisms
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Link, Topology

SIZE = Fraction(32_000)


def made(network, *, seed=0, shards=None, size=SIZE, **options):
    topology = parse_topology(network)
    what = collective("allreduce", topology.num_ranks, shards=shards)
    problem = Problem(topology, what, size)
    schedule = METHOD.synthesize(
        problem, FewSumsOptions(**{"time_limit": "2s", **options}), np.random.default_rng(seed)
    )
    verify(schedule)
    return schedule


def loads(schedule):
    """The load of each link in each step, in vectors."""
    topology, found = schedule.topology, {}
    count = np.ones(len(schedule), int) if schedule.count is None else schedule.count
    for row in range(len(schedule)):
        span = slice(schedule.chunk[row], schedule.chunk[row] + count[row])
        size = Fraction(int(schedule.chunks.size[span].sum()), schedule.chunks.denominator)
        (link,) = schedule.route_table.lists[schedule.route[row]]
        step = found.setdefault(int(schedule.order[row]), [Fraction(0)] * topology.num_links)
        step[link] += size
    return [found[step] for step in sorted(found)]


def least_load(topology, steps):
    """The least sum over steps of the largest load, of parts of the vector with one sum a rank each.

    All subsets of links in each step, and for all ranks whether they keep what they have; then a program
    that weights them.
    """
    ranks, links = (
        topology.num_ranks,
        list(zip(topology.source.tolist(), topology.target.tolist(), strict=True)),
    )
    orbit = automorphisms(topology).link_orbits.tolist()
    kinds = sorted(set(orbit))
    states = {tuple(1 << rank for rank in range(ranks)): {()}}
    for _ in range(steps):
        after = {}
        for state, before in states.items():
            for used, kept in product(product((0, 1), repeat=len(links)), product((0, 1), repeat=ranks)):
                parts = [[state[rank]] if kept[rank] else [] for rank in range(ranks)]
                for (tail, head), sends in zip(links, used, strict=True):
                    if sends:
                        parts[head].append(state[tail])
                if not all(own and sum(own) == np.bitwise_or.reduce(own) for own in parts):
                    continue
                often = tuple(
                    sum(sends for kind, sends in zip(orbit, used, strict=True) if kind == this)
                    for this in kinds
                )
                key = tuple(int(sum(own)) for own in parts)
                after.setdefault(key, set()).update(each + often for each in before)
        states = after
    found = sorted(states.get((2**ranks - 1,) * ranks, ()))
    if not found:
        return None
    whole = np.tile([orbit.count(kind) for kind in kinds], steps)
    largest = -np.repeat(np.eye(steps), len(kinds), axis=0)
    least = linprog(
        [1] * steps + [0] * len(found),
        A_ub=np.hstack([largest, (np.array(found) / whole).T]),
        b_ub=[0] * len(whole),
        A_eq=[[0] * steps + [1] * len(found)],
        b_eq=[1],
    ).fun
    return Fraction(least).limit_denominator(1000)


@pytest.mark.parametrize(
    ("network", "steps"),
    [("ring:3", 1), ("mesh:3", 2), ("mesh:3", 3), ("uniring:3", 3), ("complete:3", 2)],
)
def test_no_load_is_less(network, steps):
    schedule = made(network, steps=steps)
    assert sum(max(step) for step in loads(schedule)) == least_load(parse_topology(network), steps)


@pytest.mark.parametrize(("network", "steps"), [("uniring:3", 2), ("uniring:4", 3)])
def test_what_takes_several_sums_a_rank_is_not_found(network, steps):
    assert least_load(parse_topology(network), steps) is None
    with pytest.raises(NoSchedule, match=f"cp_allreduce on {network}: found none; give it more steps"):
        made(network, steps=steps)


def test_fewer_steps_than_the_network_is_wide_are_refused():
    assert least_load(parse_topology("mesh:3"), 1) is None
    with pytest.raises(Unsupported, match="cp_allreduce has 1 steps, and mesh:3 needs 2 at least"):
        made("mesh:3", steps=1)


def test_recursive_doubling_is_found():
    """A hypercube of dimension D takes D steps, and each link carries a vector in all (docs/sizes.md)."""
    schedule = made("hypercube:3", steps=3)
    assert sum(max(step) for step in loads(schedule)) == 1
    assert simulate(schedule, SIZE).time == pytest.approx(3 * 0.5e-6 + 32_000 / 50e9)


@pytest.mark.parametrize("network", ["circulant:12,2,3", "mesh:2x3", "gen_kautz:2,5", "ring:3?links=2"])
def test_links_that_symmetries_take_to_each_other_carry_as_much(network):
    schedule = made(network)
    group = automorphisms(schedule.topology)
    for step in loads(schedule):
        for links in group.links:
            assert [step[link] for link in links] == step


@pytest.mark.parametrize(
    ("network", "shards"),
    [
        ("mesh:2x3?bandwidth=50GB/s,25GB/s", None),
        ("mesh:2x3", [3, 0, 1, 1, 2, 5]),
        ("dgx1", None),
        ("mesh:2x3?bandwidth=1TB/s,1B/s", None),
    ],
)
def test_legal_on_unlike_links_and_for_uneven_shards(network, shards):
    schedule = made(network, shards=shards)
    time = simulate(schedule, SIZE).time
    alpha = float(max(schedule.topology.alpha))
    rates = schedule.topology.bandwidth.floats
    steps = loads(schedule)
    assert time <= sum(alpha + max(np.array(step, float) * 32_000 / rates) for step in steps) * (1 + 1e-9)


def beside_slow(ranks, pairs, slow):
    """A network of links of 1 TB/s, and one that is `slow` times slower beside each."""
    links = [
        Link(source, target, Fraction(10**12, rate), Fraction(1, 10**9))
        for one in pairs
        for source, target in (one, one[::-1])
        for rate in (1, slow)
    ]
    return Topology.from_links("by hand", ranks, links)


@pytest.mark.parametrize("slow", [3, 900, 5000])
def test_little_goes_over_slow_links(slow):
    """Two links from rank to rank are busy equally long: slow / (slow + 1) of the time of one."""
    problem = Problem(beside_slow(2, [(0, 1)], slow), collective("allreduce", 2), Fraction(10**9))
    schedule = METHOD.synthesize(problem, FewSumsOptions(time_limit="1s"), np.random.default_rng(0))
    verify(schedule)
    assert simulate(schedule, problem.size).time == pytest.approx(
        1e-9 + slow / (slow + 1) * 1e-3, rel=few_sums.CLOSE
    )


@pytest.mark.parametrize("slow", [10**6, 10**12])
def test_nothing_goes_over_very_slow_links(slow):
    """Four ranks exchange a vector's half in each of two steps over three links: as without the slow ones."""
    square = [(a, b) for a in range(4) for b in range(a)]
    problem = Problem(beside_slow(4, square, slow), collective("allreduce", 4), Fraction(10**9))
    schedule = METHOD.synthesize(problem, FewSumsOptions(time_limit="2s", steps=2), np.random.default_rng(0))
    verify(schedule)
    assert simulate(schedule, problem.size).time == pytest.approx(2e-9 + 0.5e-3, rel=2e-6)


def test_large_networks_and_wrong_options_are_refused():
    with pytest.raises(Unsupported, match="cp_allreduce needs at most 64 ranks; torus:9x9 has more"):
        made("torus:9x9")
    with pytest.raises(InputError, match="steps"):
        FewSumsOptions(steps=0)


def test_parts_of_shards_without_a_common_unit_are_refused():
    """Shards of 2^62 + 1 in all, in three equal parts: 3 (2^62 + 1) units are too many."""
    with pytest.raises(NoSchedule, match="no common unit"):
        made("ring:3", shards=[2**62 - 1, 1, 1], steps=2)


def test_programs_are_not_too_large(monkeypatch):
    monkeypatch.setattr(few_sums, "TUNING", few_sums.TUNING._replace(products=1))
    with pytest.raises(NoSchedule, match="found none"):
        made("ring:4")


def test_a_sum_that_would_take_the_place_of_the_same_is_not_sent():
    """Two ranks repeat their exchange in a second step, as a program may that had no time to find less."""
    topology = parse_topology("complete:2")
    group = few_sums._Symmetries(*automorphisms(topology).some_elements(1))
    program = few_sums._FewSumsProgram(topology, group, few_sums._LinkOrbits.under(topology, group), 2)
    values = {("sends", step, link): 1 for step in (1, 2) for link in (0, 1)}
    values |= {("kept", step, rank): int(step == 1) for step in (1, 2) for rank in (0, 1)}
    sent = few_sums._Solution(program, values).sent
    assert [column.tolist() for column in sent] == [[1, 1], [0, 1], [True, True]]
