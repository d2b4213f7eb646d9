"""The bottleneck cut: Newton's method and Algorithm 1 against all cuts, and the papers' platforms."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tutti.models.bounds.bottleneck_cut import binary_search_cut, bottleneck_cut
from tutti.topologies import InputError, Link, Topology
from tutti.topologies.text import parse_topology

METHODS = [bottleneck_cut, binary_search_cut]


def random_network(seed, eulerian):
    """Random networks of up to 7 ranks and 3 switches: cycles of equal bandwidth, or links over one cycle."""
    rng = np.random.default_rng(seed)
    ranks, switches = int(rng.integers(2, 8)), int(rng.integers(0, 4))
    nodes = ranks + switches
    cycles = [
        rng.permutation(nodes),
        *(rng.permutation(nodes)[: rng.integers(2, nodes + 1)] for _ in range(3)),
    ]
    links = []
    for cycle in cycles:
        bandwidth = int(rng.integers(1, 9))
        links += [
            Link(int(a), int(b), Fraction(bandwidth)) for a, b in zip(cycle, np.roll(cycle, -1), strict=True)
        ]
    if not eulerian:
        links += [
            Link(int(a), int(b), Fraction(int(rng.integers(1, 9)), int(rng.integers(1, 4))))
            for a, b in rng.integers(0, nodes, (4, 2))
            if a != b
        ]
    return Topology.from_links(f"random {seed}", ranks, links, num_switches=switches)


def worst_ratio(topology, weights, sinks):
    """Try every set of nodes."""
    links = [topology.link(i) for i in range(topology.num_links)]
    best = Fraction(0)
    for inside in product((False, True), repeat=topology.num_nodes):
        weight = sum(w for w, there in zip(weights, inside, strict=False) if there)
        if weight and not all(inside[sink] for sink in sinks):
            exits = sum(k.bandwidth for k in links if inside[k.source] and not inside[k.target])
            best = max(best, weight / exits)
    return best


@pytest.mark.parametrize("find", METHODS)
@pytest.mark.parametrize("eulerian", [True, False])
def test_the_ratio_is_the_worst_of_all_cuts(find, eulerian):
    for seed in range(12):
        topology = random_network(seed, eulerian)
        ranks = range(topology.num_ranks)
        assert find(topology).ratio == worst_ratio(topology, [Fraction(1)] * len(ranks), ranks)


@pytest.mark.parametrize("find", METHODS)
def test_weights_and_sinks_count(find):
    for seed in range(12):
        topology = random_network(100 + seed, eulerian=False)
        rng = np.random.default_rng(seed)
        ranks = topology.num_ranks
        weights = [Fraction(int(w), 6) for w in rng.integers(0, 7, ranks)]
        sinks = rng.choice(ranks, size=int(rng.integers(1, ranks + 1)), replace=False).tolist()
        assert find(topology, weights, sinks).ratio == worst_ratio(topology, weights, sinks)


@pytest.mark.parametrize("find", METHODS)
def test_the_cut_certifies_its_ratio(find):
    for seed in range(12):
        topology = random_network(200 + seed, eulerian=False)
        cut = find(topology)
        links = [topology.link(i) for i in range(topology.num_links)]
        exits = sum(k.bandwidth for k in links if cut.inside[k.source] and not cut.inside[k.target])
        inside = cut.inside[: topology.num_ranks]
        assert not inside.all()
        assert (cut.weight, cut.exit_bandwidth) == (inside.sum(), exits)
        assert cut.ratio == Fraction(int(inside.sum())) / exits


@pytest.fixture
def two_boxes():
    """Figure 4.5(a): 2 boxes of 4 ranks, 10b to the box's switch and b to the global one; b = 1."""
    links = []
    for rank in range(8):
        for switch, bandwidth in ((8 + rank // 4, 10), (10, 1)):
            links += [Link(rank, switch, Fraction(bandwidth)), Link(switch, rank, Fraction(bandwidth))]
    return Topology.from_links("figure 4.5", 8, links, num_switches=3)


@pytest.mark.parametrize("find", METHODS)
def test_figure_4_5_is_bottlenecked_by_a_box(find, two_boxes):
    """4.4: four shards leave the box over 4b, so that 1/x* = 1/b; a box's complement is as tight."""
    cut = find(two_boxes)
    assert cut.ratio == 1
    assert sorted(np.flatnonzero(cut.inside[:8]).tolist()) in ([0, 1, 2, 3], [4, 5, 6, 7])


@pytest.mark.parametrize("find", METHODS)
def test_a_broadcast_is_bound_by_its_smallest_max_flow(find):
    """Menger: from 0 to 2 over the path 0-1-2 with bandwidths 3 and 2 flow 2."""
    links = [Link(a, b, Fraction(w)) for x, y, w in ((0, 1, 3), (1, 2, 2)) for a, b in ((x, y), (y, x))]
    topology = Topology.from_links("path", 3, links)
    cut = find(topology, weights=[1, 0, 0])
    assert (cut.ratio, cut.inside.tolist()) == (Fraction(1, 2), [True, True, False])


@pytest.mark.parametrize("find", METHODS)
def test_data_that_has_arrived_makes_no_cut(find, two_boxes):
    assert find(two_boxes, weights=[1, *[0] * 7], sinks=[0]).ratio == 0


@pytest.mark.parametrize("find", METHODS)
def test_numbers_that_do_not_fit_are_refused_in_one_line(find):
    near = [Link(0, 1, Fraction(2**61 - 1)), Link(1, 0, Fraction(2**61 - 3)), Link(1, 2), Link(2, 1)]
    topology = Topology.from_links("near", 3, near)
    with pytest.raises(InputError, match=r"^bottleneck cut of near: .* does not fit 64 bits \(at most \d+\)"):
        find(topology, weights=[31, 17, 11])


@pytest.mark.parametrize("find", METHODS)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"weights": [1]}, "give 8 weights, one a rank and none negative"),
        ({"weights": [-1, *[1] * 7]}, "give 8 weights, one a rank and none negative"),
        ({"sinks": [8]}, r"sinks must be ranks 0\.\.7, and at least one"),
        ({"sinks": []}, r"sinks must be ranks 0\.\.7, and at least one"),
    ],
)
def test_wrong_weights_and_sinks_are_refused(find, given, message, two_boxes):
    with pytest.raises(InputError, match=f"bottleneck cut of figure 4.5: {message}"):
        find(two_boxes, **given)


ALGBW = {
    "dgx_a100:1": "342.857",
    "dgx_a100:2": "346.667",
    "dgx_a100:4": "266.667",
    "dgx_a100:16": "213.333",
    "dgx_a100:128": "201.575",
    "mi250:2": "354.133",
    "mi250:64": "260.063",
}
"""N x* in GB/s, to three decimals."""


@pytest.mark.parametrize(("text", "algbw"), ALGBW.items())
def test_the_limit_of_allgather_on_platforms(text, algbw):
    topology = parse_topology(text)
    ratio = bottleneck_cut(topology).ratio
    assert f"{float(topology.num_ranks / ratio / 10**9):.3f}" == algbw


@pytest.mark.parametrize(
    "text", ["dgx_a100:1", "dgx_a100:2", "dgx_a100:4", "mi250:2", "torus:4x5", "mesh:3x4"]
)
def test_both_methods_agree_on_platforms_and_families(text):
    topology = parse_topology(text)
    assert bottleneck_cut(topology).ratio == binary_search_cut(topology).ratio
