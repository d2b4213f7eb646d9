"""The pictures of bottlenecks show what certificates say, link by link and node by node."""

import re
import xml.etree.ElementTree as ET
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from tests.experiments.report.test_page import report, row
from tests.sweep import for_each
from tutti.experiments.report.bottleneck import (
    GAIN,
    Gain,
    bounds,
    chart,
    colours_of,
    drawn,
    gain_sentence,
    known_collective,
    largest,
    names,
    read,
    sentence,
)
from tutti.models.bounds import Bound, lower_bounds
from tutti.schedules import collective
from tutti.topologies import Link, Topology, parse_topology

DRAWN = [
    "configs/networks/triangle.json", "mesh:4x4", "torus:3x5", "mesh:2x3x4", "dgx_a100:2", "dgx2:2",
    "mi250:1", "dgx_a100:4", "dragonfly:4x5", "gen_kautz:4,16", "gen_kautz:4,64",
]  # fmt: skip
KINDS = ("allgather", "allreduce", "all-to-all")


def picture(spec, kind):
    """Return a bottleneck and the tree of its picture, which parses as XML."""
    found, drawing = charted(spec, kind)
    return found, ET.fromstring(str(drawing))


def charted(spec, kind):
    topology = parse_topology(spec)
    found = read(topology, largest(bounds(topology, collective(kind, topology.num_ranks))))
    return found, chart(found, f"{spec}, {kind}")


def links_of(tree):
    return {int(e.get("data-link")): e for e in tree.iter() if e.get("data-link") is not None}


def nodes_of(tree):
    return {int(e.get("data-node")): e for e in tree.iter() if e.get("data-node") is not None}


def felt(tree):
    return {link for link, mark in links_of(tree).items() if "felt" in mark.get("class").split()}


def colour(mark):
    found = re.search(r"\bc(\d)\b", mark.get("class"))
    return None if found is None else int(found.group(1))


@for_each("spec", DRAWN)
def test_every_link_and_every_node_has_one_mark(spec):
    """Links are paths, ranks round with their numbers, switches square."""
    found, tree = picture(spec, "allgather")
    topology = found.topology
    marks = [e.get("data-link") for e in tree.iter("path")]
    assert sorted(map(int, marks)) == list(range(topology.num_links))
    nodes = nodes_of(tree)
    assert sorted(nodes) == list(range(topology.num_nodes))
    corners = [nodes[v].find("rect").get("rx") for v in range(topology.num_nodes)]
    width = float(nodes[0].find("rect").get("width"))
    assert [float(corner) for corner in corners[: topology.num_ranks]] == pytest.approx(
        [width / 2] * topology.num_ranks, abs=0.1
    )
    assert set(corners[topology.num_ranks :]) <= {"2.0"}
    assert [nodes[v].find("text").text for v in range(topology.num_nodes)] == [
        *map(str, range(topology.num_ranks)), *[None] * topology.num_switches,
    ]  # fmt: skip


