"""Max-flow back-ends equal networkx on random networks, and their cuts certify the flows."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.topologies import InputError
from tutti.topologies.exact import INT64_MAX
from tutti.topologies.graphs.max_flow import DinicNetwork, FlowNetwork

BACKENDS = [FlowNetwork, DinicNetwork]


@st.composite
def networks(draw):
    """Draw up to 9 nodes with random arcs; there are parallel arcs, loops and zero capacities."""
    nodes = draw(st.integers(2, 9))
    node = st.integers(0, nodes - 1)
    arcs = draw(st.lists(st.tuples(node, node, st.integers(0, 20)), max_size=40))
    return nodes, arcs


def build(backend, nodes, arcs):
    return backend(nodes, [a[0] for a in arcs], [a[1] for a in arcs], [a[2] for a in arcs])


def by_networkx(nodes, arcs, source, sink):
    graph = nx.DiGraph()
    graph.add_nodes_from(range(nodes))
    for tail, head, capacity in arcs:
        before = graph.get_edge_data(tail, head, {"capacity": 0})["capacity"]
        graph.add_edge(tail, head, capacity=before + capacity)
    return nx.maximum_flow_value(graph, source, sink)


def capacity_out(inside, arcs):
    return sum(c for tail, head, c in arcs if inside[tail] and not inside[head])


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=150, deadline=None)
@given(networks())
def test_the_value_is_that_of_networkx_and_the_cut_has_it_too(backend, network):
    nodes, arcs = network
    solver = build(backend, nodes, arcs)
    value = solver.solve(0, nodes - 1)
    inside = solver.cut()
    assert value == by_networkx(nodes, arcs, 0, nodes - 1) == capacity_out(inside, arcs)
    assert inside[0]
    assert not inside[nodes - 1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_network_answers_for_many_ends_and_capacities(backend):
    rng = np.random.default_rng(1)
    tails, heads = rng.integers(0, 30, (2, 150))
    solver = backend(30, tails, heads, np.zeros(150, dtype=np.int64))
    for _ in range(5):
        capacities = rng.integers(0, 50, 150)
        solver.set_capacities(np.arange(150), capacities)
        arcs = list(zip(tails.tolist(), heads.tolist(), capacities.tolist(), strict=True))
        for sink in (1, 7, 29):
            assert solver.solve(0, sink) == by_networkx(30, arcs, 0, sink)


@pytest.mark.parametrize("backend", BACKENDS)
def test_some_capacities_can_be_changed_alone(backend):
    solver = backend(3, [0, 1], [1, 2], [5, 3])
    solver.set_capacities([1], [9])
    assert solver.solve(0, 2) == 5


@settings(max_examples=150, deadline=None)
@given(networks(), st.integers(1, 40))
def test_a_flow_grown_while_sinks_become_sources_finds_the_cut_around_all_of_them(network, limit):
    """After sinks 1..k are absorbed, growing to k + 1 gives a max-flow from a node joined to 0..k."""
    nodes, arcs = network
    solver = build(DinicNetwork, nodes, arcs)
    solver.absorb(0)
    for sink in range(1, nodes):
        joined = [*arcs, *((nodes, earlier, INT64_MAX >> 8) for earlier in range(sink))]
        expected = min(limit, by_networkx(nodes + 1, joined, nodes, sink))
        assert solver.grow(sink, limit) == expected
        if expected < limit:
            inside = solver.cut()
            assert capacity_out(inside, arcs) == expected
            assert inside[:sink].all()
            assert not inside[sink]
        solver.absorb(sink)


def test_a_sink_that_is_a_source_takes_any_amount():
    solver = DinicNetwork(2, [0], [1], [1])
    solver.absorb(1)
    assert solver.grow(1, 7) == 7


@pytest.mark.parametrize("backend", BACKENDS)
def test_capacities_near_64_bits_are_exact(backend):
    big = 2**61 + 1
    assert backend(3, [0, 0, 1], [1, 2, 2], [big, big, big]).solve(0, 2) == 2 * big


@pytest.mark.parametrize("backend", BACKENDS)
def test_flows_beyond_64_bits_are_refused(backend):
    with pytest.raises(InputError, match="sum must fit 64 bits"):
        backend(3, [0, 0, 1], [1, 2, 2], [INT64_MAX, INT64_MAX, INT64_MAX]).solve(0, 2)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("capacity", "message"),
    [
        (-1, r"flow capacity -1; allowed: 0\.\.9223372036854775807"),
        (2**63, r"flow capacity 9223372036854775808; allowed: 0\.\.9223372036854775807"),
        (2**70, r"flow capacity 1180591620717411303424; allowed"),
        (0.5, "flow capacities must be integers, not float64; scale them first"),
    ],
)
def test_capacities_that_are_no_64_bit_integers_are_refused(backend, capacity, message):
    with pytest.raises(InputError, match=message):
        backend(2, [0], [1], [capacity])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("ends", [(0, 0), (0, 2), (-1, 1)])
def test_ends_must_be_two_nodes(backend, ends):
    with pytest.raises(InputError, match=r"give two different nodes of 0\.\.1"):
        backend(2, [0], [1], [1]).solve(*ends)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_node_without_arcs_gets_nothing(backend):
    solver = backend(4, [0], [1], [1])
    assert solver.solve(0, 3) == 0
    assert solver.cut()[0]
    assert not solver.cut()[3]
