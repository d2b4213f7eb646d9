r"""The optimum of (B.5) from both sides, in integers: its proof, and a solution that attains it.

Give weights to cuts S of both halves of (1) in `models.allreduce.cuts`, and lengths l to the links, none
negative. Let all cuts that hold a rank together weigh m or more. Let no pair (α, β) of ranks be crossed by
more weight of either half than the length of a shortest route from α to β. Then with (1) and c^BC and c^RE
within the bandwidths b

.. math::

    m Σ_v x_v \le Σ_S w_S x(S) \le Σ_S w_S c^{BC}(δ^+(S)) + Σ_S w_S c^{RE}(δ^-(S)) \le Σ_e l_e b_e.

So no trees do better than T / M = 1 / Σx ≥ m / Σ l_e b_e (`CutProof`). This is the dual of (B.5). The primal
side are capacities and roots in whole numbers (`ScaledSolution`). By max-flow they give the largest θ for
which trees of weights θ x fit. So whatever a solver's doubles were, the value that is claimed is attained.

`basic_solution` is the exact vertex that a solver's basis means, in rationals. A basis says which rows are
equalities and which columns may differ from 0. On these A is square, and the solution of A z = r is the
vertex. One factorization in doubles, applied repeatedly to the exact residual, gives z to any number of
digits (Wilkinson's iterative refinement), and enough digits determine the rationals (Gleixner, Steffy, Wolter
2016). The result is exact, because A z = r is then checked in integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tutti.models.all_to_all.certificate import largest_ratio
from tutti.models.all_to_all.rounding import common_parts
from tutti.models.allreduce.cuts import BROADCAST, REDUCE, Arcs, Cuts, Half, routes_over_switches, throughput
from tutti.models.solvers.outcome import Basis, BasisStatus, Effort
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import INT64_MAX, BoolArray, FloatArray, Int64Array
from tutti.topologies.topology import Topology

if TYPE_CHECKING:
    from scipy.sparse import csr_array

NAMES = {BROADCAST: "out", REDUCE: "in"}
"""Names of the halves in a certificate."""

PROGRAM = "linear program (B.5)"

FINE = 2**44
"""Sum of a solution that is rounded to a grid to look for cuts. It uses nearly all bits of a double."""
CLOSE = 1e-3
"""Relative distance from the optimum that counts as close, so that nothing is improved any more. With a
larger value some schedules take longer, but are found sooner."""

_MOST = INT64_MAX >> 2
"""Most that a solution's whole numbers sum to; max-flows need the spare bits."""
_STEP = 30
"""Bits of each refinement. With a larger value fewer factorizations are precise enough to make progress."""

Ratios = tuple[list[int], int]
"""Numerators, and their denominator."""


class WeightedCut(NamedTuple):
    """A set of ranks, bool (ranks,), with the half of (1) that it is a cut of and a weight."""

    half: int
    weight: Any
    inside: BoolArray


@dataclass(frozen=True, eq=False)
class CutProof:
    """Weighted cuts, lengths, and the bound that they prove.

    Parameters
    ----------
    value
        T / M is at least this, for trees: s/B, exact.
    cuts
        The cuts with a weight.
    lengths
        Whole numbers, one a link.
    """

    value: Fraction
    cuts: tuple[WeightedCut, ...]
    lengths: tuple[int, ...]

    def document(self) -> dict[str, Any]:
        """Return it as JSON values, in the form that the check reads."""
        cuts = [
            {"direction": NAMES[half], "weight": weight, "ranks": np.flatnonzero(inside).tolist()}
            for half, weight, inside in self.cuts
        ]
        return {"cuts": cuts, "lengths": list(self.lengths)}


