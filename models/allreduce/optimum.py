r"""The optimum of linear program (B.5): exact where its rationals are not too long.

Small networks are solved by the Pyomo model as it stands (`models.allreduce.model`), others from cut to cut.
The program is solved over the cuts and routes known (`models.allreduce.cuts`). Then the cuts that its
solution violates are found by max-flow, and the routes that its lengths leave too short, and it is solved
again, until there are none. The solver's basis then gives the vertex in rationals. From it follow, in
integers, a lower bound on the time (`cut_proof`) and capacities and roots whose trees take exactly this time
(`ScaledSolution`). Where the two differ, they are an interval that is still valid.

**The optimum that is best for messages in time** (`balanced_shares`) is one in which as many links as
possible serve both halves equally. A vertex of (B.5) tends to give each link to one half, and its trees must
take detours. Low trees leave by every link, and a link that serves both halves has something to send at any
time. So a second program maximizes

.. math::

    Σ_a m_a + 4 A \min_a m_a / r_a, \qquad m_a = \min(c^{BC}_a, c^{RE}_a)

over the optima of the first, where A is the number of arcs and r_a a bandwidth over the least, rounded. It is
solved from cut to cut too, and counts only if its vertex, in rationals, attains the optimum exactly.

**The bound** ``lp`` of allreduce (`lp_bound`) is weighted cuts and lengths; proof in ``docs/proofs.md``. It
bounds schedules that reduce up trees and broadcast down trees over switches that only forward. B.7 does not
prove that no other allreduce is faster, so it counts as a bound on all only where the partition bound is as
large.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tutti.models.allreduce.certificate import (
    FINE,
    PROGRAM,
    ScaledSolution,
    TreeOptimum,
    WeightedCut,
    basic_solution,
    crossed,
    on_grid,
    proven_optimum,
    shares_of,
    tightest,
    whole_solutions,
)
from tutti.models.allreduce.cuts import (
    Arcs,
    CutProgram,
    Cuts,
    Half,
    broken_cuts,
    master,
    routes_over_switches,
    whole_bandwidths,
)
from tutti.models.bounds.bound import ASKED_SECONDS, SECONDS_PER_BYTE, Bound
from tutti.models.solvers import Effort, SolverResult, Start, find_backend, solve
from tutti.models.solvers.compiled import CompiledModel
from tutti.models.solvers.options import Feature
from tutti.models.solvers.outcome import TOLERANCE
from tutti.models.solvers.registry import refuse_too_large
from tutti.schedules.collective import Collective, Kind
from tutti.topologies.errors import InputError, NoSchedule, Unsupported
from tutti.topologies.exact import BoolArray, FloatArray, json_number
from tutti.topologies.kernels import now
from tutti.topologies.topology import Topology

if TYPE_CHECKING:
    from scipy.sparse import csr_array

WAYS = ("auto", "model", "cuts")

MOST_VARIABLES = 5_000
"""Most variables of a model that ``auto`` solves. A larger value takes longer. To build it, solve it by HiGHS
and prove the answer takes 1.1 s of processor time with 4,976 variables (`mesh:4x6`), 0.6 s with 4,180
(`torus:4x5`), 0.3 s with 4,336 (`mi250:1`), and 2.0 s with 5,435 (`mesh:5x5`)."""


def allreduce_optimum(
    topology: Topology,
    parts: Sequence[Sequence[int]] = (),
    solver: str = "highs",
    options: Any = None,
    time_limit: float | None = None,
    by: str = "auto",
) -> TreeOptimum:
    """Return the optimum of (B.5).

    Parameters
    ----------
    topology
        Any network.
    parts
        Sets of nodes whose cuts are likely to matter, such as the parts of a partition bound.
    solver, options
        As `models.solvers.solve`. One that returns a basis gives exact optima, others intervals.
    time_limit
        Seconds, after which what is proven so far is returned.
    by
        ``model``: the Pyomo model, as it stands. ``cuts``: from cut to cut, which is faster. ``auto``: the
        model if it has up to `MOST_VARIABLES` variables; the cuts for larger ones, and if the model's answer
        is not exact.

    Raises
    ------
    InputError
        If the solver is unknown or not installed, or the options are another solver's.
    Unsupported
        If ``model`` is too large for the time limit.
    NoSchedule
        If the time, or a limit in the options, ends before anything is proven.

    Examples
    --------
    >>> from tutti.topologies.families.grids import mesh
    >>> found = allreduce_optimum(mesh(3, 3))
    >>> found.exact, found.upper * 50 * 10**9
    (True, Fraction(2, 3))
    """
    backend = find_backend(solver, [Feature.LP, Feature.DUALS])
    chosen = backend.options() if options is None else options
    if by == "model":
        return _optimum_by_model(topology, solver, chosen, time_limit)
    begin = time.monotonic()
    if by == "auto" and num_variables(topology) <= MOST_VARIABLES:
        with suppress(NoSchedule, Unsupported):
            found = _optimum_by_model(topology, solver, chosen, time_limit and time_limit / 2)
            if found.exact:
                return found
    left = time_limit and time_limit - (time.monotonic() - begin)
    return _CutSearch(topology, Cuts.of(topology, parts), solver, chosen, left).optimum()


def num_variables(topology: Topology) -> int:
    """Return the number of variables of a network's model, without building it.

    Examples
    --------
    >>> from tutti.topologies.families.grids import ring
    >>> num_variables(ring(4))
    116
    """
    ranks, links = topology.num_ranks, topology.num_links
    arcs = ranks * (ranks - 1) if topology.num_switches else links
    indirect = arcs + ranks * links if topology.num_switches else 0
    return ranks + 2 * arcs + 2 * ranks * (ranks + arcs) + indirect


def _optimum_by_model(topology: Topology, solver: str, options: Any, time_limit: float | None) -> TreeOptimum:
    """Return the optimum by the Pyomo model, unless it is too large for its time limit.

    Seconds to build and solve it on one core grow with the cube of its variables. Measured, CPU s: 1.7 for
    5,776 variables (``gen_kautz:4,24``), 6.1 for 10,264 (``gen_kautz:4,32``), 12.7 for 16,360
    (``gen_kautz:4,40``), 17.5 for 13,284 (``torus:6x6``), 39 for 24,451 (``torus:7x7``), 104 for 23,080
    (``gen_kautz:4,48``). The estimate is that of the fastest network, so it refuses only hopeless models.
    """
    from tutti.models.allreduce.model import model_optimum  # Pyomo is slow to import

    variables = num_variables(topology)
    seconds = 0.3 * (variables / 5_000) ** 3
    refuse_too_large(f"allreduce_lp on {topology.name}: {PROGRAM}", variables, time_limit, seconds)
    return model_optimum(topology, solver, options, time_limit)


class _CutSearch:
    """The arcs and cuts that are known so far, and the last program that was solved."""

    def __init__(
        self, topology: Topology, cuts: Cuts, solver: str, options: Any, time_limit: float | None
    ) -> None:
        self.topology, self.solver, self.options = topology, solver, options
        self.arcs, self.cuts = Arcs.of(topology), cuts
        self.time_limit, self.begin = time_limit, time.monotonic()
        self.program: CutProgram | None = None
        self.result: SolverResult | None = None
        self.effort = Effort(f"{PROGRAM}, by its cuts")

    def optimum(self) -> TreeOptimum:
        """Solve the program again and again, until no cut or route is found that it lacks."""
        while True:
            ended = self.solve()
            if not ended and self.extend():
                continue
            found = self.proven()
            if found.exact or ended or not _added(self.cuts, found.shares.broken):
                return found

    @property
    def left(self) -> float | None:
        """Seconds of the time limit; None without one."""
        return None if self.time_limit is None else self.time_limit - (time.monotonic() - self.begin)

    def solve(self) -> bool:
        """Solve the program over the cuts and arcs known; return whether a limit ended it.

        If so, the last program that was solved is kept.
        """
        begin = now()
        program = master(self.arcs, self.cuts)
        start = None
        if self.result is not None and self.result.basis is not None:
            start = Start(basis=self.result.basis.grown(program.model))
        self.effort.build_s += now() - begin
        result = solve(program.model, self.solver, self.options.within(self.left), start=start)
        self.effort.add(result)
        if result.values is None or result.duals is None:
            if self.result is None:
                raise NoSchedule(
                    f"allreduce_lp on {self.topology.name}: {result.solver} stopped with "
                    f"'{result.termination}' before anything was proven; raise its limits"
                )
            return True
        self.program, self.result = program, result
        return False

    def extend(self) -> bool:
        """Add the cuts and routes that the solution needs; return whether there were any."""
        begin, (x, y) = now(), self._solution
        broken = _broken(self.arcs, x)
        more = self.topology.num_switches > 0 and self._add_routes(y)
        more |= _added(self.cuts, broken)
        self.effort.build_s += now() - begin
        return more

    def _add_routes(self, duals: FloatArray) -> bool:
        """Add a shortest route for each pair that is crossed by more weight than the route is long."""
        links, ranks = self.topology.num_links, self.topology.num_ranks
        weighed = map(WeightedCut, self.cuts.half, duals[links:].tolist(), self.cuts.inside)
        needed = crossed((cut for cut in weighed if cut.weight > 0), np.zeros((2, ranks, ranks)))
        short = [
            route
            for length, route in routes_over_switches(self.topology, duals[:links].tolist())
            if needed[self.topology.source[route[0]], self.topology.target[route[-1]]] > length + TOLERANCE
        ]
        added = [self.arcs.add(route) for route in short]
        return any(added)

    def proven(self) -> TreeOptimum:
        """Return the bounds by the last solution: its rational vertex, or else the best of its values."""
        return self._vertex() or tightest(
            self.topology, (self._optimum(x, y) for x, y in whole_solutions(*self._solution))
        )

    @property
    def _solution(self) -> tuple[FloatArray, FloatArray]:
        """Values and row duals for all present columns and rows, none negative."""
        if self.result is None or self.result.values is None or self.result.duals is None:
            raise NoSchedule(f"allreduce_lp on {self.topology.name}: nothing is solved yet")
        columns = self.topology.num_ranks + 2 * len(self.arcs)
        rows = self.topology.num_links + len(self.cuts)
        return _padded(self.result.values, columns), _padded(self.result.duals, rows)

    def _vertex(self) -> TreeOptimum | None:
        """Return what the exact vertex proves; None without a basis, or if its rationals are too long."""
        program, result = self.program, self.result
        if program is None or result is None:
            return None
        cost = (program.model.cost > 0).astype(int).tolist()
        right = np.zeros(program.model.num_rows, dtype=np.int64)
        right[: self.topology.num_links] = program.bandwidth
        exact = basic_solution(program.matrix, result.basis, right.tolist(), cost)
        if exact is None:
            return None
        x, y = exact
        columns = self.topology.num_ranks + 2 * len(self.arcs)
        return self._optimum([*x, *[0] * (columns - len(x))], y)

    def _optimum(self, x: Sequence[int], y: Sequence[int]) -> TreeOptimum | None:
        links = self.topology.num_links
        weights = [*y[links:], *[0] * (links + len(self.cuts) - len(y))]
        return proven_optimum(self.arcs, self.cuts, x, (weights, y[:links]), self.effort)


def _padded(values: FloatArray, count: int) -> FloatArray:
    padded = np.zeros(count)
    padded[: len(values)] = np.maximum(values, 0.0)
    return padded


def _broken(arcs: Arcs, values: FloatArray) -> list[tuple[int, BoolArray]]:
    """Return halves and cuts that a solver's x, c^BC and c^RE break by more than its tolerance."""
    near = on_grid(values, FINE)
    slack = max(1, int(TOLERANCE * sum(near[: arcs.topology.num_ranks])))
    return [
        (half, inside)
        for half, part in enumerate(Half.both(arcs, near))
        for inside in broken_cuts(part, slack)
    ]


