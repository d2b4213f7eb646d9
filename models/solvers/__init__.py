"""Solvers behind one function: a Pyomo model is compiled to matrices once and passed on as arrays.

Read in this order: `compiled` (the matrices), `options`, `outcome` (what a solver starts from, and what it
returns), and `backend` (what a solver is to this project). Then read a back-end such as `pdlp`, `highs`,
`ortools` or `gurobi`, `registry` (all of them, and whether a program is too large for its time limit), and
`solving`, which has the function `solve`. A new solver is a module like `pdlp` and its place in `registry`.
"""

from tutti.models.solvers.backend import Backend
from tutti.models.solvers.command_line import CbcOptions, GlpkOptions
from tutti.models.solvers.compiled import CompiledModel, compile_model
from tutti.models.solvers.gurobi import GurobiOptions
from tutti.models.solvers.highs import HighsOptions, write_model
from tutti.models.solvers.options import Feature, SolverOptions
from tutti.models.solvers.ortools import CpsatOptions, GlopOptions, ScipOptions
from tutti.models.solvers.outcome import (
    Basis,
    Effort,
    Outcome,
    Progress,
    SolutionStatus,
    SolverResult,
    Start,
    Termination,
)
from tutti.models.solvers.pdlp import PdlpOptions
from tutti.models.solvers.registry import find_backend, known_solvers
from tutti.models.solvers.solving import solve

__all__ = [
    "Backend",
    "Basis",
    "CbcOptions",
    "CompiledModel",
    "CpsatOptions",
    "Effort",
    "Feature",
    "GlopOptions",
    "GlpkOptions",
    "GurobiOptions",
    "HighsOptions",
    "Outcome",
    "PdlpOptions",
    "Progress",
    "ScipOptions",
    "SolutionStatus",
    "SolverOptions",
    "SolverResult",
    "Start",
    "Termination",
    "compile_model",
    "find_backend",
    "known_solvers",
    "solve",
    "write_model",
]
