"""Solvers behind one function: a Pyomo model is compiled to matrices once and handed over as arrays."""

from models.solvers.compiled import CompiledModel, compile_model
from models.solvers.features import Feature
from models.solvers.glop import GlopOptions
from models.solvers.highs import HighsOptions
from models.solvers.outcome import Outcome, SolutionStatus, SolverResult, Termination
from models.solvers.registry import SolverInfo, find_backend, installed_solvers, known_solvers
from models.solvers.solving import solve

__all__ = [
    "CompiledModel",
    "Feature",
    "GlopOptions",
    "HighsOptions",
    "Outcome",
    "SolutionStatus",
    "SolverInfo",
    "SolverResult",
    "Termination",
    "compile_model",
    "find_backend",
    "installed_solvers",
    "known_solvers",
    "solve",
]
