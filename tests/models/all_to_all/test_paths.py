"""Flows as paths: they add up to the flow, and broken ones are refused."""

from dataclasses import replace

import numpy as np
import pytest

from tests.models.flows import random_demand, random_network, ring_flow
from tutti.models.all_to_all import Demand, FlowError, SourceFlow
from tutti.models.all_to_all.paths import PathFlow, decompose
from tutti.models.all_to_all.rounding import exact_flow
from tutti.topologies import parse_topology
from tutti.topologies.transforms import transpose


def test_a_cycle_is_taken_off_and_one_left_in_is_told():
    flow = ring_flow()
    assert np.array_equal(exact_flow(flow.demand, flow.amounts + 5.0, 1).amounts, flow.amounts)
    topology = parse_topology("mesh:3")
    amounts = np.zeros((1, topology.num_links), dtype=np.int64)
    ends = list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    amounts[0, [ends.index((0, 1)), ends.index((1, 2)), ends.index((2, 1))]] = 1, 9, 9
    demand = Demand(topology, np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]]), 1)
    with pytest.raises(FlowError, match="source 0 has a cycle"):
        decompose(SourceFlow(demand, amounts, 1))


def test_paths_that_break_off_or_fall_short_are_refused():
    paths = decompose(ring_flow())
    assert sorted(np.diff(paths.offsets).tolist()) == [1, 1, 1, 2, 2, 2]
    with pytest.raises(FlowError, match="do not sum to its demand"):
        replace(paths, amounts=paths.amounts * 2).check()
    two = int(np.flatnonzero(np.diff(paths.offsets) == 2)[0])
    links = paths.links.copy()
    links[paths.offsets[two] + 1] = links[paths.offsets[two]]
    with pytest.raises(FlowError, match=f"path {two} breaks off"):
        replace(paths, links=links).check()
    with pytest.raises(FlowError, match="path 0 carries nothing"):
        replace(paths, amounts=paths.amounts * 0).check()


def test_reversed_paths_serve_the_transposed_network():
    topology = random_network(5)
    paths = decompose(
        exact_flow(random_demand(topology, 5), np.zeros((topology.num_ranks, topology.num_links)))
    )
    back = paths.reverse
    back.check()
    assert back.demand.topology == transpose(topology)
    assert np.array_equal(back.loads, paths.loads)
    assert isinstance(back, PathFlow)
