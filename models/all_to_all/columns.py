"""Linear program (A.1) by column generation (Dantzig and Wolfe) on the orbits: exact bounds on both sides.

A column is a shortest-path tree of one source, known by what it loads on each link orbit. The master chooses
convex combinations λ of each source's columns that minimize θ,

    sum over s, k of weight_s load_{s,k}(O) λ_{s,k} ≤ θ capacity(O)   for every link orbit O   (dual: length)
    sum over k of λ_{s,k} = 1                                         for every source s,

and its duals are lengths of the links. Rounded to integers, they give each source a better tree, if there is
one, and their distances prove a lower bound. The upper bound is the load of the trees with rational λ. Both
are computed in integers, so the solver's tolerance is in neither.

Source: dissertation LP (A.1); Dantzig and Wolfe, Decomposition principle for linear programs, 1960.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from tutti.models.all_to_all.certificate import Interval, SourceFlow, largest_ratio
from tutti.models.all_to_all.reduction import ReducedProblem
from tutti.models.all_to_all.rounding import rational_lengths, rounded_shares
from tutti.models.solvers.outcome import SAME
from tutti.topologies.errors import NoSchedule, TuttiError
from tutti.topologies.exact import FloatArray, Int64Array
from tutti.topologies.kernels import now


@dataclass
class ColumnGeneration:
    """The state of a column generation: its columns and what has been proven.

    Parameters
    ----------
    problem
        The problem on orbits.
    tolerance
        The relative gap to stop at.
    time_limit
        Seconds, or None.
    """

    problem: ReducedProblem
    tolerance: float = SAME
    time_limit: float | None = None
    lower: Fraction = Fraction(0)
    upper: Fraction | None = None
    lengths: Int64Array = field(init=False)
    rounds: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Begin with lengths that are inverse bandwidths."""
        self._owners: list[int] = []
        self._loads: list[Int64Array] = []
        self._lengths: list[Int64Array] = []
        self._shares: list[int] = []
        self._denominator = 1
        self._known: set[tuple[int, bytes]] = set()
        self._end = now() + (self.time_limit if self.time_limit is not None else np.inf)
        start = np.bincount(self.problem.orbit) / self.problem.capacity
        self.lengths = self.problem.integer_lengths(start)
        loads, _ = self.problem.shortest_loads(self.lengths)
        mean = float(self.problem.weights @ loads.sum(axis=1)) / float(self.problem.capacity.sum())
        self._master = RestrictedMaster(self.problem, mean)

    def run(self) -> Interval:
        """Generate columns until the bounds are within the tolerance, or no source has a better tree.

        Raises
        ------
        NoSchedule
            If the time ends before both bounds are known.
        """
        self._price(self.lengths.astype(np.float64))
        duals = np.zeros(0)
        while not self._done():
            values, duals = self._master.solve()
            owners = np.array(self._owners)
            for shares, denominator in rounded_shares(values, owners):
                used = [i for i, share in enumerate(shares) if share]
                weights = self.problem.weights[[self._owners[i] for i in used]].astype(object)
                counts = np.array([shares[i] for i in used], dtype=object)
                loads = (counts * weights) @ np.array([self._loads[i] for i in used]).astype(object)
                bound = self.problem.unit * largest_ratio(loads, self.problem.capacity) / denominator
                if self.upper is None or bound < self.upper:
                    self.upper, self._shares, self._denominator = bound, shares, denominator
            if self._done():
                break
            # Half of the best lengths so far stays in the next ones (Wentges), which then jump about less.
            best = self.lengths / (self.lengths.astype(np.float64) @ self.problem.capacity)
            if not self._price((best + duals) / 2) and not self._price(duals):
                break
        if self.upper is None:
            raise NoSchedule(
                f"all-to-all on {self.problem.topology.name}: the time is over before a first flow"
            )
        if self.lower < self.upper:  # simple ratios near the master's duals may prove more
            for lengths in rational_lengths(duals)[:1]:
                if lengths.max() <= self.problem.greatest_length:
                    self._prove(lengths, self.problem.shortest_loads(lengths)[1])
        return Interval(self.lower, self.upper)

    def _done(self) -> bool:
        if self.upper is None:
            return now() > self._end
        close = self.upper <= self.lower * (1 + Fraction(self.tolerance))
        return close or now() > self._end

    def _price(self, lengths: FloatArray) -> int:
        """Add the shortest trees for these lengths, and return how many are new; the lower bound may rise."""
        exact = self.problem.integer_lengths(lengths)
        loads, costs = self.problem.shortest_loads(exact)
        self._prove(exact, costs)
        self.rounds += 1
        return sum(self._add(row, load, exact) for row, load in enumerate(loads))

    def _prove(self, lengths: Int64Array, costs: Int64Array) -> None:
        """Take the lower bound of these lengths, with the costs of their shortest paths, if it is larger."""
        bound = self.problem.lower_bound(lengths, costs)
        if bound > self.lower:
            self.lower, self.lengths = bound, lengths

    def _add(self, row: int, load: Int64Array, lengths: Int64Array) -> bool:
        """Add the tree of source `row` that is shortest for these lengths; return whether it is new."""
        key = (row, load.tobytes())
        if key in self._known:
            return False
        self._known.add(key)
        self._owners.append(row)
        self._loads.append(load)
        self._lengths.append(lengths)
        self._master.add(row, load)
        return True

    def flow(self) -> SourceFlow:
        """Return the flow of the representatives whose bound is `upper`: the sum of its trees."""
        represented = self.problem.represented
        amounts = np.zeros((len(self.problem.sources), represented.topology.num_links), dtype=np.int64)
        for index, share in enumerate(self._shares):
            if share:
                row = self._owners[index]
                amounts[row] += share * self.problem.tree_flow(row, self._lengths[index])
        return SourceFlow(represented, amounts, represented.denominator * self._denominator)


