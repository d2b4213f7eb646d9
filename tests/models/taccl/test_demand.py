"""Chunks, the links that may carry them, and their symmetry."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from tests.models.taccl.cases import changed, demand, written
from tutti.models.taccl import METHOD, read_sketch, shipped_sketches
from tutti.models.taccl.demand import (
    PathRules,
    _allowed,
    demand_of,
    found_symmetry,
    with_symmetry,
)
from tutti.models.taccl.logical import logical_links
from tutti.schedules import Problem, collective
from tutti.schedules.schedule import Chunks
from tutti.topologies.errors import NoSchedule
from tutti.topologies.text import parse_topology


@pytest.mark.parametrize("name", shipped_sketches())
def test_the_symmetry_of_every_shipped_sketch_is_one(name):
    machine = "dgx2:2" if name.startswith("dgx2") else "ndv2:2"
    sketch, topology = read_sketch(name), parse_topology(machine)
    logical = logical_links(topology, sketch)
    what = collective("allgather", topology.num_ranks)
    demand = demand_of(logical, what, Chunks.even(what), Fraction(10**6), PathRules(sketch))
    whole = with_symmetry(demand, what, sketch)
    assert len(whole.symmetry) == len(sketch.symmetry)


def test_an_infeasible_sketch_names_the_chunk_and_the_pair(tmp_path):
    """Rank 3 of a box is on no switch of its sketch, so no chunk gets there."""
    document = changed("intranode_sketch.switches", [[r for r in range(16) if r != 3]])
    document["symmetry_offsets"] = []
    sketch, topology = read_sketch(written(tmp_path, document)), parse_topology("dgx2:2")
    what = collective("allgather", 32)
    with pytest.raises(NoSchedule, match=r"leaves chunk 0 no way from rank 0 to rank 3 "):
        demand_of(
            logical_links(topology, sketch),
            what,
            Chunks.even(what),
            Fraction(10**6),
            PathRules(sketch),
        )


def test_a_symmetry_that_the_relay_map_lacks_names_both_links(tmp_path):
    """Relay 1 for all: what rank 0 has for 16 goes 0->1, and its image under [2, 16] may not go 2->3."""
    sketch = read_sketch(written(tmp_path, changed("internode_sketch.chunk_to_relay_map", [16, 1])))
    topology, what = parse_topology("dgx2:2"), collective("all-to-all", 32)
    logical = logical_links(topology, sketch)
    demand = demand_of(logical, what, Chunks.even(what), Fraction(10**6), PathRules(sketch))
    message = (
        r"its symmetry takes chunk \d+ on link \S+ to chunk \d+ on \S+, and chunk_to_relay_map allows only"
    )
    with pytest.raises(NoSchedule, match=message):
        with_symmetry(demand, what, sketch)


def test_a_rooted_collective_drops_the_symmetry_that_moves_its_root():
    sketch, topology = read_sketch("ndv2-sk-1"), parse_topology("ndv2:2")
    logical = logical_links(topology, sketch)
    what = collective("broadcast", 16)
    demand = demand_of(logical, what, Chunks.even(what), Fraction(10**6), PathRules(sketch))
    assert with_symmetry(demand, what, sketch).symmetry == ()
    assert np.array_equal(demand.start, [0])


def test_no_element_of_a_found_symmetry_fixes_two_ranks():
    for text in ("mesh:3x3", "torus:3x3", "hypercube:3", "ring:6"):
        generators = [tuple(p.ranks.tolist()) for p in found_symmetry(parse_topology(text))]
        assert generators, text
        identity = tuple(range(len(generators[0])))
        group, queue = {identity}, [identity]
        for element in queue:
            for g in generators:
                product = tuple(g[i] for i in element)
                if product not in group:
                    group.add(product)
                    queue.append(product)
        assert all(sum(a == b for a, b in zip(g, identity, strict=True)) <= 1 for g in group - {identity})


def test_the_shortest_path_rule_contradicts_the_relay_map_of_the_published_sketch():
    """An all-to-all with dgx2-sk-1: 0 -> 1 -> 16 -> 18 by the map, but 0 -> 3 -> 18 is shorter."""
    topology = parse_topology("dgx2:2")
    problem = Problem(topology, collective("all-to-all", 32), Fraction(2**20))
    message = (
        r"^taccl: dgx2-sk-1 leaves chunk 36 no way from rank 0 to rank 18 within the ranks on shortest "
        r"paths \(logical\); chunk_to_relay_map sends it by rank 1$"
    )
    with pytest.raises(NoSchedule, match=message):
        METHOD.synthesize(
            problem, METHOD.options(sketch="dgx2-sk-1", paths="logical"), np.random.default_rng(0)
        )
    sketch = read_sketch("dgx2-sk-1")
    what = problem.collective
    allowed = demand_of(
        logical_links(topology, sketch),
        what,
        Chunks.even(what),
        Fraction(2**20),
        PathRules(sketch),
    )
    assert len(allowed) == 32 * 31


def on_shortest_paths(logical, start, ends, within):
    """Return the ranks on a shortest path from the start to an end, over the links `within`."""
    forth, passed = logical.hops_from(start, within), np.zeros(logical.topology.num_ranks, np.bool_)
    for end in ends:
        if forth[end] < len(passed):
            passed |= forth + logical.hops_from(end, within, backwards=True) == forth[end]
    return passed


def test_ranks_on_shortest_paths_are_those_of_the_search():
    for text in ("mesh:3x4", "gen_kautz:2,7", "torus:3x4", "circulant:9,2,3"):
        d = demand(text)
        ranks = d.logical.topology.num_ranks
        for start, end in itertools.permutations(range(ranks), 2):
            within = np.array([link.target != start and link.source != end for link in d.logical.links])
            for ends in ((end,), (end, (end + 1) % ranks if (end + 1) % ranks != start else end)):
                mapped = within if len(ends) == 1 else d.logical.targets != start
                passed = on_shortest_paths(d.logical, start, ends, mapped)
                slow = mapped & passed[d.logical.sources] & passed[d.logical.targets]
                assert np.array_equal(_allowed(d.logical, start, ends, PathRules()), slow)
