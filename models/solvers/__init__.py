"""Solvers behind one function: a Pyomo model is compiled to matrices once and handed over as arrays."""

from models.solvers.compiled import CompiledModel, compile_model
from models.solvers.cpsat import CpsatOptions
from models.solvers.features import Feature
from models.solvers.glop import GlopOptions
from models.solvers.gurobi import GurobiOptions
from models.solvers.highs import HighsOptions
from models.solvers.options import SolverOptions
from models.solvers.outcome import Outcome, SolutionStatus, SolverResult, Termination
from models.solvers.pdlp import PdlpOptions
from models.solvers.registry import SolverInfo, find_backend, installed_solvers, known_solvers
from models.solvers.scip import ScipOptions
from models.solvers.solving import solve
from models.solvers.start import Basis, Progress, Start

__all__ = [
    "Basis",
    "CompiledModel",
    "CpsatOptions",
    "Feature",
    "GlopOptions",
    "GurobiOptions",
    "HighsOptions",
    "Outcome",
    "PdlpOptions",
    "Progress",
    "ScipOptions",
    "SolutionStatus",
    "SolverInfo",
    "SolverOptions",
    "SolverResult",
    "Start",
    "Termination",
    "compile_model",
    "find_backend",
    "installed_solvers",
    "known_solvers",
    "solve",
]
