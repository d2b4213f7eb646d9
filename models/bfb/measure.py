"""What BFB costs to make: the counting beside the linear programs, for benchmarks."""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction

from models.bfb.counting import workloads
from models.bfb.frontiers import frontiers
from topologies.topology import Topology


@dataclass(frozen=True)
class Comparison:
    """U of every subproblem of one topology, twice.

    Parameters
    ----------
    counting_s, lp_s
        Seconds from the topology to all U: by counting, and by one linear program (3.1) each.
    programs, variables, constraints
        How many linear programs there were, and their sizes together.
    solver
        Who solved them, with version.
    equal
        Whether both gave the same U everywhere.
    tb
        T_B in units of M/B; None where the network has no degree.
    """

    counting_s: float
    lp_s: float
    programs: int
    variables: int
    constraints: int
    solver: str
    equal: bool
    tb: Fraction | None

    @property
    def ratio(self) -> float:
        """How many times faster the counting is."""
        return self.lp_s / self.counting_s


def compare(topology: Topology, solver: str = "highs") -> Comparison:
    """Return what counting and the linear programs take on one topology.

    Kernels compile at their first use, so call `workloads` on something small first.
    """
    from models.bfb.lp import lp_workloads  # Pyomo is slow to import

    begin = time.perf_counter()
    counted = workloads(topology)
    middle = time.perf_counter()
    solved = lp_workloads(frontiers(topology), solver)
    end = time.perf_counter()
    values = [counted.values[i] for i in counted.of_job]
    return Comparison(
        middle - begin,
        end - middle,
        sum(value > 0 for value in values),
        solved.variables,
        solved.constraints,
        solved.solver,
        values == list(solved.of_job),
        counted.tb,
    )
