"""The papers' notation: the spellings of the reference tables, their trees, and error messages."""

import csv
import random
from pathlib import Path

import networkx as nx
import pytest

from tests.sweep import for_each
from tutti.topologies import (
    InputError,
    circulant,
    complete,
    complete_bipartite,
    diameter,
    gen_kautz,
    hamming,
    parse_topology,
    ring,
    torus,
    transpose,
    uniring,
)
from tutti.topologies.families.algebraic import distance_regular, johnson
from tutti.topologies.families.direct import (
    bidirectional_ring,
    de_bruijn,
    directed_circulant,
    kautz,
    unidirectional_ring,
)
from tutti.topologies.families.expressions import Base, Degree, LineGraph, Power, Product, parse_notation
from tutti.topologies.families.products import (
    cartesian_power,
    cartesian_product,
    degree_expansion,
    line_graph,
)

REFERENCE = Path(__file__).parents[2] / "data" / "reference"


def rows(table):
    with (REFERENCE / f"{table}.csv").open() as file:
        return [row for row in csv.DictReader(file) if row["topology"] != "bound"]


def isomorphic(one, other):
    graphs = [
        nx.MultiDiGraph(list(zip(x.source.tolist(), x.target.tolist(), strict=True))) for x in (one, other)
    ]
    return nx.is_isomorphic(*graphs)


@for_each("row", rows("table_A1_pareto_d4"))
def test_a_row_of_table_a1_has_its_size_degree_and_diameter(row):
    built = parse_topology(row["topology"])
    assert (built.num_ranks, built.degree) == (int(row["n"]), int(row["d"]))
    assert diameter(built) == int(row["diameter"])


@pytest.mark.parametrize("row", rows("table_3_4_n1024_d4"), ids=lambda row: row["topology"])
def test_a_row_of_table_3_4_has_1024_ranks_of_degree_4_and_its_diameter(row):
    built = parse_topology(row["topology"])
    assert (built.num_ranks, built.degree) == (1024, 4)
    assert diameter(built) == int(row["diameter"])


@pytest.mark.parametrize("row", rows("table_3_5_best_bidirectional_d4"), ids=lambda row: row["topology"])
def test_a_row_of_table_3_5_is_bidirectional_of_degree_4(row):
    built = parse_topology(row["topology"])
    assert (built.num_ranks, built.degree) == (int(row["n"]), 4)
    assert isomorphic(built, transpose(built))
    # BFB takes as many steps as the diameter, and allreduce twice that.
    assert 2 * diameter(built) == int(row["allreduce_tl_alpha"])


K_3, K_44, C16 = Base("complete", (3,)), Base("complete_bipartite", (4,)), Base("circulant", (16, 3, 4))
UNI4, UNI8 = Base("uniring", (1, 4)), Base("uniring", (1, 8))


