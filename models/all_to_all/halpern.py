"""One iteration of the primal-dual method on LP (A.1), all sources in one pass over the flows, in numba.

The saddle point, of flows y_s ≥ 0, potentials π_s and lengths l ≥ 0 with sum of capacity x length = K:

    sum over s of weight_s ( sum over e of l(e) y_s(e)  +  sum over v of π_s(v) (demand(s, v) - (A y_s)(v)) )

with (A y)(v) what y brings to v less what it takes away. A step T moves y down and then π and l up their
gradients, each by its own step (Pock and Chambolle); the iteration is Halpern's,
z <- (k+1)/(k+2) (2 T z - z) + 1/(k+2) z_0. A source's arrays are in cache while they are used.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from topologies.exact import FloatArray, Int32Array, Int64Array


@njit(cache=True)
def iterate(
    ends: tuple[Int32Array, Int32Array, Int32Array],
    rows: tuple[Int64Array, FloatArray, FloatArray],
    state: tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray], FloatArray],
    steps: tuple[float, FloatArray, float],
    loads: FloatArray,
) -> tuple[float, float]:
    """Do the flows' and the potentials' part of an iteration.

    `ends` are the links' sources, targets and orbits; `rows` the sources, their weights and demand; `state`
    the flows and the potentials, the current ones, which are changed, each with its anchor, and the lengths;
    `steps` the flows' step, the nodes' steps (nodes,) and (k+1)/(k+2). Set `loads` (orbits,) to those of the
    extrapolated flows; return the squared moves of flows and potentials.
    """
    tail, target, orbit = ends
    flows, potentials, lengths = state
    sources, weights, demand = rows
    step, node_steps, share = steps
    flow_move, potential_move = 0.0, 0.0
    gain = np.empty(len(node_steps))
    loads[:] = 0.0
    for row in range(len(sources)):
        y, anchor, weight = flows[0][row], flows[1][row], weights[row]
        potential, rest = potentials[0][row], potentials[1][row]
        gain[:] = demand[row]
        moved = 0.0
        for e in range(len(tail)):
            u, v, o = tail[e], target[e], orbit[e]
            forward = max(0.0, y[e] - step * (lengths[o] - potential[v] + potential[u]))
            beyond = 2.0 * forward - y[e]
            gain[v] -= beyond
            gain[u] += beyond
            loads[o] += weight * beyond
            moved += (forward - y[e]) ** 2
            y[e] = share * beyond + (1.0 - share) * anchor[e]
        flow_move += weight * moved
        gain[sources[row]] = 0.0
        moved = 0.0
        for v in range(len(gain)):
            change = node_steps[v] * gain[v]
            moved += change * gain[v]
            potential[v] = share * (potential[v] + 2.0 * change) + (1.0 - share) * rest[v]
        potential_move += weight * moved
    return flow_move, potential_move
