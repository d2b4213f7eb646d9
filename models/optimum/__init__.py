"""True optima of the α-β scheduling problem on tiny networks, by CP-SAT."""

from models.optimum.clocked import Clocked
from models.optimum.method import METHOD, OptimumOptions, optimum
from models.optimum.program import Limits, Optimum, least_time

__all__ = ["METHOD", "Clocked", "Limits", "Optimum", "OptimumOptions", "least_time", "optimum"]
