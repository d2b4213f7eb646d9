"""Heterogeneous BFB (dissertation, A.5.3) against brute force, linear program (A.12) and other methods."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.experiments.runner.judge import Cost
from tutti.models.bfb import METHOD, BfbOptions, workloads
from tutti.models.bfb.counting import LinkTime, least_time, least_time_in_chunks, times
from tutti.models.bfb.frontiers import frontiers
from tutti.models.bfb.model import Programs
from tutti.models.bounds import lower_bounds
from tutti.schedules.collective import collective
from tutti.schedules.method import Problem
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Link, Topology

SIZES = [Fraction(900), Fraction(10**5), Fraction(2**20), Fraction(10**9)]
"""Sizes from which α alone matters to where only bandwidth does."""

EPSILON = 1e-9
"""Relative tolerance: a simulated time is a float."""


def random_network(seed: int) -> Topology:
    """A strongly connected digraph of different links, some of them parallel."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 7))
    ends = [(i, (i + 1) % n) for i in range(n)]
    while len(ends) < 3 * n:
        u, v = rng.integers(0, n, 2).tolist()
        ends += [(u, v)] * (u != v)
    speeds, alphas = rng.integers(1, 6, len(ends)).tolist(), rng.integers(0, 9, len(ends)).tolist()
    links = [
        Link(u, v, Fraction(b * 10**9), Fraction(a, 4 * 10**6))
        for (u, v), b, a in zip(ends, speeds, alphas, strict=True)
    ]
    return Topology.from_links(f"random-{seed}", n, links)


NETWORKS = {
    text: parse_topology(text)
    for text in (
        "mesh:3x4?bandwidth=50GB/s,25GB/s",
        "mesh:2x3?bandwidth=50GB/s,20GB/s&alpha=1us,3us",
        "torus:3x4?bandwidth=100GB/s,25GB/s",
        "torus:4x4?alpha=0.5us,40us",
    )
} | {f"random-{seed}": random_network(seed) for seed in range(8)}
every_network = for_each("name", NETWORKS)


def subproblems(topology, size):
    """Yield (u, t, {source: eligible in-links}, {in-link: (α, seconds a shard)}), by relaxation."""
    n, links = topology.num_ranks, [topology.link(i) for i in range(topology.num_links)]
    hops = [[0 if i == j else math.inf for j in range(n)] for i in range(n)]
    for _, i, link in itertools.product(range(n), range(n), links):
        hops[i][link.target] = min(hops[i][link.target], hops[i][link.source] + 1)
    for u, t in itertools.product(range(n), range(1, max(map(max, hops)) + 1)):
        into = {i: link for i, link in enumerate(links) if link.target == u}
        took = {i: (link.alpha, size / n / link.bandwidth) for i, link in into.items()}
        sources = [v for v in range(n) if hops[v][u] == t]
        yield (
            u,
            t,
            {v: [i for i, link in into.items() if hops[v][link.source] == t - 1] for v in sources},
            took,
        )


def earliest(eligible, took):
    """The largest U_J over all sets S of links, with J the sources that can use S only; by every set."""
    best = Fraction(0)
    links = sorted({link for choices in eligible.values() for link in choices})
    for chosen in itertools.chain.from_iterable(
        itertools.combinations(links, size) for size in range(1, len(links) + 1)
    ):
        amount = sum(set(choices) <= set(chosen) for choices in eligible.values())
        if amount:
            best = max(best, min(_together(amount, [took[w] for w in used]) for used in _subsets(chosen)))
    return best


def _together(amount, links):
    """The time when links that are all in use, and all paid for, have brought `amount` shards."""
    equal = (amount + sum(a / s for a, s in links)) / sum(1 / s for _, s in links)
    return max(equal, *(a for a, _ in links))


def _subsets(items):
    return itertools.chain.from_iterable(itertools.combinations(items, k) for k in range(1, len(items) + 1))


def make(topology, size, kind="allgather", **options):
    problem = Problem(topology, collective(kind, topology.num_ranks), size)
    chosen = BfbOptions(**options)
    METHOD.supports(problem, chosen)
    assert METHOD.size_dependent(problem, chosen)
    return METHOD.synthesize(problem, chosen, np.random.default_rng(0))


