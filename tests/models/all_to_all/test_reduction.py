"""Symmetries of demands: which there are, by hand, and that none is searched for in vain."""

import numpy as np

from tutti.models.all_to_all import reduction
from tutti.models.all_to_all.demand import Demand
from tutti.topologies.families.grids import ring


def test_symmetries_are_those_of_network_and_demand(monkeypatch):
    assert set(reduction.symmetries(Demand.uniform(ring(4))).node_orbits.tolist()) == {0}
    monkeypatch.setattr(reduction, "automorphisms", None)
    amounts = np.arange(16).reshape(4, 4) * (1 - np.eye(4, dtype=int))
    assert reduction.symmetries(Demand(ring(4), amounts, 1)).node_orbits.tolist() == [0, 1, 2, 3]
