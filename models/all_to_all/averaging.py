"""The flow of a representative that its own symmetries leave as it is: the average over those that fix it."""

from __future__ import annotations

import math

import numpy as np

from models.all_to_all.certificate import SourceFlow
from models.all_to_all.incidence import Incidence
from models.all_to_all.orbits import ReducedProblem
from models.all_to_all.rounding import cancel_cycles
from topologies.exact import INT64_MAX, Int32Array, Int64Array
from topologies.permutations import twin_permutation

MOST_ELEMENTS = 4096
"""The largest group that is listed: seconds, at a thousand ranks."""


def evened(
    problem: ReducedProblem, flow: SourceFlow, most_elements: int = MOST_ELEMENTS
) -> SourceFlow | None:
    """Return a flow of the representatives, the average of its images under the elements that fix each.

    These are the representatives' rows of the flow averaged over the whole group, whose congestion is what
    `problem.upper_bound` says. Links parallel and equal share evenly.

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
    largest = float(flow.amounts.sum(axis=1, dtype=np.float64).max())
    if largest * common * parallel >= INT64_MAX / 2:
        return None
    amounts = np.zeros_like(flow.amounts)
    for row, source in enumerate(problem.sources.tolist()):
        share = flow.amounts[row] * (common // fixing[row])
        for moved in links[nodes[:, source] == source]:
            amounts[row, moved] += share
    spread = _over_twins(amounts, twins) * (parallel // alike)
    return SourceFlow(problem.represented, spread, flow.denominator * common * parallel)


def without_cycles(flow: SourceFlow) -> SourceFlow:
    """Return the flow less its cycles, which images of one flow may close together; no load grows."""
    graph, amounts = Incidence.of(flow.demand.topology), flow.amounts.copy()
    order = np.empty(flow.demand.topology.num_nodes, dtype=np.int64)
    for row in amounts:
        cancel_cycles(graph, row, order)
    return SourceFlow(flow.demand, amounts, flow.denominator)


def _over_twins(amounts: Int64Array, twins: Int32Array) -> Int64Array:
    """Return, for each link, what all links parallel and equal to it carry together."""
    sums = np.zeros_like(amounts)
    np.add.at(sums.T, twins, amounts.T)
    return sums[:, twins]
