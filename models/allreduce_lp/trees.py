"""In-trees and out-trees of a plan: ForestColl's construction on each half of the capacities (B.7, B.5.3)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from models.allreduce_lp.arcs import Arcs
from models.allreduce_lp.cuts import BROADCAST, REDUCE
from models.allreduce_lp.rounding import TreePlan
from models.allreduce_lp.schedule import Trees
from topologies.exact import BoolArray, offsets_of
from topologies.forest import Forest, LogicalNetwork
from topologies.growing import grow_trees
from topologies.heights import largest_height, mean_height
from topologies.packing import pack_counts

SEARCHED = 2**12
"""Trees times ranks up to which low trees are searched for: about a second."""


def packed_trees(arcs: Arcs, plan: TreePlan) -> tuple[Trees, Trees]:
    """Return the in-trees and the out-trees; in-trees are packed as out-trees of the arcs turned round.

    Raises
    ------
    InputError
        If the trees do not fit the capacities.
    """
    ends = (arcs.tails, arcs.heads)
    up = plan.capacity[REDUCE] > 0
    down = plan.capacity[BROADCAST] > 0
    turned = _network(arcs, plan.capacity[REDUCE], up, ends[::-1])
    forward = _network(arcs, plan.capacity[BROADCAST], down, ends)
    straight = _network(arcs, plan.capacity[REDUCE], up, ends)
    return Trees(straight, _forest(turned, plan)), Trees(forward, _forest(forward, plan))


def _network(
    arcs: Arcs, capacity: np.ndarray, used: BoolArray, ends: tuple[np.ndarray, ...]
) -> LogicalNetwork:
    routes = [arcs.routes[arc] for arc in np.flatnonzero(used).tolist()]
    links = [link for route in routes for link in route]
    offsets = offsets_of([len(route) for route in routes])
    ranks = arcs.topology.num_ranks
    return LogicalNetwork(
        ranks, ends[0][used], ends[1][used], capacity[used], offsets, np.array(links, np.int32)
    )


def _forest(network: LogicalNetwork, plan: TreePlan) -> Forest:
    """Return the lower of the trees that a search finds, if it does, and those of the exact algorithm."""
    exact = pack_counts(network, plan.roots)
    few = int(plan.roots.sum()) * network.num_ranks <= SEARCHED
    k = int(np.gcd.reduce(plan.roots))
    found = grow_trees(network, k, plan.roots.tolist()) if few else None
    return min((forest for forest in (found, exact) if forest is not None), key=_height)


def _height(forest: Forest) -> tuple[int, Fraction, int]:
    return largest_height(forest), mean_height(forest), len(forest)
