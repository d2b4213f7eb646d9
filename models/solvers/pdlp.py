"""PDLP, OR-Tools' first-order method, by arrays (ortools/pdlp).

It stops at a relative accuracy, so what it calls optimal is approximate: certify it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from tutti.models.solvers.backend import Backend, printing_to, tiny
from tutti.models.solvers.compiled import CompiledModel
from tutti.models.solvers.options import Feature, SolverOptions, Threads
from tutti.models.solvers.outcome import NOTHING, Extras, Outcome, SolutionStatus, Start, Termination
from tutti.topologies.errors import InputError


@dataclass(frozen=True, kw_only=True)
class PdlpOptions(SolverOptions):
    """Options of PDLP (`ortools/pdlp/solvers.proto`).

    Parameters
    ----------
    tolerance
        Relative and absolute tolerance of residuals and of the duality gap; None for PDLP's 1e-6.
    presolve
        Whether to use GLOP's presolve; a start is then lost.
    threads
        At least 1.

    The others are those of `SolverOptions`.
    """

    OWNER: ClassVar[str] = "pdlp"

    presolve: bool = False
    threads: Threads = 1


# ortools/pdlp/solve_log.proto: TerminationReason, without its prefix.
PREFIX = "TERMINATION_REASON_"
TERMINATIONS = {
    "OPTIMAL": Termination.OPTIMAL,
    "PRIMAL_INFEASIBLE": Termination.INFEASIBLE,
    "DUAL_INFEASIBLE": Termination.UNBOUNDED,
    "PRIMAL_OR_DUAL_INFEASIBLE": Termination.INFEASIBLE_OR_UNBOUNDED,
    "TIME_LIMIT": Termination.TIME_LIMIT,
    "ITERATION_LIMIT": Termination.ITERATION_LIMIT,
    "KKT_MATRIX_PASS_LIMIT": Termination.ITERATION_LIMIT,
    "INTERRUPTED_BY_USER": Termination.INTERRUPTED,
    **dict.fromkeys(
        ("NUMERICAL_ERROR", "INVALID_PROBLEM", "INVALID_INITIAL_SOLUTION", "INVALID_PARAMETER"),
        Termination.ERROR,
    ),
}


def run(model: CompiledModel, options: PdlpOptions, extras: Extras = NOTHING) -> Outcome:
    """Pass the arrays to PDLP, solve and read the answer.

    Raises
    ------
    InputError
        If PDLP refuses the model, an option or the start.
    """
    from ortools.pdlp import solve_log_pb2
    from ortools.pdlp.python import pdlp

    arguments = [_program(pdlp, model), _native_options(options)]
    if extras.start is not None and extras.start.values is not None:
        arguments.append(_start(pdlp, model, extras.start))
    with printing_to(options.log):
        result = pdlp.primal_dual_hybrid_gradient(*arguments)
    log = result.solve_log
    native = solve_log_pb2.TerminationReason.Name(log.termination_reason).removeprefix(PREFIX)
    if native.startswith("INVALID"):
        raise InputError(f"pdlp does not accept model {model.name} or its options: {log.termination_string}")
    return _read(model, result, TERMINATIONS.get(native, Termination.UNKNOWN))


def _program(pdlp: Any, model: CompiledModel) -> Any:
    """Return the minimization; the costs of a maximum change their sign."""
    program = pdlp.QuadraticProgram()
    program.objective_vector = model.sign * model.cost
    program.objective_offset = model.sign * model.offset
    program.constraint_matrix = model.matrix().tocsc()
    program.constraint_lower_bounds = model.row_lower.copy()
    program.constraint_upper_bounds = model.row_upper.copy()
    program.variable_lower_bounds = model.lower.copy()
    program.variable_upper_bounds = model.upper.copy()
    return program


def _native_options(options: PdlpOptions) -> Any:
    from ortools.pdlp import solvers_pb2

    native = solvers_pb2.PrimalDualHybridGradientParams()
    native.num_threads = options.threads
    native.presolve_options.use_glop = options.presolve
    native.verbosity_level = 0 if options.log is None else 2  # a line for each iteration
    criteria = native.termination_criteria
    if options.time_limit is not None:
        criteria.time_sec_limit = options.time_limit
    if options.iteration_limit is not None:
        criteria.iteration_limit = options.iteration_limit
    if options.tolerance is not None:
        criteria.simple_optimality_criteria.eps_optimal_absolute = options.tolerance
        criteria.simple_optimality_criteria.eps_optimal_relative = options.tolerance
    return native


def _start(pdlp: Any, model: CompiledModel, start: Start) -> Any:
    solution = pdlp.PrimalAndDualSolution()
    solution.primal_solution = np.asarray(start.values, np.float64)
    duals = np.zeros(model.num_rows) if start.duals is None else start.duals
    solution.dual_solution = model.sign * np.asarray(duals, np.float64)
    return solution


def _read(model: CompiledModel, result: Any, termination: Termination) -> Outcome:
    iterations = int(result.solve_log.iteration_count)
    if termination is not Termination.OPTIMAL:
        # Its last iterate may violate any constraint.
        return Outcome(termination, SolutionStatus.NONE, iterations=iterations)
    values = np.array(result.primal_solution)
    solution_stats = result.solve_log.solution_stats.convergence_information
    kind = result.solve_log.solution_type
    bound = next((model.sign * c.dual_objective for c in solution_stats if c.candidate_type == kind), None)
    objective, duals = float(model.cost @ values + model.offset), model.sign * np.array(result.dual_solution)
    return Outcome.found(termination, objective, bound, values, duals=duals, iterations=iterations)


PDLP = Backend(
    name="pdlp",
    package="ortools",
    distribution="ortools",
    features=frozenset({Feature.LP, Feature.PDLP, Feature.DUALS, Feature.START, Feature.THREADS}),
    options=PdlpOptions,
    run=run,
    install="pip install ortools",
    modules=(
        "ortools.pdlp.python.pdlp",
        "ortools.pdlp.solve_log_pb2",
        "ortools.pdlp.solvers_pb2",
        "scipy.sparse",
    ),
    rehearse=partial(run, tiny(), PdlpOptions()),
    tolerance=1e-6,
)
