"""Expansions of schedules: as Definitions 1, 2 and 14 have them, costing what the theorems say."""

from fractions import Fraction

import numpy as np
import pytest

from tests.expansions import twins
from tests.expansions.cases import REGULAR, synthesized
from tests.sweep import for_each
from tutti.expansions.method import expanded
from tutti.experiments.registry import METHODS
from tutti.schedules import Problem, collective
from tutti.schedules.cost import is_moore_optimal, step_cost
from tutti.topologies import parse_topology
from tutti.topologies.families.expressions import Degree, LineGraph, Power, parse_notation


def named_links(topology, turned):
    """Return the links as (u, v, key), the key telling parallel links apart, in the table's direction."""
    ends = (topology.target, topology.source) if turned else (topology.source, topology.target)
    return [(u, v, key) for key, (u, v) in enumerate(zip(*(e.tolist() for e in ends), strict=True))]


def rows_of(table, name_link):
    """Return the rows element by element, of shards as numbers of their least unit."""
    place = np.concatenate([[0], np.cumsum(table.sizes)])
    return {
        ((int(owner), element), name_link(int(link)), int(step))
        for owner, first, count, link, step in zip(
            table.owner, table.first, table.count, table.link, table.step, strict=True
        )
        for element in range(int(place[first]), int(place[first + count]))
    }


@for_each("turned", [False, True])
@for_each("text", [text for text in REGULAR if text not in ("Pi_{2,5}", "DBJ(2,2)")])
def test_the_line_graph_schedule_is_definition_1(text, turned):
    base = expanded(parse_notation(text), turned)
    grown = expanded(LineGraph(parse_notation(text)), turned)
    links = named_links(base.topology, turned)
    wanted = twins.line(links, rows_of(base, links.__getitem__), int(base.sizes.sum()))
    ends = named_links(grown.topology, turned)

    def name(link):
        return links[ends[link][0]], links[ends[link][1]]

    made = {((links[v], x), arc, t) for (v, x), arc, t in rows_of(grown, name)}
    assert made == wanted
    assert sum(
        int(grown.sizes[f : f + c].sum()) for f, c in zip(grown.first, grown.count, strict=True)
    ) == len(made), "no row stands twice"


@for_each("turned", [False, True])
@for_each("text", ["UniRing(1,3)", "UniRing(2,3)", "K_4", "K_{2,2}", "C(5,{1})"])
def test_the_degree_expanded_schedule_is_definition_2(text, turned):
    n = 2
    base = expanded(parse_notation(text), turned)
    grown = expanded(Degree(parse_notation(text), n), turned)
    finer = int(grown.sizes.sum()) // int(base.sizes.sum())
    links = named_links(base.topology, turned)
    rows = {
        ((v, x * finer + part), arc, t)
        for (v, x), arc, t in rows_of(base, links.__getitem__)
        for part in range(finer)
    }
    wanted = twins.degree(links, rows, int(grown.sizes.sum()), n)
    ends = named_links(grown.topology, turned)

    def without_key(rows):
        return sorted(((v, x), arc[:2], t) for (v, x), arc, t in rows)

    def name(link):
        u, v, key = ends[link]
        return divmod(u, n), divmod(v, n), key

    made = {((divmod(v, n), x), arc, t) for (v, x), arc, t in rows_of(grown, name)}
    assert without_key(made) == without_key(wanted)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("text", "n"), [("UniRing(1,3)", 3), ("UniRing(2,3)", 2), ("K_{2,2}", 2), ("Pi_{2,5}", 2)]
)
def test_the_power_schedule_is_definition_14(text, n, turned):
    base = expanded(parse_notation(text), turned)
    grown = expanded(Power(parse_notation(text), n), turned)
    size, elements = base.topology.num_ranks, int(base.sizes.sum())
    links = named_links(base.topology, turned)
    wanted = twins.power(range(size), rows_of(base, links.__getitem__), elements, n)
    ends = named_links(grown.topology, turned)

    def node(number):
        digits = []
        for _ in range(n):
            number, digit = divmod(number, size)
            digits.insert(0, digit)
        return tuple(digits)

    made = {((node(v), x), (node(ends[k][0]), node(ends[k][1])), t) for (v, x), k, t in rows_of(grown, int)}
    assert made == {(owner, arc[:2], t) for owner, arc, t in wanted}
    assert len(rows_of(grown, int)) == len(wanted), "parallel links carry as many rows"


