"""The picture: a path a link that says what it is, two directions apart, shades by load over bandwidth."""

import xml.etree.ElementTree as ET
from fractions import Fraction

import numpy as np
import pytest

from tutti.experiments.show.drawing import LEVELS, draw, levels, picture
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Link, Topology

SVG = "{http://www.w3.org/2000/svg}"


def parsed(topology, loads=None):
    text = str(draw(topology, loads)).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return ET.fromstring(text)


def links(svg):
    """The links by number: groups of a title and paths."""
    ways = [way for way in svg.iter(f"{SVG}g") if way.get("class") == "way"]
    return {int(way.find(f"{SVG}path").get("data-link")): way for way in ways}


@pytest.mark.parametrize("text", ["ring:2", "dgx_a100:2", "biring:4,8", "rfs:2x2x2"])
def test_every_link_and_node_is_there_once(text):
    topology = parse_topology(text)
    svg = parsed(topology)
    assert sorted(links(svg)) == list(range(topology.num_links))
    assert [int(g.get("data-node")) for g in svg.iter(f"{SVG}g") if g.get("data-node")] == list(
        range(topology.num_nodes)
    )


def test_hovering_says_which_link_its_bandwidth_alpha_and_load():
    topology = parse_topology("mesh:2x1?bandwidth=25GB/s&alpha=2us")
    svg = parsed(topology, np.array([62500.0, 0.0]))
    assert links(svg)[0].find(f"{SVG}title").text == "0->1: 25GB/s, α 2 µs, carries 62.5 KB in 2.5 µs"
    assert links(svg)[1].find(f"{SVG}title").text == "1->0: 25GB/s, α 2 µs, carries 0 B in 0 µs"


def test_the_text_alternative_names_the_busiest_link():
    topology = parse_topology("ring:4")
    loads = np.zeros(topology.num_links)
    loads[3] = 1e6
    label = parsed(topology, loads).get("aria-label")
    assert label.startswith(f"ring:4: 4 ranks, 8 links; {topology.link_name(3)}: ")
    assert label.endswith("7 links are idle")


def test_shades_compare_bytes_over_bandwidth():
    slow, fast = Fraction(10**9), Fraction(10**10)
    topology = Topology.from_links("x", 2, [Link(0, 1, slow), Link(1, 0, fast), Link(1, 0, fast)])
    # 1 ms, 0.4 ms and nothing: the busiest, two fifths of it, idle.
    assert levels(topology, np.array([1e6, 4e6, 0.0])).tolist() == [LEVELS, 2, 0]
    assert levels(topology, np.zeros(3)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("text", ["ring:2", "torus:4x4", "complete:8", "biring:4,4"])
def test_links_between_the_same_nodes_lie_apart(text):
    drawn = picture(parse_topology(text))
    middles = drawn.curves.transpose(1, 0, 2) * np.array([1, 2, 1])[:, None, None] / 4
    places = {tuple(np.round(middle, 1)) for middle in middles.sum(axis=0)}
    assert len(places) == len(drawn.curves)


def test_labels_are_escaped():
    topology = Topology.from_links("<i>", 2, [Link(0, 1), Link(1, 0)], labels=["<b>", '"&'])
    svg = parsed(topology)
    assert svg.get("aria-label") == "<i>: 2 ranks, 2 links"
    assert {path.find(f"{SVG}title").text.split(":")[0] for path in links(svg).values()} == {
        '<b>->"&',
        '"&-><b>',
    }


@pytest.mark.parametrize("text", ["torus:4x4x4", "dgx_h100:4", "gen_kautz:4,64", "ring:8"])
def test_all_is_inside_the_picture(text):
    drawn = picture(parse_topology(text))
    t = np.linspace(0, 1, 20)[:, None, None]
    start, control, end = drawn.curves.transpose(1, 0, 2)
    curves = (1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end
    marks = np.concatenate([curves.reshape(-1, 2), drawn.at - drawn.radius, drawn.at + drawn.radius])
    assert marks.min() >= 0
    assert (marks.max(axis=0) <= drawn.size).all()