@pytest.mark.parametrize("spec", ["mesh:4x4", "dgx_a100:2", "mi250:1", "gen_kautz:4,16"])
def test_the_nodes_of_a_cut_are_coloured_and_its_links_alone(spec):
    """An allgather's bound is a cut; its links are counted here from its nodes."""
    found, tree = picture(spec, "allgather")
    certificate = found.bound.certificate
    inside = {*certificate["ranks"], *certificate["switches"]}
    assert found.bound.kind == "cut"
    assert {node for node, mark in nodes_of(tree).items() if colour(mark) is not None} == inside
    topology = found.topology
    ends = enumerate(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    assert felt(tree) == {link for link, (a, b) in ends if a in inside and b not in inside}
    leaving = sum(topology.bandwidth[link] for link in felt(tree))
    assert leaving == Fraction(certificate["exit_bandwidth"]) == found.capacity


@pytest.mark.parametrize("spec", ["mesh:4x4", "dgx_a100:2", "dgx_a100:4", "mi250:1", "gen_kautz:4,16"])
def test_the_parts_of_an_allreduce_are_coloured_and_the_links_between(spec):
    found, tree = picture(spec, "allreduce")
    certificate = found.bound.certificate
    assert found.bound.kind == "partition"
    between = sum(found.topology.bandwidth[link] for link in felt(tree))
    assert between == Fraction(certificate["capacity"])
    nodes = nodes_of(tree)
    for part in certificate["parts"]:
        looks = {colour(nodes[node]) for node in part}
        assert len(looks) == 1
        assert (looks == {None}) == (len(part) == 1)


def test_neighbouring_parts_differ_in_colour():
    found, tree = picture("mi250:1", "allreduce")
    looks = {node: colour(mark) for node, mark in nodes_of(tree).items()}
    topology = found.topology
    for link in felt(tree):
        assert looks[int(topology.source[link])] != looks[int(topology.target[link])]


@pytest.mark.parametrize("spec", ["mesh:4x4", "dgx_a100:2", "mi250:1", "gen_kautz:4,16", "gen_kautz:4,64"])
def test_links_are_as_wide_as_they_are_long(spec):
    """An all-to-all's bound is the flow's; `links` in its certificate are marked, wider the longer."""
    found, tree = picture(spec, "all-to-all")
    certificate = found.bound.certificate
    assert found.bound.kind == "mcf"
    assert felt(tree) == set(certificate["links"])
    widths = {link: float(links_of(tree)[link].get("stroke-width")) for link in felt(tree)}
    lengths = [
        certificate["lengths"][link] for link in sorted(widths, key=lambda link: (-widths[link], link))
    ]
    assert all(a >= b * 0.99 for a, b in pairwise(lengths))  # widths have two decimals
    cut = certificate.get("cut")
    inside = set() if cut is None else {*cut["ranks"], *cut["switches"]}
    assert {node for node, mark in nodes_of(tree).items() if colour(mark) is not None} == inside


def test_parallel_links_with_one_length_each_keep_their_tips():
    links = [Link(0, 1), Link(0, 1), Link(1, 0), Link(1, 2), Link(2, 0), Link(2, 1), Link(0, 2)]
    topology = Topology.from_links("doubled", 3, links)
    certificate = {"lengths": [4, 2, 0, 1, 0, 0, 0], "links": [0, 1, 3]}
    found = read(topology, Bound("mcf", Fraction(1, 10**9), "s/B", certificate))
    marks = links_of(ET.fromstring(str(chart(found, "x"))))
    for link, share in enumerate(("1", "0.5", "0", "0.25")):
        assert marks[link].get("data-tip").endswith(f"length {share} of the longest")
    assert marks[0].get("d") != marks[1].get("d")
    assert "3 of 7 links have a length, the shortest 0.25 of the longest" in sentence(found)


def test_an_optimum_of_trees_is_not_called_a_bound_on_all():
    """Three cycles where the LP's optimum is above the partition bound; its certificate is checked."""
    cycles = {(4, 1, 0, 5): 150, (3, 4, 5, 2): 150, (2, 0): 50}
    links = [
        Link(a, b, Fraction(width * 10**9))
        for cycle, width in cycles.items()
        for a, b in pairwise((*cycle, cycle[0]))
    ]
    topology, what = Topology.from_links("cycles", 6, links), collective("allreduce", 6)
    found = read(topology, largest(bounds(topology, what)))
    found.bound.check(topology, what)
    assert found.bound.kind == "lp"
    assert all(found.bound.value > bound.value for bound in lower_bounds(topology, what))
    tree = ET.fromstring(str(chart(found, "x")))
    lengths = found.bound.certificate["lengths"]
    assert felt(tree) == {link for link, length in enumerate(lengths) if length}
    assert {colour(mark) for mark in nodes_of(tree).values()} == {None}
    assert "GB/s, for tree schedules: " in sentence(found)
    assert drawn(topology, what, "allreduce", 0).gain.proof == "trees"


def test_the_degree_bound_marks_one_rank_and_its_links():
    topology = parse_topology("ring:4")
    bound = next(b for b in lower_bounds(topology, collective("allgather", 4)) if b.kind == "degree")
    found = read(topology, bound)
    node = bound.certificate["node"]
    end = topology.source if bound.certificate["direction"] == "out" else topology.target
    assert np.flatnonzero(found.felt).tolist() == np.flatnonzero(end == node).tolist()
    assert [look is not None for look in colours_of(found)] == [v == node for v in range(4)]


def test_sentences_have_the_numbers_of_the_certificate():
    """Two narrow links of 50 GB/s each lead into rank 0 of the triangle: 2/3 M over 100 GB/s."""
    found, _ = picture("configs/networks/triangle.json", "allgather")
    assert sentence(found) == (
        "Cut bound, algbw at most 150 GB/s: 2/3 M must go out of ranks 1–2, over 2 links of 100GB/s together."
    )
    found, _ = picture("configs/networks/triangle.json", "allreduce")
    assert sentence(found) == (
        "Partition bound, algbw at most 100 GB/s: 3 parts, each rank by itself; 4 M must go between them, "
        "over 6 links of 400GB/s together."
    )


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ([3], "rank 3"),
        ([0, 1, 2, 5], "ranks 0–2, 5"),
        ([0, 16, 17], "rank 0 and switches 16–17"),
        ([0, 2, 4, 6, 8, 10, 12], "ranks 0, 2, 4, 6, 8, 10, ... (7 in all)"),
    ],
)
def test_nodes_are_named_in_runs(nodes, text):
    assert names(16, nodes) == text


