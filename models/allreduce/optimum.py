r"""The optimum of linear program (B.5), from cut to cut: exact where its rationals can be told.

Solve the program over the cuts and routes known (`models.allreduce.cuts`); find the cuts that its
solution breaks, by max-flow, and the routes that its lengths leave too short; and again, until there are
none. The solver's basis then gives the vertex in rationals. From it come, in integers, a lower bound on the
time (`cut_proof`) and capacities and roots whose trees take exactly so long (`Shares`). Where the two do not
meet they are an interval that holds all the same.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from models.all_to_all.rounding import common_parts
from models.allreduce.certificate import (
    CutProof,
    Shares,
    crossed,
    cut_proof,
    even_shares,
    halves_of,
    shares_of,
)
from models.allreduce.cuts import Arcs, Cuts, Master, broken_cuts, grown, master, shortest_routes
from models.allreduce.vertex import basic_solution
from models.solvers import SolverResult, Start, find_backend, solve
from models.solvers.features import Feature
from topologies.errors import InputError, NoSchedule
from topologies.exact import FloatArray
from topologies.topology import Topology

MOST_ROUNDS = 1000

TOLERANCE = 1e-7
"""Relative: what a cut or a route must be short of to be added."""

_FINE, _COARSE = 2**44, 2**29
_WIDE = 1e-3
"""All of a solution together, where it is rounded to a grid: to look for cuts, and to scale it exactly."""


@dataclass
class Effort:
    """What it took: `rounds` programs, of which `variables` and `constraints` are the last one's."""

    rounds: int = 0
    build_s: float = 0.0
    solve_s: float = 0.0
    variables: int = 0
    constraints: int = 0
    solver: str = ""


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best that trees can do, from both sides.

    Parameters
    ----------
    arcs
        The arcs that `shares` has capacities for.
    shares
        What attains `upper`.
    proof
        What proves `lower`.
    effort
        What it took.
    """

    arcs: Arcs
    shares: Shares
    proof: CutProof
    effort: Effort

    @property
    def lower(self) -> Fraction:
        """T / M is at least this for all trees; s/B."""
        return self.proof.value

    @property
    def upper(self) -> Fraction:
        """T / M of some trees; s/B."""
        return self.shares.value

    @property
    def exact(self) -> bool:
        """Whether both meet."""
        return self.lower == self.upper

    @property
    def gap(self) -> float:
        """Upper over lower, less one."""
        return float(self.upper / self.lower - 1)


def allreduce_optimum(
    topology: Topology,
    parts: Sequence[Sequence[int]] = (),
    solver: str = "highs",
    options: Any = None,
    time_limit: float | None = None,
) -> Optimum:
    """Return the optimum of (B.5).

    Parameters
    ----------
    topology
        Any network.
    parts
        Sets of nodes whose cuts are likely to matter, such as a partition that bounds.
    solver, options
        As `models.solvers.solve`. One that returns a basis gives exact optima, others intervals.
    time_limit
        Seconds; what is proven by then is returned.

    Raises
    ------
    InputError
        If the solver is unknown or not installed, or the options are another solver's.
    NoSchedule
        If the time, or a limit in the options, is over before anything is proven.

    Examples
    --------
    >>> from topologies.families import mesh
    >>> found = allreduce_optimum(mesh(3, 3))
    >>> found.exact, found.upper * 50 * 10**9
    (True, Fraction(2, 3))
    """
    backend = find_backend(solver, [Feature.LP, Feature.DUALS])
    chosen = backend.options() if options is None else options
    search = _Search(topology, solver, chosen, Arcs.of(topology), Cuts.of(topology, parts), time_limit)
    while True:
        ended = search.solve()
        last = ended or search.effort.rounds >= MOST_ROUNDS
        if not last and search.extend():
            continue
        found = search.proven()
        if found.exact or last or not search.learn(found.shares):
            return found


@dataclass
class _Search:
    """What is known so far: arcs and cuts, and the last program that was solved."""

    topology: Topology
    solver: str
    options: Any
    arcs: Arcs
    cuts: Cuts
    time_limit: float | None
    program: Master | None = None
    result: SolverResult | None = None
    effort: Effort = field(default_factory=Effort)
    begin: float = field(default_factory=time.monotonic)

    def solve(self) -> bool:
        """Solve the program over the cuts and arcs known; return whether a limit ended it.

        Then the last program that was solved still stands.
        """
        begin = time.perf_counter()
        program = master(self.arcs, self.cuts)
        start = None
        if self.result is not None and self.result.outcome.basis is not None:
            start = Start(basis=grown(self.result.outcome.basis, program.model))
        self.effort.build_s += time.perf_counter() - begin
        result = solve(program.model, self.solver, self._limited(), start=start)
        self.effort.rounds += 1
        self.effort.solve_s += result.solve_s
        self.effort.solver = f"{result.solver} {result.version}"
        if result.values is None or result.duals is None:
            if self.result is None:
                raise NoSchedule(
                    f"allreduce_lp on {self.topology.name}: {result.solver} stopped with "
                    f"'{result.termination}' before anything was proven; raise its limits"
                )
            return True
        self.effort.variables, self.effort.constraints = result.columns, result.rows
        self.program, self.result = program, result
        return False

    def _limited(self) -> Any:
        """Return the options with what is left of the time."""
        if self.time_limit is None:
            return self.options
        left = max(self.time_limit - (time.monotonic() - self.begin), 1e-3)
        own = self.options.time_limit
        return replace(self.options, time_limit=left if own is None else min(own, left))

    def extend(self) -> bool:
        """Add the cuts and routes that the solution needs; return whether there were any."""
        begin, (x, y) = time.perf_counter(), self._solution
        near = _on_grid(x, _FINE)
        parts = list(halves_of(self.arcs, near))
        more = self.topology.num_switches > 0 and self._add_routes(y)
        slack = max(1, int(TOLERANCE * sum(near[: self.topology.num_ranks])))
        for half, part in enumerate(parts):
            for inside in broken_cuts(part, slack):
                more |= self.cuts.add(half, inside)
        self.effort.build_s += time.perf_counter() - begin
        return more

    def learn(self, shares: Shares) -> bool:
        """Add the cuts that keep a solution's trees from fitting; return whether any was new."""
        added = [self.cuts.add(half, inside) for half, inside in shares.broken]
        return any(added)

    def _add_routes(self, duals: FloatArray) -> bool:
        """Add a shortest route for each pair that more weight crosses than it is long."""
        links, ranks = self.topology.num_links, self.topology.num_ranks
        weighed = zip(self.cuts.half, duals[links:].tolist(), self.cuts.inside, strict=True)
        needed = crossed([cut for cut in weighed if cut[1] > 0], np.zeros((2, ranks, ranks)))
        short = [
            route
            for length, route in shortest_routes(self.topology, duals[:links].tolist())
            if needed[self.topology.source[route[0]], self.topology.target[route[-1]]] > length + TOLERANCE
        ]
        added = [self.arcs.add(route) for route in short]
        return any(added)

    def proven(self) -> Optimum:
        """Return what the last solution proves: its vertex in rationals, or else the best of its values.

        Without a basis these are the simple fractions that they are close to, or lie on a grid.
        """
        found = self._vertex()
        if found is None:
            x, y = self._solution
            grid = self._optimum(_on_grid(x, _COARSE), _on_grid(y, _FINE))
            simple = self._optimum(_simple(x), _simple(y))
            found = min((way for way in (simple, grid) if way), key=lambda way: way.gap, default=None)
        if found is None:
            raise NoSchedule(
                f"allreduce_lp on {self.topology.name}: the duals of {self.effort.solver} prove nothing"
            )
        return found

    @property
    def _solution(self) -> tuple[FloatArray, FloatArray]:
        """Values and row duals for all columns and rows there are now, none negative."""
        if self.result is None or self.result.values is None or self.result.duals is None:
            raise NoSchedule(f"allreduce_lp on {self.topology.name}: nothing is solved yet")
        columns = self.topology.num_ranks + 2 * len(self.arcs)
        rows = self.topology.num_links + len(self.cuts)
        return _padded(self.result.values, columns), _padded(self.result.duals, rows)

    def _vertex(self) -> Optimum | None:
        """Return what the exact vertex proves; None without a basis, or if its rationals are too long."""
        program, result = self.program, self.result
        if program is None or result is None or result.outcome.basis is None:
            return None
        cost = (program.model.cost > 0).astype(int).tolist()
        right = np.zeros(program.model.num_rows, dtype=np.int64)
        right[: self.topology.num_links] = program.bandwidth
        exact = basic_solution(program.matrix, result.outcome.basis, right.tolist(), cost)
        if exact is None or min(exact[0][0]) < 0:
            return None
        (x, _), (y, _) = exact
        columns = self.topology.num_ranks + 2 * len(self.arcs)
        try:
            return self._optimum([*x, *[0] * (columns - len(x))], y)
        except InputError:  # numbers beyond 64 bits
            return None

    def _optimum(self, x: Sequence[int] | None, y: Sequence[int] | None) -> Optimum | None:
        if x is None or y is None:
            return None
        links = self.topology.num_links
        weights = [*y[links:], *[0] * (links + len(self.cuts) - len(y))]
        proof = cut_proof(self.topology, self.cuts, weights, y[:links])
        if proof is None:
            return None
        shares = shares_of(self.arcs, x)
        found = Optimum(self.arcs, shares, proof, self.effort) if shares.rate else None
        if (
            found is None or found.gap > _WIDE
        ):  # not all ranks reached, or bandwidths too far apart for floats
            even = Optimum(self.arcs, even_shares(self.arcs), proof, self.effort)
            found = even if found is None or even.upper < found.upper else found
        return found


def _padded(values: FloatArray, count: int) -> FloatArray:
    padded = np.zeros(count)
    padded[: len(values)] = np.maximum(values, 0.0)
    return padded


def _simple(values: FloatArray) -> list[int] | None:
    """Return simple fractions that these values are close to, over a common denominator left out."""
    parts = common_parts(values)
    return None if parts is None else np.rint(values * parts).astype(np.int64).tolist()


def _on_grid(values: FloatArray, total: int) -> list[int]:
    """Return nearly proportional whole numbers that sum to about `total`."""
    return [round(value) for value in (values * (total / max(float(values.sum()), 1e-300))).tolist()]
