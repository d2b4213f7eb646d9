"""From a flow of representatives to a flow of all sources: the average over a group, element by element."""

from __future__ import annotations

import math

import numpy as np

from models.all_to_all.certificate import SourceFlow
from models.all_to_all.orbits import ReducedProblem
from models.all_to_all.rounding import cancel_cycles
from topologies.exact import INT64_MAX, Int32Array, Int64Array
from topologies.permutations import twin_permutation

MOST_ELEMENTS = 4096
"""The largest group that is listed: seconds, at a thousand ranks."""


def averaged(
    problem: ReducedProblem, flow: SourceFlow, most_elements: int = MOST_ELEMENTS
) -> SourceFlow | None:
    """Return a flow of all sources with the congestion that `problem.upper_bound` says, exactly.

    Source g(s) gets the image of s's flow under every element g of the group, divided by the number of
    elements that fix s.

    Returns
    -------
    SourceFlow or None
        None if the group has more than `most_elements` elements, or the sums do not fit 64 bits.
    """
    listed = problem.group.elements(most_elements)
    if listed is None:
        return None
    nodes, links = listed
    fixing = [len(nodes) // weight for weight in problem.weights.tolist()]
    twins = twin_permutation(problem.topology)
    alike = np.bincount(twins, minlength=len(twins))[twins]
    common, parallel = math.lcm(*fixing), math.lcm(*np.unique(alike).tolist())
    demand = problem.whole
    if float(flow.loads.max()) * len(nodes) * common * parallel >= INT64_MAX / 2:
        return None
    amounts = np.zeros((problem.topology.num_nodes, problem.topology.num_links), dtype=np.int64)
    for row, source in enumerate(problem.sources.tolist()):
        share = flow.amounts[row] * (common // fixing[row])
        for image, moved in zip(nodes[:, source].tolist(), links, strict=True):
            amounts[image, moved] += share
    spread = np.ascontiguousarray((_over_twins(amounts, twins) * (parallel // alike))[demand.sources])
    return SourceFlow(demand, spread, flow.denominator * common * parallel)


def without_cycles(flow: SourceFlow) -> SourceFlow:
    """Return the flow less its cycles, which images of one flow may close together; no load grows."""
    topology, amounts = flow.demand.topology, flow.amounts.copy()
    order = np.empty(topology.num_nodes, dtype=np.int64)
    for row in amounts:
        cancel_cycles(*topology.out_links, topology.source, topology.target, row, order)
    return SourceFlow(flow.demand, amounts, flow.denominator)


def _over_twins(amounts: Int64Array, twins: Int32Array) -> Int64Array:
    """Return, for each link, what all links parallel and equal to it carry together."""
    sums = np.zeros_like(amounts)
    np.add.at(sums.T, twins, amounts.T)
    return sums[:, twins]
