"""Allreduce past reduce-scatter + allgather: the strength of a network and the trees that meet it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial

from experiments.bench.making import GIGA
from experiments.bench.measurement import Measurement, at_most, exactly, timed
from models.allreduce import allreduce_optimum, pack, tree_network
from models.bounds import lower_bounds
from models.bounds.bottleneck_cut import bottleneck_cut
from schedules.collective import collective
from topologies.errors import TuttiError
from topologies.text import parse_topology

MESHES = ["mesh:3x3", "mesh:5x5", "mesh:8x8", "mesh:10x10", "mesh:4x4x4", "mesh:5x5x5", "mesh:20x20"]
PROGRAMS = ["dgx_a100:2", "dgx_a100:4", "mi250:2", "gen_kautz:4,64"]


def bench_allreduce() -> Iterator[Measurement]:
    """Packings whose congestion is the partition bound, and the LP (B.5) against twice the allgather."""
    for text in MESHES:
        topology = parse_topology(text)
        found = lower_bounds(topology, collective("allreduce", topology.num_ranks))
        bound = next(bound for bound in found if bound.kind == "partition")
        network = tree_network(topology)
        if network is None:
            raise TuttiError(f"{text} has no links alike both ways")
        packing, seconds = timed(pack, network.graph)
        yield exactly("allreduce", text, "packed over the strength", packing.ratio / packing.bound, 1)
        yield Measurement("allreduce", text, "partition bound, s/GB", float(bound.value * GIGA))
        yield Measurement("allreduce", text, "packing, s", seconds)
    yield from _large_mesh("mesh:100x100")
    for text in PROGRAMS:
        yield from _program(text)


def _large_mesh(text: str) -> Iterator[Measurement]:
    network = tree_network(parse_topology(text))
    if network is None:
        raise TuttiError(f"{text} has no links alike both ways")
    packing, seconds = timed(pack, network.graph)
    yield at_most("allreduce", text, "gap of the packing, %", float(100 * packing.gap), 1.0)
    yield at_most("allreduce", text, "packing, s", seconds, 60.0)


def _program(text: str) -> Iterator[Measurement]:
    topology = parse_topology(text)
    optimum, seconds = timed(partial(allreduce_optimum, by="cuts"), topology)
    halves = 2 * bottleneck_cut(topology).ratio / topology.num_ranks
    proven = "yes" if optimum.exact else "no"
    yield Measurement("allreduce", text, "LP (B.5) solved exactly", proven, "yes", optimum.exact, exact=True)
    yield Measurement("allreduce", text, "both halves over the LP", str(Fraction(halves / optimum.upper)))
    yield Measurement("allreduce", text, "LP, s", seconds)