def test_a_large_network_gets_bars_of_its_cut_and_a_curve_of_its_lengths():
    """A corner of a 9 x 9 mesh: 80 of 81 ranks send over 2 of 288 links."""
    found, figure = charted("mesh:9x9", "allgather")
    assert figure.chart == "parts"
    assert list(figure.data.percent) == pytest.approx([8000 / 81, 200 / 288, 200 / 288])
    assert figure.data.told[0] == "80 of 81"
    found, figure = charted("mesh:9x9", "all-to-all")
    lengths = sorted(found.bound.certificate["lengths"], reverse=True)
    assert figure.chart == "lengths"
    assert list(figure.data.percent)[:-1] == [
        100 * v / lengths[0] for v in sorted(set(lengths), reverse=True)
    ]
    assert [lengths.index(v) for v in sorted(set(lengths), reverse=True)] == list(figure.data.links)[:-1]
    assert figure.data.links.iloc[-1] == 288


@pytest.mark.parametrize(
    ("spec", "halves", "whole"),
    [  # docs/allreduce.md: congestion in M/b with links of b = 50 GB/s
        ("configs/networks/triangle.json", Fraction(2, 3), Fraction(1, 2)),
        ("mesh:2x3", Fraction(5, 6), Fraction(5, 7)),
        ("mesh:3x3", Fraction(8, 9), Fraction(2, 3)),
        ("mesh:5x5", Fraction(24, 25), Fraction(3, 5)),
        ("ring:8", Fraction(7, 8), Fraction(7, 8)),
    ],
)
def test_the_gain_is_that_of_the_table_in_the_docs(spec, halves, whole):
    topology = parse_topology(spec)
    gained = drawn(topology, collective("allreduce", topology.num_ranks), "allreduce", 0).gain
    unit = Fraction(1, 50 * 10**9)
    assert (gained.halves, gained.whole, gained.proof) == (halves * unit, whole * unit, "optimal")
    assert gained.ratio == halves / whole


def test_the_gain_has_two_bars_as_long_as_their_algbw():
    """On an n x n mesh an allreduce is 2 - 2/n times as fast."""
    topology = parse_topology("mesh:4x4")
    panels = drawn(topology, collective("allreduce", 16), "allreduce", 3).panels
    assert [(panel.title, panel.looks) for panel in panels] == [("allreduce", "k3"), (GAIN, "k3")]
    halves, whole = panels[1].chart.data.algbw_gbps
    assert whole / halves == pytest.approx(1.5)
    assert panels[1].note.startswith("1.5 (3/2) times as fast.")


@pytest.mark.parametrize("proof", ["optimal", "trees", "bound"])
def test_the_sentence_on_the_gain_claims_no_more_than_is_proven(proof):
    text = gain_sentence(Gain(Fraction(3), Fraction(2), proof))
    assert ("nothing is faster" in text) == (proof == "optimal")
    assert ("tree schedules" in text) == (proof == "trees")
    assert ("perhaps nothing meets" in text) == (proof == "bound")
    assert "Nothing is gained" in gain_sentence(Gain(Fraction(2), Fraction(2), proof))


def test_other_collectives_have_no_gain():
    topology = parse_topology("ring:4")
    assert drawn(topology, collective("allgather", 4), "allgather", 0).gain is None
    pairs = collective("allreduce", 4, groups=[[0, 1], [2, 3]])
    assert drawn(topology, pairs, "allreduce", 0).gain is None


def test_a_row_that_says_more_than_a_kind_is_not_guessed_at():
    assert known_collective("allgather", 4) == collective("allgather", 4)
    assert known_collective("allgather(shards=1,2)", 2) is None


def test_the_page_has_the_pictures_and_a_table_of_gains(tmp_path):
    """The triangle's allreduce: 100 GB/s, 75 after each other."""
    spec = "configs/networks/triangle.json"
    rows = [row(topology=name, collective=kind) for name in (spec, "nowhere") for kind in KINDS]
    page = report(tmp_path, rows)
    figures = [e["attrs"]["aria-label"] for e in page.all("svg", "chart", page.section(0))]
    assert [label for label in figures if label.startswith("bottleneck")] == [
        f"bottleneck, {spec}, {kind}" for kind in KINDS
    ]
    assert len(page.all("path", "link", page.section(0))) == 3 * 6
    assert not page.all("path", "link", page.section(1))
    table = next(e for e in page.all("table") if "times as fast" in e["text"])
    assert [cell["text"] for cell in page.all("td", None, table)][1:] == ["75", "100", "1.333", "optimal"]


def test_a_run_without_allreduces_has_no_table_of_gains(tmp_path):
    page = report(tmp_path, [row()])
    assert not any("times as fast" in e["text"] for e in page.all("table"))
