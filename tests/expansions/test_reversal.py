"""Theorem 2, Corollary 1.2 and A.1.6: schedules for the transpose, and for a network with all links back."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.expansions import METHOD, predict
from tutti.expansions.constructions import expand_both_ways, to_schedule
from tutti.expansions.method import expanded
from tutti.expansions.reversal import is_reversible, reflected, reversal
from tutti.models.bfb import workloads
from tutti.schedules import Problem, collective
from tutti.schedules.cost import step_cost
from tutti.schedules.reversal import reverse
from tutti.schedules.verify import verify
from tutti.topologies import InputError, NoSchedule, Unsupported, parse_topology
from tutti.topologies.families.expressions import Both, parse_notation
from tutti.topologies.transforms import transpose

SYMMETRIC = [
    "UniRing(1,4)",
    "UniRing(2,3)",
    "K_4",
    "C(7,{1,2})",
    "DiCirculant(3)",
    "DBJ(2,3)",
    "DBJMod(2,3)",
    "L(K_{2,2})",
    "L^2(DBJ(2,2))",
    "L(Pi_{2,6})",
    "DBJMod(2,3) * 2",
    "UniRing(2,3)^2",
    "UniRing(1,3) x K_3",
    "L(UniRing(2,3) * 2)",
    "Bi(L(K_3))",
    "L(Bi(DiCirculant(2)))",
]
NOT = ["Pi_{2,5}", "Diamond", "L(Diamond)", "Diamond^2", "Pi_{2,5} x K_3"]


def synthesized(text, kind):
    topology = parse_topology(text)
    problem = Problem(topology, collective(kind, topology.num_ranks))
    schedule = METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))
    assert schedule.topology == topology
    verify(schedule)
    return schedule


def scattered(table, topology):
    """Return the reduce-scatter on the network, from an allgather on its transpose, verified."""
    gather = to_schedule(table, topology, collective("allgather", topology.num_ranks))
    verify(gather)
    schedule = reverse(gather, topology)
    verify(schedule)
    return schedule


def arcs(topology, nodes=None):
    """Return the multiset of links as pairs, moved by a map of the nodes."""
    place = np.arange(topology.num_nodes) if nodes is None else nodes
    return sorted(zip(place[topology.source].tolist(), place[topology.target].tolist(), strict=True))


@for_each("text", SYMMETRIC)
def test_the_map_to_the_transpose_is_built_along_the_expression(text):
    expression = parse_notation(text)
    nodes, topology = reversal(expression), expression.topology()
    assert is_reversible(expression)
    assert sorted(nodes.tolist()) == list(range(topology.num_ranks))
    assert arcs(topology, nodes) == arcs(transpose(topology))


@for_each("text", SYMMETRIC)
def test_theorem_2_and_corollary_12_give_reduce_scatters_of_equal_cost(text):
    """f(A^T) of the same allgather, and the reverse of the expansion on the transpose; both legal."""
    expression = parse_notation(text)
    topology, gathered = expression.topology(), expanded(expression)
    by_theorem = scattered(reflected(gathered, reversal(expression)), topology)
    by_corollary = scattered(expanded(expression, turned=True), topology)
    cost = step_cost(to_schedule(gathered, topology, collective("allgather", topology.num_ranks)))
    for made in (by_theorem, by_corollary, synthesized(text, "reduce-scatter")):
        found = step_cost(made)  # of which only T_C differs: an allgather reduces nothing
        assert (found.tl_steps, found.bandwidth_time, found.tb) == (
            cost.tl_steps,
            cost.bandwidth_time,
            cost.tb,
        )


@pytest.mark.parametrize("text", NOT)
def test_corollary_12_remains_where_a_base_is_not_reverse_symmetric(text):
    assert reversal(parse_notation(text)) is None
    assert not is_reversible(parse_notation(text))
    for kind in ("reduce-scatter", "allreduce"):
        synthesized(text, kind)


def test_a_map_to_elsewhere_is_refused():
    table = expanded(parse_notation("UniRing(1,4)"))
    with pytest.raises(NoSchedule, match=r"the nodes' map is no isomorphism to the transpose"):
        reflected(table, np.arange(4))


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter"])
@for_each("text", [*SYMMETRIC[:10], *SYMMETRIC[-2:], "Diamond", "Pi_{2,5}", "Pi_{2,14}"])
def test_links_back_cost_nothing(text, kind):
    """A.1.6: T_L and T_B of G' are those of G; every link has one back, and the degree is double."""
    one_way, topology = step_cost(synthesized(text, kind)), parse_topology(f"Bi({text})")
    base = parse_topology(text)
    assert arcs(topology) == sorted([*arcs(base), *arcs(transpose(base))])
    assert topology.degree == 2 * base.degree
    cost = step_cost(synthesized(f"Bi({text})", kind))
    assert cost.tl_steps == one_way.tl_steps
    if is_reversible(parse_notation(text)) or text == "Diamond":
        assert cost.tb == one_way.tb
    claim = predict(parse_notation(f"Bi({text})"))
    assert claim.bidirectional
    assert (claim.nodes, claim.degree, claim.tl) == (base.num_ranks, topology.degree, cost.tl_steps)
    assert claim.tb == cost.tb if claim.exact else claim.tb >= cost.tb