class RestrictedMaster:
    """The restricted master of the column generation, kept warm in HiGHS between rounds.

    It minimizes θ over convex combinations of columns. Its θ is in units of the first trees' mean load over
    capacity, so that numbers are near 1.

    Column 0 is θ; then one a tree, in the order in which they are added. Row O < orbits is the capacity of
    link orbit O, divided by it; row orbits + s is the convexity of source s.
    """

    def __init__(self, problem: ReducedProblem, mean: float) -> None:
        import highspy

        self._problem, self._highspy = problem, highspy
        self._factor = 1.0 / (problem.capacity * mean)
        self._highs: Any = highspy.Highs()
        self._highs.setOptionValue("output_flag", False)
        orbits, rows = problem.num_orbits, problem.num_orbits + len(problem.sources)
        lower, upper = np.full(rows, -np.inf), np.zeros(rows)
        lower[orbits:] = upper[orbits:] = 1.0
        nothing = np.empty(0, dtype=np.int32)
        self._accept(
            self._highs.addRows(rows, lower, upper, 0, np.zeros(rows, np.int32), nothing, np.empty(0))
        )
        index = np.arange(orbits, dtype=np.int32)
        self._accept(self._highs.addCol(1.0, 0.0, np.inf, orbits, index, np.full(orbits, -1.0)))

    def add(self, row: int, load: Int64Array) -> None:
        """Add a tree of source `row` with these loads (orbits,)."""
        orbits = np.flatnonzero(load)
        index = np.append(orbits, self._problem.num_orbits + row).astype(np.int32)
        # A source stands for its orbit, and loads each link orbit as often.
        value = np.append((load * self._factor)[orbits] * self._problem.weights[row], 1.0)
        self._accept(self._highs.addCol(0.0, 0.0, np.inf, len(index), index, value))

    def solve(self) -> tuple[FloatArray, FloatArray]:
        """Return the shares λ of the trees and the lengths (orbits,), as floats.

        Raises
        ------
        TuttiError
            If the solver fails on a program that has a solution.
        """
        self._accept(self._highs.run())
        if self._highs.getModelStatus() != self._highspy.HighsModelStatus.kOptimal:
            raise TuttiError(f"HiGHS stopped on a master problem: {self._highs.getModelStatus()}")
        solution = self._highs.getSolution()
        duals = np.array(solution.row_dual)[: self._problem.num_orbits]
        return np.array(solution.col_value)[1:], np.maximum(-duals, 0) / self._problem.capacity

    def _accept(self, status: Any) -> None:
        if status == self._highspy.HighsStatus.kError:
            raise TuttiError("HiGHS refused a master problem")