@for_each(
    ("text", "expression"),
    [
        ("K_3", K_3),
        ("K(3)", K_3),
        ("K_{3}", K_3),
        (" K_ 3 ", K_3),
        ("K_{4,4}", K_44),
        ("K_{4;4}", K_44),
        ("K(2,3)", Base("kautz", (2, 3))),
        ("C(16,{3,4})", C16),
        ("C(16; {3; 4})", C16),
        ("Pi_{4,64}", Base("gen_kautz", (4, 64))),
        ("Π_{4,64}", Base("gen_kautz", (4, 64))),
        ("Pi(4,64)", Base("gen_kautz", (4, 64))),
        ("H(2,3)", Base("hamming", (2, 3))),
        ("J(4,2)", Base("johnson", (4, 2))),
        ("DBJ(4,4)", Base("debruijn", (4, 4))),
        ("DBJMod(2,4)", Base("modified_debruijn", (2, 4))),
        ("Diamond", Base("diamond")),
        ("DistReg(4,32)", Base("distance_regular", (4, 32))),
        ("DiCirculant(4)", Base("directed_circulant", (4,))),
        ("BiRing(2,8)", Base("biring", (2, 8))),
        ("32x32 torus", Base("torus", (32, 32))),
        ("2x3x4 torus", Base("torus", (2, 3, 4))),
        ("L(K_3)", LineGraph(K_3)),
        ("L^3(C(16,{3,4}))", LineGraph(C16, 3)),
        ("L(L(K_3))", LineGraph(LineGraph(K_3))),
        ("K(3) * 2", Degree(K_3, 2)),
        ("K_3 * 2 * 3", Degree(Degree(K_3, 2), 3)),
        ("Diamond^2", Power(Base("diamond"), 2)),
        ("K_3^2^3", Power(Power(K_3, 2), 3)),
        ("UniRing(1,4) x UniRing(1,8)", Product((UNI4, UNI8))),
        ("UniRing(1,4) × UniRing(1,8)", Product((UNI4, UNI8))),
        ("UniRing(1,4)□UniRing(1,8)", Product((UNI4, UNI8))),
        ("UniRing(1,4)xUniRing(1,8)", Product((UNI4, UNI8))),
        ("K_3xK_3", Product((K_3, K_3))),
        ("K_3 x K_3 x K_3", Product((K_3, K_3, K_3))),
        ("(K_3 x K_3) x K_3", Product((Product((K_3, K_3)), K_3))),
        ("(UniRing(1,4) x UniRing(1,8))^2", Power(Product((UNI4, UNI8)), 2)),
        ("BiRing(2,8) x UniRing(1,4)^2", Product((Base("biring", (2, 8)), Power(UNI4, 2)))),
        ("K_3 * 2 x K_3^2", Product((Degree(K_3, 2), Power(K_3, 2)))),
        ("K_3^2 * 2", Degree(Power(K_3, 2), 2)),
        ("(K_3 * 2)^2", Power(Degree(K_3, 2), 2)),
        ("(K_3 x K_3) * 2", Degree(Product((K_3, K_3)), 2)),
        ("(4x4 torus)^2", Power(Base("torus", (4, 4)), 2)),
        ("L(DBJMod(2,4)^2)", LineGraph(Power(Base("modified_debruijn", (2, 4)), 2))),
        ("((K_3))", K_3),
    ],
)
def test_a_text_is_read_as_its_tree_and_the_tree_writes_itself(text, expression):
    assert parse_notation(text) == expression
    assert parse_notation(str(expression)) == expression


@for_each(
    ("text", "built"),
    [
        ("K_5", complete(5)),
        ("K_{3,3}", complete_bipartite(3)),
        ("K(2,2)", kautz(2, 2)),
        ("C(16,{3,4})", circulant(16, 3, 4)),
        ("Pi_{4,64}", gen_kautz(4, 64)),
        ("H(2,3)", hamming(2, 3)),
        ("J(4,2)", johnson(4, 2)),
        ("DBJ(2,3)", de_bruijn(2, 3)),
        ("DistReg(4,32)", distance_regular(4, 32)),
        ("DiCirculant(4)", directed_circulant(4)),
        ("BiRing(4,5)", bidirectional_ring(4, 5)),
        ("BiRing(2,8)", ring(8)),
        ("UniRing(1,4)", uniring(4)),
        ("UniRing(2,4)", unidirectional_ring(2, 4)),
        ("4x4 torus", torus(4, 4)),
        ("L^2(K_3)", line_graph(line_graph(complete(3)))),
        ("K_3 * 2", degree_expansion(complete(3), 2)),
        ("BiRing(2,5)^2", cartesian_power(ring(5), 2)),
        ("BiRing(2,8) x UniRing(1,4)", cartesian_product(ring(8), uniring(4))),
    ],
)
def test_a_text_builds_the_network_that_its_operations_build(text, built):
    read = parse_topology(text)
    assert read == built
    assert read.degree == built.degree
    assert read.name == text


