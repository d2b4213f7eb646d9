"""Programs in modelling layers: optima that are known without a solver, equal ones in all layers."""

import importlib

import numpy as np
import pytest

from tutti.experiments.layers.programs import Network
from tutti.topologies.text import parse_topology

LAYERS = {"pyomo": "pyomo", "arrays": "highspy", "linopy": "linopy", "poi": "pyoptinterface"}


def built(layer, program, network):
    pytest.importorskip(LAYERS[layer])  # linopy and PyOptInterface are in requirements-layers.txt only
    return getattr(importlib.import_module(f"tutti.experiments.layers.by_{layer}"), program)(network)


def distances(network):
    """Hops between all nodes, by breadth-first search."""
    neighbours = {u: [] for u in range(network.nodes)}
    for u, v in zip(network.source, network.target, strict=True):
        neighbours[u].append(v)
    found = []
    for start in range(network.nodes):
        hops, here = {start: 0}, [start]
        for u in here:
            for v in neighbours[u]:
                if v not in hops:
                    hops[v] = hops[u] + 1
                    here.append(v)
        found.append([hops[u] for u in range(network.nodes)])
    return np.array(found)


def optimum(program, network):
    """(A.1) of a symmetric network: links over the sum of distances of a node; (B.5): Theorem 30's bound is
    met by a torus; (3.1): (N - 1)/d on a torus; sends: every chunk comes to a node at its distance, at best.
    """
    N, d = network.nodes, network.links // network.nodes
    return {
        "flow": d / distances(network)[0].sum(),
        "allreduce": d * N / (2 * (N - 1)),
        "bfb": (N - 1) / d,
        "sends": distances(network).sum(),
    }[program]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize(
    ("program", "text"),
    [("flow", "torus:4x4"), ("allreduce", "torus:3x3"), ("bfb", "torus:4x4"), ("sends", "mesh:2x3")],
)
def test_the_optimum_is_that_by_hand_and_halves_with_the_capacities(layer, program, text):
    network = Network.of(parse_topology(text))
    model, known = built(layer, program, network), optimum(program, network)
    assert model.solve() == pytest.approx(known)
    if program == "sends":  # more capacity than every distance needs changes nothing
        assert model.again(2 * network.b) == pytest.approx(known)
    else:
        halved = 2 * known if program == "bfb" else known / 2
        assert model.again(network.b / 2) == pytest.approx(halved)
    assert model.again(network.b) == pytest.approx(known)
