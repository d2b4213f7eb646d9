"""Algorithms by dimension: lines against what they must do, loads of Themis by hand, and what is refused."""

import json
from fractions import Fraction

import numpy as np
import pytest

from tests.sweep import for_each
from tests.topologies.networks import ACROSS, IN_ORDER, cluster_document
from tutti.experiments.registry import METHODS
from tutti.heuristics.classic.by_dimension import (
    ShardPart,
    balanced_orders,
    line_bandwidths,
    line_transfers,
    spread,
)
from tutti.schedules.cost import congestion, link_loads, step_cost
from tutti.topologies import InputError, Unsupported
from tutti.topologies.graphs.grid_structure import Grid, LineKind, grid_of
from tutti.topologies.text import parse_topology

KINDS = ("allgather", "reduce-scatter", "allreduce")
GRIDS = (
    "ring:6",
    "torus:4x3",
    "torus:2x3x4",
    "mesh:3x4",
    "hypercube:3",
    "rfs:2x4x4",
    "switch2d:3x4",
    "dgx_a100:2",
)


def replay(rows, ranks):
    """The data that each rank has at the end; a step sends what was there before it; nothing comes twice."""
    has = np.eye(ranks, dtype=bool)
    for step in range(1, int(rows.step.max()) + 1):
        before = has.copy()
        for s, a, b, c in zip(*rows, strict=True):
            if s == step:
                assert before[a, c]
                assert not has[b, c]
                has[b, c] = True
    return has


@for_each(
    ("line", "size"),
    [(line, size) for line in LineKind for size in (2, 3, 4, 7, 8) if (line, size) != (LineKind.RING, 2)],
)
@pytest.mark.parametrize("way", [1, -1])
def test_a_line_gathers_everything_and_nothing_twice(line, size, way):
    rows = line_transfers(line, size, way)
    assert replay(rows, size).all()
    if line is LineKind.PATH:
        assert set(np.abs(rows.target - rows.source).tolist()) == {1}
    if line is LineKind.RING:
        assert set(((rows.target - rows.source) * way % size).tolist()) == {1}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_a_shard_arrives_in_the_phase_of_the_last_dimension_in_which_it_is_away(order):
    grid = Grid((2, 3, 4), (LineKind.PATH, LineKind.RING, LineKind.COMPLETE))
    rows = spread(grid, ShardPart(order))
    assert replay(rows, 24).all()
    length = [1, 2, 1]  # steps of a path of 2, a ring of 3, a complete line
    ends = np.cumsum([0, *(length[i] for i in order)])
    place = np.stack(np.unravel_index(np.arange(24), grid.shape))
    for step, _, target, chunk in zip(*rows, strict=True):
        away = [i for i, dimension in enumerate(order) if place[dimension, target] != place[dimension, chunk]]
        assert ends[away[-1]] < step <= ends[away[-1] + 1]


@for_each("name", ["torus_rings", "blueconnect", "themis"])
@for_each("text", GRIDS)
@pytest.mark.parametrize("kind", KINDS)
def test_schedules_are_legal_on_every_grid(made, name, text, kind):
    if name == "torus_rings" and text in {"rfs:2x4x4", "switch2d:3x4", "dgx_a100:2"}:
        with pytest.raises(Unsupported, match="torus_rings needs a torus or mesh"):
            made(METHODS[name], text, kind)
        return
    made(METHODS[name], text, kind)


@for_each("name", ["blueconnect", "themis"])
@for_each("text", ["dgx_a100:2?drop_nodes=0", "dgx_a100:2?ranks=8+4", "dgx_h100:2?ranks=1+2"])
def test_hosts_of_unequal_size_are_no_dimension(made, name, text):
    with pytest.raises(Unsupported, match=r"is none, with hosts of unequal size \([178], [248] ranks\)"):
        made(METHODS[name], text, "allreduce")


def test_the_traditional_torus_has_the_papers_steps(made):
    """The sum of d_i - 1, as the 62 α of row 32x32 in the dissertation's Table 3.4; T_B = (N - 1)/N."""
    schedule = METHODS["torus_rings"]
    from tutti.schedules import Problem, collective

    torus = parse_topology("torus:8x8")
    cost = step_cost(
        schedule.synthesize(Problem(torus, collective("allgather", 64)), schedule.options(), None)
    )
    assert (cost.tl_steps, cost.tb) == (14, Fraction(63, 64))


def test_blueconnect_moves_most_along_the_first_dimension(made):
    """4x4 torus, allgather, last dimension first: 3 shards of each rank along it, then 12 along the first."""
    schedule = made(METHODS["blueconnect"], "torus:4x4", options={"chunks": 1})
    assert step_cost(schedule).tl_steps == 6
    assert congestion(schedule) == Fraction(12, 16) / 2 / Fraction(50 * 10**9)


def test_blueconnect_gathers_within_machines_last(made):
    """2 boxes of 8 A100: a shard over each adapter, M/16; then 7 pairs of shards into each GPU, 300 GB/s."""
    schedule = made(METHODS["blueconnect"], "dgx_a100:2", options={"chunks": 1})
    assert congestion(schedule) == Fraction(7 * 2, 16) / (300 * 10**9)
    loads = {Fraction(int(load), schedule.chunks.denominator) for load in link_loads(schedule)}
    assert loads == {Fraction(1, 16), Fraction(7 * 2, 16)}


