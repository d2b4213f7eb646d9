"""BW-optimality from one node's search: against counting at all nodes, linear programs and hand."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.circulants import (
    all_circulants,
    all_twisted_tori,
    balance,
    check,
    circulant_moves,
    commute,
    main,
    random_circulants,
    random_twisted_tori,
    theorem_22,
    torus_moves,
    tpu_tori,
)
from tests.sweep import for_each
from tutti.models.bfb import METHOD, workloads
from tutti.models.bfb.counting import transitive_cost
from tutti.models.bfb.frontiers import frontiers
from tutti.models.bfb.model import Programs
from tutti.schedules import Problem, collective
from tutti.schedules.cost import step_cost
from tutti.schedules.verify import verify
from tutti.topologies import InputError, parse_topology
from tutti.topologies.graphs.shortest_paths import diameter
from tutti.topologies.graphs.symmetry import automorphisms

ALIKE = [
    "torus:4x5",
    "torus:3x4x5",
    "hypercube:4",
    "circulant:30,3,7",
    "circulant:15,1,4,5",
    "circulant:12,1,3,4,5",
    "twisted_torus:4x8",
    "twisted_torus:3x3x6",
    "twisted_torus:5x7?twist=3",
    "directed_circulant:3",
    "uniring:5",
    "ring:6?links=2",
]


def moves_of(topology):
    """Return where the i-th link out of each node leads, int32 (degree, nodes)."""
    return np.ascontiguousarray(topology.target[topology.out_links[1]].reshape(-1, topology.degree).T)


@for_each("text", ALIKE)
def test_one_search_says_what_counting_at_all_nodes_does(text):
    topology = parse_topology(text)
    found, work = balance(moves_of(topology)), workloads(topology)
    nodes = topology.num_ranks
    assert found.reached == nodes
    assert found.steps == work.steps == diameter(topology)
    assert found.optimal == (work.tb == Fraction(nodes - 1, nodes))


@for_each("text", ALIKE)
def test_commuting_steps_are_automorphisms_that_reach_every_node(text):
    """The search of `topologies.graphs.symmetry` finds the same."""
    topology = parse_topology(text)
    assert commute(moves_of(topology))
    assert automorphisms(topology).is_vertex_transitive
    links = sorted(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    for move in moves_of(topology):
        assert sorted((int(move[u]), int(move[v])) for u, v in links) == links


@pytest.mark.parametrize("text", ["twisted_hypercube:3", "gen_kautz:2,7", "slim_fly:5"])
def test_others_are_not_taken_for_alike(text):
    assert not commute(moves_of(parse_topology(text)))


def test_steps_that_do_not_commute_are_refused():
    swapped = np.array([[1, 0, 2], [0, 2, 1]], dtype=np.int32)
    with pytest.raises(InputError, match="no commuting permutations"):
        balance(swapped)
    with pytest.raises(InputError, match="no commuting permutations"):
        balance(np.array([[1, 1, 0]], dtype=np.int32))
    with pytest.raises(InputError, match="17 steps a node; at most 16"):
        balance(np.zeros((17, 3), dtype=np.int32))


@given(st.lists(st.permutations(range(4)), min_size=1, max_size=3))
def test_the_kernel_tells_commuting_permutations(rows):
    composed = all([one[x] for x in other] == [other[x] for x in one] for one in rows for other in rows)
    assert commute(np.array(rows, dtype=np.int32)) == composed


@pytest.mark.parametrize(("n", "offsets"), [(7, (1, 2)), (16, (3, 4)), (15, (1, 4, 5))])
def test_steps_of_circulants_are_those_of_the_network(n, offsets):
    topology = parse_topology(f"circulant:{n},{','.join(map(str, offsets))}")
    moves = circulant_moves(n, np.array(offsets))
    assert np.array_equal(np.sort(moves, axis=0), np.sort(moves_of(topology), axis=0))


@pytest.mark.parametrize("shape", ["4x8", "8x4", "3x3x6", "3x6x6", "6x3x6", "5x7?twist=3", "7x4?twist=1"])
def test_steps_of_twisted_tori_are_those_of_the_network(shape):
    lengths, _, twist = shape.partition("?twist=")
    moves = torus_moves(tuple(map(int, lengths.split("x"))), int(twist) if twist else None)
    assert np.array_equal(moves, moves_of(parse_topology(f"twisted_torus:{shape}")))


def test_conjecture_1_fails_for_three_offsets():
    """C(15, {1, 4, 5}): of the eight nodes at distance 2, steps of 5 lead to 6 and 9 alone.

    From the nodes at distance 1, namely 1, 4, 5, 10, 11 and 14, a step of 5 or -5 leads to 6 = 1 + 5 = 11 -
    5. It also leads to 9 = 4 + 5 = 14 - 5, to 0, or back to distance 1. So the other six share four links:
    U_2 = 6/4.
    """
    near = {1, 4, 5, 10, 11, 14}
    assert {(x + s) % 15 for x in near for s in (5, 10)} - near - {0} == {6, 9}
    topology = parse_topology("circulant:15,1,4,5")
    assert workloads(topology).peaks == (1, Fraction(6, 4))
    assert workloads(topology).tb == 1 > Fraction(14, 15)
    assert set(Programs(frontiers(topology)).loads()) == {1, Fraction(6, 4)}
    schedule = METHOD.synthesize(
        Problem(topology, collective("allgather", 15)), METHOD.options(), np.random.default_rng(0)
    )
    verify(schedule)
    assert step_cost(schedule).tb == 1


def test_the_smallest_exceptions_to_conjecture_1():
    """Nothing below 15 nodes with three offsets, nothing below 12 with four; two offsets are proven."""
    assert check("", all_circulants(40, 2)).exceptions == []
    three, four = check("", all_circulants(15, 3)), check("", all_circulants(14, 4))
    assert three.exceptions[0] == "circulant:15,1,4,5"
    assert all(name.startswith("circulant:15,") for name in three.exceptions)
    assert four.exceptions == ["circulant:12,1,3,4,5"]


def test_theorem_22_holds_past_the_papers_sizes():
    """Samples here; `python -m benchmarks.circulants` checks all."""
    found = check("", theorem_22([*range(7, 300), 10_007, 30_011, 123_457]))
    assert found.exceptions == []
    assert (len(found.sizes), min(found.sizes), max(found.sizes)) == (296, 7, 123_457)


def test_twisted_tori_are_bandwidth_optimal():
    for cases in (all_twisted_tori(40), tpu_tori(3000), random_twisted_tori(20_000, 20)):
        found = check("", cases)
        assert len(found.sizes) > 10
        assert found.exceptions == []


def test_samples_are_the_same_each_time():
    one, other = (list(random_circulants(1000, 5)) for _ in range(2))
    assert [case.name for case in one] == [case.name for case in other]
    assert all(7 <= case.nodes <= 1000 for case in one)


def test_a_wrong_diameter_is_an_exception():
    case = next(theorem_22([100]))
    assert check("", [case._replace(steps=case.steps + 1)]).exceptions == [case.name]


def test_the_command_says_what_was_checked(capsys):
    limits = ["--until=40", "--largest=200", "--samples=3", "--small=12", "--offsets=15", "--seconds=5"]
    main(limits)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        "circulants of Theorem 22, all sizes: 34 networks of 7 to 40 nodes, all BW-opt"
    )
    assert "circulant:15,1,4,5; circulant:15,1,5,6; circulant:15,2,3,5; ..." in lines[2]
    assert len(lines) == 8


@pytest.mark.parametrize("text", ["twisted_torus:100x100?twist=37", "circulant:10000,70,71"])
def test_ten_thousand_nodes_are_exact(text):
    """The cost follows from the steps as generators, and from counting at one node."""
    topology = parse_topology(text)
    found = balance(moves_of(topology))
    assert found.optimal
    assert transitive_cost(topology) == (found.steps, Fraction(9999, 10000))