def _added(cuts: Cuts, found: Iterable[tuple[int, BoolArray]]) -> bool:
    """Add halves and cuts; return whether any is new."""
    added = [cuts.add(half, inside) for half, inside in found]
    return any(added)


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
    >>> from tutti.topologies.families.grids import ring
    >>> found = balanced_shares(allreduce_optimum(ring(4)), "highs")
    >>> bool((found.capacity[0] == found.capacity[1]).all())
    True
    """
    arcs, topology = optimum.arcs, optimum.arcs.topology
    cuts = Cuts.of(topology, ())
    _added(cuts, [(cut.half, cut.inside) for cut in optimum.proof.cuts])
    while True:  # measured: one program, on networks of 9 to 16 ranks
        program = _BalancedProgram(optimum, cuts)
        result = solve(program.model, solver, find_backend(solver, [Feature.LP]).options())
        if result.values is None:
            return None
        if _added(cuts, _broken(arcs, np.maximum(result.values[: topology.num_ranks + 2 * len(arcs)], 0.0))):
            continue
        shares = _balanced_vertex(optimum, program, result)
        if shares is None or (shares.theta == 1 and shares.rate == optimum.shares.rate):
            return shares
        if not _added(cuts, shares.broken):
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
        self.matrix = _balanced_matrix(first.matrix, ranks, ratio)
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


def _balanced_matrix(first: csr_array, ranks: int, ratio: FloatArray) -> csr_array:
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


def _balanced_vertex(
    optimum: TreeOptimum, program: _BalancedProgram, result: SolverResult
) -> ScaledSolution | None:
    """Return the shares that the solver's basis means; None if that is no vertex in whole numbers."""
    exact = basic_solution(program.matrix, result.basis, program.right, program.cost.tolist())
    arcs = optimum.arcs
    return None if exact is None else shares_of(arcs, exact[0][: arcs.topology.num_ranks + 2 * len(arcs)])