def test_themis_alternates_on_a_square_and_halves_what_blueconnect_needs(made):
    """Two chunks, one each order: a link carries (12 + 3) / 16 / 2 of half of M each way."""
    schedule = made(METHODS["themis"], "torus:4x4", options={"chunks": 2})
    assert congestion(schedule) == Fraction(15, 16) / 4 / Fraction(50 * 10**9)


def test_themis_weighs_dimensions_by_bandwidth():
    """The times 3/4 of D at rate 4 and 3/16 at rate 1 are equal, so the order repeats."""
    grid = Grid((4, 4), (LineKind.SWITCH, LineKind.SWITCH))
    orders = balanced_orders(grid, [Fraction(4), Fraction(1)], 3, (0, 1))
    assert orders == [(0, 1), (0, 1), (0, 1)]
    assert balanced_orders(grid, [Fraction(1), Fraction(4)], 2, (0, 1)) == [(0, 1), (1, 0)]
    assert balanced_orders(grid, [Fraction(1), Fraction(4)], 2, (1, 0)) == [(1, 0), (1, 0)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torus:4x4", [100, 100]),
        ("mesh:4x4?bandwidth=100GB/s,25GB/s", [100, 25]),
        ("rfs:2x4x8?bandwidth=200GB/s,100GB/s,50GB/s", [200, 300, 50]),
        ("complete:5", [200]),
        ("dgx_a100:2", [25, 300]),  # InfiniBand between boxes, NVSwitch inside
        ("fat_tree:4,8,2,3?bandwidth=50GB/s", [50, 50]),  # the link to the leaf is the way to all
        ("dgx_a100:3?ranks=1+1+1&drop_links=nvswitch0>0", [25]),  # and a switch that leads nowhere
    ],
)
def test_a_rank_sends_along_a_dimension_what_its_links_there_have(text, expected):
    topology = parse_topology(text)
    rates = line_bandwidths(topology, grid_of(topology))
    assert rates == [Fraction(rate * 10**9) for rate in expected]


@pytest.mark.parametrize("chunks", [0, -1, True, 1.5, "4"])
def test_chunks_must_be_a_positive_integer(chunks):
    with pytest.raises(InputError, match=r"chunks is .*; it must be an integer of at least 1"):
        METHODS["themis"].options(chunks=chunks)


DIMENSIONS = "a network in dimensions whose lines are .*, such as torus, mesh, hypercube, switch2d or rfs"


@pytest.mark.parametrize("text", ["dragonfly:4x5", "circulant:8,1,3", "gen_kautz:2,8"])
@pytest.mark.parametrize(
    ("name", "need"),
    [
        ("torus_rings", "a torus or mesh"),
        ("swing", "a torus whose sides are powers of two"),
        ("blueconnect", DIMENSIONS),
        ("themis", DIMENSIONS),
    ],
)
def test_a_refusal_names_networks_that_the_method_takes(made, name, need, text):
    with pytest.raises(Unsupported, match=rf"{name} needs {need}; {text} is none"):
        made(METHODS[name], text)


@for_each("text", ["torus:3x4", "mesh:2x3", "hypercube:3", "switch2d:2x3", "rfs:2x2x2"])
@pytest.mark.parametrize("name", ["blueconnect", "themis"])
def test_what_the_refusal_names_is_taken(made, name, text):
    made(METHODS[name], text)


@for_each(("name", "most"), [("blueconnect", 1 / 8), ("themis", 1 / 4)])
@for_each("host_of", [IN_ORDER, ACROSS])
def test_hosts_are_dimensions_however_ranks_are_numbered(made, tmp_path, name, most, host_of):
    """Every shard of M/8 crosses once, while it is alone, over 25 GB/s; Themis has some cross later."""
    path = tmp_path / "net.json"
    path.write_text(json.dumps(cluster_document(host_of)))
    schedule = made(METHODS[name], str(path))
    speed = schedule.topology.bandwidth.numerators
    loads = link_loads(schedule)[speed == speed.min()] / schedule.chunks.denominator
    assert loads.max() <= most
    assert "hosts inferred from the links" in schedule.stats["note"]
    assert "note" not in made(METHODS[name], str(path), options={"infer_hosts": False}).stats


def test_hosts_that_make_a_network_of_no_line_a_grid_may_be_inferred(made, tmp_path):
    """Two boxes of three GPUs joined by links, and a switch outside: dimensions only by hosts."""
    document = {
        "directed": False,
        "nodes": [*({"id": i, "kind": "compute"} for i in range(6)), {"id": "ib", "kind": "switch"}],
        "edges": [
            *({"source": a, "target": b, "bandwidth": "64GB/s", "alpha": "0us"} for a, b in PAIRS_OF_BOXES),
            *({"source": a, "target": "ib", "bandwidth": "25GB/s", "alpha": "0us"} for a in range(6)),
        ],
    }
    path = tmp_path / "net.json"
    path.write_text(json.dumps(document))
    assert "2 hosts of 3 ranks each (0-2; 3-5)" in made(METHODS["blueconnect"], str(path)).stats["note"]
    with pytest.raises(Unsupported, match="blueconnect needs a network in dimensions"):
        made(METHODS["blueconnect"], str(path), options={"infer_hosts": False})


PAIRS_OF_BOXES = ((0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5))