def test_the_network_keeps_its_expression_and_other_transforms_drop_it():
    built = parse_topology("L(K_3)?bandwidth=10GB/s&alpha=1us")
    assert built.expression == LineGraph(K_3)
    assert set(built.bandwidth) == {10**10}
    assert built.expression.topology().expression == LineGraph(K_3)
    assert built.expression.topology().name == "L(K_3)"
    assert transpose(built).expression is None
    assert parse_topology("L(K_3)?links=2").expression is None
    assert parse_topology("L(K_3)?drop_nodes=0>1").expression is None
    assert parse_topology("complete:3").expression is None


def test_labels_of_an_expansion_name_nodes_and_links_to_drop():
    assert "0>1" not in parse_topology("L(K_4)?drop_nodes=0>1").labels
    built = parse_topology("L(K_4)?drop_links=0>1>1>2")
    assert built.num_links == 12 * 3 - 1
    assert parse_topology("(K_3 x K_3)?drop_nodes=0.0,2.2").num_ranks == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("L(K_{4,4)", r"expected '}' at character 9: 'L\(K_\{4,4' <- here -> '\)'$"),
        ("K", r"expected '\(' or '_' at character 2: 'K' <- here -> 'the end'$"),
        ("K_", "expected a whole number below 10.9 at character 3"),
        ("K_{3,4}", "expected two equal sides of K_{d,d} at character 7"),
        ("K(1,2,3)", r"expected K_m, K_\{d,d\} or K\(d,n\) at character 8"),
        ("L", r"expected '\(' at character 2"),
        ("L K_3", r"expected '\(' at character 3: 'L ' <- here -> 'K_3'"),
        ("L^0(K_3)", "expected a whole number from 1 at character 3"),
        ("K_3^0", "expected a whole number from 1 at character 5"),
        ("K_3 * 0", "expected a whole number from 1 at character 7"),
        ("K_3 * K_3", "expected a whole number below 10.9 at character 7"),
        ("C(16,3,4)", "expected '{' at character 6"),
        ("C(16 {3})", "expected ',' at character 6"),
        ("DBJ(2)", r"expected 2 argument\(s\) of DBJ, not 1, at character 6"),
        ("Dbj(2,2)", "expected a known symbol; .* at character 1"),
        ("Dimond", r"expected a known symbol; did you mean 'Diamond'\? at character 1"),
        ("K_3 x", r"expected a network such as K_5, C\(16,\{3,4\}\) or L\(...\) at character 6"),
        ("K_3 K_3", r"expected an operator \(x, \*, \^\) or the end at character 5: 'K_3 ' <- here -> 'K_3'"),
        ("K_3 @", r"or the end at character 5: 'K_3 ' <- here -> '@'"),
        ("K_3)", "or the end at character 4"),
        ("(K_3", r"expected '\)' at character 5"),
        ("()", r"expected a network such as .* at character 2"),
        ("", "expected a network such as .* at character 1"),
        ("K_9999999999", "expected a whole number below 10.9 at character 3"),
        ("(" * 400, "expected at most 40 levels of parentheses at character 41"),
        ("L(" * 200, "expected at most 40 levels of parentheses"),
        ("K_3" + "^1" * 5000, "10003 characters; at most 500 are read"),
        ("K_3^" + "9" * 400, "expected a whole number below 10.9 at character 5"),
        ("9" * 400 + "x2 torus", "expected whole numbers below 10.9 at character 1"),
        ("K_3 x " * 20 + "K_", r"at character 123: '\.\.\.x K_3 x .*K_' <- here -> 'the end'$"),
    ],
)
def test_what_is_not_notation_is_refused_at_its_place(text, message):
    with pytest.raises(InputError, match=message) as caught:
        parse_notation(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "C(12,{2,4})",
            r"^topology 'C\(12,\{2,4\}\)': .* falls apart into 2 parts: the gcd .* is 2; it must be 1$",
        ),
        ("L(C(9,{3,6}))", "offsets 3 and 6 join the same ranks"),
        (
            "DBJ(2,3) * 2",
            r"DBJ\(2,3\) \* 2: degree expansion needs a network without self-loops; they are at 0, 7$",
        ),
        ("L(UniRing(3,1))", "directed_ring:3,1 has one node and only self-loops; at least 2 ranks$"),
        ("K_1", "complete:1 has 1 rank"),
        ("L(K_1)", "complete:1 has 1 rank"),
        ("BiRing(3,5)", "degree 3 is odd"),
        ("DistReg(4,33)", "no such distance-regular graph is built; there are n = 6, 9"),
        ("L^20(K_{4,4})", r"L\^20\(K_\{4,4\}\) has too many nodes"),
        ("K_3^99", r"K_3\^99 has too many nodes"),
        ("K_3^999999999", "too many nodes"),
        ("L^999999999(K_3)", "too many nodes"),
        ("Pi_{1,5}", "gen_kautz:1,5 is not strongly connected"),
    ],
)
def test_a_network_that_can_not_be_built_is_refused_in_one_line(text, message):
    with pytest.raises(InputError, match=message) as caught:
        parse_topology(text)
    assert "\n" not in str(caught.value)


