"""Theorem 13 on products, and any expression: schedules are legal and cost what is predicted."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.sweep import for_each
from tutti.expansions import METHOD, predict
from tutti.expansions.prediction import note_of
from tutti.expansions.reversal import is_reverse_symmetric
from tutti.experiments.cli import main
from tutti.models.bfb import workloads
from tutti.schedules import Problem, collective
from tutti.schedules.cost import step_cost
from tutti.schedules.verify import verify
from tutti.topologies import InputError, Unsupported, parse_topology
from tutti.topologies.families.expressions import (
    Base,
    Both,
    Degree,
    LineGraph,
    Power,
    Product,
    parse_notation,
)
from tutti.topologies.graphs.shortest_paths import hop_distances


def synthesized(text, kind="allgather"):
    topology = parse_topology(text)
    problem = Problem(topology, collective(kind, topology.num_ranks))
    schedule = METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))
    verify(schedule)
    return schedule


OPTIMAL = [
    "K_2",
    "K_4",
    "K_{2,2}",
    "UniRing(1,3)",
    "UniRing(1,4)",
    "BiRing(2,5)",
    "C(8,{1,3})",
    "DiCirculant(2)",
]
"""Nontrivial, without parallel links, with a BW-optimal BFB schedule (Table A.3)."""


@for_each(("one", "other"), list(itertools.combinations_with_replacement(OPTIMAL, 2)))
def test_products_of_optimal_bfb_schedules_are_optimal(one, other):
    """Theorem 13, by BFB's own counting on the product."""
    text = f"{one} x {other}"
    work = workloads(parse_topology(text))
    nodes = work.topology.num_ranks
    assert work.tb == Fraction(nodes - 1, nodes)
    assert work.steps == sum(int(hop_distances(parse_topology(part)).max()) for part in (one, other))
    claim = predict(parse_notation(text))
    assert (claim.tl, claim.tb, claim.note) == (work.steps, work.tb, "")


@pytest.mark.parametrize(
    ("text", "weak"),
    [
        ("Diamond x K_3", "Diamond"),  # its optimal schedule is not BFB
        ("BiRing(4,5) x K_3", "BiRing(4,5)"),  # with parallel links
        ("L(K_3 x Pi_{2,5} x DBJ(2,2))", "Pi_{2,5}, DBJ(2,2)"),
        ("(K_2 x Bi(L(Diamond)))^2", "Bi(L(Diamond))"),  # of unknown cost
    ],
)
def test_a_product_that_theorem_13_excludes_has_no_performance_bound_and_says_so(text, weak):
    note = (
        f"no performance bound: Theorem 13 needs simple factors with BW-optimal BFB schedules, unlike {weak}"
    )
    assert note_of(parse_notation(text)) == note
    if parse_topology(text).num_ranks < 200:
        schedule = synthesized(text)
        assert schedule.stats["note"] == note
        nodes = schedule.topology.num_ranks
        assert step_cost(schedule).tb > Fraction(nodes - 1, nodes)


def test_the_note_is_beside_the_result(capsys):
    asked = ["--method", "expansion", "--collective", "allgather", "--size", "3MB"]
    assert main(["synth", "Diamond x K_3", *asked]) == 0
    assert "note: no performance bound: Theorem 13" in capsys.readouterr().err


SMALL = [
    *("K_2", "K_3", "K_{2,2}", "UniRing(1,3)", "UniRing(2,2)", "UniRing(2,3)", "BiRing(2,4)", "BiRing(4,3)"),
    *("DiCirculant(2)", "Pi_{2,3}", "Pi_{2,5}", "DBJ(2,2)", "C(5,{1,2})", "Diamond"),
]
MOST_NODES, MOST_DEGREE = 48, 6


def grown(parts):
    """Return a strategy for expressions that are grown from others."""
    return st.one_of(
        st.builds(LineGraph, parts, st.integers(1, 2)),
        st.builds(Degree, parts, st.integers(1, 3)),
        st.builds(Power, parts, st.integers(1, 3)),
        st.builds(Both, parts),
        st.builds(lambda *factors: Product(factors), parts, parts),
    )


expressions = st.recursive(st.sampled_from(SMALL).map(parse_notation), grown, max_leaves=3)


def size_of(expression):
    """Return N and d as Definitions 3 and 12 to 14 have them, with nothing of the project but the bases."""
    match expression:
        case LineGraph(of, times):
            nodes, degree = size_of(of)
            return nodes * degree**times, degree
        case Degree(of, factor):
            nodes, degree = size_of(of)
            return nodes * factor, degree * factor
        case Power(of, exponent):
            nodes, degree = size_of(of)
            return nodes**exponent, degree * exponent
        case Both(of):
            nodes, degree = size_of(of)
            return nodes, 2 * degree
        case Product(factors):
            sizes = [size_of(factor) for factor in factors]
            return math.prod(nodes for nodes, _ in sizes), sum(degree for _, degree in sizes)
    topology = expression.topology()
    return topology.num_ranks, topology.degree


def parts_of(expression):
    """Return what an expression is made of, itself last."""
    below = expression.factors if isinstance(expression, Product) else (getattr(expression, "of", None),)
    return [part for one in below if one for part in parts_of(one)] + [expression]


def has_loops_to_copy(expression):
    """Definition 13 excludes self-loops, which line graphs, powers, products and links back keep."""
    copied = [part.of for part in parts_of(expression) if isinstance(part, Degree)]
    loops = {parse_notation("Pi_{2,5}"), parse_notation("DBJ(2,2)")}
    return any(loops & set(parts_of(one)) for one in copied)


def foretold(expression):
    """A.1.6 says what links back cost where the network is reverse-symmetric; bases are measured."""
    both = [part for part in parts_of(expression) if isinstance(part, Both)]
    return all(isinstance(one.of, Base) or is_reverse_symmetric(one.of.topology()) for one in both)


@given(expressions)
@settings(max_examples=60)
def test_any_expression_has_legal_schedules_that_cost_what_is_predicted(expression):
    nodes, degree = size_of(expression)
    assume(nodes <= MOST_NODES and degree <= MOST_DEGREE)
    if has_loops_to_copy(expression):
        with pytest.raises(InputError, match="self-loops"):
            expression.topology()
        return
    topology = expression.topology()
    assert (topology.num_ranks, topology.degree) == (nodes, degree)
    assert parse_notation(str(expression)) == expression
    gather, scatter = synthesized(str(expression)), synthesized(str(expression), "reduce-scatter")
    cost = step_cost(gather)
    assert step_cost(scatter).tl_steps == cost.tl_steps
    assert cost.tl_steps >= hop_distances(topology).max()
    if not foretold(expression):
        with pytest.raises(Unsupported, match="not reverse-symmetric"):
            predict(expression)
        return
    claim = predict(expression)
    assert (claim.nodes, claim.degree, claim.tl) == (nodes, degree, cost.tl_steps)
    assert claim.tb == cost.tb if claim.exact else claim.tb >= cost.tb
    ends = sorted(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    assert not claim.bidirectional or ends == sorted((v, u) for u, v in ends)
    assert not claim.simple or (len(set(ends)) == len(ends) == nodes * degree)
    assert claim.loops == (len(ends) < nodes * degree)
