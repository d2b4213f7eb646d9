"""All-to-all as a multi-commodity flow (dissertation A.1.5): the LP, its proofs, its schedules."""

from models.all_to_all.certificate import FlowError, Interval, SourceFlow, lower_bound, upper_bound
from models.all_to_all.decomposition import PathFlow
from models.all_to_all.demand import Demand
from models.all_to_all.method import METHOD, McfOptions
from models.all_to_all.symmetric import OrbitOptimum, paths_by_orbits, solve_by_orbits

__all__ = [
    "METHOD",
    "Demand",
    "FlowError",
    "Interval",
    "McfOptions",
    "OrbitOptimum",
    "PathFlow",
    "SourceFlow",
    "lower_bound",
    "paths_by_orbits",
    "solve_by_orbits",
    "upper_bound",
]
