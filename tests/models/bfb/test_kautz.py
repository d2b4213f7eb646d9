"""Generalized Kautz graphs by intervals: against counting at all nodes, theorems and the paper's tables."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.expansions.prediction import bandwidth_factor, predict
from tutti.models.bfb import workloads
from tutti.models.bfb.kautz import kautz_cost, kautz_peaks
from tutti.schedules.cost import moore_optimal_steps
from tutti.topologies import InputError
from tutti.topologies.families.expressions import Base
from tutti.topologies.families.grids import gen_kautz
from tutti.topologies.graphs.shortest_paths import diameter


@pytest.mark.parametrize("degree", [2, 3, 4, 5, 8])
def test_intervals_say_what_counting_at_all_nodes_does(degree):
    """N below d has parallel links, N = d + 1 is complete, N = d^k and its neighbours change D."""
    for nodes in (*range(3, 2 * degree + 12), degree**2 - 1, degree**2, degree**2 + 1, 61, 90, 125):
        if nodes < 3:
            continue
        work = workloads(gen_kautz(degree, nodes))
        assert kautz_peaks(degree, nodes) == work.peaks, nodes
        assert kautz_cost(degree, nodes) == (work.steps, work.tb), nodes


@given(degree=st.integers(2, 16), nodes=st.integers(3, 200))
def test_it_holds_for_any_degree_and_size(degree, nodes):
    """Max-flows count the loads from in-degree 11 on: a second algorithm."""
    work = workloads(gen_kautz(degree, nodes))
    assert kautz_peaks(degree, nodes) == work.peaks


@pytest.mark.parametrize(
    ("nodes", "steps", "tb"), [(64, 3, "1.312"), (1024, 5, "1.332")], ids=["A.1: 64", "A.1: 1024"]
)
def test_the_rows_of_table_a1_are_met(nodes, steps, tb):
    tl, exact = kautz_cost(4, nodes)
    assert tl == steps
    assert abs(exact - Fraction(tb)) <= Fraction(1, 2000)


@pytest.mark.parametrize(("degree", "times"), [(2, 9), (4, 4), (8, 2), (16, 2)])
def test_kautz_graphs_cost_what_theorem_10_says_of_line_graphs_of_complete_graphs(degree, times):
    """K(d, n) = L^n(K_{d+1}): T_B = d/(d + 1) + the sum of 1/N over the graphs before."""
    sizes = [(degree + 1) * degree**i for i in range(times + 1)]
    expected = Fraction(degree, degree + 1) + sum(Fraction(1, size) for size in sizes[:-1])
    assert kautz_cost(degree, sizes[-1]) == (times + 1, expected)


@pytest.mark.parametrize("degree", [2, 4, 8, 16])
def test_t_b_is_at_most_twice_the_least_and_t_l_one_above_moore(degree):
    """Fig. A.7 and Theorem 21, far past where counting at all nodes is cheap."""
    for nodes in (degree + 2, 1999, 2000):
        steps, tb = kautz_cost(degree, nodes)
        assert bandwidth_factor(nodes) <= tb <= 2 * bandwidth_factor(nodes)
        assert moore_optimal_steps(nodes, degree) <= steps <= moore_optimal_steps(nodes, degree) + 1
        assert steps == diameter(gen_kautz(degree, nodes))


def test_the_finder_predicts_with_it():
    cost = predict(Base("gen_kautz", (4, 1500)))
    assert (cost.tl, cost.tb) == kautz_cost(4, 1500)
    assert predict(Base("gen_kautz", (2, 2))).tl == 1, "two nodes: counted"


@pytest.mark.parametrize(("degree", "nodes"), [(1, 8), (4, 2)])
def test_too_small_ones_are_refused(degree, nodes):
    with pytest.raises(InputError, match=f"gen_kautz:{degree},{nodes}"):
        kautz_cost(degree, nodes)
