"""The finder: frontiers that nothing known beats, of networks that are what they say."""

import csv
import itertools
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.expansions.finder import Candidate, Finder, bases, frontier
from tutti.expansions.prediction import KNOWN, Prediction, bandwidth_factor, predict
from tutti.expansions.reversal import is_reverse_symmetric
from tutti.experiments.cli import main
from tutti.models.bfb import workloads
from tutti.models.bfb.counting import transitive_cost
from tutti.schedules.cost import moore_optimal_steps
from tutti.topologies import InputError, NoSchedule, parse_topology
from tutti.topologies.families.expressions import Base, Both, parse_notation
from tutti.topologies.transforms import transpose

REFERENCE = Path(__file__).parents[1] / "data" / "reference"


def rows(name, key="topology"):
    with (REFERENCE / name).open() as file:
        return [row for row in csv.DictReader(file) if row[key] != "bound"]


@pytest.mark.parametrize("nodes", [32, 64, 128, 256, 512, 1024])
def test_nothing_in_table_a1_beats_the_frontier(nodes):
    found = Finder().find(nodes, 4)
    for row in rows("table_A1_pareto_d4.csv"):
        if int(row["n"]) == nodes:
            steps, factor = int(row["tl_alpha"]), float(row["tb_mb"])
            least = min(float(c.cost.tb) for c in found if c.cost.tl <= steps)
            assert least <= factor + 1e-3, "printed digits"


@pytest.mark.parametrize("row", rows("table_3_5_best_bidirectional_d4.csv"), ids=lambda row: row["topology"])
def test_the_best_bidirectional_networks_of_table_3_5_are_met(row):
    """Its T_L is of an allreduce, by BFB on the whole graph."""
    found = Finder(bidirectional=True).find(int(row["n"]), 4)
    assert found[-1].cost.bandwidth_optimal
    assert 2 * found[-1].cost.tl <= int(row["allreduce_tl_alpha"])


@pytest.mark.parametrize(("nodes", "degree"), [(12, 2), (24, 3), (36, 4), (30, 5), (64, 6), (48, 8)])
def test_candidates_are_built_as_predicted(nodes, degree):
    front = Finder().find(nodes, degree)
    assert [c.cost.tl for c in front] == sorted({c.cost.tl for c in front})
    assert [c.cost.tb for c in front] == sorted({c.cost.tb for c in front}, reverse=True)
    for candidate in front:
        topology = candidate.expression.topology()
        assert (topology.num_ranks, topology.degree) == (nodes, degree)
        assert candidate.cost.tl >= moore_optimal_steps(nodes, degree)
        assert candidate.cost.tb >= bandwidth_factor(nodes)
        assert parse_notation(str(candidate.expression)) == candidate.expression