TREES, ANY = "tree schedules", "any schedule"
"""Values of ``scope`` in the bound's certificate: the schedules for which it is a bound."""


def lp_bound(
    topology: Topology, collective: Collective, partition: Bound | None, *, asked: bool = False
) -> Bound | None:
    """Return the bound, with the exact optimum of (B.5) as its value, or a lower one that was proven in time.

    Parameters
    ----------
    topology, collective
        The problem.
    partition
        Its partition bound, whose parts are tried first.
    asked
        Whether to solve it for any network, in at most `ASKED_SECONDS`.

    Returns
    -------
    Bound or None
        None if the collective is no allreduce in one group of all ranks, or the network is too large to solve
        it unasked, or nothing was proven in time, or its numbers do not fit 64 bits.
    """
    if collective.kind is not Kind.ALLREDUCE or collective.groups is not None:
        return None
    if not asked and not is_small(topology):
        return None
    parts = partition.certificate["parts"] if partition else ()
    try:
        limit = ASKED_SECONDS if asked else 10.0  # measured: below 1 s on networks that are small
        found = allreduce_optimum(topology, parts, time_limit=limit, by="cuts")
    except (InputError, NoSchedule):  # numbers beyond 64 bits, or no time: the other bounds must suffice
        return None
    offered = zip(topology.bandwidth, found.proof.lengths, strict=True)
    capacity = sum((b * length for b, length in offered), Fraction(0))
    certificate: dict[str, Any] = {
        "scope": TREES,
        "attained": found.exact,
        "crossed": json_number(found.lower * capacity),
        "capacity": json_number(capacity),
        **found.proof.document(),
    }
    if partition is not None and partition.value >= found.lower:
        certificate |= {"scope": ANY, "partition": dict(partition.certificate)}
    return Bound("lp", found.lower, SECONDS_PER_BYTE, certificate)


def is_small(topology: Topology) -> bool:
    """Return whether the bound is found unasked, by the ranks, direct links and pairs that switches join."""
    return topology.num_ranks <= 64 and len(Arcs.of(topology)) <= 2000
