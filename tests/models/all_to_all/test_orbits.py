"""All-to-all by orbits: both methods against an independent LP, Table A.1, and paths' images."""

import csv
from fractions import Fraction
from pathlib import Path
from time import sleep

import numpy as np
import pytest

from tests.models.flows import pairwise_time, random_demand, random_network
from tests.sweep import for_each
from tutti.models.all_to_all import Demand, lower_bound, orbits, upper_bound
from tutti.models.all_to_all.columns import ColumnGeneration
from tutti.models.all_to_all.orbits import Images, fewer_paths, just_enough, solve_by_orbits
from tutti.models.all_to_all.paths import decompose
from tutti.models.all_to_all.reduction import ReducedProblem, averaged, without_cycles
from tutti.topologies import (
    InputError,
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
from tutti.topologies.graphs.symmetry import automorphisms

REFERENCE = Path(__file__).parents[2] / "data" / "reference"


NEAR = 1e-7
"""Relative: the oracles are floating-point LPs."""


SMALL = [
    *(Demand.uniform(random_network(seed, most_ranks=6)) for seed in range(4)),
    *(random_demand(random_network(seed, most_ranks=6), seed) for seed in range(4, 8)),
    Demand.uniform(ring(5)),
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


@for_each("demand", SMALL)
def test_both_ways_prove_an_interval_that_holds_the_optimum_of_the_pairwise_lp(demand):
    expected = pairwise_time(demand)
    for by, tolerance in (("columns", 1e-9), ("first_order", 1e-5)):
        solved = solve_by_orbits(demand, tolerance, 300, by=by)
        assert float(solved.interval.lower) <= expected * (1 + NEAR)
        assert float(solved.interval.upper) >= expected * (1 - NEAR)
        assert solved.interval.gap <= tolerance
        assert lower_bound(demand.topology, demand, solved.lengths) == solved.interval.lower


@for_each("demand", SMALL)
def test_images_of_the_paths_of_representatives_take_the_upper_bound(demand):
    """The time of the images is taken from their paths, link by link; `congestion` knows it by orbits."""
    problem = ReducedProblem(automorphisms(demand.topology).preserving(demand.amounts).limited(4096), demand)
    columns = ColumnGeneration(problem)
    interval = columns.run()
    assert problem.upper_bound(columns.flow()) == interval.upper
    images = Images.of(problem)
    paths = decompose(without_cycles(averaged(problem, columns.flow())))
    assert images.congestion(paths) == interval.upper
    assert upper_bound(images.of_all(paths)) == interval.upper
    fewer = fewer_paths(images, paths, exact=True)
    fewer.check()
    assert upper_bound(images.of_all(fewer)) == images.congestion(fewer) <= interval.upper
    assert upper_bound(images.of_each(paths)) == interval.upper
    pairs = np.count_nonzero(demand.amounts[problem.sources])
    assert len(fewer) <= min(len(paths), pairs + len(images.capacity))


def test_a_group_just_large_enough_has_the_orbits_of_the_whole():
    for topology in (torus(4, 4), hypercube(4), gen_kautz(3, 20), mi250(2)):
        whole = automorphisms(topology)
        part = just_enough(whole)
        assert np.array_equal(part.node_orbits, whole.node_orbits)
        assert len(part.nodes) <= len(whole.nodes)
    assert len(just_enough(automorphisms(torus(4, 4))).elements(4096)[0]) == 16


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


@for_each(("topology", "printed"), TABLE_A1)
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


def test_a_part_of_a_group_is_listed():
    group = automorphisms(hypercube(4))
    assert group.elements(100) is None
    part = group.limited(100)
    nodes, _ = part.elements(100)
    assert len(nodes) == len({tuple(row) for row in nodes.tolist()}) <= 100
    assert part.is_vertex_transitive
    everything, _ = automorphisms(torus(3, 3)).elements(10**4)
    assert len(everything) == 72  # 9 translations, times the 8 symmetries of a square


def test_a_second_solve_gets_what_the_first_leaves_of_the_time(monkeypatch):
    """The second solve, after paths by orbits fail, has no symmetry and another program."""
    given = []
    solved = orbits._solved

    def solving(problem, begin, tolerance, time_limit, by):
        given.append(time_limit)
        return solved(problem, begin, tolerance, time_limit, by)

    def no_paths(found):
        sleep(0.5)

    monkeypatch.setattr(orbits, "_solved", solving)
    monkeypatch.setattr(orbits, "_paths", no_paths)
    orbits.paths_by_orbits(Demand.uniform(torus(3, 3)), 1e-2, 10.0)
    assert 9 < given[0] <= 10
    assert given[1] <= given[0] - 0.5