@pytest.mark.parametrize("family", sorted(KNOWN))
def test_stated_costs_of_bases_are_what_counting_finds(family):
    sizes = {
        "complete": [(2,), (3,), (6,)],
        "complete_bipartite": [(1,), (2,), (4,)],
        "biring": [(2, 3), (2, 8), (4, 5), (2, 9)],
        "uniring": [(1, 2), (1, 5), (3, 4)],
        "debruijn": [(2, 1), (2, 2), (2, 5), (3, 1), (3, 3), (4, 2), (5, 2)],
        "gen_kautz": [(d, n) for d in (2, 3, 4, 7) for n in (3, 4, 5, 6, 8, 9, 15, 16, 24) if n > d],
    }
    for arguments in sizes[family]:
        base = Base(family, arguments)
        topology = base.topology()
        found, stated = workloads(topology), predict(base)
        assert (stated.tl, stated.tb) == (found.steps, found.tb)
        assert (stated.nodes, stated.degree) == (topology.num_ranks, topology.degree)
        pairs = set(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
        assert stated.simple == (len(pairs) == stated.nodes * stated.degree)
        assert stated.loops == (topology.num_links < stated.nodes * stated.degree)
        assert stated.bidirectional == ({(v, u) for u, v in pairs} == pairs)
        assert stated.two_neighbours == all(
            len({v for u, v in pairs if u == w}) > 1 for w in range(len(pairs) and topology.num_ranks)
        )


@pytest.mark.parametrize(
    "text",
    ["torus:4x4", "hypercube:5", "circulant:60,5,6", "gen_kautz:3,4", "torus:5x6x3", "directed_ring:2,7"],
)
def test_one_node_of_a_vertex_transitive_network_tells_the_cost_of_all(text):
    topology = parse_topology(text)
    found = workloads(topology)
    assert transitive_cost(topology) == (found.steps, found.tb)


@pytest.mark.parametrize("nodes", [7, 57, 200, 1001, 10007, 30011])
def test_circulants_of_theorem_22_are_bandwidth_optimal(nodes):
    """Conjecture 1 of the dissertation (A.6.4), beyond the N = 10^4 up to which it was checked there."""
    base = next(b for b in bases(nodes, 4) if b.family == "circulant")
    assert transitive_cost(base.topology())[1] == bandwidth_factor(nodes)


def test_links_back_halve_the_latency_of_bidirectional_networks():
    """A.1.6, where Table 3.5 has circulants and tori only: 23 steps for 1,024 nodes."""
    found = Finder(bidirectional=True).find(256, 4)
    assert any(isinstance(c.expression, Both) for c in found)
    for c in found:
        assert c.cost.bidirectional
        topology = c.expression.topology()
        assert np.array_equal(arcs(topology), arcs(transpose(topology)))
        assert (topology.num_ranks, topology.degree) == (256, 4)
    circulant = predict(Base("circulant", (256, 11, 12)))
    assert found[0].cost.tl < circulant.tl
    assert found[-1].cost.tl <= circulant.tl


def arcs(topology):
    """Return all (source, target), sorted."""
    return np.sort(topology.source.astype(np.int64) * topology.num_ranks + topology.target)


def test_networks_of_reverse_symmetric_bases_only():
    everything, symmetric = Finder().find(11, 2), Finder(reversible=True).find(11, 2)
    assert str(everything[0].expression) == "Pi_{2,11}"
    assert all(is_reverse_symmetric(c.expression.topology()) for c in symmetric)


def candidate(tl, tb, exact=True):
    cost = Prediction(8, 2, tl, Fraction(tb), exact, False, True, True, False, False)
    return Candidate(Base("uniring", (tl, 8)), cost)


@for_each("bidirectional", [False, True])
def test_factors_are_the_candidates_that_theorem_13_wants(bidirectional):
    finder = Finder(bidirectional=bidirectional)
    for nodes, degree in itertools.product(range(2, 61), range(1, 7)):
        able = [c for c in finder.candidates(nodes, degree) if c.cost.multiplies]
        assert finder.candidates(nodes, degree, factors=True) == able, (nodes, degree)


def test_the_frontier_keeps_what_nothing_beats():
    given = [candidate(3, 2), candidate(4, 1), candidate(4, 2), candidate(5, 1), candidate(3, 2, False)]
    assert frontier(given) == [given[0], given[1]]


@pytest.mark.parametrize(
    ("nodes", "degree", "steps"), [(1024, 4, 5), (1365, 4, 5), (1366, 4, 6), (8, 2, 3), (5, 1, 4)]
)
def test_moore_steps(nodes, degree, steps):
    """1 + 4 + ... + 4^5 = 1365."""
    assert moore_optimal_steps(nodes, degree) == steps


def test_a_size_without_a_network_names_the_nearest():
    with pytest.raises(
        NoSchedule, match=r"no topology of 7 nodes and degree 3 with links both ways; nearest N .*: 6, 8"
    ):
        Finder(bidirectional=True).find(7, 3)


@pytest.mark.parametrize(
    ("nodes", "degree"), [(1, 2), (-1, 2), (10**9, 4), (5, 0), (5, -3), (10, 10**6), (10, 10**18)]
)
def test_numbers_out_of_range_are_refused(nodes, degree):
    """The search doesn't start: one over 10^6 divisors and shares of a degree would not end."""
    with pytest.raises(InputError, match=r"(nodes|degree -?\d+); the finder searches [12] to"):
        Finder().find(nodes, degree)


@pytest.mark.parametrize(("nodes", "degree"), [(100, 64), (10, 128)])
def test_large_degrees_have_a_frontier(nodes, degree):
    """A node has more links than a mask of 62 bits can hold."""
    found = Finder().find(nodes, degree)
    assert found[0].cost.tl >= moore_optimal_steps(nodes, degree)
    assert found[-1].cost.tb >= bandwidth_factor(nodes)


def test_de_bruijn_networks_cost_what_they_did_at_any_size():
    """The cost has a closed form; counts over all pairs of nodes would take gigabytes."""
    found = predict(Base("debruijn", (2, 16)))
    assert (found.tl, found.tb) == (16, 2 * bandwidth_factor(2**16))


def test_the_command_prints_the_frontier(capsys):
    assert main(["find", "--nodes", "32", "--degree", "4", "--build", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["tl_steps"], line["tb_factor"], line["verified"]) for line in lines] == [
        (3, "1", True),
        (4, "31/32", True),
    ]
    assert main(["find", "--nodes", "32", "--degree", "4"]) == 0
    assert "L(K_{4,4})" in capsys.readouterr().out


def test_the_diameter_can_be_limited(capsys):
    assert main(["find", "--nodes", "32", "--degree", "4", "--max-diameter", "3", "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert main(["find", "--nodes", "32", "--degree", "4", "--max-diameter", "2"]) == 3
    assert "diameter at most 2; no network has less than 3" in capsys.readouterr().err
    assert main(["find", "--nodes", "32", "--degree", "4", "--max-diameter", "0"]) == 2
    assert "it must be at least 1" in capsys.readouterr().err


@for_each("row", rows("table_A2_distance_regular_d4.csv", "graph"))
def test_distance_regular_graphs_of_table_a2_are_bandwidth_optimal(row):
    """Theorem 18: so is every distance-regular graph."""
    nodes = int(row["n"])
    stated = predict(Base("distance_regular", (4, nodes)))
    assert (stated.tl, stated.tb) == (int(row["tl"]), bandwidth_factor(nodes))
    assert moore_optimal_steps(nodes, 4) == int(row["tl_moore"])