def cut_proof(
    topology: Topology, cuts: Cuts, weights: Sequence[int], lengths: Sequence[int]
) -> CutProof | None:
    """Return the proof by weights and lengths, once lengths that are too short are made long enough.

    A direct link gets just the length that it needs; the lengths of links at switches are scaled together.

    Parameters
    ----------
    topology, cuts
        The problem.
    weights
        Whole numbers, one a cut; negative ones count as 0.
    lengths
        Whole numbers, one a link; negative ones count as 0.

    Returns
    -------
    CutProof or None
        None if some rank is in no cut with a weight, or a pair over switches has no length.
    """
    ranks = topology.num_ranks
    weighed = zip(cuts.half, weights, cuts.inside, strict=True)
    kept = [WeightedCut(half, int(weight), inside) for half, weight, inside in weighed if weight > 0]
    cover = sum((cut.weight * cut.inside.astype(object) for cut in kept), np.zeros(ranks, dtype=object))
    if min(cover) <= 0:
        return None
    needed = crossed(kept, np.zeros((2, ranks, ranks), dtype=object))
    found = _long_enough(topology, needed, [max(int(length), 0) for length in lengths])
    if found is None:
        return None
    long, scale = found
    common = math.gcd(scale, *long)
    scaled = tuple(cut._replace(weight=cut.weight * scale // common) for cut in kept)
    total = sum(length * int(b) for length, b in zip(long, topology.bandwidth.numerators, strict=True))
    value = Fraction(int(min(cover)) * scale * topology.bandwidth.denominator, total)
    return CutProof(value, scaled, tuple(length // common for length in long))


def crossed(cuts: Iterable[WeightedCut], zeros: Any) -> Any:
    """Return the weight that crosses each pair of ranks, the larger of the two halves: shape (ranks, ranks).

    Parameters
    ----------
    cuts
        Weighted.
    zeros
        Shape (2, ranks, ranks), of the type that weights add up in; used up.
    """
    for half, weight, inside in cuts:
        pairs = np.outer(inside, ~inside) if half == BROADCAST else np.outer(~inside, inside)
        zeros[half][pairs] += weight
    return np.maximum(zeros[0], zeros[1])


def _long_enough(topology: Topology, needed: Any, lengths: list[int]) -> tuple[list[int], int] | None:
    """Return lengths, and a scale over which every pair has the length that it needs."""
    ranks, ratio = topology.num_ranks, Fraction(1)
    for length, route in routes_over_switches(topology, lengths):
        need = needed[topology.source[route[0]], topology.target[route[-1]]]
        if need and not length:
            return None
        if need > length * ratio:
            ratio = Fraction(need, length)
    scale = ratio.denominator
    long = [length * ratio.numerator for length in lengths]
    for link, ends in enumerate(zip(topology.source.tolist(), topology.target.tolist(), strict=True)):
        if max(ends) < ranks:
            long[link] = int(needed[ends]) * scale
    return long, scale


@dataclass(frozen=True, eq=False)
class ScaledSolution:
    """A solution of (B.5) in whole numbers, up to scale.

    Parameters
    ----------
    halves
        The networks of the broadcast and, turned round, of the reduction.
    theta
        The largest θ for which trees of weights θ x fit, exact.
    rate
        Σ θ x when no link carries more than its bandwidth: B/s.
    broken
        For each half, a set that keeps θ from being larger.
    """

    halves: tuple[Half, Half]
    theta: Fraction
    rate: Fraction
    broken: tuple[tuple[int, BoolArray], ...]

    @property
    def roots(self) -> Int64Array:
        """int64, shape (ranks,): x."""
        return self.halves[BROADCAST].roots

    @property
    def capacity(self) -> Int64Array:
        """int64, shape (2, arcs): c^BC and c^RE."""
        return np.stack([half.capacity for half in self.halves])

    @property
    def value(self) -> Fraction:
        """The time of the trees over M, s/B."""
        return 1 / self.rate


def shares_of(arcs: Arcs, whole: Sequence[int]) -> ScaledSolution | None:
    """Return the shares with these values of x, and of c^BC and c^RE of each arc in turn.

    None if max-flows in 64 bits can't hold them.
    """
    if sum(whole) > _MOST:
        return None
    halves = Half.both(arcs, whole)
    try:
        found = [throughput(half) for half in halves]
    except InputError:
        return None
    theta = min(ratio for ratio, _ in found)
    overload = _overload(arcs, halves[BROADCAST].capacity + halves[REDUCE].capacity)
    rate = theta * int(halves[BROADCAST].roots.sum()) / overload if overload else Fraction(0)  # rounded away
    broken = tuple((half, inside) for half, (_, inside) in enumerate(found) if inside is not None)
    return ScaledSolution(halves, theta, rate, broken)


def even_shares(arcs: Arcs) -> ScaledSolution | None:
    """Return shares that always have a rate: equal roots, and each link divided evenly among its arcs.

    Whole numbers stand for shares of the largest bandwidth in 2^20ths, at least one.
    """
    topology = arcs.topology
    uses = np.bincount([link for route in arcs.routes for link in route], minlength=topology.num_links)
    part = topology.bandwidth.floats / topology.bandwidth.floats.max() / np.maximum(uses, 1) * 2**20
    units = [max(1, int(min(part[list(route)]))) for route in arcs.routes]
    return shares_of(arcs, [*[1] * topology.num_ranks, *np.repeat(units, 2).tolist()])


def _overload(arcs: Arcs, capacity: Int64Array) -> Fraction:
    """Return the largest ratio of a link's capacity in both halves to its bandwidth."""
    bandwidth = arcs.topology.bandwidth
    load = np.zeros(arcs.topology.num_links, dtype=np.int64)
    lengths = [len(route) for route in arcs.routes]
    np.add.at(load, [link for route in arcs.routes for link in route], np.repeat(capacity, lengths))
    return largest_ratio(load, bandwidth.numerators) * bandwidth.denominator


@dataclass(frozen=True, eq=False)
class TreeOptimum:
    """The best value that trees can have, from both sides.

    Parameters
    ----------
    arcs
        The arcs that `shares` has capacities for.
    shares
        The solution that attains `upper`.
    proof
        The proof of `lower`.
    effort
        The effort that it took.
    """

    arcs: Arcs
    shares: ScaledSolution
    proof: CutProof
    effort: Effort

    @property
    def lower(self) -> Fraction:
        """T / M is at least this for all trees; s/B."""
        return self.proof.value

    @property
    def upper(self) -> Fraction:
        """The time of the shares' trees over M, s/B: an upper bound."""
        return self.shares.value

    @property
    def exact(self) -> bool:
        """Whether both bounds are equal."""
        return self.lower == self.upper

    @property
    def gap(self) -> float:
        """The upper bound over the lower one, less one."""
        return float(self.upper / self.lower - 1)


def proven_optimum(
    arcs: Arcs, cuts: Cuts, whole: Sequence[int], duals: tuple[Sequence[int], Sequence[int]], effort: Effort
) -> TreeOptimum | None:
    """Return the bounds by a solution of (B.5) from both sides; None if it proves nothing.

    Its duals may prove nothing, and its numbers may be longer than max-flows in 64 bits can hold.

    Parameters
    ----------
    arcs, whole
        The primal side, as `shares_of` takes it. Even shares replace it where they are better, as when it
        does not reach all ranks or bandwidths are too far apart for a solver's doubles.
    cuts, duals
        The dual side, as `cut_proof` takes it: weights and lengths.
    effort
        The effort so far.
    """
    proof = cut_proof(arcs.topology, cuts, *duals)
    shares = None if proof is None else shares_of(arcs, whole)
    if proof is None or shares is None:
        return None
    found = TreeOptimum(arcs, shares, proof, effort) if shares.rate else None
    if found is None or found.gap > CLOSE:
        even = even_shares(arcs)
        if even is not None and (found is None or even.value < found.upper):
            found = TreeOptimum(arcs, even, proof, effort)
    return found


def tightest(topology: Topology, found: Iterable[TreeOptimum | None]) -> TreeOptimum:
    """Return the optimum of least gap.

    Raises
    ------
    NoSchedule
        If there is none.
    """
    proven = [each for each in found if each is not None]
    if not proven:
        raise NoSchedule(f"allreduce_lp on {topology.name}: the solver's duals prove nothing")
    return min(proven, key=lambda each: each.gap)


def whole_solutions(values: FloatArray, duals: FloatArray) -> Iterator[tuple[list[int], list[int]]]:
    """Yield a solver's solution in whole numbers, up to scale: as simple fractions if it is close to some.

    It also comes on a grid, nearly proportional, with sums of about 2^29 and `FINE`, as scaling is exact.
    """
    simple = _simple(values), _simple(duals)
    if simple[0] is not None and simple[1] is not None:
        yield simple[0], simple[1]
    yield on_grid(values, 2**29), on_grid(duals, FINE)


def _simple(values: FloatArray) -> list[int] | None:
    """Return simple fractions that these values are close to, over a common denominator left out."""
    parts = common_parts(values)
    return None if parts is None else np.rint(values * parts).astype(np.int64).tolist()


def on_grid(values: FloatArray, total: int) -> list[int]:
    """Return nearly proportional whole numbers that sum to about `total`."""
    return [round(value) for value in (values * (total / max(float(values.sum()), 1e-300))).tolist()]


def basic_solution(
    matrix: csr_array, basis: Basis | None, right: Sequence[int], cost: Sequence[int]
) -> tuple[list[int], list[int]] | None:
    """Return the basic solution of maximize cost x, A x <= right, x >= 0: columns and row duals, up to scale.

    Parameters
    ----------
    matrix
        A, of small whole numbers.
    basis
        The basis of a solver's solution.
    right, cost
        Whole numbers, one a row and one a column.

    Returns
    -------
    tuple or None
        Numerators of x, and of y, over one denominator each; None if the basis is singular or its rationals
        are too long.
    """
    from scipy.sparse import csr_array

    if basis is None:
        return None
    columns = np.flatnonzero(np.asarray(basis.columns) == BasisStatus.BASIC).tolist()
    rows = np.flatnonzero(np.asarray(basis.rows) != BasisStatus.BASIC).tolist()
    if len(columns) != len(rows) or not len(rows):
        return None
    square = csr_array(matrix[rows][:, columns])
    x = solve_exactly(square, [right[row] for row in rows])
    y = solve_exactly(csr_array(square.T), [cost[column] for column in columns]) if x else None
    if x is None or y is None or min(x[0]) < 0:
        return None
    values, duals = [0] * matrix.shape[1], [0] * matrix.shape[0]
    for whole, places, (numerators, _) in ((values, columns, x), (duals, rows, y)):
        for place, numerator in zip(places, numerators, strict=True):
            whole[place] = numerator
    return values, duals


def solve_exactly(square: csr_array, right: Sequence[int]) -> Ratios | None:
    """Return z with A z = right in rationals, or None.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> solve_exactly(csr_array(np.array([[2.0, 1.0], [0.0, 3.0]])), [1, 1])
    ([1, 1], 3)
    """
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import splu

    try:
        factors = splu(csc_array(square))
    except RuntimeError:  # exactly singular
        return None
    whole = _Whole(square)
    digits = np.array([0] * len(right), dtype=object)
    goal = np.array([int(value) for value in right], dtype=object)
    for steps in range(1, 33):  # longer rationals are useless
        # Invariant: digits / 2^(30 (steps - 1)) is near z, and `rest` is its residual in the same units.
        rest = (goal << (steps - 1) * _STEP) - whole.times(digits)
        if steps > 1 and max(abs(value) for value in rest) > 2**_STEP:  # the factorization is too rough
            return None
        more = (factors.solve(rest.astype(float)) * 2.0**_STEP).tolist()
        digits = (digits << _STEP) + np.array([round(value) for value in more], dtype=object)
        if steps in (2, 4, 8, 16, 32):
            found = _rationals(digits.tolist(), steps * _STEP)
            if found and (whole.times(np.array(found[0], dtype=object)) == goal * found[1]).all():
                return found
    return None


class _Whole:
    """A sparse matrix of whole numbers that multiplies vectors of Python's integers."""

    def __init__(self, matrix: csr_array) -> None:
        self.index = matrix.indices
        self.value = np.array([int(value) for value in matrix.data], dtype=object)
        self.starts = matrix.indptr[:-1]

    def times(self, vector: Any) -> Any:
        """Return the product; no row is empty, because the matrix is not singular."""
        return np.add.reduceat(self.value * vector[self.index], self.starts)


def _rationals(digits: list[int], bits: int) -> Ratios | None:
    """Return the simplest rationals within 2^-(bits - 10) of digits / 2^bits, over one denominator."""
    # A denominator up to 2^(bits / 2 - 10) is unique within the error, `slack` in the last digits.
    common, most = 1, 1 << (bits // 2 - 10)
    slack = 1 << 10
    for value in digits:
        off = (value * common) % (1 << bits)
        if min(off, (1 << bits) - off) <= slack * common:
            continue
        common = math.lcm(common, Fraction(value, 1 << bits).limit_denominator(most).denominator)
        if common > most:
            return None
    half = 1 << (bits - 1)
    return [(value * common + half) >> bits for value in digits], common