def test_without_symmetry_each_step_waits_for_the_slower_way():
    """Generalized Kautz, 14 nodes: T_B by the loads of the two schedules, side by side."""
    base = parse_topology("Pi_{2,14}")
    peaks = zip(workloads(base).peaks, workloads(transpose(base)).peaks, strict=True)
    wanted = Fraction(2, 14) * sum(max(pair) for pair in peaks)
    assert predict(parse_notation("Bi(Pi_{2,14})")).tb == wanted
    assert step_cost(synthesized("Bi(Pi_{2,14})", "allgather")).tb == wanted


def test_the_two_ways_use_links_of_their_own():
    table = expanded(parse_notation("Bi(L(K_3))"))
    parts = len(table.sizes) // 2
    forth = table.link < table.topology.num_links // 2
    assert np.array_equal(table.first < parts, forth)
    assert table.sizes[:parts].sum() == table.sizes[parts:].sum()


def test_a_line_graph_of_1024_nodes_both_ways_replays():
    schedule, claim = (
        synthesized("Bi(L^7(BiRing(2,8)))", "allgather"),
        predict(parse_notation("Bi(L^7(BiRing(2,8)))")),
    )
    cost = step_cost(schedule)
    assert (cost.tl_steps, cost.tb) == (claim.tl, claim.tb) == (11, cost.tb)


def test_the_cost_of_an_unsymmetric_expansion_is_not_foretold():
    with pytest.raises(Unsupported, match=r"Bi\(L\(Diamond\)\): its cost is not known beforehand"):
        predict(parse_notation("Bi(L(Diamond))"))
    synthesized("Bi(L(Diamond))", "allgather")


def test_the_other_half_must_be_for_the_transpose():
    table = expanded(parse_notation("UniRing(1,4)"))
    with pytest.raises(InputError, match="expansion both ways"):
        expand_both_ways(table, table)
    with pytest.raises(InputError, match="expansion both ways"):
        expand_both_ways(table, replace(expanded(parse_notation("UniRing(1,5)"), turned=True)))


@pytest.mark.parametrize("text", ["Bi(L(K_3))", "L(Bi(K_3))", "Bi(UniRing(1,3) x K_3)^2 * 2"])
def test_links_back_are_written_as_they_are_read(text):
    expression = parse_notation(text)
    assert str(expression) == text
    assert isinstance(parse_notation(f"Bi({text})"), Both)


@pytest.mark.parametrize(("text", "message"), [("Bi K_3", "expected '\\('"), ("Bi_2(K_3)", "expected '\\('")])
def test_links_back_need_parentheses(text, message):
    with pytest.raises(InputError, match=message):
        parse_notation(text)