def random_expression(rng, depth):
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(
            [K_3, K_44, C16, UNI4, Base("torus", (3, 4)), Base("diamond"), Base("kautz", (2, 2))]
        )
    kind = rng.choice([LineGraph, Degree, Power, Product])
    if kind is Product:
        return Product(tuple(random_expression(rng, depth - 1) for _ in range(rng.choice([2, 3]))))
    return kind(random_expression(rng, depth - 1), rng.choice([1, 2, 13]))


@for_each("seed", range(30))
def test_any_tree_is_read_back_from_its_text(seed):
    expression = random_expression(random.Random(seed), 3)
    assert parse_notation(str(expression)) == expression


def test_a_long_chain_of_operators_is_built_without_recursion_errors():
    assert parse_topology("K_3" + "^1" * 240).num_ranks == 3
    assert parse_topology("K_3" + " * 1" * 120).num_ranks == 3


def test_a_line_graph_that_never_grows_is_still_built():
    assert parse_topology("L^40(UniRing(1,4))").num_ranks == 4


@pytest.mark.parametrize("text", ["L(" * 12 + "K_5" + ")" * 12, "L(L(K_9 x K_9)^2)", "((K_9)^2 * 3)^4"])
def test_expansions_of_expansions_are_refused_before_they_are_built(text, monkeypatch):
    def build(*given):
        raise AssertionError("built before its size was known")

    for name in ("line_graph", "cartesian_power", "cartesian_product", "degree_expansion"):
        monkeypatch.setattr(f"tutti.topologies.families.expressions.{name}", build)
    with pytest.raises(InputError, match="too many nodes; at most 1048576"):
        parse_topology(text)


def test_expansions_of_expansions_that_fit_are_built():
    assert parse_topology("L(L(UniRing(1,4)^2))").num_ranks == 64  # 16 ranks of degree 2, doubled twice


@pytest.mark.parametrize("text", ["L^999999999(K_2)", "L^65(UniRing(1,5))"])
def test_a_line_graph_that_never_grows_is_not_taken_for_ever(text):
    times = text[2 : text.index("(")]
    with pytest.raises(InputError, match=rf"L\^{times} is too much; at most L\^64$"):
        parse_topology(text)


def test_digits_are_ascii():
    """Python's own int and regular expressions read digits of any script."""
    for text in ("K_\u0663", "C(8,{1,\u0663})", "(\u0664x\u0664 torus)"):
        with pytest.raises(InputError, match="expected "):
            parse_topology(text)


def test_factors_of_a_product_that_is_too_large_are_not_all_built(monkeypatch):
    """Each factor fits alone, but all together would not."""
    built = []
    plain = Base.topology

    def build(self, *given):
        built.append(self)
        return plain(self, *given)

    monkeypatch.setattr(Base, "topology", build)
    with pytest.raises(InputError, match="too many nodes; at most 1048576"):
        parse_notation(" x ".join(["K_200"] * 20)).topology()
    assert len(built) == 3
