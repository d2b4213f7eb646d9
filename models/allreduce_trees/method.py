r"""Allreduce over spanning trees whose congestion is the partition bound, where links are alike both ways.

For every partition P of the ranks T ≥ M · 2(|P| - 1) / cap(P) (`models.bounds.check`). On a network without
switches whose pairs have equal capacity both ways, cap(P) is twice the undirected capacity, and the largest
such bound is M / σ, σ being the strength. Spanning trees of total weight σ fit (Nash-Williams, Tutte); each
takes its share of M, reduces it to its root and broadcasts it, which uses each direction of each of its edges
once. So no link carries more than its bandwidth times M / σ, and the bound is met.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from models.allreduce_trees.network import tree_network
from models.allreduce_trees.packing import pack
from models.allreduce_trees.schedule import trees_schedule
from schedules.collective import Kind
from schedules.method import Method, Problem
from schedules.schedule import Schedule
from topologies.errors import InputError, NoSchedule
from topologies.heights import largest_height, mean_height
from topologies.units import format_bandwidth


@dataclass(frozen=True)
class AllreduceTreesOptions:
    """Options of the packing.

    Parameters
    ----------
    epsilon
        How far, relative to the bound, the congestion may be from it: 0 packs exactly, more is faster on
        large networks. None: 0 where an exact packing is quick, else 1/100.
    products
        Whether a Cartesian product gets the low trees of its factors where these are as good.

    Raises
    ------
    InputError
        If `epsilon` is not in 0..1, below 1.
    """

    epsilon: Fraction | None = None
    products: bool = True

    def __post_init__(self) -> None:
        """Check the values."""
        given = self.epsilon
        if given is not None and not 0 <= given < 1:
            raise InputError(f"allreduce_trees option epsilon is {given}; it must be at least 0 and below 1")


def supports(problem: Problem, options: AllreduceTreesOptions) -> None:
    """Accept allreduces of all ranks where capacities that a pair has both ways join all ranks.

    Raises
    ------
    Unsupported
        If the collective, its groups or the network rule it out.
    """
    topology, what = problem.topology, problem.collective
    METHOD.check_kind(what, [Kind.ALLREDUCE])
    METHOD.check_one_group(what)
    node = topology.eulerian_defect()
    if topology.num_switches and node is not None:
        into, out = (format_bandwidth(total[node]) for total in (topology.ingress, topology.egress))
        raise METHOD.unsupported(
            f"needs a network with switches to be Eulerian; node {topology.labels[node]} of {topology.name} "
            f"has {into} in and {out} out"
        )
    if not topology.num_switches and tree_network(topology) is None:
        raise METHOD.unsupported(
            f"needs links both ways that join all ranks; those of {topology.name} do not"
        )


def synthesize(problem: Problem, options: AllreduceTreesOptions, rng: np.random.Generator) -> Schedule:
    """Return a flow schedule whose congestion is the partition bound, where pairs are alike both ways.

    Raises
    ------
    Unsupported
        As `supports`.
    InputError
        If capacities are too far apart for 64 bits.
    NoSchedule
        If the table would be too large, or switches leave no links both ways that join all ranks.
    """
    supports(problem, options)
    topology, begin = problem.topology, time.perf_counter()
    network = tree_network(topology)
    if network is None:
        raise NoSchedule(
            f"allreduce_trees on {topology.name}: without its switches no links both ways join all ranks"
        )
    packing = pack(network.graph, options.epsilon, products=options.products)
    packed = time.perf_counter()
    schedule = trees_schedule(topology, problem.collective, network.arcs, packing)
    stats = {
        "packing_s": packed - begin,
        "build_s": time.perf_counter() - packed,
        "trees": len(packing.forest),
        "height": 2 * largest_height(packing.forest),
        "mean_height": float(2 * mean_height(packing.forest)),
    }
    claims = {"congestion": packing.ratio / network.unit} if network.symmetric else {}
    return schedule.replace(claims=claims, stats=stats)


METHOD = Method(
    name="allreduce_trees",
    kind="exact",
    synthesize=synthesize,
    options=AllreduceTreesOptions,
    supports=supports,
    summary="spanning trees that meet the partition bound of allreduce, where links are alike both ways",
)