@pytest.mark.parametrize("text", REGULAR)
def test_costs_are_those_of_theorems_7_11_and_12(text):
    base = step_cost(synthesized(text))
    topology = parse_topology(text)
    nodes = topology.num_ranks
    line = step_cost(synthesized(f"L({text})"))
    assert line.tl_steps == base.tl_steps + (topology.degree > 1)  # the line graph of a ring is the ring
    assert line.tb <= base.tb + Fraction(1, nodes)
    square = step_cost(synthesized(f"{text}^2"))
    assert square.tl_steps == 2 * base.tl_steps
    assert square.tb == base.tb * Fraction(nodes, nodes - 1) * Fraction(nodes**2 - 1, nodes**2)
    if text not in ("Pi_{2,5}", "DBJ(2,2)"):  # these have self-loops
        for n in (2, 3):
            grown = step_cost(synthesized(f"{text} * {n}"))
            assert grown.tl_steps == base.tl_steps + 1
            assert grown.tb == base.tb + Fraction(n - 1, n * nodes)


@pytest.mark.parametrize(
    "text", ["K_4", "K_{2,2}", "C(5,{1})", "C(7,{1,2})", "Pi_{3,8}", "BiRing(4,3)", "BiRing(4,5)"]
)
def test_line_graphs_of_optimal_bfb_schedules_are_optimal_bfb_schedules(text):
    """Theorem 10: the optimum that BFB's own counting finds on the line graph."""
    topology = parse_topology(f"L({text})")
    problem = Problem(topology, collective("allgather", topology.num_ranks))
    bfb = METHODS["bfb"].synthesize(problem, METHODS["bfb"].options(), np.random.default_rng(0))
    assert step_cost(synthesized(f"L({text})")).tb == step_cost(bfb).tb


@pytest.mark.parametrize("text", REGULAR)
def test_a_line_graph_is_moore_optimal_exactly_where_its_base_is(text):
    """Theorem 8. UniRing(2,3) takes 2 steps and not 1, and Pi_{2,5} takes 3 and not 2."""
    assert is_moore_optimal(synthesized(text)) == (text not in ("UniRing(2,3)", "Pi_{2,5}"))
    assert is_moore_optimal(synthesized(f"L({text})")) == is_moore_optimal(synthesized(text))


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("text", ["K_{2,2}", "K_4", "C(5,{1})"])
def test_line_graphs_of_optimal_bases_stay_near_the_optimum(text, times):
    """Theorem 9: T_B over T_B* is at most 1 + 1/((d - 1) N)."""
    base, grown = parse_topology(text), synthesized(f"L^{times}({text})")
    nodes = grown.topology.num_ranks
    ratio = step_cost(grown).tb / Fraction(nodes - 1, nodes)
    assert ratio <= 1 + Fraction(1, (base.degree - 1) * base.num_ranks)


@pytest.mark.parametrize(
    "text",
    ["L(K_4)", "Pi_{2,5}^2", "L(Pi_{2,5})", "UniRing(1,3) * 2", "(K_4 * 2)^2", "L(UniRing(1,3) x K_3)"],
)
def test_the_reduce_scatter_costs_what_the_allgather_of_the_transpose_does(text):
    """Corollary 1.2; on these bases, which are reverse-symmetric or nearly, the same as the allgather."""
    gather, scatter = synthesized(text), synthesized(text, "reduce-scatter")
    assert step_cost(scatter).tl_steps == step_cost(gather).tl_steps
    whole = step_cost(synthesized(text, "allreduce"))
    assert whole.tl_steps == step_cost(gather).tl_steps + step_cost(scatter).tl_steps
    assert whole.tb == step_cost(gather).tb + step_cost(scatter).tb
