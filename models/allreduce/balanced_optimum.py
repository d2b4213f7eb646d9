r"""Among all optima of (B.5), this finds one in which as many links as possible serve both halves equally.

A vertex of (B.5) tends to give each link to one half, and its trees must take detours. Low trees leave by
every link, and a link that serves both halves has something to send at any time. So a second program
maximizes

.. math::

    Σ_a m_a + 4 A \min_a m_a / r_a, \qquad m_a = \min(c^{BC}_a, c^{RE}_a)

over the optima of the first, where A is the number of arcs and r_a a bandwidth over the least, rounded. It is
solved from cut to cut as in `optimum`, and counts only if its vertex, in rationals, attains the optimum
exactly.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tutti.models.allreduce.certificate import (
    FINE,
    ScaledSolution,
    TreeOptimum,
    halves_of,
    on_grid,
    shares_of,
)
from tutti.models.allreduce.cuts import Cuts, broken_cuts, master, whole_bandwidths
from tutti.models.allreduce.vertex import basic_solution
from tutti.models.solvers import SolverResult, find_backend, solve
from tutti.models.solvers.compiled import CompiledModel
from tutti.models.solvers.options import Feature
from tutti.models.solvers.outcome import TOLERANCE
from tutti.topologies.errors import InputError
from tutti.topologies.exact import FloatArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def balanced_shares(optimum: TreeOptimum, solver: str) -> ScaledSolution | None:
    """Return exact shares that attain the optimum and divide links evenly; None if none are found.

    Parameters
    ----------
    optimum
        An exact optimum.
    solver
        A name in ``tutti list solvers``.

    Examples
    --------
    >>> from tutti.models.allreduce.optimum import allreduce_optimum
    >>> from tutti.topologies.families.grids import ring
    >>> found = balanced_shares(allreduce_optimum(ring(4)), "highs")
    >>> bool((found.capacity[0] == found.capacity[1]).all())
    True
    """
    arcs, topology = optimum.arcs, optimum.arcs.topology
    cuts = Cuts.of(topology, ())
    for cut in optimum.proof.cuts:
        cuts.add(cut.half, cut.inside)
    while True:  # measured: one program, on networks of 9 to 16 ranks
        program = _BalancedProgram(optimum, cuts)
        result = solve(program.model, solver, find_backend(solver, [Feature.LP]).options())
        if result.values is None:
            return None
        kept = np.maximum(result.values[: topology.num_ranks + 2 * len(arcs)], 0.0)
        whole = on_grid(kept, FINE)
        slack = max(1, int(TOLERANCE * sum(whole[: topology.num_ranks])))
        parts = enumerate(halves_of(arcs, whole))
        found = [(half, inside) for half, part in parts for inside in broken_cuts(part, slack)]
        added = [cuts.add(half, inside) for half, inside in found]
        if any(added):
            continue
        shares = _exact(optimum, program, result)
        if shares is None or (shares.theta == 1 and shares.rate == optimum.shares.rate):
            return shares
        added = [cuts.add(half, inside) for half, inside in shares.broken]
        if not any(added):
            return None


class _BalancedProgram:
    """Maximize Σm + 4 A z, m no more than either capacity, over what (B.5) allows with its optimal Σx."""

    def __init__(self, optimum: TreeOptimum, cuts: Cuts) -> None:
        arcs, topology = optimum.arcs, optimum.arcs.topology
        count, ranks = len(arcs), topology.num_ranks
        first = master(arcs, cuts)
        numerators = topology.bandwidth.numerators
        unit = Fraction(int(np.gcd.reduce(numerators)), topology.bandwidth.denominator)
        sum_of_roots = optimum.shares.rate / unit
        wide = np.array([numerators[list(route)].min() for route in arcs.routes])
        ratio = np.minimum(np.rint(wide / wide.min()), 16.0)  # else only the narrowest links would matter
        self.matrix = _matrix(first.matrix, ranks, ratio)
        right = np.zeros(self.matrix.shape[0])
        right[: topology.num_links] = whole_bandwidths(topology) / first.scale
        right[-1] = -float(sum_of_roots) / first.scale
        self.cost = np.repeat([0, 1, 4 * count], [ranks + 2 * count, count, 1])
        self.model = CompiledModel.of_matrix(
            "allreduce-central", self.matrix, self.cost, -np.inf, right, maximize=True
        )
        denominator = sum_of_roots.denominator
        self.right: list[int] = [0] * len(right)
        self.right[: topology.num_links] = [denominator * int(b) for b in whole_bandwidths(topology)]
        self.right[-1] = -sum_of_roots.numerator


def _matrix(first: csr_array, ranks: int, ratio: FloatArray) -> csr_array:
    """Return the first program's rows, m - c <= 0 twice and r z - m <= 0 for each arc, and -Σx <= ...."""
    from scipy.sparse import coo_array, csr_array, vstack

    count = len(ratio)
    columns = ranks + 3 * count + 1
    wide = csr_array((first.data, first.indices, first.indptr), shape=(first.shape[0], columns))
    arc, one = np.arange(count), np.ones(count)
    least = ranks + 2 * count + arc
    entries = [
        *((half + 3 * arc, least, one) for half in range(2)),
        *((half + 3 * arc, ranks + 2 * arc + half, -one) for half in range(2)),
        (2 + 3 * arc, np.full(count, columns - 1), ratio),
        (2 + 3 * arc, least, -one),
        (np.full(ranks, 3 * count), np.arange(ranks), -np.ones(ranks)),
    ]
    row, column, value = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    more = coo_array((value, (row, column)), shape=(3 * count + 1, columns))
    stacked: Any = vstack([wide, more])
    return csr_array(stacked)


def _exact(optimum: TreeOptimum, program: _BalancedProgram, result: SolverResult) -> ScaledSolution | None:
    """Return the shares that the solver's basis means; None if that is no vertex in whole numbers."""
    exact = basic_solution(program.matrix, result.basis, program.right, program.cost.tolist())
    if exact is None:
        return None
    arcs = optimum.arcs
    try:
        return shares_of(arcs, exact[0][: arcs.topology.num_ranks + 2 * len(arcs)])
    except InputError:  # numbers beyond 64 bits
        return None