def last_links(schedule, size):
    """Return {(node, step): the time when its last in-link that carries something is done}."""
    topology, loads = schedule.topology, {}
    for link, step, load in zip(
        schedule.route.tolist(), schedule.order.tolist(), schedule.load.tolist(), strict=True
    ):
        loads[link, step] = loads.get((link, step), 0) + Fraction(load, schedule.chunks.denominator)
    ends = {}
    for (link, step), load in loads.items():
        one = topology.link(link)
        key = one.target, step
        ends[key] = max(ends.get(key, 0), one.alpha + load * size / one.bandwidth)
    return ends


@every_network
def test_u_is_that_of_the_set_that_needs_longest(name):
    topology = NETWORKS[name]
    for size in SIZES:
        found = times(frontiers(topology), size)
        for u, t, eligible, took in subproblems(topology, size):
            assert found[u, t] == earliest(eligible, took), (size, u, t)


@every_network
@for_each("size", SIZES[::3])
def test_the_schedule_is_legal_and_takes_u_at_every_node_and_step(name, size):
    """An unused link's α is not in it; the simulator, which has no barriers, is not slower."""
    topology = NETWORKS[name]
    schedule = make(topology, size)
    verify(schedule)
    found, ends = times(frontiers(topology), size), last_links(schedule, size)
    assert all(end <= found[key] for key, end in ends.items())
    for t, peak in enumerate(found.peaks, start=1):
        assert max(end for (_, step), end in ends.items() if step == t) == peak
    time = simulate(schedule, size).time
    assert time <= float(found.total) * (1 + EPSILON)
    for bound in lower_bounds(topology, schedule.collective, size):
        assert time >= float(bound.time(size)) * (1 - EPSILON), bound.kind


@every_network
def test_the_other_collectives_are_legal(name):
    for kind in ("reduce-scatter", "allreduce"):
        schedule = make(NETWORKS[name], SIZES[2], kind, by="counting")
        verify(schedule)
        assert schedule.size == SIZES[2], kind


def test_the_columns_of_step_costs_stay_empty():
    """A.5.3: the schedule is for one size, so α and M/B are not multiplied by anything."""
    schedule = make(NETWORKS["torus:3x4?bandwidth=100GB/s,25GB/s"], SIZES[2])
    columns = Cost.of(schedule).columns()
    assert (columns["tl_steps"], columns["tb_factor"], columns["tb_exact"]) == (None, None, None)
    assert not schedule.claims


def test_an_unused_links_alpha_is_not_paid():
    """Node 1 receives over the fast link alone; the 40 us of the parallel link are never waited for."""
    links = [Link(0, 1), Link(1, 0), Link(0, 1, alpha=Fraction(40, 10**6))]
    topology = Topology.from_links("slow parallel link", 2, links)
    size = Fraction(10**5)
    found = times(frontiers(topology), size)
    assert found.total == Fraction(1, 2 * 10**6) + size / 2 / (50 * 10**9)
    assert 2 not in make(topology, size).route
    programs = Programs(frontiers(topology))
    assert programs.times(size)[1] == pytest.approx(float(found[1, 1]), rel=1e-9)
    assert programs.effort.programs == 3, "one again, without the idle link"


@pytest.mark.parametrize("text", ["torus:4x8?bandwidth=100GB/s,25GB/s", "mesh:4x5?bandwidth=75GB/s,25GB/s"])
@pytest.mark.parametrize("size", SIZES[2:], ids=str)
def test_it_beats_the_heuristic_and_its_own_even_loads(text, size):
    """The rivals are TACOS, and (3.1) as if all links were equal."""
    topology = parse_topology(text)
    schedule = make(topology, size)
    time = simulate(schedule, size).time
    tacos = METHODS["tacos"]
    rival = tacos.synthesize(
        Problem(topology, schedule.collective, size), tacos.options(), np.random.default_rng(0)
    )
    assert time < simulate(rival, size).time
    even_loads = workloads(topology).peaks
    slowest = Fraction(25 * 10**9)
    even = sum(u * size / topology.num_ranks / slowest + Fraction(1, 2 * 10**6) for u in even_loads)
    assert time < even


