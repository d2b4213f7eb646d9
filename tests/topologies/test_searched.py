"""Diamond and the modified de Bruijn networks have what Table A.3 says of them, found again by CP-SAT."""

from collections import Counter

import networkx as nx
import pytest
from ortools.sat.python import cp_model

from topologies import InputError, diameter, parse_topology
from topologies.distances import hop_distances
from topologies.searched import diamond, modified_de_bruijn

# Table A.3: degree, size, reverse-symmetric, T_L; and the diameters of Table A.1 (D of a square is twice D,
# and D of a line graph one more), where a row is built on them.
TABLE = {
    "Diamond": (diamond(), 2, 8, False, 3, 3),
    "DBJMod(2,3)": (modified_de_bruijn(2, 3), 2, 8, True, 4, None),
    "DBJMod(2,4)": (modified_de_bruijn(2, 4), 2, 16, False, 5, 4),
    "DBJMod(3,2)": (modified_de_bruijn(3, 2), 3, 9, False, 3, None),
    "DBJMod(4,2)": (modified_de_bruijn(4, 2), 4, 16, False, 3, 3),
}


def graph(topology):
    links = Counter(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    assert max(links.values()) == 1
    return nx.DiGraph(list(links))


@pytest.mark.parametrize("name", TABLE)
def test_a_network_has_the_properties_of_its_row_of_table_a3(name):
    built, degree, ranks, symmetric, _, hops = TABLE[name]
    assert (built.degree, built.num_ranks) == (degree, ranks)
    assert nx.is_isomorphic(graph(built), graph(built).reverse()) == symmetric
    assert hops in (None, diameter(built))
    assert parse_topology(name) == built


@pytest.mark.parametrize("name", [name for name in TABLE if name != "Diamond"])
def test_a_modified_de_bruijn_network_replaces_loops_and_2_cycles_by_one_long_cycle(name):
    built, degree, ranks, *_ = TABLE[name]
    arcs = {(x, (degree * x + a) % ranks) for x in range(ranks) for a in range(degree)}
    rewired = {(x, y) for x, y in arcs if (y, x) in arcs}
    new = set(graph(built).edges) - (arcs - rewired)
    assert set(graph(built).edges) >= arcs - rewired
    assert len(new) == len(rewired)
    cycle = nx.DiGraph(new)
    assert set(cycle) == {x for arc in rewired for x in arc}
    assert nx.is_strongly_connected(cycle)
    assert {d for _, d in cycle.out_degree} == {1}


def has_optimal_allgather(topology, steps, known=None):
    """Whether there is a BW-optimal allgather in so many steps (of the known loads, in chunks).

    Every chunk (an equal part of a shard, as many as the degree) reaches every rank once; a rank sends only
    """
    ranks, degree, hops = topology.num_ranks, topology.degree, hop_distances(topology)
    links = list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    into = [[e for e, (_, v) in enumerate(links) if v == rank] for rank in range(ranks)]
    model = cp_model.CpModel()
    loads = known or [model.new_int_var(0, ranks * degree, "") for _ in range(steps)]
    model.add(sum(loads) == ranks - 1)
    chunks = [(owner, part) for owner in range(ranks) for part in range(degree)]
    sends = {
        (chunk, e, t): model.new_bool_var("")
        for chunk in chunks
        for e, (u, v) in enumerate(links)
        for t in range(hops[chunk[0], u], steps)
        if v != chunk[0]
    }
    for chunk in chunks:
        for rank in set(range(ranks)) - {chunk[0]}:
            arrivals = {(e, t) for e in into[rank] for t in range(steps) if (chunk, e, t) in sends}
            model.add_exactly_one(sends[chunk, e, t] for e, t in arrivals)
            for e, (u, _) in enumerate(links):
                for t in range(steps):
                    if u == rank and (chunk, e, t) in sends:
                        earlier = [sends[chunk, f, q] for f, q in arrivals if q < t]
                        model.add(sends[chunk, e, t] <= sum(earlier))
    for e in range(len(links)):
        for t in range(steps):
            model.add(sum(sends[c, e, t] for c in chunks if (c, e, t) in sends) == loads[t])
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = 60
    status = solver.solve(model)
    assert status != cp_model.UNKNOWN
    return status != cp_model.INFEASIBLE


KNOWN = {"DBJMod(2,4)": [2, 2, 3, 3, 5], "DBJMod(4,2)": [3, 5, 7]}
"""Loads of the steps, in chunks, of an allgather found before: they save a minute of search."""


@pytest.mark.parametrize("name", TABLE)
def test_a_bw_optimal_allgather_takes_the_steps_of_table_a3_and_not_fewer(name):
    built, _, _, _, steps, _ = TABLE[name]
    assert has_optimal_allgather(built, steps, KNOWN.get(name))
    assert not has_optimal_allgather(built, steps - 1)


def test_other_modified_de_bruijn_networks_are_refused():
    with pytest.raises(
        InputError, match=r"modified_debruijn:2,5: modified de Bruijn networks are those of 2,3, 2"
    ):
        modified_de_bruijn(2, 5)