def whole_chunks(eligible, took, chunks):
    """The optimum with whole chunks, by trying everything."""
    choices = [
        [
            dict(zip(links, counts, strict=True))
            for counts in itertools.product(range(chunks + 1), repeat=len(links))
            if sum(counts) == chunks
        ]
        for links in eligible.values()
    ]
    best = None
    for choice in itertools.product(*choices):
        loads = {w: sum(part.get(w, 0) for part in choice) for w in took}
        end = max(took[w][0] + took[w][1] * n / chunks for w, n in loads.items() if n)
        best = end if best is None else min(best, end)
    return best


@every_network
@for_each("chunks", [1, 3])
def test_whole_chunks_are_shared_as_well_as_can_be(name, chunks):
    topology, size = NETWORKS[name], SIZES[1]
    found = times(frontiers(topology), size, chunks)
    for u, t, eligible, took in subproblems(topology, size):
        tries = math.prod(math.comb(chunks + len(e) - 1, chunks) for e in eligible.values())
        if eligible and tries < 500:
            assert found[u, t] == whole_chunks(eligible, took, chunks)
    schedule = make(topology, size, chunks=chunks, by="counting")
    verify(schedule)
    assert len(schedule.chunks) == chunks * topology.num_ranks
    assert max(last_links(schedule, size).values()) <= max(found.peaks)


rationals = st.fractions(min_value=Fraction(1, 8), max_value=8, max_denominator=8)
link_times = st.builds(LinkTime, st.fractions(0, 8, max_denominator=4), rationals)


@given(st.integers(1, 6), st.lists(link_times, min_size=1, max_size=4))
def test_the_first_moment_at_which_links_have_brought_enough(amount, links):
    """Just enough is brought then: no sooner (it grows strictly), and all."""
    until = least_time(amount, links)
    assert sum(link.brings(until) for link in links) == amount


@given(st.integers(1, 4), st.lists(link_times, min_size=1, max_size=3), st.integers(1, 4))
def test_the_first_moment_in_whole_chunks(amount, links, chunks):
    until = least_time_in_chunks(amount, links, chunks)
    moments = sorted(
        link.alpha + n * link.shard / chunks for link in links for n in range(1, amount * chunks + 1)
    )
    enough = [
        moment
        for moment in moments
        if sum(math.floor(link.brings(moment) * chunks) for link in links) >= amount * chunks
    ]
    assert until == enough[0]


def test_the_model_gives_the_same_schedule_and_its_statistics():
    topology = NETWORKS["mesh:2x3?bandwidth=50GB/s,20GB/s&alpha=1us,3us"]
    counted = make(topology, SIZES[1], by="counting")
    assert counted.stats["solver"] == "counting"
    for solver in ("highs", "glop"):
        solved = make(topology, SIZES[1], solver=solver)
        assert np.array_equal(counted.chunk, solved.chunk)
        assert np.array_equal(counted.route, solved.route)
        assert solved.stats["solver"].startswith(solver)
        assert solved.stats["program"] == "linear programs (A.12)"
        assert solved.stats["variables"] > 0
        assert solved.stats["constraints"] > 0


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (None, "bfb needs a size on random-1: its links differ, so the schedule depends on it"),
        (Fraction(0), "bfb: the size is 0 bytes; it must be positive"),
    ],
)
def test_a_size_is_needed(size, message):
    problem = Problem(NETWORKS["random-1"], collective("allgather", NETWORKS["random-1"].num_ranks), size)
    with pytest.raises(InputError) as error:
        METHOD.synthesize(problem, BfbOptions(), np.random.default_rng(0))
    assert str(error.value) == message


def test_shards_cut_too_finely_are_refused_and_equal_chunks_are_not():
    """Bandwidths that are large primes apart: U has their sum below the line, for every set of them."""
    speeds, alphas = [999999937, 999999929, 999999893], [10007, 10009, 10037]
    links = [Link(0, 1, Fraction(b), Fraction(1, a)) for b, a in zip(speeds, alphas, strict=True)]
    topology = Topology.from_links("primes", 2, [*links, Link(1, 0)])
    with pytest.raises(NoSchedule, match=r"bfb: the shards would be cut too finely .*option chunks"):
        make(topology, Fraction(10**9))
    verify(make(topology, Fraction(10**9), chunks=3))
